//! Tests of abridged lines: the leaf finds in them what it finds in whole lines.

use logsvc_proto::Labels;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use super::{Abridger, NumberKind};
use crate::engine::testing::{Layout, TestEntry, TestStore};
use crate::engine::{LeafExecutor, Plan, QueryParams};

const QUERIES: [&str; 12] = [
    r#"sum by (a) (count_over_time({x="y"} | json | b>=5 [1h]))"#,
    r#"sum by (a, c_d) (count_over_time({x="y"} | json | __error__="" [1h]))"#,
    r#"sum(count_over_time({x="y"} | json | c_d="5" or b!="" [1h]))"#,
    r#"sum by (b) (sum_over_time({x="y"} | json | unwrap a | __error__="" [1h]))"#,
    r#"sum by (a) (count_over_time({x="y"} | logfmt | b>=5 [1h]))"#,
    r#"sum by (a, b) (count_over_time({x="y"} | logfmt --keep-empty | drop __error__ [1h]))"#,
    r#"max_over_time({x="y"} | logfmt | unwrap duration(a) | __error__="" [1h]) by (c)"#,
    r#"sum by (a, b) (count_over_time({x="y"} | pattern `<a> <_> "<b>" <_>` [1h]))"#,
    r#"sum by (a) (count_over_time({x="y"} | pattern `{"<_>":<a>,` [1h]))"#,
    r#"sum by (b) (count_over_time({x="y"} | pattern `<_>a=<b> <c>aab<_>` | c!="5" [1h]))"#,
    r#"sum by (c) (count_over_time({x="y"} | pattern `<_>=1<c>=` [1h]))"#,
    r#"sum by (c) (count_over_time({x="y"} | pattern `<c>` [1h]))"#,
];

fn word(rng: &mut Rng) -> String {
    let words = ["a", "b", "c", "c_d", "a-b", "", "true", "null", "x y", "aab", "aaab", "{", "]"];
    match rng.below(4) {
        0 => rng.below(20).to_string(),
        1 => format!("{}ms", rng.below(300)),
        2 => format!("{:x}", rng.next_u64() >> rng.below(60)),
        _ => (*rng.pick(&words)).to_owned(),
    }
}

fn json(rng: &mut Rng, depth: u32) -> String {
    match rng.below(if depth > 2 { 5 } else { 8 }) {
        0 | 1 => format!("\"{}\"", word(rng)),
        2 => format!(
            "\"{}\\{}{}\"",
            word(rng),
            rng.pick(&["\"", "\\", "u00e9", "n", "q"]),
            word(rng)
        ),
        3 => rng.below(1000).to_string(),
        4 => (*rng.pick(&["true", "null", "-1.5e3", "007", "nul", "bad"])).to_owned(),
        5 => format!("[{},{}]", json(rng, depth + 1), json(rng, depth + 1)),
        _ => {
            let fields: Vec<String> = (0..rng.below(5))
                .map(|_| {
                    let space = *rng.pick(&["", "", " "]);
                    let key = *rng.pick(&["a", "b", "c", "d", "c_d", "a-b", " ", "e\\u0061"]);
                    format!("{space}\"{key}\"{space}:{space}{}{space}", json(rng, depth + 1))
                })
                .collect();
            format!("{{{}}}", fields.join(","))
        }
    }
}

