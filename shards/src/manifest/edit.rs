//! Edits of the manifest: live segments and covers, with their bytes as `docs/format.md`
//! describes them.
//!
//! Guarantees: decoding checks everything that other code relies on, and meets arbitrary bytes
//! without panic. Its memory is proportional to the payload.

use crate::types::Part;
use crate::wal::covers::Cover;
use crate::wal::format::PAYLOAD_MAX_BYTES;
use logsvc_segment::FOOTER_LEN;
use logsvc_segment::batch::{u32_at, u64_at};

use super::footers::FooterRecord;
use super::names::{Day, SegmentName};

/// A segment that queries read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveSegment {
    /// Its name.
    pub name: SegmentName,
    /// The UTC day of all its entries, or the first day of a group of them: a generation
    /// with entries of very many days has segments of several days each. Names the
    /// folder; segments of different days are not merged.
    pub day: Day,
    /// Length of the file in bytes.
    pub file_len: u64,
    /// Smallest timestamp, ns since the Unix epoch.
    pub min_ns: i64,
    /// Largest timestamp.
    pub max_ns: i64,
    /// Number of entries.
    pub entries: u64,
    /// Bytes of their lines, uncompressed.
    pub line_bytes: u64,
    /// 0 for a sealed segment; larger for a compacted one.
    pub level: u32,
    /// Place in arrival order: of two entries of one stream with the same timestamp
    /// that of the segment with the smaller order came first. See
    /// [`SegmentName::sealed_order`]; a compacted segment takes a place among its
    /// inputs.
    pub order: u64,
}

/// Streams whose entries in a segment are not live any more, although the segment is: the streams
/// of some partitions. Their entries are in other segments, or have been deleted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LeftPart {
    /// The segment.
    pub segment: SegmentName,
    /// Whose streams have left it.
    pub part: Part,
}

/// A change of the live set. It takes effect whole or not at all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ManifestEdit {
    /// Segments that become live. Their files are on stable storage.
    pub added: Vec<LiveSegment>,
    /// Segments that leave the live set. Their files may go afterwards.
    pub removed: Vec<SegmentName>,
    /// Parts of the write-ahead log that need not be replayed from this edit on.
    pub covers: Vec<Cover>,
    /// Streams that have left segments which are live for others.
    pub left: Vec<LeftPart>,
    /// Footers of the segments that become live, so that a start need not read them from the files.
    /// Change nothing in the live set.
    pub footers: Vec<FooterRecord>,
}

/// The payload of a frame is not an edit although its checksum holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed record at byte {offset} of the edit: {what}")]
pub struct EditError {
    /// The condition that did not hold.
    pub what: &'static str,
    /// Where the record begins.
    pub offset: usize,
    /// Its kind, if that is not known: a later version has written it.
    pub unknown_kind: Option<u8>,
}

const KIND_ADDED: u8 = 1;
const KIND_REMOVED: u8 = 2;
const KIND_COVER: u8 = 3;
const KIND_END: u8 = 4;
const KIND_LEFT: u8 = 5;
const KIND_FOOTER: u8 = 6;

const ADDED_LEN: usize = 72;
const REMOVED_LEN: usize = 16;
const COVER_LEN: usize = 24;
const LEFT_LEN: usize = 24;
const FOOTER_RECORD_LEN: usize = 16 + FOOTER_LEN;

impl ManifestEdit {
    /// Whether the edit changes nothing.
    pub fn is_empty(&self) -> bool {
        let ManifestEdit { added, removed, covers, left, footers } = self;
        let is_same_set = added.is_empty() && removed.is_empty() && left.is_empty();
        is_same_set && covers.is_empty() && footers.is_empty()
    }

