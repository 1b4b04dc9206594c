use super::*;
use crate::engine::testing::{Layout, TestEntry, TestStore};
use crate::engine::{QueryParams, QueryResult};
use crate::syntax;

const SECOND_NS: i64 = 1_000_000_000;

/// A pattern: text, level, and counts by second.
type Mined = (String, String, Vec<(i64, u64)>);

/// Patterns of lines that come a second apart.
fn mined(store: &TestStore, layout: &Layout) -> Vec<Mined> {
    let selector = syntax::parse_selector(r#"{app="x"}"#).expect("a selector");
    let plan = Plan::patterns(&selector, (0, 1000 * SECOND_NS), 20 * SECOND_NS).expect("a plan");
    let Ok(QueryResult::Matrix(series)) = store.run(&plan, layout) else {
        panic!("patterns are a matrix")
    };
    let text = |one: &MatrixSeries, name: &str| one.labels.get(name).unwrap_or("").to_owned();
    let points = |one: &MatrixSeries| {
        one.points.iter().map(|p| (p.timestamp_ms / 1000, p.value as u64)).collect()
    };
    series.iter().map(|one| (text(one, "pattern"), text(one, "level"), points(one))).collect()
}

fn store_of(lines: impl IntoIterator<Item = String>) -> TestStore {
    let mut store = TestStore::new();
    for (second, line) in (0i64..).zip(lines) {
        let stream = if second % 2 == 0 { "even" } else { "odd" };
        let labels = Labels::from_pairs([("app", "x"), ("s", stream)]).expect("valid names");
        let level = if line.contains("failed") { "error" } else { "strange" };
        let metadata = vec![("detected_level".to_owned(), level.to_owned())];
        let timestamp_ns = second * SECOND_NS;
        store.push(&labels, TestEntry { timestamp_ns, line: line.into_bytes(), metadata });
    }
    store
}

#[test]
fn lines_meet_in_templates_however_they_are_spread() {
    let users = ["ann", "bob", "eve", "joe"];
    let lines = (0..40).map(|n| {
        let user = users[n % 4];
        match n % 3 {
            0 => format!("INFO [{n}] service session of user {user} was opened from 10.0.0.{n}"),
            1 => format!("WARN [{n}] service session of user {user} was opened from 10.0.0.{n}"),
            _ => format!("login failed, id={n} \"bad password\""),
        }
    });
    let store = store_of(lines);
    let found = mined(&store, &Layout::default());
    let session = "[<_>] service session of user <_> was opened from <_>";
    let expected = [
        (format!("INFO {session}"), "unknown".to_owned(), vec![(0, 7), (20, 7)]),
        (format!("WARN {session}"), "unknown".to_owned(), vec![(0, 7), (20, 6)]),
        (
            r#"login failed, id=<_> "bad password""#.to_owned(),
            "error".to_owned(),
            vec![(0, 6), (20, 7)],
        ),
    ];
    assert_eq!(found, expected);
    for shards in [2, 3] {
        let layout = Layout { shards, block_entries: 3, scatter_blocks: true, ..Layout::default() };
        assert_eq!(mined(&store, &layout), expected, "{shards} shards");
    }
}

#[test]
fn many_words_at_one_place_become_a_variable() {
    let name = |n: u32| -> String {
        (0..5).map(|i| char::from(b'a' + ((n >> (i * 2)) % 4) as u8)).collect()
    };
    let found =
        mined(&store_of((0..200).map(|n| format!("user {} came in", name(n)))), &Layout::default());
    let counted: u64 = found.iter().flat_map(|one| &one.2).map(|point| point.1).sum();
    assert_eq!(counted, 200);
    assert_eq!(found[0].0, "user <_> came in");
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn rare_templates_are_left_out_beside_frequent_ones() {
    let line = |n: usize| match n {
        5 | 17 => format!("something else happened at {n}"),
        _ => format!("one line like the {n} others"),
    };
    let patterns = |count: usize| -> Vec<String> {
        let found = mined(&store_of((0..count).map(line)), &Layout::default());
        found.into_iter().map(|one| one.0).collect()
    };
    let frequent = "one line like the <_> others";
    assert_eq!(patterns(20), [frequent, "something else happened at <_>"]);
    assert_eq!(patterns(60), [frequent]);
    assert_eq!(
        mined(&store_of((0..60).map(|_| "too few words".to_owned())), &Layout::default()),
        []
    );
}

#[test]
fn every_template_is_a_pattern_that_matches_its_lines() {
    let lines = [
        "one <_> two three",
        "a<b>c <x><y> [z] (end)",
        "\u{fffd}\u{e9}t\u{e9} x=1 y=z",
        "nul \0 and 7 more",
        "x=,y=;z w v",
        r#"a=b m="x \" y"n"z" q r"#,
        r#"{"n":12,"msg":"17 of \"three\" are not"}"#,
        r#"{"message":"open the last door","n":12,"s":["a","b"]}"#,
        r#"{"level":"info","n":12,"s":["a","b"]}"#,
    ];
    for line in lines {
        let store = store_of([line.to_owned()]);
        let found = mined(&store, &Layout::default());
        assert_eq!(found.len(), 1, "{line:?}");
        let pattern = &found[0].0;
        let query = format!("{{app=\"x\"}} |> {}", quoted(pattern));
        let params = QueryParams::range(0, 1000 * SECOND_NS, SECOND_NS);
        let Ok(QueryResult::Streams(streams)) = store.query(&query, &params) else {
            panic!("{line:?} {pattern:?} is no filter")
        };
        assert_eq!(streams.len(), 1, "{line:?} {pattern:?}");
    }
}

/// A text as a quoted string of the language.
fn quoted(text: &str) -> String {
    let escaped: String = text
        .chars()
        .flat_map(|c| match c {
            '"' | '\\' => vec!['\\', c],
            '\0' => "\\x00".chars().collect(),
            _ => vec![c],
        })
        .collect();
    format!("\"{escaped}\"")
}

#[test]
fn arbitrary_bytes_keep_the_tree_within_its_bounds() {
    let seed = 0x5eed_u64;
    let mut state = seed;
    let mut random = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let (mut tree, meter) = (Tree::new(), Meter::default());
    for n in 0..6000 {
        let len = random() % 200;
        let line: Vec<u8> = (0..len).map(|_| random() as u8).collect();
        tree.add((n % 8) as u8, &line, n / 100, 1, &meter);
    }
    let huge = vec![b'a'; 1 << 20];
    tree.add(0, &huge, 0, u64::MAX, &meter);
    tree.add(0, &[b"word ".as_slice(); 100_000].concat(), 0, u64::MAX, &meter);
    assert!(tree.held_bytes() < 16 << 20, "seed {seed}: {} bytes", tree.held_bytes());
    let found = tree.finish(&meter);
    assert!(!found.is_empty() && found.len() <= 2048, "seed {seed}: {}", found.len());
    let series = merge(found.iter().chain(&found).cloned().collect(), SECOND_NS);
    assert!(series.len() <= found.len(), "seed {seed}");
}

#[test]
fn many_lines_are_sampled_by_weight() {
    let weights: u64 = (0..4 * FULL_LINES)
        .filter(|seen| (seen + 1).is_multiple_of(stride_at(*seen)))
        .map(stride_at)
        .sum();
    assert_eq!(weights, 4 * FULL_LINES);
    let looked_at =
        (0..64 * FULL_LINES).filter(|seen| (seen + 1).is_multiple_of(stride_at(*seen))).count();
    assert!(looked_at as u64 <= 5 * FULL_LINES, "{looked_at}");
}
