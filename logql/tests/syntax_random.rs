//! Random and hostile queries.

use logsvc_fuzz_bodies::logql as fuzz;
use logsvc_logql::syntax::ast::{Expr, MetricExpr};
use logsvc_logql::syntax::{
    MAX_EXPR_DEPTH, MAX_LABEL_FILTER_DEPTH, MAX_QUERY_LEN_BYTES, SelectorError, check_executable,
    format, parse, parse_bytes, parse_log_selector, parse_matchers, parse_selector,
};
use logsvc_logql::testing::{Generator, Rng};

#[test]
fn printed_trees_parse_to_themselves() {
    for seed in 0..4000 {
        let expr = Generator::new(seed).expr();
        for text in [expr.to_string(), format(&expr)] {
            match parse(&text) {
                Ok(again) => assert_eq!(again, expr, "seed {seed}: {text}"),
                Err(error) => panic!("seed {seed}: {error}\n{text}"),
            }
        }
    }
}

#[test]
fn damaged_queries_never_panic() {
    const PIECES: [&str; 24] = [
        "{",
        "}",
        "(",
        ")",
        "|",
        "!=",
        "or",
        " and ",
        ",",
        "\"",
        "`",
        "[5m]",
        "5m",
        "-",
        "1e",
        "json",
        "sum(",
        " by (x)",
        "unwrap x",
        "=~\"(\"",
        "\u{a0}",
        "\0",
        "offset 1h",
        "'a'",
    ];
    for seed in 0..4000 {
        let mut rng = Rng::new(seed);
        let mut text = Generator::new(seed).expr().to_string().into_bytes();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(text.len() + 1);
            match rng.below(3) {
                0 => {
                    text.truncate(at);
                }
                1 if at < text.len() => text[at] = rng.next_u64() as u8,
                _ => {
                    text.splice(at..at, rng.pick(&PIECES).bytes());
                }
            }
        }
        fuzz::parse(&text);
    }
}

#[test]
fn arbitrary_bytes_never_panic() {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let len = rng.below(200);
        let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
        fuzz::parse(&bytes);
        let ascii: Vec<u8> = bytes.iter().map(|b| 32 + b % 95).collect();
        fuzz::parse(&ascii);
    }
}

