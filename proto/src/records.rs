//! Entries of protocols that send one message at a time: each has labels of its own.
//!
//! Guarantees: an arena, so that a record allocates nothing once the arena has grown; labels of a
//! record are always a set that [`crate::labels`] takes. Names that are no label names are made
//! such, as names of structured metadata are. The arena is as large as what is put into it: whoever
//! fills it bounds it ([`Records::capacity_bytes`]).

use std::ops::Range;

use crate::labels::encoding::write_sorted;
use crate::push::metadata::write_name;
use crate::push::{EntryRef, LabelSource, MetadataRef};

/// The name of a label whose own name has no letter and no digit.
const UNNAMED: &[u8] = b"unnamed";

/// Where a text is in the arena.
type Place = Range<usize>;

/// A name and a value in the arena.
#[derive(Clone, Debug)]
struct Pair {
    name: Place,
    value: Place,
}

#[derive(Clone, Debug)]
struct Record {
    timestamp_ns: Option<i64>,
    /// The encoded label set.
    labels: Place,
    line: Place,
    /// Places in the list of pairs.
    metadata: Range<usize>,
}

/// See the module. A record is opened by [`Records::begin`] and closed by [`Records::end`].
#[derive(Debug, Default)]
pub struct Records {
    text: Vec<u8>,
    /// Structured metadata of all records.
    metadata: Vec<Pair>,
    records: Vec<Record>,
    /// Bytes of lines and metadata of closed records.
    len_bytes: u64,
    open: Open,
}

/// The record that is being put together.
#[derive(Debug, Default)]
struct Open {
    timestamp_ns: Option<i64>,
    labels: Vec<Pair>,
    /// Whether it has the labels of the record before it instead.
    repeats_labels: bool,
    line: Place,
    /// Memory for its encoded labels.
    encoded: Vec<u8>,
    /// Where its texts and its metadata begin.
    text_start: usize,
    metadata_start: usize,
}

impl Records {
    /// Holds nothing.
    pub fn new() -> Records {
        Records::default()
    }

