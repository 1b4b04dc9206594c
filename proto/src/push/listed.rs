//! Where the entries of a push are, as its check has found them, so that they need not be
//! looked for a second time.
//!
//! Guarantees: a list takes at most a megabyte. Of a push that would need more, or has
//! an entry with very many pairs, nothing is listed, and its entries are decoded again.

use super::entries::{EntryBuffers, Text, unescaped};
use super::json::RawText;
use super::protobuf::LISTED_PAIRS_MAX;
use super::{EntryRef, MetadataRef};

/// Most entries of a list, and most streams.
const ENTRIES_MAX: usize = 16 << 10;

/// Most pairs of metadata of a list.
const PAIRS_MAX: usize = 32 << 10;

/// Most bytes of a list: these are powers of two, and so are capacities.
const LIST_MAX_BYTES: usize = ENTRIES_MAX * (size_of::<ListedEntry>() + size_of::<Counts>())
    + PAIRS_MAX * size_of::<[Span; 2]>();

const _: () = assert!(LIST_MAX_BYTES <= 1 << 20);

/// The places of the entries of one push at a time. Keep it and use it again: its memory is
/// the only allocation.
#[derive(Debug, Default)]
pub struct EntryList {
    streams: Vec<Counts>,
    entries: Vec<ListedEntry>,
    pairs: Vec<[Span; 2]>,
    /// Whether an entry had no room. Nothing is listed after that.
    is_full: bool,
    /// Entries and pairs of the streams that have ended.
    ended: Counts,
    /// Pairs of the entries that have ended.
    ended_pairs: usize,
}

/// Entries and pairs of a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    entries: u32,
    pairs: u32,
}

/// A range of a body.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    /// Its length in bytes, and [`ESCAPED`] if it is a JSON string with escapes.
    len: u32,
}

const ESCAPED: u32 = 1 << 31;

#[derive(Clone, Copy, Debug)]
struct ListedEntry {
    timestamp_ns: i64,
    line: Span,
    pairs: u16,
    has_timestamp: bool,
}

impl Span {
    /// Where `part` is in `body`.
    #[inline]
    fn of(body: &[u8], part: &[u8]) -> Span {
        // An empty text may be a constant.
        let start = if part.is_empty() { 0 } else { part.as_ptr().addr() - body.as_ptr().addr() };
        Span { start: start as u32, len: part.len() as u32 }
    }

    /// Where the text `raw` of a checked JSON string is in `body`.
    #[inline]
    fn of_json(body: &[u8], raw: RawText<'_>) -> Span {
        let span = Span::of(body, raw.raw());
        Span { len: span.len | if raw.has_escapes() { ESCAPED } else { 0 }, ..span }
    }

    #[inline]
    fn has_escapes(self) -> bool {
        self.len & ESCAPED != 0
    }

    #[inline]
    fn get(self, body: &[u8]) -> &[u8] {
        &body[self.start as usize..][..(self.len & !ESCAPED) as usize]
    }

    /// The text, which is unescaped into `scratch` if it has escapes.
    fn unescaped<'a>(self, body: &'a [u8], scratch: &mut Vec<u8>) -> Text<'a> {
        match self.has_escapes() {
            true => unescaped(RawText::of_checked(self.get(body)), scratch),
            false => Text::Body(self.get(body)),
        }
    }
}

impl EntryList {
    /// A list that takes nothing.
    pub(super) fn full() -> EntryList {
        EntryList { is_full: true, ..EntryList::default() }
    }

    /// Memory held, in bytes.
    pub fn capacity_bytes(&self) -> usize {
        self.streams.capacity() * size_of::<Counts>()
            + self.entries.capacity() * size_of::<ListedEntry>()
            + self.pairs.capacity() * size_of::<[Span; 2]>()
    }

    /// Forgets all entries: a check of `body` begins.
    pub(super) fn begin(&mut self, body: &[u8]) {
        self.restart();
        self.is_full = body.len() >= ESCAPED as usize;
    }

