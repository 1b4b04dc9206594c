//! Other clusters, garbage, and peers that do not keep to the protocol.

use std::net::SocketAddr;
use std::time::Duration;

use logsvc_membership::settings::Settings;
use logsvc_membership::wire::envelope::{Kind, STREAM_MAX_BYTES, seal};
use logsvc_runtime::{Datagrams, Reader, Runtime, Writer};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::nodes::{Cluster, ip, settings};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn another_cluster_is_not_let_in_and_harms_nothing() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::new(seed, 6);
        for place in 0..6 {
            let cluster_label = if place < 4 { "one" } else { "other" }.to_owned();
            cluster.start_with(place, Settings { cluster_label, ..settings(place) });
        }
        let ours = [0, 1, 2, 3];
        cluster.await_that(SECOND * 5, "ours agree", |cluster| {
            ours.iter().all(|place| cluster.sees(*place, &ours))
        });
        for _ in 0..90 {
            cluster.run_for(1);
            assert!(ours.iter().all(|place| cluster.sees(*place, &ours)));
            assert!(cluster.sees(4, &[4]) && cluster.sees(5, &[5]));
        }
        assert!(cluster.members(0).traffic.foreign > 0);
    }
}

#[test]
fn a_label_can_be_introduced_step_by_step() {
    for seed in seeds(5) {
        let _guard = SeedGuard(seed);
        let mut cluster = Cluster::joined(seed, 4);
        let labelled = |place: usize, is_disabled: bool| Settings {
            cluster_label: "one".to_owned(),
            cluster_label_verification_disabled: is_disabled,
            ..settings(place)
        };
        let lax = |place: usize| Settings {
            cluster_label_verification_disabled: true,
            ..settings(place)
        };
        let steps: [&dyn Fn(usize) -> Settings; 3] =
            [&lax, &|place| labelled(place, true), &|place| labelled(place, false)];
        for step in steps {
            for place in 0..4 {
                cluster.kill(place);
                cluster.start_with(place, step(place));
                cluster.await_agreement(SECOND * 63);
            }
        }
    }
}

#[test]
fn garbage_changes_nothing() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let cluster = Cluster::joined(seed, 5);
        let target = SocketAddr::new(ip(1), 7946);
        cluster.simulation.start_node(1, move |runtime| {
            let mut rng = Rng::new(seed);
            async move {
                let socket = runtime.bind_datagrams(([10, 0, 9, 9], 1).into(), 1 << 20);
                let socket = socket.expect("binds");
                for _ in 0..2_000 {
                    let len = rng.index(1_500);
                    let mut bytes = rng.bytes(len);
                    if rng.one_in(2) {
                        bytes = seal(*rng.pick(&[Kind::Gossip, Kind::Ask]), "", &bytes);
                    }
                    socket.send(&bytes, target).expect("is sent");
                    runtime.sleep_until(runtime.now().after(Duration::from_millis(5))).await;
                }
            }
        });
        for _ in 0..20 {
            cluster.run_for(1);
            assert!(cluster.agrees(), "{}", cluster.describe());
        }
        let damaged = cluster.members(1).traffic.damaged;
        assert!(damaged > 1_000, "{damaged}");
    }
}

#[test]
fn a_flood_is_dropped_and_nobody_dies_of_it() {
    for seed in seeds(5) {
        let _guard = SeedGuard(seed);
        let cluster = Cluster::joined(seed, 5);
        let target = SocketAddr::new(ip(1), 7946);
        cluster.simulation.start_node(1, move |runtime| async move {
            let socket = runtime.bind_datagrams(([10, 0, 9, 9], 1).into(), 1 << 20);
            let socket = socket.expect("binds");
            for _ in 0..100 {
                for _ in 0..300 {
                    socket.send(b"nonsense", target).expect("is sent");
                }
                runtime.sleep_until(runtime.now().after(Duration::from_millis(50))).await;
            }
        });
        cluster.run_for(10);
        assert!(cluster.agrees(), "{}", cluster.describe());
        let traffic = cluster.members(1).traffic;
        assert!(traffic.damaged + traffic.overrun > 10_000, "{traffic:?}");
    }
}

/// Connects to a node, writes some bytes, and gives what comes back until the end.
fn talk(cluster: &Cluster, bytes: Vec<u8>) -> Vec<u8> {
    let target = SocketAddr::new(ip(1), 7946);
    cluster.simulation.block_on(move |runtime| async move {
        let until = runtime.now().after(SECOND * 60);
        let connected = runtime.connect(target, until).await;
        let (mut reader, mut writer) = connected.expect("it listens");
        writer.write_all(bytes, until).await.0.expect("it takes that much");
        let mut answer = Vec::new();
        loop {
            let (result, piece) = reader.read(Vec::with_capacity(4_096), until).await;
            answer.extend(piece);
            // A reset is an end, too.
            if !matches!(result, Ok(count) if count > 0) {
                return answer;
            }
        }
    })
}

#[test]
fn connections_of_strangers_end() {
    for seed in seeds(5) {
        let _guard = SeedGuard(seed);
        let cluster = Cluster::joined(seed, 4);
        let framed = |message: &[u8]| [&(message.len() as u32).to_le_bytes()[..], message].concat();
        let too_long = (STREAM_MAX_BYTES as u32 + 1).to_le_bytes().to_vec();
        let silent_half = framed(&[7; 100])[..50].to_vec();
        let cases = [
            Vec::new(),
            too_long,
            silent_half,
            framed(b"GET / HTTP/1.1"),
            framed(&seal(Kind::Ask, "", b"nonsense")),
            framed(&seal(Kind::Gossip, "", &[])),
            framed(&seal(Kind::Ask, "other", &[0, 0])),
        ];
        let began = cluster.simulation.now();
        for bytes in cases {
            assert_eq!(talk(&cluster, bytes), b"", "nothing is said to strangers");
        }
        let took = cluster.simulation.now().since(began);
        assert!(took < SECOND * 40, "only silence takes until the deadline: {took:?}");
        assert!(cluster.agrees());
    }
}
