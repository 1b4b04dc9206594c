//! The bytes of leaves and of matchers: they come back as they were, and are harmless whatever they
//! are. `plan_wire/` has the leaves of all kinds, and the checks of what no plan has.

#[path = "plan_wire/leaves.rs"]
mod leaves;
#[path = "plan_wire/refused.rs"]
mod refused;

use leaves::{encoded, hand_made_leaves, random_leaves, random_plan};
use logsvc_fuzz_bodies::logql::{leaf_plan, leaf_plans, matchers};
use logsvc_logql::engine::testing::{Layout, TestEntry, TestStore};
use logsvc_logql::engine::{
    CompiledMatcher, Estimate, LeafError, LeafPlan, Plan, QueryParams, WireError, decode_matchers,
    encode_matchers, read_matchers,
};
use logsvc_logql::syntax::{self, MAX_QUERY_LEN_BYTES};
use logsvc_logql::testing::Generator;
use logsvc_proto::Labels;
use logsvc_testkit::{Rng, SeedGuard, seeds};

/// What leaves may have, as their `Debug` has it.
const PARTS: [&str; 49] = [
    "kind: Log",
    "kind: Range",
    "kind: Samples",
    "kind: Patterns",
    "direction: Forward",
    "direction: Backward",
    "after: Some",
    "places: true",
    "only_stream: Some",
    "value: One",
    "value: LineLength",
    "value: StoredSize",
    "series: All",
    "series: None",
    "series: Grouped(Grouping { kind: By",
    "series: Grouped(Grouping { kind: Without",
    "series: Stream(All)",
    "series: Stream(Listed(",
    "series: Stream(Names(None))",
    "series: Stream(Names(Some(",
    "keep: All",
    "keep: Values",
    "keep: State",
    "conversion: Number",
    "conversion: Bytes",
    "conversion: Duration,",
    "conversion: DurationSeconds",
    "series_limit: None",
    "grouping: None",
    "grouping: Some(Grouping { kind: By",
    "grouping: Some(Grouping { kind: Without",
    "LineFilters(",
    "Json(",
    "Logfmt(",
    "Regexp(",
    "Pattern(",
    "Unpack",
    "LabelFilter(",
    "LineFormat(",
    "LabelFormat(",
    "Decolorize",
    "Drop(",
    "Keep(",
    "op: Equal",
    "op: NotEqual",
    "op: Regex",
    "op: NotRegex",
    "filters: [And(",
    "filters: [Or(",
];

#[test]
fn every_leaf_comes_back_as_it_was() {
    let mut counts = [0; PARTS.len()];
    let mut check = |leaf: &LeafPlan| {
        let bytes = encoded(leaf);
        let decoded = LeafPlan::decode(&bytes);
        assert_eq!(decoded.as_ref(), Ok(leaf));
        assert_eq!(encoded(&decoded.expect("a leaf")), bytes);
        let text = format!("{leaf:?}");
        for (count, part) in counts.iter_mut().zip(PARTS) {
            *count += u32::from(text.contains(part));
        }
    };
    hand_made_leaves().iter().for_each(&mut check);
    for seed in seeds(4_000) {
        let _guard = SeedGuard(seed);
        random_leaves(&mut Rng::new(seed), seed).iter().for_each(&mut check);
    }
    let rare = PARTS.iter().zip(counts).filter(|(_, count)| *count < 3);
    assert_eq!(rare.collect::<Vec<_>>(), [], "{counts:?}");
}

/// The lists of queries that other tests have.
#[test]
fn the_leaves_of_listed_queries_come_back() {
    let lists = [
        include_str!("golden/queries.txt"),
        include_str!("golden/format.txt"),
        include_str!("engine/pipelines.jsonl"),
    ];
    let mut leaves = 0;
    let params = QueryParams::range(0, 100_000_000_000, 1_000_000_000);
    let lines = lists.iter().flat_map(|list| list.lines());
    // Lines of JSON have the query as some string.
    let texts = lines.flat_map(|line| match serde_json::from_str::<serde_json::Value>(line) {
        Ok(serde_json::Value::Object(fields)) => {
            fields.values().filter_map(|value| value.as_str().map(str::to_owned)).collect()
        }
        _ => vec![line.to_owned()],
    });
    for text in texts {
        let Ok(expr) = syntax::parse(&text) else { continue };
        let Ok(plan) = Plan::of_checked(&expr, &params) else { continue };
        let compiles = Plan::new(&expr, &params).is_ok();
        let decoded: Vec<_> =
            plan.leaves().iter().map(|leaf| LeafPlan::decode(&encoded(leaf))).collect();
        if compiles {
            let expected: Vec<_> = plan.leaves().iter().cloned().map(Ok).collect();
            assert_eq!(decoded, expected, "{text}");
            leaves += decoded.len();
        } else {
            let is_plan_error = |one: &Result<_, _>| matches!(one, Err(LeafError::Plan(_)));
            assert!(decoded.iter().any(is_plan_error), "{text}: {decoded:?}");
        }
    }
    assert!(leaves >= 100, "{leaves}");
}

