use super::*;
use std::pin::pin;

use crate::testing::{block_on, on_thread, poll_once};

const SMALL: MeshOptions = MeshOptions { request_lane_messages: 2, inflight_per_core: 3 };

fn statically_sent_before_launch<T: Send + Clone>(_: &T) {}

/// One core that calls itself, with its pump polled by hand.
struct Alone {
    caller: Caller<u32, String>,
    inbox: Inbox<u32, String>,
    pump: Pin<Box<dyn Future<Output = ()>>>,
}

fn alone(options: MeshOptions) -> Alone {
    let mesh = Mesh::new(1, options);
    statically_sent_before_launch(&mesh);
    let (caller, inbox) = mesh.attach(CoreId(0));
    let pump = Box::pin(caller.pump_replies());
    Alone { caller, inbox, pump }
}

#[test]
fn a_core_may_call_itself() {
    let Alone { caller, mut inbox, mut pump } = alone(SMALL);
    let mut pending = caller.call(CoreId(0), 7).expect("room");
    assert!(poll_once(&mut pending).is_pending());
    let incoming = inbox.try_receive().expect("sent");
    assert_eq!((incoming.request, incoming.reply_to.caller()), (7, CoreId(0)));
    incoming.reply_to.send("seven".to_owned());
    assert!(poll_once(&mut pending).is_pending());
    assert!(poll_once(&mut pump).is_pending());
    assert_eq!(poll_once(&mut pending), Poll::Ready(Ok("seven".to_owned())));
    assert_eq!(caller.inflight(), 0);
}

#[test]
fn a_full_request_lane_gives_the_request_back() {
    let Alone { caller, mut inbox, .. } = alone(SMALL);
    let _first = caller.call(CoreId(0), 1).expect("room");
    let _second = caller.call(CoreId(0), 2).expect("room");
    let refused = caller.call(CoreId(0), 3).err().expect("full");
    assert_eq!((refused.request, refused.limit), (3, FullLane::Request));
    assert_eq!((caller.request_lane_depth(CoreId(0)), caller.inflight()), (2, 2));
    assert_eq!(inbox.try_receive().map(|incoming| incoming.request), Some(1));
    assert!(caller.call(CoreId(0), 3).is_ok());
}

#[test]
fn the_inflight_limit_counts_dropped_futures_until_their_replies_arrive() {
    let Alone { caller, mut inbox, mut pump } = alone(SMALL);
    let mut taken = Vec::new();
    for request in 0..3 {
        drop(caller.call(CoreId(0), request).expect("room"));
        taken.push(inbox.try_receive().expect("sent"));
    }
    let refused = caller.call(CoreId(0), 9).err().expect("limit");
    assert_eq!(refused.limit, FullLane::Inflight);
    for incoming in taken {
        incoming.reply_to.send(String::new());
    }
    assert_eq!(caller.inflight(), 3);
    assert!(poll_once(&mut pump).is_pending());
    assert_eq!(caller.inflight(), 0);
    assert!(caller.call(CoreId(0), 9).is_ok());
}

#[test]
fn a_dropped_reply_to_disconnects_its_caller() {
    let Alone { caller, mut inbox, mut pump } = alone(SMALL);
    let mut pending = caller.call(CoreId(0), 1).expect("room");
    drop(inbox.try_receive().expect("sent"));
    assert!(poll_once(&mut pump).is_pending());
    assert_eq!(poll_once(&mut pending), Poll::Ready(Err(Disconnected)));
}

#[test]
fn a_dropped_inbox_disconnects_waiting_and_later_calls() {
    let Alone { caller, inbox, mut pump } = alone(SMALL);
    let mut waiting = caller.call(CoreId(0), 1).expect("room");
    drop(inbox);
    let mut later = caller.call(CoreId(0), 2).expect("room");
    assert!(poll_once(&mut pump).is_pending());
    assert_eq!(poll_once(&mut waiting), Poll::Ready(Err(Disconnected)));
    assert_eq!(poll_once(&mut later), Poll::Ready(Err(Disconnected)));
    assert_eq!((caller.request_lane_depth(CoreId(0)), caller.inflight()), (0, 0));
}

#[test]
fn all_ends_close_when_the_callers_are_gone() {
    let Alone { caller, mut inbox, mut pump } = alone(SMALL);
    let clone = caller.clone();
    let mut pending = clone.call(CoreId(0), 1).expect("room");
    drop((caller, clone));
    let incoming = block_on(inbox.receive()).expect("was sent before");
    assert!(block_on(inbox.receive()).is_none());
    assert!(poll_once(&mut pump).is_pending());
    incoming.reply_to.send("late".to_owned());
    assert!(poll_once(&mut pump).is_ready());
    assert_eq!(poll_once(&mut pending), Poll::Ready(Ok("late".to_owned())));
}

