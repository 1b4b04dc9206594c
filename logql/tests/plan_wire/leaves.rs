//! Leaves of all kinds, with all that plans may have.

use logsvc_fuzz_bodies::logql::leaf_plans;
use logsvc_logql::engine::{
    Direction, LeafExecutor, LeafPlan, Place, Plan, QueryLimits, QueryParams, QueryTime, SizeOf,
    StreamLabels,
};
use logsvc_logql::syntax;
use logsvc_logql::syntax::ast::{MatchOp, Matcher, Selector};
use logsvc_logql::testing::Generator;
use logsvc_testkit::Rng;

const SECOND_NS: i64 = 1_000_000_000;

pub(crate) fn encoded(leaf: &LeafPlan) -> Vec<u8> {
    let mut bytes = Vec::new();
    leaf.encode(&mut bytes);
    bytes
}

/// The leaves of plans that other tests have, of all volumes, and at the ends of time.
pub(crate) fn hand_made_leaves() -> Vec<LeafPlan> {
    let mut leaves: Vec<LeafPlan> =
        leaf_plans().iter().flat_map(|plan| plan.leaves().to_vec()).collect();
    // A label that no query can name.
    let odd = Matcher { name: "by -1\"".into(), op: MatchOp::Regex, value: ".+".into() };
    let mut selector = syntax::parse_selector(r#"{app="m"}"#).expect("a selector");
    selector.matchers.push(odd);
    let names = || ["s", "a", "s", "", "é b"].map(str::to_owned).to_vec();
    for selector in [&selector, &Selector { matchers: Vec::new() }] {
        for by in [
            StreamLabels::All,
            StreamLabels::Listed(names()),
            StreamLabels::Listed(Vec::new()),
            StreamLabels::Names(None),
            StreamLabels::Names(Some(names())),
        ] {
            for (size, bounds_ns, step_ns) in [
                (SizeOf::Line, (-7, SECOND_NS), None),
                (SizeOf::Entry, (5, 40 * SECOND_NS), Some(7 * SECOND_NS)),
            ] {
                let volume = Plan::volume(selector, by.clone(), bounds_ns, step_ns, size);
                leaves.extend(volume.expect("a plan").leaves().to_vec());
            }
        }
        let patterns = Plan::patterns(selector, (i64::MIN, i64::MAX), 1).expect("a plan");
        leaves.extend(patterns.leaves().to_vec());
    }
    let edges = [
        QueryParams::instant(i64::MIN),
        QueryParams::instant(i64::MAX),
        QueryParams::range(i64::MIN, i64::MAX, i64::MAX),
        QueryParams { align_to_step: true, ..QueryParams::range(-1, 9_999_999, 10) },
        QueryParams {
            align_to_step: true,
            limits: QueryLimits { max_steps: 0, max_series: usize::MAX },
            ..QueryParams::range(11, 20_000_029, 20)
        },
    ];
    for query in [
        r#"count_over_time({app="m"}[0s])"#,
        r#"max by (s, s, a) (rate({app="m"}[5m] offset -3m))"#,
        r#"sum_over_time({app="m"} | logfmt | unwrap v | a="b" or c>-1.5e300 [292y] offset 200y)"#,
    ] {
        let expr = syntax::parse(query).expect("a query");
        for params in &edges {
            match Plan::new(&expr, params) {
                Ok(plan) => leaves.extend(plan.leaves().to_vec()),
                Err(error) => assert!(error.to_string().contains("resolution"), "{error}"),
            }
        }
    }
    leaves
}

/// Times, often ends of all times.
fn time_ns(rng: &mut Rng) -> i64 {
    match rng.below(8) {
        0 => i64::MIN,
        1 => i64::MAX,
        2 => 0,
        3 => rng.next_u64() as i64,
        _ => rng.below(1_000) as i64 * SECOND_NS / 7,
    }
}

fn random_params(rng: &mut Rng) -> QueryParams {
    let time = if rng.one_in(3) {
        QueryTime::Instant { time_ns: time_ns(rng) }
    } else {
        let start_ns = time_ns(rng);
        let length_ns = rng.below(60) as i64 * SECOND_NS / 3;
        let step_ns = *rng.pick(&[1_000_003, SECOND_NS, 7 * SECOND_NS, i64::MAX]);
        QueryTime::Range { start_ns, end_ns: start_ns.saturating_add(length_ns), step_ns }
    };
    let place = |rng: &mut Rng| Place {
        timestamp_ns: time_ns(rng),
        stream_hash: rng.next_u64(),
        entry_hash: rng.next_u64(),
        ordinal: rng.next_u64() as u32,
    };
    QueryParams {
        now_ns: time_ns(rng),
        limit: *rng.pick(&[0, 1, 100, usize::MAX]),
        direction: *rng.pick(&[Direction::Forward, Direction::Backward]),
        interval_ns: *rng.pick(&[0, -1, 5, i64::MAX]),
        after: rng.one_in(3).then(|| place(rng)),
        from_place: rng.one_in(2),
        places: rng.one_in(3),
        only_stream: rng.one_in(3).then(|| rng.next_u64()),
        align_to_step: rng.one_in(2),
        limits: QueryLimits {
            max_series: *rng.pick(&[0, 1, 500, usize::MAX]),
            max_steps: *rng.pick(&[0, 11_000]),
        },
        ..QueryParams::new(time)
    }
}

/// The leaves of a random query, if it is one that can be planned.
pub(crate) fn random_plan(rng: &mut Rng, seed: u64) -> Vec<LeafPlan> {
    let (expr, params) = (Generator::new(seed).expr(), random_params(rng));
    let Ok(plan) = Plan::new(&expr, &params) else { return Vec::new() };
    let plan = if rng.one_in(8) { plan.keeping_samples() } else { plan };
    plan.leaves().to_vec()
}

/// The same, with the parts of their windows, and what is left of them when they have begun.
pub(crate) fn random_leaves(rng: &mut Rng, seed: u64) -> Vec<LeafPlan> {
    let mut leaves = random_plan(rng, seed);
    for leaf in leaves.clone() {
        leaves.push(LeafExecutor::new(&leaf).expect("a leaf").rest_of_plan());
        let interval_ns = *rng.pick(&[1, SECOND_NS, 60 * SECOND_NS]);
        if let Some(parts) = leaf.parts(interval_ns) {
            let first = rng.below(u64::from(parts.count())) as u32;
            leaves.push(parts.leaf_of(&(first..parts.count())));
            leaves.push(parts.leaf_of(&(first..first)));
        }
    }
    leaves
}
