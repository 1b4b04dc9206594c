//! The part of a start that concerns the manifest: read it, write the next checkpoint, and
//! clear up.
//!
//! Guarantees: a crash at any point leaves the live set as it was. The bytes that a start reads
//! may be in the page cache only: a failed sync of an earlier process leaves them there, and
//! another sync does not bring them to the disk. So nothing is removed because of them until the
//! new checkpoint is on stable storage. If the checkpoint cannot be written (a full disk), the
//! old files go on counting, nothing is cleared up, the first edit of each shard repeats the
//! state that was read ([`StartedManifest::preface`]), and the next start tries again.
//!
//! No file is removed whose entries might be nowhere else. A complete segment that no edit names
//! is read. A file that cannot be read is moved to the quarantine folder, which no start
//! empties.

mod clear;
mod sort;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use logsvc_runtime::Runtime;

use super::edit::{LeftPart, LiveSegment, ManifestEdit};
use super::footers::{FooterRecord, read_footers};
use super::format::encode_checkpoint;
use super::names::{CHECKPOINT_NAME, SegmentName};
use super::read::{ManifestDamage, ManifestState, read_manifest};
use super::survey::{FoundSegment, SegmentsSurvey, survey_segments};
use super::unlisted::{LiveFiles, Unlisted, UnlistedKind, find_unlisted, lost_edits, path_of};
use crate::wal::covers::Cover;
use crate::wal::format::WalName;
use logsvc_segment::Footer;
use logsvc_segment::version::UnknownVersion;

/// The findings of a start in the segments folder, for the log and the metrics.
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
    /// Segments that are live although no edit names them: their entries were acknowledged.
    pub adopted_segments: u64,
    /// Entries in them.
    pub adopted_entries: u64,
    /// Segments that were live and are given up, since lost edits have merged them.
    pub merged_segments: u64,
    /// Segment files without a footer that checks, which could not be adopted. They are
    /// in the quarantine folder.
    pub unreadable_segments: u64,
    /// Files that were moved to the quarantine folder, besides the files of the manifest.
    pub quarantined_files: u64,
    /// Edits that a crash cut short.
    pub torn_edits: u64,
    /// Left-overs of a crash that were removed.
    pub removed_files: u64,
    /// Log files that were removed because segments hold all of their entries.
    pub removed_wal_files: u64,
    /// Why no checkpoint could be written, if so.
    pub checkpoint_error: Option<String>,
    /// Footers that were read from the files of segments, because the manifest did not have them.
    pub read_footers: u64,
    /// Live segments of which the manifest had only footers that do not check or do not fit.
    pub wrong_footers: u64,
    /// Files of another version of the program that are left alone.
    pub unknown_files: Vec<UnknownVersion>,
}

/// The manifest of a folder that this process has claimed.
pub(crate) struct OpenedManifest {
    segments_dir: PathBuf,
    survey: SegmentsSurvey,
    state: ManifestState,
    unlisted: Vec<Unlisted>,
    /// Whether there has never been a checkpoint.
    is_new: bool,
    /// Whether the file of a live segment is not there as it ought to be.
    lacks_files: bool,
    pub(crate) report: ManifestReport,
}

/// The manifest as a start leaves it.
pub(crate) struct StartedManifest {
    /// Segments to read, by order.
    pub(crate) usable: Vec<LiveSegment>,
    /// Live segments that are missing or have another length.
    pub(crate) unusable: Vec<LiveSegment>,
    /// Footers of the segments to read, as far as they are known.
    pub(crate) footers: BTreeMap<SegmentName, Footer>,
    /// Streams that have left live segments.
    pub(crate) left: Vec<LeftPart>,
    /// Segments to read that have no files: the bucket has them.
    pub(crate) without_files: BTreeSet<SegmentName>,
    /// Those of them whose ends are here.
    pub(crate) with_tails: BTreeSet<SegmentName>,
    /// The edits that were read, as one, if no checkpoint could be written: the first edit of each
    /// log has to repeat it.
    pub(crate) preface: Option<ManifestEdit>,
    pub(crate) report: ManifestReport,
}

