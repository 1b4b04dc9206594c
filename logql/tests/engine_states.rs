//! Functions over unwrapped values are those of a naive reading of all samples, and the same bit
//! for bit whatever leaves keep and however entries are spread.

use std::collections::BTreeMap;

use logsvc_logql::engine::testing::{Columns, Layout, TestEntry, TestStore};
use logsvc_logql::engine::{LeafExecutor, Plan, QueryParams, QueryResult};
use logsvc_logql::syntax;
use logsvc_logql::testing::Rng;
use logsvc_proto::Labels;

const MS: i64 = 1_000_000;

const FUNCTIONS: [&str; 10] = [
    "min_over_time",
    "max_over_time",
    "first_over_time",
    "last_over_time",
    "sum_over_time",
    "avg_over_time",
    "rate",
    "stddev_over_time",
    "stdvar_over_time",
    "absent_over_time",
];

/// Values whose sums and squares every reading has exactly.
fn plain_value(rng: &mut Rng) -> f64 {
    match rng.below(12) {
        0 => 0.0,
        1 => -0.0,
        2 => f64::NAN,
        3 => [f64::INFINITY, f64::NEG_INFINITY][rng.below(2)],
        _ => (rng.below(4096) as f64 - 1000.0) / 16.0,
    }
}

/// Values that lose digits where they are added one by one.
fn odd_value(rng: &mut Rng) -> f64 {
    match rng.below(5) {
        0 => *rng.pick(&[1e308, -1e308, 5e-324, -3e-310, 1e16, 0.0, -0.0]),
        1 => f64::from_bits(rng.next_u64()),
        _ => rng.below(1_000_000) as f64 / 977.0,
    }
}

/// A sample of the store.
struct Sample {
    time_ms: i64,
    stream: usize,
    level: &'static str,
    value: f64,
}

fn store(rng: &mut Rng, value: fn(&mut Rng) -> f64) -> (TestStore, Vec<Sample>) {
    let (mut store, mut samples) = (TestStore::new(), Vec::new());
    // Few times, so that many are equal, or many.
    let times = *rng.pick(&[60, 40_000]);
    for stream in 0..1 + rng.below(5) {
        let name = stream.to_string();
        let labels = Labels::from_pairs([("app", "m"), ("s", name.as_str())]).expect("labels");
        for number in 0..rng.below(120) {
            let time_ms = rng.below(times) as i64 * (40_000 / times as i64);
            let (level, value) = (*rng.pick(&["info", "warn"]), value(rng));
            let text = match value {
                value if value.is_infinite() => if value > 0.0 { "+Inf" } else { "-Inf" }.into(),
                value if value.is_nan() => "NaN".to_owned(),
                value => format!("{value:e}"),
            };
            store.push_line(&labels, time_ms * MS, &format!("level={level} n={number} v={text}"));
            samples.push(Sample { time_ms, stream, level, value });
        }
    }
    (store, samples)
}

/// The value of a function over samples, and how much it may be off in relation to itself. `None`
/// where equal times leave it open.
fn naive(function: &str, range_ms: i64, samples: &[&Sample]) -> Option<(f64, f64)> {
    let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
    let count = values.len() as f64;
    let sum: f64 = values.iter().sum::<f64>() + 0.0;
    let mut numbers: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    numbers.sort_by(f64::total_cmp);
    let at = |time_ms: i64| -> Option<(f64, f64)> {
        let mut there = samples.iter().filter(|sample| sample.time_ms == time_ms);
        let only = there.next().map(|sample| (sample.value, 0.0));
        if there.next().is_some() { None } else { only }
    };
    let variance = || {
        let mean = sum / count;
        values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / count
    };
    Some(match function {
        "min_over_time" => (numbers.first().copied().unwrap_or(f64::NAN), 0.0),
        "max_over_time" => (numbers.last().copied().unwrap_or(f64::NAN), 0.0),
        "first_over_time" => at(samples.iter().map(|sample| sample.time_ms).min()?)?,
        "last_over_time" => at(samples.iter().map(|sample| sample.time_ms).max()?)?,
        "sum_over_time" => (sum, 0.0),
        "avg_over_time" => (sum / count, 0.0),
        "rate" => (sum / (range_ms as f64 / 1e3), 0.0),
        "stddev_over_time" => (variance().sqrt(), 1e-9),
        "stdvar_over_time" => (variance(), 1e-9),
        other => panic!("{other} has no naive reading"),
    })
}

