//! Properties of the fair queue under random schedules of several cores: every ticket that is kept
//! gets a place, and a key that floods the queue delays another one by no more than one piece of
//! work.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::sim::for_each_seed;
use logsvc_runtime::{FairQueue, KeyBounds, Runtime};

const CORES: u16 = 3;
const PLACES: usize = 2;
const FLOOD_PER_CORE: u32 = 40;
const WORK: Duration = Duration::from_secs(1);
const NONE: KeyBounds = KeyBounds { max_running: 0, max_waiting: 0 };

#[derive(Default)]
struct Tally {
    working: Cell<usize>,
    done: Cell<u32>,
    gone: Cell<u32>,
    quiet_done: Cell<u32>,
}

fn add<T: Copy + std::ops::Add<Output = T>>(cell: &Cell<T>, more: T) {
    cell.set(cell.get() + more);
}

async fn work<R: Runtime>(runtime: &R, tally: &Tally) {
    add(&tally.working, 1);
    assert!(tally.working.get() <= PLACES);
    runtime.sleep_until(runtime.now().after(WORK)).await;
    tally.working.set(tally.working.get() - 1);
}

/// A task that waits for permits, and now and then drops its ticket.
async fn flooding<R: Runtime>(runtime: R, queue: FairQueue<&'static str>, tally: Rc<Tally>) {
    let ticket = queue.enter("flood", NONE).expect("no bound");
    let permit = if runtime.random_u64().is_multiple_of(4) {
        let patience = Duration::from_millis(runtime.random_u64() % 20_000);
        let mut late = std::pin::pin!(runtime.sleep_until(runtime.now().after(patience)));
        let mut ticket = ticket;
        std::future::poll_fn(|cx| {
            if let std::task::Poll::Ready(permit) = std::pin::Pin::new(&mut ticket).poll(cx) {
                return std::task::Poll::Ready(Some(permit));
            }
            late.as_mut().poll(cx).map(|()| None)
        })
        .await
    } else {
        Some(ticket.await)
    };
    match permit {
        Some(_permit) => {
            work(&runtime, &tally).await;
            add(&tally.done, 1);
        }
        None => add(&tally.gone, 1),
    }
}

#[test]
fn a_flood_delays_others_by_one_piece_of_work() {
    for_each_seed(0..60, |simulation| {
        let queue = FairQueue::new(PLACES);
        let tally = Rc::new(Tally::default());
        let (node_queue, node_tally) = (queue.clone(), Rc::clone(&tally));
        let node = simulation.start_node(CORES, move |runtime| {
            let (queue, tally) = (node_queue.clone(), Rc::clone(&node_tally));
            async move {
                let tasks: Vec<_> = (0..FLOOD_PER_CORE)
                    .map(|_| {
                        let (queue, tally) = (queue.clone(), Rc::clone(&tally));
                        runtime.spawn(flooding(runtime.clone(), queue, tally))
                    })
                    .collect();
                if runtime.core().0 == 1 {
                    for _ in 0..10 {
                        let begun = runtime.now();
                        let permit = queue.enter("quiet", NONE).expect("no bound").await;
                        let waited = runtime.now().since(begun);
                        assert!(waited < WORK * 3 / 2, "waited {waited:?}");
                        work(&runtime, &tally).await;
                        drop(permit);
                        add(&tally.quiet_done, 1);
                    }
                }
                for task in tasks {
                    task.await;
                }
            }
        });
        simulation.run_until(|| !node.is_running()).expect("every kept ticket gets a place");
        assert_eq!(tally.quiet_done.get(), 10);
        let flood = tally.done.get() + tally.gone.get();
        assert_eq!(flood, u32::from(CORES) * FLOOD_PER_CORE);
        assert!(tally.gone.get() > 0 && tally.done.get() > 0);
        assert_eq!((queue.running(), queue.waiting().len()), (0, 0));
    });
}
