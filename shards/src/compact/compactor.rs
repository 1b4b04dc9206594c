//! Does the job that a shard has planned, and commits it to the manifest.
//!
//! Guarantees: one edit of the manifest makes all of a job's changes. An edit that failed may
//! have taken effect, so it is tried again before any other job.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use logsvc_runtime::Runtime;

use super::input::Input;
use super::late::late_streams;
use super::merge::Merge;
use super::{CompactError, MaintenanceJob, MaintenanceOutcome, MergeJob};
use crate::manifest::{LeftPart, LiveSegment, ManifestEdit, SegmentName};
use crate::retention::NodeSegments;
use crate::sealed::{SealedSegment, SegmentFolder, Spare};
use logsvc_segment::{MergedPlace, WriterBuffers};

/// Works beside one shard.
#[derive(Debug)]
pub(crate) struct Compactor<R: Runtime> {
    folder: Rc<SegmentFolder<R>>,
    node: Arc<NodeSegments>,
    /// Memory that one merge leaves to the next one.
    buffers: Spare<WriterBuffers>,
    /// An edit that failed. It may have come into force, so it is tried again before
    /// anything else.
    pending: Option<Pending>,
}

/// A job whose edit is to be brought into force.
#[derive(Debug, Default)]
pub(super) struct Pending {
    pub(super) edit: ManifestEdit,
    pub(super) outcome: MaintenanceOutcome,
    /// Files that no shard reads.
    unlink: Vec<LiveSegment>,
    /// Whether the edit is in force, so that only names and removals are left to do.
    is_committed: bool,
}

impl<R: Runtime> Compactor<R> {
    /// A compactor of the shard that owns `folder`.
    pub(crate) fn new(folder: Rc<SegmentFolder<R>>, node: Arc<NodeSegments>) -> Compactor<R> {
        Compactor { folder, node, buffers: Spare::default(), pending: None }
    }

    /// Does a job. After a failure the next job must be [`MaintenanceJob::Resume`], until that
    /// succeeds: it brings an edit of the manifest into force that has failed. The outcome tells
    /// the changes.
    ///
    /// # Errors
    /// See [`CompactError`].
    pub(crate) async fn run(
        &mut self,
        job: MaintenanceJob,
    ) -> Result<MaintenanceOutcome, CompactError> {
        let mut pending = match self.pending.take() {
            Some(pending) => pending,
            None => self.prepare(job).await?,
        };
        if !pending.is_committed && !pending.edit.is_empty() {
            // Half-made segments of attempts that failed go with it.
            pending.edit.removed.extend(self.folder.orphans());
            pending.edit.removed.sort_unstable();
            pending.edit.removed.dedup();
        }
        if !pending.edit.is_empty() {
            if let Err(error) = self.commit(&mut pending).await {
                self.pending = Some(pending);
                return Err(error.into());
            }
            for live in &pending.unlink {
                let path = live.name.path(&self.folder.segments_dir, live.day);
                self.folder.removals.remove(path).await;
            }
        }
        if let Some(leaving) = &mut pending.outcome.leaving {
            *leaving = self.folder.removals.paths();
        }
        Ok(pending.outcome)
    }

    /// Appends the edit, unless that was done, and gives the segment that it adds its name.
    async fn commit(&self, pending: &mut Pending) -> io::Result<()> {
        if !pending.is_committed {
            self.folder.manifest.append(&pending.edit).await?;
            pending.is_committed = true;
        }
        for live in &pending.edit.added {
            self.folder.finalize(live).await?;
        }
        self.folder.remove_orphans(&pending.edit.removed).await;
        Ok(())
    }

    async fn prepare(&self, job: MaintenanceJob) -> Result<Pending, CompactError> {
        let mut outcome = MaintenanceOutcome::default();
        let mut edit = ManifestEdit::default();
        let mut unlink = Vec::new();
        match job {
            MaintenanceJob::Merge(job) => return self.merge(job).await,
            MaintenanceJob::Purge(job) => return self.purge(*job).await,
            MaintenanceJob::Sweep => {
                edit.removed = self.folder.orphans();
                // Filled in at the end.
                outcome.leaving = Some(Vec::new());
            }
            MaintenanceJob::Remove(segments) => {
                outcome.removed = names_of(&segments);
                edit.removed = names_of(&segments);
            }
            MaintenanceJob::Leave(segments) => {
                outcome.removed = names_of(&segments);
                segments.iter().for_each(|segment| self.leave(segment, &mut edit));
            }
            MaintenanceJob::Inspect(job) => outcome.inspected = Some(self.inspect(job).await?),
            MaintenanceJob::Release(segments) => {
                let last = segments.into_iter().filter(|live| self.node.release(live.name));
                unlink.extend(last);
                outcome.released = unlink.len() as u64;
                edit.removed = unlink.iter().map(|live| live.name).collect();
            }
            MaintenanceJob::Bundle(job) => outcome.bundled = Some(self.bundle(job).await?),
            MaintenanceJob::Unbundle(bundles) => {
                for path in bundles {
                    self.folder.removals.remove(path).await;
                }
            }
            MaintenanceJob::Resume => {}
        }
        Ok(Pending { edit, outcome, unlink, is_committed: false })
    }

