//! The shape of a push document: streams and their entries.

use crate::go::calendar::parse_rfc3339_ns;
use crate::push::entries::EntrySource;
use crate::push::json::{Cursor, Dialect, JsonError, RawText};
use crate::push::listed::{EntryList, ListedStreams};
use crate::push::{LabelSource, StreamRef, Totals};

/// A JSON push that was checked to the last byte that matters.
#[derive(Debug)]
pub struct JsonPush<'a> {
    /// Streams that have labels or entries. One takes at least a dozen bytes of
    /// body, so this list is not much larger than the body.
    streams: Vec<Stream<'a>>,
    dialect: Dialect,
    /// Where the entries are, if that was noted.
    listed: Option<ListedStreams<'a>>,
}

#[derive(Clone, Copy, Debug)]
struct Stream<'a> {
    labels: LabelSource<'a>,
    entries: Option<Cursor<'a>>,
}

/// An entry as the scan finds it.
pub(in crate::push) struct RawEntry<'a> {
    pub(in crate::push) timestamp_ns: Option<i64>,
    pub(in crate::push) line: RawText<'a>,
}

impl<'a> JsonPush<'a> {
    /// Checks a document and counts its streams, entries and bytes.
    pub fn parse(body: &'a [u8], dialect: Dialect) -> Result<(JsonPush<'a>, Totals), JsonError> {
        let (streams, totals) = check(body, dialect, &mut EntryList::full())?;
        Ok((JsonPush { streams, dialect, listed: None }, totals))
    }

    /// Like [`JsonPush::parse`], and notes the places of the entries in `list`, if it has room.
    pub fn parse_listed(
        body: &'a [u8],
        dialect: Dialect,
        list: &'a mut EntryList,
    ) -> Result<(JsonPush<'a>, Totals), JsonError> {
        list.begin(body);
        let (streams, totals) = check(body, dialect, list)?;
        Ok((JsonPush { streams, dialect, listed: list.streams(body) }, totals))
    }

    /// The streams in the order sent.
    pub fn streams(&self) -> Streams<'_, 'a> {
        Streams { streams: self.streams.iter(), dialect: self.dialect, listed: self.listed }
    }
}

/// Iterator over the streams of a [`JsonPush`].
pub struct Streams<'p, 'a> {
    streams: std::slice::Iter<'p, Stream<'a>>,
    dialect: Dialect,
    listed: Option<ListedStreams<'a>>,
}

impl<'a> Iterator for Streams<'_, 'a> {
    type Item = StreamRef<'a>;

    fn next(&mut self) -> Option<StreamRef<'a>> {
        let stream = self.streams.next()?;
        let entries = match &mut self.listed {
            Some(listed) => EntrySource::Listed(listed.next()),
            None => EntrySource::Json(stream.entries, self.dialect),
        };
        Some(StreamRef { labels: stream.labels, entries })
    }
}

/// The streams of a document that have labels or entries, and the counts of the document.
fn check<'a>(
    body: &'a [u8],
    dialect: Dialect,
    list: &mut EntryList,
) -> Result<(Vec<Stream<'a>>, Totals), JsonError> {
    let mut cursor = Cursor::new(body);
    let (mut streams, mut totals) = (Vec::new(), Totals::default());
    if cursor.peek().is_none() {
        return Err(JsonError::Empty);
    }
    if cursor.take_null()? {
        return Ok((streams, totals));
    }
    // The text behind the top-level value is not read.
    cursor.object(|cursor, name| {
        if !name.is_ignoring_case("streams") {
            return cursor.skip_value().map(|_| ());
        }
        // Of a repeated key the last value counts.
        streams.clear();
        totals = Totals::default();
        list.restart();
        if cursor.take_null()? {
            return Ok(());
        }
        let mut started = false;
        while cursor.next_element(&mut started)? {
            let (stream, counted) = read_stream(cursor, body, dialect, list)?;
            totals.add(&counted);
            streams.extend(stream);
        }
        Ok(())
    })?;
    Ok((streams, totals))
}

fn read_stream<'a>(
    cursor: &mut Cursor<'a>,
    body: &'a [u8],
    dialect: Dialect,
    list: &mut EntryList,
) -> Result<(Option<Stream<'a>>, Totals), JsonError> {
    let mut labels = None;
    let mut entries = None;
    let mut counted = Totals::default();
    cursor.object(|cursor, name| {
        match dialect {
            Dialect::V1 if name.is("stream") => {
                if cursor.peek() != Some(b'{') {
                    return cursor.error("\"stream\" must be an object");
                }
                labels = Some(LabelSource::json_object(cursor.skip_value()?));
            }
            Dialect::Legacy if name.is_ignoring_case("labels") => {
                let text = cursor.text("\"labels\" must be a string")?;
                labels = Some(LabelSource::json_text(text));
            }
            Dialect::V1 if name.is("values") => {
                (entries, counted) = read_entries(cursor, body, dialect, list)?;
            }
            Dialect::Legacy if name.is_ignoring_case("entries") => {
                (entries, counted) = read_entries(cursor, body, dialect, list)?;
            }
            _ => {
                cursor.skip_value()?;
            }
        }
        Ok(())
    })?;
    counted.streams = 1;
    let entries = entries.filter(|_| counted.entries > 0);
    if entries.is_none() && labels.is_none_or(|labels| matches!(labels.bytes, b"" | b"{}")) {
        return Ok((None, counted));
    }
    list.end_stream();
    let labels = labels.unwrap_or(LabelSource::text(b""));
    Ok((Some(Stream { labels, entries }), counted))
}

