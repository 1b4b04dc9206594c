//! Instant queries that are repeated, each window put together from parts, against plain
//! evaluations of the same queries over the same entries.
//!
//! Entries come late, come twice at a time, and go. A seed names a case.

use std::collections::BTreeMap;

use logsvc_logql::engine::testing::{Layout, TestEntry, TestStore};
use logsvc_logql::engine::{EvalError, KnownParts, MergeState, Plan, QueryParams, QueryResult};
use logsvc_logql::syntax;
use logsvc_logql::testing::Rng;
use logsvc_proto::Labels;

const SECOND_NS: i64 = 1_000_000_000;

const FUNCTIONS: [&str; 5] =
    ["count_over_time", "rate", "bytes_over_time", "bytes_rate", "absent_over_time"];

const PIPELINES: [&str; 8] = [
    "",
    r#"|= "x""#,
    r#"!~ "y.*""#,
    "| logfmt",
    r#"| json"#,
    r#"| logfmt | n > 3"#,
    r#"| line_format "{{.n}}""#,
    r#"| env="p""#,
];

const AROUND: [&str; 10] = [
    "%",
    "sum by (app) (%)",
    "sum without (pod, n) (%)",
    "sum(%)",
    "max by (pod) (%) > 1",
    "topk(2, %)",
    "avg(%) / 3",
    "(% > 0.1) or vector(0)",
    r#"label_replace(%, "to", "$1", "app", "(.*)")"#,
    "stddev by (app) (%)",
];

type Entries = Vec<(Labels, TestEntry)>;

