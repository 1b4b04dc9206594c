//! Segment files that the manifest does not name as live, and the kind of each.
//!
//! A complete segment has a pending name until its edit is in force, and its final name from
//! then on. So a segment with its final name has been live: either an edit has removed it, or
//! the manifest has lost the edit that added it. Nothing here changes a file; [`super::start`]
//! and [`crate::check`] act on the result.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use logsvc_runtime::Runtime;

use super::adopt::{NotAdopted, adopted};
use super::edit::LiveSegment;
use super::names::{CHECKPOINT_NAME, Day, ManifestLogName, SegmentName};
use super::read::{ManifestDamage, ManifestState};
use super::survey::{FoundSegment, SegmentsSurvey};
use crate::types::may_share_streams;
use logsvc_segment::version::{UnknownPart, UnknownVersion};

/// A segment file that is not live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unlisted {
    /// The file.
    pub(crate) found: FoundSegment,
    /// Whether it has its pending name.
    pub(crate) is_pending: bool,
    /// Its kind.
    pub(crate) kind: UnlistedKind,
}

/// The kind of a segment file that is not live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum UnlistedKind {
    /// An edit has removed it, and the segments that took its place are there: its removal was cut
    /// short.
    Removed,
    /// The file is complete, was live, and no edit says that it is not; or one does, but the
    /// segments that took its place are not there. Its entries are nowhere else.
    Lost(LiveSegment),
    /// The file is complete, and has never been live: the segments that it was merged from are
    /// there, or it was sealed from log files that ought to be there.
    Unborn(LiveSegment),
    /// Another file has the same name and is live.
    Misplaced,
    /// The file cannot be read, and why.
    Unreadable(String),
    /// Another version of the program has written it.
    OtherVersion(UnknownVersion),
}

/// Which files the live segments have.
pub(crate) struct LiveFiles<'a> {
    state: &'a ManifestState,
    lengths: BTreeMap<(SegmentName, Day), u64>,
}

