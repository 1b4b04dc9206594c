//! Clocks of nodes of the simulation that are not right.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::sim::{Node, Simulation, for_each_seed};
use logsvc_runtime::{CoreId, Listener, Monotonic, Reader, Runtime};

const SECOND: Duration = Duration::from_secs(1);

/// A node that does nothing.
fn idle(simulation: &Simulation) -> Node {
    simulation.start_node(1, |_| std::future::pending())
}

fn now(node: &Node) -> Monotonic {
    node.runtime(CoreId(0)).now()
}

#[test]
fn a_clock_goes_at_its_rate_and_never_back() {
    for_each_seed(0..20, |simulation| {
        let (fast, right) = (idle(simulation), idle(simulation));
        simulation.run_for(SECOND * 10);
        assert_eq!(now(&fast), now(&right));
        for rate in [1_080_000, 920_000, 1_000_000] {
            let before = (now(&fast), now(&right));
            fast.set_clock_rate_per_million(rate);
            assert_eq!(now(&fast), before.0, "it does not jump");
            simulation.run_for(SECOND * 100);
            let right_nanos = now(&right).since(before.1).as_nanos() as u64;
            let wanted = Duration::from_nanos(right_nanos / 1_000_000 * rate);
            let off = now(&fast).since(before.0).abs_diff(wanted);
            assert!(off < Duration::from_millis(2), "{rate}: off by {off:?}");
        }
        assert_eq!(fast.runtime(CoreId(0)).exact().now(), now(&right));
    });
}

#[test]
fn a_sleeper_wakes_when_its_own_clock_says_so() {
    for_each_seed(0..20, |simulation| {
        for rate in [500_000, 920_000, 1_080_000, 3_000_000] {
            let took = Rc::new(RefCell::new(None));
            let noted = Rc::clone(&took);
            let node = simulation.start_node(1, move |runtime| {
                let noted = Rc::clone(&noted);
                async move {
                    let (begun, begun_right) = (runtime.now(), runtime.exact().now());
                    runtime.sleep_until(begun.after(SECOND * 60)).await;
                    assert!(runtime.now() >= begun.after(SECOND * 60));
                    *noted.borrow_mut() = Some(runtime.exact().now().since(begun_right));
                }
            });
            node.set_clock_rate_per_million(rate);
            simulation.run_until(|| !node.is_running()).expect("it ends");
            let took = took.take().expect("it has ended");
            let wanted = Duration::from_nanos(60_000_000_000 / rate * 1_000_000);
            assert!(took.abs_diff(wanted) < SECOND / 50, "{rate}: {took:?}");
        }
    });
}

#[test]
fn deadlines_of_connections_are_by_the_own_clock() {
    for_each_seed(0..20, |simulation| {
        let address = SocketAddr::from(([10, 0, 0, 1], 700));
        simulation.start_node(1, move |runtime| async move {
            let listener = runtime.listen(address).expect("listens");
            let _connection = listener.accept().await.expect("accepts");
            std::future::pending::<()>().await;
        });
        simulation.run_for(SECOND / 10);
        let begun = simulation.now();
        let slow = simulation.start_node(1, move |runtime| async move {
            runtime.sleep_until(runtime.now().after(SECOND)).await;
            let connected = runtime.connect(address, runtime.now().after(SECOND)).await;
            let (mut reader, _writer) = connected.expect("connects");
            let until = runtime.now().after(SECOND * 9);
            let (read, _) = reader.read(Vec::with_capacity(10), until).await;
            assert!(read.is_err(), "nobody writes");
            assert!(runtime.now() >= until);
        });
        slow.set_clock_rate_per_million(500_000);
        simulation.run_until(|| !slow.is_running()).expect("it ends");
        let took = simulation.now().since(begun);
        assert!(took > SECOND * 20 && took < SECOND * 21, "{took:?}");
    });
}

#[test]
fn a_wall_clock_jumps_alone() {
    let simulation = Simulation::new(1);
    let (wrong, right) = (idle(&simulation), idle(&simulation));
    let wall = |node: &Node| node.runtime(CoreId(0)).unix_nanos();
    let before = now(&wrong);
    wrong.shift_wall_clock(-3_600_000_000_000);
    wrong.shift_wall_clock(1_000_000_000);
    assert_eq!(wall(&wrong) - wall(&right), -3_599_000_000_000);
    assert_eq!(now(&wrong), before);
    assert_eq!(wrong.runtime(CoreId(0)).exact().unix_nanos(), wall(&right));
}
