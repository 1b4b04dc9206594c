//! Reads the write-ahead log back after a start.
//!
//! Guarantees: every entry that was acknowledged under `wal.sync = always` and
//! whose bytes are intact comes back, in the order of acknowledgement within its
//! stream; replaying twice gives the same state. What can go wrong is damage: it
//! is told apart from the torn tail of a crash, copied to the quarantine folder,
//! counted and logged, and never passed over in silence. `docs/format.md`
//! explains the rules that are applied here.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logsvc_proto::StreamId;
use logsvc_runtime::{File, OpenMode, Runtime};

use super::covers::{Cover, FileCovers};
use super::format::{
    BLOCK_LEN, FILE_HEADER_LEN, FRAME_HEADER_LEN, FileHeader, HEADERS_LEN, Layout, Record,
    SECOND_HEADER_AT, WalName, records,
};
use super::frames::{FrameReader, Frames};
use super::replayed::ReplayedFiles;
use super::restored::Restored;
use crate::batch::sections;
use crate::types::StreamDefinition;
use crate::version::UnknownPart;

/// A log file that has to be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFile {
    /// Which file.
    pub name: WalName,
    /// Its nonce; `None` if the file's header is damaged, so that only its frames
    /// can tell.
    pub nonce: Option<u64>,
    /// How its frames lie in it, as its header says; as good as any if that is damaged.
    pub layout: Layout,
    /// Whether its header says that bytes of an older file are behind its frames.
    pub is_reused: bool,
    /// Whether what it says of the file before it does not check.
    pub has_bad_second: bool,
    /// How many of its bytes count, if a later file of the writer says so.
    pub counts_len: Option<u64>,
}

impl PlannedFile {
    /// A file of which nothing but its name is known.
    pub(crate) fn of_damaged(name: WalName) -> PlannedFile {
        PlannedFile {
            name,
            nonce: None,
            layout: Layout::default(),
            is_reused: false,
            has_bad_second: false,
            counts_len: None,
        }
    }
}

/// How many bytes of the file count, as a later file of its writer says.
pub(crate) fn counts_len(headers: &[FileHeader], name: WalName) -> Option<u64> {
    let says = |header: &FileHeader| {
        let previous = header.previous?;
        (WalName { index: previous.index, ..header.name } == name).then_some(previous.durable_len)
    };
    headers.iter().find_map(says)
}

/// Whether a later file of the writer says that there are frames in the file. A writer's
/// files all have one layout.
pub(crate) fn has_frames(headers: &[FileHeader], name: WalName) -> bool {
    let writers = |one: &&FileHeader| WalName { index: name.index, ..one.name } == name;
    let layout = headers.iter().find(writers).map_or(Layout::Packed, |one| one.layout);
    counts_len(headers, name).is_some_and(|len| len > layout.first_frame())
}

/// What the beginning of a log file says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadHeader {
    pub(crate) header: FileHeader,
    /// See [`FileHeader::has_bad_second`].
    pub(crate) has_bad_second: bool,
}

/// What stands at the beginning of a log file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FoundHeader {
    /// The header of the file.
    Known(ReadHeader),
    /// It does not check, or is another file's.
    Bad,
    /// Another version of the program has written it.
    Unknown(UnknownPart),
}

impl FoundHeader {
    /// The header, if it checks.
    pub(crate) fn known(self) -> Option<ReadHeader> {
        match self {
            FoundHeader::Known(header) => Some(header),
            FoundHeader::Bad | FoundHeader::Unknown(_) => None,
        }
    }
}

/// Reads the header of a log file.
pub(crate) async fn read_header<R: Runtime>(
    runtime: &R,
    path: &Path,
    name: WalName,
) -> io::Result<FoundHeader> {
    let file = runtime.open(path, OpenMode::Read).await?;
    let len = file.len_bytes().await?.min(HEADERS_LEN as u64);
    let (result, bytes) = file.read_exact_at(Vec::new(), 0, len as usize).await;
    match result {
        // Cut meanwhile, or shorter than it says.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            return Ok(FoundHeader::Bad);
        }
        other => other?,
    }
    if let Some(unknown) = FileHeader::unknown_version(&bytes) {
        return Ok(FoundHeader::Unknown(unknown));
    }
    let header = FileHeader::decode(&bytes).filter(|header| header.name == name);
    Ok(header.map_or(FoundHeader::Bad, |header| {
        FoundHeader::Known(ReadHeader { header, has_bad_second: header.has_bad_second(&bytes) })
    }))
}

