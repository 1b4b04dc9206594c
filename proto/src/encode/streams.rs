//! Log results: streams of entries.

use crate::encode::json::{write_json_line, write_json_text, write_label_object};
use crate::encode::{Commas, QueryStats, end_data, write_text_array};
use crate::go::calendar::write_rfc3339_nano;

/// The array of streams, as it stands in query results and tail frames.
///
/// Call [`Self::begin`], then for each stream [`Self::stream`] and its entries,
/// then [`Self::end`].
#[derive(Clone, Copy, Default, Debug)]
pub struct StreamArrayWriter {
    streams: Commas,
    entries: Commas,
}

impl StreamArrayWriter {
    /// A writer before its first stream.
    pub fn new() -> StreamArrayWriter {
        StreamArrayWriter::default()
    }

    /// Opens the array.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        out.push(b'[');
    }

    /// Opens a stream; the labels come by ascending name.
    pub fn stream<'a>(
        &mut self,
        labels: impl Iterator<Item = (&'a str, &'a str)>,
        out: &mut Vec<u8>,
    ) {
        self.close_stream(out);
        self.streams.next(out);
        out.extend_from_slice(b"{\"stream\":");
        write_label_object(labels, out);
        out.extend_from_slice(b",\"values\":[");
        self.entries = Commas::default();
    }

    fn close_stream(&mut self, out: &mut Vec<u8>) {
        if self.streams.started {
            out.extend_from_slice(b"]}");
        }
    }

    fn open_entry(&mut self, timestamp_ns: i64, line: &[u8], out: &mut Vec<u8>) {
        self.entries.next(out);
        out.extend_from_slice(b"[\"");
        out.extend_from_slice(itoa::Buffer::new().format(timestamp_ns).as_bytes());
        out.extend_from_slice(b"\",");
        write_json_line(line, out);
    }

    /// Writes an entry of two elements.
    pub fn entry(&mut self, timestamp_ns: i64, line: &[u8], out: &mut Vec<u8>) {
        self.open_entry(timestamp_ns, line, out);
        out.push(b']');
    }

    /// Writes an entry with its labels told apart by category. Empty categories
    /// are left out, so that the third element may be `{}`.
    pub fn categorized_entry<'a>(
        &mut self,
        timestamp_ns: i64,
        line: &[u8],
        structured_metadata: impl Iterator<Item = (&'a str, &'a str)>,
        parsed: impl Iterator<Item = (&'a str, &'a str)>,
        out: &mut Vec<u8>,
    ) {
        self.open_entry(timestamp_ns, line, out);
        out.extend_from_slice(b",{");
        let mut commas = Commas::default();
        write_category("\"structuredMetadata\":", structured_metadata, &mut commas, out);
        write_category("\"parsed\":", parsed, &mut commas, out);
        out.extend_from_slice(b"}]");
    }

    /// Writes an entry as [`StreamArrayWriter::categorized_entry`] does, and its place, which
    /// needs no escapes.
    pub fn placed_entry<'a>(
        &mut self,
        (timestamp_ns, line, place): (i64, &[u8], &str),
        structured_metadata: impl Iterator<Item = (&'a str, &'a str)>,
        parsed: impl Iterator<Item = (&'a str, &'a str)>,
        out: &mut Vec<u8>,
    ) {
        self.categorized_entry(timestamp_ns, line, structured_metadata, parsed, out);
        // The last object has no members, or is open again behind its last one.
        out.truncate(out.len() - "}]".len());
        if out.last() != Some(&b'{') {
            out.push(b',');
        }
        out.extend_from_slice(b"\"place\":\"");
        out.extend_from_slice(place.as_bytes());
        out.extend_from_slice(b"\"}]");
    }

    /// Closes the last stream and the array.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        self.close_stream(out);
        out.push(b']');
    }
}

fn write_category<'a>(
    key: &str,
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
    commas: &mut Commas,
    out: &mut Vec<u8>,
) {
    let mut pairs = pairs.peekable();
    if pairs.peek().is_none() {
        return;
    }
    commas.next(out);
    out.extend_from_slice(key.as_bytes());
    write_label_object(pairs, out);
}

/// A query answer of type `streams`.
#[derive(Clone, Copy, Default, Debug)]
pub struct StreamsWriter {
    streams: StreamArrayWriter,
}

impl StreamsWriter {
    /// A writer before its answer.
    pub fn new() -> StreamsWriter {
        StreamsWriter::default()
    }

    /// Opens the answer. `encoding_flags` are the flags of the request, as sent;
    /// with `categorize-labels` among them every entry must be written with
    /// [`StreamArrayWriter::categorized_entry`].
    pub fn begin(&mut self, encoding_flags: &[&str], out: &mut Vec<u8>) {
        out.extend_from_slice(br#"{"status":"success","data":{"resultType":"streams","#);
        if !encoding_flags.is_empty() {
            out.extend_from_slice(b"\"encodingFlags\":");
            write_text_array(encoding_flags.iter().copied(), out);
            out.push(b',');
        }
        out.extend_from_slice(b"\"result\":");
        self.streams.begin(out);
    }

    /// The streams, between `begin` and `end`.
    pub fn streams(&mut self) -> &mut StreamArrayWriter {
        &mut self.streams
    }

    /// Closes the answer.
    pub fn end(&mut self, stats: &QueryStats, warnings: &[&str], out: &mut Vec<u8>) {
        self.streams.close_stream(out);
        end_data(stats, warnings, out);
        out.push(b'\n');
    }
}

/// Streams in the form of the deprecated endpoints: labels as one text, times in
/// RFC 3339.
#[derive(Clone, Copy, Default, Debug)]
pub struct LegacyStreamsWriter {
    streams: Commas,
    entries: Commas,
}

impl LegacyStreamsWriter {
    /// A writer before its answer.
    pub fn new() -> LegacyStreamsWriter {
        LegacyStreamsWriter::default()
    }

    /// Opens the answer.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"streams\":[");
    }

    /// Opens a stream, given its printed label set.
    pub fn stream(&mut self, labels: &str, out: &mut Vec<u8>) {
        self.close_stream(out);
        self.streams.next(out);
        out.extend_from_slice(b"{\"labels\":");
        write_json_text(labels, out);
        out.extend_from_slice(b",\"entries\":[");
        self.entries = Commas::default();
    }

    fn close_stream(&mut self, out: &mut Vec<u8>) {
        if self.streams.started {
            out.extend_from_slice(b"]}");
        }
    }

    /// Writes an entry.
    pub fn entry(&mut self, timestamp_ns: i64, line: &[u8], out: &mut Vec<u8>) {
        self.entries.next(out);
        out.extend_from_slice(b"{\"ts\":\"");
        write_rfc3339_nano(Some(timestamp_ns), out);
        out.extend_from_slice(b"\",\"line\":");
        write_json_line(line, out);
        out.push(b'}');
    }

    /// Closes a query answer.
    pub fn end_query(&mut self, stats: &QueryStats, out: &mut Vec<u8>) {
        self.close_stream(out);
        out.extend_from_slice(b"],\"stats\":");
        stats.write_json(out);
        out.extend_from_slice(b"}\n");
    }

    /// Closes a tail frame in which nothing was dropped.
    pub fn end_tail_frame(&mut self, out: &mut Vec<u8>) {
        self.close_stream(out);
        out.extend_from_slice(b"],\"dropped_entries\":null}\n");
    }
}