    /// Forgets all records, and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.metadata.clear();
        self.records.clear();
        self.len_bytes = 0;
        (self.open.text_start, self.open.metadata_start) = (0, 0);
        self.cancel();
    }

    /// Opens a record of this time, in ns since the Unix epoch. A record that is open is
    /// forgotten.
    pub fn begin(&mut self, timestamp_ns: Option<i64>) {
        self.cancel();
        self.open.timestamp_ns = timestamp_ns;
    }

    /// Gives the open record a label. Of equal names the last counts. A label without a value is
    /// none.
    pub fn label(&mut self, name: &str, value: &str) {
        let start = self.text.len();
        if write_name(name.as_bytes(), &mut self.text).is_err() {
            self.text.truncate(start);
            self.text.extend_from_slice(UNNAMED);
        }
        let name = start..self.text.len();
        let value = self.keep(value.as_bytes());
        self.open.labels.push(Pair { name, value });
    }

    /// Gives the open record the labels of the last closed record, in place of others. They are
    /// not kept a second time.
    pub fn repeat_labels(&mut self) {
        self.open.repeats_labels = true;
    }

    /// Gives the open record a label whose name is a label name already, and keeps the name.
    pub fn exact_label(&mut self, name: &str, value: &str) {
        let (name, value) = (self.keep(name.as_bytes()), self.keep(value.as_bytes()));
        self.open.labels.push(Pair { name, value });
    }

    /// Sets the time of the open record, in ns since the Unix epoch.
    pub fn time(&mut self, timestamp_ns: i64) {
        self.open.timestamp_ns = Some(timestamp_ns);
    }

    /// Gives the open record structured metadata.
    pub fn metadata(&mut self, name: &[u8], value: &[u8]) {
        let (name, value) = (self.keep(name), self.keep(value));
        self.metadata.push(Pair { name, value });
    }

    /// Sets the line of the open record.
    pub fn line(&mut self, line: &[u8]) {
        self.open.line = self.keep(line);
    }

    /// Closes the open record.
    pub fn end(&mut self) {
        let labels = match self.records.last() {
            Some(last) if self.open.repeats_labels => last.labels.clone(),
            _ => self.encode_labels(),
        };
        let metadata = self.open.metadata_start..self.metadata.len();
        let line = std::mem::take(&mut self.open.line);
        self.len_bytes += self.len_of(&line, &metadata);
        let timestamp_ns = self.open.timestamp_ns;
        self.records.push(Record { timestamp_ns, labels, line, metadata });
        self.open.labels.clear();
        self.open.repeats_labels = false;
        self.open.text_start = self.text.len();
        self.open.metadata_start = self.metadata.len();
    }

    /// Forgets the open record.
    pub fn cancel(&mut self) {
        self.text.truncate(self.open.text_start);
        self.metadata.truncate(self.open.metadata_start);
        self.open.labels.clear();
        self.open.repeats_labels = false;
        self.open.line = Place::default();
        self.open.timestamp_ns = None;
    }

    /// Keeps the closed records of whose places `keep` says so.
    pub fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        let mut place = 0;
        self.records.retain(|_| {
            place += 1;
            keep(place - 1)
        });
        self.len_bytes = (0..self.records.len()).map(|place| self.entry_len_bytes(place)).sum();
    }

    /// How many records are closed.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether no record is closed.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Bytes of lines and metadata of the closed records.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Bytes of all texts in the arena, with labels.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Bytes of memory that the arena holds.
    pub fn capacity_bytes(&self) -> usize {
        self.text.capacity()
            + (self.metadata.capacity() + self.open.labels.capacity()) * size_of::<Pair>()
            + self.records.capacity() * size_of::<Record>()
            + self.open.encoded.capacity()
    }

    /// Bytes of the line and the metadata of a record.
    pub fn entry_len_bytes(&self, index: usize) -> u64 {
        let record = &self.records[index];
        self.len_of(&record.line, &record.metadata)
    }

    fn len_of(&self, line: &Place, metadata: &Range<usize>) -> u64 {
        let pairs = self.metadata[metadata.clone()].iter();
        let metadata_len: usize = pairs.map(|pair| pair.name.len() + pair.value.len()).sum();
        (line.len() + metadata_len) as u64
    }

    /// The labels of a record. Equal sets have equal bytes.
    pub fn labels(&self, index: usize) -> LabelSource<'_> {
        LabelSource::encoded(&self.text[self.records[index].labels.clone()])
    }

    /// A record as an entry. `pairs` is memory for its metadata, and may be used again.
    pub fn entry<'p, 'r: 'p>(
        &'r self,
        index: usize,
        pairs: &'p mut Vec<(&'r [u8], &'r [u8])>,
    ) -> EntryRef<'p> {
        let record = &self.records[index];
        let text = |place: &Place| &self.text[place.clone()];
        let metadata = self.metadata[record.metadata.clone()].iter();
        pairs.clear();
        pairs.extend(metadata.map(|pair| (text(&pair.name), text(&pair.value))));
        EntryRef {
            timestamp_ns: record.timestamp_ns,
            line: text(&record.line),
            metadata: MetadataRef::from_slice(pairs),
        }
    }

    fn keep(&mut self, text: &[u8]) -> Place {
        let start = self.text.len();
        self.text.extend_from_slice(text);
        start..self.text.len()
    }

    /// Appends the encoded labels of the open record.
    fn encode_labels(&mut self) -> Place {
        let Records { text, open: Open { labels, encoded, .. }, .. } = self;
        let name = |pair: &Pair| &text[pair.name.clone()];
        // A stable sort keeps equal names in order.
        labels.sort_by(|a, b| name(a).cmp(name(b)));
        labels.dedup_by(|later, kept| {
            let is_equal = name(later) == name(kept);
            if is_equal {
                kept.value = later.value.clone();
            }
            is_equal
        });
        labels.retain(|pair| !pair.value.is_empty());
        let utf8 = |place: &Place| {
            std::str::from_utf8(&text[place.clone()]).expect("names and values are text")
        };
        let pairs = labels.iter().map(|pair| (utf8(&pair.name), utf8(&pair.value)));
        encoded.clear();
        write_sorted(pairs, encoded);
        let start = text.len();
        text.extend_from_slice(encoded);
        start..text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(records: &Records, index: usize) -> String {
        records.labels(index).parse().unwrap().canonical()
    }

    /// Time, line and metadata of a record.
    /// Time, line and metadata of a record.
    type Shown = (Option<i64>, Vec<u8>, Vec<(Vec<u8>, Vec<u8>)>);

    fn entry(records: &Records, index: usize) -> Shown {
        let mut pairs = Vec::new();
        let entry = records.entry(index, &mut pairs);
        let metadata = entry.metadata.iter().map(|(name, value)| (name.into(), value.into()));
        (entry.timestamp_ns, entry.line.into(), metadata.collect())
    }

    #[test]
    fn repeated_labels_are_kept_once() {
        let mut records = Records::new();
        let long = "v".repeat(1000);
        let add = |records: &mut Records, repeats: bool| {
            records.begin(Some(1));
            if repeats {
                records.repeat_labels();
            } else {
                records.label("a", &long);
            }
            records.line(b"x");
            records.end();
        };
        // Without a record before it there is nothing to repeat.
        add(&mut records, true);
        assert!(records.labels(0).parse().expect("labels").is_empty());
        add(&mut records, false);
        let one = records.text_bytes();
        assert!(one > 1000);
        add(&mut records, true);
        assert_eq!((records.text_bytes(), records.labels(2)), (one + 1, records.labels(1)));
        // A record that is forgotten repeats nothing afterwards.
        records.begin(None);
        records.repeat_labels();
        records.begin(Some(2));
        records.end();
        assert!(records.labels(3).parse().expect("labels").is_empty());
        records.clear();
        assert_eq!(records.text_bytes(), 0);
    }

    #[test]
    fn records_come_out_as_they_were_put_in() {
        let mut records = Records::new();
        records.begin(Some(7));
        records.metadata(b"pid", b"12");
        records.label("host", "a");
        records.line(b"one");
        records.label("app", "x");
        records.end();
        records.begin(None);
        records.line(b"t\xffwo");
        records.end();
        assert_eq!((records.len(), records.len_bytes()), (2, 3 + 5 + 4));
        assert_eq!(records.entry_len_bytes(0), 8);
        assert_eq!(labels(&records, 0), r#"{app="x", host="a"}"#);
        assert_eq!(labels(&records, 1), "{}");
        let pid = vec![(b"pid".to_vec(), b"12".to_vec())];
        assert_eq!(entry(&records, 0), (Some(7), b"one".to_vec(), pid));
        assert_eq!(entry(&records, 1), (None, b"t\xffwo".to_vec(), Vec::new()));
    }

    #[test]
    fn labels_are_always_a_set() {
        let mut records = Records::new();
        records.begin(Some(1));
        for (name, value) in [
            ("k8s.pod", "first"),
            ("gone", "x"),
            ("9", "digit"),
            ("...", "dots"),
            ("", "none"),
            ("k8s-pod", "last"),
            ("gone", ""),
        ] {
            records.label(name, value);
        }
        records.end();
        let expected = r#"{k8s_pod="last", key_9="digit", unnamed="none"}"#;
        assert_eq!(labels(&records, 0), expected);
    }

    #[test]
    fn a_record_that_is_not_closed_leaves_nothing() {
        let mut records = Records::new();
        records.begin(Some(1));
        records.line(b"kept");
        records.end();
        records.begin(Some(2));
        records.label("a", "b");
        records.metadata(b"c", b"d");
        records.line(b"lost");
        records.cancel();
        records.begin(Some(3));
        records.line(b"lost, too");
        records.begin(Some(4));
        records.end();
        assert_eq!((records.len(), records.len_bytes()), (2, 4));
        assert_eq!(entry(&records, 0), (Some(1), b"kept".to_vec(), Vec::new()));
        assert_eq!(entry(&records, 1), (Some(4), Vec::new(), Vec::new()));
        assert_eq!(labels(&records, 1), "{}");
        records.retain(|place| place == 1);
        assert_eq!((records.len(), records.len_bytes()), (1, 0));
        assert_eq!(entry(&records, 0), (Some(4), Vec::new(), Vec::new()));
        records.clear();
        assert!(records.is_empty() && records.len_bytes() == 0);
        records.begin(Some(5));
        records.end();
        assert_eq!(entry(&records, 0), (Some(5), Vec::new(), Vec::new()));
    }
}
