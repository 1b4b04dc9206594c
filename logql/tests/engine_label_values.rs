//! Patterns of label values mean the same wherever a label comes from, and the list
//! forms of parsers give the values of the plain forms.

use logsvc_logql::engine::testing::{Layout, TestEntry, TestStore};
use logsvc_logql::engine::{Direction, QueryParams, QueryResult, QueryTime};
use logsvc_logql::syntax::go_regex;
use logsvc_logql::testing::Rng;
use logsvc_proto::Labels;

const SECOND_NS: i64 = 1_000_000_000;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied()).expect("valid labels")
}

/// The text in double quotes, as queries, JSON and logfmt write it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out + "\""
}

/// The numbers of the entries in the answer to a log query.
fn kept(store: &TestStore, query: &str) -> Vec<i64> {
    let mut params = QueryParams::range(0, 1000 * SECOND_NS, SECOND_NS);
    params.direction = Direction::Forward;
    params.limit = 1000;
    let mut answers = [Layout::default(), Layout::PLAIN].map(|layout| {
        let result = store.query_with(query, &params, &layout);
        let result = result.unwrap_or_else(|error| panic!("{query}: {error}"));
        let QueryResult::Streams(streams) = result else { panic!("{query}: not streams") };
        let mut kept: Vec<i64> = streams
            .iter()
            .flat_map(|stream| &stream.entries)
            .map(|entry| entry.timestamp_ns / SECOND_NS)
            .collect();
        kept.sort_unstable();
        kept
    });
    assert_eq!(answers[0], answers[1], "{query}");
    std::mem::take(&mut answers[0])
}

const VALUES: [&str; 16] = [
    "",
    "a",
    "b",
    "ab",
    "a\nb",
    "\n",
    "boom\n\tat A.run\ntimeout",
    "timeout",
    "A\nTIMEOUT",
    "a\r\nb",
    "x\ny",
    "xy",
    "warn",
    "warning\n",
    "\u{fc}\nz",
    "500",
];

const PATTERNS: [&str; 44] = [
    "",
    ".*",
    ".+",
    "(.*)",
    "(.+)",
    ".*timeout.*",
    ".+timeout.*",
    "(?i).*timeout.*",
    ".*timeout",
    "boom.*",
    "boom.+",
    "boom.*timeout",
    "boom[^x]*timeout",
    "a.b",
    "a.*b",
    "a.+b",
    ".",
    "..",
    "a|b",
    "warn|warning.",
    "warn.*|timeout",
    ".*|a",
    "|a",
    "^a.b$",
    "a(.|x)b",
    "(?s)a.b",
    "(?-s)a.b",
    "(?-s)a.*",
    "(?-s).*",
    "(?-s).+",
    "(?-s).*timeout.*",
    "(?-s:a.)b",
    "a(?-s).*",
    "(?-s)a(?s).*",
    "(?s-i)A.*",
    "(?i-s)A.B",
    "(?m)a$.^b",
    "(?m)^b",
    "(?m-s).*$.*",
    "(?U)a.*",
    "(?Us)a.+?b",
    r"a\sb",
    r"\Qa\E.b",
    r"\x61.\x62",
];

