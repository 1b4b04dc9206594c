//! Recorded samples on their way to receivers of Prometheus remote write.
//!
//! Each tenant has a log of samples on the disk, and each receiver of the tenant a position in it.
//! [`RemoteWrite::append`] puts samples at the end of the log; a task per receiver sends them from
//! its position on. Both live on core 0, which is their only owner.
//!
//! Guarantees, for each tenant and receiver:
//! - Samples whose append has succeeded survive the end of the process, and that of the machine a
//!   second later. They are sent until the receiver takes or refuses them, or until the log's
//!   bounds (bytes, age) drop the oldest ones. Whatever is not taken is counted, and a line of the
//!   log says so.
//! - Timestamps of a series rise, and no timestamp of a series has two values, whatever crashes and
//!   whatever the clock does: an older or equal one is left out when it is appended. What the
//!   receiver has may come again after a crash, unchanged.
//! - One request at a time; nothing newer overtakes.
//!
//! Bounds of the node: 64 files open for appending, 4 segments read at a time (16 MiB at most, 1.5
//! MiB usually), 128 requests under way of 512 KiB before their compression; 48 bytes per series
//! with a sample in the last hour, 80 bytes per segment, and a few KiB per tenant and receiver.
//!
//! What can go wrong: the disk fails or is full, then the append fails, and its evaluation with it.
//! A loss of power may take samples of the last second, and positions, so that a receiver gets
//! more again. Relabelling may make one series of two; then its timestamps are the user's affair.

mod answer;
mod append;
mod batch;
mod files;
mod node;
mod position;
mod recovery;
mod request;
mod segment;
mod sender;
mod signal;
mod sigv4;
mod state;
#[cfg(test)]
mod tests;
mod wire;
mod worker;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::oneshot;
use logsvc_proto::TenantId;
use logsvc_runtime::{FairQueue, Latch, Runtime};

pub use self::node::RemoteSettings;
pub(crate) use self::position::fuzz_position;
pub(crate) use self::segment::fuzz_segment;

use self::files::OpenFiles;
use self::node::{Append, MAX_BUILDS, MAX_SENDS, Node};
use self::signal::Signal;
use crate::config::SampleLogConfig;
use crate::notify::Connect;
use crate::remote_numbers::{ReceiverNumbers, RemoteNumbers, SampleLogNumbers};
use crate::sink::{AppendError, RecordedSample, SampleSink};

/// How long a stop waits for the answers to requests that are under way.
pub const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// The sample logs and senders of a node. Clones share them. To be used on core 0.
pub struct RemoteWrite<R: Runtime, C> {
    node: Rc<Node<R, C>>,
}

impl<R: Runtime, C> Clone for RemoteWrite<R, C> {
    fn clone(&self) -> RemoteWrite<R, C> {
        RemoteWrite { node: Rc::clone(&self.node) }
    }
}

impl<R: Runtime, C> fmt::Debug for RemoteWrite<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.node, f)
    }
}

impl<R: Runtime, C: Connect> RemoteWrite<R, C> {
    /// Logs in `folder`, one folder per tenant. `settings` is asked for a tenant's settings at each
    /// append and each second, so changes are in force soon; the same `Arc` again costs least.
    pub fn new(
        runtime: R,
        connect: C,
        folder: PathBuf,
        config: SampleLogConfig,
        settings: RemoteSettings,
    ) -> RemoteWrite<R, C> {
        let node = Node {
            runtime,
            connect,
            folder,
            config,
            settings,
            tenants: RefCell::new(BTreeMap::new()),
            files: RefCell::new(OpenFiles::new()),
            sends: FairQueue::new(MAX_SENDS),
            builds: FairQueue::new(MAX_BUILDS),
            next_key: Cell::new(1),
            stop: Latch::new(),
            senders: Cell::new(0),
            sender_ended: Signal::default(),
        };
        RemoteWrite { node: Rc::new(node) }
    }

    /// Finds the logs of earlier processes, and begins to read them, to send and to tidy up. To be
    /// called once, before the first append.
    ///
    /// # Errors
    /// The folder cannot be made or listed.
    pub async fn start(&self) -> io::Result<()> {
        let node = &self.node;
        node.runtime.create_dir_all(&node.folder).await?;
        for entry in node.runtime.read_dir(&node.folder).await? {
            // Other folders are not the server's.
            if entry.is_dir
                && let Ok(tenant) = TenantId::new(&entry.name)
            {
                node.tenant(&tenant);
            }
        }
        drop(node.runtime.spawn(Rc::clone(node).keep()));
        Ok(())
    }

    /// Ends the appends and the senders, and brings the logs to stable storage. What was not sent
    /// stays in the logs. Waits for answers at most [`CLOSE_PATIENCE`].
    pub async fn close(&self) {
        let node = &self.node;
        node.stop.trigger();
        let patience = pin!(node.runtime.sleep_until(node.runtime.now().after(CLOSE_PATIENCE)));
        let ended = pin!(async {
            while node.senders.get() > 0 {
                node.sender_ended.wait().await;
            }
        });
        futures_util::future::select(ended, patience).await;
        let tenants: Vec<_> = node.tenants.borrow().values().cloned().collect();
        for tenant in tenants {
            let is_dirty = tenant.state.borrow().is_dirty;
            if is_dirty {
                node.sync(&tenant).await;
            }
        }
    }

    /// Numbers for metrics.
    pub fn numbers(&self) -> RemoteNumbers {
        let mut numbers = RemoteNumbers::default();
        for tenant in self.node.tenants.borrow().values() {
            let state = tenant.state.borrow();
            numbers.logs.push(SampleLogNumbers {
                active_series: state.series.len() as u64,
                disk_bytes: state.size_bytes(),
                ..state.numbers.clone()
            });
            numbers.receivers.extend(state.receivers.iter().map(|receiver| ReceiverNumbers {
                samples_pending: receiver.pending,
                ..receiver.numbers.clone()
            }));
        }
        numbers
    }
}

impl<R: Runtime, C: Connect> SampleSink for RemoteWrite<R, C> {
    fn takes(&self, tenant: &TenantId) -> bool {
        let settings = (self.node.settings)(tenant);
        settings.enabled && !settings.clients.is_empty()
    }

    async fn append(
        &self,
        tenant: &TenantId,
        samples: Vec<RecordedSample>,
    ) -> Result<(), AppendError> {
        if self.node.stop.is_triggered() {
            return Err(AppendError::Closed);
        }
        if samples.is_empty() || !self.takes(tenant) {
            return Ok(());
        }
        let tenant = self.node.tenant(tenant);
        let (done, result) = oneshot::channel();
        tenant.queue.borrow_mut().push_back(Append { samples, done });
        if !tenant.is_busy.get() {
            let node = Rc::clone(&self.node);
            drop(self.node.runtime.spawn(async move { node.work(&tenant).await }));
        }
        result.await.unwrap_or(Err(AppendError::Closed))
    }
}
