//! What a start does with the manifest: read it, write the next checkpoint, clear up.
//!
//! Guarantees: a crash at any point leaves the live set as it was. What a start has read
//! may be in the page cache only, where a failed sync of the process before has left it,
//! and a sync would not bring it to the disk any more. So nothing is removed on its
//! strength until the new checkpoint is on stable storage. If that cannot be written (a
//! full disk), the old files go on counting, nothing is cleared up, the first edit of
//! each shard repeats what was read ([`SettledManifest::preface`]), and the next start
//! tries again.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use logsvc_runtime::Runtime;

use super::adopt::adopted;
use super::edit::{Cover, LeftPart, LiveSegment, ManifestEdit};
use super::format::encode_checkpoint;
use super::names::{CHECKPOINT_NAME, QUARANTINE_NAME};
use super::read::{ManifestDamage, ManifestState, read_manifest};
use super::survey::{FoundSegment, SegmentsSurvey, survey_segments};

/// A manifest larger than this is not copied to the quarantine folder.
const COPIED_MAX_BYTES: usize = 256 << 20;

/// What a start found in the segments folder, for the log and the metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestReport {
    /// Live segments that queries read.
    pub live_segments: u64,
    /// Live segments whose files are not there.
    pub missing_segments: u64,
    /// Live segments whose files have another length.
    pub misfit_segments: u64,
    /// Damaged places of the manifest itself.
    pub damage: Vec<ManifestDamage>,
    /// Segments that are live because the manifest is damaged and they are there.
    pub adopted_segments: u64,
    /// Segment files without a footer that checks, which could not be adopted. They are
    /// left alone.
    pub unreadable_segments: u64,
    /// Edits that a crash cut short.
    pub torn_edits: u64,
    /// Left-overs of a crash that were removed.
    pub removed_files: u64,
    /// Log files that were removed because segments hold all of their entries.
    pub removed_wal_files: u64,
    /// Why no checkpoint could be written, if so.
    pub checkpoint_error: Option<String>,
}

/// The manifest of a folder that this process has claimed.
pub(crate) struct OpenedManifest {
    segments_dir: PathBuf,
    survey: SegmentsSurvey,
    state: ManifestState,
    /// Whether there has never been a checkpoint.
    is_new: bool,
    pub(crate) report: ManifestReport,
}

/// What is left when the manifest has been settled.
pub(crate) struct SettledManifest {
    /// Segments to read, by order.
    pub(crate) usable: Vec<LiveSegment>,
    /// Live segments that are missing or have another length.
    pub(crate) unusable: Vec<LiveSegment>,
    /// Streams that have left live segments.
    pub(crate) left: Vec<LeftPart>,
    /// What was read, if no checkpoint could be written: the first edit of each log has
    /// to repeat it.
    pub(crate) preface: Option<ManifestEdit>,
    pub(crate) report: ManifestReport,
}

impl OpenedManifest {
    /// Reads the manifest of a claimed folder.
    pub(crate) async fn open<R: Runtime>(
        runtime: &R,
        segments_dir: &Path,
    ) -> io::Result<OpenedManifest> {
        let survey = survey_segments(runtime, segments_dir).await?;
        let has_segments = !survey.segments.is_empty();
        let logs = survey.logs.clone();
        let state = read_manifest(runtime, segments_dir, logs, has_segments).await?;
        for damage in &state.damage {
            tracing::error!(
                file = %segments_dir.join(&damage.file).display(), offset = damage.offset,
                "the manifest is damaged: {}", damage.what
            );
        }
        let is_new = state.damage.is_empty() && !state.has_checkpoint;
        let report = ManifestReport {
            damage: state.damage.clone(),
            torn_edits: state.torn_edits,
            ..ManifestReport::default()
        };
        let segments_dir = segments_dir.to_owned();
        Ok(OpenedManifest { segments_dir, survey, state, is_new, report })
    }

    /// The largest epoch that any name or file tells of.
    pub(crate) fn max_epoch(&self) -> Option<u32> {
        let of_live = self.state.live.keys().map(|name| name.epoch).max();
        self.survey.max_epoch().max(self.state.checkpoint_epoch).max(of_live)
    }

