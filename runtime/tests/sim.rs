//! The conformance suite on the simulation, over many seeds, and the promises that only the
//! simulation makes about runs: they repeat, and they never hang.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::conformance::cores::MultiCore;
use logsvc_runtime::conformance::{self, machine};
use logsvc_runtime::sim::{DiskOperation, Simulation, for_each_seed};
use logsvc_runtime::{
    CoreId, Datagrams, File, Listener, Monotonic, OpenMode, Reader, Runtime, Writer,
};

#[test]
fn one_core_conforms() {
    for_each_seed(0..40, |simulation| {
        simulation.run(1, |runtime| conformance::run_all(runtime, "/scratch".into()));
    });
}

#[test]
fn two_cores_conform() {
    for_each_seed(0..5, |simulation| {
        let shared = MultiCore::new(2);
        simulation.run(2, move |runtime| shared.clone().run(runtime));
    });
}

#[test]
fn a_failed_sync_poisons() {
    for_each_seed(0..50, |simulation| {
        simulation.disk().write("/file", b"old");
        simulation.disk().fail_next(DiskOperation::Sync, "/file", 1);
        simulation.run(1, |runtime| async {
            machine::a_failed_sync_poisons(runtime, "/file".as_ref()).await;
        });
    });
}

#[test]
fn a_failed_write_back_poisons() {
    for_each_seed(0..50, |simulation| {
        simulation.disk().write("/file", b"old");
        simulation.disk().fail_next(DiskOperation::WriteBack, "/file", 1);
        simulation.run(1, |runtime| async move {
            let file = runtime.open("/file".as_ref(), OpenMode::ReadWrite).await.expect("open");
            file.write_all_at(b"new".to_vec(), 0).await.0.expect("a write before the failure");
            let error = file.write_back(0..3).await.expect_err("as armed");
            assert_eq!(error.raw_os_error(), Some(5), "EIO");
            // A sync would find no dirty page, and succeed.
            file.sync_data().await.expect_err("poisoned");
            file.write_back(0..3).await.expect_err("poisoned");
            file.write_all_at(b"again".to_vec(), 0).await.0.expect_err("poisoned");
        });
    });
}

#[test]
fn connecting_to_a_full_queue_times_out() {
    for_each_seed(0..20, |simulation| {
        simulation.set_backlog_connections(3);
        simulation.run(1, |runtime| async move {
            let listener = runtime.listen(loopback(9)).expect("a free port");
            let address = listener.local_address().expect("bound");
            let mut queued = Vec::new();
            loop {
                let deadline = runtime.now().after(Duration::from_millis(100));
                match runtime.connect(address, deadline).await {
                    Ok(connection) => queued.push(connection),
                    Err(error) => break assert_eq!(error.kind(), std::io::ErrorKind::TimedOut),
                }
            }
            machine::connecting_times_out(runtime, address).await;
        });
    });
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// A run of all operations with a crash in between; returns its trace hash and polls.
fn eventful_run(seed: u64) -> (u64, u64) {
    let simulation = Simulation::new(seed);
    let node = simulation.start_node(3, |runtime| async move {
        let path = format!("/file-{}", runtime.core());
        let file = runtime.open(path.as_ref(), OpenMode::CreateNew).await.expect("a new file");
        let listener = runtime.listen(loopback(1000)).expect("listen");
        let inner = runtime.clone();
        drop(runtime.spawn(async move {
            loop {
                let (mut reader, mut writer, _) = listener.accept().await.expect("accept");
                let (result, buffer) = reader.read(Vec::with_capacity(64), Monotonic::NEVER).await;
                // The node may be killed at any moment, its peers too.
                if result.is_ok() {
                    let _ = writer.write_all(buffer, Monotonic::NEVER).await;
                }
                inner.yield_now().await;
            }
        }));
        for number in 0.. {
            let written = file.write_all_at(vec![runtime.random_u64() as u8; 700], number * 700);
            written.await.0.expect("write");
            file.sync_data().await.expect("sync");
            if let Ok((mut reader, mut writer)) =
                runtime.connect(loopback(1000), Monotonic::NEVER).await
            {
                let _ = writer.write_all(vec![1; 50], Monotonic::NEVER).await;
                let _ = reader.read(Vec::with_capacity(64), Monotonic::NEVER).await;
            }
            runtime.offload(move || number).await;
        }
    });
    simulation.run_for(Duration::from_millis(200));
    node.power_off();
    let len = simulation.block_on(|runtime| async move {
        let entries = runtime.read_dir("/".as_ref()).await.expect("the root is there");
        entries.iter().map(|entry| entry.len_bytes).sum::<u64>()
    });
    (simulation.trace_hash() ^ len, simulation.polls())
}

#[test]
fn a_seed_repeats_to_the_last_poll() {
    let mut traces = Vec::new();
    for seed in 0..20 {
        let first = eventful_run(seed);
        assert!(first.1 > 500, "only {} polls", first.1);
        assert_eq!(first, eventful_run(seed), "seed {seed}");
        traces.push(first.0);
    }
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), 20, "different seeds give different runs");
}