/// Trees that do not compile are refused where they arrive, for the same reason.
#[test]
fn what_planning_refuses_is_refused() {
    let mut refused = 0;
    for seed in seeds(1_500) {
        let _guard = SeedGuard(seed);
        let expr = Generator::new(seed).expr();
        let params = QueryParams::range(0, 1_000, 100);
        let (Ok(plan), Err(error)) = (Plan::of_checked(&expr, &params), Plan::new(&expr, &params))
        else {
            continue;
        };
        let leaves = plan.leaves().iter();
        let found = leaves.map(|leaf| LeafPlan::decode(&encoded(leaf))).find_map(Result::err);
        assert_eq!(found, Some(LeafError::Plan(error)), "{expr}");
        refused += 1;
    }
    assert!(refused > 50, "{refused}");
}

fn store() -> TestStore {
    let mut store = TestStore::new();
    for stream in ["1", "2", "3"] {
        let labels = Labels::from_pairs([("app", "m"), ("s", stream)]).expect("labels");
        for entry in 0..60i64 {
            let timestamp_ns = entry * 650_000_000;
            let level = if entry % 3 == 0 { "warn" } else { "info" };
            let line = format!("level={level} msg=\"taken by a\" n={entry} v={entry}.25 of all");
            let metadata = vec![("trace_id".to_owned(), (entry % 7).to_string())];
            store.push(&labels, TestEntry { timestamp_ns, line: line.into(), metadata });
        }
    }
    store
}

#[test]
fn a_decoded_leaf_finds_what_the_leaf_finds() {
    let store = store();
    let layout = Layout { shards: 3, block_entries: 7, ..Layout::default() };
    let mut kept = 0;
    for plan in leaf_plans() {
        let leaf = &plan.leaves()[0];
        let decoded = LeafPlan::decode(&encoded(leaf)).expect("a leaf");
        let results = |leaf: &LeafPlan| -> Vec<Vec<u8>> {
            let results = store.run_leaf_on_all(leaf, &layout).expect("results");
            results
                .iter()
                .map(|result| {
                    kept += result.stats().entries_kept;
                    let mut bytes = Vec::new();
                    result.encode(&mut bytes);
                    bytes
                })
                .collect()
        };
        let mut results = results;
        assert_eq!(results(&decoded), results(leaf), "{leaf:?}");
    }
    assert!(kept > 2_000, "{kept}");
}

#[test]
fn every_cut_is_refused() {
    let lookups = lookups().into_iter().map(|bytes| (bytes, false));
    let leaves = hand_made_leaves().into_iter().map(|leaf| (encoded(&leaf), true));
    for (mut bytes, is_leaf) in lookups.chain(leaves) {
        let error = |bytes: &[u8]| match is_leaf {
            true => LeafPlan::decode(bytes).err(),
            false => decode_matchers(bytes).err(),
        };
        for end in 0..bytes.len() {
            assert!(error(&bytes[..end]).is_some(), "{end} of {}", bytes.len());
        }
        bytes.push(0);
        assert_eq!(error(&bytes), Some(LeafError::Bytes(WireError::Long)));
    }
}

/// What the bodies hold is that damaged bytes are harmless, and have one encoding if they are read.
#[test]
fn every_damaged_byte_is_refused_or_harmless() {
    let (mut refused, mut read) = (0, 0);
    let mut note = |is_read: bool| *if is_read { &mut read } else { &mut refused } += 1;
    for leaf in hand_made_leaves().iter().step_by(7) {
        let bytes = encoded(leaf);
        for at in 0..bytes.len() {
            for mask in [1, 0x20, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= mask;
                note(leaf_plan(&damaged));
            }
        }
    }
    for bytes in lookups() {
        for at in 0..bytes.len() {
            for mask in 1..=255 {
                let mut damaged = bytes.clone();
                damaged[at] ^= mask;
                note(matchers(&damaged));
            }
        }
    }
    assert!(refused > 3_000 && read > 500, "{refused} {read}");
}

#[test]
fn random_damage_is_harmless() {
    for seed in seeds(1_500) {
        let _guard = SeedGuard(seed);
        let rng = &mut Rng::new(seed);
        for leaf in random_plan(rng, seed) {
            let mut bytes = encoded(&leaf);
            rng.damage(&mut bytes);
            let _ = leaf_plan(&bytes);
        }
        let mut bytes = rng.pick(&lookups()).clone();
        rng.damage(&mut bytes);
        let _ = matchers(&bytes);
    }
}

#[test]
fn random_bytes_are_harmless() {
    let leaves = hand_made_leaves();
    for seed in seeds(5_000) {
        let _guard = SeedGuard(seed);
        let rng = &mut Rng::new(seed);
        let len = rng.index(300);
        let mut bytes = rng.bytes(len);
        if let Some(version) = bytes.first_mut() {
            *version = 1;
        }
        let _ = (leaf_plan(&bytes), matchers(&bytes));
        // The same behind the beginning of a leaf.
        let mut leaf = encoded(rng.pick(&leaves));
        leaf.truncate(rng.index(leaf.len()));
        leaf.extend(rng.bytes(20));
        let _ = leaf_plan(&leaf);
    }
}