    /// The segments folder.
    pub(super) fn folder(&self) -> &Rc<SegmentFolder<R>> {
        &self.folder
    }

    /// Says that a segment is not live any more, or that the streams of this shard have left it if
    /// others have streams in it, too.
    pub(super) fn leave(&self, segment: &SealedSegment, edit: &mut ManifestEdit) {
        let (name, left) = (segment.live.name, &segment.left);
        let owned = self.folder.owned();
        if owned.contain_file(name.writer(), left) {
            edit.removed.push(name);
            return;
        }
        let parts = owned.parts_of_file(name.writer(), left).into_iter();
        edit.left.extend(parts.map(|part| LeftPart { segment: name, part }));
    }

    pub(super) async fn merge(&self, mut job: MergeJob) -> Result<Pending, CompactError> {
        let lives: Vec<LiveSegment> = job.inputs.iter().map(|input| input.live).collect();
        let last = lives.last().ok_or_else(|| io::Error::other("nothing to merge"))?;
        let level = lives.iter().map(|live| live.level).max().unwrap_or(0).saturating_add(1);
        self.check_space(lives.iter().map(|live| live.file_len).sum()).await?;
        let place = MergedPlace { level, order: last.order };
        let mut output = self.folder.begin(last.day)?;
        let mut directories = Vec::with_capacity(job.inputs.len());
        let merged = async {
            let mut inputs = Vec::with_capacity(job.inputs.len());
            for input in &job.inputs {
                let mut input = Input::open(&self.folder, Arc::clone(input)).await?;
                input.share_memory(job.inputs.len());
                directories.push(Arc::clone(&input.directory));
                inputs.push(input);
            }
            let late = Arc::new(late_streams(&self.folder, &directories, &job).await);
            let keep = &mut *job.keep;
            let buffers = self.buffers.take();
            let throttle = &job.throttle;
            let merge =
                Merge::new(&self.folder, inputs, keep, throttle, place, buffers, &mut output);
            let (finished, read) = merge?.with_late_streams(Arc::clone(&late)).run().await?;
            Ok::<_, CompactError>((finished, read, late))
        };
        let totals_in;
        let added = match merged.await {
            Ok((Some(mut finished), read, late)) => {
                totals_in = read;
                if let Some(buffers) = finished.buffers.take() {
                    self.buffers.keep(&self.folder.runtime, *buffers);
                }
                let mut added = self.folder.publish(output, finished, level, last.order).await?;
                let rows = 0..added.directory.stream_count();
                let is_late = |row: &u32| late.contains(&added.directory.stream_id(*row));
                added
                    .segment
                    .note_late_rows(Some(&rows.filter(is_late).map(|row| row..row + 1).collect()));
                let first_orders = job.inputs.iter().map(|input| input.first_order);
                added.segment.first_order = first_orders.min().unwrap_or(0);
                Some(added)
            }
            Ok((None, read, _)) => {
                totals_in = read;
                self.folder.discard(output).await;
                None
            }
            Err(error) => {
                self.folder.discard(output).await;
                return Err(error);
            }
        };
        let names: Vec<SegmentName> = lives.iter().map(|live| live.name).collect();
        let mut edit = ManifestEdit {
            added: added.iter().map(|opened| opened.segment.live).collect(),
            left: self.folder.gaps_of(added.iter().map(|opened| &opened.segment)),
            footers: added.iter().map(|opened| opened.segment.footer_record()).collect(),
            ..ManifestEdit::default()
        };
        job.inputs.iter().for_each(|input| self.leave(input, &mut edit));
        let outcome = MaintenanceOutcome {
            is_merge: true,
            entries_in: totals_in.entries,
            entries_out: added.as_ref().map_or(0, |added| added.segment.live.entries),
            line_bytes_in: totals_in.line_bytes,
            line_bytes_out: added.as_ref().map_or(0, |added| added.segment.live.line_bytes),
            added,
            removed: names,
            ..MaintenanceOutcome::default()
        };
        Ok(Pending { edit, outcome, unlink: Vec::new(), is_committed: false })
    }
}

impl<R: Runtime> Compactor<R> {
    /// Refuses to begin a merge that is unlikely to end: a disk that is nearly full has better uses
    /// for its space than half a merge.
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

fn names_of(segments: &[Arc<SealedSegment>]) -> Vec<SegmentName> {
    segments.iter().map(|segment| segment.live.name).collect()
}
