//! Which kept files have changed since the bucket got them, and who waits for the bucket.
//!
//! Everything stays on core 0: the owners of the files note their changes here, and the follower
//! takes them.
//!
//! Guarantees: a change is noted once however often it is made, so the memory is bounded by the
//! number of files. Whoever waits, waits for all changes that were noted before.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_runtime::{Bell, Latch, Runtime};

use super::KeptPath;

/// How long an answer waits for the bucket.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The bucket has not taken a change in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bucket does not take the change; it is in the data folder, and is sent later")]
pub struct NotKept;

/// Ends when the bucket has the changes, or when it does not take them soon.
pub type Settling = Pin<Box<dyn Future<Output = Result<(), NotKept>>>>;

/// See the module. Cheap to clone; stays on its core.
#[derive(Clone)]
pub struct KeptFiles(Rc<Inner>);

struct Inner {
    /// Whether answers wait for the bucket.
    is_waited_for: bool,
    changes: RefCell<Changes>,
    /// For the follower while it sends nothing.
    asked: Bell,
    /// For a batch that is being sent.
    changed: Bell,
}

#[derive(Default)]
struct Changes {
    paths: BTreeSet<KeptPath>,
    /// Triggered when the bucket has the paths.
    sent: Latch,
    /// The same of paths that are on their way.
    in_flight: Option<Latch>,
}

/// Changes that are to be sent.
pub(crate) struct Taken {
    pub(crate) paths: BTreeSet<KeptPath>,
    sent: Latch,
}

impl fmt::Debug for KeptFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptFiles").field("is_waited_for", &self.0.is_waited_for).finish()
    }
}

impl KeptFiles {
    /// Files that have not changed. If they are waited for, answers to changes wait until the bucket
    /// has them, and the follower hurries.
    pub fn new(is_waited_for: bool) -> KeptFiles {
        KeptFiles(Rc::new(Inner {
            is_waited_for,
            changes: RefCell::default(),
            asked: Bell::new(),
            changed: Bell::new(),
        }))
    }

    /// Notes that a file has changed, or may have. To be called when it is on stable storage, and
    /// also when a change has failed.
    pub fn note(&self, path: KeptPath) {
        self.0.changes.borrow_mut().paths.insert(path);
        if self.0.is_waited_for {
            self.0.asked.ring();
        }
        self.0.changed.ring();
    }

    /// Waits until the bucket has all changes that were noted; `None` if an answer is not to wait.
    pub fn settled<R: Runtime>(&self, runtime: &R) -> Option<Settling> {
        let changes = self.0.changes.borrow();
        let sent = if changes.paths.is_empty() {
            changes.in_flight.clone()
        } else {
            // Those on their way go first.
            Some(changes.sent.clone())
        };
        let sent = sent.filter(|_| self.0.is_waited_for)?;
        let runtime = runtime.clone();
        let until = runtime.now().after(PATIENCE);
        Some(Box::pin(async move {
            match select(pin!(sent.wait()), pin!(runtime.sleep_until(until))).await {
                Either::Left(_) => Ok(()),
                Either::Right(_) => Err(NotKept),
            }
        }))
    }

    /// Whether files have changed that nobody sends yet.
    pub(crate) fn has_changed(&self) -> bool {
        !self.0.changes.borrow().paths.is_empty()
    }

    /// Adds what another list has.
    pub(crate) fn take_over(&self, other: &KeptFiles) {
        let paths = std::mem::take(&mut other.0.changes.borrow_mut().paths);
        self.0.changes.borrow_mut().paths.extend(paths);
    }

    /// The changes, which are on their way from here on; `None` if there are none.
    pub(crate) fn take(&self) -> Option<Taken> {
        let mut changes = self.0.changes.borrow_mut();
        if changes.paths.is_empty() {
            return None;
        }
        let Changes { paths, sent, .. } = std::mem::take(&mut *changes);
        changes.in_flight = Some(sent.clone());
        Some(Taken { paths, sent })
    }

    /// The bucket has what was taken.
    pub(crate) fn end(&self, taken: Taken) {
        self.0.changes.borrow_mut().in_flight = None;
        taken.sent.trigger();
    }

    /// Waits until somebody waits for the bucket.
    pub(crate) async fn asked(&self) {
        self.0.asked.wait().await;
    }

    /// Waits until a file has changed.
    pub(crate) async fn changed(&self) {
        while !self.has_changed() {
            self.0.changed.wait().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use logsvc_runtime::sim::Simulation;

    use super::*;

    fn group(number: u32) -> KeptPath {
        KeptPath::parse(&format!("rules/groups/t/{number:032x}")).expect("a path")
    }

    #[test]
    fn who_waits_waits_for_all_that_was_noted_before() {
        Simulation::new(1).block_on(|runtime| async move {
            let files = KeptFiles::new(true);
            assert!(files.settled(&runtime).is_none() && files.take().is_none());
            files.note(group(1));
            files.note(group(1));
            let first = files.settled(&runtime).expect("one has changed");
            let taken = files.take().expect("one has changed");
            assert_eq!(taken.paths, [group(1)].into());
            assert!(!files.has_changed());
            let again = files.settled(&runtime).expect("one is on its way");
            files.note(group(2));
            let second = files.settled(&runtime).expect("another has changed");
            files.end(taken);
            assert_eq!((first.await, again.await), (Ok(()), Ok(())));
            let begun = runtime.now();
            assert_eq!(second.await, Err(NotKept));
            assert!(runtime.now().since(begun) <= PATIENCE);
            files.end(files.take().expect("it is still to be sent"));
            assert!(files.settled(&runtime).is_none());
        });
    }

    #[test]
    fn nobody_waits_where_the_disk_is_enough() {
        Simulation::new(1).block_on(|runtime| async move {
            let files = KeptFiles::new(false);
            files.note(group(1));
            assert!(files.settled(&runtime).is_none() && files.has_changed());
        });
    }
}
