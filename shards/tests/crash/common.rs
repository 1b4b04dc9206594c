//! The log of common files of nodes that share a bucket, when nodes stand still while others change files
//! and old entries are removed.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use logsvc_cluster::map::Epoch;
use logsvc_cluster::settings::Settings;
use logsvc_runtime::sim::{SimRuntime, Simulation};
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::common::CommonFiles;
use logsvc_shards::kept::KeptPath;
use logsvc_store::double::{Faults, World};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::members::keeping;
use crate::members_rig::{Nodes, map_of};

/// How many changes of the next keeper make the first entries needless.
const CHANGES: u32 = 120;

fn path(number: u32) -> KeptPath {
    KeptPath::parse(&format!("rules/groups/acme/{number:032x}")).expect("a path")
}

fn files_of(nodes: &Nodes<'_>, me: Epoch) -> CommonFiles<SimRuntime> {
    nodes.running[&me].common().expect("it is one of many")
}

/// Has a node make files of these numbers, one after another. The acknowledged ones are noted.
fn change(
    nodes: &Nodes<'_>,
    me: Epoch,
    numbers: std::ops::Range<u32>,
    acknowledged: &Rc<RefCell<BTreeSet<u32>>>,
) {
    let (files, acknowledged) = (files_of(nodes, me), Rc::clone(acknowledged));
    drop(nodes.running[&me].node.runtime(CoreId(0)).clone().spawn(async move {
        for number in numbers {
            let content = Some(number.to_string().into_bytes());
            if files.replace(path(number), None, content, false).await.is_ok() {
                acknowledged.borrow_mut().insert(number);
            }
        }
    }));
}

/// The numbers of the entries in the bucket.
fn entries(world: &World) -> Vec<u64> {
    let names = world.objects().into_iter().filter_map(|(name, _)| {
        let text = name.as_str().strip_prefix("common/")?;
        u64::from_str_radix(text.get(..16)?, 16).ok()
    });
    names.collect()
}

fn run_until(nodes: &Nodes<'_>, what: &str, mut is_so: impl FnMut() -> bool) {
    for _ in 0..1_200 {
        if is_so() {
            return;
        }
        nodes.run_for(Duration::from_millis(50));
    }
    panic!("{what} does not come about");
}