    /// Forgets the streams of the body: others count in their place.
    pub(super) fn restart(&mut self) {
        self.streams.clear();
        self.entries.clear();
        self.pairs.clear();
        (self.ended, self.ended_pairs) = (Counts::default(), 0);
    }

    /// Notes a pair of the entry that will end next.
    #[inline]
    pub(super) fn add_pair(&mut self, body: &[u8], name: &[u8], value: &[u8]) {
        self.push_pair(|| [Span::of(body, name), Span::of(body, value)]);
    }

    /// The same for a pair of JSON strings.
    #[inline]
    pub(super) fn add_json_pair(&mut self, body: &[u8], name: RawText<'_>, value: RawText<'_>) {
        self.push_pair(|| [Span::of_json(body, name), Span::of_json(body, value)]);
    }

    #[inline]
    fn push_pair(&mut self, pair: impl FnOnce() -> [Span; 2]) {
        self.is_full |= self.pairs.len() == PAIRS_MAX;
        if !self.is_full {
            self.pairs.push(pair());
        }
    }

    /// Notes an entry whose pairs were noted before.
    #[inline]
    pub(super) fn end_entry(&mut self, body: &[u8], timestamp_ns: Option<i64>, line: &[u8]) {
        self.push_entry(timestamp_ns, || Span::of(body, line));
    }

    /// The same for an entry whose line is a JSON string.
    #[inline]
    pub(super) fn end_json_entry(
        &mut self,
        body: &[u8],
        timestamp_ns: Option<i64>,
        line: RawText<'_>,
    ) {
        self.push_entry(timestamp_ns, || Span::of_json(body, line));
    }

    #[inline]
    fn push_entry(&mut self, timestamp_ns: Option<i64>, line: impl FnOnce() -> Span) {
        let pairs = self.pairs.len() - self.ended_pairs;
        self.is_full |= pairs > LISTED_PAIRS_MAX || self.entries.len() == ENTRIES_MAX;
        if !self.is_full {
            self.ended_pairs = self.pairs.len();
            self.entries.push(ListedEntry {
                timestamp_ns: timestamp_ns.unwrap_or(0),
                line: line(),
                pairs: pairs as u16,
                has_timestamp: timestamp_ns.is_some(),
            });
        }
    }

    /// Forgets the entries of the stream that has not ended: others count in their place.
    pub(super) fn restart_stream(&mut self) {
        self.entries.truncate(self.ended.entries as usize);
        self.pairs.truncate(self.ended.pairs as usize);
        self.ended_pairs = self.pairs.len();
    }

    /// Notes that a stream has ended.
    pub(super) fn end_stream(&mut self) {
        self.is_full |= self.streams.len() == ENTRIES_MAX;
        if !self.is_full {
            let now = Counts { entries: self.entries.len() as u32, pairs: self.pairs.len() as u32 };
            self.streams.push(Counts {
                entries: now.entries - self.ended.entries,
                pairs: now.pairs - self.ended.pairs,
            });
            self.ended = now;
        }
    }

    /// The streams of `body`, which was checked; `None` if they have no room here.
    pub(super) fn streams<'a>(&'a self, body: &'a [u8]) -> Option<ListedStreams<'a>> {
        let EntryList { streams, entries, pairs, .. } = self;
        (!self.is_full).then_some(ListedStreams { body, streams, entries, pairs })
    }
}

/// The streams of a push, in the order sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListedStreams<'a> {
    body: &'a [u8],
    streams: &'a [Counts],
    entries: &'a [ListedEntry],
    pairs: &'a [[Span; 2]],
}

impl<'a> ListedStreams<'a> {
    /// The entries of the next stream; none behind the last one.
    pub(super) fn next(&mut self) -> ListedEntries<'a> {
        let (counts, streams) = match self.streams.split_first() {
            Some((&counts, streams)) => (counts, streams),
            None => (Counts::default(), self.streams),
        };
        self.streams = streams;
        let (entries, later_entries) = self.entries.split_at(counts.entries as usize);
        let (pairs, later_pairs) = self.pairs.split_at(counts.pairs as usize);
        (self.entries, self.pairs) = (later_entries, later_pairs);
        ListedEntries { body: self.body, entries, pairs }
    }
}

