use std::num::NonZeroUsize;

use super::*;

fn filled() -> Bench {
    let mut bench = Bench::new();
    let streams = [
        definition(&[("app", "a"), ("env", "prod")]),
        definition(&[("app", "a"), ("env", "dev")]),
        definition(&[("app", "b"), ("zone", "x")]),
    ];
    let sections: [(&StreamDefinition, &[(i64, &str)]); 3] = [
        (&streams[0], &[(10, "one"), (20, "two")]),
        (&streams[1], &[(30, "three")]),
        (&streams[2], &[(25, "four"), (15, "late")]),
    ];
    assert!(bench.append(push(&sections)).is_ok());
    let other = TenantId::new("other").unwrap();
    let labels = Arc::new(Labels::from_pairs([("app", "theirs")]).unwrap());
    let theirs = StreamDefinition { id: StreamId::new(&other, &labels), tenant: other, labels };
    assert!(bench.append(push(&[(&theirs, &[(10, "x")])])).is_ok());
    bench
}

fn texts(reply: ShardReply) -> Vec<String> {
    let ShardReply::Texts(texts, _) = reply else { panic!("{reply:?}") };
    texts.iter().map(|text| text.to_string()).collect()
}

fn range(start_ns: i64, end_ns: i64) -> TimeRange {
    TimeRange { start_ns, end_ns }
}

#[test]
fn names_values_and_series_go_by_matchers_and_range() {
    let mut bench = filled();
    let mut names = |groups: &[&str], range| {
        texts(bench.ask(ShardRequest::LabelNames(everything(groups, range))))
    };
    assert_eq!(names(&[], ALL), ["app", "env", "zone"]);
    assert_eq!(names(&["{app=`a`}"], ALL), ["app", "env"]);
    assert_eq!(names(&["{app=`b`}", "{env=`dev`}"], ALL), ["app", "env", "zone"]);
    assert_eq!(names(&[], range(30, 31)), ["app", "env"]);
    assert_eq!(names(&[], range(21, 25)), ["app", "zone"], "between the stream's bounds");
    assert!(names(&[], range(31, 100)).is_empty());
    assert!(names(&[], range(0, 10)).is_empty(), "the end is excluded");
    assert!(names(&["{app=`a`, zone=`x`}"], ALL).is_empty());

    let mut bench = filled();
    let mut values = |name: &str, groups: &[&str], range| {
        texts(bench.ask(ShardRequest::LabelValues(everything(groups, range), name.into())))
    };
    assert_eq!(values("app", &[], ALL), ["a", "b"]);
    assert_eq!(values("env", &[], ALL), ["dev", "prod"]);
    assert_eq!(values("env", &["{app=`a`}"], range(0, 21)), ["prod"]);
    assert_eq!(values("app", &["{env!=`prod`, app=~`.+`}"], ALL), ["a", "b"]);
    assert!(values("missing", &[], ALL).is_empty());

    let mut bench = filled();
    let mut series = |groups: &[&str], range| bench.series(everything(groups, range));
    let [prod, dev, b] =
        ["{app=\"a\", env=\"prod\"}", "{app=\"a\", env=\"dev\"}", "{app=\"b\", zone=\"x\"}"];
    assert_eq!(series(&[], ALL), [prod, dev, b]);
    assert_eq!(series(&["{env=~`.+`}"], ALL), [prod, dev]);
    assert_eq!(series(&["{zone=`x`}", "{env=`prod`}", "{zone=~`x`}"], ALL), [prod, b]);
    assert_eq!(series(&[], range(15, 16)), [prod, b]);
}

#[test]
fn tenants_see_only_their_own() {
    let mut bench = filled();
    let selection =
        StreamSelection { tenants: TenantId::new("other").unwrap().into(), ..everything(&[], ALL) };
    assert_eq!(bench.series(selection.clone()), ["{app=\"theirs\"}"]);
    let nobody = StreamSelection { tenants: TenantId::new("nobody").unwrap().into(), ..selection };
    assert!(bench.series(nobody.clone()).is_empty());
    assert!(texts(bench.ask(ShardRequest::LabelNames(nobody.clone()))).is_empty());
    assert!(texts(bench.ask(ShardRequest::LabelValues(nobody, "app".into()))).is_empty());
    let streams = bench.status().streams;
    assert_eq!(
        streams.iter().map(|(t, n)| (t.as_str(), *n)).collect::<Vec<_>>(),
        [("acme", 3), ("other", 1)]
    );
}

/// Scans on the core, and scans that are computed aside after their first block.
const BOTH_WAYS: [Duration; 2] = [Duration::MAX, Duration::ZERO];

