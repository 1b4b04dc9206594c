//! Ends the logs of a writer for ever.

use std::time::Duration;

use bytes::Bytes;
use logsvc_cluster::map::{Ends, Epoch};
use logsvc_runtime::Runtime;
use logsvc_store::Store;
use logsvc_store::log::{LogError, fence_with};

use crate::ledger::{LedgerError, fence_log};
use crate::sink::log_of;

/// How long an attempt has patience.
const PATIENCE: Duration = Duration::from_secs(120);

/// Fences the log of edits of a writer, and then its write-ahead log, from the first number on that the
/// former calls needed. If the former knows of no such log, nothing of it was ever confirmed.
///
/// # Errors
/// The store refuses, or a log is damaged. To be made again.
pub(super) async fn end<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    me: Epoch,
    writer: Epoch,
) -> Result<Ends, LedgerError> {
    let until = runtime.now().after(PATIENCE);
    let (log, needed) = fence_log(runtime, store, writer.0, me.0, until).await?;
    let Some(from) = needed else { return Ok(Ends { log, wal: 0 }) };
    let name = log_of(writer.0).map_err(LedgerError::Name)?;
    let visit = async |_, _: Bytes| Ok::<(), LogError>(());
    let end = fence_with(runtime, store, &name, from, me.0, until, visit).await?;
    Ok(Ends { log, wal: end.next })
}