#[test]
fn a_deadlock_is_reported_with_its_seed() {
    let simulation = Simulation::new(77);
    let stuck = simulation
        .try_block_on(|runtime| async move {
            let listener = runtime.listen(loopback(1)).expect("listen");
            listener.accept().await.map(drop)
        })
        .expect_err("nobody connects");
    assert!(stuck.is_deadlock && stuck.to_string().contains("seed 77"), "{stuck}");
    assert_eq!(simulation.block_on(|_| async { 5 }), 5, "the world goes on");
}

#[test]
fn a_livelock_is_reported() {
    let simulation = Simulation::new(1);
    simulation.set_max_polls(10_000);
    let stuck = simulation
        .try_block_on(|runtime| async move {
            loop {
                runtime.yield_now().await;
            }
        })
        .expect_err("it spins");
    assert!(!stuck.is_deadlock, "{stuck}");
}

#[test]
fn time_passes_only_as_asked_when_nothing_happens() {
    let simulation = Simulation::new(1);
    simulation.set_unix_nanos(1_000);
    let start = simulation.now();
    simulation.run_for(Duration::from_secs(3600));
    assert_eq!(simulation.now().since(start), Duration::from_secs(3600));
    let nanos = simulation.block_on(|runtime| async move { runtime.unix_nanos() });
    assert!((3_600_000_001_000..3_600_001_000_000).contains(&nanos), "{nanos}");
}

/// Counts how often it was dropped.
struct Tracked(Rc<Cell<u32>>);