impl<'a> LiveFiles<'a> {
    pub(crate) fn new(state: &'a ManifestState, survey: &SegmentsSurvey) -> LiveFiles<'a> {
        let files = survey.pending.iter().chain(&survey.segments);
        let lengths = files.map(|found| ((found.name, found.day), found.len_bytes)).collect();
        LiveFiles { state, lengths }
    }

    /// Length of a live segment's file, whichever of its names it has, or of its object if there is
    /// no file.
    pub(crate) fn len_bytes(&self, live: &LiveSegment) -> Option<u64> {
        let of_file = self.lengths.get(&(live.name, live.day)).copied();
        of_file.or_else(|| self.state.stored.contains(&live.name).then_some(live.file_len))
    }

    /// Whether a live segment's file is there as it ought to be.
    pub(crate) fn is_sound(&self, live: &LiveSegment) -> bool {
        self.len_bytes(live) == Some(live.file_len)
    }

    /// Whether the entries of a segment that an edit has removed are in segments that are
    /// there, or were deleted.
    fn is_replaced(&self, name: SegmentName) -> bool {
        let mut seen = BTreeSet::new();
        let mut open = vec![name];
        while let Some(name) = open.pop() {
            for output in self.state.outputs.get(&name).into_iter().flatten() {
                match self.state.live.get(output) {
                    Some(live) if self.is_sound(live) => {}
                    Some(_) => return false,
                    // The segment was merged in its turn.
                    None if seen.insert(*output) => open.push(*output),
                    None => {}
                }
            }
        }
        true
    }

    /// Whether all live segments are there that may have streams in common with a segment, and
    /// there is one at least: it was merged of some of them.
    fn has_inputs(&self, merged: &LiveSegment) -> bool {
        let mut inputs = self
            .state
            .live
            .values()
            .filter(|live| may_share_streams(live.name.writer(), merged.name.writer()));
        let mut has_some = false;
        inputs.all(|live| {
            has_some = true;
            self.is_sound(live)
        }) && has_some
    }
}

/// Looks at all segment files that are not live.
///
/// # Errors
/// A file cannot be read at this moment.
pub(crate) async fn find_unlisted<R: Runtime>(
    runtime: &R,
    segments_dir: &Path,
    survey: &SegmentsSurvey,
    state: &ManifestState,
) -> io::Result<Vec<Unlisted>> {
    let files = LiveFiles::new(state, survey);
    let mut unlisted = Vec::new();
    let named = survey.segments.iter().map(|found| (found, false));
    for (&found, is_pending) in named.chain(survey.pending.iter().map(|found| (found, true))) {
        let live = state.live.get(&found.name);
        let has_name = |found: &FoundSegment| {
            survey.segments.iter().any(|other| (other.name, other.day) == (found.name, found.day))
        };
        if live.is_some_and(|live| live.day == found.day) && !(is_pending && has_name(&found)) {
            continue;
        }
        let kind = if live.is_some() {
            UnlistedKind::Misplaced
        } else if state.removed.contains(&found.name) && files.is_replaced(found.name) {
            UnlistedKind::Removed
        } else {
            let path = path_of(segments_dir, &found, is_pending);
            match adopted(runtime, &path, found).await {
                Ok(segment) if !is_pending => UnlistedKind::Lost(segment),
                Ok(segment) if segment.level == 0 || files.has_inputs(&segment) => {
                    UnlistedKind::Unborn(segment)
                }
                Ok(segment) => UnlistedKind::Lost(segment),
                Err(NotAdopted::OtherVersion(error)) => {
                    let part = error.unknown_version().unwrap_or(UnknownPart::Part("it"));
                    UnlistedKind::OtherVersion(UnknownVersion::new(&path, part))
                }
                Err(NotAdopted::Unreadable(what)) => UnlistedKind::Unreadable(what),
                Err(NotAdopted::Io(error)) => return Err(error),
            }
        };
        unlisted.push(Unlisted { found, is_pending, kind });
    }
    Ok(unlisted)
}

/// The path of an unlisted segment file.
pub(crate) fn path_of(
    segments_dir: &Path,
    found: &FoundSegment,
    is_pending: bool,
) -> std::path::PathBuf {
    if is_pending {
        found.name.pending_path(segments_dir, found.day)
    } else {
        found.name.path(segments_dir, found.day)
    }
}

/// The parts of the manifest that must be lost, since there are segments that were live and that no
/// edit names: one place of damage for each log that must have named them.
pub(crate) fn lost_edits(unlisted: &[Unlisted], state: &ManifestState) -> Vec<ManifestDamage> {
    let mut by_file: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for file in unlisted.iter().filter(|file| !file.is_pending) {
        let entries = match &file.kind {
            // Its removal is known.
            UnlistedKind::Lost(segment) if state.removed.contains(&segment.name) => continue,
            UnlistedKind::Lost(segment) => segment.entries,
            UnlistedKind::Unreadable(_) => 0,
            _ => continue,
        };
        let SegmentName { epoch, shard, .. } = file.found.name;
        let is_of_log = |log: &&ManifestLogName| (log.epoch, log.shard) == (epoch, shard);
        let log = match state.logs.iter().rfind(is_of_log) {
            Some(log) => log.file_name(),
            None if state.checkpoint_epoch.is_some_and(|checkpoint| epoch >= checkpoint) => {
                ManifestLogName { epoch, shard, n: 0 }.file_name()
            }
            None => CHECKPOINT_NAME.to_owned(),
        };
        let (segments, of_log) = by_file.entry(log).or_default();
        *segments += 1;
        *of_log = of_log.saturating_add(entries);
    }
    let damage = |(file, (segments, entries)): (String, (u64, u64))| ManifestDamage {
        file,
        offset: 0,
        what: format!(
            "edits are lost: {segments} segments with {entries} entries were live, and no edit \
             names them"
        ),
    };
    by_file.into_iter().map(damage).collect()
}
