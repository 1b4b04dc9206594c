//! The requirements of a leaf on stored entries hold for every entry that
//! contributes: over random queries and random lines made from the same pieces.

use logsvc_logql::engine::testing::{Layout, QueryError, TestEntry, TestStore};
use logsvc_logql::engine::{EvalError, LeafPlan, Literal, Plan, QueryParams, QueryResult};
use logsvc_logql::syntax;
use logsvc_logql::testing::Rng;
use logsvc_proto::Labels;

const SECOND_NS: i64 = 1_000_000_000;

/// Pieces of lines, of which patterns know some in other spellings.
const WORDS: [&str; 26] = [
    "timeout",
    "disk",
    "error",
    "500",
    "a b",
    "a\nb",
    "/api/v1",
    "TimeOut",
    "refused",
    "refu\u{17f}ed",
    "dis\u{212a}",
    "Error",
    "warn",
    "50",
    "503",
    "é",
    "É",
    "x",
    "\u{fffd}",
    "\"q\"",
    "abc",
    "abcabc",
    "'",
    "10.1.2.3",
    "10.1.2.30",
    "10.1.3.4",
];

const ADDRESSES: [&str; 5] =
    ["10.1.2.3", "10.1.2.0/24", "10.1.0.9/16", "10.1.2.9-10.1.3.9", "0.0.0.0/0"];

/// Patterns and pieces of patterns that find some of the words.
const PATTERNS: [&str; 23] = [
    "timeout",
    "(?i)timeout|refused",
    "(?i:disk)",
    "50[03]",
    "5(00|03)",
    "(error|warn).*50",
    "^x",
    "x$",
    "(abc)+",
    "(?i)(abc){2}",
    "a.b",
    "(?-s)a.b",
    "(?s)a.*",
    ".*b",
    "[éÉ]",
    "(?i)é",
    "/api/v\\d",
    "e?rror",
    "",
    "x|",
    ".+",
    "(?i)[a-d]bc",
    "\\bx\\b",
];

struct Case {
    rng: Rng,
}

impl Case {
    fn word(&mut self) -> &'static str {
        // A few come more often, so that filters and lines meet.
        let few = if self.rng.one_in(2) { 6 } else { WORDS.len() };
        self.rng.pick::<&'static str>(&WORDS[..few])
    }

    fn quoted(&mut self, text: &str) -> String {
        let mut out = String::from("\"");
        for c in text.chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '"' | '\\' => out.extend(['\\', c]),
                c => out.push(c),
            }
        }
        out + "\""
    }

    fn operand(&mut self, op: &str) -> String {
        let text = match op {
            "|~" | "!~" | "=~" => match self.rng.below(3) {
                0 => format!("{}{}", self.rng.pick(&PATTERNS), self.rng.pick(&PATTERNS)),
                _ => (*self.rng.pick(&PATTERNS)).to_owned(),
            },
            "|>" => match self.rng.below(3) {
                0 => format!("<_>{}<_>", self.word()),
                1 => format!("<_>{}", self.word()),
                _ => format!("<_>{}<_>{}<_>", self.word(), self.word()),
            },
            "|=" | "!=" if self.rng.one_in(5) => {
                let addresses = *self.rng.pick(&ADDRESSES);
                return format!("ip({})", self.quoted(addresses));
            }
            _ => self.word().to_owned(),
        };
        self.quoted(&text)
    }

    fn line_filter(&mut self) -> String {
        let op = *self.rng.pick(&["|=", "|=", "|~", "|~", "|>", "!=", "!~"]);
        let mut filter = format!(" {op} {}", self.operand(op));
        while self.rng.one_in(3) {
            let operand = self.operand(op);
            filter += &format!(" or {operand}");
        }
        filter
    }

    fn label_filter(&mut self) -> String {
        let names = ["a", "b", "a", "status", "trace", "app", "a_extracted"];
        let name = *self.rng.pick(&names);
        let op = *self.rng.pick(&["=", "=", "=", "=~", "=~", "!=", ">="]);
        let mut filter = match op {
            ">=" => format!("{name} >= 500"),
            "=" => format!("{name}={}", self.operand("=")),
            _ => format!("{name}{op}{}", self.operand(op)),
        };
        if self.rng.one_in(4) {
            let other = self.label_filter();
            let both = *self.rng.pick(&["and", "or"]);
            filter = format!("({filter} {both} {other})");
        }
        filter
    }

    fn stage(&mut self) -> String {
        match self.rng.below(13) {
            0..4 => self.line_filter(),
            4 | 5 => " | json".to_owned(),
            6 => " | logfmt".to_owned(),
            7 => {
                let stages = [
                    " | json a=\"o.a\", b=\"l[0]\"",
                    " | logfmt a=\"b\"",
                    " | unpack",
                    " | decolorize",
                    " | line_format `{{.a}} 500 timeout`",
                    " | label_format a=\"{{.b}}500\"",
                    " | label_format a=b",
                    " | drop a",
                    " | keep a, b, status",
                    " | pattern \"<a> <_>=<b>\"",
                    " | regexp `(?P<a>\\w+)[ =]\"?(?P<status>[^\" ]*)`",
                ];
                (*self.rng.pick(&stages)).to_owned()
            }
            _ => format!(" | {}", self.label_filter()),
        }
    }

    fn value(&mut self) -> String {
        let word = self.word();
        match self.rng.below(6) {
            // Spelled with escapes.
            0 => word.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect(),
            1 => word.replace('/', "\\/").replace('"', "\\\"").replace('\'', "\\u0027"),
            _ => word.replace('"', "\\\""),
        }
    }

    fn line(&mut self) -> Vec<u8> {
        let mut line = match self.rng.below(5) {
            0 | 1 => {
                let (a, b) = (self.value(), self.value());
                let (status, d) = (self.value(), self.value());
                format!(
                    r#"{{"a":"{a}","o":{{"a":"{b}"}},"l":["{d}"],"b":"{d}","status":"{status}","_entry":"a={a} b={b} {d}"}}"#
                )
            }
            2 | 3 => {
                let (a, b) = (self.value(), self.value());
                let status = if self.rng.one_in(2) { a.clone() } else { self.value() };
                format!(r#"a="{a}" b="{b}" status="{status}""#)
            }
            _ => {
                let words: Vec<&str> = (0..self.rng.below(6)).map(|_| self.word()).collect();
                words.join(if self.rng.one_in(2) { " " } else { "=" })
            }
        }
        .into_bytes();
        if self.rng.one_in(6) {
            let at = self.rng.below(line.len().max(1));
            line.insert(at, *self.rng.pick(&[0xff, b'\x1b', b'"', b'\\', b'\n', b'K']));
        }
        line
    }

    fn entry(&mut self, number: i64) -> (Labels, TestEntry) {
        let number_text = number.to_string();
        let mut names = vec![("m", "1"), ("n", number_text.as_str())];
        if self.rng.one_in(3) {
            let name = *self.rng.pick(&["a", "app", "status", "trace"]);
            names.push((name, self.word()));
        }
        let labels = Labels::from_pairs(names).expect("valid labels");
        let timestamp_ns = SECOND_NS + number;
        (labels, TestEntry { timestamp_ns, line: self.line(), metadata: self.metadata() })
    }

    fn metadata(&mut self) -> Vec<(String, String)> {
        let mut pairs = Vec::new();
        for name in ["a", "app", "trace"] {
            if self.rng.one_in(3) {
                pairs.push((name.to_owned(), self.word().to_owned()));
            }
        }
        pairs
    }
}