#[test]
#[should_panic(expected = "core 0 attached to the mesh twice")]
fn attaching_twice_panics() {
    let mesh = Mesh::<(), ()>::new(2, SMALL);
    let _first = mesh.attach(CoreId(0));
    let _second = mesh.attach(CoreId(0));
}

/// Polls the pump and a body on one thread until the body ends.
fn with_pump<T>(pump: impl Future<Output = ()>, body: impl Future<Output = T>) -> T {
    let (mut pump, mut body) = (Box::pin(pump), Box::pin(body));
    block_on(std::future::poll_fn(move |cx| {
        let _ended_or_not = pump.as_mut().poll(cx);
        body.as_mut().poll(cx)
    }))
}

#[test]
fn cores_on_real_threads_answer_each_other() {
    const CALLS: u32 = 5_000;
    let mesh = Mesh::<u32, u32>::new(2, SMALL);
    let server_mesh = mesh.clone();
    let server = on_thread(move || {
        let (caller, mut inbox) = server_mesh.attach(CoreId(1));
        drop(caller);
        let mut served = 0;
        while let Some(incoming) = block_on(inbox.receive()) {
            served += 1;
            if incoming.request % 5 != 0 {
                incoming.reply_to.send(incoming.request + 1);
            }
        }
        served
    });
    let (caller, inbox) = mesh.attach(CoreId(0));
    let pump = caller.pump_replies();
    with_pump(pump, async move {
        for request in 0..CALLS {
            let pending = caller.call(CoreId(1), request).expect("one at a time fits");
            let expected = if request % 5 == 0 { Err(Disconnected) } else { Ok(request + 1) };
            assert_eq!(pending.await, expected);
        }
    });
    drop(inbox);
    assert_eq!(server.join().expect("the server does not panic"), CALLS);
}

#[test]
fn no_call_hangs_when_the_inbox_drops_at_any_moment() {
    for round in 0..300 {
        let mesh = Mesh::<u32, u32>::new(2, MeshOptions { request_lane_messages: 64, ..SMALL });
        let server_mesh = mesh.clone();
        let server = on_thread(move || {
            let (_caller, mut inbox) = server_mesh.attach(CoreId(1));
            for _ in 0..round % 7 {
                drop(inbox.try_receive());
            }
        });
        let (caller, _inbox) = mesh.attach(CoreId(0));
        let pump = caller.pump_replies();
        with_pump(pump, async move {
            for request in 0..20 {
                let first = caller.call(CoreId(1), request).expect("room");
                let second = caller.call(CoreId(1), request).expect("room");
                assert_eq!(first.await, Err(Disconnected));
                assert_eq!(second.await, Err(Disconnected));
            }
        });
        server.join().expect("the server does not panic");
    }
}

#[test]
fn a_core_that_never_attached_disconnects_its_calls() {
    let mesh = Mesh::<u32, u32>::new(2, SMALL);
    let (caller, _inbox) = mesh.attach(CoreId(0));
    let early = caller.call(CoreId(1), 1).expect("room");
    drop(mesh);
    let late = caller.call(CoreId(1), 2).expect("room");
    let pump = caller.pump_replies();
    with_pump(pump, async {
        assert_eq!(early.await, Err(Disconnected));
        assert_eq!(late.await, Err(Disconnected));
    });
}

#[test]
fn an_inbox_counts_what_came_from_where_and_what_it_had_to_wait_for() {
    let mesh: Mesh<u32, String> = Mesh::new(2, SMALL);
    let (own, mut inbox) = mesh.attach(CoreId(0));
    let (other, _) = mesh.attach(CoreId(1));
    let count =
        |received, from_other_cores, waited| InboxCounters { received, from_other_cores, waited };
    drop(own.call(CoreId(0), 1).expect("room"));
    drop(other.call(CoreId(0), 2).expect("room"));
    assert!(poll_once(&mut pin!(inbox.receive())).is_ready());
    assert!(inbox.try_receive().is_some() && inbox.try_receive().is_none());
    assert_eq!(inbox.counters(), count(2, 1, 0));
    {
        let mut waiting = pin!(inbox.receive());
        assert!(poll_once(&mut waiting).is_pending());
        drop(other.call(CoreId(0), 3).expect("room"));
        assert!(poll_once(&mut waiting).is_ready());
    }
    assert_eq!(inbox.counters(), count(3, 2, 1));
}
