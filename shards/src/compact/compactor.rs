//! Does what a shard has planned, and brings it into force.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use ahash::AHashSet;
use logsvc_runtime::Runtime;

use super::input::Input;
use super::merge::Merge;
use super::{CompactError, MaintenanceJob, MaintenanceOutcome, MergeJob};
use crate::manifest::{LiveSegment, ManifestEdit, SegmentName};
use crate::retention::NodeSegments;
use crate::sealed::{SealedSegment, SegmentFolder, hasher};

/// Works beside one shard.
#[derive(Debug)]
pub struct Compactor<R: Runtime> {
    folder: Rc<SegmentFolder<R>>,
    node: Arc<NodeSegments>,
    /// An edit that failed. It may have come into force, so it is tried again before
    /// anything else.
    pending: Option<Pending>,
}

#[derive(Debug)]
struct Pending {
    edit: ManifestEdit,
    outcome: MaintenanceOutcome,
    /// Files that no shard reads.
    unlink: Vec<LiveSegment>,
}

impl<R: Runtime> Compactor<R> {
    /// A compactor of the shard that owns `folder`.
    pub fn new(folder: Rc<SegmentFolder<R>>, node: Arc<NodeSegments>) -> Compactor<R> {
        Compactor { folder, node, pending: None }
    }

    /// Does a job. After a failure the next job must be [`MaintenanceJob::Resume`], until
    /// that succeeds: it brings an edit of the manifest into force that has failed. The
    /// outcome tells what was done.
    ///
    /// # Errors
    /// See [`CompactError`].
    pub async fn run(&mut self, job: MaintenanceJob) -> Result<MaintenanceOutcome, CompactError> {
        let pending = match self.pending.take() {
            Some(pending) => pending,
            None => self.prepare(job).await?,
        };
        if pending.edit.is_empty() {
            return Ok(pending.outcome);
        }
        if let Err(error) = self.folder.manifest.append(&pending.edit).await {
            self.pending = Some(pending);
            return Err(error.into());
        }
        for live in &pending.unlink {
            let path = live.name.path(&self.folder.segments_dir, live.day);
            unlink(&self.folder.runtime, &path).await;
        }
        Ok(pending.outcome)
    }

    async fn prepare(&self, job: MaintenanceJob) -> Result<Pending, CompactError> {
        let (removed, unlink) = match job {
            MaintenanceJob::Merge(job) => return self.merge(job).await,
            MaintenanceJob::Remove(names) => (names, Vec::new()),
            MaintenanceJob::Release(segments) => {
                let last = segments.into_iter().filter(|live| self.node.release(live.name));
                let unlink: Vec<LiveSegment> = last.collect();
                (unlink.iter().map(|live| live.name).collect(), unlink)
            }
            MaintenanceJob::Resume => (Vec::new(), Vec::new()),
        };
        let outcome = MaintenanceOutcome { removed: removed.clone(), ..Default::default() };
        let edit = ManifestEdit { removed, ..ManifestEdit::default() };
        Ok(Pending { edit, outcome, unlink })
    }

    async fn merge(&self, mut job: MergeJob) -> Result<Pending, CompactError> {
        let lives: Vec<LiveSegment> = job.inputs.iter().map(|input| input.live).collect();
        let last = lives.last().ok_or_else(|| io::Error::other("nothing to merge"))?;
        let level = lives.iter().map(|live| live.level).max().unwrap_or(0).saturating_add(1);
        self.check_space(lives.iter().map(|live| live.file_len).sum()).await?;
        let mut output = self.folder.begin(last.day)?;
        let merged = async {
            let mut inputs = Vec::with_capacity(job.inputs.len());
            for input in &job.inputs {
                inputs.push(Input::open(&self.folder.runtime, Arc::clone(input)).await?);
            }
            let keep = &mut *job.keep;
            Merge::new(&self.folder, inputs, keep, &job.throttle, &mut output)?.run().await
        };
        let added = match merged.await {
            Ok(Some(finished)) => {
                let mut added = self.folder.publish(output, finished, level, last.order).await?;
                added.late = late_rows(&added, &job.inputs, &job.earlier);
                Some(added)
            }
            Ok(None) => {
                self.folder.discard(output).await;
                None
            }
            Err(error) => {
                self.folder.discard(output).await;
                return Err(error);
            }
        };
        let removed: Vec<SegmentName> = lives.iter().map(|live| live.name).collect();
        let edit = ManifestEdit {
            added: added.iter().map(|segment| segment.live).collect(),
            removed: removed.clone(),
            covers: Vec::new(),
        };
        let outcome = MaintenanceOutcome {
            is_merge: true,
            entries_in: lives.iter().map(|live| live.entries).sum(),
            entries_out: added.as_ref().map_or(0, |added| added.live.entries),
            line_bytes_in: lives.iter().map(|live| live.line_bytes).sum(),
            line_bytes_out: added.as_ref().map_or(0, |added| added.live.line_bytes),
            added,
            removed,
        };
        Ok(Pending { edit, outcome, unlink: Vec::new() })
    }
}

impl<R: Runtime> Compactor<R> {
    /// Refuses to begin what is unlikely to end: a disk that is nearly full has better
    /// uses for its space than half a merge.
    async fn check_space(&self, input_bytes: u64) -> io::Result<()> {
        let space = self.folder.runtime.disk_space(&self.folder.segments_dir).await?;
        if space.available_bytes > input_bytes {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::StorageFull,
            format!(
                "merging takes up to {input_bytes} bytes, and {} are left",
                space.available_bytes
            ),
        ))
    }
}

/// Removes the file of a segment that is not live any more. What cannot be removed is
/// removed by the next start.
pub(crate) async fn unlink<R: Runtime>(runtime: &R, path: &std::path::Path) {
    match runtime.remove_file(path).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(
            %error, file = %path.display(),
            "cannot remove a segment that is not live any more; the next start tries again"
        ),
    }
}

/// Streams of a merged segment that may have entries in earlier ones at their times:
/// some that had in the inputs, unless those were inputs, too.
fn late_rows(
    added: &SealedSegment,
    inputs: &[Arc<SealedSegment>],
    earlier: &[Arc<SealedSegment>],
) -> AHashSet<u32> {
    let mut late = AHashSet::with_hasher(hasher());
    for input in inputs {
        for &row in &input.late {
            let id = input.directory.stream_id(row);
            let Some(row) = added.directory.find_stream(id) else { continue };
            let (min_ns, max_ns) = added.directory.stream_bounds_ns(row);
            let overlaps = |other: &Arc<SealedSegment>| {
                other.directory.find_stream(id).is_some_and(|other_row| {
                    let bounds_ns = other.directory.stream_bounds_ns(other_row);
                    bounds_ns.0 <= max_ns && bounds_ns.1 >= min_ns
                })
            };
            if earlier.iter().any(overlaps) {
                late.insert(row);
            }
        }
    }
    late
}