/// The leaf of a query; `None` when the query is not valid.
fn leaf(query: &str) -> Option<LeafPlan> {
    let expr = syntax::parse(query).ok()?;
    let plan = Plan::new(&expr, &QueryParams::range(0, 60 * SECOND_NS, SECOND_NS)).ok()?;
    plan.leaves().first().cloned()
}

/// Which of the entries, each of a stream of its own, show in the answer, be it as
/// an error.
fn contributing(query: &str, entries: &[(Labels, TestEntry)]) -> Vec<bool> {
    let params = QueryParams::range(0, 60 * SECOND_NS, SECOND_NS);
    let answer = |entries: &[(Labels, TestEntry)]| {
        let mut store = TestStore::new();
        entries.iter().for_each(|(labels, entry)| store.push(labels, entry.clone()));
        // The engine uses the requirements as well.
        let layout = Layout { use_shortcuts: false, ..Layout::default() };
        store.query_with(query, &params, &layout)
    };
    match answer(entries) {
        Ok(QueryResult::Streams(streams)) => {
            let shown: Vec<i64> =
                streams.iter().flat_map(|s| &s.entries).map(|entry| entry.timestamp_ns).collect();
            entries.iter().map(|(_, entry)| shown.contains(&entry.timestamp_ns)).collect()
        }
        Ok(QueryResult::Matrix(_)) | Err(QueryError::Eval(EvalError::Pipeline { .. })) => {
            let one = |entry| match answer(std::slice::from_ref(entry)) {
                Ok(QueryResult::Matrix(matrix)) => !matrix.is_empty(),
                Err(QueryError::Eval(EvalError::Pipeline { .. })) => true,
                other => panic!("{query}: {other:?}"),
            };
            entries.iter().map(one).collect()
        }
        other => panic!("{query}: {other:?}"),
    }
}

