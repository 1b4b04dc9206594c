//! Volumes: bytes per bucket of time and labels of the streams, whatever the layout.

use std::collections::BTreeMap;

use logsvc_logql::engine::testing::{Layout, TestEntry, TestStore};
use logsvc_logql::engine::{Plan, QueryResult, SizeOf, StreamLabels};
use logsvc_logql::syntax::{parse_matchers, parse_selector};
use logsvc_proto::Labels;

const SECOND_NS: i64 = 1_000_000_000;

/// Streams `a`, `b` and `c`; the last has no `env`, and its entries claim one.
fn store() -> TestStore {
    let mut store = TestStore::new();
    let streams =
        [[("app", "a"), ("env", "x")].as_slice(), &[("app", "b"), ("env", "x")], &[("app", "c")]];
    for (number, pairs) in streams.into_iter().enumerate() {
        let labels = Labels::from_pairs(pairs.iter().copied()).expect("valid names");
        for second in 0..40 {
            // 15 bytes for each entry, so that the estimate is exact.
            let metadata = vec![("env".to_owned(), "of-the-entry".to_owned())];
            // Lengths 1, 2 and 3.
            let line = b"xyz"[..=number].to_vec();
            let late = if second % 7 == 0 { 3 } else { 0 };
            let timestamp_ns = (second - late) * SECOND_NS + second;
            store.push(&labels, TestEntry { timestamp_ns, line, metadata });
        }
    }
    store
}

type Volumes = BTreeMap<String, Vec<(i64, f64)>>;

fn volumes(
    query: &str,
    names: Option<&[&str]>,
    range_ns: (i64, i64),
    step_ns: Option<i64>,
) -> Volumes {
    let listed = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let by = names.map_or(StreamLabels::All, |names| StreamLabels::Listed(listed(names)));
    volumes_by(query, by, range_ns, step_ns)
}

fn volumes_by(
    query: &str,
    by: StreamLabels,
    range_ns: (i64, i64),
    step_ns: Option<i64>,
) -> Volumes {
    let selector = parse_matchers(query).expect("a selector");
    let plan = Plan::volume(&selector, by, range_ns, step_ns, SizeOf::Entry).expect("a plan");
    let store = store();
    let mut found: Option<Volumes> = None;
    for (shards, block_entries, sort_blocks) in
        [(1, 1000, true), (1, 4, true), (2, 7, false), (3, 1, true)]
    {
        let scatter_blocks = shards > 1;
        let layout =
            Layout { shards, block_entries, sort_blocks, scatter_blocks, ..Layout::default() };
        let Ok(QueryResult::Matrix(series)) = store.run(&plan, &layout) else {
            panic!("{query}: no matrix")
        };
        let series = series.iter().map(|series| {
            let points = series.points.iter().map(|point| (point.timestamp_ms, point.value));
            (series.labels.canonical(), points.collect())
        });
        let series: Volumes = series.collect();
        if let Some(found) = &found {
            assert_eq!(*found, series, "{query}: {layout:?}");
        }
        found = Some(series);
    }
    found.expect("several layouts")
}

fn expected<const N: usize>(series: [(&str, &[(i64, f64)]); N]) -> Volumes {
    series.into_iter().map(|(labels, points)| (labels.to_owned(), points.to_vec())).collect()
}

