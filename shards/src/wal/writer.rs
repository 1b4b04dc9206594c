//! Decides about the writes of the log and their moments: group commit as a state machine without
//! I/O. Its owner performs the [`WalOp`]s and reports their outcome.
//!
//! Guarantees: at most one operation is under way. A batch is reported committed only after its
//! frame was written and, by policy, synced. After a failed operation the file is never touched
//! again, and every batch that waited for it is reported failed exactly once. If the disk fails,
//! batches are refused until a new file can be made, which is tried at most once per
//! [`REOPEN_PAUSE`].

use std::ops::Range;
use std::time::Duration;

use logsvc_runtime::{AlignedBuffer, Monotonic};

use logsvc_segment::batch::BATCH_MAX_BYTES;

use super::SyncPolicy;
use super::format::{
    BATCH_RECORD_OVERHEAD, FRAME_HEADER_LEN, FileHeader, FrameHeader, Layout, PAYLOAD_MAX_BYTES,
    Previous, WalName, batch_record_header,
};

/// How long pushes are refused after a file could not be made.
pub(crate) const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// An operation for the owner of the log's file to perform. One at a time; each
/// is answered by the method named.
#[derive(Debug)]
pub enum WalOp {
    /// Create the file, write the header, sync it and its folder. The file
    /// before it, if any, is not needed any more. Answer: [`WalWriter::opened`].
    Open {
        /// The facts about the file itself.
        header: FileHeader,
        /// The header of the file after it, except for how much of this one counts. The owner may
        /// make that file ready.
        next: FileHeader,
    },
    /// Write `frame` (possibly empty) at `offset`, then sync if asked. Answer:
    /// [`WalWriter::committed`].
    Commit {
        /// The bytes; to be handed back for reuse.
        frame: AlignedBuffer,
        /// Where they go.
        offset: u64,
        /// Whether the file is to be synced after the write.
        sync: bool,
    },
}

/// Settings of a log.
#[derive(Clone, Copy, Debug)]
pub struct WalConfig {
    /// When commits are synced.
    pub sync: SyncPolicy,
    /// A file is closed once it is at least this long.
    pub file_max_bytes: u64,
    /// Batches that wait for the commit under way are refused beyond this.
    pub waiting_max_bytes: usize,
}

impl WalConfig {
    /// The layout of frames in the files that are written.
    pub fn layout(&self) -> Layout {
        match self.sync {
            SyncPolicy::Always => Layout::Padded,
            SyncPolicy::Interval(_) | SyncPolicy::Never => Layout::Packed,
        }
    }
}

impl Default for WalConfig {
    fn default() -> WalConfig {
        WalConfig {
            sync: SyncPolicy::Always,
            file_max_bytes: 256 << 20,
            waiting_max_bytes: 32 << 20,
        }
    }
}

/// Where a frame goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FramePosition {
    /// Index of the file.
    pub file: u32,
    /// Number of the frame within the file.
    pub frame: u64,
}

/// Room for definitions in a frame, besides its batches.
const DEFINITIONS_MAX_BYTES: usize = 64 << 20;

/// A batch is copied so many bytes at a time, and each piece counted into the checksum while the
/// closest cache has it: a frame is longer than that. Longer copies are also made by another
/// instruction (`rep movsb`, from 8 KiB on in glibc), which an EPYC was slower with.
const PIECE_BYTES: usize = 4 << 10;

/// A frame's buffer is kept for the next one unless it has grown beyond this.
const KEPT_BUFFER_MAX_BYTES: usize = 64 << 20;

/// The memory for definitions is kept for the next frame up to this size.
const KEPT_DEFINITIONS_MAX_BYTES: usize = 1 << 20;

