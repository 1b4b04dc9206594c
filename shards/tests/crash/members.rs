//! Nodes that share a bucket: partitions go from one to another, in order and after deaths, and nothing
//! is lost, doubled or invented.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use logsvc_cluster::map::{Epoch, Map};
use logsvc_cluster::settings::Settings;
use logsvc_runtime::sim::Simulation;
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::ledger::{LedgerError, Logs, SumsConfig, check_unshared};
use logsvc_shards::messages::ShardRequest;
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::sink::SinkConfig;
use logsvc_store::Store;
use logsvc_store::double::{Faults, Way, World};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{AsMember, Cluster, InBucket, Upkeep, sleep};
use crate::members_rig::{Client, Nodes, map_of};
use crate::stored_log::{random_faults, random_upkeep};

const PARTITIONS: u16 = 16;

pub(crate) fn keeping(world: &World) -> Upkeep {
    let bucket = InBucket {
        world: world.clone(),
        sink: Some(SinkConfig::default()),
        max_age: Duration::from_secs(2),
        cache_max_bytes: None,
    };
    let seal = SealPolicy { max_age: Duration::from_secs(3), ..SealPolicy::default() };
    Upkeep { partitions: Some(PARTITIONS), followed: Some(bucket), ..seal.into() }
}

#[test]
fn one_node_takes_everything_and_answers() {
    let simulation = Simulation::new(1);
    let world = World::default();
    let mut nodes = Nodes::new(&simulation, || keeping(&world), Settings::default());
    let first = nodes.start(2);
    nodes.run_for(Duration::from_secs(5));
    let (number, map) = map_of(&nodes, first);
    assert!(number > 0 && map.slots.iter().all(|slot| slot.owner == Some(first)), "{map:?}");
    nodes.client(async |client| {
        for stream in 0..20 {
            assert!(client.push(stream, 0..5, 20).await, "stream {stream} is taken");
        }
        assert!(client.ask(20).await, "the node answers");
    });
    assert_eq!(nodes.ledger.borrow().seen.len(), 100);
}

/// What a single node has written is in no map, and what nodes share a single one does not see.
#[test]
fn a_single_node_and_nodes_that_share_a_bucket_keep_apart() {
    let simulation = Simulation::new(4);
    let world = World::default();
    let start = |folder, upkeep: Upkeep| {
        let node = Cluster::launch_at(folder, &simulation, 1, Default::default(), upkeep);
        let started = node.await_start();
        (node, started)
    };
    let as_one_of_many = || {
        let (settings, alive) = (Settings::default(), Rc::default());
        Upkeep { member: Some(AsMember { settings, alive }), ..keeping(&world) }
    };
    let (single, started) = start("/srv/single", keeping(&world));
    assert_eq!(started, Ok(()));
    let append = Client::new_append(7);
    let reply = single.caller(0).call(CoreId(0), ShardRequest::Append(append));
    drop(reply);
    simulation.run_for(Duration::from_secs(20));
    single.stop().unwrap_or_else(|failure| panic!("{failure}"));
    let (_, refused) = start("/srv/member", as_one_of_many());
    assert!(refused.as_ref().is_err_and(|text| text.contains("without others")), "{refused:?}");

    let world = World::default();
    let as_one_of_many = || {
        let (settings, alive) = (Settings::default(), Rc::default());
        Upkeep { member: Some(AsMember { settings, alive }), ..keeping(&world) }
    };
    let (member, started) = start("/srv/first", as_one_of_many());
    assert_eq!(started, Ok(()));
    simulation.run_for(Duration::from_secs(5));
    member.node.crash();
    simulation.block_on(async move |runtime| {
        let store = Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())));
        let refused = check_unshared(&runtime, &store).await;
        assert!(matches!(refused, Err(LedgerError::Shared)), "{refused:?}");
        let world = World::default();
        let store = Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())));
        assert!(check_unshared(&runtime, &store).await.is_ok());
    });
}

/// Pushes to many streams and asks, again and again, until told to stop.
fn load(nodes: &Nodes<'_>, clients: u32) -> Rc<Cell<bool>> {
    let stop = Rc::new(Cell::new(false));
    for number in 0..clients {
        let (client, stop) = (nodes.new_client(), Rc::clone(&stop));
        let runtime = client.runtime.clone();
        drop(runtime.clone().spawn(async move {
            let mut next = 0;
            while !stop.get() {
                for stream in 0..8 {
                    let stream = number * 8 + stream;
                    client.push(stream, next..next + 3, 200).await;
                }
                next += 3;
                if number == 0 {
                    client.ask(100).await;
                }
                sleep(&runtime, Duration::from_millis(100)).await;
            }
        }));
    }
    stop
}

