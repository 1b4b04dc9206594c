//! The end of a follower: what is left goes into the bucket, and the folder notes that it has nothing
//! else.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_runtime::Runtime;

use super::Follower;
use crate::ledger::{LedgerError, Mark};
use crate::messages::{ShardReply, ShardRequest};

/// How long a node that stops has patience with the bucket.
const STOP_PATIENCE: Duration = Duration::from_secs(20);

impl<R: Runtime> Follower<R> {
    /// Brings everything into the bucket, if that can be done soon.
    pub(super) async fn finish(mut self) -> Result<(), LedgerError> {
        let deadline = self.runtime.now().after(STOP_PATIENCE);
        let runtime = self.runtime.clone();
        let all = pin!(self.send_all());
        match select(all, pin!(runtime.sleep_until(deadline))).await {
            Either::Left((result, _)) => result,
            Either::Right(_) => {
                tracing::warn!(
                    "the bucket did not take everything in time; the rest stays in the data \
                     folder, and goes with the next start"
                );
                Ok(())
            }
        }
    }

    async fn send_all(&mut self) -> Result<(), LedgerError> {
        loop {
            if let Some(sending) = self.sending.take() {
                let end = sending.await;
                self.end_send(end).await?;
                continue;
            }
            let is_pulled = self.pull().await.is_ok();
            if self.fold.is_empty() && !self.kept.has_changed() {
                let is_sealed = is_pulled && self.is_sealed().await;
                let Some(sender) = &self.sender else { return Ok(()) };
                let mark = sender.recorder.ledger.mark();
                let mark = Mark { is_sent: is_sealed, ..mark };
                let written = mark.write(&self.runtime, &self.data_dir).await;
                return written.map_err(LedgerError::of_mark(&self.data_dir));
            }
            let batch = self.fold.take_batch(|_| true, u64::MAX);
            self.send(batch);
        }
    }

    /// Whether all entries of the shards are in segments.
    async fn is_sealed(&self) -> bool {
        let Ok(replies) = self.lanes.ask_all(|| ShardRequest::Status).await else { return false };
        let is_empty = |reply: &ShardReply| match reply {
            ShardReply::Status(status) => status.head_entries == 0,
            _ => false,
        };
        replies.iter().all(is_empty)
    }
}
