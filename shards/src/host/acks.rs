//! Acknowledgements of entries that wait for the bucket.
//!
//! Guarantees: an append is answered with success only after every piece that was sent before is
//! confirmed, in particular that with its entries. If nothing is confirmed for
//! [`PATIENCE`](crate::sink::PATIENCE), all that wait are answered with an error, and so is every
//! further append, until something is confirmed; after the log was taken over, for ever.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use flume::r#async::RecvStream;
use futures_util::stream::Stream;
use logsvc_runtime::Runtime;
use logsvc_runtime::mesh::ReplyTo;

use crate::messages::{AppendError, ShardReply};
use crate::sink::{Confirmation, SinkEnd, Trouble};
use crate::wal::files::LogFiles;

const ON_DISK: &str = "they are on this node's disk";

/// Replies that wait. See the module.
pub(super) struct Acks<R: Runtime> {
    runtime: R,
    end: Rc<SinkEnd>,
    confirmations: RecvStream<'static, Confirmation>,
    /// Each with the piece that it waits for. In their order.
    held: VecDeque<(u64, ReplyTo<ShardReply>, ShardReply)>,
    /// For the end of the patience.
    timer: Option<Pin<Box<dyn Future<Output = ()>>>>,
    files: Rc<LogFiles<R>>,
}

impl<R: Runtime> Acks<R> {
    pub(super) fn new(runtime: R, end: SinkEnd, files: Rc<LogFiles<R>>) -> Acks<R> {
        let confirmations = end.confirmations().clone().into_stream();
        let (end, held) = (Rc::new(end), VecDeque::new());
        Acks { runtime, end, confirmations, held, timer: None, files }
    }

    /// Where the bytes of the log go.
    pub(super) fn end(&self) -> Rc<SinkEnd> {
        Rc::clone(&self.end)
    }

    /// Why appends are refused at this moment, if they are.
    pub(super) fn refusal(&self) -> Option<AppendError> {
        Some(error(self.end.trouble(self.runtime.now())?, "these are refused"))
    }

    /// Sends a reply, now or when it may be sent.
    pub(super) fn send(&mut self, reply_to: ReplyTo<ShardReply>, reply: ShardReply) {
        let waits = matches!(reply, ShardReply::Append(Ok(_)) | ShardReply::Stopped(_));
        let sequence = self.end.sent();
        if !waits || self.end.is_confirmed(sequence) {
            return answer(&self.runtime, &self.files, reply_to, reply);
        }
        self.held.push_back((sequence, reply_to, reply));
        self.release();
    }

    /// Takes confirmations, and sends what may be sent. Never ends.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some(confirmation)) =
            Pin::new(&mut self.confirmations).poll_next(context)
        {
            self.end.take(confirmation, self.runtime.now());
        }
        loop {
            self.release();
            if self.held.is_empty() {
                self.timer = None;
                return;
            }
            let Some(deadline) = self.end.patient_until() else { return };
            let timer = self.timer.get_or_insert_with(|| {
                let runtime = self.runtime.clone();
                Box::pin(async move { runtime.sleep_until(deadline).await })
            });
            if timer.as_mut().poll(context).is_pending() {
                return;
            }
            // Something may have been confirmed since it was set.
            self.timer = None;
        }
    }

    fn release(&mut self) {
        while let Some((_, reply_to, reply)) =
            self.held.pop_front_if(|(sequence, ..)| self.end.is_confirmed(*sequence))
        {
            answer(&self.runtime, &self.files, reply_to, reply);
        }
        let Some(trouble) = self.end.trouble(self.runtime.now()) else { return };
        for (_, reply_to, reply) in std::mem::take(&mut self.held) {
            let reply = match reply {
                ShardReply::Append(Ok(_)) => {
                    ShardReply::Append(Err(error(trouble.clone(), ON_DISK)))
                }
                other => other,
            };
            answer(&self.runtime, &self.files, reply_to, reply);
        }
    }
}

/// Sends a reply. The node may end as soon as it has the one to a stop.
pub(super) fn answer<R: Runtime>(
    runtime: &R,
    files: &Rc<LogFiles<R>>,
    reply_to: ReplyTo<ShardReply>,
    reply: ShardReply,
) {
    if !matches!(reply, ShardReply::Stopped(_)) {
        return reply_to.send(reply);
    }
    // There will be no further file.
    let files = Rc::clone(files);
    drop(runtime.spawn(async move {
        files.give_back().await;
        reply_to.send(reply);
    }));
}

/// `where_they_are` tells of the entries in question.
fn error(trouble: Trouble, where_they_are: &str) -> AppendError {
    let text = match trouble {
        Trouble::Slow(waited) => {
            let seconds = waited.as_secs();
            format!("the bucket has not taken the entries for {seconds} s; {where_they_are}")
        }
        Trouble::Lost(why) => {
            format!("this node may not store entries in the bucket any more: {why}")
        }
    };
    AppendError::Bucket(Arc::from(text))
}