/// The files that are removed or moved once the checkpoint is written.
#[derive(Default)]
struct Clearing {
    /// Files whose entries are elsewhere, or nowhere needed.
    left_overs: Vec<PathBuf>,
    /// Files that are kept in the quarantine folder, and their segments.
    quarantined: Vec<(PathBuf, FoundSegment)>,
    /// Live segments that have their pending names.
    pending: Vec<LiveSegment>,
}

/// What a bucket has of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredSet {
    /// The live segments.
    pub live: BTreeMap<SegmentName, LiveSegment>,
    /// Their footers, as far as they are known.
    pub footers: BTreeMap<SegmentName, FooterRecord>,
    /// Streams that have left them.
    pub left: Vec<LeftPart>,
    /// Parts of the write-ahead log that they hold.
    pub covers: Vec<Cover>,
}

/// The manifest of a claimed folder as it was read. Nothing has been looked at besides.
pub(crate) struct ReadManifest {
    segments_dir: PathBuf,
    survey: SegmentsSurvey,
    state: ManifestState,
}

impl ReadManifest {
    /// Reads the manifest of a claimed folder.
    pub(crate) async fn read<R: Runtime>(
        runtime: &R,
        segments_dir: &Path,
    ) -> io::Result<ReadManifest> {
        let survey = survey_segments(runtime, segments_dir).await?;
        let has_segments = !survey.segments.is_empty() || !survey.pending.is_empty();
        let logs = survey.logs.clone();
        let state = read_manifest(runtime, segments_dir, logs, has_segments).await?;
        Ok(ReadManifest { segments_dir: segments_dir.to_owned(), survey, state })
    }

    /// The largest epoch that any name or file tells of.
    pub(crate) fn max_epoch(&self) -> Option<u32> {
        let of_live = self.state.live.keys().map(|name| name.epoch).max();
        self.survey.max_epoch().max(self.state.checkpoint_epoch).max(of_live)
    }

    /// The live segments, and the complete files that may be some.
    pub(crate) fn segments(&self) -> impl Iterator<Item = SegmentName> {
        let files = self.survey.segments.iter().chain(&self.survey.pending);
        self.state.live.keys().copied().chain(files.map(|found| found.name))
    }

    /// Live segments without files.
    pub(crate) fn missing(&self) -> Vec<LiveSegment> {
        let files = LiveFiles::new(&self.state, &self.survey);
        let is_missing = |live: &&LiveSegment| files.len_bytes(live).is_none();
        self.state.live.values().filter(is_missing).copied().collect()
    }

    /// Notes which live segments a bucket has.
    pub(crate) fn note_stored(&mut self, bucket: &StoredSet) {
        self.state.stored = bucket.live.keys().copied().collect();
    }

    /// Takes what a bucket has for the live set, and nothing else. Files of other segments are not
    /// needed any more.
    pub(crate) fn replace(&mut self, bucket: StoredSet) {
        let removed = self.segments().filter(|name| !bucket.live.contains_key(name)).collect();
        self.state = ManifestState {
            stored: bucket.live.keys().copied().collect(),
            live: bucket.live,
            removed,
            left: bucket.left,
            footers: bucket.footers,
            covers: bucket.covers,
            has_checkpoint: self.state.has_checkpoint,
            checkpoint_epoch: self.state.checkpoint_epoch,
            logs: std::mem::take(&mut self.state.logs),
            contained_logs: std::mem::take(&mut self.state.contained_logs),
            ..ManifestState::default()
        };
    }

    /// Looks at the segments that the manifest does not name.
    pub(crate) async fn examine<R: Runtime>(self, runtime: &R) -> io::Result<OpenedManifest> {
        let ReadManifest { segments_dir, survey, mut state } = self;
        let unlisted = find_unlisted(runtime, &segments_dir, &survey, &state).await?;
        for unknown in &state.unknown.clone() {
            let name = unknown.file.file_name().unwrap_or_default().to_string_lossy();
            state.damaged(name.into_owned(), 0, unknown.what.to_string());
        }
        if state.damage.is_empty() {
            state.damage = lost_edits(&unlisted, &state);
        }
        for damage in &state.damage {
            tracing::error!(
                file = %segments_dir.join(&damage.file).display(), offset = damage.offset,
                "the manifest is damaged: {}", damage.what
            );
        }
        let is_new = state.damage.is_empty() && !state.has_checkpoint;
        let files = LiveFiles::new(&state, &survey);
        let lacks_files = state.live.values().any(|live| !files.is_sound(live));
        let report = ManifestReport {
            damage: state.damage.clone(),
            torn_edits: state.torn_edits,
            ..ManifestReport::default()
        };
        Ok(OpenedManifest { segments_dir, survey, state, unlisted, is_new, lacks_files, report })
    }
}

