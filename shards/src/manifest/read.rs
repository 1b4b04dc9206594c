//! Puts the manifest together from its files, and changes nothing.
//!
//! Guarantees: the state has every intact edit that was acknowledged, and no failed edit that
//! another one has superseded. Damage is told apart from torn edits, listed and logged;
//! `docs/format.md` lists the consequences.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use logsvc_runtime::{OpenMode, Runtime};

use super::content::{Content, read_content};
use super::edit::{LeftPart, LiveSegment, ManifestEdit};
use super::footers::{FooterRecord, sort_records};
use super::format::Role;
use super::names::{CHECKPOINT_NAME, ManifestLogName, SegmentName};
use crate::types::StreamPartitions;
use crate::wal::covers::{Cover, strongest};
use logsvc_segment::version::UnknownVersion;

/// The state of the manifest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestState {
    /// The live segments.
    pub live: BTreeMap<SegmentName, LiveSegment>,
    /// Segments that have left the live set: a log says so, or all of their streams have left.
    pub removed: BTreeSet<SegmentName>,
    /// For segments that edits have removed, or that streams have left by them: the segments
    /// that the same edits have added, which have their entries. None if they were deleted.
    pub outputs: BTreeMap<SegmentName, Vec<SegmentName>>,
    /// Streams that have left segments which were not removed.
    pub left: Vec<LeftPart>,
    /// Footers of live segments, as far as they are known and fit the segments' records.
    pub footers: BTreeMap<SegmentName, FooterRecord>,
    /// Live segments of which only footers are known that do not check, or do not fit.
    pub wrong_footers: BTreeSet<SegmentName>,
    /// Covers of the write-ahead log. Not to be heeded if there is damage.
    pub covers: Vec<Cover>,
    /// Whether there is a `MANIFEST`.
    pub has_checkpoint: bool,
    /// The start that wrote `MANIFEST`; `None` if it is not there or does not tell.
    pub checkpoint_epoch: Option<u32>,
    /// Logs that count.
    pub logs: Vec<ManifestLogName>,
    /// Logs that `MANIFEST` contains.
    pub contained_logs: Vec<ManifestLogName>,
    /// Edits that a crash cut short; they were never acknowledged.
    pub torn_edits: u64,
    /// The logs that end in them.
    pub torn_logs: Vec<ManifestLogName>,
    /// Files that another version of the program has written, with the known facts about them.
    pub unknown: Vec<UnknownVersion>,
    /// The damaged places.
    pub damage: Vec<ManifestDamage>,
    /// Live segments that a bucket has, so that they need no files. Not of the manifest.
    pub stored: BTreeSet<SegmentName>,
}

/// A damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestDamage {
    /// The file, within the segments folder.
    pub file: String,
    /// Where in the file.
    pub offset: u64,
    /// The fault, in words.
    pub what: String,
}

impl ManifestState {
    pub(super) fn damaged(&mut self, file: String, offset: u64, what: impl Into<String>) {
        self.damage.push(ManifestDamage { file, offset, what: what.into() });
    }

    fn note_unknown(&mut self, segments_dir: &Path, file: &str, content: &Content) {
        if let Some(what) = content.unknown {
            self.unknown.push(UnknownVersion::new(&segments_dir.join(file), what));
        }
    }

    fn faults(&mut self, file: &str, content: &Content) {
        for (offset, what) in &content.faults {
            self.damaged(file.to_owned(), *offset, *what);
        }
    }
}

/// Reads `MANIFEST` and the given logs. `has_segments` tells whether there are segment
/// files, so that there ought to be a `MANIFEST`.
///
/// # Errors
/// A file cannot be read. Damage is not an error but part of the state.
pub async fn read_manifest<R: Runtime>(
    runtime: &R,
    segments_dir: &Path,
    mut logs: Vec<ManifestLogName>,
    has_segments: bool,
) -> io::Result<ManifestState> {
    let mut state = ManifestState::default();
    let mut footers = Vec::new();
    match read_file(runtime, &segments_dir.join(CHECKPOINT_NAME)).await? {
        Some(content) => {
            state.note_unknown(segments_dir, CHECKPOINT_NAME, &content);
            apply_checkpoint(&mut state, content, &mut footers);
        }
        None if logs.is_empty() && !has_segments => {}
        None => state.damaged(CHECKPOINT_NAME.to_owned(), 0, "it is gone"),
    }
    logs.sort_unstable();
    let counts = |log: &ManifestLogName| state.checkpoint_epoch.is_none_or(|e| log.epoch >= e);
    (state.logs, state.contained_logs) = logs.into_iter().partition(counts);
    let logs = state.logs.clone();
    for of_writer in logs.chunk_by(|a, b| (a.epoch, a.shard) == (b.epoch, b.shard)) {
        let mut edits = BTreeMap::new();
        let mut promised = 0;
        for name in of_writer {
            let path = segments_dir.join(name.file_name());
            let content = read_file(runtime, &path).await?;
            let content = content.ok_or(io::ErrorKind::NotFound)?;
            state.note_unknown(segments_dir, &name.file_name(), &content);
            promised = promised.max(apply_log(&mut state, *name, content, &mut edits));
        }
        let expected = edits.keys().next_back().map_or(0, |last| last.saturating_add(1));
        let expected = expected.max(promised);
        if edits.len() as u64 != expected {
            let what = format!("{} of {expected} edits are missing", expected - edits.len() as u64);
            state.damaged(of_writer[of_writer.len() - 1].file_name(), 0, what);
        }
        for (_, edit) in edits {
            take(&mut state, edit, &mut footers);
        }
    }
    drop_complete_left(&mut state);
    let removed = &state.removed;
    state.live.retain(|name, _| !removed.contains(name));
    (state.footers, state.wrong_footers) = sort_records(footers, &state.live);
    state.covers = strongest(std::mem::take(&mut state.covers));
    Ok(state)
}