/// The partitions that each node owns by the newest map of one of them.
fn shares(nodes: &Nodes<'_>) -> Vec<usize> {
    let (_, map) = map_of(nodes, *nodes.running.keys().next().expect("one runs"));
    let of = |me| map.slots.iter().filter(|slot| slot.owner == Some(me)).count();
    nodes.running.keys().map(|&me| of(me)).collect()
}

/// Stops the load, waits until nothing is under way, and asks once more.
fn settle(nodes: &Nodes<'_>, stop: &Cell<bool>) {
    stop.set(true);
    nodes.run_for(Duration::from_secs(30));
    let is_answered = nodes.client(async |client| client.ask(400).await);
    let ledger = nodes.ledger.borrow();
    assert!(is_answered, "the nodes do not answer in the end: {}", ledger.last_failure);
    println!(
        "{} sent, {} acknowledged, {} answers",
        ledger.sent.len(),
        ledger.acknowledged.len(),
        ledger.answers
    );
}

#[test]
fn partitions_go_to_nodes_that_come_and_from_those_that_leave() {
    let simulation = Simulation::new(2);
    let world = World::default();
    let mut nodes = Nodes::new(&simulation, || keeping(&world), Settings::default());
    let first = nodes.start(2);
    nodes.run_for(Duration::from_secs(5));
    let stop = load(&nodes, 3);
    nodes.run_for(Duration::from_secs(5));
    let second = nodes.start(1);
    nodes.run_for(Duration::from_secs(10));
    assert_eq!(shares(&nodes), [8, 8]);
    nodes.start(2);
    nodes.run_for(Duration::from_secs(10));
    let mut of_three = shares(&nodes);
    of_three.sort_unstable();
    assert_eq!(of_three, [5, 5, 6]);
    nodes.leave(first);
    nodes.run_for(Duration::from_secs(10));
    assert_eq!(shares(&nodes), [8, 8]);
    nodes.leave(second);
    nodes.run_for(Duration::from_secs(10));
    assert_eq!(shares(&nodes), [16]);
    settle(&nodes, &stop);
    let ledger = nodes.ledger.borrow();
    assert_eq!(ledger.acknowledged, ledger.sent, "no push failed for good");
    assert!(ledger.answers > 10, "{} answers", ledger.answers);
}

#[test]
fn heirs_have_what_the_dead_have_acknowledged() {
    let simulation = Simulation::new(3);
    let world = World::default();
    let mut nodes = Nodes::new(&simulation, || keeping(&world), Settings::default());
    let first = nodes.start(2);
    let second = nodes.start(1);
    nodes.run_for(Duration::from_secs(8));
    let stop = load(&nodes, 3);
    nodes.run_for(Duration::from_secs(4));
    nodes.kill(first);
    nodes.run_for(Duration::from_secs(15));
    assert_eq!(shares(&nodes), [16]);
    nodes.start(1);
    nodes.run_for(Duration::from_secs(10));
    nodes.kill(second);
    nodes.run_for(Duration::from_secs(15));
    assert_eq!(shares(&nodes), [16]);
    settle(&nodes, &stop);
    {
        let ledger = nodes.ledger.borrow();
        assert!(ledger.acknowledged.len() * 2 > ledger.sent.len() && ledger.answers > 10);
    }
    nodes.run_for(Duration::from_secs(60));
    let (_, map) = map_of(&nodes, *nodes.running.keys().next().expect("one runs"));
    assert_eq!(map.members.len(), 1, "{map:?}");
    has_only_what_is_needed(&world, map);
}

