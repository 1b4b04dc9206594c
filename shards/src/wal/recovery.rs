//! Reads the write-ahead log back after a start.
//!
//! Guarantees: every entry that was acknowledged under `wal.sync = always` and
//! whose bytes are intact comes back, in the order of acknowledgement within its
//! stream; replaying twice gives the same state. What can go wrong is damage: it
//! is told apart from the torn tail of a crash, copied to the quarantine folder,
//! counted and logged, and never passed over in silence. `docs/format.md`
//! explains the rules that are applied here.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logsvc_proto::StreamId;
use logsvc_runtime::{File, OpenMode, Runtime};

use super::format::{FILE_HEADER_LEN, FRAME_HEADER_LEN, Record, WalName, records};
use super::frames::FrameReader;
use crate::batch::sections;
use crate::messages::StreamDefinition;
use crate::shard::Shard;

/// A log file that has to be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFile {
    /// Which file.
    pub name: WalName,
    /// Its nonce.
    pub nonce: u64,
    /// How many of its bytes count, if a later file of the writer says so.
    pub counts_len: Option<u64>,
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
        self.read_bytes += other.read_bytes;
        self.torn_tails += other.torn_tails;
        self.torn_bytes += other.torn_bytes;
        self.damaged_places += other.damaged_places;
        self.damaged_bytes += other.damaged_bytes;
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
    /// The replaying shard.
    pub shard: u16,
    /// Today's number of shards.
    pub shards: u16,
}

impl ReplayTask<'_> {
    /// Whether the shard has to read the file at all.
    fn concerns(&self, name: WalName) -> bool {
        name.shards != u32::from(self.shards) || name.shard == u32::from(self.shard)
    }

    /// Whether the shard is the one to mend the file and to count its damage; one
    /// shard per file is.
    fn mends(&self, name: WalName) -> bool {
        name.shard % u32::from(self.shards) == u32::from(self.shard)
    }

    fn owns(&self, stream: StreamId) -> bool {
        stream.shard(self.shards) == self.shard
    }
}

/// Replays everything of the shard's into `state`.
///
/// # Errors
/// A file cannot be read or mended. Damage is not an error but counted.
pub async fn replay<R: Runtime>(
    runtime: &R,
    task: ReplayTask<'_>,
    state: &mut Shard,
) -> io::Result<RecoverySummary> {
    let mut summary = RecoverySummary::default();
    for planned in task.files.iter().filter(|planned| task.concerns(planned.name)) {
        let mut replay = FileReplay {
            runtime,
            task,
            planned,
            path: task.wal_dir.join(planned.name.file_name()),
            summary: &mut summary,
        };
        replay.run(state).await?;
    }
    state.recovered(summary.clone());
    Ok(summary)
}

struct FileReplay<'a, R> {
    runtime: &'a R,
    task: ReplayTask<'a>,
    planned: &'a PlannedFile,
    path: PathBuf,
    summary: &'a mut RecoverySummary,
}

impl<R: Runtime> FileReplay<'_, R> {
    async fn run(&mut self, state: &mut Shard) -> io::Result<()> {
        let file = self.runtime.open(&self.path, OpenMode::ReadWrite).await?;
        let file_len = file.len_bytes().await?;
        let counts_len = self.planned.counts_len;
        let end = counts_len.unwrap_or(file_len);
        let mut reader = FrameReader::new(&file, self.planned.nonce, end.min(file_len));
        let mut offset = FILE_HEADER_LEN as u64;
        let mut number = 0;
        self.summary.files += 1;
        while offset < end {
            if let Some((header, payload)) = reader.frame_at(offset).await?
                && header.number >= number
            {
                let frame_len = (FRAME_HEADER_LEN + payload.len()) as u64;
                let intact = self.replay_frame(payload, state);
                if let Err(what) = intact {
                    self.damage(&file, offset..offset + frame_len, &what).await?;
                }
                self.summary.frames += 1;
                self.summary.read_bytes += frame_len;
                offset += frame_len;
                number = header.number + 1;
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
        if file_len > cut_at && self.task.mends(self.planned.name) {
            self.summary.torn_tails += 1;
            self.summary.torn_bytes += file_len - cut_at;
            tracing::info!(
                file = %self.path.display(), offset = cut_at, len_bytes = file_len - cut_at,
                "cut off a torn tail that was never acknowledged"
            );
            file.truncate(cut_at).await?;
            file.sync_data().await?;
        }
        Ok(())
    }

    /// Applies a frame; on an undecodable record, what came before it is applied
    /// and the defect is returned.
    fn replay_frame(&mut self, payload: &[u8], state: &mut Shard) -> Result<(), String> {
        let mut defect = Ok(());
        for record in records(payload) {
            match record {
                Ok(Record::Definition { id, tenant, labels }) if self.task.owns(id) => {
                    state.define(StreamDefinition { id, tenant, labels: Arc::new(labels) });
                }
                Ok(_) => {}
                Err(error) => defect = Err(error.to_string()),
            }
        }
        for record in records(payload) {
            let Ok(Record::Batch(batch)) = record else { continue };
            for section in sections(batch) {
                match section {
                    Ok(section) if !self.task.owns(section.stream) => {}
                    Ok(section) if state.replay(&section) => {
                        self.summary.entries += section.entry_count() as u64;
                    }
                    Ok(section) => {
                        defect = Err(format!("stream {} is not defined", section.stream));
                    }
                    Err(error) => defect = Err(error.to_string()),
                }
            }
        }
        defect
    }

    /// Reports damaged bytes and keeps a copy of them for whoever looks into it.
    async fn damage(
        &mut self,
        file: &R::File,
        range: std::ops::Range<u64>,
        what: &str,
    ) -> io::Result<()> {
        if !self.task.mends(self.planned.name) {
            return Ok(());
        }
        let len_bytes = range.end - range.start;
        self.summary.damaged_places += 1;
        self.summary.damaged_bytes += len_bytes;
        let quarantine = self.task.wal_dir.join("quarantine");
        let copy = quarantine.join(format!("{}-{}.bytes", self.planned.name.file_name(), range.start));
        tracing::error!(
            file = %self.path.display(), offset = range.start, len_bytes, copy = %copy.display(),
            "acknowledged bytes of the write-ahead log are damaged: {what}"
        );
        let target = match self.runtime.open(&copy, OpenMode::CreateNew).await {
            Ok(target) => target,
            // An earlier start met the same damage.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(error),
        };
        let file_len = file.len_bytes().await?;
        let mut offset = range.start;
        let end = range.end.min(file_len);
        let mut buffer = Vec::new();
        while offset < end {
            let chunk_len = (end - offset).min(1 << 20) as usize;
            buffer.clear();
            let (result, read) = file.read_exact_at(buffer, offset, chunk_len).await;
            result?;
            let (result, written) = target.write_all_at(read, offset - range.start).await;
            result?;
            buffer = written;
            offset += chunk_len as u64;
        }
        target.sync_data().await?;
        self.runtime.sync_dir(&quarantine).await
    }
}
