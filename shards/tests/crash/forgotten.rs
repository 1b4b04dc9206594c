//! Lines that requests delete are in no object of the bucket once their request is processed, also not
//! in the log, whatever is killed on the way and however busy the node is. All other lines are there.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::sync::Arc;
use std::time::Duration;

use logsvc_runtime::sim::Simulation;
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_store::double::{Faults, World};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, Upkeep};
use crate::deleted::{HOUR_NS, Requests, SECRET, create, find_in, keep_requests, list};
use crate::ledger::Ledger;
use crate::load::Load;
use crate::stored_log::{random_faults, random_upkeep};
use crate::upkeep::{Line, NOON_NS, flush, try_push};

/// Where the objects of the bucket are put as files.
const COPY: &str = "/srv/copy";

fn start<'s>(simulation: &'s Simulation, world: &World, rng: &mut Rng) -> (Cluster<'s>, Requests) {
    let upkeep = random_upkeep(world, rng);
    // Nothing is sealed by itself while a request waits.
    let seal = if rng.one_in(2) { SealPolicy::ON_REQUEST } else { upkeep.seal };
    let shards = rng.between(1, 3) as u16;
    let upkeep = Upkeep { seal, ..upkeep };
    let cluster = Cluster::start_sealing(simulation, shards, WalConfig::default(), upkeep);
    let cluster = cluster.unwrap_or_else(|error| panic!("{error}"));
    let requests = keep_requests(&cluster, Some(Arc::clone(cluster.bucket_status())));
    (cluster, requests)
}

/// How many places of the bucket have the text, in words.
fn places(simulation: &Simulation, world: &World) -> Vec<String> {
    for path in simulation.disk().files(COPY) {
        assert!(simulation.disk().remove(&path));
    }
    let mut places = Vec::new();
    for (name, body) in world.objects() {
        // The record of requests has the text of the request.
        if name.as_str().starts_with("files/") {
            continue;
        }
        if body.windows(SECRET.len()).any(|window| window == SECRET.as_bytes()) {
            places.push(name.as_str().to_owned());
        }
        if let Some(segment) = name.as_str().strip_prefix("seg/") {
            simulation.disk().write(format!("{COPY}/segments/{segment}"), &body);
        }
    }
    if simulation.disk().files(COPY).is_empty() {
        return places;
    }
    let (report, told) = find_in(simulation, COPY, SECRET);
    assert_eq!(report.unread, 0, "{told:#?}");
    places.extend(told);
    places
}

#[test]
fn deleted_lines_are_in_no_object_once_their_request_is_processed() {
    let (mut in_log, mut in_segments, mut killed) = (0, 0, 0);
    for seed in seeds(30) {
        let _guard = SeedGuard(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        simulation.set_unix_nanos(NOON_NS);
        let mut rng = Rng::new(seed);
        if rng.one_in(2) {
            world.set_faults(Faults { listing_lag_ns: 0, ..random_faults(&mut rng) });
        }
        let load = Load::new(Ledger::new(&["busy"], 6), seed);
        let ledger = Ledger::new(&["acme"], 4);
        let tenant = ledger.streams[0].tenant.clone();
        let (mut cluster, mut requests) = start(&simulation, &world, &mut rng);
        let is_busy = rng.one_in(2);
        for round in 0..4 {
            if is_busy {
                load.begin(&cluster, 4);
            }
            for stream in 0..ledger.streams.len() {
                let lines: Vec<Line> = (0..1 + rng.below(20))
                    .map(|number| {
                        let line = format!("{round} {stream} {number} x{SECRET}x");
                        (NOON_NS - 1 - rng.below(3 * HOUR_NS as u64) as i64, line, None)
                    })
                    .collect();
                // A slow bucket does not take all.
                drop(try_push(&cluster, &ledger, stream, &lines));
            }
            if is_busy {
                load.end(&cluster);
            }
            if rng.one_in(3) {
                flush(&cluster);
                simulation.run_for(Duration::from_millis(rng.below(12_000)));
            }
            if rng.one_in(4) {
                cluster.node.crash();
                load.killed();
                load.ledger.borrow_mut().node_ended(|_| false);
                (cluster, requests) = start(&simulation, &world, &mut rng);
            }
        }
        let before = places(&simulation, &world);
        let is_log = |place: &&String| place.starts_with("wal/");
        in_log += before.iter().filter(is_log).count();
        in_segments += before.len() - before.iter().filter(is_log).count();
        create(&cluster, &requests, &tenant, None);
        let mut kills = rng.below(3);
        loop {
            if is_busy {
                load.begin(&cluster, 4);
            }
            let pause_ms = *rng.pick(&[200, 2_000, 65_000]);
            simulation.run_for(Duration::from_millis(rng.below(pause_ms)));
            if is_busy {
                load.end(&cluster);
            }
            if list(&cluster, &requests, &tenant).iter().all(|request| !request.is_pending()) {
                break;
            }
            let now = simulation.now();
            assert!(now.0 < HOUR_NS as u64 / 2, "never: {:#?}", places(&simulation, &world));
            if kills > 0 && rng.one_in(2) {
                (kills, killed) = (kills - 1, killed + 1);
                cluster.node.crash();
                load.ledger.borrow_mut().node_ended(|_| false);
                (cluster, requests) = start(&simulation, &world, &mut rng);
            }
        }
        let after = places(&simulation, &world);
        assert!(after.is_empty(), "{after:#?}");
        assert!(cluster.everything(&tenant).iter().all(|stream| stream.entries.is_empty()));
        load.check(&cluster);
        cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{in_log} places in logs, {in_segments} in segments, {killed} kills");
    assert!(in_log > 100 && in_segments > 20 && killed > 5);
}