/// The bucket has the objects of live segments, and of ended writers only what excludes them.
fn has_only_what_is_needed(world: &World, map: Map) {
    let objects = world.objects();
    let world = world.clone();
    let live = Simulation::new(1).block_on(async move |runtime| {
        let store = Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())));
        let positions = map.positions().into_iter().map(|(epoch, at)| (epoch.0, at)).collect();
        let mut logs = Logs::default();
        let until = runtime.now().after(Duration::from_secs(60));
        logs.read_on(&store, &positions, until).await.expect("a healthy bucket");
        (logs.union().stored.live.len(), map)
    });
    let (live, map) = live;
    let segments = objects.iter().filter(|(name, _)| name.as_str().starts_with("seg/")).count();
    assert!(live > 0 && segments == live, "{segments} objects of {live} segments");
    let is_needed = |name: &str| map.members.keys().any(|me| name.contains(&format!("/{me}/")));
    let kept = objects.iter().filter(|(name, object)| {
        let name = name.as_str();
        name.starts_with("wal/") && !is_needed(name) && object.len() > 100
    });
    assert_eq!(kept.count(), 0, "write-ahead logs of ended writers");
}

/// What happened over all seeds.
#[derive(Default, Debug)]
struct Tally {
    starts: u32,
    leaves: u32,
    kills: u32,
    pauses: u32,
    lies: u32,
    silent_ways: u32,
    refused_ways: u32,
    wrong_clocks: u32,
    jumps: u32,
    taken_over: u32,
    whole_logs: usize,
    shortened_logs: usize,
    acknowledged: usize,
    answers: u64,
}

/// How many logs of edits have their first entry, and how many have it no more.
fn logs_of_edits(world: &World) -> (usize, usize) {
    let mut firsts: BTreeMap<String, String> = BTreeMap::new();
    for (name, _) in world.objects() {
        if let Some((log, number)) = name.as_str().rsplit_once('/')
            && log.starts_with("log/")
        {
            let first = firsts.entry(log.to_owned()).or_insert_with(|| number.to_owned());
            *first = number.to_owned().min(first.clone());
        }
    }
    let whole = firsts.values().filter(|first| first.bytes().all(|digit| digit == b'0')).count();
    (whole, firsts.len() - whole)
}

/// Nodes come, leave, die with their disks, stand still and go on; hints lie; the bucket fails, or one of
/// them alone does not get there; clocks go at wrong rates, or jump. What clients were told holds all the
/// time.
#[test]
fn nothing_is_lost_or_doubled_whatever_becomes_of_nodes() {
    let mut tally = Tally::default();
    let all = seeds(12);
    let count = all.end - all.start;
    for seed in all {
        let _guard = SeedGuard(seed);
        trouble(seed, &mut tally);
    }
    println!("{tally:?}");
    if count >= 12 {
        let Tally { starts, leaves, kills, pauses, lies, .. } = tally;
        assert!(starts > 30 && leaves > 3 && kills > 6 && pauses > 6 && lies > 3);
        let Tally { silent_ways, refused_ways, wrong_clocks, jumps, .. } = tally;
        assert!(silent_ways > 6 && refused_ways > 6 && wrong_clocks > 10 && jumps > 6);
        let Tally { taken_over, acknowledged, answers, .. } = tally;
        assert!(taken_over > 3 && acknowledged > 2_000 && answers > 100);
        assert!(tally.shortened_logs > 6, "{} of {}", tally.shortened_logs, tally.whole_logs);
    }
}

fn random_settings(rng: &mut Rng) -> Settings {
    Settings {
        suspicion: Duration::from_millis(rng.between(500, 4_000)),
        orphan_patience: Duration::from_secs(8),
        ended_kept: rng.index(3),
        ..Settings::default()
    }
}

