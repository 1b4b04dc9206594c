//! Joins the filters of settled segments into a bundle.
//!
//! Guarantees: a bundle gets its name when it is complete and on stable storage. The live set does
//! not change. Memory is that of a step and of the index.
//!
//! Failures: a segment whose filters cannot be read, or are damaged, is told, so that the next
//! attempt leaves it out.

use std::io;
use std::path::Path;
use std::sync::Arc;

use logsvc_runtime::{File, OpenMode, Runtime, temporary_path};

use super::aside::QUEUE;
use super::throttle::{Pace, Throttle};
use super::{CompactError, Compactor};
use crate::manifest::SegmentName;
use crate::sealed::{Bundle, SealedSegment};
use logsvc_segment::filter::{BundleHead, BundledSegment, FilterError, FilterIndex, RegionJoiner};

/// Bytes of filters that are joined at once.
const STEP_BYTES: u64 = 2 << 20;

/// Settled segments whose filters are to be joined.
#[derive(Debug)]
pub struct BundleJob {
    /// The segments.
    pub segments: Vec<Arc<SealedSegment>>,
    /// The activity of the shard.
    pub throttle: Arc<Throttle>,
}

/// The outcome of a [`BundleJob`].
#[derive(Debug)]
pub(crate) enum Bundled {
    /// There is a bundle.
    Made(Arc<Bundle>),
    /// There is none: the filters of this segment are of no use.
    Unreadable(SegmentName),
}

/// Why there is no bundle.
enum Failure {
    Unreadable(SegmentName),
    Other(CompactError),
}

impl<E: Into<CompactError>> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::Other(error.into())
    }
}

impl<R: Runtime> Compactor<R> {
    /// Writes a bundle.
    ///
    /// # Errors
    /// The disk refuses to write, or the shard is stopping. There is no bundle then.
    pub(super) async fn bundle(&self, job: BundleJob) -> Result<Bundled, CompactError> {
        let runtime = &self.folder().runtime;
        let path = self.folder().next_bundle_path();
        let temporary = temporary_path(&path);
        let folder = path.parent().unwrap_or(&path).to_owned();
        runtime.create_dir_all(&folder).await?;
        match self.write_bundle(&job, &temporary).await {
            Ok(head) => {
                runtime.rename(&temporary, &path).await?;
                runtime.sync_dir(&folder).await?;
                Ok(Bundled::Made(Arc::new(Bundle::new(path, &head))))
            }
            Err(failure) => {
                self.folder().removals.remove(temporary).await;
                match failure {
                    Failure::Unreadable(segment) => Ok(Bundled::Unreadable(segment)),
                    Failure::Other(error) => Err(error),
                }
            }
        }
    }

    async fn write_bundle(&self, job: &BundleJob, path: &Path) -> Result<BundleHead, Failure> {
        let runtime = &self.folder().runtime;
        let mut indexes: Vec<FilterIndex> = Vec::with_capacity(job.segments.len());
        let mut listed = Vec::with_capacity(job.segments.len());
        for segment in &job.segments {
            let directory = self.folder().directories.get(segment).await;
            let directory = directory.map_err(|error| unreadable(segment, &error))?;
            let index = directory.filters().clone();
            let name = segment.live.name;
            listed.push(BundledSegment {
                name: [name.epoch, name.shards, name.shard, name.seq],
                blocks: index.block_count() as u32,
                filters_crc: segment.footer.filters_crc,
            });
            indexes.push(index);
        }
        let mut joiner = RegionJoiner::new(indexes).map_err(refused)?;
        let head = BundleHead::new(listed, joiner.index().clone()).map_err(refused)?;
        let file = runtime.open(path, OpenMode::CreateNew).await?;
        let mut at = 0;
        let mut out = head.encode();
        let mut pace = Pace::new(runtime, &job.throttle);
        while let Some(ranges) = joiner.next_reads(STEP_BYTES) {
            let mut pieces = Vec::with_capacity(ranges.len());
            for (segment, range) in job.segments.iter().zip(ranges) {
                let piece = self.filters_of(segment, range).await;
                pieces.push(piece.map_err(|error| unreadable(segment, &error))?);
            }
            let join = move || {
                let joined = joiner.supply(&pieces, &mut out);
                (joiner, out, joined)
            };
            let joined;
            (joiner, out, joined) = runtime.offload_to(QUEUE, join).await;
            joined.map_err(|damage| unreadable(&job.segments[damage.input], &damage.error))?;
            let (len, written) = (out.len() as u64, file.write_all_at(out, at).await);
            written.0?;
            at += len;
            out = written.1;
            out.clear();
            pace.rest(runtime).await?;
        }
        // A bundle without a bit has a head alone.
        file.write_all_at(out, at).await.0?;
        file.sync_data().await?;
        Ok(head)
    }

    /// A part of the filters of a segment, by its range in their region.
    async fn filters_of(
        &self,
        segment: &SealedSegment,
        range: std::ops::Range<u64>,
    ) -> io::Result<Vec<u8>> {
        let folder = self.folder();
        let file = folder.directories.files.get(&folder.runtime, segment).await?;
        let start = segment.footer.filters_range().start + range.start;
        let len = (range.end - range.start) as usize;
        let (result, bytes) = file.read_exact_at(Vec::new(), start, len).await;
        result.map(|_| bytes)
    }
}

fn refused(error: FilterError) -> CompactError {
    CompactError::Io(io::Error::other(error))
}

fn unreadable(segment: &SealedSegment, error: &dyn std::error::Error) -> Failure {
    tracing::error!(
        file = %segment.path.display(), %error,
        "the filters of a segment are not joined with those of others"
    );
    Failure::Unreadable(segment.live.name)
}