impl Drop for Tracked {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn a_crash_drops_all_tasks_and_frees_what_they_held() {
    for_each_seed(0..20, |simulation| {
        let dropped = Rc::new(Cell::new(0));
        let counter = Rc::clone(&dropped);
        let node = simulation.start_node(2, move |runtime| {
            let tracked = Tracked(Rc::clone(&counter));
            async move {
                let _tracked = tracked;
                if runtime.core() == CoreId(0) {
                    let _lock = runtime.lock_file("/lock".as_ref()).await.expect("free");
                    let _listener = runtime.listen(loopback(80)).expect("listen");
                    std::future::pending::<()>().await;
                }
                std::future::pending::<()>().await;
            }
        });
        simulation.run_for(Duration::from_secs(1));
        let try_lock = |runtime: logsvc_runtime::sim::SimRuntime| async move {
            let lock = runtime.lock_file("/lock".as_ref()).await.map(drop);
            let connected = runtime.connect(loopback(80), Monotonic::NEVER).await.map(drop);
            (lock.is_ok(), connected.is_ok())
        };
        assert_eq!(simulation.block_on(try_lock), (false, true));
        assert!(node.is_running());
        node.crash();
        assert!(!node.is_running());
        assert_eq!(dropped.get(), 2);
        assert_eq!(simulation.block_on(try_lock), (true, false));
    });
}

#[test]
fn a_task_may_crash_its_own_node() {
    let simulation = Simulation::new(3);
    let own: Rc<RefCell<Option<logsvc_runtime::sim::Node>>> = Rc::default();
    let reached = Rc::new(Cell::new(0));
    let (handle, count) = (Rc::clone(&own), Rc::clone(&reached));
    let node = simulation.start_node(1, move |runtime| {
        let (handle, count) = (Rc::clone(&handle), Rc::clone(&count));
        async move {
            count.set(1);
            handle.borrow().as_ref().expect("set before the run").crash();
            runtime.yield_now().await;
            count.set(2);
        }
    });
    own.replace(Some(node.clone()));
    simulation.run_until(|| !node.is_running()).expect("it ends");
    simulation.run_for(Duration::from_secs(1));
    assert_eq!(reached.get(), 1);
}

#[test]
fn a_crash_reaches_the_peers() {
    for_each_seed(0..30, |simulation| {
        let node = simulation.start_node(1, |runtime| async move {
            let listener = runtime.listen(loopback(80)).expect("listen");
            let mut held = Vec::new();
            loop {
                held.push(listener.accept().await.expect("accept"));
            }
        });
        let crashing = node.clone();
        simulation.block_on(|runtime| async move {
            runtime.sleep_until(runtime.now().after(Duration::from_millis(1))).await;
            let (mut reader, mut writer) =
                runtime.connect(loopback(80), Monotonic::NEVER).await.expect("listening");
            let unread = runtime.random_u64().is_multiple_of(2);
            if unread {
                writer.write_all(vec![1; 10], Monotonic::NEVER).await.0.expect("write");
            }
            // By now the connection is accepted and the bytes have arrived.
            runtime.sleep_until(runtime.now().after(Duration::from_millis(50))).await;
            crashing.crash();
            let (result, _) = reader.read(Vec::with_capacity(1), Monotonic::NEVER).await;
            assert_eq!(result.is_err(), unread, "{result:?}");
            let mut failed = false;
            for _ in 0..100 {
                failed |= writer.write_all(vec![1; 10], Monotonic::NEVER).await.0.is_err();
                runtime.sleep_until(runtime.now().after(Duration::from_millis(1))).await;
            }
            assert!(failed, "writes go nowhere without an error");
        });
    });
}

#[test]
fn failing_accepts_pass() {
    let simulation = Simulation::new(5);
    simulation.fail_next_accepts(2);
    simulation.block_on(|runtime| async move {
        let listener = runtime.listen(loopback(0)).expect("listen");
        let address = listener.local_address().expect("bound");
        let _connection = runtime.connect(address, Monotonic::NEVER).await.expect("listening");
        for _ in 0..2 {
            assert!(listener.accept().await.is_err());
        }
        assert!(listener.accept().await.is_ok());
    });
}

#[test]
fn datagrams_get_lost_at_the_rate_that_is_set() {
    const SENT: u64 = 1_000;
    let runs: Vec<u64> = [0, 300_000, 1_000_000]
        .into_iter()
        .map(|loss_per_million| {
            let simulation = Simulation::new(11);
            simulation.set_datagram_loss_per_million(loss_per_million);
            simulation.block_on(|runtime| async move {
                let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                let to = runtime.bind_datagrams(address, 1 << 20).expect("a free port");
                let from = runtime.bind_datagrams(address, 1 << 20).expect("a free port");
                let address = to.local_address().expect("a bound address");
                let received = Rc::new(Cell::new(0));
                let count = Rc::clone(&received);
                drop(runtime.spawn(async move {
                    loop {
                        let (result, _) = to.receive(Vec::with_capacity(10)).await;
                        result.expect("received");
                        count.set(count.get() + 1);
                    }
                }));
                for _ in 0..SENT {
                    from.send(b"x", address).expect("sent");
                    runtime.yield_now().await;
                }
                runtime.sleep_until(runtime.now().after(Duration::from_secs(1))).await;
                received.get()
            })
        })
        .collect();
    assert_eq!((runs[0], runs[2]), (SENT, 0));
    assert!((600..800).contains(&runs[1]), "{runs:?}");
}
