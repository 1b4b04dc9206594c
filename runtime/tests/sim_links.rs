//! What the simulation lets go wrong between nodes: links that are cut, datagrams that come twice,
//! nodes that are stopped and go on.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::sim::{Node, Simulation, for_each_seed};
use logsvc_runtime::{Datagrams, Listener, Monotonic, Reader, Runtime, Writer};

const SECOND: Duration = Duration::from_secs(1);

fn address(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, last], 700))
}

/// A node that keeps every datagram that comes to its address.
fn hearer(simulation: &Simulation, heard: &Rc<RefCell<Vec<Vec<u8>>>>) -> Node {
    let heard = Rc::clone(heard);
    simulation.start_node(1, move |runtime| {
        let heard = Rc::clone(&heard);
        async move {
            let socket = runtime.bind_datagrams(address(1), 1 << 20).expect("binds");
            loop {
                let (result, buffer) = socket.receive(Vec::with_capacity(100)).await;
                result.expect("receives");
                heard.borrow_mut().push(buffer);
            }
        }
    })
}

/// A node that sends a numbered datagram each 10 ms, for a second.
fn speaker(simulation: &Simulation) -> Node {
    simulation.start_node(1, |runtime| async move {
        let socket = runtime.bind_datagrams(address(2), 1 << 20).expect("binds");
        for number in 0..100_u8 {
            socket.send(&[number], address(1)).expect("is sent");
            runtime.sleep_until(runtime.now().after(Duration::from_millis(10))).await;
        }
    })
}

#[test]
fn a_cut_link_loses_datagrams_in_its_direction_alone() {
    for_each_seed(0..20, |simulation| {
        let heard = Rc::default();
        let to = hearer(simulation, &heard);
        simulation.run_for(SECOND / 10);
        let from = speaker(simulation);
        simulation.cut(&to, &from);
        simulation.run_for(SECOND / 4);
        let before = heard.borrow().len();
        assert!(before > 10, "the other direction is whole: {before}");
        simulation.cut(&from, &to);
        simulation.run_for(SECOND / 2);
        assert_eq!(heard.borrow().len(), before, "nothing passes");
        simulation.heal();
        simulation.run_for(SECOND);
        let heard = heard.borrow().len();
        assert!(
            (before + 10..80).contains(&heard),
            "{heard}: those that were sent while cut are lost"
        );
    });
}

#[test]
fn datagrams_come_twice_at_the_rate_that_is_set() {
    for_each_seed(0..10, |simulation| {
        simulation.set_datagram_doubles_per_million(500_000);
        let heard = Rc::default();
        hearer(simulation, &heard);
        simulation.run_for(SECOND / 10);
        speaker(simulation);
        simulation.run_for(SECOND * 2);
        let count = heard.borrow().len();
        assert!((110..190).contains(&count), "{count} of 100");
    });
}

#[test]
fn a_connection_waits_for_a_cut_link_and_keeps_its_order() {
    for_each_seed(0..50, |simulation| {
        let text = Rc::new(RefCell::new(Vec::new()));
        let kept = Rc::clone(&text);
        let to = simulation.start_node(1, move |runtime| {
            let kept = Rc::clone(&kept);
            async move {
                let listener = runtime.listen(address(1)).expect("listens");
                let (mut reader, _writer, _) = listener.accept().await.expect("accepts");
                loop {
                    let (result, buffer) =
                        reader.read(Vec::with_capacity(7), Monotonic::NEVER).await;
                    if result.expect("no error") == 0 {
                        return;
                    }
                    kept.borrow_mut().extend(buffer);
                }
            }
        });
        simulation.run_for(SECOND / 10);
        let from = simulation.start_node(1, |runtime| async move {
            let connected = runtime.connect(address(1), Monotonic::NEVER).await;
            let (_reader, mut writer) = connected.expect("the link is whole in the end");
            for number in 0..100_u8 {
                writer.write_all(vec![number], Monotonic::NEVER).await.0.expect("is taken");
                runtime.sleep_until(runtime.now().after(Duration::from_millis(50))).await;
            }
            writer.shutdown().await.expect("ends");
            runtime.sleep_until(runtime.now().after(SECOND * 10)).await;
        });
        simulation.cut(&from, &to);
        simulation.run_for(SECOND * 5);
        assert!(text.borrow().is_empty());
        simulation.heal();
        simulation.run_for(SECOND * 2);
        let before = text.borrow().len();
        assert!(before > 0 && before < 100, "it is under way: {before}");
        simulation.cut(&from, &to);
        simulation.run_for(SECOND / 3);
        simulation.heal();
        simulation.run_until(|| !to.is_running()).expect("it ends");
        assert_eq!(*text.borrow(), (0..100).collect::<Vec<u8>>());
    });
}

#[test]
fn a_stopped_node_does_nothing_and_hears_all_of_it_later() {
    for_each_seed(0..20, |simulation| {
        let heard = Rc::default();
        let to = hearer(simulation, &heard);
        let ticks = Rc::new(Cell::new(0));
        let counted = Rc::clone(&ticks);
        let ticker = simulation.start_node(1, move |runtime| {
            let counted = Rc::clone(&counted);
            async move {
                loop {
                    runtime.sleep_until(runtime.now().after(SECOND / 10)).await;
                    counted.set(counted.get() + 1);
                }
            }
        });
        simulation.run_for(SECOND / 2);
        to.stop();
        ticker.stop();
        speaker(simulation);
        let before = ticks.get();
        simulation.run_for(SECOND * 60);
        assert_eq!((heard.borrow().len(), ticks.get()), (0, before));
        to.go_on();
        ticker.go_on();
        simulation.run_for(SECOND);
        assert_eq!(heard.borrow().len(), 100);
        let after = ticks.get() - before;
        assert!((5..15).contains(&after), "the time is lost: {after}");
    });
}