/// Whether a file of `file_len` bytes whose header does not check has nothing besides its
/// headers: it is the trace of a crash or of a full disk while the file was made.
pub(crate) async fn is_bare<F: File>(file: &F, file_len: u64) -> io::Result<bool> {
    if file_len > BLOCK_LEN {
        return Ok(false);
    }
    let (result, bytes) = file.read_exact_at(Vec::new(), 0, file_len as usize).await;
    result?;
    let is_header =
        |at: usize| at < FILE_HEADER_LEN || (SECOND_HEADER_AT..HEADERS_LEN).contains(&at);
    Ok(bytes.iter().enumerate().all(|(at, &byte)| byte == 0 || is_header(at)))
}

/// What recovery found. Totals of one shard, or of the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoverySummary {
    /// Files that were replayed.
    pub files: u64,
    /// Frames that were replayed.
    pub frames: u64,
    /// Entries that were replayed, duplicates included.
    pub entries: u64,
    /// Entries that were passed over because live segments hold them.
    pub covered_entries: u64,
    /// Bytes of frames that were read.
    pub read_bytes: u64,
    /// Torn tails that were cut off.
    pub torn_tails: u64,
    /// Their bytes.
    pub torn_bytes: u64,
    /// Places where acknowledged bytes were damaged.
    pub damaged_places: u64,
    /// Their bytes.
    pub damaged_bytes: u64,
    /// Damaged places of which no copy could be made. Their bytes stay where they
    /// are.
    pub uncopied_places: u64,
    /// Holes in bytes that were acknowledged but never synced.
    pub unsynced_holes: u64,
    /// Memory that replayed entries take beyond the budget for entries.
    pub over_budget_bytes: u64,
}

impl RecoverySummary {
    /// Adds what another shard found.
    pub fn add(&mut self, other: &RecoverySummary) {
        self.files += other.files;
        self.frames += other.frames;
        self.entries += other.entries;
        self.covered_entries += other.covered_entries;
        self.read_bytes += other.read_bytes;
        self.torn_tails += other.torn_tails;
        self.torn_bytes += other.torn_bytes;
        self.damaged_places += other.damaged_places;
        self.damaged_bytes += other.damaged_bytes;
        self.uncopied_places += other.uncopied_places;
        self.unsynced_holes += other.unsynced_holes;
        self.over_budget_bytes += other.over_budget_bytes;
    }
}

/// What a shard replays, and where.
#[derive(Clone, Copy, Debug)]
pub struct ReplayTask<'a> {
    /// The log folder.
    pub wal_dir: &'a Path,
    /// All files of the folder, oldest first.
    pub files: &'a [PlannedFile],
    /// What live segments hold of them.
    pub covers: &'a [Cover],
    /// The same files, to be told of damage that could not be copied.
    pub replayed: &'a ReplayedFiles,
    /// The replaying shard.
    pub shard: u16,
    /// Today's number of shards.
    pub shards: u16,
}

impl ReplayTask<'_> {
    /// Whether a shard reads the file at all: it may hold entries that the shard has to
    /// replay, or the shard mends it.
    pub(super) fn reads(name: WalName, covers: &FileCovers, shard: u16, shards: u16) -> bool {
        let concerns = name.shards != u32::from(shards) || name.shard == u32::from(shard);
        let needs = concerns && !covers.covers_shard(shards, shard);
        needs || ReplayTask::mends_as(name, shard, shards)
    }

    /// Whether a shard is the one to mend the file and to count its damage; one shard
    /// per file is.
    fn mends_as(name: WalName, shard: u16, shards: u16) -> bool {
        name.shard % u32::from(shards) == u32::from(shard)
    }

    fn mends(&self, name: WalName) -> bool {
        ReplayTask::mends_as(name, self.shard, self.shards)
    }

    fn owns(&self, stream: StreamId) -> bool {
        stream.shard(self.shards) == self.shard
    }
}

