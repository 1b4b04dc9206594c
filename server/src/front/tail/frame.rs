//! Frames: some entries as JSON, made once and sent to many.

use std::rc::Rc;
use std::sync::Arc;

use logsvc_logql::engine::{EntryCategories, EntryPlace};
use logsvc_proto::Labels;
use logsvc_proto::encode::{LegacyStreamsWriter, StreamArrayWriter};
use logsvc_runtime::{Budget, Reservation};

use super::missed::{Missed, MissedEntry};

/// Most entries of a frame.
const FRAME_ENTRIES: usize = 100;

/// A frame gets no further entry once it has so many bytes.
const FRAME_BYTES: usize = 64 << 10;

/// How entries are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Form {
    /// Labels as an object.
    Plain,
    /// Labels by category.
    Categorized,
    /// As the deprecated interface has it.
    Legacy,
}

/// An entry as the query's pipeline left it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) timestamp_ns: i64,
    pub(super) labels: Arc<Labels>,
    pub(super) line: Box<[u8]>,
    pub(super) categories: Option<Arc<EntryCategories>>,
    /// What tells it apart from other entries of its time, if that is of use.
    pub(super) place: Option<EntryPlace>,
}

impl Entry {
    /// Its bytes in memory, about.
    pub(super) fn held_bytes(&self) -> u64 {
        (self.line.len() + 160) as u64
    }

    fn missed(&self) -> MissedEntry {
        MissedEntry { timestamp_ns: self.timestamp_ns, labels: Arc::clone(&self.labels) }
    }
}

/// Times and labels of dropped entries.
pub(super) fn missed_list(entries: &[Rc<Entry>]) -> Rc<[MissedEntry]> {
    entries.iter().take(super::missed::LISTED_MAX).map(|entry| entry.missed()).collect()
}

/// A frame that any number of clients get.
#[derive(Debug)]
pub(super) struct Frame {
    form: Form,
    /// The frame up to and with the array of streams.
    body: String,
    /// Entries that all clients missed before this frame, written out.
    missed_text: String,
    missed: Missed,
    /// The entries that a client misses if it does not get the frame.
    entries: Rc<[MissedEntry]>,
    _memory: Reservation,
}

impl Frame {
    /// Takes entries from the front of `entries` into a frame, which also tells of
    /// those in `missed`, in about `missed_max_bytes`. `None` if there is no memory for
    /// it; then nothing was taken.
    pub(super) fn take(
        form: Form,
        entries: &mut &[Rc<Entry>],
        missed: &mut Missed,
        missed_max_bytes: usize,
        memory: &Budget,
    ) -> Option<Frame> {
        let mut out = Vec::with_capacity(4096);
        let taken = match form {
            Form::Legacy => write_legacy(entries, &mut out),
            Form::Plain | Form::Categorized => write_streams(entries, &mut out),
        };
        let (now, later) = entries.split_at(taken);
        let mut missed_text = Vec::new();
        missed.clone().write(form, missed_max_bytes, &mut missed_text);
        let memory = memory.try_reserve((out.capacity() + missed_text.capacity()) as u64)?;
        *entries = later;
        Some(Frame {
            form,
            body: into_text(out),
            missed_text: into_text(missed_text),
            missed: std::mem::take(missed),
            entries: missed_list(now),
            _memory: memory,
        })
    }

    /// Length in bytes, about.
    pub(super) fn len_bytes(&self) -> usize {
        self.body.len() + self.missed_text.len()
    }

    /// Entries that it tells to be missed.
    pub(super) fn missed_count(&self) -> u64 {
        self.missed.count()
    }

    /// Adds to `missed` the entries that a client misses if it does not get the frame.
    pub(super) fn add_to(&self, missed: &mut Missed) {
        missed.add_all(&self.missed);
        missed.add(&self.entries, self.entries.len() as u64);
    }

    /// Hands the text in pieces to `send`; `own` lists the entries that this client alone missed.
    pub(super) fn with_text<T>(&self, own: &str, send: impl FnOnce(&[&str]) -> T) -> T {
        let end = match self.form {
            Form::Plain => "}",
            Form::Categorized => ",\"encodingFlags\":[\"categorize-labels\"]}",
            Form::Legacy => "}\n",
        };
        let comma = if own.is_empty() || self.missed_text.is_empty() { "" } else { "," };
        if own.is_empty() && self.missed_text.is_empty() {
            let none = if self.form == Form::Legacy { ",\"dropped_entries\":null" } else { "" };
            return send(&[&self.body, none, end]);
        }
        send(&[&self.body, ",\"dropped_entries\":[", &self.missed_text, comma, own, "]", end])
    }
}

/// JSON that was written from texts is text; anything else is mended, not trusted.
pub(super) fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

fn has_room(taken: usize, out: &[u8]) -> bool {
    taken < FRAME_ENTRIES && (taken == 0 || out.len() < FRAME_BYTES)
}

/// Every entry is a stream of its own. Returns how many were written.
fn write_streams(entries: &[Rc<Entry>], out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(b"{\"streams\":");
    let mut writer = StreamArrayWriter::new();
    writer.begin(out);
    let mut taken = 0;
    for entry in entries {
        if !has_room(taken, out) {
            break;
        }
        taken += 1;
        writer.stream(entry.labels.iter(), out);
        match &entry.categories {
            Some(categories) => writer.categorized_entry(
                entry.timestamp_ns,
                &entry.line,
                categories.structured_metadata.iter(),
                categories.parsed.iter(),
                out,
            ),
            None => writer.entry(entry.timestamp_ns, &entry.line, out),
        }
    }
    writer.end(out);
    taken
}

fn write_legacy(entries: &[Rc<Entry>], out: &mut Vec<u8>) -> usize {
    let mut writer = LegacyStreamsWriter::new();
    writer.begin(out);
    let mut taken = 0;
    for entry in entries {
        if !has_room(taken, out) {
            break;
        }
        taken += 1;
        writer.stream(&entry.labels.canonical(), out);
        writer.entry(entry.timestamp_ns, &entry.line, out);
    }
    // The rest of the frame depends on the client.
    out.extend_from_slice(if taken == 0 { b"]" } else { b"]}]" });
    taken
}
