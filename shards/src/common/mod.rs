//! Files that all nodes of a cluster have in common: the requests for deletion, the rule groups, and
//! the state of alerts.
//!
//! They are objects of the bucket, and a log in the bucket (`common/<number>`) tells which: each entry
//! names all of them. The *keeper*, the node that owns the first partition, is the only one that
//! appends ([`CommonLog`]). All others read on.
//!
//! Guarantees:
//! - A change that has succeeded is in the bucket, and whoever keeps the files later has it before it
//!   says that it is the keeper ([`CommonView::keeps`]).
//! - A change is based on the content that its author knew, or it fails.
//!
//! Why: the gate behind an append. The keeper appends first, and then looks whether it still owns the
//! partition by a proof that holds at that moment. An heir reads the log to its end when no proof of
//! an earlier owner holds any more. So it finds each append that has passed the gate. One that has not
//! passed it may be in the log all the same; its author says that it does not know, and believes what
//! it reads.
//!
//! Old entries are removed ([`CommonSweep`]). A keeper that stood still may create one anew at a number
//! that was freed. It never passes the gate, and nobody takes its entry for one ([`newest`]).

mod entry;
mod log;
mod newest;
mod proof;
mod sweep;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_channel::oneshot;
use logsvc_cluster::map::Partition;
use logsvc_runtime::{Bell, Monotonic, Published, Runtime};
use logsvc_store::Store;

use crate::deletion::DeletionVersion;
use crate::kept::{KeptFile, KeptPath};
use crate::ledger::{LedgerError, fetch};
use crate::member::MemberHandle;
pub(crate) use entry::check;
pub use entry::{CommonEntryError, CommonState};
pub use log::CommonLog;
pub use proof::Keeping;
pub use sweep::{CommonSweep, SweepConfig};

/// How long a change has patience with the bucket.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What a node knows of the common files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommonView {
    /// Which there are.
    pub(crate) state: Arc<CommonState>,
    /// The number of the map since which the node owns the keeper's partition, once it has read the
    /// log to its end; 0 if it is not the keeper.
    pub(crate) keeper_since: u64,
}

impl CommonView {
    /// Whether the node keeps the files as the owner since the map of this number.
    #[must_use]
    pub fn keeps(&self, since: u64) -> bool {
        since > 0 && self.keeper_since == since
    }

    /// The number of the map since which the node keeps the files; `None` if it does not.
    #[must_use]
    pub fn keeper_since(&self) -> Option<u64> {
        (self.keeper_since > 0).then_some(self.keeper_since)
    }

    /// The files in a folder and in those below it, in the order of their paths.
    pub fn below<'a>(
        &'a self,
        folder: &'a str,
    ) -> impl Iterator<Item = (&'a KeptPath, &'a KeptFile)> {
        let is_below = move |path: &KeptPath| {
            path.as_str().strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
        };
        self.state.files.iter().filter(move |(path, _)| is_below(path))
    }

    /// What there is of a file; `None` if there is none.
    #[must_use]
    pub fn file(&self, path: &KeptPath) -> Option<KeptFile> {
        self.state.files.get(path).copied()
    }

    /// The number of the newest entry.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.state.number
    }

    /// The version of the requests for deletion.
    pub(crate) fn deletions(&self) -> DeletionVersion {
        DeletionVersion::of_common(self.state.hiding_since)
    }
}

/// Why a common file was not changed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CommonError {
    /// Another node keeps the files. Perhaps the change is in force all the same.
    #[error("another node keeps what is common to all nodes")]
    Elsewhere,
    /// The file has another content than the one that the change is based on.
    #[error("another change came first")]
    Stale,
    /// The bucket has not taken it in time. Perhaps it is in force.
    #[error("the bucket does not take the change")]
    Bucket,
}

/// A wish to change a file.
struct Wish {
    path: KeptPath,
    based_on: Option<KeptFile>,
    content: Option<Vec<u8>>,
    changes_hiding: bool,
    done: oneshot::Sender<Result<KeptFileNumber, CommonError>>,
}

/// The number of an entry, and what it says of the file.
pub type KeptFileNumber = (u64, Option<KeptFile>);

struct Shared {
    view: Published<CommonView>,
    wishes: RefCell<VecDeque<Wish>>,
    bell: Bell,
    /// The largest number that somebody knows.
    heard: Cell<u64>,
    /// What was of no need before this moment is not in the bucket any more.
    clean_until: Cell<Option<Monotonic>>,
}

/// The common files, for others on core 0. Cheap to clone.
#[derive(Clone)]
pub struct CommonFiles<R: Runtime> {
    runtime: R,
    store: Store<R>,
    member: MemberHandle,
    shared: Rc<Shared>,
}

impl<R: Runtime> fmt::Debug for CommonFiles<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommonFiles").field("view", &self.shared.view.get()).finish()
    }
}

impl<R: Runtime> CommonFiles<R> {
    /// What the node knows of them.
    pub fn view(&self) -> Arc<CommonView> {
        self.shared.view.get()
    }

    /// Waits until what the node knows is not this view any more.
    pub async fn changed(&self, known: &CommonView) -> Arc<CommonView> {
        self.shared.view.when(|view| view != known).await
    }

    /// Says that somebody knows the entry of a number.
    pub fn heard(&self, number: u64) {
        if number > self.shared.heard.get() {
            self.shared.heard.set(number);
            self.shared.bell.ring();
        }
    }

    /// The partitions that the node owns and whose entries its shards have, each with the number of the
    /// map since which; `None` while they come or go.
    pub(crate) fn owned(&self) -> Option<BTreeMap<Partition, u64>> {
        self.member.owned_in_step()
    }

    /// How many partitions all nodes have together.
    pub(crate) fn partitions(&self) -> usize {
        self.member.routes().get().map.slots.len()
    }

    /// Before which moment something must have been of no need in order to be gone from the bucket;
    /// `None` if the node is not the keeper, or has not looked.
    pub(crate) fn clean_until(&self) -> Option<Monotonic> {
        self.shared.clean_until.get()
    }

    /// Whether this node keeps the files at this very instant, as the owner since the map of a
    /// number. It takes a request to the bucket if the last one was more than a second ago. Waits at
    /// most [`PATIENCE`].
    pub async fn proven(&self, since: u64) -> Keeping {
        let until = self.runtime.now().after(PATIENCE);
        proof::prove(&self.runtime, &self.member, since, until).await
    }

    /// Replaces a file by `content`, or removes it. `based_on` is what the author knows of it. With
    /// `changes_hiding` the requests for deletion hide other entries from then on. Gives the number
    /// of the entry that says so, and what it says.
    ///
    /// # Errors
    /// See [`CommonError`].
    pub async fn replace(
        &self,
        path: KeptPath,
        based_on: Option<KeptFile>,
        content: Option<Vec<u8>>,
        changes_hiding: bool,
    ) -> Result<KeptFileNumber, CommonError> {
        let (done, result) = oneshot::channel();
        let wish = Wish { path, based_on, content, changes_hiding, done };
        self.shared.wishes.borrow_mut().push_back(wish);
        self.shared.bell.ring();
        // The log ends with the node.
        result.await.unwrap_or(Err(CommonError::Elsewhere))
    }

    /// The content of a file.
    ///
    /// # Errors
    /// [`LedgerError::KeptFile`]: the object is missing or damaged. Otherwise the bucket does not
    /// answer.
    pub async fn read(&self, path: &KeptPath, file: &KeptFile) -> Result<Vec<u8>, LedgerError> {
        fetch(&self.runtime, &self.store, path, file).await.map(|(_, bytes)| bytes)
    }
}
