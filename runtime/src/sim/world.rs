//! The scheduler and the clock of the simulation.
//!
//! All cores of all nodes share one thread. Which ready task runs next is random
//! (see [`super::ready`]). Now and then a core stalls for some milliseconds while
//! the others run on. The clock moves a little with each poll, and jumps to the
//! next event when nothing is ready.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::clocks::Clocks;
use super::completion::{Completion, completion};
use super::costs;
use super::random::Random;
use super::ready::{ReadyTasks, TaskId, TaskWaker};
use crate::CoreId;

/// Number of a node within a simulation.
pub(super) type NodeId = u32;
/// When an event happens, and a number that keeps equal times apart.
pub(super) type EventKey = (u64, u64);

/// The cost of a poll on the virtual clock, in nanoseconds.
const POLL_COST_NANOS: std::ops::RangeInclusive<u64> = 200..=2_000;
/// The time that a task computes between two yields, in nanoseconds.
const YIELD_COST_NANOS: std::ops::RangeInclusive<u64> = 1_000..=50_000;
/// One poll in so many is preceded by a stall of its core.
const STALL_ONE_IN: u64 = 4_096;
const STALL_NANOS: std::ops::RangeInclusive<u64> = 10_000..=5_000_000;

/// 2026-01-01T00:00:00Z, the wall clock's reading at the start of a simulation.
const UNIX_NANOS_AT_START: i64 = 1_767_225_600_000_000_000;

/// How an operation that was on its way ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// Its time has come.
    Due,
    /// Its process was killed while it ran.
    Interrupted,
}

enum Event {
    Wake(Waker),
    /// A task of a stalled core goes on.
    Ready(TaskId),
    /// `node` is the one on whose behalf a file system works.
    Action {
        node: Option<NodeId>,
        action: Box<dyn FnOnce(Fate)>,
    },
}

struct Task {
    node: NodeId,
    core: CoreId,
    /// Absent while it is polled.
    future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    waker: Arc<TaskWaker>,
}

struct Stall {
    node: NodeId,
    core: CoreId,
    until: u64,
}

pub(super) struct World {
    seed: u64,
    now_nanos: Cell<u64>,
    unix_offset_nanos: Cell<i64>,
    pub(super) clocks: Clocks,
    schedule: Random,
    /// The source of [`crate::Runtime::random_u64`].
    pub(super) application: Random,
    tasks: RefCell<BTreeMap<TaskId, Task>>,
    next_task: Cell<TaskId>,
    next_node: Cell<NodeId>,
    ready: ReadyTasks,
    stalls: RefCell<Vec<Stall>>,
    /// Stopped nodes, and those of their tasks that would run.
    stopped: RefCell<BTreeMap<NodeId, Vec<TaskId>>>,
    events: RefCell<BTreeMap<EventKey, Event>>,
    next_event: Cell<u64>,
    trace: Cell<u64>,
    polls: Cell<u64>,
    /// The cost of one call of [`crate::give_way`], and the highest sum of such costs in one poll.
    look_nanos: Cell<u64>,
    longest_poll_nanos: Cell<u64>,
}

