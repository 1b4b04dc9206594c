//! Gossip over TLS: both sides show certificates, and packets go over TCP.

use std::net::SocketAddr;
use std::time::Duration;

use logsvc_membership::engine::Change;
use logsvc_membership::members::Standing;
use logsvc_membership::settings::{JoinSettings, Settings};
use logsvc_runtime::{Datagrams, Reader, Runtime, Writer};
use logsvc_testkit::{SeedGuard, seeds};

use crate::certified::{AUTHORITY, start_as};
use crate::lives::detection_limit;
use crate::nodes::{Cluster, ip, joining, settings};

const SECOND: Duration = Duration::from_secs(1);

/// Where certificates are, on the disk of each node.
const FOLDER: &str = "/tls";

fn start_at(cluster: &mut Cluster, place: usize) {
    cluster.start_by(place, settings(place), async |runtime, settings, vitals| {
        start_as(&runtime, FOLDER, &AUTHORITY.node, settings, vitals).await
    });
}

fn joined(seed: u64, count: usize) -> Cluster {
    let mut cluster = Cluster::new(seed, count + 1);
    (0..count).for_each(|place| start_at(&mut cluster, place));
    cluster.await_agreement(SECOND * 5);
    cluster
}

#[test]
fn nodes_live_and_die_over_tls_as_without() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let mut cluster = joined(seed, 5);
        cluster.on(1, |membership| async move {
            membership.change(Change::MapNumber(7)).await;
        });
        cluster.run_for(1);
        cluster.await_agreement(SECOND * 5);
        cluster.kill(3);
        cluster.await_that(detection_limit(5), "all know", |cluster| {
            let mut running = cluster.running().into_iter();
            running.all(|place| cluster.standing(place, 3) == Some(Standing::Dead))
        });
        start_at(&mut cluster, 3);
        cluster.await_agreement(SECOND * 10);
        cluster.leave(2);
        cluster.await_agreement(SECOND * 3);
        // The time in which connections that carry nothing end is long over.
        for _ in 0..100 {
            cluster.run_for(1);
            assert!(cluster.agrees(), "{}", cluster.describe());
        }
    }
}

#[test]
fn nobody_listens_to_datagrams() {
    let cluster = joined(1, 2);
    let target = SocketAddr::new(ip(1), 7946);
    cluster.simulation.start_node(1, move |runtime| async move {
        let socket = runtime.bind_datagrams(([10, 0, 9, 9], 1).into(), 1 << 20);
        let socket = socket.expect("it binds");
        for _ in 0..100 {
            // Whether the network tells that nobody is there does not matter.
            let _ = socket.send(b"nonsense", target);
        }
    });
    cluster.run_for(2);
    let traffic = cluster.members(1).traffic;
    assert_eq!((traffic.damaged, traffic.overrun), (0, 0));
    assert!(traffic.received > 0);
}

#[test]
fn a_cut_network_heals_over_tls() {
    for seed in seeds(5) {
        let _guard = SeedGuard(seed);
        let cluster = joined(seed, 5);
        let (one, other) = ([0, 2, 4], [1, 3]);
        cluster.cut(&one, &other);
        cluster.await_that(detection_limit(5) * 2, "two clusters", |cluster| {
            one.iter().all(|place| cluster.sees(*place, &one))
                && other.iter().all(|place| cluster.sees(*place, &other))
        });
        cluster.run_for(10 + 20 * (seed % 10));
        cluster.simulation.heal();
        cluster.await_agreement(SECOND * 30);
    }
}

#[test]
fn a_process_that_stood_still_is_there_again_over_tls() {
    for seed in seeds(5) {
        let _guard = SeedGuard(seed);
        let mut cluster = joined(seed, 4);
        cluster.stop(2);
        cluster.run_for(60 + seed % 60);
        assert_eq!(cluster.standing(0, 2), Some(Standing::Dead));
        cluster.go_on(2);
        cluster.await_agreement(SECOND * 10);
    }
}

#[test]
fn who_shows_no_good_certificate_is_not_let_in() {
    for seed in seeds(5) {
        let _guard = SeedGuard(seed);
        let mut cluster = joined(seed, 3);
        let ours = [0, 1, 2];
        let retries = |place| {
            let to_all = (0..3).map(|other| format!("{}:7946", ip(other))).collect();
            let join = JoinSettings { max_join_retries: 2, ..joining(place, to_all).join };
            Settings { join, ..settings(place) }
        };
        if seed % 2 == 0 {
            cluster.start_by(3, retries(3), async |runtime, settings, vitals| {
                start_as(&runtime, FOLDER, &AUTHORITY.stranger, settings, vitals).await
            });
        } else {
            cluster.start_with(3, retries(3));
        }
        cluster.run_for(60);
        assert!(ours.iter().all(|place| cluster.sees(*place, &ours)), "{}", cluster.describe());
        assert!(cluster.sees(3, &[3]));
        let alone = cluster.membership(3);
        let joined = cluster.simulation.block_on(async move |_| alone.joined().await);
        assert!(joined.is_err(), "nobody has let it in");
    }
}

#[test]
fn connections_that_say_nothing_do_not_keep_nodes_apart() {
    let cluster = joined(3, 4);
    let target = SocketAddr::new(ip(1), 7946);
    cluster.simulation.start_node(1, move |runtime| async move {
        let mut kept = Vec::new();
        for number in 0..200_u32 {
            let until = runtime.now().after(SECOND);
            let Ok((mut reader, mut writer)) = runtime.connect(target, until).await else {
                continue;
            };
            if number % 2 == 0 {
                let until = runtime.now().after(SECOND);
                // What is no handshake is refused.
                let _ = writer.write_all(vec![22; 100], until).await;
                let _ = reader.read(Vec::with_capacity(100), until).await;
            }
            kept.push((reader, writer));
        }
        std::future::pending::<()>().await;
    });
    for _ in 0..30 {
        cluster.run_for(1);
        assert!(cluster.agrees(), "{}", cluster.describe());
    }
}
