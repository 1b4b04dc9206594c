//! Label indexes out of arbitrary bytes, with checksums that match.

use std::ops::Range;

use logsvc_logql::engine::CompiledMatcher;
use logsvc_logql::syntax::ast::{MatchOp, Matcher, Text};
use logsvc_proto::varint;

use crate::columns::compress::Codec;
use crate::format::{Footer, LabelIndexPlace, SegmentIdentity, Totals};
use crate::label_index::LabelIndex;
use crate::label_index::page::{PageEntries, WrittenPages};
use crate::label_index::root::{self, TenantRows};
use crate::label_index::stored_rows::StoredRows;
use crate::reader::Decoder;
use crate::row_set::RowSet;

/// Reads the bytes as a page, as the root of a label index, and as pages that a good root names. Runs
/// lookups over what opens.
///
/// # Panics
/// If what is accepted breaks a guarantee.
pub fn label_index(data: &[u8]) {
    page(data);
    let rows = data.first().map_or(0, |&byte| u32::from(byte));
    // The root behind as many bytes of pages as it may name.
    for pages_len in [0, data.len() / 2, data.len()] {
        let file = [data, data].concat();
        lookups(&file[data.len() - pages_len..], pages_len, rows);
    }
    let tenants = [("a", rows / 2 + 1), ("b", 3)];
    let late = data.len().is_multiple_of(2).then(|| RowSet::from(1..2));
    let pages = pages(data);
    let tenants = tenants.map(|(name, rows)| TenantRows { name: name.to_owned(), rows });
    let root = root::encode(late.as_ref(), &tenants, &pages);
    let file = [&pages.stored[..], &root.unwrap_or_default()].concat();
    let is_open = lookups(&file, pages.stored.len(), rows / 2 + 4);
    assert!(is_open || pages.stored.is_empty(), "a good root is refused");
}

/// Reads the bytes as a page before compression.
fn page(data: &[u8]) {
    let mut entries = PageEntries::new(data);
    let mut last: Option<Vec<u8>> = None;
    while let Ok(Some((key, stored))) = entries.next() {
        assert!(last.as_deref().is_none_or(|last| last < key), "keys ascend");
        last = Some(key.to_vec());
        let Ok(rows) = StoredRows::parse(stored, 10..1000) else { continue };
        let set = rows.to_set();
        assert!(!set.is_empty() && set.ranges().iter().all(|range| is_within(range, &(10..1000))));
        assert!(rows.intersects(&set) && set.ranges().iter().cloned().eq(rows.ranges()));
    }
}

fn is_within(range: &Range<u32>, all: &Range<u32>) -> bool {
    range.start >= all.start && range.end <= all.end
}

/// Cuts the bytes to pages of different lengths, with bounds that ascend.
fn pages(data: &[u8]) -> WrittenPages {
    let mut pages = WrittenPages { stored: Vec::new(), rows: Vec::new(), count: 0 };
    let mut rest = data;
    while !rest.is_empty() && pages.count < 5 {
        let len = rest.len().min(usize::from(rest[0]) + 1);
        let (raw, behind) = rest.split_at(len);
        // Those of tenant 0: names, then values of the name `a`.
        let bounds: [&[u8]; 5] =
            [b"", b"\0\0\0\0\0a", b"\0\0\0\0\x01a\0", b"\0\0\0\0\x01a\0b", b"\0\0\0\x01"];
        let bound = bounds[pages.count as usize];
        varint::write(&mut pages.rows, bound.len() as u64);
        pages.rows.extend_from_slice(bound);
        varint::write(&mut pages.rows, len as u64);
        varint::write(&mut pages.rows, len as u64);
        pages.rows.push(Codec::Raw.to_byte());
        pages.rows.extend_from_slice(&crc32c::crc32c(raw).to_le_bytes());
        pages.stored.extend_from_slice(raw);
        pages.count += 1;
        rest = behind;
    }
    pages
}

/// Opens the index that fills `file`, with so many bytes of pages, and looks things up; returns
/// whether it opens.
fn lookups(file: &[u8], pages_len: usize, streams: u32) -> bool {
    // What stands before the index does not matter, except that there is something.
    const BEFORE: u64 = 1;
    let root = &file[pages_len..];
    let (root_len, root_crc) = (root.len() as u32, crc32c::crc32c(root));
    let file_end = BEFORE + file.len() as u64;
    let footer = Footer {
        version: Footer::VERSION,
        identity: SegmentIdentity::default(),
        file_len: u64::MAX,
        filters_offset: 0,
        stream_table_offset: 0,
        label_index: Some(LabelIndexPlace { offset: BEFORE, root_len, root_crc }),
        directory_offset: file_end,
        filters_crc: 0,
        directory_crc: 0,
        totals: Totals {
            streams,
            runs: 1,
            blocks: 1,
            entries: 1,
            line_bytes: 0,
            min_ns: 0,
            max_ns: 0,
        },
        is_draft: false,
        merged: None,
    };
    let Ok(index) = LabelIndex::open(&footer, root.to_vec()) else { return false };
    assert!(index.late_rows().is_none_or(|rows| !rows.intersects(streams..u32::MAX)));
    let read =
        |range: &Range<u64>| &file[(range.start - BEFORE) as usize..(range.end - BEFORE) as usize];
    let mut decoder = Decoder::new();
    let matchers = [
        (MatchOp::Equal, "b"),
        (MatchOp::NotEqual, ""),
        (MatchOp::Regex, "b.*"),
        (MatchOp::NotRegex, ".*[a-f]"),
    ];
    let matchers = matchers.map(|(op, value)| {
        CompiledMatcher::new(&Matcher { name: "a".into(), op, value: Text::from(value) })
    });
    let mut next = 0;
    for (tenant, rows) in index.tenants() {
        assert!(rows.start == next && !rows.is_empty());
        next = rows.end;
        for matcher in matchers.iter().flatten() {
            let mut select = index.select(tenant, &[matcher]);
            while let Some(reads) = select.next_reads() {
                let pieces: Vec<&[u8]> = reads.iter().map(read).collect();
                // The rows are a superset after an error.
                let _ = select.supply(&mut decoder, &pieces);
            }
            let found = select.into_rows();
            assert!(found.ranges().iter().all(|range| is_within(range, &rows)));
        }
        for mut listing in [index.names(tenant), index.values(tenant, "a")] {
            while let Some(reads) = listing.next_reads() {
                let pieces: Vec<&[u8]> = reads.iter().map(read).collect();
                let each = |_: &str, stored: StoredRows<'_>| {
                    assert!(stored.ranges().all(|range| is_within(&range, &rows)));
                };
                let _ = listing.supply(&mut decoder, &pieces, each);
            }
        }
    }
    assert_eq!(next, streams);
    true
}
