//! Prints the contents of a file.

use std::io;
use std::path::Path;
use std::rc::Rc;

use logsvc_runtime::{File, OpenMode, Runtime};

use crate::deletion::format::MAGIC as REQUESTS_MAGIC;
use crate::manifest::{
    CHECKPOINT_NAME, Day, ManifestLogName, ManifestState, SegmentName, read_manifest,
};
use crate::types::StreamPartitions;
use logsvc_segment::filter::BundleHead;
use logsvc_segment::{Decoder, Directory, HEADER_LEN, MergedPlace, Part};

use super::bundles::inspect_bundle;
use super::left::{LeftTotals, left_by_segment};
use super::requests::inspect_requests;
use super::segment::{COLUMNS, OpenSegment, Stop, name_of};
use super::source::Source;

/// Prints what a file holds: a segment as [`inspect_segment`] does, the segments of a bundle, or the
/// record of requests for deletion.
///
/// # Errors
/// The file cannot be read, or is damaged, or is none of these.
pub async fn inspect_file<R: Runtime>(
    runtime: &R,
    path: &Path,
    print: impl FnMut(String),
) -> io::Result<()> {
    let file = runtime.open(path, OpenMode::Read).await?;
    let (_, start) = file.read_exact_at(Vec::new(), 0, REQUESTS_MAGIC.len()).await;
    if start == REQUESTS_MAGIC {
        return inspect_requests(runtime, path, print).await;
    }
    if start == BundleHead::MAGIC.as_slice() {
        return inspect_bundle(runtime, path, print).await;
    }
    inspect_segment(runtime, path, print).await
}

/// Prints a segment's footer and directory: totals, regions, blocks with their columns, streams
/// with their labels. If the segment lies in a data folder, prints the entry of the manifest there,
/// too. `print` gets one line after the other, without line ends.
///
/// # Errors
/// The file cannot be read, or is damaged, or is not a segment.
pub async fn inspect_segment<R: Runtime>(
    runtime: &R,
    path: &Path,
    mut print: impl FnMut(String),
) -> io::Result<()> {
    let source = Source::file(runtime, path).await?;
    let mut segment = open(source).await?;
    print_totals(&segment.directory, &mut print);
    let name = name_of(&segment.directory.footer().identity);
    let mut left = StreamPartitions::default();
    match manifest_beside(runtime, path).await {
        None => {}
        Some(Err(error)) => print(format!("  manifest   cannot be read: {error}")),
        Some(Ok(manifest)) => {
            let is_live = manifest.live.contains_key(&name);
            print(format!("  live       {}", if is_live { "yes" } else { "no" }));
            if is_live {
                print(format!("  footer     {}", footer_in(&manifest, name, &segment)));
            }
            for unknown in &manifest.unknown {
                print(format!("  manifest   {unknown}"));
            }
            if !manifest.damage.is_empty() {
                print("  manifest   is damaged, or written to at this moment".to_owned());
            }
            left = left_by_segment(&manifest).remove(&name).unwrap_or_default();
        }
    }
    print_parts(&mut segment, &left, &mut print).await
}

/// Opens a segment to print it.
pub(super) async fn open<R: Runtime>(source: Source<R>) -> io::Result<OpenSegment<R>> {
    OpenSegment::open(Rc::new(source)).await.map_err(|stop| match stop {
        Stop::Io(error) => error,
        Stop::Damaged(error) if error.part == Part::Footer && error.unknown_version().is_none() => {
            io::Error::new(io::ErrorKind::InvalidData, format!("{error}; is this a segment?"))
        }
        Stop::Damaged(error) => io::Error::new(io::ErrorKind::InvalidData, error.to_string()),
    })
}

/// Prints the name and the totals of a segment.
pub(super) fn print_totals(directory: &Directory, print: &mut impl FnMut(String)) {
    let footer = directory.footer();
    let totals = footer.totals;
    print(format!("segment {}", name_of(&footer.identity).file_name()));
    print(format!("  made at    {} ns", footer.identity.created_ns));
    print(format!("  day        {}", Day::of(totals.min_ns)));
    print(format!("  from       {} ns", totals.min_ns));
    print(format!("  to         {} ns", totals.max_ns));
    print(format!("  file       {} bytes", footer.file_len));
    let ratio = totals.line_bytes as f64 / footer.file_len as f64;
    print(format!("  lines      {} bytes, {ratio:.2} per byte of the file", totals.line_bytes));
    print(format!("  entries    {}", totals.entries));
    print(format!("  streams    {}", totals.streams));
    print(format!("  runs       {}", totals.runs));
    print(format!("  blocks     {}", totals.blocks));
    print(format!("  draft      {}", if footer.is_draft { "yes" } else { "no" }));
    if let Some(MergedPlace { level, order }) = footer.merged {
        print(format!("  merged     level {level}, order {order}"));
    }
}