fn message(query: &str) -> String {
    parse(query).map(|_| ()).expect_err("it is hostile").to_string()
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

#[test]
fn hostile_nesting_is_an_error() {
    assert_eq!(parse(&nested("(", "1", ")", 100)), Ok(Expr::Metric(MetricExpr::Literal(1.0))));
    for query in [
        nested("(", "1", ")", 60_000),
        nested("(", "{a=\"b\"}", ")", 60_000),
        nested("sum(", "vector(1)", ")", 20_000),
        nested("1+(", "1", ")", 30_000),
        nested("vector(1)^(", "1", ")", 9_000),
        nested("label_replace(", "vector(1)", ",\"\",\"\",\"\",\"\")", 3_000),
        format!("rate{}", nested("(", "{a=\"b\"}[5m]", ")", 60_000)),
        format!("vector(1){}", "+vector(1)".repeat(13_000)),
        format!("vector(1){}", "^vector(1)".repeat(13_000)),
    ] {
        let message = message(&query);
        assert!(message.contains("nests too deeply"), "{message}");
    }
    // Literals are folded, so a chain of them is no deeper than one.
    assert_eq!(
        parse(&format!("1{}", "+1".repeat(60_000))),
        Ok(Expr::Metric(MetricExpr::Literal(60_001.0)))
    );
    let longest = format!("vector(1){}", "+vector(1)".repeat(MAX_EXPR_DEPTH - 1));
    fuzz::parse(longest.as_bytes());
    assert!(parse(&longest).is_ok());
    let deepest = nested("sum(", "vector(1)", ")", MAX_EXPR_DEPTH - 1);
    fuzz::parse(deepest.as_bytes());
    assert!(parse(&deepest).is_ok());
    assert!(message(&format!("sum({deepest})")).contains("nests too deeply"));
}

#[test]
fn hostile_label_filters_are_an_error() {
    let log = |filter: String| format!("{{a=\"b\"}} | {filter}");
    for separator in [" or ", " and ", ",", " "] {
        let chain = |terms| log(vec!["x=1"; terms].join(separator));
        let longest = chain(MAX_LABEL_FILTER_DEPTH);
        assert!(parse(&longest).is_ok());
        fuzz::parse(longest.as_bytes());
        assert!(message(&chain(15_000)).contains("nests too deeply"));
    }
    assert!(parse(&log(nested("(", "x=1", ")", 60_000))).is_ok());
    assert!(message(&log(nested("(x=1 or ", "x=1", ")", 12_000))).contains("nests too deeply"));
    assert!(message(&log("(".repeat(120_000))).contains("unexpected $end"));
    assert!(parse(&log(vec!["x=1"; 15_000].join(" | "))).is_ok());
}

#[test]
fn hostile_patterns_are_an_error() {
    let matchers = |pattern: &str, count| {
        format!("{{{}}}", vec![format!("a=~\"{pattern}\""); count].join(","))
    };
    assert!(message(&matchers("\\\\pL{90}", 5_000)).contains("too large"));
    assert!(message(&matchers("(?i)[a-z]{1000}", 5_000)).contains("too large"));
    assert!(message(&matchers(&"(".repeat(5_000), 1)).contains("nests too deeply"));
}

#[test]
fn length_limit() {
    let query = |len| format!("{{a=\"{}\"}}", "x".repeat(len - 6));
    assert!(parse(&query(MAX_QUERY_LEN_BYTES - 1)).is_ok());
    for len in [131_072, 131_073] {
        let expected = format!("parse error : input size too long ({len} > 131072)");
        assert_eq!(message(&query(len)), expected);
        let mut bytes = query(len).into_bytes();
        bytes[10] = 0xff;
        assert_eq!(parse_bytes(&bytes).expect_err("long").to_string(), expected);
    }
}

#[test]
fn encoding() {
    assert!(parse_bytes(b"\xef\xbb\xbf{a=\"b\"}").is_ok());
    let error = parse_bytes(b"{a=\"b\"}\n|= \"\xc3\xa4\xff\"").expect_err("no UTF-8");
    assert_eq!(error.to_string(), "parse error at line 2, col 6: invalid UTF-8 encoding");
}

#[test]
fn restricted_kinds_of_query() {
    assert_eq!(parse_selector("{a=\"b\"}").map(|s| s.to_string()), Ok("{a=\"b\"}".to_owned()));
    for query in ["{a=\"b\"} |= \"x\"", "rate({a=\"b\"}[5m])", "1"] {
        let error = parse_selector(query).expect_err(query);
        assert_eq!(error.to_string(), "only label matchers are supported");
    }
    assert!(matches!(parse_selector("{}"), Err(SelectorError::Parse(_))));
    assert!(parse_matchers("{}").is_ok_and(|s| s.matchers.is_empty()));
    assert!(parse_matchers("{a=~\".*\"}").is_ok());
    assert_eq!(parse_matchers("{} | json"), Err(SelectorError::NotASelector));
    assert!(parse_log_selector("{a=\"b\"} | json").is_ok());
    let error = parse_log_selector("vector(1)").expect_err("no log query");
    assert_eq!(error.to_string(), "only log selector is supported");
    assert_eq!(
        parse_log_selector("{").expect_err("no query").to_string(),
        "parse error at line 1, col 2: syntax error: unexpected $end, expecting IDENTIFIER or }"
    );
}

#[test]
fn aggregated_literals_print_but_do_not_run() {
    for (query, runs) in
        [("sum(1)", false), ("1 + sum(2)", false), ("1", true), ("sum(vector(1))", true)]
    {
        let expr = parse(query).expect(query);
        assert_eq!(check_executable(&expr).is_ok(), runs, "{query}");
    }
}
