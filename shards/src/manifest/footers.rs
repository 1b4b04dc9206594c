//! Footers of segments that the manifest repeats, so that a start opens no segment.
//!
//! Guarantees: a footer counts for a segment only if it checks and says what the segment's record
//! says. Arbitrary bytes are refused and never a panic. Footers that the manifest lacks are read
//! from the files, [`READ_AT_ONCE`] at a time. A file that cannot be read is left out; whoever
//! opens the segment reads it again and reports it.

use std::collections::{BTreeMap, BTreeSet};
use std::future::ready;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::stream::{StreamExt, iter};
use logsvc_runtime::{File, OpenMode, Runtime};

use super::edit::LiveSegment;
use super::names::SegmentName;
use logsvc_segment::batch::u64_at;
use logsvc_segment::{FOOTER_LEN, Footer, SegmentError};
use logsvc_store::Store;
use logsvc_store::bucket::Span;

/// How many files are open at once while footers are read.
const READ_AT_ONCE: usize = 32;

/// Where the footer has the length of the file.
const FILE_LEN_AT: usize = 40;

/// A segment's footer as the manifest has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FooterRecord {
    /// The segment.
    pub segment: SegmentName,
    /// The last bytes of its file. They need not check.
    pub bytes: [u8; FOOTER_LEN],
}

/// Why a record does not count.
#[derive(Debug, thiserror::Error)]
pub(super) enum WrongFooter {
    /// The bytes are no footer.
    #[error("{0}")]
    Unreadable(#[from] SegmentError),
    /// It is the footer of another file.
    #[error("it contradicts the segment's record")]
    Contradiction,
}

impl FooterRecord {
    /// The record of a segment with this footer.
    pub fn of(segment: SegmentName, footer: &Footer) -> FooterRecord {
        FooterRecord { segment, bytes: footer.encode() }
    }

    /// Whether the segment is a draft, which a merge encodes soon.
    pub(crate) fn is_draft(&self, live: &LiveSegment) -> bool {
        self.read(live).is_ok_and(|footer| footer.is_draft)
    }

    /// The footer, if it counts for a live segment.
    ///
    /// # Errors
    /// See [`WrongFooter`].
    pub(super) fn read(&self, live: &LiveSegment) -> Result<Footer, WrongFooter> {
        let footer = Footer::parse(&self.bytes, u64_at(&self.bytes, FILE_LEN_AT))?;
        let totals = footer.totals;
        let says = (footer.file_len, totals.min_ns, totals.max_ns, totals.entries);
        let is_of = self.segment == live.name
            && is_footer_of(&footer, live.name)
            && says == (live.file_len, live.min_ns, live.max_ns, live.entries)
            && totals.line_bytes == live.line_bytes;
        if is_of { Ok(footer) } else { Err(WrongFooter::Contradiction) }
    }
}

/// How long a read of a footer has patience.
const PATIENCE: Duration = Duration::from_secs(60);

/// The footer of a live segment of a bucket: as the log has it, or as the object has it if the log has
/// none that counts.
///
/// # Errors
/// The object cannot be read, or ends with something else.
pub(crate) async fn read_stored_footer<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    live: &LiveSegment,
    record: Option<&FooterRecord>,
) -> io::Result<Footer> {
    if let Some(Ok(footer)) = record.map(|record| record.read(live)) {
        return Ok(footer);
    }
    let name = live.name.object_name(live.day);
    let range = live.file_len.saturating_sub(FOOTER_LEN as u64)..live.file_len;
    let read = store.read(&name, Span::Range(range), runtime.now().after(PATIENCE)).await;
    let read = read.map_err(io::Error::other)?;
    let bytes = read.as_ref().try_into().map_err(io::Error::other)?;
    FooterRecord { segment: live.name, bytes }.read(live).map_err(io::Error::other)
}

fn is_footer_of(footer: &Footer, name: SegmentName) -> bool {
    let (SegmentName { epoch, shards, shard, seq }, says) = (name, footer.identity);
    (says.epoch, says.shards, says.shard, says.seq) == (epoch, shards, shard, seq)
}

/// The records that count, and the segments that have only records which are wrong. Records of
/// segments that are not live are of no use. A footer of another version is not wrong: whoever
/// opens the file reports it.
pub(super) fn sort_records(
    records: Vec<FooterRecord>,
    live: &BTreeMap<SegmentName, LiveSegment>,
) -> (BTreeMap<SegmentName, FooterRecord>, BTreeSet<SegmentName>) {
    let (mut counting, mut wrong) = (BTreeMap::new(), BTreeSet::new());
    for record in records {
        let Some(live) = live.get(&record.segment) else { continue };
        match record.read(live) {
            Ok(_) => {
                counting.insert(record.segment, record);
            }
            Err(WrongFooter::Unreadable(error)) if error.unknown_version().is_some() => {}
            Err(_) => {
                wrong.insert(record.segment);
            }
        }
    }
    wrong.retain(|name| !counting.contains_key(name));
    (counting, wrong)
}

/// Reads the footer at the end of a segment file.
///
/// # Errors
/// The file cannot be read, does not check, or is another segment than `name`.
pub(crate) async fn read_footer<R: Runtime>(
    runtime: &R,
    path: &Path,
    name: SegmentName,
) -> io::Result<(Footer, FooterRecord)> {
    let invalid = |error: SegmentError| io::Error::new(io::ErrorKind::InvalidData, error);
    let file = runtime.open(path, OpenMode::Read).await?;
    let file_len = file.len_bytes().await?;
    let start = file_len.saturating_sub(FOOTER_LEN as u64);
    let (result, tail) = file.read_exact_at(Vec::new(), start, (file_len - start) as usize).await;
    result?;
    let footer = Footer::parse(&tail, file_len).map_err(invalid)?;
    if !is_footer_of(&footer, name) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the file is another segment than its name says",
        ));
    }
    let bytes = <[u8; FOOTER_LEN]>::try_from(&tail[..]).map_err(io::Error::other)?;
    Ok((footer, FooterRecord { segment: name, bytes }))
}