/// The file being written.
#[derive(Debug)]
struct OpenFile {
    nonce: u64,
    /// Where the next frame goes.
    len: u64,
    /// Prefix that is on stable storage.
    durable_len: u64,
    frame_number: u64,
    /// When the oldest write that is not synced yet was acknowledged.
    dirty_since: Option<Monotonic>,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
enum Phase {
    /// No operation is under way.
    Idle,
    Opening,
    Committing {
        end: u64,
        sync: bool,
    },
}

/// A batch on its way, and where it lies in the bytes of its frame.
#[derive(Debug)]
pub struct InFrame<T> {
    /// The owner's value, given with the batch.
    pub waiting: T,
    /// The batch within the frame's bytes.
    pub range: Range<usize>,
}

/// A commit that has ended.
#[derive(Debug)]
pub struct Commit<T> {
    /// Whether its batches are in the log; otherwise they never will be.
    pub success: bool,
    /// Its batches, in the order of arrival.
    pub batches: Vec<InFrame<T>>,
    /// The frame's bytes; hand them to [`WalWriter::recycle`] when done.
    pub frame: AlignedBuffer,
}

/// The log's state. The owner gets a `T` back with the fate of each batch.
#[derive(Debug)]
pub(crate) struct WalWriter<T> {
    config: WalConfig,
    /// The file that is open or will be opened next.
    name: WalName,
    file: Option<OpenFile>,
    /// The facts about the previous file for the next file's header.
    previous: Option<Previous>,
    /// The rest of the next file's header, if it was given out already.
    upcoming: Option<FileHeader>,
    phase: Phase,
    reopen_not_before: Monotonic,
    /// Batches of the commit under way.
    committing: Vec<InFrame<T>>,
    /// The frame being filled: header room, then records.
    next_frame: AlignedBuffer,
    /// Checksum of its records.
    next_crc: u32,
    next_waiting: Vec<InFrame<T>>,
    /// Bytes that the definitions of the next frame's streams may need.
    next_definitions_len: usize,
    spare: AlignedBuffer,
    /// The definitions of a frame; empty between calls.
    definitions: Vec<u8>,
    counters: WalCounters,
}

/// Totals since the start, for metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct WalCounters {
    /// Frames written.
    pub commits: u64,
    /// Syncs that succeeded.
    pub syncs: u64,
    /// Bytes written, headers included.
    pub written_bytes: u64,
    /// Operations that failed.
    pub failures: u64,
    /// Files made.
    pub files: u64,
}

/// The log takes no batch at this moment; try again later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WalUnavailable {
    /// Writing failed a moment ago.
    #[error("the write-ahead log cannot be written")]
    Disk,
    /// Too much waits for the commit under way.
    #[error("the write-ahead log is busy")]
    Busy,
    /// The batch will never fit a frame.
    #[error("the batch is too large")]
    TooLarge,
}

impl<T> WalWriter<T> {
    /// A log whose first file will be `name`.
    ///
    /// # Panics
    /// If the bytes that may wait would not fit a frame.
    pub(crate) fn new(config: WalConfig, name: WalName) -> WalWriter<T> {
        assert!(
            config.waiting_max_bytes.max(BATCH_MAX_BYTES) + DEFINITIONS_MAX_BYTES
                <= PAYLOAD_MAX_BYTES
        );
        let mut writer = WalWriter {
            config,
            name,
            file: None,
            previous: None,
            upcoming: None,
            phase: Phase::Idle,
            reopen_not_before: Monotonic(0),
            committing: Vec::new(),
            next_frame: AlignedBuffer::new(),
            next_crc: 0,
            next_waiting: Vec::new(),
            next_definitions_len: 0,
            spare: AlignedBuffer::new(),
            definitions: Vec::new(),
            counters: WalCounters::default(),
        };
        writer.clear_next_frame();
        writer
    }

    /// Totals since the start.
    pub(crate) fn counters(&self) -> WalCounters {
        self.counters
    }

    /// Whether a batch of `batch_len` bytes may be added, whose streams need `definitions_len`
    /// bytes if the file defines none of them yet.
    ///
    /// # Errors
    /// The disk refuses, or the bytes that wait for the commit under way are at their limit; both
    /// pass. Or the batch is too large.
    pub(crate) fn accepts(
        &self,
        batch_len: usize,
        definitions_len: usize,
        now: Monotonic,
    ) -> Result<(), WalUnavailable> {
        if batch_len > BATCH_MAX_BYTES || definitions_len > DEFINITIONS_MAX_BYTES {
            return Err(WalUnavailable::TooLarge);
        }
        let broken = self.file.is_none() && self.phase == Phase::Idle;
        if broken && now < self.reopen_not_before {
            return Err(WalUnavailable::Disk);
        }
        let after = self.waiting_bytes() + batch_len + BATCH_RECORD_OVERHEAD;
        let fits = self.next_waiting.is_empty()
            || (after <= self.config.waiting_max_bytes
                && self.next_definitions_len + definitions_len <= DEFINITIONS_MAX_BYTES);
        if fits { Ok(()) } else { Err(WalUnavailable::Busy) }
    }

