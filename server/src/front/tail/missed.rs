//! Entries that a client did not get: the first ones are listed, all are counted.

use std::rc::Rc;
use std::sync::Arc;

use logsvc_proto::Labels;
use logsvc_proto::encode::{write_json_text, write_label_object};
use logsvc_proto::time::write_rfc3339_nano;

use super::frame::Form;

/// Entries that one frame may list.
pub(super) const LISTED_MAX: usize = 1000;

/// An entry that was dropped.
#[derive(Clone, Debug)]
pub(super) struct MissedEntry {
    pub(super) timestamp_ns: i64,
    pub(super) labels: Arc<Labels>,
}

/// See the module. The lists are shared by all clients that missed the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Missed {
    lists: Vec<Rc<[MissedEntry]>>,
    listed: usize,
    count: u64,
}

impl Missed {
    /// How many entries were missed.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds `count` entries, of which `list` names some.
    pub(super) fn add(&mut self, list: &Rc<[MissedEntry]>, count: u64) {
        self.count += count;
        if self.listed < LISTED_MAX && !list.is_empty() {
            self.listed += list.len();
            self.lists.push(Rc::clone(list));
        }
    }

    /// Adds the missed entries of another list.
    pub(super) fn add_all(&mut self, other: &Missed) {
        for list in &other.lists {
            self.add(list, 0);
        }
        self.count += other.count;
    }

    /// Writes the listed entries with commas between them, at most about `max_bytes`
    /// but at least one. Leaves nothing behind.
    pub(super) fn write(self, form: Form, max_bytes: usize, out: &mut Vec<u8>) {
        let start = out.len();
        for entry in self.lists.iter().flat_map(|list| list.iter()).take(LISTED_MAX) {
            if out.len() - start >= max_bytes.max(1) {
                return;
            }
            if out.len() > start {
                out.push(b',');
            }
            out.extend_from_slice(b"{\"timestamp\":\"");
            match form {
                Form::Legacy => {
                    write_rfc3339_nano(Some(entry.timestamp_ns), out);
                    out.extend_from_slice(b"\",\"labels\":");
                    write_json_text(&entry.labels.canonical(), out);
                }
                Form::Plain | Form::Categorized => {
                    out.extend_from_slice(entry.timestamp_ns.to_string().as_bytes());
                    out.extend_from_slice(b"\",\"labels\":");
                    write_label_object(entry.labels.iter(), out);
                }
            }
            out.push(b'}');
        }
    }
}
