//! Tasks, time, yielding and side threads.

use std::cell::Cell;
use std::hint::black_box;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use futures_channel::oneshot;
use futures_util::future::join_all;

use super::{connected, in_millis, read_up_to};
use crate::{Monotonic, Runtime, SideQueue, TURN_BYTES, Turns, Writer};

/// A piece of computing between two yields, some tens of microseconds.
fn compute() {
    let mut state = 1_u64;
    for round in 0..20_000_u64 {
        state = black_box(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round));
    }
}

/// Computes and yields until `done`, at most `limit` times; gives the yields made.
async fn compute_until<R: Runtime>(runtime: &R, limit: u32, done: impl Fn() -> bool) -> u32 {
    let mut yields = 0;
    while !done() {
        assert!(yields < limit, "nothing happened in {limit} yields");
        compute();
        runtime.yield_now().await;
        yields += 1;
    }
    yields
}

pub(super) async fn gives_the_output<R: Runtime>(runtime: R, _: PathBuf) {
    let task = runtime.spawn(async { "output".to_owned() });
    assert_eq!(task.await, "output");
    let nested = runtime.clone();
    let task = runtime.spawn(async move { nested.spawn(async { 7 }).await + 1 });
    assert_eq!(task.await, 8);
    // The output of a task that ended long ago is still there.
    let task = runtime.spawn(async { 9 });
    runtime.sleep_until(in_millis(&runtime, 5)).await;
    assert_eq!(task.await, 9);
}

pub(super) async fn a_dropped_handle_detaches<R: Runtime>(runtime: R, _: PathBuf) {
    // Dropped before the task has run, and while it waits.
    for early in [true, false] {
        let (send, receive) = oneshot::channel();
        let inner = runtime.clone();
        let task = runtime.spawn(async move {
            inner.sleep_until(in_millis(&inner, 10)).await;
            send.send(3).expect("the check waits");
        });
        if !early {
            runtime.sleep_until(in_millis(&runtime, 2)).await;
        }
        drop(task);
        assert_eq!(receive.await, Ok(3));
    }
}

pub(super) async fn yielding_lets_ready_tasks_run<R: Runtime>(runtime: R, _: PathBuf) {
    let ran = Rc::new(Cell::new(0));
    for _ in 0..10 {
        let ran = Rc::clone(&ran);
        drop(runtime.spawn(async move { ran.set(ran.get() + 1) }));
    }
    compute_until(&runtime, 10, || ran.get() == 10).await;
}

pub(super) async fn all_that_is_ready_runs_between_turns<R: Runtime>(runtime: R, _: PathBuf) {
    let (turns, began) = (Turns::default(), Rc::new(Cell::new(0)));
    let asked = Rc::new(Cell::new(0));
    let tasks = (0..8).map(|_| {
        let (inner, turns) = (runtime.clone(), turns.clone());
        let (began, asked) = (Rc::clone(&began), Rc::clone(&asked));
        runtime.spawn(async move {
            let turn = asked.replace(asked.get() + 1);
            turns.next(&inner).await;
            assert_eq!(began.get(), turn, "what earlier turns have begun, in order of asking");
            turns.note(TURN_BYTES);
            drop(inner.spawn(async move { began.set(began.get() + 1) }));
        })
    });
    join_all(tasks.collect::<Vec<_>>()).await;
}

pub(super) async fn yielding_lets_timers_run<R: Runtime>(runtime: R, _: PathBuf) {
    let fired = Rc::new(Cell::new(false));
    let due = in_millis(&runtime, 10);
    let (inner, flag) = (runtime.clone(), Rc::clone(&fired));
    drop(runtime.spawn(async move {
        inner.sleep_until(due).await;
        flag.set(true);
    }));
    compute_until(&runtime, 10_000_000, || fired.get() || runtime.now() >= due).await;
    // A tick or two late is fine, but not left to starve.
    let overdue = runtime.now().after(Duration::from_millis(3));
    compute_until(&runtime, 10_000_000, || fired.get() || runtime.now() >= overdue).await;
    compute_until(&runtime, 100, || fired.get()).await;
}