/// Reads the footers of segments from their files, several at a time. Gives those that count; files
/// that cannot be read, or whose footers contradict the manifest, are left out.
pub(super) async fn read_footers<R: Runtime>(
    runtime: &R,
    segments: Vec<(LiveSegment, PathBuf)>,
) -> Vec<FooterRecord> {
    let read = |(live, path): (LiveSegment, PathBuf)| async move {
        let (_, record) = read_footer(runtime, &path, live.name).await.ok()?;
        record.read(&live).is_ok().then_some(record)
    };
    iter(segments).map(read).buffer_unordered(READ_AT_ONCE).filter_map(ready).collect().await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Day;
    use logsvc_runtime::sim::Simulation;
    use logsvc_segment::{HEADER_LEN, SegmentIdentity, Totals};
    use std::time::Duration;

    /// A segment file with nothing between header and footer.
    fn segment(seq: u32) -> (LiveSegment, Footer, Vec<u8>) {
        let identity = SegmentIdentity { epoch: 3, shards: 2, shard: 1, seq, created_ns: 9 };
        let offset = HEADER_LEN as u64;
        let entries = u64::from(seq) + 1;
        let totals = Totals {
            streams: 1,
            runs: 1,
            blocks: 1,
            entries,
            line_bytes: 8,
            min_ns: -4,
            max_ns: 5,
        };
        let footer = Footer {
            version: 3,
            identity,
            file_len: (HEADER_LEN + FOOTER_LEN) as u64,
            filters_offset: offset,
            stream_table_offset: offset,
            label_index: None,
            directory_offset: offset,
            filters_crc: 0,
            directory_crc: 0,
            totals,
            is_draft: false,
            merged: None,
        };
        let live = LiveSegment {
            name: SegmentName { epoch: 3, shards: 2, shard: 1, seq },
            day: Day(0),
            file_len: footer.file_len,
            min_ns: totals.min_ns,
            max_ns: totals.max_ns,
            entries,
            line_bytes: totals.line_bytes,
            level: 0,
            order: 0,
        };
        (live, footer, [&identity.encode_header()[..], &footer.encode()].concat())
    }

    #[test]
    fn a_record_counts_only_for_the_segment_whose_record_says_the_same() {
        let (live, footer, _) = segment(7);
        let record = FooterRecord::of(live.name, &footer);
        assert_eq!(record.read(&live).ok(), Some(footer));
        let other = SegmentName { seq: 8, ..live.name };
        for other in [
            LiveSegment { name: other, ..live },
            LiveSegment { file_len: live.file_len + 1, ..live },
            LiveSegment { min_ns: live.min_ns - 1, ..live },
            LiveSegment { max_ns: live.max_ns + 1, ..live },
            LiveSegment { entries: live.entries + 1, ..live },
            LiveSegment { line_bytes: live.line_bytes + 1, ..live },
        ] {
            assert!(matches!(record.read(&other), Err(WrongFooter::Contradiction)), "{other:?}");
        }
        for at in 0..FOOTER_LEN {
            let mut bad = record;
            bad.bytes[at] ^= 0x40;
            assert!(matches!(bad.read(&live), Err(WrongFooter::Unreadable(_))), "byte {at}");
        }
    }

    #[test]
    fn a_record_that_counts_beats_wrong_ones_wherever_they_stand() {
        let (live, footer, _) = segment(0);
        let good = FooterRecord::of(live.name, &footer);
        let bad = FooterRecord { bytes: [0; FOOTER_LEN], ..good };
        let gone = FooterRecord { segment: SegmentName { seq: 1, ..live.name }, ..good };
        let all = BTreeMap::from([(live.name, live)]);
        for records in [vec![good, bad, gone], vec![gone, bad, good, bad], vec![good, good]] {
            let (counting, wrong) = sort_records(records, &all);
            assert_eq!(counting, BTreeMap::from([(live.name, good)]));
            assert_eq!(wrong, BTreeSet::new());
        }
        let (counting, wrong) = sort_records(vec![bad, gone], &all);
        assert_eq!((counting.len(), wrong), (0, BTreeSet::from([live.name])));
    }

    #[test]
    fn footers_are_read_side_by_side_and_not_all_at_once() {
        const COUNT: u32 = 200;
        let simulation = Simulation::new(1);
        let disk = simulation.disk().clone();
        let segments = (0..COUNT).map(|seq| {
            let (live, _, bytes) = segment(seq);
            let path = live.name.path("/segments".as_ref(), live.day);
            disk.write(&path, &bytes);
            (live, path)
        });
        let segments: Vec<_> = segments.collect();
        let one = |segments: Vec<(LiveSegment, PathBuf)>| {
            let count = segments.len();
            let begun = simulation.now();
            let records = simulation
                .block_on(|runtime| async move { read_footers(&runtime, segments).await });
            assert_eq!(records.len(), count);
            simulation.now().since(begun)
        };
        disk.set_latency_nanos(0..=0, 1_000_000..=1_000_000);
        let alone = one(segments[..1].to_vec()).max(Duration::from_millis(1));
        let all = one(segments);
        // A few operations take far longer than others.
        assert!(all < alone * COUNT / 4, "{all:?} against {alone:?} for one");
        assert!(all >= alone * (COUNT / READ_AT_ONCE as u32 / 2), "{all:?} against {alone:?}");
    }
}
