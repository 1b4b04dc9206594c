//! Verifies one segment, be it a file or an object: every checksum, every column decoded, totals
//! compared.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use logsvc_runtime::Runtime;

use crate::manifest::{FooterRecord, LiveSegment, SegmentName};
use crate::types::StreamPartitions;
use logsvc_segment::{
    BlockMetadata, ColumnKind, Decoder, Directory, FOOTER_LEN, Footer, HEADER_LEN, Part,
    SegmentError, SegmentIdentity,
};
use logsvc_store::StoreError;

use super::CheckReport;
use super::labels::check_label_index;
use super::left::LeftTotals;
use super::source::{Source, bucket_failure};

/// The columns of a block.
pub(super) const COLUMNS: [ColumnKind; 4] =
    [ColumnKind::Lines, ColumnKind::Timestamps, ColumnKind::Lengths, ColumnKind::Metadata];

/// Filters are read in pieces of this many bytes.
const PIECE_BYTES: u64 = 1 << 20;

/// The reason why a segment cannot be read further.
pub(super) enum Stop {
    Damaged(SegmentError),
    Io(io::Error),
}

impl From<SegmentError> for Stop {
    fn from(error: SegmentError) -> Stop {
        Stop::Damaged(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        Stop::Io(error)
    }
}

/// A segment that is open and whose footer and directory check.
pub(super) struct OpenSegment<R: Runtime> {
    source: Rc<Source<R>>,
    /// The bytes of the footer.
    footer: Vec<u8>,
    pub(super) directory: Directory,
    pub(super) read_bytes: u64,
}

impl<R: Runtime> OpenSegment<R> {
    pub(super) async fn open(source: Rc<Source<R>>) -> Result<OpenSegment<R>, Stop> {
        let len_bytes = source.len_bytes().await?;
        let offset = len_bytes.saturating_sub(FOOTER_LEN as u64);
        let tail = source.read(offset..len_bytes).await?;
        let footer = Footer::parse(&tail, len_bytes)?;
        let range = footer.directory_range();
        let read_bytes = (len_bytes - offset) + (range.end - range.start);
        let directory = Directory::open(footer, source.read(range).await?)?;
        Ok(OpenSegment { source, footer: tail, directory, read_bytes })
    }

    /// Whether the manifest has the same footer.
    pub(super) fn has_footer(&self, record: &FooterRecord) -> bool {
        self.footer == record.bytes
    }

    pub(super) fn source(&self) -> &Source<R> {
        &self.source
    }

    pub(super) async fn read(&mut self, range: Range<u64>) -> io::Result<Vec<u8>> {
        self.read_bytes += range.end - range.start;
        self.source.read(range).await
    }
}

/// What is known of a segment besides its bytes.
pub(super) struct Expected<'e> {
    /// Its entry in the manifest.
    pub(super) live: &'e LiveSegment,
    /// The footer there, if it has one.
    pub(super) footer: Option<&'e FooterRecord>,
    /// Whose streams have left it.
    pub(super) left: &'e StreamPartitions,
}

/// Verifies a segment against what is known of it, and counts the streams that have left it.
///
/// # Errors
/// The bucket does not answer. That a file or an object cannot be read is a finding.
pub(super) async fn check_segment<R: Runtime>(
    runtime: &R,
    path: &Path,
    source: io::Result<Source<R>>,
    Expected { live: expected, footer, left }: Expected<'_>,
    report: &mut CheckReport,
) -> Result<(), StoreError> {
    let opened = match source {
        Ok(source) => OpenSegment::open(Rc::new(source)).await,
        Err(error) => Err(Stop::Io(error)),
    };
    let mut segment = match opened {
        Ok(segment) => segment,
        Err(Stop::Damaged(error)) => {
            let offset = match error.part {
                Part::Footer => expected.file_len.saturating_sub(FOOTER_LEN as u64),
                _ => 0,
            };
            report.segment(path, offset, &error);
            return Ok(());
        }
        Err(Stop::Io(error)) => return unreadable(path, &error, report),
    };
    if footer.is_some_and(|footer| !segment.has_footer(footer)) {
        let offset = expected.file_len.saturating_sub(FOOTER_LEN as u64);
        report.damage(path, offset, "the footer is not the one in the manifest");
    }
    if !left.is_empty() {
        let totals = LeftTotals::count(&segment.directory, left);
        report.note(path, 0, totals.to_string());
        report.left_segments += 1;
        report.left_streams += u64::from(totals.streams);
        report.left_entries += totals.entries;
    }
    let checked = check_parts(runtime, path, expected, &mut segment, report).await;
    report.read_bytes += segment.read_bytes;
    checked.or_else(|error| unreadable(path, &error, report))
}

/// Tells that a segment cannot be read.
fn unreadable(path: &Path, error: &io::Error, report: &mut CheckReport) -> Result<(), StoreError> {
    match bucket_failure(error) {
        Some(failure) => Err(failure.clone()),
        None => {
            report.damage(path, 0, format!("cannot read it: {error}"));
            Ok(())
        }
    }
}

