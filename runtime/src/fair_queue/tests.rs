use super::*;
use crate::testing::{block_on, on_thread, poll_once};

const NONE: KeyBounds = KeyBounds { max_running: 0, max_waiting: 0 };

type Queue = FairQueue<&'static str>;

fn taken(ticket: &mut Ticket<&'static str>) -> Permit<&'static str> {
    match poll_once(ticket) {
        Poll::Ready(permit) => permit,
        Poll::Pending => panic!("{:?} waits", ticket.key),
    }
}

/// Serves the tickets one after another through the one place of a queue; returns
/// the keys in the order in which they were served.
fn order(mut tickets: Vec<Ticket<&'static str>>) -> Vec<&'static str> {
    let mut served = Vec::new();
    while !tickets.is_empty() {
        let mut ready = Vec::new();
        for (at, ticket) in tickets.iter_mut().enumerate() {
            if let Poll::Ready(permit) = poll_once(ticket) {
                ready.push((at, permit));
            }
        }
        assert_eq!(ready.len(), 1, "one place, so one has it");
        for (at, permit) in ready {
            served.push(permit.key);
            drop(tickets.remove(at));
        }
    }
    served
}

#[test]
fn a_flood_of_one_key_is_served_in_turn_with_another() {
    let queue = Queue::new(1);
    let enter = |key| queue.enter(key, NONE).expect("no bound");
    let mut tickets: Vec<_> = (0..6).map(|_| enter("flood")).collect();
    tickets.extend((0..3).map(|_| enter("other")));
    let expected =
        ["flood", "other", "flood", "other", "flood", "other", "flood", "flood", "flood"];
    assert_eq!(order(tickets), expected);
    assert!(queue.shared.with_state(|state| state.lines.is_empty() && state.ready.is_empty()));
}

#[test]
fn a_free_place_goes_to_the_key_with_the_fewest() {
    let queue = Queue::new(3);
    let enter = |key| queue.enter(key, NONE).expect("no bound");
    let mut slow: Vec<_> = (0..5).map(|_| enter("slow")).collect();
    let mut held: Vec<_> = slow[..3].iter_mut().map(taken).collect();
    // However many tickets of the slow key wait, other keys get its second and third place.
    for _ in 0..10 {
        let (mut first, mut second) = (enter("fast"), enter("fast"));
        assert!(poll_once(&mut first).is_pending());
        drop(held.pop());
        let permit = taken(&mut first);
        assert!(poll_once(&mut second).is_pending());
        drop(second);
        drop(permit);
        held.push(taken(&mut slow[3]));
        drop(slow.remove(3));
        slow.push(enter("slow"));
    }
    assert_eq!(queue.running(), 3);
    assert_eq!(queue.waiting(), [("slow", 2)]);
}

#[test]
fn keys_are_bounded() {
    let queue = Queue::new(4);
    let bounds = KeyBounds { max_running: 2, max_waiting: 1 };
    let enter = |key| queue.enter(key, bounds);
    let mut first = enter("a").expect("room");
    let mut second = enter("a").expect("room");
    let mut third = enter("a").expect("room to wait");
    assert_eq!(enter("a").err(), Some(QueueFull { waiting: 1 }));
    assert_eq!(queue.running(), 2);
    // The other key has bounds of its own.
    let mut other = enter("b").expect("room");
    let (one, _two, _other) = (taken(&mut first), taken(&mut second), taken(&mut other));
    assert!(poll_once(&mut third).is_pending());
    drop(one);
    let _three = taken(&mut third);
    assert!(enter("a").is_ok());
    // The newest ticket's bound counts for its key.
    let mut fourth = queue.enter("a", NONE).expect("room");
    let _four = taken(&mut fourth);
}

#[test]
fn dropped_tickets_leave_nothing_behind() {
    let queue = Queue::new(1);
    let enter = |key| queue.enter(key, NONE).expect("no bound");
    let mut first = enter("a");
    let permit = taken(&mut first);
    let waiting: Vec<_> = ["b", "c", "b"].map(enter).into();
    let mut last = enter("d");
    assert!(poll_once(&mut last).is_pending());
    drop(waiting);
    assert_eq!(queue.waiting(), [("d", 1)]);
    drop(permit);
    // The last ticket holds the place, but was not polled since.
    assert_eq!((queue.running(), queue.waiting().len()), (1, 0));
    drop(last);
    assert_eq!(queue.running(), 0);
    assert!(queue.shared.with_state(|state| state.lines.is_empty() && state.ready.is_empty()));
    let _next = taken(&mut enter("a"));
}

#[test]
fn racing_threads_hold_no_more_places_than_exist() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let queue = FairQueue::<usize>::new(3);
    let held = Arc::new(AtomicUsize::new(0));
    let workers: Vec<_> = (0..8)
        .map(|number| {
            let (queue, held) = (queue.clone(), Arc::clone(&held));
            on_thread(move || {
                for round in 0..300 {
                    let bounds = KeyBounds { max_running: 2, max_waiting: 0 };
                    let mut ticket = queue.enter(number % 3, bounds).expect("no bound");
                    // Some tickets are dropped: unpolled, or while they wait.
                    match round % 7 {
                        0 => continue,
                        1 if poll_once(&mut ticket).is_pending() => continue,
                        1 => continue,
                        _ => {}
                    }
                    let permit = block_on(ticket);
                    let now = held.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(now <= 3, "{now} hold a place");
                    held.fetch_sub(1, Ordering::SeqCst);
                    drop(permit);
                }
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("the worker does not panic");
    }
    assert_eq!(queue.running(), 0);
    assert!(queue.waiting().is_empty());
}

/// A ticket in the naive model.
struct Asked {
    key: u64,
    ticket: Option<Ticket<u64>>,
    permit: Option<Permit<u64>>,
}

#[test]
fn random_comings_and_goings_follow_the_rule() {
    for seed in 0..200u64 {
        let mut state = seed;
        let mut random = move |below: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (mixed ^ (mixed >> 29)) % below
        };
        let places = 1 + random(4) as usize;
        let max_running = random(4) as usize;
        let queue = FairQueue::<u64>::new(places);
        let mut asked: Vec<Asked> = Vec::new();
        for _ in 0..200 {
            let before: Vec<usize> =
                (0..3).map(|key| count(&asked, |a| a.key == key && a.permit.is_some())).collect();
            let waiters =
                |asked: &[Asked], key| count(asked, |a| a.key == key && a.permit.is_none());
            let waiting_before: Vec<usize> = (0..3).map(|key| waiters(&asked, key)).collect();
            let is_entry = random(5) < 3 || asked.is_empty();
            if is_entry {
                let key = random(3);
                let bounds = KeyBounds { max_running, max_waiting: 0 };
                let ticket = queue.enter(key, bounds).expect("no bound");
                asked.push(Asked { key, ticket: Some(ticket), permit: None });
            } else {
                // Drops a ticket that waits, or a permit.
                drop(asked.swap_remove(random(asked.len() as u64) as usize));
            }
            let mut given = Vec::new();
            for one in &mut asked {
                if let Some(ticket) = &mut one.ticket
                    && let Poll::Ready(permit) = poll_once(ticket)
                {
                    (one.permit, one.ticket) = (Some(permit), None);
                    given.push(one.key);
                }
            }
            assert!(given.len() <= 1, "seed {seed}: one event frees one place");
            let held: Vec<usize> =
                (0..3).map(|key| count(&asked, |a| a.key == key && a.permit.is_some())).collect();
            let total: usize = held.iter().sum();
            assert!(total <= places && queue.running() == total, "seed {seed}");
            assert!(max_running == 0 || held.iter().all(|&held| held <= max_running));
            // No ticket waits that could run.
            let may_run = |key: u64| max_running == 0 || held[key as usize] < max_running;
            for one in asked.iter().filter(|one| one.permit.is_none()) {
                assert!(total == places || !may_run(one.key), "seed {seed}: {}", one.key);
            }
            // The place went to a key that held the fewest among the waiting keys.
            if let [key] = given[..]
                && !is_entry
            {
                let mine = held[key as usize] - 1;
                for other in (0..3).filter(|&other| other != key) {
                    let could = waiting_before[other as usize] > 0
                        && waiters(&asked, other) > 0
                        && may_run(other);
                    assert!(
                        !could || mine <= held[other as usize],
                        "seed {seed}: {key} has {held:?} after {before:?}"
                    );
                }
            }
        }
        drop(asked);
        assert!(queue.shared.with_state(|state| state.lines.is_empty() && state.ready.is_empty()));
    }
}

fn count(asked: &[Asked], which: impl Fn(&Asked) -> bool) -> usize {
    asked.iter().filter(|one| which(one)).count()
}