/// The points of an answer: the value of a label, the time in milliseconds, and the value.
fn points(result: &QueryResult, label: &str) -> BTreeMap<(String, i64), f64> {
    let key = |labels: &Labels, time_ms| (labels.get(label).unwrap_or("").to_owned(), time_ms);
    match result {
        QueryResult::Matrix(matrix) => matrix
            .iter()
            .flat_map(|one| one.points.iter().map(|p| (key(&one.labels, p.timestamp_ms), p.value)))
            .collect(),
        QueryResult::Vector(samples) => samples
            .iter()
            .map(|one| (key(&one.labels, one.point.timestamp_ms), one.point.value))
            .collect(),
        QueryResult::Streams(_) | QueryResult::Scalar { .. } => BTreeMap::new(),
    }
}

fn layout(rng: &mut Rng) -> Layout {
    Layout {
        shards: 1 + rng.below(5),
        block_entries: 1 + rng.below(40),
        sort_blocks: rng.one_in(2),
        scatter_blocks: rng.one_in(2),
        ..Layout::default()
    }
}

/// The times at which a query is evaluated, in milliseconds, and its parameters.
fn params(rng: &mut Rng) -> (Vec<i64>, QueryParams) {
    if rng.one_in(5) {
        let time_ms = rng.below(45_000) as i64;
        return (vec![time_ms], QueryParams::instant(time_ms * MS));
    }
    let step_ms = 1 + rng.below(6000) as i64;
    let times = (0..).map(|step| step * step_ms).take_while(|time_ms| *time_ms <= 45_000);
    let mut params = QueryParams::range(0, 45_000 * MS, step_ms * MS);
    params.limits.max_steps = 0;
    (times.collect(), params)
}

fn planned(query: &str, params: &QueryParams) -> Plan {
    Plan::new(&syntax::parse(query).expect("a query"), params).expect("a plan")
}

#[test]
fn states_give_what_a_naive_reading_gives() {
    let mut compared = 0;
    for seed in 0..1000 {
        let mut rng = Rng::new(seed);
        let (store, samples) = store(&mut rng, plain_value);
        let function = *rng.pick(&FUNCTIONS[..9]);
        let label = *rng.pick(&["level", "s", ""]);
        let (range_ms, offset_ms) = (1 + rng.below(9000) as i64, *rng.pick(&[0, 1000, 2500]));
        let query = format!(
            r#"{function}({{app="m"}} | logfmt | unwrap v [{range_ms}ms] offset {offset_ms}ms)"#
        );
        // Rates take no grouping.
        let query = match function {
            "rate" => format!("sum by ({label}) ({query})"),
            "sum_over_time" => format!("sum by ({label}) ({query})"),
            _ => format!("{query} by ({label})"),
        };
        let (times, params) = params(&mut rng);
        let layout = layout(&mut rng);
        let case = format!("seed {seed}: {query} {params:?} {layout:?}");
        let result = store.run(&planned(&query, &params), &layout);
        let found = points(&result.unwrap_or_else(|error| panic!("{case}: {error}")), label);
        let mut windows: BTreeMap<(String, i64), Vec<&Sample>> = BTreeMap::new();
        for sample in &samples {
            let series = match label {
                "level" => sample.level.to_owned(),
                "s" => sample.stream.to_string(),
                _ => String::new(),
            };
            for time_ms in &times {
                let end_ms = time_ms - offset_ms;
                if (end_ms - range_ms + 1..=end_ms).contains(&sample.time_ms) {
                    windows.entry((series.clone(), *time_ms)).or_default().push(sample);
                }
            }
        }
        assert!(found.keys().eq(windows.keys()), "{case}");
        for (window, samples) in &windows {
            let Some((value, tolerance)) = naive(function, range_ms, samples) else { continue };
            let found = found[window];
            let same = found.to_bits() == value.to_bits()
                || found.is_nan() && value.is_nan()
                || (found - value).abs() <= tolerance * value.abs();
            assert!(same, "{case}: {window:?} has {found}, not {value}");
            compared += 1;
        }
    }
    assert!(compared > 10_000, "{compared} windows");
}