impl World {
    pub(super) fn new(seed: u64) -> World {
        World {
            seed,
            now_nanos: Cell::new(1),
            unix_offset_nanos: Cell::new(UNIX_NANOS_AT_START),
            clocks: Clocks::default(),
            schedule: Random::derive(seed, 1),
            application: Random::derive(seed, 2),
            tasks: RefCell::default(),
            next_task: Cell::new(0),
            next_node: Cell::new(0),
            ready: ReadyTasks::new(),
            stalls: RefCell::default(),
            stopped: RefCell::default(),
            events: RefCell::default(),
            next_event: Cell::new(0),
            trace: Cell::new(seed),
            polls: Cell::new(0),
            look_nanos: Cell::new(0),
            longest_poll_nanos: Cell::new(0),
        }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn now_nanos(&self) -> u64 {
        self.now_nanos.get()
    }

    pub(super) fn unix_nanos(&self) -> i64 {
        self.unix_offset_nanos.get().saturating_add_unsigned(self.now_nanos.get())
    }

    pub(super) fn set_unix_nanos(&self, unix_nanos: i64) {
        self.unix_offset_nanos.set(unix_nanos.saturating_sub_unsigned(self.now_nanos.get()));
    }

    pub(super) fn polls(&self) -> u64 {
        self.polls.get()
    }

    pub(super) fn look_nanos(&self) -> u64 {
        self.look_nanos.get()
    }

    pub(super) fn set_look_nanos(&self, nanos: u64) {
        self.look_nanos.set(nanos);
    }

    pub(super) fn longest_poll_nanos(&self) -> u64 {
        self.longest_poll_nanos.get()
    }

    pub(super) fn task_count(&self) -> usize {
        self.tasks.borrow().len()
    }

    pub(super) fn new_node(&self) -> NodeId {
        let node = self.next_node.get();
        self.next_node.set(node + 1);
        node
    }

    /// Mixes an event into the running hash (a multiplicative hash; it has to notice differences,
    /// not to resist an attacker).
    pub(super) fn note(&self, what: u64) {
        let mixed = (self.trace.get().rotate_left(23) ^ what).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.trace.set(mixed ^ (mixed >> 29));
    }

    pub(super) fn trace_hash(&self) -> u64 {
        self.trace.get()
    }

    pub(super) fn spawn(
        &self,
        node: NodeId,
        core: CoreId,
        future: impl Future<Output = ()> + 'static,
    ) {
        let task = self.next_task.get();
        self.next_task.set(task + 1);
        let waker = self.ready.waker(task);
        let entry = Task { node, core, future: Some(Box::pin(future)), waker: Arc::clone(&waker) };
        self.tasks.borrow_mut().insert(task, entry);
        waker.wake();
    }

    /// Drops the tasks of a node, or of one of its cores.
    pub(super) fn drop_tasks(&self, node: NodeId, core: Option<CoreId>) {
        let belongs = |task: &Task| task.node == node && core.is_none_or(|core| core == task.core);
        // Destructors are foreign code; they run outside the borrow and may even
        // spawn, hence the loop.
        loop {
            let dropped: Vec<Task> = self
                .tasks
                .borrow_mut()
                .extract_if(.., |_, task| belongs(task))
                .map(|(_, task)| task)
                .collect();
            if dropped.is_empty() {
                return;
            }
        }
    }

    /// Ends the kernel's operations for `node`: some of them still happen, in part or whole, the
    /// rest never do.
    pub(super) fn interrupt_actions(&self, node: NodeId) {
        let of_node = |event: &Event| matches!(event, Event::Action { node: Some(owner), .. } if *owner == node);
        let interrupted: Vec<Event> = self
            .events
            .borrow_mut()
            .extract_if(.., |_, event| of_node(event))
            .map(|(_, event)| event)
            .collect();
        for event in interrupted {
            match event {
                Event::Action { action, .. } if self.schedule.one_in(2) => {
                    action(Fate::Interrupted);
                }
                other => drop(other),
            }
        }
    }

    /// Lets `action` happen `delay_nanos` from now.
    pub(super) fn schedule(
        &self,
        node: Option<NodeId>,
        delay_nanos: u64,
        action: impl FnOnce(Fate) + 'static,
    ) {
        let key = self.event_key(self.now_nanos.get().saturating_add(delay_nanos));
        self.events.borrow_mut().insert(key, Event::Action { node, action: Box::new(action) });
    }

    /// Like [`World::schedule`], with a result to wait for.
    pub(super) fn submit<T: 'static>(
        &self,
        node: Option<NodeId>,
        delay_nanos: u64,
        action: impl FnOnce(Fate) -> T + 'static,
    ) -> Completion<T> {
        let (completer, completion) = completion();
        self.schedule(node, delay_nanos, move |fate| completer.complete(action(fate)));
        completion
    }

    /// Registers or renews a wake at `at_nanos`.
    pub(super) fn set_timer(&self, key: &mut Option<EventKey>, at_nanos: u64, waker: Waker) {
        let key = *key.get_or_insert_with(|| self.event_key(at_nanos));
        let replaced = self.events.borrow_mut().insert(key, Event::Wake(waker));
        drop(replaced);
    }

    pub(super) fn cancel_timer(&self, key: EventKey) {
        let cancelled = self.events.borrow_mut().remove(&key);
        drop(cancelled);
    }

    /// Lets the time of a task's computation pass, and gives the round in which the task may go on:
    /// tasks that are ready now run in this round or the next one.
    pub(super) fn begin_yield(&self) -> u64 {
        self.advance_by(self.schedule.within(&YIELD_COST_NANOS));
        self.round() + 2
    }

    pub(super) fn round(&self) -> u64 {
        self.ready.round()
    }

    pub(super) fn wake_in_round(&self, round: u64, waker: Waker) {
        self.ready.wake_in_round(round, waker);
    }

    fn advance_by(&self, nanos: u64) {
        self.now_nanos.set(self.now_nanos.get().saturating_add(nanos));
    }

    fn event_key(&self, at_nanos: u64) -> EventKey {
        let number = self.next_event.get();
        self.next_event.set(number + 1);
        (at_nanos, number)
    }

    /// Does one thing: polls a task, or moves the clock to the next event. False
    /// if there is nothing left to do.
    pub(super) fn step(&self) -> bool {
        self.fire_due_events();
        if let Some(task) = self.pick_task() {
            self.poll(task);
            return true;
        }
        let Some((at_nanos, _)) = self.events.borrow().keys().next().copied() else {
            return false;
        };
        self.now_nanos.set(self.now_nanos.get().max(at_nanos));
        true
    }

