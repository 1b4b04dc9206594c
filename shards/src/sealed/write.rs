//! Writes a generation of entries to segments and makes them live.
//!
//! Guarantees: a segment counts from its manifest edit on. The same edit names the log files that
//! are not needed any more. The segment gets its final name when the edit is in force, and then
//! the log files go. Side threads encode the blocks. If the disk fails, nothing has changed,
//! except that files with pending names may be left over; the next start removes them.

use std::io;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::join;
use logsvc_runtime::{AlignedBuffer, Runtime};

use super::OpenedSegment;
use super::days::{DayRange, day_ranges};
use super::encode::{EncodedChunk, SegmentEncoding};
use super::folder::{NewSegment, SegmentFolder, WRITE_BYTES};
use super::job::{DraftFlag, SealJob, SealStream};
use super::spare::Spare;
use crate::manifest::ManifestEdit;
use crate::wal::covers::Cover;
use crate::wal::files::LogFiles;
use crate::wal::format::WalName;
use crate::wal::replayed::ReplayedFiles;
use logsvc_segment::{Finished, WriterBuffers, stream_order};

/// The memory of a longer chunk is not kept: some entry was huge.
const CHUNK_KEPT_MAX_BYTES: usize = 4 * WRITE_BYTES;

/// Writes the segments of one shard.
#[derive(Debug)]
pub(crate) struct Sealer<R: Runtime> {
    folder: Rc<SegmentFolder<R>>,
    /// Memory that one segment leaves to the next one.
    buffers: Spare<WriterBuffers>,
    /// Memory for chunks besides: one is written while another is computed.
    chunk: Spare<AlignedBuffer>,
    logs: Rc<LogFiles<R>>,
    /// The oldest log file of this shard and start that may be there.
    wal: WalName,
    /// Log files that the start has replayed.
    replayed: Arc<ReplayedFiles>,
    /// Whether the manifest says that they are in segments.
    replayed_is_covered: bool,
    /// The edit that failed and has to be tried again before anything else.
    pending: Option<Pending>,
}

/// Segments that are written and not in force, or have not got their names.
#[derive(Debug)]
struct Pending {
    edit: ManifestEdit,
    segments: Vec<OpenedSegment>,
    is_committed: bool,
}

impl<R: Runtime> Sealer<R> {
    /// The sealer of the shard whose first log file of this start is `first_wal`.
    pub(crate) fn new(
        folder: Rc<SegmentFolder<R>>,
        logs: Rc<LogFiles<R>>,
        first_wal: WalName,
        replayed: Arc<ReplayedFiles>,
    ) -> Sealer<R> {
        Sealer {
            folder,
            buffers: Spare::default(),
            chunk: Spare::default(),
            logs,
            wal: first_wal,
            replayed,
            replayed_is_covered: false,
            pending: None,
        }
    }

    /// Writes a generation; returns the segments it has become.
    ///
    /// # Errors
    /// An operation on the disk failed. The same job has to be given again until it
    /// succeeds, before any other.
    pub(crate) async fn seal(&mut self, job: SealJob) -> io::Result<Vec<OpenedSegment>> {
        let sealed = self.try_to_seal(job).await;
        if sealed.is_err() {
            // The disk may be full.
            self.logs.give_back().await;
        }
        sealed
    }

    async fn try_to_seal(&mut self, job: SealJob) -> io::Result<Vec<OpenedSegment>> {
        let mut pending = match self.pending.take() {
            // The segments are there; only the manifest does not name them yet.
            Some(pending) => pending,
            None => {
                let segments = self.write_segments(job.streams, &job.draft).await?;
                let added = segments.iter().map(|opened| &opened.segment);
                let edit = ManifestEdit {
                    left: self.folder.gaps_of(added),
                    added: segments.iter().map(|opened| opened.segment.live).collect(),
                    footers: segments.iter().map(|opened| opened.segment.footer_record()).collect(),
                    // An attempt before may have come to some of its segments only.
                    removed: self.folder.orphans(),
                    covers: self.covers(job.closed_wal_index),
                };
                Pending { edit, segments, is_committed: false }
            }
        };
        if let Err(error) = self.commit(&mut pending).await {
            self.pending = Some(pending);
            return Err(error);
        }
        self.replayed_is_covered = true;
        self.release_logs(job.closed_wal_index).await;
        Ok(pending.segments)
    }

    /// Appends the edit, unless that was done, and gives the segments their names.
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

    /// The parts of the log that are in segments once the segments of this generation are live.
    fn covers(&self, closed_wal_index: Option<u32>) -> Vec<Cover> {
        let mut covers = Vec::new();
        if !self.replayed_is_covered {
            covers = self.replayed.covers_of(self.folder.runtime.core().0);
        }
        covers.extend(closed_wal_index.map(|up_to_index| Cover {
            wal_epoch: self.wal.epoch,
            wal_shards: self.wal.shards,
            wal_shard: self.wal.shard,
            up_to_index,
            part: self.folder.covered(),
        }));
        covers
    }