/// Matchers of look-ups: none, an empty group, and random ones.
fn lookups() -> Vec<Vec<u8>> {
    let compiled = |selectors: &[&str]| -> Vec<Vec<CompiledMatcher>> {
        let group = |text: &&str| {
            let selector = syntax::parse_matchers(text).expect("a selector");
            let compiled = selector.matchers.iter().map(CompiledMatcher::new);
            compiled.collect::<Result<_, _>>().expect("matchers")
        };
        selectors.iter().map(group).collect()
    };
    let all: [&[&str]; 4] = [
        &[],
        &["{}"],
        &[r#"{app="m", s!~"1|2"}"#, r#"{a=~"x.*", b!=""}"#],
        &["{a=\"\\xff\", b=~\"\\\\xff.+\"}"],
    ];
    let encoded = |groups: Vec<Vec<CompiledMatcher>>| {
        let mut bytes = Vec::new();
        encode_matchers(&groups, &mut bytes);
        bytes
    };
    all.iter().map(|selectors| encoded(compiled(selectors))).collect()
}

#[test]
fn matchers_come_back_as_they_were() {
    let mut lists = 0;
    for seed in seeds(500) {
        let _guard = SeedGuard(seed);
        let mut generator = Generator::new(seed);
        let groups: Vec<_> = (0..seed % 4).map(|_| generator.selector().matchers).collect();
        let compile = |group: &Vec<_>| -> Result<Vec<_>, _> {
            group.iter().map(CompiledMatcher::new).collect()
        };
        let compiled: Vec<_> = groups.iter().map(compile).collect::<Result<_, _>>().expect("valid");
        let mut bytes = Vec::new();
        encode_matchers(&compiled, &mut bytes);
        assert_eq!(read_matchers(&bytes).as_ref(), Ok(&groups));
        let decoded = decode_matchers(&bytes).expect("matchers");
        let sources = decoded.iter().map(|group| group.iter().map(|one| one.source().clone()));
        assert_eq!(sources.map(Iterator::collect).collect::<Vec<Vec<_>>>(), groups);
        lists += groups.len();
    }
    assert!(lists > 100);
}

/// The longest queries of what grows most when it is printed.
#[test]
fn the_longest_queries_come_back() {
    let list = |item: &str, per_stage: usize| {
        let mut text = r#"{app="m"}"#.to_owned();
        let mut items = 0;
        while text.len() + item.len() + 1 < MAX_QUERY_LEN_BYTES {
            if items % per_stage == 0 {
                text.push('|');
            }
            text += item;
            items += 1;
        }
        text
    };
    let controls = MAX_QUERY_LEN_BYTES - 40;
    for text in [
        list("a>9y", 900),
        list("a>1e308", 1),
        list("a>1e-308", 900),
        list("a>.1Pi", 900),
        list("a>0x1p70 ", 900),
        list("=\"\"", 1),
        list("json a", 1),
        list("drop a", 1),
        format!("{{app=\"m\"}}|=`{}`", "\u{1}".repeat(controls)),
        format!("{{app=\"m\"}}|=\"{}\"", "\u{80}".repeat(controls / 2)),
        format!("{{app=\"m\"}}|json {}a", "a,".repeat(controls / 2)),
    ] {
        let head = &text[..text.len().min(60)];
        let expr = syntax::parse(&text).unwrap_or_else(|error| panic!("{head}: {error}"));
        let params = QueryParams::range(0, 1_000, 100);
        let plan = Plan::of_checked(&expr, &params).expect("a plan");
        let bytes = encoded(&plan.leaves()[0]);
        assert!(bytes.len() < 5 * MAX_QUERY_LEN_BYTES, "{head}: {}", bytes.len());
        let decoded = LeafPlan::decode(&bytes);
        assert!(decoded.as_ref() == Ok(&plan.leaves()[0]), "{head}: {:?}", decoded.err());
        let estimate = LeafPlan::read_estimate(&bytes).expect("an estimate");
        assert!(estimate.bytes >= bytes.len() as u64 && !estimate.is_short());
    }
}

#[test]
fn estimates_of_leaves_count_their_patterns() {
    let of = |query: &str| {
        let expr = syntax::parse(query).expect("a query");
        let plan = Plan::of_checked(&expr, &QueryParams::instant(5)).expect("a plan");
        let bytes = encoded(&plan.leaves()[0]);
        let read = LeafPlan::read(&bytes).expect("a leaf");
        (LeafPlan::read_estimate(&bytes).expect("an estimate"), read.estimate())
    };
    let short = |(read, compiled): (Estimate, Estimate)| read.is_short() && compiled.is_short();
    assert!(short(of(r#"count_over_time({a="b"} |= "x" [1m])"#)));
    let filters = " | a=~`(x.+y){30}`".repeat(9);
    let long = of(&format!(r#"sum_over_time({{a="b"}} | unwrap c {filters} [1m])"#));
    assert!(!long.0.is_short() && !long.1.is_short(), "{long:?}");
}