async fn read_file<R: Runtime>(runtime: &R, path: &Path) -> io::Result<Option<Content>> {
    match runtime.open(path, OpenMode::Read).await {
        Ok(file) => read_content(&file).await.map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn apply_checkpoint(state: &mut ManifestState, content: Content, footers: &mut Vec<FooterRecord>) {
    state.has_checkpoint = true;
    if content.unknown.is_some() && content.header.is_none() {
        return;
    }
    state.faults(CHECKPOINT_NAME, &content);
    let promised = match content.header.map(|header| header.role) {
        Some(Role::Checkpoint { epoch, frames }) => {
            state.checkpoint_epoch = Some(epoch);
            frames
        }
        Some(Role::Log { .. }) => {
            return state.damaged(CHECKPOINT_NAME.to_owned(), 0, "it is the log of a shard");
        }
        None => 0,
    };
    // The checkpoint appeared whole, so no crash could have torn it.
    let numbers = content.edits.iter().map(|(number, _)| *number);
    if content.is_torn || !numbers.eq(0..promised) {
        state.damaged(CHECKPOINT_NAME.to_owned(), 0, "frames are missing");
    }
    for (_, edit) in content.edits {
        take(state, edit, footers);
    }
}

/// Takes an edit over. An edit of a checkpoint removes the segments that the previous start removed
/// and whose files were left.
fn take(state: &mut ManifestState, edit: ManifestEdit, footers: &mut Vec<FooterRecord>) {
    footers.extend(edit.footers);
    let added: Vec<SegmentName> = edit.added.iter().map(|segment| segment.name).collect();
    let of_left = edit.left.iter().map(|part| &part.segment);
    if !added.is_empty() {
        for name in edit.removed.iter().chain(of_left) {
            state.outputs.entry(*name).or_default().extend(&added);
        }
    }
    state.removed.extend(&edit.removed);
    state.covers.extend(edit.covers);
    state.left.extend(edit.left);
    state.live.extend(edit.added.into_iter().map(|segment| (segment.name, segment)));
}

/// Removes segments that all streams have left.
fn drop_complete_left(state: &mut ManifestState) {
    state.left.sort_unstable();
    state.left.dedup();
    for of_segment in state.left.chunk_by(|a, b| a.segment == b.segment) {
        let name = of_segment[0].segment;
        let parts = of_segment.iter().map(|part| part.part);
        if parts.collect::<StreamPartitions>().contains_file(name.writer()) {
            state.removed.insert(name);
        }
    }
    let removed = &state.removed;
    state.left.retain(|part| !removed.contains(&part.segment));
}

/// Takes a log's edits; gives how many edits there must have been before it.
fn apply_log(
    state: &mut ManifestState,
    name: ManifestLogName,
    content: Content,
    edits: &mut BTreeMap<u64, ManifestEdit>,
) -> u64 {
    let file = name.file_name();
    state.faults(&file, &content);
    let first_edit = match content.header.map(|header| header.role) {
        Some(Role::Log { name: says, first_edit }) if says == name => Some(first_edit),
        Some(_) => {
            state.damaged(file, 0, "its header is that of another file");
            return 0;
        }
        None if content.unknown.is_some() => return 0,
        None => content.edits.first().map(|(number, _)| *number),
    };
    if content.is_torn {
        state.torn_edits += 1;
        state.torn_logs.push(name);
    }
    let Some(first_edit) = first_edit else { return 0 };
    // Edits that failed before the log was made.
    edits.split_off(&first_edit);
    if content.edits.iter().any(|(number, _)| *number < first_edit) {
        state.damaged(file, 0, "an edit has the number of an earlier one");
    }
    edits.extend(content.edits);
    first_edit
}