    async fn write_segments(
        &mut self,
        streams: Vec<SealStream>,
        draft: &Arc<DraftFlag>,
    ) -> io::Result<Vec<OpenedSegment>> {
        let streams = sorted(&self.folder.runtime, streams).await;
        let mut added: Vec<OpenedSegment> = Vec::new();
        let blocks = streams.iter().flat_map(|stream| &stream.blocks);
        for days in day_ranges(blocks.map(|block| &**block)) {
            match self.write_segment(&streams, days, draft).await {
                Ok(segment) => added.extend(segment),
                Err(error) => {
                    for OpenedSegment { segment, .. } in added {
                        self.folder.abandon(segment.live.name, segment.live.day);
                    }
                    return Err(error);
                }
            }
        }
        Ok(added)
    }

    /// Writes the entries of a part; `None` if there are none.
    async fn write_segment(
        &self,
        streams: &Arc<Vec<SealStream>>,
        days: DayRange,
        draft: &Arc<DraftFlag>,
    ) -> io::Result<Option<OpenedSegment>> {
        // A segment that becomes a draft later on goes through the page cache to its end.
        let mut segment = if draft.is_set() {
            self.folder.begin_draft(days.day)?
        } else {
            self.folder.begin(days.day)?
        };
        let identity = self.folder.identity(&segment);
        let buffers = self.buffers.take().map_or_else(WriterBuffers::new, Ok);
        let buffers = buffers.map_err(io::Error::other)?;
        let (streams, draft) = (Arc::clone(streams), Arc::clone(draft));
        let encoding = SegmentEncoding::new(identity, streams, days.range, draft, buffers);
        match self.write_chunks(Box::new(encoding), &mut segment).await {
            Ok(Some(finished)) => {
                let order = self.folder.next_order(segment.name);
                self.folder.publish(segment, finished, 0, order).await.map(Some)
            }
            other => {
                self.folder.discard(segment).await;
                other.map(|_| None)
            }
        }
    }

    /// Writes all of a segment. The core does the writes only. A side thread encodes the blocks,
    /// and the system takes the CPU from it as soon as the core has something to do: however long a
    /// block takes, no push waits for it. While a chunk is written, the next one is computed: a
    /// draft takes as long as the longer of the two, and pushes wait for drafts when a heavy query
    /// keeps CPUs and device busy.
    async fn write_chunks(
        &self,
        mut encoding: Box<SegmentEncoding>,
        segment: &mut NewSegment<R>,
    ) -> io::Result<Option<Finished>> {
        let mut unwritten = None;
        loop {
            let encode = self.folder.runtime.offload(move || encoding.encode(WRITE_BYTES));
            let write = async {
                match unwritten.take() {
                    Some(bytes) => self.folder.write(segment, bytes).await,
                    None => Ok(self.chunk.take().unwrap_or_default()),
                }
            };
            let (chunk, written) = join(encode, write).await;
            let memory = written?;
            match chunk.map_err(io::Error::other)? {
                EncodedChunk::Some(bytes, mut rest) => {
                    unwritten = Some(bytes);
                    rest.reuse_output(memory);
                    encoding = rest;
                }
                EncodedChunk::Last(None) => return Ok(None),
                EncodedChunk::Last(Some(mut finished)) => {
                    let bytes = std::mem::take(&mut finished.bytes);
                    let output = self.folder.write(segment, bytes).await?;
                    if memory.capacity() <= CHUNK_KEPT_MAX_BYTES {
                        self.chunk.keep(&self.folder.runtime, memory);
                    }
                    if let Some(mut buffers) = finished.buffers.take() {
                        buffers.reuse_output(output);
                        self.buffers.keep(&self.folder.runtime, *buffers);
                    }
                    return Ok(Some(*finished));
                }
            }
        }
    }

    /// Lets go of the log files whose entries are all in segments. The next start skips the files
    /// that cannot be removed, and removes them.
    async fn release_logs(&mut self, closed_wal_index: Option<u32>) {
        if let Some(last) = closed_wal_index
            && last >= self.wal.index
        {
            self.logs.release(self.wal, last).await;
            self.wal.index = last + 1;
        }
        let runtime = &self.folder.runtime;
        self.replayed.release(runtime, self.logs.folder(), runtime.core().0).await;
    }
}

/// Streams in the order that a segment wants. On the side thread, for it may take
/// long.
async fn sorted<R: Runtime>(runtime: &R, mut streams: Vec<SealStream>) -> Arc<Vec<SealStream>> {
    let sort = move || {
        streams.sort_unstable_by(|a, b| {
            stream_order((&a.tenant, &a.labels, a.id), (&b.tenant, &b.labels, b.id))
        });
        Arc::new(streams)
    };
    runtime.offload(sort).await
}