#[test]
fn late_entries_are_read_in_order() {
    for first_slice in BOTH_WAYS {
        let mut bench = Bench { first_slice, ..filled() };
        let streams = bench.query("acme", "{app=`b`}");
        assert_eq!(streams[0].1, [(15, "late".to_string()), (25, "four".to_string())]);
    }
}

#[test]
fn a_scan_finds_the_same_on_the_core_and_aside() {
    for query in
        ["{app=~`.+`}", "{app=~`.+`} |= `o` != `w`", "{app=`a`} | label_format x=`{{.env}}`"]
    {
        let [here, aside] =
            BOTH_WAYS.map(|first_slice| Bench { first_slice, ..filled() }.query("acme", query));
        assert!(!here.is_empty(), "{query}");
        assert_eq!(here, aside, "{query}");
    }
}

#[test]
fn a_part_that_decides_the_answer_stops_the_others() {
    for (max_series, ends_query) in [(2, true), (3, false)] {
        let expr = syntax::parse("rate({app=~`.+`}[1s])").unwrap();
        let mut params = QueryParams::instant(100);
        params.limits.max_series = max_series;
        let plan = Plan::new(&expr, &params).unwrap();
        let leaf = LeafRequest {
            tenants: tenant().into(),
            plan: Arc::new(plan.leaves()[0].clone()),
            deletions: DeletionVersion::NONE,
            cancellation: Cancellation::default(),
            account: Account::alone(1 << 20),
            entries_each: None,
        };
        let cancellation = leaf.cancellation.clone();
        let ShardReply::Leaf(Ok(reply)) = filled().ask(ShardRequest::Leaf(leaf)) else { panic!() };
        assert_eq!(
            (reply.result.ends_query(), cancellation.is_cancelled()),
            (ends_query, ends_query)
        );
    }
}

#[test]
fn a_cancelled_query_has_no_result() {
    BOTH_WAYS.into_iter().for_each(a_cancelled_query_has_none);
}

fn a_cancelled_query_has_none(first_slice: Duration) {
    let mut bench = Bench { first_slice, ..filled() };
    let expr = syntax::parse("{app=~`.+`}").unwrap();
    let plan = Plan::new(&expr, &QueryParams::range(0, 100, 1)).unwrap();
    let mut leaf = LeafRequest {
        tenants: tenant().into(),
        plan: Arc::new(plan.leaves()[0].clone()),
        deletions: DeletionVersion::NONE,
        cancellation: Cancellation::default(),
        account: Account::alone(1 << 20),
        entries_each: None,
    };
    let ShardReply::Leaf(Ok(reply)) = bench.ask(ShardRequest::Leaf(leaf.clone())) else { panic!() };
    assert_eq!((reply.stats.streams, reply.stats.head_blocks), (3, 3));
    leaf.account = Account::alone(1);
    let ShardReply::Leaf(reply) = bench.ask(ShardRequest::Leaf(leaf.clone())) else { panic!() };
    assert_eq!(reply.err(), Some(scan::ScanError::Memory { max_bytes: 1 }));
    leaf.cancellation.cancel();
    let ShardReply::Leaf(reply) = bench.ask(ShardRequest::Leaf(leaf)) else { panic!() };
    assert_eq!(reply.err(), Some(scan::ScanError::Cancelled));
}

#[test]
fn shards_of_some_streams_look_for_their_share_of_the_lines_if_they_may() {
    let expr = syntax::parse("{app=~`.+`}").unwrap();
    let plan = Plan::new(&expr, &QueryParams::range(0, 100, 1)).unwrap();
    let lines: Vec<(i64, &str)> = (0..9).map(|at| (at, "a line")).collect();
    for (streams, each, wanted) in
        [(3, Some(2), (27, 0)), (4, Some(2), (2, 1)), (4, None, (36, 0)), (4, Some(900), (36, 0))]
    {
        let mut bench = Bench::new();
        for stream in 0..streams {
            bench.stores(push(&[(&app(&format!("app {stream}")), &lines)]));
        }
        let leaf = LeafRequest {
            tenants: tenant().into(),
            plan: Arc::new(plan.leaves()[0].clone()),
            deletions: DeletionVersion::NONE,
            cancellation: Cancellation::default(),
            account: Account::alone(1 << 20),
            entries_each: each.and_then(NonZeroUsize::new),
        };
        let ShardReply::Leaf(Ok(reply)) = bench.ask(ShardRequest::Leaf(leaf)) else { panic!() };
        let cut_leaves = reply.stats.cut_leaves;
        let mut merge = MergeState::new(&plan);
        merge.add(reply.result);
        let Ok(QueryResult::Streams(found)) = merge.finish() else { panic!() };
        let entries: usize = found.iter().map(|stream| stream.entries.len()).sum();
        assert_eq!((entries, cut_leaves), wanted, "{streams} streams, {each:?}");
    }
}