    /// What of the write-ahead log need not be replayed. Nothing, if the manifest is
    /// damaged: a segment that is not live any more may be the only reason for a cover.
    pub(crate) fn covers(&self) -> &[Cover] {
        if self.state.damage.is_empty() { &self.state.covers } else { &[] }
    }

    /// Writes the checkpoint of this start, with those covers that are still of use, and
    /// clears up. [`ManifestReport::checkpoint_error`] tells whether it could.
    ///
    /// # Errors
    /// The first checkpoint of a folder cannot be written.
    pub(crate) async fn settle<R: Runtime>(
        mut self,
        runtime: &R,
        epoch: u32,
        covers: Vec<Cover>,
    ) -> io::Result<SettledManifest> {
        for path in &self.survey.strangers {
            tracing::warn!(file = %path.display(), "not a segment, left alone");
        }
        // Nobody knows their names, whatever the manifest says, and a checkpoint may
        // need the space.
        let temporary = std::mem::take(&mut self.survey.temporary);
        self.remove_left_overs(runtime, temporary).await;
        let left_overs = self.tell_unknown(runtime).await;
        let (mut usable, unusable) = self.tell_apart();
        let mut preface = None;
        match self.checkpoint(runtime, epoch, covers.clone()).await {
            Ok(()) => {
                self.remove_logs(runtime).await;
                self.remove_left_overs(runtime, left_overs).await;
            }
            // Without any, the logs to come would look like the rest of a manifest whose
            // checkpoint was lost.
            Err(error) if self.is_new => return Err(error),
            Err(error) => {
                tracing::error!(
                    %error, folder = %self.segments_dir.display(),
                    "cannot write a checkpoint of the manifest; the old one and its logs go on \
                     counting"
                );
                self.report.checkpoint_error = Some(error.to_string());
                preface = Some(ManifestEdit {
                    added: self.state.live.values().copied().collect(),
                    removed: self.state.removed.iter().copied().collect(),
                    covers,
                    left: self.state.left.clone(),
                });
            }
        }
        usable.sort_unstable_by_key(|segment| (segment.order, segment.name));
        self.report.live_segments = usable.len() as u64;
        let left = self.left_of_live();
        Ok(SettledManifest { usable, unusable, left, preface, report: self.report })
    }

    /// Segment files that are not live. If the manifest has lost what it knew, they
    /// become live, unless a log says that they are not.
    async fn tell_unknown<R: Runtime>(&mut self, runtime: &R) -> Vec<PathBuf> {
        let live = &self.state.live;
        let is_live = |found: &FoundSegment| {
            live.get(&found.name).is_some_and(|segment| segment.day == found.day)
        };
        let unknown: Vec<FoundSegment> =
            self.survey.segments.iter().filter(|found| !is_live(found)).copied().collect();
        let is_damaged = !self.state.damage.is_empty();
        let mut left_overs = Vec::new();
        for found in unknown {
            let path = found.name.path(&self.segments_dir, found.day);
            if !is_damaged || self.state.removed.contains(&found.name) {
                left_overs.push(path);
                continue;
            }
            let adopted = match self.state.live.get(&found.name) {
                None => adopted(runtime, &path, found).await,
                Some(_) => Err(io::Error::other("another file has the same name")),
            };
            match adopted {
                Ok(segment) => {
                    tracing::warn!(
                        file = %path.display(), entries = segment.entries,
                        "a segment that the damaged manifest does not name is read"
                    );
                    self.state.live.insert(segment.name, segment);
                    self.report.adopted_segments += 1;
                }
                Err(error) => {
                    tracing::error!(
                        %error, file = %path.display(),
                        "a segment that the damaged manifest does not name cannot be read; it is \
                         left alone"
                    );
                    self.report.unreadable_segments += 1;
                }
            }
        }
        left_overs
    }