/// A keeper stands still within a change. Another one makes so many that the number of the entry is freed.
/// The first one goes on, and its entry comes to be there. It is not acknowledged, and nobody believes it:
/// neither a node that knows the entry before it, nor one that comes later.
#[test]
fn a_keeper_that_stood_still_is_not_believed_at_a_freed_number() {
    let (mut anew, mut rounds) = (0, 0);
    for seed in seeds(24) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        world.set_faults(Faults { latency_ns: 1_000_000..=4_000_000, ..Faults::default() });
        let mut nodes = Nodes::new(&simulation, || keeping(&world), Settings::default());
        let first = nodes.start(1);
        nodes.run_for(Duration::from_secs(4));
        let others = [nodes.start(1), nodes.start(1)];
        nodes.run_for(Duration::from_secs(6));
        let keeper = map_of(&nodes, first).1.live_owner(0).expect("somebody owns it");
        let others: Vec<Epoch> =
            others.into_iter().chain([first]).filter(|me| *me != keeper).collect();
        let acknowledged = Rc::default();
        let before = rng.between(3, 9) as u32;
        change(&nodes, keeper, 0..before, &acknowledged);
        let of_keeper = files_of(&nodes, keeper);
        let number = || of_keeper.view().number();
        run_until(&nodes, "the first change", || number() == u64::from(before));
        others.iter().for_each(|me| files_of(&nodes, *me).heard(number()));
        let knows = |me: &Epoch| files_of(&nodes, *me).view().number() == u64::from(before);
        run_until(&nodes, "that all know it", || others.iter().all(knows));
        // All of them may be asleep within the change.
        change(&nodes, keeper, before..before + 1, &acknowledged);
        nodes.run_for(Duration::from_micros(rng.below(9_000)));
        nodes.running[&keeper].node.stop();
        let at_stop = number();
        nodes.lie(keeper);
        nodes.tell_gone(keeper);
        let heir =
            || others.iter().find(|me| files_of(&nodes, **me).view().keeper_since().is_some());
        run_until(&nodes, "another keeper", || heir().is_some());
        let heir = *heir().expect("there is one");
        let bystander = *others.iter().find(|me| **me != heir).expect("there is another one");
        nodes.running[&bystander].node.stop();
        change(&nodes, heir, 100..100 + CHANGES, &acknowledged);
        let last = u64::from(before + CHANGES);
        let of_heir = files_of(&nodes, heir);
        run_until(&nodes, "the last change", || of_heir.view().number() >= last);
        let is_trimmed = || entries(&world).iter().all(|entry| *entry > u64::from(before) + 1);
        run_until(&nodes, "that old entries go", is_trimmed);
        nodes.running[&keeper].node.go_on();
        let mut is_anew = false;
        for _ in 0..40 {
            nodes.run_for(Duration::from_millis(5));
            let is_real = number() == at_stop || number() >= last;
            assert!(is_real, "the keeper that stood still believes {}", number());
            is_anew |= entries(&world).contains(&(u64::from(before) + 1));
        }
        anew += u32::from(is_anew);
        rounds += 1;
        // It looks for news while the entry is there, and later.
        nodes.running[&bystander].node.go_on();
        let looked = nodes.simulation.now().after(Duration::from_secs(62));
        let newest = of_heir.view();
        while nodes.simulation.now() < looked {
            nodes.run_for(Duration::from_millis(100));
            let is_real = number() == at_stop || number() >= last;
            assert!(is_real, "the keeper that stood still believes {}", number());
            let view = files_of(&nodes, bystander).view();
            let is_real = view.number() == u64::from(before) || view.number() >= last;
            assert!(is_real, "the bystander believes {}", view.number());
        }
        assert_eq!(files_of(&nodes, bystander).view().number(), newest.number());
        nodes.bury();
        let late = nodes.start(1);
        run_until(&nodes, "that a new node knows all", || {
            files_of(&nodes, late).view().number() == newest.number()
        });
        let all = files_of(&nodes, late).view();
        let acknowledged = acknowledged.borrow();
        assert!(acknowledged.len() >= (before + CHANGES) as usize, "{acknowledged:?}");
        let lost: Vec<_> =
            acknowledged.iter().filter(|it| all.file(&path(**it)).is_none()).collect();
        assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
        assert!(entries(&world).len() < 80, "{:?}", entries(&world));
    }
    println!("{anew} of {rounds} entries came at a freed number");
    assert!(rounds < 20 || anew >= 4, "{anew} of {rounds}");
}

/// A node that keeps the files later finds all of them, however short the log is.
#[test]
fn each_keeper_finds_the_newest_entry_of_a_short_log() {
    let (simulation, world) = (Simulation::new(3), World::default());
    world.set_faults(Faults { latency_ns: 1_000_000..=4_000_000, ..Faults::default() });
    let mut nodes = Nodes::new(&simulation, || keeping(&world), Settings::default());
    let mut keeper = nodes.start(1);
    let acknowledged = Rc::default();
    for round in 0..3 {
        run_until(&nodes, "a keeper", || files_of(&nodes, keeper).view().keeper_since().is_some());
        let numbers = round * 1_000..round * 1_000 + 90;
        change(&nodes, keeper, numbers, &acknowledged);
        let all = (round as usize + 1) * 90;
        run_until(&nodes, "the last change", || acknowledged.borrow().len() == all);
        run_until(&nodes, "that old entries go", || entries(&world).len() <= 66);
        let next = nodes.start(1);
        nodes.run_for(Duration::from_secs(5));
        nodes.kill(keeper);
        nodes.tell_gone(keeper);
        keeper = next;
    }
    run_until(&nodes, "a keeper", || files_of(&nodes, keeper).view().keeper_since().is_some());
    let view = files_of(&nodes, keeper).view();
    assert_eq!(view.number(), 270);
    assert!(acknowledged.borrow().iter().all(|number| view.file(&path(*number)).is_some()));
}
