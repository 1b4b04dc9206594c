use std::collections::BTreeMap;

use logsvc_logql::engine::CompiledMatcher;
use logsvc_logql::syntax::ast::{MatchOp, Matcher};

use super::*;
use logsvc_testkit::{Rng, SeedGuard, seeds};

/// A matcher and its verdict on one value, told without the engine.
struct Shape {
    op: MatchOp,
    value: &'static str,
    accepts: fn(&str) -> bool,
}

const SHAPES: &[Shape] = &[
    Shape { op: MatchOp::Equal, value: "a", accepts: |v| v == "a" },
    Shape { op: MatchOp::Equal, value: "", accepts: |v| v.is_empty() },
    Shape { op: MatchOp::Equal, value: "nowhere", accepts: |_| false },
    Shape { op: MatchOp::NotEqual, value: "a", accepts: |v| v != "a" },
    Shape { op: MatchOp::NotEqual, value: "", accepts: |v| !v.is_empty() },
    Shape { op: MatchOp::NotEqual, value: "nowhere", accepts: |_| true },
    Shape { op: MatchOp::Regex, value: "a|bb", accepts: |v| v == "a" || v == "bb" },
    Shape { op: MatchOp::Regex, value: "a|", accepts: |v| v == "a" || v.is_empty() },
    Shape { op: MatchOp::Regex, value: "b.*", accepts: |v| v.starts_with('b') },
    Shape { op: MatchOp::Regex, value: ".*b.*", accepts: |v| v.contains('b') },
    Shape { op: MatchOp::Regex, value: ".*", accepts: |_| true },
    Shape { op: MatchOp::Regex, value: ".+", accepts: |v| !v.is_empty() },
    Shape { op: MatchOp::Regex, value: "[ab]+", accepts: only_ab },
    Shape { op: MatchOp::Regex, value: "[ab]*", accepts: |v| v.is_empty() || only_ab(v) },
    Shape { op: MatchOp::Regex, value: "", accepts: |v| v.is_empty() },
    Shape { op: MatchOp::Regex, value: "v1[0-4].*", accepts: is_v10_to_v14 },
    Shape { op: MatchOp::Regex, value: ".*-9[0-9]?", accepts: ends_like_nine },
    Shape {
        op: MatchOp::Regex,
        value: "(v2.*)?",
        accepts: |v| v.is_empty() || v.starts_with("v2"),
    },
    Shape { op: MatchOp::NotRegex, value: "a|bb", accepts: |v| v != "a" && v != "bb" },
    Shape { op: MatchOp::NotRegex, value: "b.*", accepts: |v| !v.starts_with('b') },
    Shape { op: MatchOp::NotRegex, value: ".*b.*", accepts: |v| !v.contains('b') },
    Shape { op: MatchOp::NotRegex, value: ".*", accepts: |_| false },
    Shape { op: MatchOp::NotRegex, value: "v1[0-4].*", accepts: |v| !is_v10_to_v14(v) },
    Shape { op: MatchOp::NotRegex, value: ".*-9[0-9]?", accepts: |v| !ends_like_nine(v) },
    Shape { op: MatchOp::NotRegex, value: ".+", accepts: |v| v.is_empty() },
    Shape { op: MatchOp::NotRegex, value: "[ab]+", accepts: |v| !only_ab(v) },
];

fn only_ab(value: &str) -> bool {
    !value.is_empty() && value.bytes().all(|b| b == b'a' || b == b'b')
}

fn is_v10_to_v14(value: &str) -> bool {
    ["v10", "v11", "v12", "v13", "v14"].iter().any(|prefix| value.starts_with(prefix))
}

fn ends_like_nine(value: &str) -> bool {
    let behind = value.rsplit_once("-9").map(|(_, behind)| behind);
    behind.is_some_and(|b| b.is_empty() || b.len() == 1 && b.as_bytes()[0].is_ascii_digit())
}

const NAMES: [&str; 5] = ["app", "env", "host", "pod", "never_set"];
const VALUES: [&str; 7] = ["a", "b", "bb", "ab", "abc", "cab", "\u{e9}"];

fn compiled(name: &str, shape: &Shape) -> CompiledMatcher {
    let matcher = Matcher { name: name.into(), op: shape.op, value: shape.value.into() };
    CompiledMatcher::new(&matcher).unwrap()
}

fn random_labels(rng: &mut Rng) -> Labels {
    let mut pairs = vec![("stream", "x")];
    for name in &NAMES[..3] {
        if !rng.one_in(3) {
            pairs.push((name, *rng.pick(&VALUES)));
        }
    }
    // Many values, so that they fill several chunks.
    let pod = format!("v{}-{}", rng.below(40), rng.below(100));
    if !rng.one_in(8) {
        pairs.push(("pod", &pod));
    }
    Labels::from_pairs(pairs).unwrap()
}