pub(super) async fn yielding_lets_io_run<R: Runtime>(runtime: R, _: PathBuf) {
    const ROUNDS: u32 = 50;
    let ((mut near_reader, mut near_writer), (mut far_reader, mut far_writer)) =
        connected(&runtime).await;
    drop(runtime.spawn(async move {
        loop {
            let bytes = read_up_to(&mut far_reader, 1).await;
            if bytes.is_empty() {
                return;
            }
            far_writer.write_all(bytes, Monotonic::NEVER).await.0.expect("echo");
        }
    }));
    let done = Rc::new(Cell::new(false));
    let flag = Rc::clone(&done);
    drop(runtime.spawn(async move {
        for _ in 0..ROUNDS {
            near_writer.write_all(vec![1], Monotonic::NEVER).await.0.expect("write");
            assert_eq!(read_up_to(&mut near_reader, 1).await, [1]);
        }
        flag.set(true);
    }));
    // A few yields for each of the four operations of a round.
    compute_until(&runtime, ROUNDS * 40, || done.get()).await;
}

pub(super) async fn yielding_lets_other_threads_wake<R: Runtime>(runtime: R, _: PathBuf) {
    let done = Rc::new(Cell::new(0));
    for number in 1..=3 {
        let (inner, sum) = (runtime.clone(), Rc::clone(&done));
        drop(runtime.spawn(async move {
            let answer = inner.offload(move || number).await;
            sum.set(sum.get() + answer);
        }));
    }
    compute_until(&runtime, 10_000_000, || done.get() == 6).await;
}

pub(super) async fn many_tasks_yield_together<R: Runtime>(runtime: R, _: PathBuf) {
    let tasks = (0..20).map(|number| {
        let inner = runtime.clone();
        runtime.spawn(async move {
            for _ in 0..50 {
                inner.yield_now().await;
            }
            number
        })
    });
    let numbers = join_all(tasks).await;
    assert!(numbers.into_iter().eq(0..20));
}

pub(super) async fn sleeps_are_never_early<R: Runtime>(runtime: R, _: PathBuf) {
    for step in 0..30_u64 {
        let deadline = runtime.now().after(Duration::from_micros(step * 211));
        runtime.sleep_until(deadline).await;
        assert!(runtime.now() >= deadline, "woke {:?} early", deadline.since(runtime.now()));
    }
    // The past needs no waiting.
    runtime.sleep_until(Monotonic(0)).await;
}

pub(super) async fn many_timers_all_fire<R: Runtime>(runtime: R, _: PathBuf) {
    let tasks = (0..500_u64).map(|number| {
        let inner = runtime.clone();
        runtime.spawn(async move {
            let deadline = in_millis(&inner, number * 37 % 50);
            inner.sleep_until(deadline).await;
            assert!(inner.now() >= deadline);
        })
    });
    join_all(tasks).await;
}

pub(super) async fn dropped_sleeps_are_harmless<R: Runtime>(runtime: R, _: PathBuf) {
    for deadline in [Monotonic::NEVER, in_millis(&runtime, 3_600_000), in_millis(&runtime, 2)] {
        let winner = in_millis(&runtime, 1);
        let sleep = std::pin::pin!(runtime.sleep_until(deadline));
        // Either may end first when the machine is slow; neither may hang.
        crate::race::race(sleep, || runtime.sleep_until(winner)).await;
    }
    runtime.sleep_until(in_millis(&runtime, 5)).await;
}

pub(super) async fn random_numbers_differ<R: Runtime>(runtime: R, _: PathBuf) {
    let mut numbers: Vec<u64> = (0..100).map(|_| runtime.random_u64()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 100);
}

pub(super) async fn offloaded_work_returns<R: Runtime>(runtime: R, _: PathBuf) {
    let answers = join_all((0..100_u64).map(|number| {
        let inner = runtime.clone();
        let queue = match number % 5 {
            0 => SideQueue::Upkeep,
            1 => SideQueue::Merging,
            2 => SideQueue::Queries,
            3 => SideQueue::HeavyQueries,
            _ => SideQueue::LongQueries,
        };
        async move { inner.offload_to(queue, move || number * number).await }
    }));
    assert!(answers.await.into_iter().eq((0..100).map(|number| number * number)));
    // A caller that goes away leaves the others alone.
    let abandoned = std::pin::pin!(runtime.offload(compute));
    let at_once = runtime.now();
    crate::race::race(abandoned, || runtime.sleep_until(at_once)).await;
    assert_eq!(runtime.offload(|| 5).await, 5);
}
