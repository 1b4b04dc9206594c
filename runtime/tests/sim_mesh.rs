//! Properties of the mesh under random schedules: every accepted call ends, with
//! the right answer; refusals give the request back; nothing leaks.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::mesh::{Caller, Disconnected, FullLane, Inbox, Mesh, MeshOptions};
use logsvc_runtime::sim::{SimRuntime, for_each_seed};
use logsvc_runtime::{CoreId, Latch, Runtime};

const CORES: u16 = 3;
const CALLS_PER_CORE: u64 = 150;

/// The calling core, and the number of its call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    from: CoreId,
    number: u64,
}

fn answer(request: Request) -> u64 {
    request.number * 31 + u64::from(request.from.0)
}

/// A tenth of the requests is dropped instead of answered.
fn is_dropped(request: Request) -> bool {
    request.number % 10 == 3
}

#[derive(Default)]
struct Tally {
    answered: Cell<u64>,
    disconnected: Cell<u64>,
    lane_full: Cell<u64>,
    inflight_full: Cell<u64>,
    thrown_away: Cell<u64>,
    last_seen: RefCell<Vec<(CoreId, CoreId, u64)>>,
}

impl Tally {
    fn count(counter: &Cell<u64>) {
        counter.set(counter.get() + 1);
    }
}

async fn pause(runtime: &SimRuntime, max_micros: u64) {
    let micros = runtime.random_u64() % max_micros;
    runtime.sleep_until(runtime.now().after(Duration::from_micros(micros))).await;
}

async fn serve(runtime: SimRuntime, mut inbox: Inbox<Request, u64>, tally: Rc<Tally>) {
    while let Some(incoming) = inbox.receive().await {
        let request = incoming.request;
        assert_eq!(incoming.reply_to.caller(), request.from);
        let pair = (request.from, runtime.core());
        {
            let mut seen = tally.last_seen.borrow_mut();
            let newer = !seen
                .iter()
                .any(|(from, to, number)| (*from, *to) == pair && *number >= request.number);
            assert!(newer, "requests between two cores keep their order");
            seen.retain(|(from, to, _)| (*from, *to) != pair);
            seen.push((pair.0, pair.1, request.number));
        }
        if is_dropped(request) {
            continue;
        }
        match runtime.random_u64() % 3 {
            0 => incoming.reply_to.send(answer(request)),
            1 => {
                let inner = runtime.clone();
                drop(runtime.spawn(async move {
                    pause(&inner, 2_000).await;
                    incoming.reply_to.send(answer(request));
                }));
            }
            _ => {
                pause(&runtime, 200).await;
                incoming.reply_to.send(answer(request));
            }
        }
    }
}

async fn call_much(runtime: SimRuntime, caller: Caller<Request, u64>, tally: Rc<Tally>) {
    let mut waiting = Vec::new();
    let mut number = 0;
    while number < CALLS_PER_CORE {
        let target = CoreId((runtime.random_u64() % u64::from(CORES)) as u16);
        let request = Request { from: runtime.core(), number };
        match caller.call(target, request) {
            Err(refused) => {
                assert_eq!(refused.request, request, "a refused request comes back");
                Tally::count(match refused.limit {
                    FullLane::Request => &tally.lane_full,
                    FullLane::Inflight => &tally.inflight_full,
                });
                pause(&runtime, 500).await;
                continue;
            }
            Ok(pending) if runtime.random_u64().is_multiple_of(8) => {
                Tally::count(&tally.thrown_away);
                drop(pending);
            }
            Ok(pending) => {
                let (inner, tally) = (runtime.clone(), Rc::clone(&tally));
                waiting.push(runtime.spawn(async move {
                    if inner.random_u64().is_multiple_of(4) {
                        pause(&inner, 3_000).await;
                    }
                    match pending.await {
                        Ok(reply) => {
                            assert!(!is_dropped(request));
                            assert_eq!(reply, answer(request));
                            Tally::count(&tally.answered);
                        }
                        Err(Disconnected) => {
                            assert!(is_dropped(request));
                            Tally::count(&tally.disconnected);
                        }
                    }
                }));
            }
        }
        number += 1;
        if runtime.random_u64().is_multiple_of(6) {
            runtime.yield_now().await;
        }
    }
    for task in waiting {
        task.await;
    }
}

#[test]
fn every_accepted_call_ends() {
    let (full_lanes, full_inflight) = (Cell::new(0), Cell::new(0));
    for_each_seed(0..100, |simulation| {
        let options = MeshOptions { request_lane_messages: 6, inflight_per_core: 8 };
        let mesh = Mesh::new(CORES, options);
        let tally = Rc::new(Tally::default());
        let all_called = Latch::new();
        let finished = Rc::new(Cell::new(0));
        let shared = Rc::clone(&tally);
        simulation.run(CORES, |runtime| {
            let (caller, inbox) = mesh.attach(runtime.core());
            let (tally, all_called) = (Rc::clone(&shared), all_called.clone());
            let finished = Rc::clone(&finished);
            async move {
                drop(runtime.spawn(caller.pump_replies()));
                let served = runtime.spawn(serve(runtime.clone(), inbox, Rc::clone(&tally)));
                call_much(runtime.clone(), caller.clone(), tally).await;
                // Abandoned replies still have to arrive.
                while caller.inflight() > 0 {
                    pause(&runtime, 1_000).await;
                }
                finished.set(finished.get() + 1);
                if finished.get() == CORES {
                    all_called.trigger();
                }
                all_called.wait().await;
                assert_eq!(caller.request_lane_depth(runtime.core()), 0);
                // The inboxes end with the last caller.
                drop(caller);
                served.await;
            }
        });
        let ended = tally.answered.get() + tally.disconnected.get() + tally.thrown_away.get();
        assert_eq!(ended, CALLS_PER_CORE * u64::from(CORES));
        full_lanes.set(full_lanes.get() + tally.lane_full.get());
        full_inflight.set(full_inflight.get() + tally.inflight_full.get());
    });
    assert!(full_lanes.get() > 0 && full_inflight.get() > 0, "the limits were reached");
}

#[test]
fn calls_to_a_core_that_leaves_are_disconnected() {
    for_each_seed(0..100, |simulation| {
        let mesh = Mesh::<u64, u64>::new(
            2,
            MeshOptions { request_lane_messages: 64, inflight_per_core: 64 },
        );
        let ended = Rc::new(Cell::new(0));
        let count = Rc::clone(&ended);
        simulation.run(2, |runtime| {
            let (caller, mut inbox) = mesh.attach(runtime.core());
            let count = Rc::clone(&count);
            async move {
                if runtime.core() == CoreId(1) {
                    // Answers a few and leaves, with more on their way.
                    for _ in 0..runtime.random_u64() % 20 {
                        if let Some(incoming) = inbox.receive().await {
                            incoming.reply_to.send(1);
                        }
                    }
                    return;
                }
                drop(runtime.spawn(caller.pump_replies()));
                let mut disconnected = false;
                while !disconnected {
                    let pending = (0..3).map(|number| caller.call(CoreId(1), number));
                    let pending: Vec<_> = pending.collect();
                    for reply in pending {
                        let reply = reply.expect("room").await;
                        // Once gone, gone for good.
                        assert!(!disconnected || reply == Err(Disconnected));
                        disconnected = reply == Err(Disconnected);
                        count.set(count.get() + 1);
                    }
                }
            }
        });
        assert!(ended.get() > 0);
    });
}