fn check(seed: u64) {
    let _guard = SeedGuard(seed);
    let mut rng = Rng::new(seed);
    let tenants = ["one", "two"].map(|id| TenantId::new(id).unwrap());
    let mut index = LabelIndex::default();
    let mut model: Vec<(usize, Labels)> = Vec::new();
    let mut late = Vec::new();
    let mut gone = Vec::new();
    let (streams, few_stay) = (*rng.pick(&[20, 150, 4000]), rng.one_in(3));
    for slot in 0..rng.between(0, streams) as Slot {
        let (tenant, labels) = (rng.below(2) as usize, random_labels(&mut rng));
        if rng.one_in(10) {
            late.push((slot, tenant, labels.clone()));
        } else {
            index.insert(&tenants[tenant], slot, &labels);
        }
        model.push((tenant, labels));
    }
    // Streams whose first entry came late.
    for (slot, tenant, labels) in late {
        index.insert(&tenants[tenant], slot, &labels);
    }
    for (slot, (tenant, labels)) in (0..).zip(&model) {
        if rng.one_in(10) || few_stay && !rng.one_in(10) {
            index.remove(&tenants[*tenant], slot, labels);
            gone.push(slot);
        }
    }
    // Some numbers are used again.
    gone.retain(|&slot| {
        let (tenant, labels) = &mut model[slot as usize];
        let returns = rng.one_in(4);
        if returns {
            (*tenant, *labels) = (rng.below(2) as usize, random_labels(&mut rng));
            index.insert(&tenants[*tenant], slot, labels);
        }
        !returns
    });
    let counts: BTreeMap<&TenantId, usize> = index.tenants().collect();
    for (number, tenant) in tenants.iter().enumerate() {
        let is_there = |slot: Slot| gone.binary_search(&slot).is_err();
        let of_tenant = || {
            let all = (0..).zip(&model);
            all.filter(|(slot, (owner, _))| *owner == number && is_there(*slot))
        };
        assert_eq!(counts.get(tenant).copied().unwrap_or(0), of_tenant().count());
        let Some(index) = index.tenant(tenant) else {
            assert_eq!(of_tenant().count(), 0);
            continue;
        };
        assert_eq!(index.streams(), of_tenant().map(|(slot, _)| slot).collect::<Vec<Slot>>());
        let mut names: Vec<&str> =
            of_tenant().flat_map(|(_, (_, labels))| labels.iter().map(|(name, _)| name)).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(index.names().collect::<Vec<_>>(), names);
        for name in NAMES {
            let mut values: BTreeMap<&str, Vec<Slot>> = BTreeMap::new();
            for (slot, (_, labels)) in of_tenant() {
                if let Some(value) = labels.get(name) {
                    values.entry(value).or_default().push(slot);
                }
            }
            let listed: Vec<_> = index.values(name).map(|(v, slots)| (v, slots.to_vec())).collect();
            assert_eq!(listed, values.into_iter().collect::<Vec<_>>());
            assert_eq!(index.value_count(name), listed.len());
        }
        for _ in 0..40 {
            let chosen: Vec<(&str, &Shape)> =
                (0..rng.below(4)).map(|_| (*rng.pick(&NAMES), rng.pick(SHAPES))).collect();
            let matchers: Vec<_> =
                chosen.iter().map(|(name, shape)| compiled(name, shape)).collect();
            let accepts = |labels: &Labels| {
                chosen.iter().all(|(name, shape)| (shape.accepts)(labels.get(name).unwrap_or("")))
            };
            let expected: Vec<Slot> = of_tenant()
                .filter(|(_, (_, labels))| accepts(labels))
                .map(|(slot, _)| slot)
                .collect();
            assert_eq!(index.select(&matchers), expected, "{matchers:?}");
        }
    }
}

#[test]
fn every_shape_of_matcher_selects_what_a_walk_over_all_streams_does() {
    seeds(100).for_each(check);
}

#[test]
fn an_absent_label_equals_the_empty_one() {
    let tenant = TenantId::new("t").unwrap();
    let mut index = LabelIndex::default();
    let labels = |pairs: &[(&str, &str)]| Labels::from_pairs(pairs.iter().copied()).unwrap();
    index.insert(&tenant, 3, &labels(&[("app", "a"), ("env", "prod")]));
    index.insert(&tenant, 70, &labels(&[("app", "a")]));
    let index = index.tenant(&tenant).unwrap();
    let select = |op, value: &str| {
        let matcher = Matcher { name: "env".into(), op, value: value.into() };
        index.select(&[CompiledMatcher::new(&matcher).unwrap()])
    };
    assert_eq!(select(MatchOp::Equal, ""), [70]);
    assert_eq!(select(MatchOp::NotEqual, ""), [3]);
    assert_eq!(select(MatchOp::NotEqual, "prod"), [70]);
    assert_eq!(select(MatchOp::Regex, "prod|"), [3, 70]);
    assert_eq!(select(MatchOp::Regex, "p.*"), [3]);
    assert_eq!(select(MatchOp::NotRegex, ".+"), [70]);
}
