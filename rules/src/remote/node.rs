//! What all logs and senders of the node share.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_channel::oneshot;
use logsvc_proto::TenantId;
use logsvc_runtime::{FairQueue, Latch, Monotonic, Runtime};

use super::files::OpenFiles;
use super::signal::Signal;
use super::state::LogState;
use crate::config::{RemoteWriteConfig, SampleLogConfig};
use crate::sink::{AppendError, RecordedSample};

/// Most requests of the node that are under way. Each holds a compressed body.
pub(super) const MAX_SENDS: usize = 128;
/// Most batches of the node that are being made. Each holds a segment and a plain body.
pub(super) const MAX_BUILDS: usize = 4;
/// The shortest time between two lines of the log about one thing.
const LINE_INTERVAL: Duration = Duration::from_secs(60);

/// Gives the settings of a tenant at the moment: those of the node with the tenant's over them.
pub type RemoteSettings = Box<dyn Fn(&TenantId) -> Arc<RemoteWriteConfig>>;

/// The shared part of the node.
pub(super) struct Node<R: Runtime, C> {
    pub(super) runtime: R,
    pub(super) connect: C,
    pub(super) folder: PathBuf,
    pub(super) config: SampleLogConfig,
    pub(super) settings: RemoteSettings,
    pub(super) tenants: RefCell<BTreeMap<TenantId, Rc<Tenant>>>,
    pub(super) files: RefCell<OpenFiles<R::File>>,
    pub(super) sends: FairQueue<TenantId>,
    pub(super) builds: FairQueue<TenantId>,
    pub(super) next_key: Cell<u64>,
    /// Set once: nothing is appended, and no further request begins.
    pub(super) stop: Latch,
    /// Senders that run.
    pub(super) senders: Cell<usize>,
    /// Given when a sender ends.
    pub(super) sender_ended: Signal,
}

impl<R: Runtime, C> fmt::Debug for Node<R, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteWrite").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Samples on their way into a log.
pub(super) struct Append {
    pub(super) samples: Vec<RecordedSample>,
    pub(super) done: oneshot::Sender<Result<(), AppendError>>,
}

/// A tenant's log. One task at a time works on its files: the one that has set `is_busy`.
pub(super) struct Tenant {
    pub(super) id: TenantId,
    pub(super) folder: PathBuf,
    pub(super) state: RefCell<LogState>,
    pub(super) queue: RefCell<VecDeque<Append>>,
    pub(super) is_busy: Cell<bool>,
    /// Whether the worker has to do upkeep.
    pub(super) wants_upkeep: Cell<bool>,
    pub(super) is_loaded: Cell<bool>,
    /// Attempts to read the log that have failed.
    pub(super) failed_loads: Cell<u32>,
    /// When the active segment was begun.
    pub(super) begun: Cell<Monotonic>,
    /// When series without samples are forgotten next.
    pub(super) forget_at: Cell<Monotonic>,
    /// The settings that receivers have.
    pub(super) settings: RefCell<Option<Arc<RemoteWriteConfig>>>,
    pub(super) drops: Limiter,
    pub(super) troubles: Limiter,
}

impl Tenant {
    pub(super) fn new(id: TenantId, folder: PathBuf) -> Tenant {
        Tenant {
            state: RefCell::new(LogState::new(id.clone())),
            id,
            folder,
            queue: RefCell::default(),
            is_busy: Cell::new(false),
            wants_upkeep: Cell::new(false),
            is_loaded: Cell::new(false),
            failed_loads: Cell::new(0),
            begun: Cell::new(Monotonic(0)),
            forget_at: Cell::new(Monotonic(0)),
            settings: RefCell::default(),
            drops: Limiter::default(),
            troubles: Limiter::default(),
        }
    }

    /// The file of a segment.
    pub(super) fn segment_path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:016x}.samples"))
    }

    /// The file of a receiver's position. The id is arbitrary text and is no file name.
    pub(super) fn position_path(&self, id: &str) -> PathBuf {
        let hash = xxhash_rust::xxh3::xxh3_64(id.as_bytes());
        self.folder.join(format!("{hash:016x}.position"))
    }
}

impl<R: Runtime, C> Node<R, C> {
    /// A tenant's log, which may have to be read yet.
    pub(super) fn tenant(&self, id: &TenantId) -> Rc<Tenant> {
        let mut tenants = self.tenants.borrow_mut();
        let tenant = tenants
            .entry(id.clone())
            .or_insert_with(|| Rc::new(Tenant::new(id.clone(), self.folder.join(id.as_str()))));
        Rc::clone(tenant)
    }
}

/// Lets a line into the log once a minute, with the sum of what it stands for.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    next: Cell<Option<Monotonic>>,
    count: Cell<u64>,
}

impl Limiter {
    /// Counts, and gives the sum since the last line if it is time for one.
    pub(super) fn count(&self, now: Monotonic, more: u64) -> Option<u64> {
        let count = self.count.get() + more;
        if self.next.get().is_some_and(|next| now < next) {
            self.count.set(count);
            return None;
        }
        self.count.set(0);
        self.next.set(Some(now.after(LINE_INTERVAL)));
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_limited_and_lose_no_count() {
        let limiter = Limiter::default();
        let now = Monotonic(5);
        assert_eq!(limiter.count(now, 2), Some(2));
        assert_eq!(limiter.count(now, 3), None);
        assert_eq!(limiter.count(now.after(Duration::from_secs(59)), 4), None);
        assert_eq!(limiter.count(now.after(LINE_INTERVAL), 5), Some(12));
    }
}
