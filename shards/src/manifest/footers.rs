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

use futures_util::stream::{StreamExt, iter};
use logsvc_runtime::{File, OpenMode, Runtime};

use super::edit::LiveSegment;
use super::names::SegmentName;
use logsvc_segment::batch::u64_at;
use logsvc_segment::{FOOTER_LEN, Footer, SegmentError};

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

    /// The footer, if it counts for a live segment.
    ///
    /// # Errors
    /// See [`WrongFooter`].
    pub(super) fn read(&self, live: &LiveSegment) -> Result<Footer, WrongFooter> {
        let footer = Footer::parse(&self.bytes, u64_at(&self.bytes, FILE_LEN_AT))?;
        let totals = footer.totals;
        let says = (footer.file_len, totals.min_ns, totals.max_ns, totals.entries);
        let is_of = is_footer_of(&footer, live.name)
            && says == (live.file_len, live.min_ns, live.max_ns, live.entries)
            && totals.line_bytes == live.line_bytes;
        if is_of { Ok(footer) } else { Err(WrongFooter::Contradiction) }
    }
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