#[test]
fn one_bucket_holds_the_whole_range_and_no_more() {
    // Seconds 10 to 19; some lines are from later.
    let range = (10 * SECOND_NS, 20 * SECOND_NS);
    let lines = (0..40)
        .map(|second| if second % 7 == 0 { second - 3 } else { second })
        .filter(|second| (10..20).contains(second))
        .count() as f64;
    let found = volumes(r#"{app=~".+"}"#, Some(&["app"]), range, None);
    let of = |bytes: f64| [(19_999, lines * bytes)];
    let [a, b, c] = [of(16.0), of(17.0), of(18.0)];
    let two = [(19_999, a[0].1 + b[0].1)];
    let all = expected([(r#"{app="a"}"#, &a), (r#"{app="b"}"#, &b), (r#"{app="c"}"#, &c)]);
    assert_eq!(found, all);
    // Labels that entries carry make no series.
    let found = volumes(r#"{app=~".+"}"#, Some(&["env"]), range, None);
    assert_eq!(found, expected([("{}", &c), (r#"{env="x"}"#, &two)]));
    let found = volumes("{}", None, range, None);
    let whole = [
        (r#"{app="a", env="x"}"#, a.as_slice()),
        (r#"{app="b", env="x"}"#, &b),
        (r#"{app="c"}"#, &c),
    ];
    assert_eq!(found, expected(whole));
    assert_eq!(volumes(r#"{app="none"}"#, None, range, None), expected([]));
    // Streams with labels of the same names, whatever their values are.
    let found = volumes_by("{}", StreamLabels::Names(None), range, None);
    assert_eq!(found, expected([(r#"{app="", env=""}"#, &two), (r#"{app=""}"#, &c)]));
    let by = StreamLabels::Names(Some(vec!["env".to_owned()]));
    let found = volumes_by("{}", by, range, None);
    assert_eq!(found, expected([(r#"{env=""}"#, &two), ("{}", &c)]));
}

#[test]
fn buckets_begin_at_multiples_of_the_step_and_are_cut_by_the_range() {
    // From second 8 on, so the first bucket, 0 to 15, is cut.
    let range = (8 * SECOND_NS, 31 * SECOND_NS);
    let found = volumes(r#"{app="b"}"#, Some(&["app"]), range, Some(15 * SECOND_NS));
    let seconds = |from: i64, to: i64| {
        let late = |second: i64| if second % 7 == 0 { second - 3 } else { second };
        (0..40).map(late).filter(|second| (from..to).contains(second)).count() as f64 * 17.0
    };
    let points = [(14_999, seconds(8, 15)), (29_999, seconds(15, 30)), (44_999, seconds(30, 31))];
    assert_eq!(found, expected([(r#"{app="b"}"#, &points)]));
    // Empty buckets are not there.
    let found = volumes(r#"{app="b"}"#, None, (38 * SECOND_NS, 100 * SECOND_NS), Some(SECOND_NS));
    let [points] = found.into_values().collect::<Vec<_>>().try_into().expect("one series");
    assert_eq!(points, [(38_999, 17.0), (39_999, 17.0)]);
}

#[test]
fn bad_ranges_and_steps_are_refused() {
    let selector = parse_selector(r#"{app="a"}"#).expect("a selector");
    let refused = |range, step| {
        let plan = Plan::volume(&selector, StreamLabels::All, range, step, SizeOf::Entry);
        plan.map(|_| ()).expect_err("a refusal").to_string()
    };
    assert!(refused((5, 5), None).starts_with("end timestamp must not be before"));
    assert!(refused((0, 5), Some(0)).starts_with("zero or negative query resolution step"));
    assert!(refused((0, SECOND_NS), Some(1)).starts_with("exceeded maximum resolution of 11,000"));
    assert!(refused((0, i64::MAX), Some(i64::MAX - 1)).contains("too large"));
    assert!(refused((i64::MIN, i64::MAX), None).contains("too large"));
    assert!(
        Plan::volume(&selector, StreamLabels::All, (0, 11_000), Some(1), SizeOf::Entry).is_ok()
    );
}

#[test]
fn metadata_counts_and_is_estimated_for_most_blocks() {
    let mut store = TestStore::new();
    let labels = Labels::from_pairs([("app", "a")]).expect("a valid name");
    let (mut lines, mut metadata_sum) = (0, 0);
    for second in 0..4096i64 {
        let value = "v".repeat((second * 7919 % 23) as usize + 1);
        let (line, metadata) = (b"line".to_vec(), vec![("name".to_owned(), value)]);
        lines += line.len();
        metadata_sum += 4 + metadata[0].1.len();
        store.push(&labels, TestEntry { timestamp_ns: second * SECOND_NS, line, metadata });
    }
    let volume = |layout: &Layout, range_ns, step_ns| {
        let selector = parse_selector(r#"{app="a"}"#).expect("a selector");
        let plan = Plan::volume(
            &selector,
            StreamLabels::Listed(Vec::new()),
            range_ns,
            step_ns,
            SizeOf::Entry,
        )
        .expect("a plan");
        let Ok(QueryResult::Matrix(series)) = store.run(&plan, layout) else { panic!("no matrix") };
        series[0].points.iter().map(|point| point.value).collect::<Vec<_>>()
    };
    let whole = (0, 4096 * SECOND_NS);
    let exact = (lines + metadata_sum) as f64;
    assert_eq!(volume(&Layout::PLAIN, whole, None), [exact]);
    let in_blocks = Layout { block_entries: 64, ..Layout::default() };
    let [estimated] = volume(&in_blocks, whole, None)[..] else { panic!("one bucket") };
    assert!((estimated / exact - 1.0).abs() < 0.05, "{estimated}, in truth {exact}");
    // Every block is cut by a bucket, so all are read.
    let of = |layout: &Layout| volume(layout, whole, Some(60 * SECOND_NS));
    assert_eq!(of(&in_blocks), of(&Layout::PLAIN));
}