/// Prints the regions, blocks and streams of a segment, of which `left` have left it.
pub(super) async fn print_parts<R: Runtime>(
    segment: &mut OpenSegment<R>,
    left: &StreamPartitions,
    print: &mut impl FnMut(String),
) -> io::Result<()> {
    let footer = *segment.directory.footer();
    let directory = &segment.directory;
    if !left.is_empty() {
        print(format!("  left       {}", LeftTotals::count(directory, left)));
    }
    for (name, range) in [
        ("header", 0..HEADER_LEN as u64),
        ("columns", footer.columns_range()),
        ("filters", footer.filters_range()),
        ("streams", footer.stream_table_range()),
        ("labels", footer.label_index_range().unwrap_or(0..0)),
        ("directory", footer.directory_range()),
    ] {
        print(format!("region {name:<9} {:>12}  {} bytes", range.start, range.end - range.start));
    }
    let mut stored = [0; COLUMNS.len()];
    for block in 0..directory.block_count() {
        let info = directory.block(block);
        print(format!(
            "block {block}: {} entries, {} runs from {}, {} line bytes, {}..={} ns",
            info.entries,
            info.runs.end - info.runs.start,
            info.runs.start,
            info.line_bytes,
            info.min_ns,
            info.max_ns
        ));
        for (kind, sum) in COLUMNS.into_iter().zip(&mut stored) {
            let range = info.column(kind).range();
            let len = range.end - range.start;
            *sum += len;
            if len > 0 {
                print(format!("  {:<10} {:>12}  {len} bytes", kind.name(), range.start));
            }
        }
    }
    for (kind, sum) in COLUMNS.into_iter().zip(stored) {
        print(format!("all {:<10} {sum} bytes", kind.name()));
    }
    let mut decoder = Decoder::new();
    for chunk in 0..segment.directory.label_chunk_count() {
        let place = segment.directory.label_chunk(chunk).place;
        let bytes = segment.read(place.range()).await?;
        let directory = &segment.directory;
        let each = |stream, tenant: &logsvc_proto::TenantId, id, labels: logsvc_proto::Labels| {
            let runs = directory.run_numbers(stream);
            let (min_ns, max_ns) = directory.stream_bounds_ns(stream);
            let has_left = if left.contains(id) { ", has left" } else { "" };
            print(format!(
                "stream {stream} {id} {tenant} {labels}: {} runs from {}, {min_ns}..={max_ns} \
                 ns{has_left}",
                runs.end - runs.start,
                runs.start,
                tenant = tenant.as_str(),
            ));
        };
        decoder
            .labels(directory, chunk, &bytes, each)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
    }
    Ok(())
}

/// Tells whether the manifest repeats the footer of a live segment.
fn footer_in<R: Runtime>(
    manifest: &ManifestState,
    name: SegmentName,
    segment: &OpenSegment<R>,
) -> &'static str {
    match manifest.footers.get(&name) {
        Some(record) if segment.has_footer(record) => "as in the manifest",
        Some(_) => "differs from the one in the manifest",
        None if manifest.wrong_footers.contains(&name) => {
            "the one in the manifest does not check or does not fit, and does not count"
        }
        None => "not in the manifest; the next start reads it from the file",
    }
}

/// The manifest of the data folder that a segment lies in; `None` if the folder above the folder of
/// the segment's day has no manifest.
async fn manifest_beside<R: Runtime>(
    runtime: &R,
    path: &Path,
) -> Option<io::Result<ManifestState>> {
    let segments_dir = path.parent()?.parent()?;
    // A segment may lie anywhere, so a folder that cannot be listed is no data folder.
    let entries = runtime.read_dir(segments_dir).await.ok()?;
    if !entries.iter().any(|entry| entry.name == CHECKPOINT_NAME) {
        return None;
    }
    let logs = entries.iter().filter_map(|entry| ManifestLogName::parse(&entry.name)).collect();
    Some(read_manifest(runtime, segments_dir, logs, true).await)
}
