//! Reads the write-ahead log back after a start.
//!
//! Guarantees: every entry that was acknowledged under `wal.sync = always` and whose bytes are
//! intact comes back, in the order of acknowledgement within its stream. Replaying twice gives
//! the same state. Damage is told apart from the torn tail of a crash, copied to the quarantine
//! folder, counted and logged, and never ignored. `docs/format.md` explains the rules.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logsvc_proto::StreamId;
use logsvc_runtime::{File, OpenMode, Runtime};

use super::covers::{Cover, FileCovers};
use super::format::{
    FILE_HEADER_LEN, FRAME_HEADER_LEN, HEADERS_LEN, Record, SECOND_HEADER_AT, WalName, records,
};
use super::frames::{FrameReader, Frames};
use super::planned::PlannedFile;
use super::progress::ReplayProgress;
use super::replayed::ReplayedFiles;
use super::restored::{RecoverySummary, Restored};
use super::salvage::{keep_copy, torn_frame, write_again};
use crate::types::{Layout, StreamDefinition, may_share_streams};
use logsvc_segment::batch::sections;

/// The log files that a shard replays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplayTask<'a> {
    /// The log folder.
    pub wal_dir: &'a Path,
    /// All files of the folder, oldest first.
    pub files: &'a [PlannedFile],
    /// The parts of these files that live segments hold.
    pub covers: &'a [Cover],
    /// The same files, to be told of damage that could not be copied.
    pub replayed: &'a ReplayedFiles,
    /// Where the progress is counted.
    pub progress: &'a ReplayProgress,
    /// The replaying shard.
    pub shard: u16,
    /// Which shard owns which streams.
    pub layout: Layout,
}

impl ReplayTask<'_> {
    /// Whether a shard reads the file at all: it may hold entries that the shard has to
    /// replay, or the shard mends it.
    pub(super) fn reads(name: WalName, covers: &FileCovers, shard: u16, layout: Layout) -> bool {
        let part = layout.part_of(shard);
        let own = part.numbers();
        let concerns = name.shards != own.0 || may_share_streams(name.writer(), own);
        let needs = concerns && !covers.covers_part(part);
        needs || ReplayTask::mends_as(name, shard, layout)
    }

    /// Whether a shard is the one to mend the file and to count its damage; one shard
    /// per file is.
    fn mends_as(name: WalName, shard: u16, layout: Layout) -> bool {
        layout.core_of_file(name.writer()) == shard
    }

    fn mends(&self, name: WalName) -> bool {
        ReplayTask::mends_as(name, self.shard, self.layout)
    }

    fn owns(&self, stream: StreamId) -> bool {
        self.layout.core_of(stream) == self.shard
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
    expect_files(runtime, task).await;
    for planned in task.files {
        let covers = FileCovers::of(task.covers, planned.name);
        if !ReplayTask::reads(planned.name, &covers, task.shard, task.layout) {
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
        // A file that cannot be read keeps the start from going on: its entries were acknowledged,
        // and going on would drop them without a word.
        let path = replay.path.clone();
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        replay.run(state).await.map_err(named)?;
    }
    state.finish_log(summary.clone());
    Ok(summary)
}

/// Counts the bytes that are to be read.
async fn expect_files<R: Runtime>(runtime: &R, task: ReplayTask<'_>) {
    for planned in task.files {
        let covers = FileCovers::of(task.covers, planned.name);
        if !ReplayTask::reads(planned.name, &covers, task.shard, task.layout) {
            continue;
        }
        let path = task.wal_dir.join(planned.name.file_name());
        // A file that cannot be opened ends the replay, which reports it.
        if let Ok(file) = runtime.open(&path, OpenMode::Read).await
            && let Ok(len_bytes) = file.len_bytes().await
        {
            task.progress.expect(planned.counts_len.unwrap_or(len_bytes).min(len_bytes));
        }
    }
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
        let mut counted = 0;
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
            self.task.progress.advance(offset.saturating_sub(counted));
            counted = offset.max(counted);
            if let Some((header, payload)) = reader.frame_at(offset).await?
                && header.number >= number
            {
                let frame_len = (FRAME_HEADER_LEN + payload.len()) as u64;
                let range = offset..offset + frame_len;
                let frame = self.replay_frame(payload, state);
                if let Err(what) = frame.decodes {
                    self.damage(&file, range, &what).await?;
                } else if let Some(stream) = frame.undefined {
                    // Only the shard that owns the stream can tell, so it reports, even if another
                    // shard mends the file.
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
                offset = header.layout.position_behind(offset + frame_len);
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
        self.task.progress.advance(end.min(file_len).saturating_sub(counted));
        // The bytes behind `offset` were never acknowledged.
        let cut_at = if counts_len.is_some() { end } else { offset };
        if !self.task.mends(self.planned.name) {
            return Ok(());
        }
        let mut new_len = cut_at.min(file_len);
        if file_len > cut_at {
            // Bytes that do not count by the header of the next file were never acknowledged. Other
            // bytes leave this open: a frame that was damaged at the very end looks the same.
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
        // From here on queries show the replayed entries, so they must not get lost. The process
        // that wrote the file may have been killed before a sync. If a sync failed, the kernel
        // takes bytes and length for written although the disk lacks them; the next sync writes
        // only bytes that are changed once more.
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

    /// Applies the records of a frame that can be applied.
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

    /// Reports damaged bytes, and keeps a copy of them for an investigation.
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
        if let Err(error) = keep_copy(self.runtime, file, range, &quarantine, &copy).await {
            // No reason to stay down: the file keeps the bytes.
            self.summary.uncopied_places += 1;
            self.task.replayed.keep_bytes(self.planned.name);
            tracing::error!(%error, copy = %copy.display(), "cannot copy the damaged bytes");
        }
        Ok(())
    }

    /// Keeps a copy of a frame that was not written to its end. Gives whether the frame may be cut
    /// off.
    async fn keep_tail(&mut self, file: &R::File, tail: Range<u64>) -> bool {
        let quarantine = self.task.wal_dir.join("quarantine");
        let name = format!("{}-{}.torn", self.planned.name.file_name(), tail.start);
        let copy = quarantine.join(name);
        let kept = async {
            let torn = torn_frame(file, self.planned, tail.clone()).await?;
            if !torn.is_empty() {
                keep_copy(self.runtime, file, torn.clone(), &quarantine, &copy).await?;
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
}

/// The outcome of a frame.
struct ReplayedFrame {
    /// Whether all of it decoded, and if not, why.
    decodes: Result<(), String>,
    /// A stream of this shard that no frame before has defined; its entries could
    /// not be applied.
    undefined: Option<StreamId>,
}