/// The entries of a stream, in the order sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListedEntries<'a> {
    body: &'a [u8],
    entries: &'a [ListedEntry],
    pairs: &'a [[Span; 2]],
}

impl<'a> ListedEntries<'a> {
    /// The next entry, whose metadata is put into `buffers`, and its line, too, if it has
    /// escapes.
    #[inline]
    pub(super) fn next<'p>(&mut self, buffers: &'p mut EntryBuffers<'a>) -> Option<EntryRef<'p>> {
        let (entry, entries) = self.entries.split_first()?;
        self.entries = entries;
        let (own, later) = self.pairs.split_at(usize::from(entry.pairs));
        self.pairs = later;
        let body = self.body;
        let timestamp_ns = entry.has_timestamp.then_some(entry.timestamp_ns);
        buffers.scratch.clear();
        let line = entry.line.unescaped(body, &mut buffers.scratch);
        // Names and values hardly ever have escapes.
        if own.iter().flatten().any(|part| part.has_escapes()) {
            let EntryBuffers { scratch, pairs, .. } = buffers;
            pairs.clear();
            pairs.extend(own.iter().map(|[name, value]| {
                (name.unescaped(body, scratch), value.unescaped(body, scratch))
            }));
            let metadata = MetadataRef::from_mixed(pairs, &[], 0, scratch);
            return Some(EntryRef { timestamp_ns, line: line.get(scratch), metadata });
        }
        let pairs = &mut buffers.borrowed_pairs;
        pairs.clear();
        pairs.extend(own.iter().map(|[name, value]| (name.get(body), value.get(body))));
        let metadata = MetadataRef::from_slice(pairs);
        Some(EntryRef { timestamp_ns, line: line.get(&buffers.scratch), metadata })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{EntryAdapter, LabelPairAdapter, PushRequest, StreamAdapter};
    use crate::push::Push;
    use prost::Message;

    /// A push of streams with so many entries of so many pairs.
    fn body(streams: usize, entries: usize, pairs: usize) -> Vec<u8> {
        let pair = LabelPairAdapter { name: "n".into(), value: "v".into() };
        let entry = EntryAdapter {
            line: b"a line".to_vec(),
            structured_metadata: vec![pair; pairs],
            ..EntryAdapter::default()
        };
        let stream = StreamAdapter {
            labels: "{a=\"b\"}".into(),
            entries: vec![entry; entries],
            ..StreamAdapter::default()
        };
        PushRequest { streams: vec![stream; streams], ..PushRequest::default() }.encode_to_vec()
    }

    #[test]
    fn what_has_no_room_is_visited_all_the_same() {
        let mut list = EntryList::default();
        // The last push finds a list that was full before.
        for (streams, entries, pairs, fits) in [
            (3, 5, 2, true),
            (1, ENTRIES_MAX, 2, true),
            (2, ENTRIES_MAX / 2 + 1, 0, false),
            (ENTRIES_MAX, 0, 0, true),
            (ENTRIES_MAX + 1, 0, 0, false),
            (1, PAIRS_MAX / 4 + 1, 4, false),
            (1, 1, LISTED_PAIRS_MAX, true),
            (1, 1, LISTED_PAIRS_MAX + 1, false),
            (1, 1, 0, true),
        ] {
            let body = body(streams, entries, pairs);
            let push = Push::protobuf_listed(&body, &mut list).expect("well-formed");
            let mut seen = 0;
            for stream in push.streams() {
                let mut cursor = stream.entries();
                while let Some(entry) = cursor.next() {
                    assert_eq!((entry.line, entry.timestamp_ns), (&b"a line"[..], None));
                    assert_eq!(
                        (entry.metadata.count(), entry.metadata.len_bytes()),
                        (pairs, 2 * pairs)
                    );
                    seen += 1;
                }
            }
            assert_eq!(seen, streams * entries);
            assert_eq!(!list.is_full, fits, "{streams} streams of {entries} with {pairs}");
            assert!(list.capacity_bytes() <= LIST_MAX_BYTES);
        }
    }
}