/// One entry for each value, in every place that labels come from.
fn store_of(values: &[&str]) -> TestStore {
    let mut store = TestStore::new();
    for (second, value) in (0..).zip(values) {
        let timestamp_ns = second * SECOND_NS;
        let written = quoted(value);
        let mut push = |source: &str, stream: &str, line: String, metadata: &str| {
            let mut pairs = vec![("from", source)];
            if !stream.is_empty() {
                pairs.push(("v", stream));
            }
            let metadata = if metadata.is_empty() {
                Vec::new()
            } else {
                vec![("v".to_owned(), metadata.to_owned())]
            };
            let entry = TestEntry { timestamp_ns, line: line.into(), metadata };
            store.push(&labels(&pairs), entry);
        };
        push("stream", value, "x".to_owned(), "");
        push("metadata", "", "x".to_owned(), value);
        push("json", "", format!(r#"{{"n":1,"v":{written}}}"#), "");
        push("nested", "", format!(r#"{{"n":{{"v":{written}}}}}"#), "");
        push("logfmt", "", format!("n=1 v={written}"), "");
        push("packed", "", format!(r#"{{"v":{written},"_entry":"x"}}"#), "");
        push("bare", "", format!("v={value}"), "");
    }
    store
}

/// Where the label `v` comes from: the stream, and the stages that make it.
const SOURCES: [(&str, &str); 12] = [
    ("stream", ""),
    ("stream", "| label_format w=\"{{.v}}\" | label_format v=w"),
    ("metadata", ""),
    ("metadata", "| label_format v=\"{{.v}}\""),
    ("json", "| json"),
    ("json", "| json v"),
    ("nested", "| json v=\"n.v\""),
    ("logfmt", "| logfmt"),
    ("logfmt", "| logfmt v"),
    ("packed", "| unpack"),
    ("bare", "| pattern \"v=<v>\""),
    ("bare", "| regexp \"(?s)^v=(?P<v>.*)$\""),
];

#[test]
fn patterns_of_label_filters_are_those_of_selectors_for_every_source() {
    let store = store_of(&VALUES);
    for pattern in PATTERNS {
        let regex = go_regex::compile_matcher(pattern.as_bytes()).expect(pattern);
        let expected = |negated: bool| -> Vec<i64> {
            let matches = |value: &str| regex.is_match(value.as_bytes()) != negated;
            (0..).zip(VALUES).filter(|(_, value)| matches(value)).map(|(at, _)| at).collect()
        };
        let pattern = quoted(pattern);
        for (op, negated) in [("=~", false), ("!~", true)] {
            let expected = expected(negated);
            let selector = format!("{{from=\"stream\", v{op}{pattern}}}");
            assert_eq!(kept(&store, &selector), expected, "{selector}");
            for (source, stages) in SOURCES {
                let query = format!("{{from=\"{source}\"}} {stages} | v{op}{pattern}");
                assert_eq!(kept(&store, &query), expected, "{query}");
                if !["| json", "| logfmt v"].contains(&stages) {
                    continue;
                }
                let both = format!("{query} and from=\"{source}\" | n=~\".*\"");
                assert_eq!(kept(&store, &both), expected, "{both}");
                let dropped =
                    format!("{{from=\"{source}\"}} {stages} | drop v{op}{pattern} | v!=\"\"");
                let rest: Vec<i64> = (0..)
                    .zip(VALUES)
                    .filter(|(at, value)| !value.is_empty() && !expected.contains(at))
                    .map(|(at, _)| at)
                    .collect();
                assert_eq!(kept(&store, &dropped), rest, "{dropped}");
                let kept_only =
                    format!("{{from=\"{source}\"}} {stages} | keep v{op}{pattern} | v!=\"\"");
                let some: Vec<i64> = expected
                    .iter()
                    .copied()
                    .filter(|at| !VALUES[*at as usize].is_empty())
                    .collect();
                assert_eq!(kept(&store, &kept_only), some, "{kept_only}");
            }
        }
    }
}

#[test]
fn random_patterns_select_the_same_in_filters_and_selectors() {
    const PIECES: [&str; 18] = [
        "a", "b", "x", ".", ".*", ".+", "\n", "[^a]", "(?s)", "(?-s)", "(?i)", "(?m)", "$", "^",
        "|", "(?:a.)?", "\\s", "timeout",
    ];
    let store = store_of(&VALUES);
    let mut compared = 0;
    for seed in 0..600 {
        let mut rng = Rng::new(seed);
        let pattern: String = (0..1 + rng.below(5)).map(|_| *rng.pick(&PIECES)).collect();
        if go_regex::compile_matcher(pattern.as_bytes()).is_err() {
            continue;
        }
        let pattern = quoted(&pattern);
        for op in ["=~", "!~"] {
            let expected = kept(&store, &format!("{{from=\"stream\", v{op}{pattern}}}"));
            let (source, stages) = *rng.pick(&SOURCES);
            let query = format!("{{from=\"{source}\"}} {stages} | v{op}{pattern}");
            assert_eq!(kept(&store, &query), expected, "seed {seed}: {query}");
        }
        compared += 1;
    }
    assert!(compared > 400, "{compared} patterns were compared");
}

#[test]
fn line_filters_and_parsers_keep_the_dot_of_lines() {
    let store = store_of(&VALUES);
    let at = |value: &str| VALUES.iter().position(|v| *v == value).expect("listed") as i64;
    assert_eq!(kept(&store, r#"{from="bare"} |~ "a.b""#), []);
    assert_eq!(kept(&store, r#"{from="bare"} |~ "(?s)a.b""#), [at("a\nb")]);
    let query = r#"{from="bare"} | regexp "^v=(?P<v>a.*)$" | v!="""#;
    assert_eq!(kept(&store, query), [at("a"), at("ab")]);
}

/// The labels of the only entry in the answer that `v` begins the names of.
fn shown(line: &[u8], stages: &str) -> Vec<(String, String)> {
    let mut store = TestStore::new();
    let entry = TestEntry { timestamp_ns: SECOND_NS, line: line.into(), metadata: Vec::new() };
    store.push(&labels(&[("app", "t")]), entry);
    let params = QueryParams::range(0, 100 * SECOND_NS, SECOND_NS);
    let query = format!("{{app=\"t\"}} {stages}");
    let result = store.query(&query, &params).unwrap_or_else(|error| panic!("{query}: {error}"));
    let QueryResult::Streams(streams) = result else { panic!("{query}: not streams") };
    let shown = streams[0].labels.iter().filter(|(name, _)| *name != "app");
    shown.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[test]
fn list_forms_give_the_values_of_the_plain_forms() {
    let lines: [(&str, &[u8], &str); 12] = [
        ("logfmt", "v=\u{fffd}".as_bytes(), " "),
        ("logfmt", "v=a\u{fffd}b".as_bytes(), "a b"),
        ("logfmt", "v=\"a \u{fffd}\u{fffd}b\"".as_bytes(), "a   b"),
        ("logfmt", b"v=\"a\xffb\"", "a b"),
        ("logfmt", b"v=a\xe2\x82b", "a  b"),
        ("logfmt", b"v=\"a\\ufffd\xff\\nb\"", "a  \nb"),
        ("logfmt", b"v=\"a\\ud83db\"", "a b"),
        ("logfmt", b"v=\"a\\tb\\u0041\" x=1", "a\tbA"),
        ("json", "{\"v\":\"a\u{fffd}b\"}".as_bytes(), "a b"),
        ("json", b"{\"v\":\"a\xffb\\n\"}", "a b\n"),
        ("json", b"{\"v\":\"a\\ufffdb\"}", "a b"),
        ("json", b"{\"v\":12.50}", "12.50"),
    ];
    for (parser, line, value) in lines {
        for stages in [
            format!("| {parser} | keep v"),
            format!("| {parser} v"),
            format!("| {parser} v=\"v\""),
            format!("| {parser} w=\"v\" | label_format v=w"),
        ] {
            let expected = vec![("v".to_owned(), value.to_owned())];
            assert_eq!(shown(line, &stages), expected, "{stages} of {}", line.escape_ascii());
        }
    }
    for flags in ["--strict", "--keep-empty", "--strict --keep-empty"] {
        let line = "v=a\u{fffd}b".as_bytes();
        let expected = vec![("v".to_owned(), "a b".to_owned())];
        assert_eq!(shown(line, &format!("| logfmt {flags}")), expected);
        assert_eq!(shown(line, &format!("| logfmt {flags} v")), expected);
    }
}

#[test]
fn list_forms_name_their_labels_on_every_line_that_they_read() {
    let empty = |name: &str| vec![(name.to_owned(), String::new())];
    // The list form of logfmt begins with empty labels, however short the line is.
    assert_eq!(shown(b"x", "| line_format \"\" | logfmt v"), empty("v"));
    assert_eq!(shown(b"x", "| line_format \" \" | logfmt v"), empty("v"));
    assert_eq!(shown(b"x", "| logfmt v"), empty("v"));
    assert_eq!(shown(b"x", "| line_format \"\" | logfmt v=\"x\" | v=\"\""), empty("v"));
    assert_eq!(shown(b"v=", "| logfmt v"), empty("v"));
    assert_eq!(shown(b"x", "| line_format \"\" | logfmt"), []);
    // A name that the stream has stays the stream's.
    assert_eq!(shown(b"x", "| line_format \"\" | logfmt app"), []);
    // That of json reads nothing in an empty line.
    assert_eq!(shown(b"x", "| line_format \"\" | json v"), []);
    assert_eq!(shown(b"{}", "| json v"), empty("v"));
}

/// A line of random pairs, in which every key comes once at most.
fn random_line(rng: &mut Rng, is_json: bool) -> Vec<u8> {
    const VALUES: [&[u8]; 20] = [
        b"1",
        b"-2.5e3",
        b"",
        b"\"\"",
        b"\"x y\"",
        b"\"a\\tb\"",
        b"\"a\\qb\"",
        b"\"a\\ufffdb\"",
        b"\"\\ud83d\"",
        b"\"\\ud83d\\ude80\"",
        b"\"a\xffb\"",
        b"\xef\xbf\xbd",
        b"\"\xef\xbf\xbd\"",
        b"x=y",
        b"x\"y",
        b"\"open",
        b"true",
        b"null",
        b"\"q\\\"q\"",
        b"\"'\\/\"",
    ];
    let mut line = Vec::new();
    for key in ["a", "b", "c_d"] {
        let value = *rng.pick(&VALUES);
        if rng.one_in(5) {
            continue;
        }
        if is_json {
            line.extend(if line.is_empty() { "{" } else { "," }.bytes());
            line.extend(format!("\"{key}\":").bytes());
        } else {
            line.extend(format!(" {key}").bytes());
            if value.is_empty() && rng.one_in(2) {
                continue;
            }
            line.push(b'=');
        }
        line.extend(value);
    }
    if is_json && !rng.one_in(5) {
        line.extend(if line.is_empty() { "{}" } else { "}" }.bytes());
    }
    line
}

#[test]
fn list_forms_agree_with_plain_forms_on_random_lines() {
    let value_of = |found: &[(String, String)], name: &str| {
        found.iter().find(|(own, _)| own == name).map(|(_, value)| value.clone())
    };
    let (mut compared, mut errors) = (0, 0);
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let is_json = rng.one_in(3);
        let line = random_line(&mut rng, is_json);
        let (plain, list) = match rng.below(3) {
            _ if is_json => ("| json", "| json a, b, c_d"),
            0 => ("| logfmt --strict --keep-empty", "| logfmt --strict a, b, c_d"),
            _ => ("| logfmt --keep-empty", "| logfmt a, b, c_d"),
        };
        let (plain_labels, list_labels) = (shown(&line, plain), shown(&line, list));
        let text = line.escape_ascii();
        let plain_error = value_of(&plain_labels, "__error__");
        if !is_json {
            let details = ["__error__", "__error_details__"];
            let of = |found: &[_]| details.map(|name| value_of(found, name));
            assert_eq!(of(&list_labels), of(&plain_labels), "{list} of {text}");
        } else if plain_error.is_some() {
            // The list form of json looks at the listed fields and at nothing else.
            continue;
        }
        errors += usize::from(plain_error.is_some());
        for name in ["a", "b", "c_d"] {
            let plain = value_of(&plain_labels, name).unwrap_or_default();
            assert_eq!(value_of(&list_labels, name), Some(plain), "{list}, {name} of {text}");
            compared += 1;
        }
    }
    assert!(compared > 3_000 && errors > 100, "{compared} values, {errors} errors");
}

#[test]
fn sizes_and_durations_below_zero_are_compared() {
    let mut store = TestStore::new();
    for (second, line) in (0..).zip(["b=5KB d=1s", "b=0 d=-2h", "b=big d=-2000h", "c=1"]) {
        store.push_line(&labels(&[("app", "t")]), second * SECOND_NS, line);
    }
    for (filter, expected) in [
        // A value that is no size passes with an error; an entry without the label does not pass.
        ("b > -1KB", &[0, 1, 2][..]),
        ("b >= - 5KiB", &[0, 1, 2]),
        ("b < -1B", &[2]),
        ("b = -5KB", &[2]),
        ("b != -5KB", &[0, 1, 2]),
        ("b > -0B", &[0, 2]),
        ("b > +1KB", &[0, 2]),
        ("d > -1d", &[0, 1]),
        ("d > - 1w", &[0, 1]),
        ("d > -1y", &[0, 1, 2]),
        ("d <= -1d12h", &[2]),
        ("d < - 1h", &[1, 2]),
        ("d < -1h", &[1, 2]),
        ("d >= +1s", &[0]),
    ] {
        let query = format!("{{app=\"t\"}} | logfmt | {filter}");
        assert_eq!(kept(&store, &query), expected, "{query}");
    }
}

#[test]
fn offsets_look_into_the_future_in_every_unit() {
    let mut store = TestStore::new();
    const DAY_S: i64 = 86_400;
    for (units, at_s) in (1..).zip([DAY_S, 7 * DAY_S, 365 * DAY_S, 60, 3600]) {
        for _ in 0..units {
            let line = format!("{at_s} {}", store.entries());
            store.push_line(&labels(&[("app", "t")]), (1_000_000 + at_s) * SECOND_NS, &line);
        }
    }
    let count = |offset: &str| {
        let query = format!("sum(count_over_time({{app=\"t\"}}[10s] offset {offset}))");
        let params = QueryParams::new(QueryTime::Instant { time_ns: 1_000_001 * SECOND_NS });
        let result = store.query(&query, &params).unwrap_or_else(|e| panic!("{query}: {e}"));
        let QueryResult::Vector(vector) = result else { panic!("{query}: {result:?}") };
        vector.first().map_or(0, |sample| sample.point.value as i64)
    };
    for (offset, entries) in [
        ("-1d", 1),
        ("- 1d", 1),
        ("-24h", 1),
        ("-1w", 2),
        ("- 7d", 2),
        ("-1y", 3),
        ("- 1m", 4),
        ("-1m", 4),
        ("-60s", 4),
        ("-60000ms", 4),
        ("-1h", 5),
        ("-59m60s", 5),
        ("1d", 0),
        ("+1d", 0),
        ("-292y", 0),
        ("- 292y", 0),
    ] {
        assert_eq!(count(offset), entries, "{offset}");
    }
}
