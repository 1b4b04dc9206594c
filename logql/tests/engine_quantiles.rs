//! Quantiles over values alone are those over whole samples, bit for bit, and take 8 bytes a value.

use logsvc_logql::engine::testing::{Columns, Layout, TestEntry, TestStore};
use logsvc_logql::engine::{LeafExecutor, Plan, QueryParams, QueryResult};
use logsvc_logql::syntax;
use logsvc_logql::testing::Rng;
use logsvc_proto::Labels;

const MS: i64 = 1_000_000;

const VALUES: [&str; 9] = ["1", "2.5", "-3", "0", "-0", "NaN", "+Inf", "-Inf", "1e300"];

fn store(rng: &mut Rng) -> TestStore {
    let mut store = TestStore::new();
    for stream in 0..1 + rng.below(5) {
        let stream = stream.to_string();
        let labels = Labels::from_pairs([("app", "m"), ("s", stream.as_str())]).expect("labels");
        for number in 0..rng.below(80) {
            let value = match rng.below(3) {
                0 => (*rng.pick(&VALUES)).to_owned(),
                _ => format!("{}.{number}", rng.below(50)),
            };
            let level = rng.pick(&["info", "warn"]);
            let line = format!("level={level} n={number} v={value}");
            store.push_line(&labels, rng.below(40_000) as i64 * MS, &line);
        }
    }
    store
}

fn bits(result: &QueryResult) -> Vec<u64> {
    match result {
        QueryResult::Matrix(matrix) => {
            matrix.iter().flat_map(|series| &series.points).map(|p| p.value.to_bits()).collect()
        }
        QueryResult::Vector(samples) => samples.iter().map(|s| s.point.value.to_bits()).collect(),
        QueryResult::Streams(_) | QueryResult::Scalar { .. } => Vec::new(),
    }
}

#[test]
fn values_alone_give_the_quantiles_of_samples() {
    let mut answered = 0;
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let store = store(&mut rng);
        let q = rng.pick(&["0", "0.3", "0.5", "0.99", "1", "1.5"]);
        let range = 1 + rng.below(9000);
        let offset = ["", " offset 1s", " offset 2500ms"][rng.below(3)];
        let by = ["", "by (level)", "by ()", "without (s, n)"][rng.below(4)];
        let query = format!(
            r#"quantile_over_time({q}, {{app="m"}} | logfmt | unwrap v [{range}ms]{offset}) {by}"#
        );
        let params = match rng.below(4) {
            0 => QueryParams::instant(rng.below(45_000) as i64 * MS),
            _ => QueryParams::range(0, 45_000 * MS, (1 + rng.below(6000)) as i64 * MS),
        };
        let expr = syntax::parse(&query).expect("a query");
        let plan = Plan::new(&expr, &params).expect("a plan");
        let layout = Layout {
            shards: 1 + rng.below(5),
            block_entries: 1 + rng.below(40),
            sort_blocks: rng.one_in(2),
            scatter_blocks: rng.one_in(2),
            ..Layout::default()
        };
        let case = format!("seed {seed}: {query} {params:?} {layout:?}");
        let values = store.run(&plan, &layout);
        let samples = store.run(&plan.clone().keeping_samples(), &Layout::PLAIN);
        let (Ok(values), Ok(samples)) = (&values, &samples) else {
            assert_eq!(values.is_err(), samples.is_err(), "{case}");
            continue;
        };
        assert_eq!(format!("{values:?}"), format!("{samples:?}"), "{case}");
        assert_eq!(bits(values), bits(samples), "{case}");
        answered += usize::from(!bits(values).is_empty());
    }
    assert!(answered > 150, "{answered} answers");
}

/// Bytes of a leaf and of its result for a million values in few series.
fn held_bytes(plan: &Plan) -> (usize, usize) {
    let mut executor = LeafExecutor::new(&plan.leaves()[0]).expect("a leaf");
    let labels = Labels::from_pairs([("app", "m")]).expect("labels");
    let mut state = executor.stream(&labels);
    for block in 0..1000i64 {
        let entry = |i: i64| TestEntry {
            timestamp_ns: (block * 1000 + i) * MS,
            line: format!("v={} level={}", i * 37 % 1009, i % 3).into_bytes(),
            metadata: Vec::new(),
        };
        let entries: Vec<TestEntry> = (0..1000).map(entry).collect();
        executor.block(&mut state, &Columns::new(&entries, true).block(0));
    }
    let held = executor.held_bytes();
    (held, executor.finish().held_bytes())
}

#[test]
fn a_value_takes_little_more_than_eight_bytes() {
    let query = r#"quantile_over_time(0.99, {app="m"} | logfmt | unwrap v [1m]) by (level)"#;
    let params = QueryParams::range(0, 1_020_000 * MS, 60_000 * MS);
    let plan = Plan::new(&syntax::parse(query).expect("a query"), &params).expect("a plan");
    let values = held_bytes(&plan);
    let samples = held_bytes(&plan.keeping_samples());
    println!("values: {values:?}, whole samples: {samples:?} bytes for a million");
    assert!(values.0 < 8_500_000 && values.1 < 8_500_000, "{values:?}");
}