    /// Live segments whose files are there as they ought to be, and the others.
    fn tell_apart(&mut self) -> (Vec<LiveSegment>, Vec<LiveSegment>) {
        let mut usable = Vec::new();
        let mut unusable = Vec::new();
        let lengths: BTreeMap<_, _> =
            self.survey.segments.iter().map(|f| ((f.name, f.day), f.len_bytes)).collect();
        for segment in self.state.live.values() {
            let len_bytes = lengths.get(&(segment.name, segment.day)).copied();
            let file = segment.name.path(&self.segments_dir, segment.day);
            match len_bytes {
                Some(len_bytes) if len_bytes == segment.file_len => {
                    usable.push(*segment);
                    continue;
                }
                Some(len_bytes) => {
                    self.report.misfit_segments += 1;
                    tracing::error!(
                        file = %file.display(), len_bytes, expected_len_bytes = segment.file_len,
                        entries = segment.entries, "a segment has another length; it is not read"
                    );
                }
                None => {
                    self.report.missing_segments += 1;
                    tracing::error!(
                        file = %file.display(), entries = segment.entries, "a segment is missing"
                    );
                }
            }
            unusable.push(*segment);
        }
        (usable, unusable)
    }

    /// Streams that have left segments which are live.
    fn left_of_live(&self) -> Vec<LeftPart> {
        let is_live = |part: &&LeftPart| self.state.live.contains_key(&part.segment);
        self.state.left.iter().filter(is_live).copied().collect()
    }

    /// Replaces `MANIFEST`.
    async fn checkpoint<R: Runtime>(
        &self,
        runtime: &R,
        epoch: u32,
        covers: Vec<Cover>,
    ) -> io::Result<()> {
        let added = self.state.live.values().copied().collect();
        let left = self.left_of_live();
        let content = ManifestEdit { added, covers, left, removed: Vec::new() };
        let bytes = encode_checkpoint(epoch, runtime.random_u64(), runtime.unix_nanos(), &content);
        let path = self.segments_dir.join(CHECKPOINT_NAME);
        if self.is_damaged(CHECKPOINT_NAME) {
            self.keep_damaged_checkpoint(runtime, epoch, &path).await;
        }
        runtime.replace_file(&path, bytes).await
    }

    /// Removes the logs that the checkpoint contains.
    async fn remove_logs<R: Runtime>(&mut self, runtime: &R) {
        let contained = std::mem::take(&mut self.state.contained_logs);
        for name in contained.into_iter().chain(std::mem::take(&mut self.state.logs)) {
            let file_name = name.file_name();
            let path = self.segments_dir.join(&file_name);
            if self.is_damaged(&file_name) {
                let target = self.segments_dir.join(QUARANTINE_NAME).join(&file_name);
                if let Err(error) = runtime.rename(&path, &target).await {
                    tracing::warn!(%error, file = %path.display(), "cannot keep a damaged file");
                }
            } else if let Err(error) = runtime.remove_file(&path).await {
                // It does not count any more.
                tracing::warn!(%error, file = %path.display(), "cannot remove an old log");
            }
        }
    }

    fn is_damaged(&self, file_name: &str) -> bool {
        self.state.damage.iter().any(|damage| damage.file == file_name)
    }

    async fn keep_damaged_checkpoint<R: Runtime>(&self, runtime: &R, epoch: u32, path: &Path) {
        let name = format!("{CHECKPOINT_NAME}-{epoch:08x}");
        let copy = self.segments_dir.join(QUARANTINE_NAME).join(name);
        let copied = async {
            let bytes = runtime.read_file(path, COPIED_MAX_BYTES).await?;
            runtime.replace_file(&copy, bytes).await
        };
        match copied.await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::error!(%error, copy = %copy.display(), "cannot copy a damaged file");
            }
        }
    }

    async fn remove_left_overs<R: Runtime>(&mut self, runtime: &R, paths: Vec<PathBuf>) {
        for path in paths {
            match runtime.remove_file(&path).await {
                Ok(()) => {
                    self.report.removed_files += 1;
                    tracing::info!(file = %path.display(), "removed the left-over of a crash");
                }
                Err(error) => {
                    tracing::warn!(%error, file = %path.display(), "cannot remove a left-over");
                }
            }
        }
    }
}
