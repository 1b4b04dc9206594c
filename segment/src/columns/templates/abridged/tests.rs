//! Tests of abridged lines of blocks: they answer as the lines do.

use logsvc_logql::engine::testing::{Layout, TestEntry, TestStore};
use logsvc_logql::engine::{LeafExecutor, Plan, QueryParams};
use logsvc_proto::Labels;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use super::super::search::tests::take_apart;
use super::super::tests::encode;
use super::*;

const QUERIES: [&str; 5] = [
    r#"sum by (method, took) (count_over_time({x="y"} | json | status>=500 [1h]))"#,
    r#"sum by (id) (count_over_time({x="y"} | json | __error__="" [1h]))"#,
    r#"sum by (method, id) (count_over_time({x="y"} | logfmt | status>=500 [1h]))"#,
    r#"max_over_time({x="y"} | logfmt | unwrap duration(took) | __error__="" [1h]) by (ts)"#,
    r#"sum by (a, b) (count_over_time({x="y"} | pattern `<_> "<a> <_>" <b> <_>` [1h]))"#,
];

fn line(rng: &mut Rng, style: u64) -> Vec<u8> {
    let method = *rng.pick(&["GET", "POST", "DELETE", "a=\\\"b", "\u{e9}"]);
    let (status, took, id) = (rng.between(200, 599), rng.below(5000), rng.next_u64());
    let ts = format!("2026-11-2{}T07:{:02}:{:02}.123Z", rng.below(9), rng.below(60), rng.below(60));
    let style = if rng.below(30) == 0 { rng.below(5) } else { style };
    let text = match style {
        0 => format!(
            "{{\"ts\":\"{ts}\",\"method\":\"{method}\",\"status\":{status},\"took\":\"{took}ms\",\
             \"id\":\"{id:016x}\",\"n\":[{took},{status}],\"o\":{{\"a\":{took}}}}}"
        ),
        1 => format!(
            "ts={ts} method={method} status={status} took={took}ms id={id:016x} msg=\"took {took}\""
        ),
        2 => format!("10.0.{}.1 [{ts}] \"{method} /a/{id:x}\" {status} {took}", rng.below(256)),
        3 => format!("{id} {method} {took} {status} \"{method}"),
        _ => (0..rng.below(40)).map(|_| *rng.pick(&['{', '"', '=', ' ', '7', 'a'])).collect(),
    };
    text.into_bytes()
}

fn answer(plan: &Plan, lines: impl Iterator<Item = Vec<u8>>, timestamps_ns: &[i64]) -> String {
    let mut store = TestStore::new();
    let labels = Labels::from_pairs([("x", "y")]).expect("labels");
    for (line, &timestamp_ns) in lines.zip(timestamps_ns) {
        store.push(&labels, TestEntry { timestamp_ns, line, metadata: Vec::new() });
    }
    format!("{:?}", store.run(plan, &Layout::default()))
}

#[test]
fn abridged_blocks_answer_as_their_lines() {
    let (mut all_bytes, mut abridged_bytes, mut left) = (0, 0, 0);
    for seed in seeds(400) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let style = rng.below(4);
        let count = rng.between(1, 200);
        let lines: Vec<Vec<u8>> = (0..count).map(|_| line(&mut rng, style)).collect();
        let (raw, stored) = encode(&lines);
        let Ok(Some(parts)) = take_apart(&stored, raw.len()) else {
            panic!("it is what was written")
        };
        let times = &stored.timestamps_ns;
        for query in QUERIES {
            let query = plan(query, times);
            let mut abridger = abridger_of(&query);
            let mut slot_lines = SlotLines::default();
            let found = parts.abridged(&mut abridger, &mut slot_lines, times);
            let Some(found) = found.expect("it is what was written") else {
                left += 1;
                continue;
            };
            all_bytes += raw.len();
            abridged_bytes += found.lines.len();
            let mut start = 0;
            let abridged = found.ends.iter().map(|&end| {
                let line = found.lines[start..end as usize].to_vec();
                start = end as usize;
                line
            });
            let abridged: Vec<Vec<u8>> = abridged.collect();
            assert_eq!(abridged.len(), lines.len());
            let (short, whole) = (abridged.into_iter(), lines.iter().cloned());
            assert_eq!(answer(&query, short, times), answer(&query, whole, times));
        }
    }
    assert!(abridged_bytes * 2 < all_bytes && left < 1700, "{abridged_bytes} {all_bytes} {left}");
}

fn plan(query: &str, timestamps_ns: &[i64]) -> Plan {
    let end_ns = timestamps_ns.last().copied().unwrap_or(0) + 1;
    let query = logsvc_logql::syntax::parse(query).expect("a query");
    Plan::new(&query, &QueryParams::instant(end_ns)).expect("a plan")
}

fn abridger_of(plan: &Plan) -> Abridger {
    let executor = LeafExecutor::new(&plan.leaves()[0]).expect("a leaf");
    executor.abridger().expect("one parser reads lines")
}

#[test]
fn damaged_parts_give_an_error_or_lines() {
    let query = plan(QUERIES[0], &[]);
    for seed in seeds(3000) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let style = rng.below(5);
        let lines: Vec<Vec<u8>> = (0..rng.between(1, 40)).map(|_| line(&mut rng, style)).collect();
        let (raw, mut stored) = encode(&lines);
        for _ in 0..rng.between(1, 3) {
            let at = rng.below(stored.bytes.len() as u64) as usize;
            stored.bytes[at] ^= 1 << rng.below(8);
        }
        let Ok(Some(parts)) = take_apart(&stored, raw.len()) else { continue };
        let mut abridger = abridger_of(&query);
        let times = &stored.timestamps_ns;
        let found = parts.abridged(&mut abridger, &mut SlotLines::default(), times);
        if let Ok(Some(found)) = found {
            assert_eq!(found.ends.len(), parts.line_count());
            assert!(found.ends.is_sorted());
        }
    }
}