/// Replays everything of the shard's into `state`.
///
/// # Errors
/// A file cannot be read or mended. Damage is not an error but counted.
pub(crate) async fn replay<R: Runtime>(
    runtime: &R,
    task: ReplayTask<'_>,
    state: &mut impl Restored,
) -> io::Result<RecoverySummary> {
    let mut summary = RecoverySummary::default();
    for planned in task.files {
        let covers = FileCovers::of(task.covers, planned.name);
        if !ReplayTask::reads(planned.name, &covers, task.shard, task.shards) {
            continue;
        }
        let mut replay = FileReplay {
            runtime,
            task,
            planned,
            covers,
            path: task.wal_dir.join(planned.name.file_name()),
            summary: &mut summary,
        };
        // A file that cannot be read keeps the start from going on: what it holds was
        // acknowledged, and going on would drop it without a word.
        let path = replay.path.clone();
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        replay.run(state).await.map_err(named)?;
    }
    state.finish_log(summary.clone());
    Ok(summary)
}

struct FileReplay<'a, R> {
    runtime: &'a R,
    task: ReplayTask<'a>,
    planned: &'a PlannedFile,
    covers: FileCovers,
    path: PathBuf,
    summary: &'a mut RecoverySummary,
}

impl<R: Runtime> FileReplay<'_, R> {
    async fn run(&mut self, state: &mut impl Restored) -> io::Result<()> {
        let file = self.runtime.open(&self.path, OpenMode::ReadWrite).await?;
        let file_len = file.len_bytes().await?;
        let counts_len = self.planned.counts_len;
        let end = counts_len.unwrap_or(file_len);
        let frames = self.planned.nonce.map_or(Frames::MaybeOf(self.planned.name), Frames::Of);
        let mut reader = FrameReader::new(&file, frames, end.min(file_len));
        let mut offset = self.planned.layout.first_frame();
        let mut number = 0;
        let mut durable_len = offset;
        self.summary.files += 1;
        if self.planned.nonce.is_none() {
            let from = FILE_HEADER_LEN as u64;
            let Some((found, header)) = reader.find_frame(from, 0).await? else {
                // Whatever this is, it stays as it is.
                return self.damage(&file, 0..end, "the file holds nothing that checks").await;
            };
            self.damage(&file, 0..found, "the file's header does not check").await?;
            reader.adopt(header.nonce);
            offset = found;
        }
        while offset < end {
            if let Some((header, payload)) = reader.frame_at(offset).await?
                && header.number >= number
            {
                let frame_len = (FRAME_HEADER_LEN + payload.len()) as u64;
                let range = offset..offset + frame_len;
                let frame = self.replay_frame(payload, state);
                if let Err(what) = frame.decodes {
                    self.damage(&file, range, &what).await?;
                } else if let Some(stream) = frame.undefined {
                    // Only the stream's owner can tell, so it does, whoever mends.
                    let what = format!("stream {stream} is not defined");
                    self.report_damage(&file, range, &what).await?;
                }
                if number == 0 && self.planned.has_bad_second {
                    // Frames follow, so it was whole when the file was opened.
                    let range = SECOND_HEADER_AT as u64..HEADERS_LEN as u64;
                    self.damage(&file, range, "the second header does not check").await?;
                }
                self.summary.frames += 1;
                self.summary.read_bytes += frame_len;
                offset = header.layout.place_behind(offset + frame_len);
                number = header.number + 1;
                durable_len = durable_len.max(header.durable_len);
                // Replay may take long; other tasks of the core go on meanwhile.
                self.runtime.yield_now().await;
                continue;
            }
            match reader.find_frame(offset + 1, number).await? {
                Some((found, header)) if header.durable_len > offset => {
                    self.damage(&file, offset..found, "a frame does not check").await?;
                    offset = found;
                }
                Some((found, _)) => {
                    if self.task.mends(self.planned.name) {
                        self.summary.unsynced_holes += 1;
                        tracing::warn!(
                            file = %self.path.display(), offset, len_bytes = found - offset,
                            "bytes that were never synced are lost; the log goes on behind them"
                        );
                    }
                    offset = found;
                }
                None if counts_len.is_some() => {
                    self.damage(&file, offset..end, "the end of the file does not check").await?;
                    break;
                }
                None => break,
            }
        }
        // What is left behind `offset` was never acknowledged.
        let cut_at = if counts_len.is_some() { end } else { offset };
        if !self.task.mends(self.planned.name) {
            return Ok(());
        }
        let mut new_len = cut_at.min(file_len);
        if file_len > cut_at {
            // What the next file says does not count was never acknowledged. Of other bytes
            // nobody can tell: a frame that was damaged at the very end looks the same.
            let is_certain = counts_len.is_some();
            if !self.planned.is_reused {
                self.summary.torn_tails += 1;
                self.summary.torn_bytes += file_len - cut_at;
            }
            if is_certain || self.keep_tail(&file, cut_at..file_len).await {
                file.truncate(cut_at).await?;
            } else {
                new_len = file_len;
            }
        }
        // From now on queries show what was replayed, so it must not get lost any more.
        // The process that wrote the file may have been killed before a sync. If a sync
        // failed, the kernel takes bytes and length for written although the disk lacks
        // them; only what is changed once more is written by the next sync.
        let tail = durable_len..cut_at.min(file_len);
        match write_again(&file, tail, new_len).await {
            // No reason to stay down: only a power loss before the next sealing could
            // take away entries whose commit has failed.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => tracing::warn!(
                %error, file = %self.path.display(),
                "the end of a log file cannot be written once more"
            ),
            other => other?,
        }
        file.sync_data().await
    }

    /// Applies what can be applied of a frame.
    fn replay_frame(&mut self, payload: &[u8], state: &mut impl Restored) -> ReplayedFrame {
        let mut frame = ReplayedFrame { decodes: Ok(()), undefined: None };
        for record in records(payload) {
            match record {
                // A cover holds for all of a stream in the file, so that nothing uses the
                // definition of a stream that is covered.
                Ok(Record::Definition { id, tenant, labels })
                    if self.task.owns(id) && !self.covers.covers_stream(id) =>
                {
                    state.define(StreamDefinition { id, tenant, labels: Arc::new(labels) });
                }
                Ok(_) => {}
                Err(error) => frame.decodes = Err(error.to_string()),
            }
        }
        for record in records(payload) {
            let Ok(Record::Batch(batch)) = record else { continue };
            for section in sections(batch) {
                match section {
                    Ok(section) if !self.task.owns(section.stream) => {}
                    Ok(section) if self.covers.covers_stream(section.stream) => {
                        self.summary.covered_entries += section.entry_count() as u64;
                    }
                    Ok(section) if state.append(&section) => {
                        self.summary.entries += section.entry_count() as u64;
                    }
                    Ok(section) => frame.undefined = Some(section.stream),
                    Err(error) => frame.decodes = Err(error.to_string()),
                }
            }
        }
        frame
    }

    /// Reports damaged bytes if this shard is the one to do it.
    async fn damage(&mut self, file: &R::File, range: Range<u64>, what: &str) -> io::Result<()> {
        if self.task.mends(self.planned.name) {
            return self.report_damage(file, range, what).await;
        }
        Ok(())
    }

    /// Reports damaged bytes and keeps a copy of them for whoever looks into it.
    async fn report_damage(
        &mut self,
        file: &R::File,
        range: Range<u64>,
        what: &str,
    ) -> io::Result<()> {
        let len_bytes = range.end - range.start;
        self.summary.damaged_places += 1;
        self.summary.damaged_bytes += len_bytes;
        let quarantine = self.task.wal_dir.join("quarantine");
        let copy =
            quarantine.join(format!("{}-{}.bytes", self.planned.name.file_name(), range.start));
        tracing::error!(
            file = %self.path.display(), offset = range.start, len_bytes, copy = %copy.display(),
            "acknowledged bytes of the write-ahead log are damaged: {what}"
        );
        if let Err(error) = self.keep_copy(file, range, &quarantine, &copy).await {
            // No reason to stay down: the file keeps the bytes.
            self.summary.uncopied_places += 1;
            self.task.replayed.keep_bytes(self.planned.name);
            tracing::error!(%error, copy = %copy.display(), "cannot copy the damaged bytes");
        }
        Ok(())
    }

    /// Keeps a copy of what was not written to its end. Gives whether it may be cut off.
    async fn keep_tail(&mut self, file: &R::File, tail: Range<u64>) -> bool {
        let quarantine = self.task.wal_dir.join("quarantine");
        let name = format!("{}-{}.torn", self.planned.name.file_name(), tail.start);
        let copy = quarantine.join(name);
        let kept = async {
            let torn = torn_frame(file, self.planned, tail.clone()).await?;
            if !torn.is_empty() {
                self.keep_copy(file, torn.clone(), &quarantine, &copy).await?;
            }
            Ok::<_, io::Error>(torn)
        };
        match kept.await {
            Ok(torn) if torn.is_empty() => true,
            Ok(torn) => {
                tracing::warn!(
                    file = %self.path.display(), offset = torn.start,
                    len_bytes = torn.end - torn.start, copy = %copy.display(),
                    "cut off a torn tail: bytes of a commit that was not written to its end, or \
                     that was damaged since"
                );
                true
            }
            Err(error) => {
                self.task.replayed.keep_bytes(self.planned.name);
                tracing::error!(
                    %error, file = %self.path.display(), offset = tail.start,
                    "cannot copy a torn tail; it stays where it is"
                );
                false
            }
        }
    }

    /// Copies a range of a file so that the copy is there whole or not at all.
    async fn keep_copy(
        &self,
        file: &R::File,
        range: Range<u64>,
        folder: &Path,
        copy: &Path,
    ) -> io::Result<()> {
        match self.runtime.open(copy, OpenMode::Read).await {
            // An earlier start met the same damage.
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // Two shards may copy the same bytes at the same time.
        let mut temporary = copy.as_os_str().to_owned();
        temporary.push(format!(".{}.tmp", self.task.shard));
        let temporary = PathBuf::from(temporary);
        match self.runtime.remove_file(&temporary).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let target = self.runtime.open(&temporary, OpenMode::CreateNew).await?;
        let range = range.start..range.end.min(file.len_bytes().await?);
        copy_bytes(file, range, &target, 0).await?;
        target.sync_data().await?;
        self.runtime.rename(&temporary, copy).await?;
        self.runtime.sync_dir(folder).await
    }
}

