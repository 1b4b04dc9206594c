//! Opens the segments of a node at a start.
//!
//! The manifest has the footers, so no file is opened; where it lacks one, that is read from the
//! file. Directories and labels are read when somebody needs them.
//!
//! Guarantees: a segment that cannot be opened does not keep others from being read. It is tried
//! again if the failure may pass. Otherwise it is counted and logged, and its file is left alone.

use std::io;
use std::path::Path;
use std::time::Duration;

use logsvc_runtime::Runtime;

use super::{Bundle, SealedSegment, open_bundles};
use crate::manifest::{LiveSegment, read_footer};
use crate::node::NodePlan;
use crate::wal::restored::Restored;
use logsvc_segment::version::{UnknownPart, UnknownVersion};
use logsvc_segment::{Footer, SegmentError};

/// Opens a segment of which the manifest is known. Reads nothing if that has the footer, too.
///
/// # Errors
/// The file cannot be read, or does not check.
pub(crate) async fn open_segment<R: Runtime>(
    runtime: &R,
    segments_dir: &Path,
    live: LiveSegment,
    footer: Option<&Footer>,
) -> io::Result<SealedSegment> {
    let path = live.name.path(segments_dir, live.day);
    let footer = match footer {
        Some(footer) => *footer,
        None => read_footer(runtime, &path, live.name).await?.0,
    };
    Ok(SealedSegment::new(live, path, footer))
}

/// After a failure that may pass a segment is opened again after each of these pauses: a
/// segment that is given up is missing until the next start.
const RETRY_PAUSES: [Duration; 3] =
    [Duration::from_millis(50), Duration::from_millis(500), Duration::from_secs(2)];

/// Whether another attempt may succeed: bytes that are wrong or gone stay so.
fn may_pass(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof
    )
}

/// The part of a segment that another version of the program has written, if it is the reason why
/// the segment cannot be opened.
fn unknown_version(error: &io::Error) -> Option<UnknownPart> {
    error.get_ref()?.downcast_ref::<SegmentError>()?.unknown_version()
}

/// Takes over the segments that a start opens. A shard implements it; this module knows
/// nothing else of a shard.
pub(crate) trait RestoredSegments: Restored {
    /// Makes a segment readable.
    fn add_segment(&mut self, segment: SealedSegment);

    /// Takes over bundles of filters, after the segments.
    fn add_bundles(&mut self, bundles: Vec<Bundle>);

    /// Notes that a live segment cannot be read.
    fn miss_segment(&mut self, live: &LiveSegment);
}

/// Opens the segments that concern a shard. Gives the segments that another version of the program
/// has written.
pub(crate) async fn open_all<R: Runtime>(
    runtime: &R,
    plan: &NodePlan,
    state: &mut impl RestoredSegments,
) -> Vec<UnknownVersion> {
    let mut unknown = Vec::new();
    let shard = runtime.core().0;
    // Segments of another number of shards may have streams of several shards.
    let concerns = |live: &&LiveSegment| plan.node_segments.concerns(live.name, shard);
    // The start has logged them.
    plan.unusable_segments.iter().filter(concerns).for_each(|live| state.miss_segment(live));
    for &live in plan.segments.iter().filter(concerns) {
        let mut pauses = RETRY_PAUSES.into_iter();
        let footer = plan.footers.get(&live.name);
        loop {
            let error = match open_segment(runtime, &plan.segments_dir, live, footer).await {
                Ok(segment) => {
                    let left = plan.node_segments.left(live.name);
                    state.add_segment(segment.that_was_left_by(left));
                    break;
                }
                Err(error) => error,
            };
            let file = live.name.path(&plan.segments_dir, live.day);
            if let Some(what) = unknown_version(&error) {
                let file = UnknownVersion::new(&file, what);
                tracing::error!("a segment that cannot be read is left alone: {file}");
                unknown.push(file);
                state.miss_segment(&live);
                break;
            }
            let pause = if may_pass(&error) { pauses.next() } else { None };
            let Some(pause) = pause else {
                tracing::error!(
                    %error, file = %file.display(),
                    "cannot open a segment; queries of its time say that something is missing"
                );
                state.miss_segment(&live);
                break;
            };
            tracing::warn!(%error, file = %file.display(), "cannot open a segment; tried again");
            runtime.sleep_until(runtime.now().after(pause)).await;
        }
        runtime.yield_now().await;
    }
    state.add_bundles(open_bundles(runtime, &plan.segments_dir, plan.layout()).await);
    unknown
}