async fn check_parts<R: Runtime>(
    runtime: &R,
    path: &Path,
    expected: &LiveSegment,
    segment: &mut OpenSegment<R>,
    report: &mut CheckReport,
) -> io::Result<()> {
    let footer = *segment.directory.footer();
    let header = segment.read(0..HEADER_LEN as u64).await?;
    if let Err(error) = footer.check_header(&header) {
        report.segment(path, 0, &error);
    }
    let footer_offset = footer.file_len - FOOTER_LEN as u64;
    if name_of(&footer.identity) != expected.name {
        report.damage(path, footer_offset, "the footer is that of another segment");
    }
    let totals = footer.totals;
    if (totals.entries, totals.line_bytes, totals.min_ns, totals.max_ns)
        != (expected.entries, expected.line_bytes, expected.min_ns, expected.max_ns)
    {
        report.damage(path, footer_offset, "the totals are not those in the manifest");
    }
    check_filters(path, segment, report).await?;
    check_stream_table(path, segment, report).await?;
    check_label_index(path, segment, report).await?;
    let mut decoder = Decoder::new();
    for block in 0..segment.directory.block_count() {
        check_block(path, segment, &mut decoder, block, report).await?;
        report.blocks += 1;
        report.segment_entries += u64::from(segment.directory.block(block).entries);
        runtime.yield_now().await;
    }
    Ok(())
}

pub(super) fn name_of(identity: &SegmentIdentity) -> SegmentName {
    let SegmentIdentity { epoch, shards, shard, seq, .. } = *identity;
    SegmentName { epoch, shards, shard, seq }
}

async fn check_filters<R: Runtime>(
    path: &Path,
    segment: &mut OpenSegment<R>,
    report: &mut CheckReport,
) -> io::Result<()> {
    let range = segment.directory.footer().filters_range();
    let mut region = Vec::new();
    let mut offset = range.start;
    while offset < range.end {
        let end = range.end.min(offset + PIECE_BYTES);
        region.extend_from_slice(&segment.read(offset..end).await?);
        offset = end;
    }
    if let Err(error) = segment.directory.footer().check_filters(&region) {
        report.damage(path, range.start, error.to_string());
    }
    if let Err(error) = segment.directory.filters().check(&region) {
        report.damage(path, range.start, error.to_string());
    }
    Ok(())
}

async fn check_stream_table<R: Runtime>(
    path: &Path,
    segment: &mut OpenSegment<R>,
    report: &mut CheckReport,
) -> io::Result<()> {
    let mut decoder = Decoder::new();
    for chunk in 0..segment.directory.label_chunk_count() {
        let range = segment.directory.label_chunk(chunk).place.range();
        let offset = range.start;
        let stored = segment.read(range).await?;
        let checked = decoder.labels(&segment.directory, chunk, &stored, |_, _, _, _| {});
        if let Err(error) = checked {
            report.damage(path, offset, error.to_string());
        }
    }
    Ok(())
}

/// Checks the columns of a block. Where the timestamps are damaged, lines that cannot be
/// decoded without them are compared with their checksum only.
async fn check_block<R: Runtime>(
    path: &Path,
    segment: &mut OpenSegment<R>,
    decoder: &mut Decoder,
    block: u32,
    report: &mut CheckReport,
) -> io::Result<()> {
    let info = segment.directory.block(block);
    let stored = segment.read(info.column(ColumnKind::Timestamps).range()).await?;
    let timestamps_ns = decoder.timestamps(&segment.directory, block, &stored);
    for kind in COLUMNS {
        let place = info.column(kind);
        let stored = match kind {
            ColumnKind::Timestamps => Vec::new(),
            _ => segment.read(place.range()).await?,
        };
        let directory = &segment.directory;
        let checked = match kind {
            ColumnKind::Lines => match &timestamps_ns {
                Err(_) if place.codec.needs_timestamps() => place
                    .check(&stored)
                    .map_err(|what| SegmentError::new(Part::Column { block, kind }, what)),
                times => {
                    let times = times.as_ref().map_or(&[][..], |times| times);
                    decoder.lines(directory, block, &stored, times).map(drop)
                }
            },
            ColumnKind::Timestamps => timestamps_ns.as_ref().map(|_| ()).map_err(Clone::clone),
            ColumnKind::Lengths => decoder.line_ends(directory, block, &stored).map(drop),
            ColumnKind::Metadata => {
                let column = decoder.metadata(directory, block, &stored);
                column.and_then(|column| check_metadata_bytes(directory, block, column.as_ref()))
            }
        };
        if let Err(error) = checked {
            report.damage(path, place.range().start, error.to_string());
        }
    }
    Ok(())
}

/// Compares the bytes of metadata that the directory tells of runs with their entries'.
fn check_metadata_bytes(
    directory: &Directory,
    block: u32,
    column: Option<&BlockMetadata>,
) -> Result<(), SegmentError> {
    let fits = directory.runs_of_block(block).all(|run| {
        let bytes = column.map_or(0, |column| column.text_bytes(run.entries.clone()));
        run.metadata_text_bytes.is_none_or(|told| u64::from(told) == bytes)
    });
    let what = "the bytes of a run's metadata are not those of its entries";
    if fits { Ok(()) } else { Err(SegmentError::new(Part::Directory, what)) }
}
