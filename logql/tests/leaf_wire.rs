//! The bytes of results of leaves: they come back as they were, and are harmless whatever they are.

use logsvc_fuzz_bodies::logql::{leaf_plans, leaf_result, leaf_result_of};
use logsvc_logql::engine::testing::{Layout, TestEntry, TestStore};
use logsvc_logql::engine::{LeafResult, MergeState, Plan, QueryParams, WireError};
use logsvc_logql::syntax;
use logsvc_proto::Labels;
use logsvc_testkit::{Rng, SeedGuard, seeds};

const MS: i64 = 1_000_000;

/// Where the bytes have the kind of a result, and how many kinds there are.
const KIND_AT: usize = 1;
const KINDS: usize = 7;

/// A number as text, often one that sums lose or that is none.
fn number(rng: &mut Rng) -> String {
    match rng.below(6) {
        0 => (*rng.pick(&["NaN", "+Inf", "-Inf", "-0", "1e308", "-1e308", "5e-324"])).to_owned(),
        1 => format!("{:e}", f64::from_bits(rng.next_u64())),
        _ => format!("{}", rng.below(100_000) as f64 / 977.0),
    }
}

fn random_store(rng: &mut Rng) -> TestStore {
    let mut store = TestStore::new();
    let times = *rng.pick(&[40, 40_000]);
    // Where some line has no number, a leaf without a filter for errors fails.
    let has_errors = rng.one_in(2);
    for stream in 0..1 + rng.below(4) {
        let name = stream.to_string();
        let labels = Labels::from_pairs([("app", "m"), ("s", name.as_str())]).expect("labels");
        for entry in 0..rng.below(90) {
            let timestamp_ns = rng.below(times) as i64 * (40_000 / times as i64) * MS;
            let level = *rng.pick(&["info", "warn"]);
            let value = if has_errors && rng.one_in(9) { "no".to_owned() } else { number(rng) };
            let line = match rng.below(12) {
                0 => b"\xff = \x00".to_vec(),
                1 => Vec::new(),
                _ => format!("level={level} msg=\"taken by a\" n={entry} v={value} of all").into(),
            };
            let mut metadata = Vec::new();
            if rng.one_in(2) {
                metadata.push(("detected_level".to_owned(), level.to_owned()));
            }
            if rng.one_in(3) {
                metadata.push(("trace_id".to_owned(), format!("{:x}", rng.next_u64())));
            }
            store.push(&labels, TestEntry { timestamp_ns, line, metadata });
        }
    }
    store
}

fn random_layout(rng: &mut Rng) -> Layout {
    Layout {
        shards: 1 + rng.index(4),
        block_entries: 1 + rng.index(40),
        sort_blocks: rng.one_in(2),
        scatter_blocks: rng.one_in(2),
        ..Layout::default()
    }
}

fn encoded(result: &LeafResult) -> Vec<u8> {
    let mut bytes = Vec::new();
    result.encode(&mut bytes);
    bytes
}

/// The results of the first leaf of each plan over a random store.
fn random_results(rng: &mut Rng, plans: &[Plan]) -> Vec<Vec<LeafResult>> {
    let (store, layout) = (random_store(rng), random_layout(rng));
    let run = |plan: &Plan| store.run_leaf_on_all(&plan.leaves()[0], &layout).expect("a leaf");
    plans.iter().map(run).collect()
}

/// The answer, with all digits of its numbers.
fn merged(plan: &Plan, results: Vec<LeafResult>) -> String {
    let mut merge = MergeState::new(plan);
    results.into_iter().for_each(|result| merge.add(result));
    let stats = merge.stats();
    let finished = merge.finish_held().map(|finished| (finished.result, finished.last));
    format!("{stats:?} {finished:?}")
}

#[test]
fn results_come_back_as_they_were_and_merge_alike() {
    let plans = leaf_plans();
    let mut kinds = [0; KINDS];
    for seed in seeds(60) {
        let _guard = SeedGuard(seed);
        let all = random_results(&mut Rng::new(seed), &plans);
        for (plan, results) in plans.iter().zip(all) {
            let leaf = &plan.leaves()[0];
            let decoded: Vec<LeafResult> = results
                .iter()
                .map(|result| {
                    let bytes = encoded(result);
                    kinds[usize::from(bytes[KIND_AT])] += 1;
                    let decoded = LeafResult::decode(&bytes, leaf).expect("a result");
                    // NaN differ from themselves, but not their bits and their texts.
                    assert_eq!(encoded(&decoded), bytes);
                    assert_eq!(format!("{decoded:?}"), format!("{result:?}"));
                    assert_eq!(decoded.stats(), result.stats());
                    decoded
                })
                .collect();
            assert_eq!(merged(plan, decoded), merged(plan, results));
        }
    }
    assert!(kinds.iter().all(|count| *count >= 10), "{kinds:?}");
}