    /// Moves the clock to `at_nanos` if nothing is ready and no event is due
    /// before; false otherwise.
    pub(super) fn skip_to(&self, at_nanos: u64) -> bool {
        let idle = self.ready.is_empty();
        let first = self.events.borrow().keys().next().map(|key| key.0);
        if idle && first.is_none_or(|first| first > at_nanos) {
            self.now_nanos.set(self.now_nanos.get().max(at_nanos));
            return true;
        }
        false
    }

    fn fire_due_events(&self) {
        loop {
            let due = {
                let mut events = self.events.borrow_mut();
                match events.first_entry() {
                    Some(first) if first.key().0 <= self.now_nanos.get() => first.remove(),
                    _ => return,
                }
            };
            match due {
                Event::Wake(waker) => waker.wake(),
                Event::Ready(task) => self.ready.push(task),
                Event::Action { action, .. } => action(Fate::Due),
            }
        }
    }

    fn pick_task(&self) -> Option<TaskId> {
        loop {
            let task = self.ready.pick(&self.schedule)?;
            if !self.is_stopped(task) && !self.is_stalled(task) {
                return Some(task);
            }
        }
    }

    /// Lets no task of a node run until [`World::go_on`].
    pub(super) fn stop(&self, node: NodeId) {
        self.stopped.borrow_mut().entry(node).or_default();
    }

    /// Lets the tasks of a stopped node run again.
    pub(super) fn go_on(&self, node: NodeId) {
        let waiting = self.stopped.borrow_mut().remove(&node);
        waiting.into_iter().flatten().for_each(|task| self.ready.push(task));
    }

    /// Whether the task's node is stopped; then the task comes back when the node goes on.
    fn is_stopped(&self, task: TaskId) -> bool {
        let mut stopped = self.stopped.borrow_mut();
        if stopped.is_empty() {
            return false;
        }
        let tasks = self.tasks.borrow();
        let waiting = tasks.get(&task).and_then(|entry| stopped.get_mut(&entry.node));
        waiting.map(|waiting| waiting.push(task)).is_some()
    }

    /// Whether the task's core stalls now; then the task comes back after it.
    fn is_stalled(&self, task: TaskId) -> bool {
        let tasks = self.tasks.borrow();
        let Some(Task { node, core, .. }) = tasks.get(&task) else { return false };
        let now = self.now_nanos.get();
        let mut stalls = self.stalls.borrow_mut();
        stalls.retain(|stall| stall.until > now);
        if self.schedule.one_in(STALL_ONE_IN) {
            let until = now + self.schedule.within(&STALL_NANOS);
            stalls.push(Stall { node: *node, core: *core, until });
        }
        let stall = stalls.iter().find(|stall| stall.node == *node && stall.core == *core);
        if let Some(stall) = stall {
            let key = self.event_key(stall.until);
            self.events.borrow_mut().insert(key, Event::Ready(task));
        }
        stall.is_some()
    }

    fn poll(&self, id: TaskId) {
        let taken = self.tasks.borrow_mut().get_mut(&id).map(|task| {
            let future = task.future.take().expect("a task is not polled within its own poll");
            (future, Arc::clone(&task.waker))
        });
        // Its node has crashed since it was woken.
        let Some((mut future, waker)) = taken else { return };
        self.polls.set(self.polls.get() + 1);
        self.note(id);
        self.note(self.now_nanos.get());
        waker.begin_poll();
        let waker = Waker::from(waker);
        let mut context = Context::from_waker(&waker);
        let look_nanos = self.look_nanos.get();
        let (poll, owed_nanos) = costs::of(look_nanos, || future.as_mut().poll(&mut context));
        self.longest_poll_nanos.set(self.longest_poll_nanos.get().max(owed_nanos));
        self.advance_by(owed_nanos.saturating_add(self.schedule.within(&POLL_COST_NANOS)));
        let ended = match poll {
            Poll::Ready(()) => (self.tasks.borrow_mut().remove(&id), Some(future)),
            Poll::Pending => match self.tasks.borrow_mut().get_mut(&id) {
                Some(task) => {
                    task.future = Some(future);
                    (None, None)
                }
                // Its node crashed during the poll.
                None => (None, Some(future)),
            },
        };
        drop(ended);
    }

    /// Drops everything that might hold the world itself.
    pub(super) fn clear(&self) {
        loop {
            let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
            let events = std::mem::take(&mut *self.events.borrow_mut());
            let yielded = self.ready.clear();
            if tasks.is_empty() && events.is_empty() && yielded.is_empty() {
                return;
            }
        }
    }
}
