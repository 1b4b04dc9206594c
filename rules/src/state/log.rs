//! Writes the log of alerts.
//!
//! One task writes, so frames stand in the file in the order in which they were appended. Frames
//! that wait go out in one write. Syncs and rewrites run beside the writes. A rewrite takes what
//! the groups' tables hold at its beginning; frames that come meanwhile go to both files.

pub(super) mod rewrite;
mod writer;

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use logsvc_runtime::{Latch, Runtime};

use self::writer::Writer;
use super::image::{GroupKey, RuleImage};
use crate::alert::AlertTable;

/// By how much the file may be longer than twice what it held when it was last rewritten.
pub const REWRITE_SLACK_BYTES: u64 = 1 << 20;

/// A group as a rewrite writes it.
#[derive(Clone, Debug)]
pub struct GroupSnapshot {
    /// Which group.
    pub key: GroupKey,
    /// Its number in the log.
    pub number: u32,
    /// The time of its last evaluation, in ns since the Unix epoch.
    pub last_evaluation_ns: Option<i64>,
    /// Its rules that have alerts.
    pub rules: Vec<RuleSnapshot>,
}

/// A rule as a rewrite writes it.
#[derive(Clone, Debug)]
pub struct RuleSnapshot {
    /// Its number in the log.
    pub number: u32,
    /// What it is known by. The table in it is not used.
    pub identity: Rc<RuleImage>,
    /// Its alerts.
    pub table: Arc<AlertTable>,
}

/// Numbers of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StateCounters {
    /// Length of the file in bytes; 0 while there is none that works.
    pub file_bytes: u64,
    /// Writes, syncs and rewrites that have failed.
    pub failures: u64,
    /// Rewrites that have succeeded.
    pub rewrites: u64,
    /// Syncs that have succeeded, those of rewrites included.
    pub syncs: u64,
}

/// Gives what the groups' tables hold at this moment.
pub type Snapshot = Rc<dyn Fn() -> Vec<GroupSnapshot>>;

/// The end of frames that wait.
#[derive(Debug, Default)]
struct Batch {
    payloads: RefCell<Vec<Vec<u8>>>,
    is_kept: Cell<bool>,
    done: Latch,
}

#[derive(Debug, Default)]
struct Queue {
    /// Frames that the writer has not taken.
    open: RefCell<Rc<Batch>>,
    /// Triggered when there is something for the writer.
    wakeup: RefCell<Latch>,
    stop: Latch,
    counters: Cell<StateCounters>,
}

impl Queue {
    fn take(&self) -> Option<Rc<Batch>> {
        if self.open.borrow().payloads.borrow().is_empty() {
            return None;
        }
        Some(self.open.replace(Rc::default()))
    }

    fn count(&self, change: impl FnOnce(&mut StateCounters)) {
        let mut counters = self.counters.get();
        change(&mut counters);
        self.counters.set(counters);
    }
}

/// See the module.
pub struct StateLog<R: Runtime> {
    queue: Rc<Queue>,
    task: RefCell<Option<R::Task<()>>>,
}

impl<R: Runtime> std::fmt::Debug for StateLog<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateLog").field("counters", &self.queue.counters.get()).finish()
    }
}

impl<R: Runtime> StateLog<R> {
    /// Starts the writer, which first writes the file anew. Groups and rules have numbers of this
    /// process in `snapshot` and in what is appended.
    pub fn start(runtime: &R, data_dir: &Path, snapshot: Snapshot) -> StateLog<R> {
        let queue = Rc::new(Queue::default());
        let writer = Writer::new(runtime.clone(), data_dir, Rc::clone(&queue), snapshot);
        StateLog { queue, task: RefCell::new(Some(runtime.spawn(writer.run()))) }
    }

    /// Appends runs of records, each a frame of its own. They are in their place in the order of
    /// all frames when this returns. The future ends when they survive the end of the process, or
    /// when they could not be written; then it gives false, and they are part of the next rewrite,
    /// since the caller's tables have them.
    pub fn append(&self, payloads: Vec<Vec<u8>>) -> impl Future<Output = bool> + use<R> {
        let batch = (!payloads.is_empty()).then(|| {
            let batch = Rc::clone(&self.queue.open.borrow());
            batch.payloads.borrow_mut().extend(payloads);
            self.queue.wakeup.borrow().trigger();
            batch
        });
        async move {
            let Some(batch) = batch else { return true };
            batch.done.wait().await;
            batch.is_kept.get()
        }
    }

    /// Numbers of the log.
    pub fn counters(&self) -> StateCounters {
        self.queue.counters.get()
    }

    /// Writes and syncs what was appended, and ends the writer.
    pub async fn stop(&self) {
        self.queue.stop.trigger();
        self.queue.wakeup.borrow().trigger();
        let task = self.task.borrow_mut().take();
        if let Some(task) = task {
            task.await;
        }
    }
}