    /// Bytes waiting for the next commit.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.next_frame.len() - FRAME_HEADER_LEN
    }

    /// Adds a batch to the next frame; [`WalWriter::accepts`] must have agreed.
    pub(crate) fn add(&mut self, batch: &[u8], definitions_len: usize, waiting: T) {
        self.next_definitions_len += definitions_len;
        self.next_frame.reserve(BATCH_RECORD_OVERHEAD + batch.len());
        self.add_piece(&batch_record_header(batch.len()));
        batch.chunks(PIECE_BYTES).for_each(|piece| self.add_piece(piece));
        let end = self.next_frame.len();
        self.next_waiting.push(InFrame { waiting, range: end - batch.len()..end });
    }

    fn add_piece(&mut self, piece: &[u8]) {
        self.next_frame.extend_from_slice(piece);
        self.next_crc = crc32c::crc32c_append(self.next_crc, piece);
    }

    /// The next operation, if one is due and none is under way. `random` makes the nonces of a new
    /// file and of the file after it; `unix_ns` dates them. `define` appends, for a batch that goes
    /// out with the frame at the given position, the definitions which the file lacks.
    pub(crate) fn next_op(
        &mut self,
        now: Monotonic,
        random: u64,
        unix_ns: i64,
        mut define: impl FnMut(&T, FramePosition, &mut Vec<u8>),
    ) -> Option<WalOp> {
        if self.phase != Phase::Idle {
            return None;
        }
        let layout = self.config.layout();
        let Some(file) = &mut self.file else {
            if self.next_waiting.is_empty() || now < self.reopen_not_before {
                return None;
            }
            let made = |name: WalName, random: u32| FileHeader {
                name,
                nonce: name.nonce(random),
                created_ns: unix_ns,
                layout,
                is_reused: false,
                previous: None,
            };
            let upcoming = self.upcoming.take().filter(|upcoming| upcoming.name == self.name);
            let header = upcoming.unwrap_or_else(|| made(self.name, random as u32));
            let header = FileHeader { previous: self.previous, ..header };
            let next = made(self.name.successor(), (random >> 32) as u32);
            self.upcoming = Some(next);
            self.phase = Phase::Opening;
            self.file = Some(OpenFile {
                nonce: header.nonce,
                len: layout.first_frame(),
                durable_len: layout.first_frame(),
                frame_number: 0,
                dirty_since: None,
            });
            return Some(WalOp::Open { header, next });
        };
        let sync_due = match (self.config.sync, file.dirty_since) {
            (SyncPolicy::Always, _) => true,
            (SyncPolicy::Interval(interval), Some(since)) => now >= since.after(interval),
            (SyncPolicy::Interval(_), None) | (SyncPolicy::Never, _) => false,
        };
        if self.next_waiting.is_empty() {
            let only_sync = sync_due && file.dirty_since.is_some();
            if !only_sync {
                return None;
            }
            self.phase = Phase::Committing { end: file.len, sync: true };
            let frame = AlignedBuffer::new();
            return Some(WalOp::Commit { frame, offset: file.len, sync: true });
        }
        let mut frame = std::mem::replace(&mut self.next_frame, std::mem::take(&mut self.spare));
        std::mem::swap(&mut self.committing, &mut self.next_waiting);
        // Definitions come last, so that they can be chosen for the file that the
        // frame really goes to; replay reads them first.
        let position = FramePosition { file: self.name.index, frame: file.frame_number };
        for batch in &self.committing {
            define(&batch.waiting, position, &mut self.definitions);
        }
        frame.extend_from_slice(&self.definitions);
        let payload_crc = crc32c::crc32c_append(self.next_crc, &self.definitions);
        self.definitions.clear();
        self.definitions.shrink_to(KEPT_DEFINITIONS_MAX_BYTES);
        let header = FrameHeader {
            nonce: file.nonce,
            number: file.frame_number,
            durable_len: file.durable_len,
            payload_len: (frame.len() - FRAME_HEADER_LEN) as u32,
            payload_crc,
            layout,
        };
        frame[..FRAME_HEADER_LEN].copy_from_slice(&header.encode());
        frame.resize(layout.position_behind(frame.len() as u64) as usize, 0);
        let offset = file.len;
        // The last commit of a file is synced whatever the policy, since nothing
        // will sync the file afterwards, not even a graceful stop.
        let end = offset + frame.len() as u64;
        let sync = sync_due || end >= self.config.file_max_bytes;
        self.phase = Phase::Committing { end, sync };
        self.clear_next_frame();
        Some(WalOp::Commit { frame, offset, sync })
    }

    /// When [`WalWriter::next_op`] may have something to do without any call
    /// before: an interval sync that falls due, or a new attempt to make a file.
    pub(crate) fn next_wakeup(&self) -> Option<Monotonic> {
        if self.phase != Phase::Idle {
            return None;
        }
        match &self.file {
            None => (!self.next_waiting.is_empty()).then_some(self.reopen_not_before),
            Some(file) => match (self.config.sync, file.dirty_since) {
                (SyncPolicy::Interval(interval), Some(since)) => Some(since.after(interval)),
                _ => None,
            },
        }
    }

    /// Reports the end of [`WalOp::Open`]. Returns the batches that fail with it.
    pub(crate) fn opened(&mut self, success: bool, now: Monotonic) -> Vec<InFrame<T>> {
        debug_assert_eq!(self.phase, Phase::Opening);
        self.phase = Phase::Idle;
        if success {
            self.counters.files += 1;
            self.counters.written_bytes += self.config.layout().first_frame();
            self.counters.syncs += 1;
            return Vec::new();
        }
        self.counters.failures += 1;
        self.file = None;
        // A half-made file may hold the name, so the next attempt takes another.
        self.name = self.name.successor();
        self.reopen_not_before = now.after(REOPEN_PAUSE);
        self.clear_next_frame();
        std::mem::take(&mut self.next_waiting)
    }

    /// Reports the end of [`WalOp::Commit`].
    pub(crate) fn committed(
        &mut self,
        success: bool,
        frame: AlignedBuffer,
        now: Monotonic,
    ) -> Commit<T> {
        let commit = Commit { success, batches: std::mem::take(&mut self.committing), frame };
        let Phase::Committing { end, sync } = std::mem::replace(&mut self.phase, Phase::Idle)
        else {
            unreachable!("a commit ends only after it was begun");
        };
        let Some(file) = &mut self.file else {
            unreachable!("the file stays open while a commit is under way");
        };
        if !success {
            self.counters.failures += 1;
            if file.frame_number == 0 {
                // Not even one commit succeeded: do not make a file per push.
                self.reopen_not_before = now.after(REOPEN_PAUSE);
            }
            self.close_file();
            return commit;
        }
        self.counters.written_bytes += end - file.len;
        if end > file.len {
            self.counters.commits += 1;
            file.frame_number += 1;
        }
        file.len = end;
        if sync {
            self.counters.syncs += 1;
            file.durable_len = end;
            file.dirty_since = None;
        } else {
            file.dirty_since.get_or_insert(now);
        }
        if file.len >= self.config.file_max_bytes {
            self.close_file();
        }
        commit
    }

    /// Takes back the buffer of a commit that has ended.
    pub(crate) fn recycle(&mut self, mut frame: AlignedBuffer) {
        if frame.capacity() > KEPT_BUFFER_MAX_BYTES {
            return;
        }
        frame.clear();
        if self.next_waiting.is_empty() && frame.capacity() > self.next_frame.capacity() {
            std::mem::swap(&mut self.next_frame, &mut frame);
            self.clear_next_frame();
        }
        if frame.capacity() > self.spare.capacity() {
            self.spare = frame;
        }
    }

    /// Makes [`WalWriter::next_op`] sync the bytes that are written but not synced, under any
    /// policy; for a graceful stop.
    pub(crate) fn sync_now(&mut self) -> Option<WalOp> {
        let file = self.file.as_ref()?;
        if self.phase != Phase::Idle || file.dirty_since.is_none() {
            return None;
        }
        self.phase = Phase::Committing { end: file.len, sync: true };
        Some(WalOp::Commit { frame: AlignedBuffer::new(), offset: file.len, sync: true })
    }

    /// Closes the file if one is open, so that later batches go to another one. Returns the index
    /// of the newest file that is closed; `None` if this start has made no file yet.
    ///
    /// # Panics
    /// If an operation is under way or something written is not synced; see
    /// [`WalWriter::is_quiet`] and [`WalWriter::sync_now`].
    pub(crate) fn rotate(&mut self) -> Option<u32> {
        assert!(self.is_quiet(), "a file is closed between operations");
        assert!(self.file.as_ref().is_none_or(|file| file.dirty_since.is_none()));
        self.close_file();
        self.name.index.checked_sub(1)
    }

    /// The file that is open, or the one that will be opened next.
    pub(crate) fn name(&self) -> WalName {
        self.name
    }

    /// Whether no operation is under way; batches may wait.
    pub(crate) fn is_quiet(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether nothing waits and nothing is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && self.next_waiting.is_empty()
    }

    /// Closes the file for good; the next frame goes to a new one.
    fn close_file(&mut self) {
        if let Some(file) = self.file.take() {
            // Without syncs the written length is all that can be said.
            let counts =
                if self.config.sync == SyncPolicy::Always { file.durable_len } else { file.len };
            self.previous = Some(Previous { index: self.name.index, durable_len: counts });
            self.name = self.name.successor();
        }
    }

    fn clear_next_frame(&mut self) {
        self.next_definitions_len = 0;
        self.next_crc = 0;
        self.next_frame.clear();
        self.next_frame.resize(FRAME_HEADER_LEN, 0);
    }
}

#[cfg(test)]
mod tests;
