//! Opens segments: the footer and the directory of one, and all segments of a node at a start.
//!
//! Guarantees: a segment that cannot be opened does not keep others from being read. It is tried
//! again if the failure may pass. Otherwise it is counted and logged, and its file is left alone.

use std::io;
use std::path::Path;
use std::time::Duration;

use logsvc_proto::StreamId;
use logsvc_runtime::{File, OpenMode, Runtime};

use super::{Directories, OpenedSegment, SealedSegment};
use crate::manifest::{LiveSegment, SegmentName};
use crate::node::NodePlan;
use crate::types::StreamDefinition;
use crate::wal::restored::Restored;
use logsvc_segment::version::{UnknownPart, UnknownVersion};
use logsvc_segment::{Decoder, Directory, FOOTER_LEN, Footer, SegmentError};

/// The bytes that are read at once from the end of a file: mostly the whole directory.
const TAIL_BYTES: u64 = 64 << 10;

/// Reads the directory of a segment.
///
/// # Errors
/// The file cannot be read, or does not check.
pub(crate) async fn open_segment<R: Runtime>(
    runtime: &R,
    directories: &Directories<R>,
    segments_dir: &Path,
    live: LiveSegment,
) -> io::Result<OpenedSegment> {
    let path = live.name.path(segments_dir, live.day);
    let file = runtime.open(&path, OpenMode::Read).await?;
    let file_len = file.len_bytes().await?;
    let tail_start = file_len.saturating_sub(TAIL_BYTES);
    let tail = read(&file, tail_start, file_len).await?;
    let footer = Footer::parse(&tail, file_len).map_err(invalid)?;
    let identity = footer.identity;
    let SegmentName { epoch, shards, shard, seq } = live.name;
    if (identity.epoch, identity.shards, identity.shard, identity.seq)
        != (epoch, shards, shard, seq)
    {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the file is another segment than its name says",
        ));
    }
    let range = footer.directory_range();
    let directory = if range.start >= tail_start {
        let end = tail.len() - FOOTER_LEN;
        tail[(range.start - tail_start) as usize..end].to_vec()
    } else {
        read(&file, range.start, range.end).await?
    };
    let directory = Directory::open(footer, directory).map_err(invalid)?;
    let segment = SealedSegment::new(live, path, footer);
    let directory = directories.admit(&segment, directory);
    Ok(OpenedSegment { segment, directory })
}

async fn read<F: File>(file: &F, start: u64, end: u64) -> io::Result<Vec<u8>> {
    let (result, bytes) = file.read_exact_at(Vec::new(), start, (end - start) as usize).await;
    result.map(|()| bytes)
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
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
    /// Makes a stream known that a segment holds, and shows it in the index.
    fn define_sealed(&mut self, definition: StreamDefinition);

    /// Makes a segment readable whose streams are known. Segments come in their order.
    fn add_segment(&mut self, opened: OpenedSegment);

    /// Notes that a live segment cannot be read.
    fn miss_segment(&mut self, live: &LiveSegment);
}

/// Opens the segments that concern a shard and makes their streams known to it. Gives the segments
/// that another version of the program has written.
pub(crate) async fn open_all<R: Runtime>(
    runtime: &R,
    directories: &Directories<R>,
    plan: &NodePlan,
    state: &mut impl RestoredSegments,
) -> Vec<UnknownVersion> {
    let mut unknown = Vec::new();
    let shard = runtime.core().0;
    let mut decoder = Decoder::new();
    // Segments of another number of shards may have streams of several shards.
    let concerns = |live: &&LiveSegment| plan.node_segments.concerns(live.name, shard);
    // The start has logged them.
    plan.unusable_segments.iter().filter(concerns).for_each(|live| state.miss_segment(live));
    for &live in plan.segments.iter().filter(concerns) {
        let mut pauses = RETRY_PAUSES.into_iter();
        loop {
            let opened = async {
                let opened = open_segment(runtime, directories, &plan.segments_dir, live);
                let mut segment = opened.await?;
                segment.segment.left = plan.node_segments.left(live.name);
                learn_streams(runtime, &segment, &mut decoder, state).await?;
                Ok::<_, io::Error>(segment)
            };
            let error = match opened.await {
                Ok(segment) => {
                    state.add_segment(segment);
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
    unknown
}

/// Makes the streams of a segment known that the shard owns and does not know, unless they have
/// left the segment.
async fn learn_streams<R: Runtime>(
    runtime: &R,
    opened: &OpenedSegment,
    decoder: &mut Decoder,
    state: &mut impl RestoredSegments,
) -> io::Result<()> {
    let (shard, shards) = (runtime.core().0, runtime.core_count());
    let OpenedSegment { segment, directory } = opened;
    let has = |id: StreamId| id.shard(shards) == shard && segment.has_live(id);
    let mut file = None;
    for chunk in 0..directory.label_chunk_count() {
        let info = directory.label_chunk(chunk);
        let mut ids = info.streams.clone().map(|row| directory.stream_id(row));
        let is_new = ids.any(|id| has(id) && !state.knows(id));
        if !is_new {
            continue;
        }
        let file = match &file {
            Some(file) => file,
            None => file.insert(runtime.open(&segment.path, OpenMode::Read).await?),
        };
        let range = info.place.range();
        let bytes = read(file, range.start, range.end).await?;
        let learned = decoder.labels(directory, chunk, &bytes, |_, tenant, id, labels| {
            if has(id) {
                let definition =
                    StreamDefinition { id, tenant: tenant.clone(), labels: labels.into() };
                state.define_sealed(definition);
            }
        });
        learned.map_err(invalid)?;
    }
    Ok(())
}
