//! The log operations of a shard: a new file, and a commit.
//!
//! Guarantees: what the sink gets is in the local file before. A file that a commit has failed on is
//! given up.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use logsvc_runtime::{AlignedBuffer, File, Runtime};

use super::Running;
use crate::shard::Event;
use crate::sink::SinkEnd;
use crate::wal::SyncPolicy;
use crate::wal::files::LogFiles;
use crate::wal::format::{FRAME_HEADER_LEN, FrameHeader, WalName};
use crate::wal::writer::WalOp;

/// A log operation under way.
pub(super) type Operation<F> = Pin<Box<dyn Future<Output = Finished<F>>>>;

/// A log operation that has ended.
pub(super) struct Finished<F> {
    pub(super) event: Event,
    /// The file that it opened.
    pub(super) opened: Option<Rc<F>>,
}

/// The log files of the shard.
pub(super) struct Log<R: Runtime> {
    pub(super) files: Rc<LogFiles<R>>,
    pub(super) sync: SyncPolicy,
    /// The file that commits go to.
    pub(super) file: Option<Rc<R::File>>,
    /// Its name.
    pub(super) name: Option<WalName>,
    /// The removal of the file that waits for its use.
    pub(super) giving_back: Running<R, ()>,
}

impl<R: Runtime> Log<R> {
    /// Begins an operation. What it writes goes to the sink, too, if there is one.
    pub(super) fn begin(
        &mut self,
        runtime: R,
        sink: Option<Rc<SinkEnd>>,
        operation: WalOp,
    ) -> Operation<R::File> {
        match operation {
            WalOp::Open { header, next } => {
                self.file = None;
                self.name = Some(header.name);
                let files = Rc::clone(&self.files);
                Box::pin(async move {
                    let (result, opened) = match files.open(header, next).await {
                        Ok(file) => {
                            if let Some(sink) = sink {
                                sink.send(&runtime, header.name, 0, &header.encode()).await;
                            }
                            (Ok(()), Some(file))
                        }
                        Err(error) => {
                            let file = header.name.file_name();
                            tracing::error!(%error, file, "cannot make a log file");
                            if let Some(sink) = sink {
                                sink.note_log_failed(runtime.now());
                            }
                            (Err(Arc::from(error.to_string())), None)
                        }
                    };
                    Finished { event: Event::WalOpened(result), opened }
                })
            }
            WalOp::Commit { frame, offset, sync } => {
                let (file, name) = (self.file.clone(), self.name);
                let (files, policy) = (Rc::clone(&self.files), self.sync);
                Box::pin(async move {
                    let begun = runtime.now();
                    let (result, frame) = match file {
                        Some(file) => {
                            let (result, frame) = commit(&*file, frame, offset, sync, policy).await;
                            match &result {
                                Ok(()) => files.committed(),
                                Err(_) => files.give_up(&file),
                            }
                            (result, frame)
                        }
                        None => (Err(io::Error::other("the log file is not open")), frame),
                    };
                    let latency = runtime.now().since(begun);
                    match (sink, name, &result) {
                        (Some(sink), Some(name), Ok(())) => {
                            sink.note_log_written();
                            send_frame(&sink, &runtime, name, offset, &frame).await;
                        }
                        (Some(sink), _, Err(_)) => sink.note_log_failed(runtime.now()),
                        _ => {}
                    }
                    let result = result.map_err(|error| {
                        tracing::error!(%error, offset, "a commit of the write-ahead log failed");
                        Arc::from(error.to_string())
                    });
                    Finished { event: Event::WalCommitted { result, frame, latency }, opened: None }
                })
            }
        }
    }
}

/// Sends a frame to the sink, without the zeros that fill up its last block.
async fn send_frame<R: Runtime>(
    sink: &SinkEnd,
    runtime: &R,
    name: WalName,
    offset: u64,
    frame: &AlignedBuffer,
) {
    // A commit without a frame only syncs.
    let Some(header) = FrameHeader::decode_any(frame) else { return };
    let len = (FRAME_HEADER_LEN + header.payload_len as usize).min(frame.len());
    sink.send(runtime, name, offset, &frame[..len]).await;
}

async fn commit<F: File>(
    file: &F,
    mut frame: AlignedBuffer,
    offset: u64,
    sync: bool,
    policy: SyncPolicy,
) -> (io::Result<()>, AlignedBuffer) {
    if policy == SyncPolicy::Always {
        // The file's writes are durable when they return.
        return file.write_aligned_at(frame, offset).await;
    }
    if !frame.is_empty() {
        let (result, returned) = file.write_aligned_at(frame, offset).await;
        frame = returned;
        if result.is_err() {
            // The file is closed for good. By an interval's policy it may hold acknowledged commits
            // that nothing would sync any more.
            if let Err(error) = file.sync_data().await {
                tracing::error!(%error, "the log file that is given up cannot be synced");
            }
            return (result, frame);
        }
    }
    let result = if sync { file.sync_data().await } else { Ok(()) };
    (result, frame)
}