    /// Appends the payload of the edit's frame. `None` if it is too large for one
    /// (about a million segments with their footers).
    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Option<()> {
        let len = self.added.len() * (1 + ADDED_LEN)
            + self.removed.len() * (1 + REMOVED_LEN)
            + self.covers.len() * (1 + COVER_LEN)
            + self.left.len() * (1 + LEFT_LEN)
            + self.footers.len() * (1 + FOOTER_RECORD_LEN)
            + 1;
        if len > PAYLOAD_MAX_BYTES {
            return None;
        }
        out.reserve(len);
        for segment in &self.added {
            out.push(KIND_ADDED);
            write_name(out, segment.name);
            out.extend_from_slice(&segment.day.0.to_le_bytes());
            out.extend_from_slice(&segment.level.to_le_bytes());
            for number in [
                segment.file_len,
                segment.min_ns as u64,
                segment.max_ns as u64,
                segment.entries,
                segment.line_bytes,
                segment.order,
            ] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        for name in &self.removed {
            out.push(KIND_REMOVED);
            write_name(out, *name);
        }
        for cover in &self.covers {
            out.push(KIND_COVER);
            let (shards, shard) = cover.part.numbers();
            for number in [
                cover.wal_epoch,
                cover.wal_shards,
                cover.wal_shard,
                cover.up_to_index,
                shards,
                shard,
            ] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        for part in &self.left {
            out.push(KIND_LEFT);
            write_name(out, part.segment);
            let (shards, shard) = part.part.numbers();
            for number in [shards, shard] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        for footer in &self.footers {
            out.push(KIND_FOOTER);
            write_name(out, footer.segment);
            out.extend_from_slice(&footer.bytes);
        }
        out.push(KIND_END);
        Some(())
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// The record is not one of an edit.
    pub fn decode(payload: &[u8]) -> Result<ManifestEdit, EditError> {
        let mut edit = ManifestEdit::default();
        let mut offset = 0;
        loop {
            let error = |what| EditError { what, offset, unknown_kind: None };
            let len = match *payload.get(offset).ok_or(error("the end is missing"))? {
                KIND_ADDED => ADDED_LEN,
                KIND_REMOVED => REMOVED_LEN,
                KIND_COVER => COVER_LEN,
                KIND_LEFT => LEFT_LEN,
                KIND_FOOTER => FOOTER_RECORD_LEN,
                KIND_END if offset + 1 == payload.len() => return Ok(edit),
                KIND_END => return Err(error("it does not end at the end")),
                0 => return Err(error("a record without a kind")),
                kind => {
                    return Err(EditError { unknown_kind: Some(kind), ..error("unknown kind") });
                }
            };
            let body = payload.get(offset + 1..offset + 1 + len).ok_or(error("it is cut short"))?;
            match payload[offset] {
                KIND_ADDED => edit.added.push(read_added(body).map_err(error)?),
                KIND_REMOVED => edit.removed.push(read_name(body)),
                KIND_COVER => edit.covers.push(read_cover(body).map_err(error)?),
                KIND_LEFT => edit.left.push(read_left(body).map_err(error)?),
                _ => edit.footers.push(read_footer_record(body)),
            }
            offset += 1 + len;
        }
    }
}

fn write_name(out: &mut Vec<u8>, name: SegmentName) {
    for number in [name.epoch, name.shards, name.shard, name.seq] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

fn read_name(body: &[u8]) -> SegmentName {
    SegmentName {
        epoch: u32_at(body, 0),
        shards: u32_at(body, 4),
        shard: u32_at(body, 8),
        seq: u32_at(body, 12),
    }
}

fn read_added(body: &[u8]) -> Result<LiveSegment, &'static str> {
    let segment = LiveSegment {
        name: read_name(body),
        day: Day(u32_at(body, 16) as i32),
        level: u32_at(body, 20),
        file_len: u64_at(body, 24),
        min_ns: u64_at(body, 32) as i64,
        max_ns: u64_at(body, 40) as i64,
        entries: u64_at(body, 48),
        line_bytes: u64_at(body, 56),
        order: u64_at(body, 64),
    };
    if !(Day::MIN..=Day::MAX).contains(&segment.day) {
        return Err("there is no such day");
    }
    if segment.min_ns > segment.max_ns {
        return Err("its time bounds are the wrong way round");
    }
    Ok(segment)
}

fn read_cover(body: &[u8]) -> Result<Cover, &'static str> {
    Ok(Cover {
        wal_epoch: u32_at(body, 0),
        wal_shards: u32_at(body, 4),
        wal_shard: u32_at(body, 8),
        up_to_index: u32_at(body, 12),
        part: read_part(body)?,
    })
}

fn read_left(body: &[u8]) -> Result<LeftPart, &'static str> {
    Ok(LeftPart { segment: read_name(body), part: read_part(body)? })
}

/// Whether the footer counts is decided where the segment's record is known.
fn read_footer_record(body: &[u8]) -> FooterRecord {
    let mut bytes = [0; FOOTER_LEN];
    bytes.copy_from_slice(&body[FOOTER_RECORD_LEN - FOOTER_LEN..]);
    FooterRecord { segment: read_name(body), bytes }
}

/// Some partitions, which stand at the end of covers and of parts that have left.
fn read_part(body: &[u8]) -> Result<Part, &'static str> {
    Part::of_numbers(u32_at(body, 16), u32_at(body, 20)).ok_or("there are no such partitions")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    fn part(rng: &mut Rng) -> Part {
        let of = rng.between(1, 65_535) as u16;
        let first = rng.below(u64::from(of)) as u16;
        let last = rng.between(u64::from(first), u64::from(of) - 1) as u16;
        Part::new(of, first, last).expect("there are such partitions")
    }

    pub(crate) fn random_edit(rng: &mut Rng) -> ManifestEdit {
        let name = |rng: &mut Rng| SegmentName {
            epoch: rng.below(4) as u32,
            shards: 4,
            shard: rng.below(4) as u32,
            seq: rng.next_u64() as u32,
        };
        let added = (0..rng.below(4)).map(|_| {
            let min_ns = rng.next_u64() as i64;
            LiveSegment {
                name: name(rng),
                day: Day::of(min_ns),
                file_len: rng.next_u64(),
                min_ns,
                max_ns: min_ns.saturating_add(rng.below(1 << 40) as i64),
                entries: rng.next_u64(),
                line_bytes: rng.next_u64(),
                level: rng.below(5) as u32,
                order: rng.next_u64(),
            }
        });
        let added = added.collect();
        let removed = (0..rng.below(4)).map(|_| name(rng)).collect();
        let covers = (0..rng.below(4)).map(|_| Cover {
            wal_epoch: rng.next_u64() as u32,
            wal_shards: rng.next_u64() as u32,
            wal_shard: rng.next_u64() as u32,
            up_to_index: rng.next_u64() as u32,
            part: part(rng),
        });
        let covers = covers.collect();
        let left = (0..rng.below(4)).map(|_| LeftPart { segment: name(rng), part: part(rng) });
        let left = left.collect();
        let footers = (0..rng.below(3)).map(|_| {
            let mut bytes = [0; FOOTER_LEN];
            bytes.iter_mut().for_each(|byte| *byte = rng.next_u64() as u8);
            FooterRecord { segment: name(rng), bytes }
        });
        let footers = footers.collect();
        ManifestEdit { added, removed, covers, left, footers }
    }

    #[test]
    fn edits_read_back_and_cuts_are_errors() {
        for seed in seeds(300) {
            let _guard = SeedGuard(seed);
            let edit = random_edit(&mut Rng::new(seed));
            let mut payload = Vec::new();
            edit.encode(&mut payload).unwrap();
            assert_eq!(ManifestEdit::decode(&payload).as_ref(), Ok(&edit));
            for len in 0..payload.len() {
                let error = ManifestEdit::decode(&payload[..len]).expect_err("cut short");
                assert!(error.offset <= len);
            }
        }
    }

    #[test]
    fn what_code_relies_on_is_checked() {
        let cover = Cover {
            wal_epoch: 1,
            wal_shards: 2,
            wal_shard: 1,
            up_to_index: 3,
            part: Part::one(2, 1),
        };
        let mut payload = Vec::new();
        ManifestEdit { covers: vec![cover], ..ManifestEdit::default() }.encode(&mut payload);
        for (at, byte) in [(0, 0), (0, 4), (17, 0), (17, 1), (19, 1), (21, 2), (24, 1)] {
            let mut bad = payload.clone();
            bad[at] = byte;
            assert!(ManifestEdit::decode(&bad).is_err(), "byte {at} is {byte}");
        }
        let name = SegmentName { epoch: 1, shards: 1, shard: 0, seq: 0 };
        let part = LeftPart { segment: name, part: Part::one(2, 1) };
        let mut payload = Vec::new();
        ManifestEdit { left: vec![part], ..ManifestEdit::default() }.encode(&mut payload);
        for (at, byte) in
            [(0, 6), (0, 7), (0, 4), (17, 0), (17, 1), (19, 1), (21, 2), (24, 1), (25, 5)]
        {
            let mut bad = payload.clone();
            bad[at] = byte;
            assert!(ManifestEdit::decode(&bad).is_err(), "byte {at} is {byte}");
        }
        let segment = LiveSegment {
            name,
            day: Day(0),
            file_len: 1,
            min_ns: 5,
            max_ns: 6,
            entries: 1,
            line_bytes: 1,
            level: 0,
            order: 0,
        };
        for bad in [
            LiveSegment { min_ns: 7, ..segment },
            LiveSegment { day: Day(Day::MAX.0 + 1), ..segment },
            LiveSegment { day: Day(i32::MIN), ..segment },
        ] {
            let mut payload = Vec::new();
            ManifestEdit { added: vec![bad], ..ManifestEdit::default() }.encode(&mut payload);
            assert!(ManifestEdit::decode(&payload).is_err(), "{bad:?}");
        }
    }
}