impl OpenedManifest {
    /// Files of the manifest, and segments that it does not name, of another version of the
    /// program.
    pub(crate) fn unknown_versions(&self) -> Vec<UnknownVersion> {
        let of_segments = self.unlisted.iter().filter_map(|file| match &file.kind {
            UnlistedKind::OtherVersion(unknown) => Some(unknown),
            _ => None,
        });
        self.state.unknown.iter().chain(of_segments).cloned().collect()
    }

    /// Whether nothing was ever stored in the folder.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// The parts of the write-ahead log that need not be replayed. There are none if the manifest
    /// is damaged: a segment that is not live any more may be the only reason for a cover. There
    /// are none if a live segment is missing, either: the log may have its entries.
    pub(crate) fn covers(&self) -> &[Cover] {
        let counts = self.state.damage.is_empty() && !self.lacks_files;
        if counts { &self.state.covers } else { &[] }
    }

    /// Writes the checkpoint of this start, with the covers that are of use, and clears up.
    /// [`ManifestReport::checkpoint_error`] tells whether it could. `replayed` are the log files
    /// that will be replayed.
    ///
    /// # Errors
    /// The first checkpoint of a folder cannot be written, or a live segment cannot be given
    /// its name, or without a checkpoint the edit that has made it live cannot be synced.
    pub(crate) async fn finish<R: Runtime>(
        mut self,
        runtime: &R,
        epoch: u32,
        covers: Vec<Cover>,
        replayed: &[WalName],
    ) -> io::Result<StartedManifest> {
        for path in &self.survey.strangers {
            tracing::warn!(file = %path.display(), "not a segment, left alone");
        }
        // No edit names temporary files, and a checkpoint may need the space.
        let temporary = std::mem::take(&mut self.survey.temporary);
        self.remove_left_overs(runtime, temporary).await;
        let clearing = self.sort_unlisted(replayed);
        // If there will be no checkpoint, the edits that are there go on counting.
        let removed = self.state.removed.clone();
        self.forget_removed(runtime).await;
        self.forget_merged();
        self.complete_footers(runtime, &clearing.pending).await;
        let mut preface = None;
        match self.checkpoint(runtime, epoch, covers.clone()).await {
            Ok(()) => {}
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
                    removed: removed.into_iter().collect(),
                    covers,
                    left: self.state.left.clone(),
                    // They only save work, and the disk may be full.
                    footers: Vec::new(),
                });
            }
        }
        if preface.is_some() && !clearing.pending.is_empty() {
            self.sync_logs(runtime).await?;
        }
        for live in &clearing.pending {
            live.name.finalize(runtime, &self.segments_dir, live.day).await?;
        }
        if preface.is_none() {
            self.remove_logs(runtime).await;
            self.quarantine_segments(runtime, epoch, clearing.quarantined).await;
            self.remove_left_overs(runtime, clearing.left_overs).await;
        }
        self.remove_misfits(runtime).await;
        let (mut usable, unusable) = self.tell_apart();
        usable.sort_unstable_by_key(|segment| (segment.order, segment.name));
        self.report.live_segments = usable.len() as u64;
        let left = self.left_of_live();
        let files = self.survey.segments.iter().chain(&self.survey.pending);
        let files: BTreeSet<SegmentName> = files.map(|found| found.name).collect();
        let without_files = usable.iter().map(|live| live.name);
        let without_files: BTreeSet<SegmentName> =
            without_files.filter(|name| !files.contains(name)).collect();
        let tails = std::mem::take(&mut self.survey.tails).into_iter();
        let (tails, others): (Vec<_>, Vec<_>) =
            tails.partition(|tail| without_files.contains(&tail.name));
        if preface.is_none() {
            let path = |tail: &FoundSegment| tail.name.tail_path(&self.segments_dir, tail.day);
            let others = others.iter().map(path).collect();
            self.remove_left_overs(runtime, others).await;
        }
        let with_tails = tails.iter().map(|tail| tail.name).collect();
        let known = |live: &LiveSegment| {
            let record = self.state.footers.get(&live.name)?;
            Some((live.name, record.read(live).ok()?))
        };
        let footers = usable.iter().filter_map(known).collect();
        let report = self.report;
        Ok(StartedManifest {
            usable,
            unusable,
            footers,
            left,
            without_files,
            with_tails,
            preface,
            report,
        })
    }

    /// Removes files of another length whose segments a bucket has.
    async fn remove_misfits<R: Runtime>(&mut self, runtime: &R) {
        let state = &self.state;
        let is_misfit = |found: &FoundSegment| {
            let live = state.live.get(&found.name).filter(|live| live.day == found.day);
            live.is_some_and(|live| live.file_len != found.len_bytes)
                && state.stored.contains(&found.name)
        };
        let misfits: Vec<FoundSegment> =
            self.survey.segments.extract_if(.., |found| is_misfit(found)).collect();
        for found in misfits {
            let path = found.name.path(&self.segments_dir, found.day);
            match runtime.remove_file(&path).await {
                Ok(()) => tracing::error!(
                    file = %path.display(), len_bytes = found.len_bytes,
                    "a segment has another length; it is read from the bucket"
                ),
                Err(error) => {
                    tracing::error!(%error, file = %path.display(), "cannot remove a file");
                    self.survey.segments.push(found);
                }
            }
        }
    }

    /// Live segments whose files are there as they ought to be, and the others.
    fn tell_apart(&mut self) -> (Vec<LiveSegment>, Vec<LiveSegment>) {
        let mut usable = Vec::new();
        let mut unusable = Vec::new();
        let files = LiveFiles::new(&self.state, &self.survey);
        for segment in self.state.live.values() {
            let len_bytes = files.len_bytes(segment);
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

    /// Reads the footers that the manifest lacks from the files, for this start and for the next
    /// checkpoint. `pending` are live segments that have their pending names.
    async fn complete_footers<R: Runtime>(&mut self, runtime: &R, pending: &[LiveSegment]) {
        self.report.wrong_footers = self.state.wrong_footers.len() as u64;
        for name in &self.state.wrong_footers {
            tracing::warn!(
                segment = name.file_name(),
                "the manifest has a footer of this segment that does not check or does not fit its \
                 record; the footer of the file counts"
            );
        }
        let pending: BTreeSet<SegmentName> = pending.iter().map(|live| live.name).collect();
        let files = LiveFiles::new(&self.state, &self.survey);
        let lacks = |live: &&LiveSegment| {
            files.is_sound(live) && !self.state.footers.contains_key(&live.name)
        };
        let with_path = |live: &LiveSegment| {
            let found = FoundSegment { day: live.day, name: live.name, len_bytes: live.file_len };
            let path = path_of(&self.segments_dir, &found, pending.contains(&live.name));
            (*live, path)
        };
        let lacking: Vec<_> = self.state.live.values().filter(lacks).map(with_path).collect();
        let count = lacking.len();
        if count == 0 {
            return;
        }
        let records = read_footers(runtime, lacking).await;
        tracing::info!(
            segments = count,
            read = records.len(),
            "read footers that the manifest lacks"
        );
        self.report.read_footers = records.len() as u64;
        self.state.footers.extend(records.into_iter().map(|record| (record.segment, record)));
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
        // Should the removal of a file be cut short, or fail, the next start has to know that
        // it is no segment which the manifest has forgotten.
        let removed = self.state.removed.iter().copied().collect();
        let is_live = |name: &SegmentName| self.state.live.contains_key(name);
        let footers = self.state.footers.values();
        let footers = footers.filter(|record| is_live(&record.segment)).copied().collect();
        let content = ManifestEdit { added, covers, left, removed, footers };
        let bytes = encode_checkpoint(epoch, runtime.random_u64(), runtime.unix_nanos(), &content);
        let path = self.segments_dir.join(CHECKPOINT_NAME);
        if self.is_damaged(CHECKPOINT_NAME) {
            self.keep_damaged_checkpoint(runtime, epoch, &path).await;
        }
        runtime.replace_file(&path, bytes).await
    }
}