fn line(rng: &mut Rng) -> String {
    let line = match rng.below(4) {
        0 => (0..rng.below(4)).map(|_| json(rng, 0)).last().unwrap_or_default(),
        1 => {
            let fields: Vec<String> = (0..rng.below(6))
                .map(|_| format!("\"{}\":{}", rng.pick(&["a", "b", "c", "z"]), json(rng, 1)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        2 => {
            let pairs: Vec<String> = (0..rng.below(7))
                .map(|_| {
                    let key = *rng.pick(&["a", "b", "c", "x", "a.b", "k\u{e9}", "\u{fffd}"]);
                    match rng.below(5) {
                        0 => format!("{key}=\"{}\"", word(rng)),
                        1 => format!("{key}=\"{}\\\"{}\"", word(rng), word(rng)),
                        2 => key.to_owned(),
                        _ => format!("{key}={}", word(rng)),
                    }
                })
                .collect();
            pairs.join(*rng.pick(&[" ", " ", "  ", "\t"]))
        }
        _ => format!("{} {} \"{}\" {}", word(rng), word(rng), word(rng), word(rng)),
    };
    // Some lines are damaged.
    match rng.below(8) {
        0 if !line.is_empty() => {
            let at = rng.below(line.chars().count() as u64) as usize;
            let damage = *rng.pick(&['"', '=', '\\', '}', ' ', '7']);
            line.chars().enumerate().map(|(i, c)| if i == at { damage } else { c }).collect()
        }
        _ => line,
    }
}

/// The abridged line, cut at random.
fn abridged(rng: &mut Rng, abridger: &mut Abridger, line: &[u8]) -> Option<Vec<u8>> {
    let (mut state, mut out, mut at) = (Abridger::START, Vec::new(), 0);
    while at < line.len() {
        let is_time = line[at].is_ascii_digit() && rng.below(8) == 0;
        let kind = match is_time {
            true => *rng.pick(&[NumberKind::Time, NumberKind::SpacedTime]),
            false => *rng.pick(&[NumberKind::Decimal, NumberKind::Hex]),
        };
        let may_have = |byte: &u8| match kind {
            NumberKind::Decimal => byte.is_ascii_digit(),
            NumberKind::Hex => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
            NumberKind::SpacedTime if *byte == b' ' => true,
            _ => byte.is_ascii_alphanumeric() || b"-/:.,".contains(byte),
        };
        let most = line[at..].iter().take_while(|byte| may_have(byte)).count();
        // Times are as long as they may be, and other numbers may be cut.
        let len = if is_time { most } else { rng.below(most as u64 + 1) as usize };
        if len > 0 {
            let number = abridger.number(state, kind, &mut out)?;
            if number.is_kept {
                out.extend_from_slice(&line[at..at + len]);
            }
            state = number.state;
            at += len;
            continue;
        }
        let len = 1 + rng.below((line.len() - at) as u64) as usize;
        let len = if rng.below(3) > 0 { len.min(3) } else { len };
        let before = out.len();
        let next = abridger.text(state, &line[at..at + len], &mut out)?;
        // The same piece again does the same.
        let mut again = Vec::new();
        assert_eq!(abridger.text(state, &line[at..at + len], &mut again), Some(next));
        assert_eq!(again, out[before..]);
        state = next;
        at += len;
    }
    abridger.end(state, &mut out).then_some(out)
}

fn answer(plan: &Plan, line: &[u8]) -> String {
    let mut store = TestStore::new();
    let labels = Labels::from_pairs([("x", "y"), ("d", "1")]).expect("labels");
    let metadata = vec![("c".to_owned(), "meta".to_owned())];
    store.push(&labels, TestEntry { timestamp_ns: 5, line: line.to_vec(), metadata });
    format!("{:?}", store.run(plan, &Layout::default()))
}

#[test]
fn abridged_lines_answer_as_whole_lines() {
    let (mut all, mut shorter, mut same) = (0, 0, 0);
    for seed in seeds(3000) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let query = *rng.pick(&QUERIES);
        let plan = Plan::new(
            &crate::syntax::parse(query).expect("a query"),
            &QueryParams::instant(1_000_000_000),
        )
        .expect("a plan");
        let executor = LeafExecutor::new(&plan.leaves()[0]).expect("a leaf");
        let mut abridger = executor.abridger().unwrap_or_else(|| panic!("{query}"));
        for _ in 0..30 {
            let line = line(&mut rng);
            all += 1;
            let Some(short) = abridged(&mut rng, &mut abridger, line.as_bytes()) else { continue };
            shorter += usize::from(short.len() * 2 < line.len());
            same += 1;
            let text = String::from_utf8_lossy(&short);
            assert_eq!(
                answer(&plan, &short),
                answer(&plan, line.as_bytes()),
                "{query}\n{line}\n{text}"
            );
        }
    }
    assert!(same * 4 > all && shorter * 8 > all, "{all} {same} {shorter}");
}

#[test]
fn leaves_that_need_lines_have_no_abridger() {
    for query in [
        r#"sum(count_over_time({x="y"} |= "a" | json | b>=5 [1h]))"#,
        r#"sum(bytes_over_time({x="y"} | json | b>=5 [1h]))"#,
        r#"count_over_time({x="y"} | json [1h])"#,
        r#"sum without (a) (count_over_time({x="y"} | json [1h]))"#,
        r#"sum by (a) (count_over_time({x="y"} | json | logfmt [1h]))"#,
        r#"sum by (a) (count_over_time({x="y"} | json | line_format "{{.b}}" | json [1h]))"#,
        r#"sum by (a) (count_over_time({x="y"} | json | label_format a="{{__line__}}" [1h]))"#,
        r#"sum by (a) (count_over_time({x="y"} | json a="b" [1h]))"#,
        r#"sum by (a) (count_over_time({x="y"} | logfmt --strict [1h]))"#,
    ] {
        let params = QueryParams::instant(1);
        let plan = Plan::new(&crate::syntax::parse(query).expect("a query"), &params);
        let executor = LeafExecutor::new(&plan.expect("a plan").leaves()[0]).expect("a leaf");
        assert!(executor.abridger().is_none(), "{query}");
    }
}

#[test]
fn remembered_outcomes_are_those_of_the_pipeline() {
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let query = *rng.pick(&QUERIES);
        let params = QueryParams::instant(1_000_000_000);
        let query = crate::syntax::parse(query).expect("a query");
        let plan = Plan::new(&query, &params).expect("a plan");
        let lines: Vec<String> = (0..rng.between(1, 20)).map(|_| line(&mut rng)).collect();
        let mut store = TestStore::new();
        let streams: [&[(&str, &str)]; 3] =
            [&[("x", "y")], &[("x", "y"), ("a", "s")], &[("x", "y"), ("z", "1")]];
        let streams = streams.map(|pairs| Labels::from_pairs(pairs.to_vec()).expect("labels"));
        for timestamp_ns in 0..300 {
            let metadata = match rng.below(4) {
                0 => vec![(rng.pick(&["b", "q"]).to_string(), "meta".to_owned())],
                _ => Vec::new(),
            };
            let line = rng.pick(&lines).clone().into_bytes();
            store.push(rng.pick(&streams), TestEntry { timestamp_ns, line, metadata });
        }
        let block_entries = rng.between(1, 100) as usize;
        let remembered = store.run(&plan, &Layout { block_entries, ..Layout::default() });
        let parsed = store.run(&plan, &Layout::PLAIN);
        assert_eq!(format!("{remembered:?}"), format!("{parsed:?}"), "{query}");
    }
}