fn trouble(seed: u64, tally: &mut Tally) {
    let (simulation, world) = (Simulation::new(seed), World::default());
    let rng = Rc::new(RefCell::new(Rng::new(seed)));
    let of_upkeep = Rc::clone(&rng);
    let upkeep = || {
        let upkeep = random_upkeep(&world, &mut of_upkeep.borrow_mut());
        // Longer than listings are behind. Many logs are read while they become shorter.
        let grace = Duration::from_millis(of_upkeep.borrow_mut().between(3_400, 6_000));
        let sums = SumsConfig { interval: 1, grace };
        Upkeep { partitions: Some(PARTITIONS), sums, ..upkeep }
    };
    let settings = random_settings(&mut rng.borrow_mut());
    let mut nodes = Nodes::new(&simulation, upkeep, settings);
    // Nodes that stand still, or are cut off, and for how many rounds more.
    let mut asleep: BTreeMap<Epoch, u32> = BTreeMap::new();
    let mut cut_off: BTreeMap<Epoch, u32> = BTreeMap::new();
    let are_clocks_right = rng.borrow_mut().one_in(3);
    nodes.start(2);
    tally.starts += 1;
    let clients = rng.borrow_mut().between(1, 4) as u32;
    let stop = load(&nodes, clients);
    let rounds = rng.borrow_mut().between(10, 30);
    for _ in 0..rounds {
        let pause = rng.borrow_mut().between(100, 6_000);
        nodes.run_for(Duration::from_millis(pause));
        for (me, rounds) in std::mem::take(&mut asleep) {
            match rounds {
                _ if !nodes.running.contains_key(&me) => {}
                0 => nodes.running[&me].node.go_on(),
                _ => drop(asleep.insert(me, rounds - 1)),
            }
        }
        for (me, rounds) in std::mem::take(&mut cut_off) {
            match rounds {
                0 => nodes.set_way(me, Way::Open),
                _ => drop(cut_off.insert(me, rounds - 1)),
            }
        }
        tally.taken_over += nodes.bury().len() as u32;
        let awake: Vec<Epoch> =
            nodes.running.keys().filter(|me| !asleep.contains_key(me)).copied().collect();
        let (action, which, cores) = {
            let mut rng = rng.borrow_mut();
            (rng.below(16), rng.index(awake.len().max(1)), rng.between(1, 3) as u16)
        };
        let chosen = awake.get(which).copied();
        match (action, chosen) {
            (0..=3, _) if nodes.running.len() < 4 => {
                // A store that fails may refuse a start.
                world.set_faults(Faults::default());
                let rate = rng.borrow_mut().between(920_000, 1_080_000);
                if are_clocks_right {
                    nodes.start(cores);
                } else {
                    nodes.start_with_clock(cores, rate);
                    tally.wrong_clocks += 1;
                }
                tally.starts += 1;
            }
            (4, Some(me)) if awake.len() > 1 && asleep.is_empty() => {
                world.set_faults(Faults::default());
                nodes.open_all_ways();
                cut_off.clear();
                if nodes.try_leave(me) {
                    tally.leaves += 1;
                } else {
                    tally.taken_over += 1;
                }
            }
            (5 | 6, Some(me)) => {
                nodes.kill(me);
                tally.kills += 1;
                if rng.borrow_mut().one_in(2) {
                    nodes.tell_gone(me);
                }
            }
            (7 | 8, Some(me)) => {
                nodes.running[&me].node.stop();
                let rounds = rng.borrow_mut().below(4) as u32;
                asleep.insert(me, rounds);
                tally.pauses += 1;
            }
            (9, Some(me)) => {
                nodes.lie(me);
                tally.lies += 1;
                if rng.borrow_mut().one_in(2) {
                    nodes.tell_gone(me);
                }
            }
            (12 | 13, Some(me)) => {
                let (way, rounds) = {
                    let mut rng = rng.borrow_mut();
                    let way = if rng.one_in(2) { Way::Silent } else { Way::Refused };
                    (way, rng.below(8) as u32)
                };
                nodes.set_way(me, way);
                cut_off.insert(me, rounds);
                tally.silent_ways += u32::from(way == Way::Silent);
                tally.refused_ways += u32::from(way == Way::Refused);
            }
            (14, Some(me)) => {
                let by_s = rng.borrow_mut().below(7_200) as i64 - 3_600;
                nodes.running[&me].node.shift_wall_clock(by_s * 1_000_000_000);
                tally.jumps += 1;
            }
            (10, _) => world.set_faults(random_faults(&mut rng.borrow_mut())),
            _ => {
                nodes.tell_the_truth();
                world.set_faults(Faults::default());
            }
        }
    }
    world.set_faults(Faults::default());
    nodes.open_all_ways();
    nodes.tell_the_truth();
    asleep.keys().filter_map(|me| nodes.running.get(me)).for_each(|node| node.node.go_on());
    nodes.run_for(Duration::from_secs(10));
    // Somebody may have ended a node, and died. It comes to know when it looks, each half a minute.
    for pause in [0, 35] {
        nodes.run_for(Duration::from_secs(pause));
        tally.taken_over += nodes.bury().len() as u32;
        if nodes.running.is_empty() {
            nodes.start(2);
            tally.starts += 1;
        }
        stop.set(true);
    }
    settle(&nodes, &stop);
    let (whole, shortened) = logs_of_edits(&world);
    tally.whole_logs += whole;
    tally.shortened_logs += shortened;
    let ledger = nodes.ledger.borrow();
    tally.acknowledged += ledger.acknowledged.len();
    tally.answers += ledger.answers;
}