fn leaf_query(rng: &mut Rng) -> String {
    let (range_s, offset) = (
        rng.pick(&[20, 30, 45, 60, 300]),
        rng.pick(&["", "", " offset 7s", " offset -13s", " offset 1m"]),
    );
    let (function, pipeline) = (rng.pick(&FUNCTIONS), rng.pick(&PIPELINES));
    let selector =
        rng.pick(&["{app=~`.+`}", r#"{app="a"}"#, r#"{app=~`.+`, pod!="2"}"#, "{app=`none`}"]);
    format!("{function}({selector} {pipeline} [{range_s}s]{offset})")
}

fn query(rng: &mut Rng) -> String {
    let side = |rng: &mut Rng| {
        let (around, inner) = (*rng.pick(&AROUND), leaf_query(rng));
        around.replace('%', &inner)
    };
    let left = side(rng);
    if !rng.one_in(3) {
        return left;
    }
    let op = rng.pick(&["+", "/", "and", "unless", "> bool", "or"]);
    format!("({left}) {op} ({})", side(rng))
}

fn entry(rng: &mut Rng, now_ns: i64) -> (Labels, TestEntry) {
    let (app, pod) = (*rng.pick(&["a", "b", "c"]), *rng.pick(&["1", "2", "3"]));
    let labels = Labels::from_pairs([("app", app), ("pod", pod)]).expect("labels");
    // Some exactly at the ends of windows, some late, some of the future.
    let back_s = *rng.pick(&[0, 1, 3, 9, 30, 200, 400, -5]);
    let nanos = *rng.pick(&[0, 0, 1, -1, 500_000_000]);
    let n = rng.below(9);
    let line = match rng.below(60) {
        0 => String::new(),
        1 => "{broken".to_owned(),
        2..30 => format!("n={n} x"),
        _ => format!("n={n} y"),
    };
    let line = if rng.one_in(2) { format!(r#"{{"n":"{n}","x":"{line}"}}"#) } else { line };
    let metadata = match rng.one_in(4) {
        true => vec![("env".to_owned(), rng.pick(&["p", "q"]).to_string())],
        false => Vec::new(),
    };
    let timestamp_ns = now_ns - back_s * SECOND_NS + nanos;
    (labels, TestEntry { timestamp_ns, line: line.into_bytes(), metadata })
}

fn store_of(entries: &Entries) -> TestStore {
    let mut store = TestStore::new();
    entries.iter().for_each(|(labels, entry)| store.push(labels, entry.clone()));
    store
}

/// How often parts were known, and how often an evaluation failed.
#[derive(Default, Debug)]
struct Tally {
    evaluations: usize,
    known_parts: usize,
    read_parts: usize,
    failed: usize,
    not_empty: usize,
}

/// What was found for a window's parts, by the key of the window. A change since is in the list.
type Known = BTreeMap<String, (KnownParts, Vec<(i64, i64)>)>;

fn in_parts(
    plan: &Plan,
    store: &TestStore,
    interval_ns: i64,
    known: &mut Known,
    layout: &Layout,
    tally: &mut Tally,
) -> Result<QueryResult, EvalError> {
    let mut merge = MergeState::new(plan);
    let run = |leaf: &_| store.run_leaf_on_all(leaf, layout).expect("a leaf");
    for leaf in plan.leaves() {
        let Some(window) = leaf.parts(interval_ns) else {
            run(leaf).into_iter().for_each(|result| merge.add(result));
            continue;
        };
        let found = known.remove(&window.key());
        let missing = match &found {
            Some((parts, changed)) => window.missing(parts, changed),
            None => 0..window.count(),
        };
        tally.read_parts += missing.len();
        tally.known_parts += window.count() as usize - missing.len();
        let fresh = match missing.is_empty() {
            true => Vec::new(),
            false => run(&window.leaf_of(&missing)),
        };
        match window.completed(found.as_ref().map(|(parts, _)| parts), &missing, fresh) {
            Ok((parts, result)) => {
                known.insert(window.key(), (parts, Vec::new()));
                merge.add(result);
            }
            Err(failed) => failed.into_iter().for_each(|result| merge.add(result)),
        }
    }
    merge.finish()
}

/// Evaluates a query again and again while entries come and go.
fn check(seed: u64, tally: &mut Tally) {
    let rng = &mut Rng::new(seed);
    let text = query(rng);
    let expr = syntax::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let interval_ns = rng.pick(&[5, 7, 10, 15, 30, 60]) * SECOND_NS;
    let mut now_ns = 1_700_000_000 * SECOND_NS + rng.below(3) as i64 * 500_000_001;
    let (mut entries, mut known) = (Entries::new(), Known::new());
    for _ in 0..12 {
        let mut changed = Vec::new();
        for _ in 0..rng.below(20) {
            let one = entry(rng, now_ns);
            changed.push((one.1.timestamp_ns, one.1.timestamp_ns + 1));
            entries.push(one);
        }
        if rng.one_in(3) && !entries.is_empty() {
            // A request for deletion, or retention.
            let gone = entries[rng.below(entries.len())].1.timestamp_ns;
            entries.retain(|(_, entry)| entry.timestamp_ns != gone);
            changed.push((gone, gone + 1));
        }
        known.values_mut().for_each(|(_, since)| since.extend(&changed));
        let mut params = QueryParams::instant(now_ns);
        params.limits.max_series = *rng.pick(&[0, 0, 500, 4]);
        let plan = Plan::new(&expr, &params).expect("a plan");
        let (store, shards) = (store_of(&entries), 1 + rng.below(3));
        let layout = Layout {
            shards,
            block_entries: 1 + rng.below(30),
            scatter_blocks: shards > 1,
            ..Layout::default()
        };
        let plain = store.run(&plan, &layout).map_err(|error| error.to_string());
        let found = in_parts(&plan, &store, interval_ns, &mut known, &layout, tally);
        let found = found.map_err(|error| error.to_string());
        tally.evaluations += 1;
        tally.failed += usize::from(plain.is_err());
        tally.not_empty +=
            usize::from(matches!(&plain, Ok(QueryResult::Vector(samples)) if !samples.is_empty()));
        // As texts, so that NaN equals itself; floats are printed exactly.
        assert_eq!(format!("{found:?}"), format!("{plain:?}"), "seed {seed}: {text} at {now_ns}");
        // Mostly the next evaluation comes in time.
        now_ns += interval_ns * if rng.one_in(8) { rng.below(40) as i64 } else { 1 };
    }
}

#[test]
fn windows_of_parts_give_the_answers_of_whole_windows() {
    let mut tally = Tally::default();
    for seed in 0..1_500 {
        check(seed, &mut tally);
    }
    // The cases are neither all empty nor all failed, and parts do serve again.
    assert!(tally.known_parts * 2 > tally.read_parts, "{tally:?}");
    assert!(tally.failed * 3 < tally.evaluations && tally.failed > 100, "{tally:?}");
    assert!(tally.not_empty * 4 > tally.evaluations, "{tally:?}");
}
