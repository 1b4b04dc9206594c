//! Parts of a log query that are asked for fewer entries than the answer has, and asked again where
//! they may have more, make up the answer of whole parts.

use std::collections::BTreeMap;

use logsvc_logql::engine::testing::{Layout, TestEntry, TestStore};
use logsvc_logql::engine::{
    CutPart, Direction, LeafPlan, LeafResult, MergeState, Plan, QueryParams, lacking,
};
use logsvc_logql::syntax;
use logsvc_proto::Labels;
use logsvc_testkit::Rng;

const QUERIES: [&str; 3] =
    [r#"{app="m"}"#, r#"{app="m"} |= "2""#, r#"{app="m"} | logfmt | line_format "{{ .n }}""#];

/// Stores of owners, each with streams of its own. Some streams have most of the entries, times are
/// often equal, and entries come twice.
fn stores(random: &mut Rng, owners: usize) -> Vec<TestStore> {
    let mut stores: Vec<TestStore> = (0..owners).map(|_| TestStore::new()).collect();
    let streams = 1 + random.below(30);
    let times = [3, 40, 2_000][random.below(3) as usize];
    for number in 0..random.below(600) {
        let stream = random.below(streams).min(random.below(streams));
        let text = stream.to_string();
        let labels = Labels::from_pairs([("app", "m"), ("s", &text)]).expect("labels");
        let line = format!("k={} n={}", number % 7, random.below(4)).into_bytes();
        let timestamp_ns = 100 + i64::try_from(random.below(times)).expect("small");
        let metadata = match random.below(3) {
            0 => vec![("trace".to_owned(), random.below(2).to_string())],
            _ => Vec::new(),
        };
        let owner = &mut stores[stream as usize % owners];
        let entry = TestEntry { timestamp_ns, line, metadata };
        if random.below(8) == 0 {
            owner.push(&labels, entry.clone());
        }
        owner.push(&labels, entry);
    }
    stores
}

fn merged(plan: &Plan, parts: impl IntoIterator<Item = LeafResult>) -> String {
    let mut merge = MergeState::new(plan);
    parts.into_iter().for_each(|part| merge.add(part));
    format!("{:?}", merge.finish().expect("an answer"))
}

/// How many answers were complete at once, and how many owners were asked again.
#[derive(Default, Debug)]
struct Tally {
    complete: usize,
    again: usize,
    /// Of those that were asked again, for fewer entries than the answer has.
    fewer: usize,
    spared: usize,
}

fn check(seed: u64, tally: &mut Tally) {
    let random = &mut Rng::new(seed);
    let owners = 2 + random.below(3) as usize;
    let stores = stores(random, owners);
    let expr = syntax::parse(QUERIES[random.below(3) as usize]).expect("a query");
    let mut params = QueryParams::range(0, 10_000, 1);
    params.limit = 1 + random.below(400) as usize;
    if random.below(2) == 0 {
        params.direction = Direction::Forward;
    }
    let plan = Plan::new(&expr, &params).expect("a plan");
    let [leaf] = plan.leaves() else { panic!("one leaf") };
    assert_eq!(leaf.entry_limit(), Some(params.limit));
    let run = |owner: usize, leaf: &LeafPlan, random: &mut Rng| {
        let layout = Layout {
            shards: 1 + random.below(2) as usize,
            block_entries: 1 + random.below(50) as usize,
            scatter_blocks: random.below(2) == 0,
            ..Layout::default()
        };
        stores[owner].run_leaf_on_all(leaf, &layout).expect("a leaf")
    };
    let whole: Vec<_> = (0..owners).map(|owner| run(owner, leaf, random)).collect();
    let each = 1 + random.below(params.limit as u64) as usize;
    let less = leaf.with_entry_limit(each);
    // Some do not look for fewer.
    let is_cut: Vec<bool> = (0..owners).map(|_| random.below(4) > 0).collect();
    let mut found: Vec<_> = (0..owners)
        .map(|owner| run(owner, if is_cut[owner] { &less } else { leaf }, random))
        .collect();
    let mut parts = Vec::new();
    for (owner, results) in found.iter().enumerate() {
        let entries_max = is_cut[owner].then_some(each);
        parts.extend(results.iter().map(|result| CutPart { owner, result, entries_max }));
    }
    let short: BTreeMap<usize, usize> = lacking(params.limit, &parts);
    assert!(short.keys().all(|&owner| is_cut[owner]), "seed {seed}: {short:?}");
    tally.complete += usize::from(short.is_empty());
    tally.again += short.len();
    tally.spared += is_cut.iter().filter(|is_cut| **is_cut).count() - short.len();
    for (owner, most) in short {
        tally.fewer += usize::from(most < params.limit);
        found[owner] = run(owner, &leaf.with_entry_limit(most), random);
    }
    let wanted = merged(&plan, whole.into_iter().flatten());
    assert_eq!(merged(&plan, found.into_iter().flatten()), wanted, "seed {seed}");
}

#[test]
fn parts_that_are_asked_again_where_needed_make_up_the_answer() {
    let mut tally = Tally::default();
    for seed in logsvc_testkit::seeds(1_500) {
        check(seed, &mut tally);
    }
    assert!(tally.complete > 300 && tally.fewer > 300 && tally.spared > 300, "{tally:?}");
}

#[test]
fn thinned_entries_and_pages_and_metrics_are_not_cut() {
    let leaf_of = |text: &str, params: &QueryParams| {
        let plan = Plan::new(&syntax::parse(text).expect("a query"), params).expect("a plan");
        plan.leaves()[0].clone()
    };
    let mut params = QueryParams::range(0, 10_000, 1);
    assert!(leaf_of(r#"{app="m"}"#, &params).entry_limit().is_some());
    let metric = leaf_of(r#"rate({app="m"}[1m])"#, &params);
    assert_eq!(metric.entry_limit(), None);
    assert_eq!(metric.with_entry_limit(1), metric);
    params.interval_ns = 5;
    assert_eq!(leaf_of(r#"{app="m"}"#, &params).entry_limit(), None);
}
