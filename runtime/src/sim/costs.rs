//! The cost of computations on the virtual clock.
//!
//! The clock does not see the computations of a task: a poll costs about a microsecond. Long
//! computations call [`crate::give_way`] about every tenth of a millisecond. With a cost for
//! each call, a computation on a core delays the core for as long as on a machine, and a
//! computation on a side thread ends later.
//!
//! Guarantee: without a cost, nothing changes. What can go wrong: a computation that does not
//! call costs nothing.

use std::cell::Cell;

thread_local! {
    /// The cost of a call, and the sum of the costs so far, in nanoseconds.
    static COSTS: Cell<(u64, u64)> = const { Cell::new((0, 0)) };
}

/// Counts a call.
pub(crate) fn charge() {
    let (call_nanos, owed_nanos) = COSTS.get();
    if call_nanos > 0 {
        COSTS.set((call_nanos, owed_nanos.saturating_add(call_nanos)));
    }
}

/// Runs a computation in which each call costs `call_nanos`; returns the sum of the costs as well.
pub(super) fn of<T>(call_nanos: u64, computation: impl FnOnce() -> T) -> (T, u64) {
    let outer = COSTS.replace((call_nanos, 0));
    let result = computation();
    let (_, owed_nanos) = COSTS.replace(outer);
    (result, owed_nanos)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::sim::Simulation;
    use crate::{Monotonic, Runtime, SideQueue, give_way};

    const COST: Duration = Duration::from_micros(100);

    fn compute(calls: usize) {
        (0..calls).for_each(|_| give_way());
    }

    #[test]
    fn what_a_core_computes_holds_all_up_and_what_is_computed_aside_does_not() {
        let simulation = Simulation::new(1);
        simulation.set_look_cost(COST);
        simulation.block_on(|runtime| async move {
            let late = async |runtime: &_| {
                let runtime: &crate::sim::SimRuntime = runtime;
                let due = runtime.now().after(Duration::from_millis(1));
                runtime.sleep_until(due).await;
                runtime.now().since(due)
            };
            let inner = runtime.clone();
            let aside = runtime.spawn(async move {
                let begun = inner.now();
                inner.offload_to(SideQueue::LongQueries, || compute(1000)).await;
                inner.now().since(begun)
            });
            assert!(late(&runtime).await < Duration::from_millis(1));
            assert!(aside.await >= COST * 1000);
            drop(runtime.spawn(async { compute(1000) }));
            assert!(late(&runtime).await >= COST * 900);
        });
        let longest = simulation.longest_poll();
        assert!(longest >= COST * 1000 && longest < COST * 1001, "{longest:?}");
    }

    #[test]
    fn without_a_cost_computing_takes_no_time() {
        let time = |calls| {
            let simulation = Simulation::new(1);
            let end: Monotonic = simulation.block_on(|runtime| async move {
                compute(calls);
                runtime.offload_to(SideQueue::Upkeep, move || compute(calls)).await;
                runtime.now()
            });
            (end, simulation.trace_hash())
        };
        assert_eq!(time(0), time(1000));
    }
}