#[test]
fn every_cut_is_refused() {
    let plans = leaf_plans();
    for seed in seeds(2) {
        let _guard = SeedGuard(seed);
        let all = random_results(&mut Rng::new(seed), &plans);
        for (plan, results) in plans.iter().zip(all) {
            for result in results {
                let mut bytes = encoded(&result);
                // All of the beginning, and some of what repeats.
                let step = 1 + bytes.len() / 1_000;
                for end in (0..bytes.len()).filter(|end| *end < 300 || end % step == 0) {
                    assert!(LeafResult::decode(&bytes[..end], &plan.leaves()[0]).is_err());
                }
                bytes.push(0);
                let found = LeafResult::decode(&bytes, &plan.leaves()[0]);
                assert_eq!(found, Err(WireError::Long));
            }
        }
    }
}

#[test]
fn damaged_results_are_refused_or_merge() {
    let plans = leaf_plans();
    let (mut refused, mut read) = ([0; KINDS], [0; KINDS]);
    for seed in seeds(30) {
        let _guard = SeedGuard(seed);
        let rng = &mut Rng::new(seed);
        let all = random_results(rng, &plans);
        for (plan, results) in plans.iter().zip(all) {
            for result in results {
                let bytes = encoded(&result);
                let kind = usize::from(bytes[KIND_AT]);
                for _ in 0..12 {
                    let mut damaged = bytes.clone();
                    rng.damage(&mut damaged);
                    let is_read = leaf_result_of(plan, &damaged);
                    *if is_read { &mut read[kind] } else { &mut refused[kind] } += 1;
                }
            }
        }
    }
    let some = |counts: &[i32]| counts.iter().all(|count| *count >= 10);
    assert!(some(&read) && some(&refused), "{read:?} {refused:?}");
}

#[test]
fn random_bytes_are_harmless() {
    for seed in seeds(3_000) {
        let _guard = SeedGuard(seed);
        let rng = &mut Rng::new(seed);
        let len = rng.index(200);
        let mut bytes = rng.bytes(len);
        // A number of a plan, the version, a kind and the leaf.
        let kind = rng.below(KINDS as u64) as u8;
        for (place, byte) in bytes.iter_mut().skip(1).zip([1, kind, 0]) {
            *place = byte;
        }
        let _ = leaf_result(&bytes);
    }
}

#[test]
fn a_result_of_another_leaf_is_refused() {
    let plans = leaf_plans();
    let all = random_results(&mut Rng::new(1), &plans);
    let (log, count, values) = (&plans[0], &plans[8], &plans[18]);
    let of_log = encoded(&all[0][0]);
    for plan in [count, values] {
        let found = LeafResult::decode(&of_log, &plan.leaves()[0]);
        assert_eq!(found, Err(WireError::OtherLeaf));
    }
    let mut other = of_log.clone();
    other[KIND_AT + 1] = 1;
    assert_eq!(LeafResult::decode(&other, &log.leaves()[0]), Err(WireError::OtherLeaf));
    for (at, byte, error) in [(0, 9, WireError::Version(9)), (KIND_AT, 7, WireError::Kind(7))] {
        let mut other = of_log.clone();
        other[at] = byte;
        assert_eq!(LeafResult::decode(&other, &log.leaves()[0]), Err(error));
    }
}

/// The result of a log query whose entries have the labels of one stream, and an id of their own if
/// so wanted.
fn many_entries(has_ids: bool) -> (Plan, LeafResult) {
    let mut store = TestStore::new();
    let labels: Vec<(String, String)> =
        (0..12).map(|n| (format!("label_{n}"), format!("the value of label {n}"))).collect();
    let labels = Labels::from_pairs(labels.iter().map(|(n, v)| (n, v))).expect("labels");
    for entry in 0..5_000i64 {
        let metadata = if has_ids { vec![("id".to_owned(), entry.to_string())] } else { vec![] };
        let line = format!("GET /cart of {entry:010} took some milliseconds, and was answered so");
        let entry = TestEntry { timestamp_ns: entry * MS, line: line.into(), metadata };
        store.push(&labels, entry);
    }
    let expr = syntax::parse(r#"{label_1!=""}"#).expect("a query");
    let params = QueryParams { limit: 5_000, ..QueryParams::range(0, 10_000 * MS, MS) };
    let plan = Plan::new(&expr, &params).expect("a plan");
    let found = store.run_leaf_on_all(&plan.leaves()[0], &Layout::PLAIN).expect("a leaf");
    let result = found.into_iter().next().expect("one shard");
    assert_eq!(result.stats().entries_kept, 5_000);
    (plan, result)
}

#[test]
fn labels_of_a_stream_are_there_once() {
    for (has_ids, most_bytes_of_entry) in [(false, 32), (true, 42)] {
        let (plan, result) = many_entries(has_ids);
        let bytes = encoded(&result);
        let decoded = LeafResult::decode(&bytes, &plan.leaves()[0]).expect("a result");
        assert_eq!(decoded, result);
        let lines_bytes = result.stats().line_bytes as usize;
        assert!(bytes.len() < lines_bytes + 5_000 * most_bytes_of_entry + 2_000);
    }
}

/// A few bytes that claim much.
#[test]
fn counts_without_bytes_are_refused() {
    let plans = leaf_plans();
    for (plan, kind) in [(&plans[0], 0), (&plans[8], 1), (&plans[plans.len() - 2], 5)] {
        let mut bytes = vec![1, kind, 0];
        bytes.extend([0; 40]);
        bytes.extend([0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert_eq!(LeafResult::decode(&bytes, &plan.leaves()[0]), Err(WireError::Short));
    }
}