#[test]
fn the_answer_does_not_depend_on_what_leaves_keep() {
    let mut answered = 0;
    for seed in 0..1500 {
        let mut rng = Rng::new(seed);
        let value = if rng.one_in(3) { plain_value } else { odd_value };
        let (store, _) = store(&mut rng, value);
        let range = 1 + rng.below(9000);
        let by = ["", "by (level)", "by ()", "without (s, n)"][rng.below(4)];
        let mut call = || {
            let function = *rng.pick(&FUNCTIONS);
            let of = format!(r#"{{app="m"}} | logfmt | unwrap v [{range}ms]"#);
            match (function, rng.below(4)) {
                ("rate" | "sum_over_time", 0) => format!("sum {by} ({function}({of}))"),
                ("rate" | "sum_over_time" | "absent_over_time", _) => format!("{function}({of})"),
                (_, 0) => format!("quantile_over_time(0.3, {of}) {by}"),
                (_, 1) if !by.is_empty() => format!("max {by} (rate_counter({of}))"),
                (function, _) => format!("{function}({of}) {by}"),
            }
        };
        // Functions that read the same entries share a leaf.
        let query = match seed % 3 {
            0 => call(),
            1 => format!("{} or {}", call(), call()),
            _ => format!("max by (level) ({}) + min by (level) ({})", call(), call()),
        };
        let (_, params) = params(&mut rng);
        let layout = layout(&mut rng);
        let case = format!("seed {seed}: {query} {params:?} {layout:?}");
        let plan = planned(&query, &params);
        let kept = store.run(&plan, &layout);
        let whole = store.run(&plan.keeping_samples(), &Layout::PLAIN);
        let (Ok(kept), Ok(whole)) = (&kept, &whole) else {
            assert_eq!(kept.is_err(), whole.is_err(), "{case}");
            continue;
        };
        assert_eq!(format!("{kept:?}"), format!("{whole:?}"), "{case}");
        let bits = |result| -> Vec<u64> {
            points(result, "level").values().map(|value| value.to_bits()).collect()
        };
        assert_eq!(bits(kept), bits(whole), "{case}");
        answered += usize::from(!bits(kept).is_empty());
    }
    assert!(answered > 700, "{answered} answers");
}

/// Known steps of other grids are those of this grid.
#[test]
fn steps_do_not_depend_on_the_first_one() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let (store, _) = store(&mut rng, odd_value);
        let function = *rng.pick(&FUNCTIONS[..9]);
        let (range_ms, step_ms) = (1 + rng.below(9000), 1 + rng.below(2000) as i64);
        let query = format!(r#"max({function}({{app="m"}} | logfmt | unwrap v [{range_ms}ms]))"#);
        let mut grid = |first_step: i64| {
            let mut params =
                QueryParams::range(first_step * step_ms * MS, 45_000 * MS, step_ms * MS);
            params.limits.max_steps = 0;
            let result = store.run(&planned(&query, &params), &layout(&mut rng));
            points(&result.expect("an answer"), "")
        };
        let (whole, later) = (grid(0), grid(45_000 / step_ms / 2));
        for (key, value) in &later {
            assert_eq!(whole[key].to_bits(), value.to_bits(), "seed {seed}: {query} {key:?}");
        }
    }
}

/// Bytes of a leaf and of its result for a million values in three series and 17 cells.
fn held_bytes(plan: &Plan) -> (usize, usize) {
    let mut executor = LeafExecutor::new(&plan.leaves()[0]).expect("a leaf");
    let labels = Labels::from_pairs([("app", "m")]).expect("labels");
    let mut state = executor.stream(&labels);
    for block in 0..1000i64 {
        let entry = |i: i64| TestEntry {
            timestamp_ns: (block * 1000 + i) * MS,
            line: format!("v={}.{} level={}", i * 37 % 1009, i % 10, i % 3).into_bytes(),
            metadata: Vec::new(),
        };
        let entries: Vec<TestEntry> = (0..1000).map(entry).collect();
        executor.block(&mut state, &Columns::new(&entries, true).block(0));
    }
    let held = executor.held_bytes();
    (held, executor.finish().held_bytes())
}

#[test]
fn a_state_has_a_constant_size() {
    for function in ["max_over_time", "sum_over_time", "avg_over_time", "last_over_time"] {
        let query = format!(r#"{function}({{app="m"}} | logfmt | unwrap v [1m]) by (level)"#);
        // Sums take no grouping.
        let query = match function {
            "sum_over_time" => {
                query.replace("sum_over", "sum by (level) (sum_over").replace(") by (level)", "))")
            }
            _ => query,
        };
        let params = QueryParams::range(0, 1_020_000 * MS, 60_000 * MS);
        let plan = planned(&query, &params);
        let states = held_bytes(&plan);
        println!("{function}: {states:?} bytes for 51 cells");
        assert!(states.1 < 6_000, "{function}: {states:?}");
    }
}