fn read_entries<'a>(
    cursor: &mut Cursor<'a>,
    body: &'a [u8],
    dialect: Dialect,
    list: &mut EntryList,
) -> Result<(Option<Cursor<'a>>, Totals), JsonError> {
    let mut counted = Totals::default();
    // Of a repeated key the last value counts.
    list.restart_stream();
    if cursor.take_null()? {
        return Ok((None, counted));
    }
    let start = *cursor;
    let mut started = false;
    let (mut pairs, mut pair_bytes) = (0u64, 0u64);
    while let Some(entry) = cursor.next_entry(dialect, &mut started, |name, value| {
        pairs += 1;
        pair_bytes += (name.decoded_len_bytes() + value.decoded_len_bytes()) as u64;
        list.add_json_pair(body, name, value);
    })? {
        list.end_json_entry(body, entry.timestamp_ns, entry.line);
        counted.entries += 1;
        counted.line_bytes += entry.line.decoded_len_bytes() as u64;
    }
    counted.metadata_pairs = pairs;
    counted.metadata_bytes = pair_bytes;
    Ok((Some(start), counted))
}

impl<'a> Cursor<'a> {
    /// The next entry of an array of entries; `null` ones are skipped. Metadata
    /// goes to `pair`.
    #[inline]
    pub(in crate::push) fn next_entry(
        &mut self,
        dialect: Dialect,
        started: &mut bool,
        mut pair: impl FnMut(RawText<'a>, RawText<'a>),
    ) -> Result<Option<RawEntry<'a>>, JsonError> {
        while self.next_element(started)? {
            if self.take_null()? {
                continue;
            }
            return match dialect {
                Dialect::V1 => self.entry_array(&mut pair),
                Dialect::Legacy => self.entry_object(&mut pair),
            }
            .map(Some);
        }
        Ok(None)
    }

    /// `["<ns>", "<line>", {metadata}, ...]`, of which any tail may be missing.
    #[inline]
    fn entry_array(
        &mut self,
        pair: &mut impl FnMut(RawText<'a>, RawText<'a>),
    ) -> Result<RawEntry<'a>, JsonError> {
        if self.peek() != Some(b'[') {
            return self.error("an entry must be an array");
        }
        let mut entry = RawEntry { timestamp_ns: None, line: RawText::of_checked(b"") };
        let mut started = false;
        let mut index = 0u32;
        while self.next_element(&mut started)? {
            match index {
                0 => entry.timestamp_ns = Some(self.timestamp()?),
                1 => entry.line = self.text("the line of an entry must be a string")?,
                2 => self.metadata(pair)?,
                _ => {
                    self.skip_value()?;
                }
            }
            index = index.saturating_add(1);
        }
        Ok(entry)
    }

    /// `{"ts":"<RFC 3339>","line":"<line>","structuredMetadata":{..}}`
    fn entry_object(
        &mut self,
        pair: &mut impl FnMut(RawText<'a>, RawText<'a>),
    ) -> Result<RawEntry<'a>, JsonError> {
        let mut entry = RawEntry { timestamp_ns: None, line: RawText::of_checked(b"") };
        self.object(|cursor, name| {
            if name.is_ignoring_case("ts") {
                let text = cursor.text("\"ts\" must be a string")?;
                let parsed = std::str::from_utf8(text.raw()).ok().and_then(parse_rfc3339_ns);
                if parsed.is_none() {
                    return cursor.error("\"ts\" must be an RFC 3339 time");
                }
                entry.timestamp_ns = parsed;
            } else if name.is_ignoring_case("line") {
                entry.line = cursor.text("\"line\" must be a string")?;
            } else if name.is_ignoring_case("structuredMetadata") {
                cursor.metadata(pair)?;
            } else {
                cursor.skip_value()?;
            }
            Ok(())
        })?;
        Ok(entry)
    }

    /// A signed 64-bit number of nanoseconds in a string.
    #[inline]
    fn timestamp(&mut self) -> Result<i64, JsonError> {
        const EXPECTED: &str = "the timestamp of an entry must be a string of nanoseconds";
        let text = self.text(EXPECTED)?;
        match parse_i64(text.raw()) {
            Some(timestamp_ns) => Ok(timestamp_ns),
            None => self.error(EXPECTED),
        }
    }

    fn metadata(
        &mut self,
        pair: &mut impl FnMut(RawText<'a>, RawText<'a>),
    ) -> Result<(), JsonError> {
        if self.peek() != Some(b'{') {
            return self.error("structured metadata must be an object");
        }
        self.object(|cursor, name| {
            pair(name, cursor.text("structured metadata values must be strings")?);
            Ok(())
        })
    }
}

/// A decimal number, with a minus sign if it is negative.
#[inline]
fn parse_i64(text: &[u8]) -> Option<i64> {
    // 19 digits, as the nanoseconds of today have, fit into 64 bits.
    if (1..=19).contains(&text.len()) {
        let unsigned = text.iter().try_fold(0_u64, |number, digit| {
            let digit = digit.wrapping_sub(b'0');
            (digit < 10).then_some(number * 10 + u64::from(digit))
        });
        if let Some(number) = unsigned {
            return i64::try_from(number).ok();
        }
    }
    // `parse` would take a plus sign.
    let signed = std::str::from_utf8(text).ok().filter(|text| !text.starts_with('+'));
    signed?.parse().ok()
}
