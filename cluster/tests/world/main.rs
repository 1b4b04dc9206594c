//! Many nodes in one world that fails in all ways: no entry is lost, doubled or invented, and no two
//! answers contradict each other. And each rule of the protocol is needed: without it some seed fails.

mod engine;
mod env;
mod faults;
mod ledger;
mod process;
mod rest;
mod run;
mod serve;
mod store;

use ledger::Tally;
use logsvc_testkit::{SeedGuard, seeds};

/// A rule that a world leaves out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    ClaimBeforeFence,
    AcknowledgeBeforeWal,
    NoLease,
    NoProof,
    HeritageForgotten,
    MergedPosition,
    TakenIsMine,
    HandOverBeforeSeal,
    EditBehindHandOver,
    ForgetWithoutAdoption,
    LastAttemptProves,
    /// Clocks go at 0.1 to 5 times the right rate.
    BrokenClocks,
    /// They go at 0.3 to 3 times, and only answers of a healed world are judged.
    BrokenClocksAtRest,
}

const MUTANTS: [Mutant; 12] = [
    Mutant::ClaimBeforeFence,
    Mutant::AcknowledgeBeforeWal,
    Mutant::NoLease,
    Mutant::NoProof,
    Mutant::HeritageForgotten,
    Mutant::MergedPosition,
    Mutant::TakenIsMine,
    Mutant::HandOverBeforeSeal,
    Mutant::EditBehindHandOver,
    Mutant::ForgetWithoutAdoption,
    Mutant::LastAttemptProves,
    Mutant::BrokenClocks,
];

#[test]
fn no_entry_is_lost_and_no_answer_contradicts_another() {
    let mut sum = Tally::default();
    let seeds = seeds(300);
    let is_long = seeds.end - seeds.start >= 100;
    for seed in seeds {
        let _guard = SeedGuard(seed);
        match run::run(seed, None) {
            Ok(tally) => sum.add(&tally),
            Err(what) => panic!("{what}"),
        }
    }
    println!("{sum:?}");
    if is_long {
        for (name, count) in sum.all() {
            assert!(count >= 10, "too few {name}: {sum:?}");
        }
    }
}

#[test]
fn each_rule_is_needed() {
    for mutant in MUTANTS {
        // A world that does not come to rest has not noticed anything.
        let notices =
            |what: &String| ["missing", "twice", "stops:"].iter().any(|sign| what.contains(sign));
        let found = (0..3_000u64).find_map(|seed| {
            let what = run::run(seed, Some(mutant)).err().filter(notices)?;
            Some((seed, what))
        });
        match found {
            Some((seed, what)) => println!("{mutant:?}: {} seeds: {:.150}", seed + 1, what),
            None => panic!("nobody notices {mutant:?}"),
        }
    }
}

#[test]
fn nothing_is_lost_by_broken_clocks() {
    for seed in seeds(100) {
        let _guard = SeedGuard(seed);
        if let Err(what) = run::run(seed, Some(Mutant::BrokenClocksAtRest)) {
            panic!("{what}");
        }
    }
}
