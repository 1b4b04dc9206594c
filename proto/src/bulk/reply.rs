//! The answer to a bulk request, item by item.

use xxhash_rust::xxh3::xxh3_64;

use super::Item;
use crate::encode::write_json_text;

/// An answer that is being written.
#[derive(Debug, Default)]
pub struct Reply {
    items: Vec<u8>,
    count: u64,
    has_errors: bool,
}

impl Reply {
    /// No item.
    pub fn new() -> Reply {
        Reply::default()
    }

    /// Bytes of memory that the answer holds.
    pub fn capacity_bytes(&self) -> usize {
        self.items.capacity()
    }

    /// The document of an action is stored.
    pub fn stored(&mut self, item: &Item<'_>, index: &str) {
        self.begin(item, index);
        self.items.extend_from_slice(b",\"_id\":");
        match item.id() {
            Some(id) => write_json_text(&id, &mut self.items),
            None => {
                // A document that is sent again has the same id.
                let id = xxh3_64(item.document.unwrap_or_default());
                write_json_text(&format!("{id:016x}"), &mut self.items);
            }
        }
        self.items.extend_from_slice(b",\"result\":\"created\",\"status\":201}}");
    }

    /// The document of an action is not stored.
    pub fn refused(&mut self, item: &Item<'_>, index: &str, status: u16, kind: &str, reason: &str) {
        self.has_errors = true;
        self.begin(item, index);
        if let Some(id) = item.id() {
            self.items.extend_from_slice(b",\"_id\":");
            write_json_text(&id, &mut self.items);
        }
        self.items.extend_from_slice(format!(",\"status\":{status},\"error\":").as_bytes());
        write_fault(kind, reason, &mut self.items);
        self.items.extend_from_slice(b"}}");
    }

    /// The whole answer.
    pub fn finish(self, took_ms: u64) -> Vec<u8> {
        let head = format!("{{\"errors\":{},\"took\":{took_ms},\"items\":[", self.has_errors);
        let mut body = Vec::with_capacity(head.len() + self.items.len() + 2);
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(&self.items);
        body.extend_from_slice(b"]}");
        body
    }

    fn begin(&mut self, item: &Item<'_>, index: &str) {
        if self.count > 0 {
            self.items.push(b',');
        }
        self.count += 1;
        self.items.extend_from_slice(b"{\"");
        self.items.extend_from_slice(item.action.name().as_bytes());
        self.items.extend_from_slice(b"\":{\"_index\":");
        write_json_text(index, &mut self.items);
    }
}

/// Writes the answer to a request that is refused as a whole.
pub fn write_error(status: u16, kind: &str, reason: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"error\":{\"root_cause\":[");
    write_fault(kind, reason, out);
    out.extend_from_slice(b"],\"type\":");
    write_json_text(kind, out);
    out.extend_from_slice(b",\"reason\":");
    write_json_text(reason, out);
    out.extend_from_slice(format!("}},\"status\":{status}}}").as_bytes());
}

fn write_fault(kind: &str, reason: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":");
    write_json_text(kind, out);
    out.extend_from_slice(b",\"reason\":");
    write_json_text(reason, out);
    out.push(b'}');
}