/// Makes the kernel take the end of a file, `tail`, and the file's length for changed.
async fn write_again<F: File>(file: &F, tail: Range<u64>, file_len: u64) -> io::Result<()> {
    if tail.is_empty() {
        return Ok(());
    }
    copy_bytes(file, tail.clone(), file, tail.start).await?;
    // Not the other way round: a crash in between must not take anything away.
    file.truncate(file_len + 1).await?;
    file.truncate(file_len).await
}

/// What of the bytes behind the last good frame of a file may be one that was not written to
/// its end; empty if nothing is.
async fn torn_frame<F: File>(
    file: &F,
    planned: &PlannedFile,
    tail: Range<u64>,
) -> io::Result<Range<u64>> {
    let none = tail.start..tail.start;
    let mut reader = FrameReader::new(file, Frames::Any, tail.end);
    let mut offset = tail.start;
    let mut is_empty = true;
    while is_empty && offset < tail.end {
        let piece = reader.bytes(offset, TORN_PIECE_BYTES).await?;
        is_empty = piece.iter().all(|byte| *byte == 0);
        offset += TORN_PIECE_BYTES as u64;
    }
    if is_empty {
        return Ok(none);
    }
    if !planned.is_reused {
        return Ok(tail);
    }
    // An older file's frames are behind. A frame of this file has its nonce, unless the sector
    // with its header is the one that was not written.
    let sector = reader.bytes(tail.start, 512).await?;
    let has_nonce = planned
        .nonce
        .is_some_and(|nonce| sector.get(8..16).is_some_and(|bytes| bytes == nonce.to_le_bytes()));
    if !has_nonce && sector.iter().any(|byte| *byte != 0) {
        return Ok(none);
    }
    let older = reader.find_frame(tail.start, 0).await?;
    Ok(tail.start..older.map_or(tail.end, |(found, _)| found))
}

/// How many bytes of a torn tail are looked at together.
const TORN_PIECE_BYTES: usize = 64 << 10;

/// Writes the bytes of a range of `source` to `target`, from `target_offset` on.
async fn copy_bytes<F: File>(
    source: &F,
    range: Range<u64>,
    target: &F,
    target_offset: u64,
) -> io::Result<()> {
    let mut offset = range.start;
    let mut buffer = Vec::new();
    while offset < range.end {
        let chunk_len = (range.end - offset).min(1 << 20) as usize;
        buffer.clear();
        let (result, read) = source.read_exact_at(buffer, offset, chunk_len).await;
        result?;
        let (result, written) =
            target.write_all_at(read, target_offset + (offset - range.start)).await;
        result?;
        buffer = written;
        offset += chunk_len as u64;
    }
    Ok(())
}

/// What became of a frame.
struct ReplayedFrame {
    /// Whether all of it decoded, and if not, why.
    decodes: Result<(), String>,
    /// A stream of this shard that no frame before has defined; its entries could
    /// not be applied.
    undefined: Option<StreamId>,
}
