//! Verifies and prints bundles of filters.

use std::io;
use std::path::Path;

use logsvc_runtime::{File, OpenMode, Runtime};

use super::{CheckReport, Severity};
use crate::manifest::{BundleError, SegmentName, bundles_dir, read_bundle_head};
use logsvc_segment::filter::RegionJoiner;

/// Bytes of filters that are read at a time.
const STEP_BYTES: u64 = 1 << 20;

/// Verifies the bundles beside a folder of segments.
pub(super) async fn check_bundles<R: Runtime>(
    runtime: &R,
    segments_dir: &Path,
    report: &mut CheckReport,
) {
    let folder = bundles_dir(segments_dir);
    let entries = match runtime.read_dir(&folder).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            return report.find(Severity::Note, &folder, 0, format!("cannot list: {error}"));
        }
    };
    for entry in entries {
        let path = folder.join(&entry.name);
        let whole_name = entry.name.strip_suffix(".tmp").unwrap_or(&entry.name);
        if SegmentName::parse_bundle(whole_name).is_none() {
            report.note(&path, 0, "not a file of the store");
        } else if whole_name != entry.name {
            report.note(&path, 0, "the left-over of a write that did not end");
        } else {
            report.bundles += 1;
            if let Err(error) = check_bundle(runtime, &path, report).await {
                let what = format!("{error}; remove the file: it is made anew");
                report.damage(&path, 0, what);
            }
        }
    }
}

async fn check_bundle<R: Runtime>(
    runtime: &R,
    path: &Path,
    report: &mut CheckReport,
) -> Result<(), BundleError> {
    let head = read_bundle_head(runtime, path).await?;
    let file = runtime.open(path, OpenMode::Read).await?;
    let region = head.region();
    // Joining one region verifies it.
    let mut joiner = RegionJoiner::new(vec![head.index().clone()])?;
    let mut joined = Vec::new();
    report.read_bytes += region.start;
    while let Some(ranges) = joiner.next_reads(STEP_BYTES) {
        let mut pieces = Vec::with_capacity(ranges.len());
        for range in ranges {
            let len = (range.end - range.start) as usize;
            let (result, bytes) =
                file.read_exact_at(Vec::new(), region.start + range.start, len).await;
            result?;
            report.read_bytes += len as u64;
            pieces.push(bytes);
        }
        joined.clear();
        joiner.supply(&pieces, &mut joined).map_err(|damage| damage.error)?;
        runtime.yield_now().await;
    }
    Ok(())
}

/// Prints the segments of a bundle.
pub(super) async fn inspect_bundle<R: Runtime>(
    runtime: &R,
    path: &Path,
    mut print: impl FnMut(String),
) -> io::Result<()> {
    let head = read_bundle_head(runtime, path).await.map_err(|error| match error {
        BundleError::Io(error) => error,
        BundleError::Damaged(error) => io::Error::new(io::ErrorKind::InvalidData, error),
    })?;
    print("bundle of filters".to_owned());
    print(format!("  blocks     {}", head.index().block_count()));
    print(format!("  filters    {} bytes", head.index().region_len()));
    print(format!("  segments   {}", head.segments().len()));
    for segment in head.segments() {
        let [epoch, shards, shard, seq] = segment.name;
        let name = SegmentName { epoch, shards, shard, seq };
        print(format!("    {}  {} blocks", name.file_name(), segment.blocks));
    }
    Ok(())
}