#[test]
fn entries_that_contribute_hold_what_is_required() {
    let (mut with_text, mut with_labels, mut with_metadata) = (0, 0, 0);
    let mut refused = 0;
    for seed in 0..4_000 {
        let mut case = Case { rng: Rng::new(seed) };
        let mut query = String::from("{m=\"1\"}");
        if case.rng.one_in(8) {
            query += &format!(" | trace={}", case.operand("="));
        }
        if case.rng.one_in(3) {
            query += *case.rng.pick(&[" | json", " | logfmt", " | json a=\"o.a\", b, status"]);
            query += &format!(" | {}", case.label_filter());
        }
        for _ in 0..case.rng.below(4) {
            query += &case.stage();
        }
        match case.rng.below(10) {
            0 => query = format!("sum by (a)(count_over_time({query}[9s]))"),
            1 => query = format!("sum_over_time({query} | unwrap status [9s])"),
            _ => {}
        }
        let Some(leaf) = leaf(&query) else { continue };
        let entries: Vec<(Labels, TestEntry)> = (0..12).map(|n| case.entry(n)).collect();
        let (texts, pairs) = (leaf.required_text(), leaf.required_metadata());
        for ((labels, entry), contributes) in entries.iter().zip(contributing(&query, &entries)) {
            let fails_text = texts.iter().find(|item| {
                let has = |name: &String| {
                    labels.get(name).is_some() || entry.metadata.iter().any(|(n, _)| n == name)
                };
                !item.unless_labels.iter().any(has) && !item.allows(&entry.line)
            });
            let fails_pair = pairs
                .iter()
                .find(|pair| labels.get(&pair.0).is_none() && !entry.metadata.contains(pair));
            if fails_text.is_some() || fails_pair.is_some() {
                refused += 1;
            }
            if !contributes {
                continue;
            }
            let line = entry.line.escape_ascii();
            let shown = format!("seed {seed}: {query}\n{line}\n{labels:?} {:?}", entry.metadata);
            assert!(fails_text.is_none(), "{shown}\n{fails_text:?}");
            assert!(fails_pair.is_none(), "{shown}\n{fails_pair:?}");
            with_text += usize::from(texts.iter().any(|item| item.unless_labels.is_empty()));
            with_labels += usize::from(texts.iter().any(|item| !item.unless_labels.is_empty()));
            with_metadata += usize::from(!pairs.is_empty());
        }
    }
    // Both sides of the claim were met often.
    assert!(with_text > 300, "{with_text} entries passed filters that require text");
    assert!(with_labels > 100, "{with_labels} passed label filters that require text");
    assert!(with_metadata > 50, "{with_metadata} passed filters that require metadata");
    assert!(refused > 1500, "{refused} entries were refused");
}

fn shown(query: &str) -> Vec<String> {
    let leaf = leaf(query).unwrap_or_else(|| panic!("{query} is valid"));
    let literal = |literal: &Literal| {
        let mark = if literal.ignore_case { "~" } else { "" };
        format!("{mark}{}", String::from_utf8_lossy(&literal.bytes))
    };
    let mut items: Vec<String> = leaf
        .required_text()
        .iter()
        .map(|item| {
            let any_of: Vec<String> = item.any_of.iter().map(literal).collect();
            let unless: String =
                item.unless_labels.iter().map(|n| format!(" unless {n}")).collect();
            format!("{}{unless}", any_of.join("|"))
        })
        .collect();
    items.extend(leaf.required_metadata().iter().map(|(name, value)| format!("{name}:{value}")));
    items
}

#[test]
fn requirements_follow_the_stages() {
    for (query, wanted) in [
        (r#"{m="1"}"#, &[][..]),
        (r#"{m="1"} |= "a" != "b" |~ "c.*d" |> "<_>e<_>""#, &["a", "c", "d", "e"]),
        (r#"{m="1"} |= "ab" or "cd""#, &["ab|cd"]),
        (r#"{m="1"} |= ip("1.2.3.9/24") != ip("4.4.4.4") |= ip("::1")"#, &["1.2.3."]),
        (r#"{m="1"} |= "ab" or """#, &[]),
        (r#"{m="1"} |~ "a.*bc" or "d""#, &["bc|d"]),
        (r#"{m="1"} | json |= "a""#, &["a"]),
        (r#"{m="1"} | line_format "x" |= "a""#, &[]),
        (r#"{m="1"} | json | status="500""#, &["500|\\u unless status"]),
        (r#"{m="1"} | pattern "<_> <status>" | status=~"5..""#, &["5 unless status"]),
        (r#"{m="1"} | json | path="/a b""#, &["/a|\\/|\\u unless path", "b|\\u unless path"]),
        (r#"{m="1"} | logfmt | level="error" or level="warn""#, &["\\u|error|warn unless level"]),
        (r#"{m="1"} | json | status!="500" | x_extracted="1""#, &[]),
        (r#"{m="1"} | json | label_format status="{{.x}}" | status="500""#, &[]),
        (r#"{m="1"} | trace_id="abc" | json"#, &["trace_id:abc"]),
        (r#"{m="1"} | trace_id="abc" and b="c" | d="" or e="f""#, &["trace_id:abc", "b:c"]),
        (r#"rate({m="1"} |= "a" | trace_id="abc" [5m])"#, &["a", "trace_id:abc"]),
    ] {
        assert_eq!(shown(query), wanted, "{query}");
    }
}
