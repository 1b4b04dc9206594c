//! Bytes of leaves that no plan has, each refused for its own reason.

use logsvc_logql::engine::{
    Allowance, CompiledMatcher, LeafError, LeafPlan, Stop, WireError, decode_matchers,
    encode_matchers,
};
use logsvc_logql::engine::{PlanError, Unlimited};
use logsvc_logql::syntax::MAX_QUERY_LEN_BYTES;
use logsvc_logql::syntax::ast::{MatchOp, Matcher};
use logsvc_proto::varint;

/// A leaf that is written piece by piece.
#[derive(Clone)]
struct Pieces {
    times_ns: [i64; 3],
    limit: Vec<u8>,
    matchers: Vec<(&'static str, u8, String)>,
    text: Vec<u8>,
    kind: Vec<u8>,
}

impl Pieces {
    fn bytes(&self) -> Vec<u8> {
        let mut out = vec![1, 0];
        self.times_ns.iter().for_each(|time_ns| out.extend(time_ns.to_le_bytes()));
        out.push(0);
        out.extend(&self.limit);
        varint::write(&mut out, self.matchers.len() as u64);
        for (name, op, value) in &self.matchers {
            put_bytes(&mut out, name.as_bytes());
            out.push(*op);
            put_bytes(&mut out, value.as_bytes());
        }
        put_bytes(&mut out, &self.text);
        out.extend(&self.kind);
        out
    }

    fn error(&self) -> Option<LeafError> {
        LeafPlan::decode(&self.bytes()).err()
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::write(out, bytes.len() as u64);
    out.extend(bytes);
}

/// Start, step, steps, range and offset, then what follows.
fn windowed(kind: u8, windows: (i64, i64, u32, i64, i64), rest: &[u8]) -> Vec<u8> {
    let (start, step, steps, range, offset) = windows;
    let mut out = vec![kind];
    out.extend(start.to_le_bytes());
    out.extend(step.to_le_bytes());
    out.extend(steps.to_le_bytes());
    out.extend(range.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out.extend(rest);
    out
}

const WINDOWS: (i64, i64, u32, i64, i64) = (100, 10, 5, 20, 0);

/// `count_over_time({app="m"}[20ns])` from 100 to 140 ns by 10.
fn count() -> Pieces {
    Pieces {
        times_ns: [81, 141, 0],
        limit: vec![0],
        matchers: vec![("app", 0, "m".to_owned())],
        text: Vec::new(),
        kind: windowed(1, WINDOWS, &[0, 0]),
    }
}

fn log_query(text: &str) -> Pieces {
    let mut kind = vec![0, 1];
    kind.extend(10u64.to_le_bytes());
    kind.extend(0i64.to_le_bytes());
    kind.extend([0, 0]);
    Pieces { text: text.into(), kind, ..count() }
}

#[test]
fn pieces_are_those_of_leaves() {
    assert_eq!(count().error(), None);
    assert_eq!(log_query("|= \"x\" | json").error(), None);
    assert_eq!(Pieces { matchers: Vec::new(), ..count() }.error(), None);
}

#[test]
fn impossible_windows_are_refused() {
    let (start, step, steps, range, offset) = WINDOWS;
    for windows in [
        (start, 0, steps, range, offset),
        (start, -1, steps, range, offset),
        (start, i64::MIN, steps, range, offset),
        (start, step, 0, range, offset),
        (start, step, 1_000_004, range, offset),
        (start, step, u32::MAX, range, offset),
        (i64::MAX - 39, step, steps, range, offset),
        (start, i64::MAX, steps, range, offset),
        (start, step, steps, -1, offset),
        (start, step, steps, i64::MIN, offset),
        // The entries lie beyond the windows.
        (start, step, steps, range - 1, offset),
        (start, step, steps - 1, range, offset),
        (start, step, steps, range, 1),
        (start, step, steps, 0, offset),
    ] {
        let pieces = Pieces { kind: windowed(1, windows, &[0, 0]), ..count() };
        assert_eq!(pieces.error(), Some(WireError::Steps.into()), "{windows:?}");
    }
    for (start_ns, step_ns) in [(0, 9_999_999_999i64), (5, 10_000_000_000), (0, -1)] {
        let mut kind = vec![3];
        kind.extend(step_ns.to_le_bytes());
        let pieces = Pieces { times_ns: [start_ns, 5, 5], kind, ..count() };
        assert_eq!(pieces.error(), Some(WireError::Steps.into()));
    }
}

#[test]
fn impossible_kinds_are_refused() {
    let range = |rest: &[u8]| Pieces { kind: windowed(1, WINDOWS, rest), ..count() };
    let samples = |rest: &[u8]| Pieces {
        text: b"| unwrap v".to_vec(),
        kind: windowed(2, WINDOWS, rest),
        ..count()
    };
    assert_eq!(samples(&[0, 2, 63]).error(), None);
    for (pieces, error) in [
        // Sizes as stored without streams; streams that are counted, or have stages.
        (range(&[2, 0]), WireError::Reference),
        (range(&[0, 3]), WireError::Reference),
        (Pieces { text: b"| json".to_vec(), ..range(&[1, 3]) }, WireError::Reference),
        (Pieces { text: b"| unwrap v".to_vec(), ..count() }, WireError::Reference),
        (Pieces { text: b"| json".to_vec(), kind: vec![3; 9], ..count() }, WireError::Reference),
        (Pieces { text: Vec::new(), ..samples(&[0, 0]) }, WireError::Reference),
        (samples(&[3, 0]), WireError::Reference),
        (samples(&[0, 2, 64]), WireError::Number),
        (samples(&[0, 3]), WireError::Kind(3)),
        (samples(&[7, 0]), WireError::Kind(7)),
        (range(&[3, 0]), WireError::Kind(3)),
        (Pieces { kind: vec![4], ..count() }, WireError::Kind(4)),
        // Names that do not ascend.
        (range(&[0, 2, 0, 2, 1, b'b', 1, b'a']), WireError::Order),
        (range(&[1, 4, 2, 1, b'a', 1, b'a']), WireError::Order),
        (range(&[0, 2, 2, 0]), WireError::Kind(2)),
        (Pieces { limit: vec![1, 0, 0, 0, 0, 0, 0, 0, 0], ..count() }, WireError::Number),
        (Pieces { limit: vec![3], ..count() }, WireError::Kind(3)),
        (Pieces { matchers: vec![("a", 4, String::new())], ..count() }, WireError::Kind(4)),
    ] {
        assert_eq!(pieces.error(), Some(error.into()), "{:?}", pieces.bytes());
    }
    let mut negative = log_query("");
    negative.kind[10..18].copy_from_slice(&(-1i64).to_le_bytes());
    assert_eq!(negative.error(), Some(WireError::Number.into()));
    let mut other = count().bytes();
    other[0] = 2;
    assert_eq!(LeafPlan::decode(&other), Err(WireError::Version(2).into()));
}

#[test]
fn texts_that_are_no_pipelines_are_refused() {
    for text in
        ["|=", "{a=\"b\"}", "| json | unwrap v", ")", "| $=1", "| json [5m]", "| regexp `(`"]
    {
        let found = log_query(text).error();
        let is_refused =
            matches!(found, Some(LeafError::Text(_) | LeafError::Bytes(WireError::Reference)));
        assert!(is_refused, "{text}: {found:?}");
    }
    for text in
        ["|=\"x\"", " | json", "| json ", "|= `x`", "| a=1", "\u{feff}| json", "| json # no"]
    {
        assert_eq!(log_query(text).error(), Some(WireError::Form.into()), "{text}");
    }
    let not_text = Pieces { text: vec![0xff], ..count() };
    assert_eq!(not_text.error(), Some(WireError::Text.into()));
    for text in [" ".repeat(8 * MAX_QUERY_LEN_BYTES), format!("| {}a=1", "(".repeat(500_000))] {
        assert!(matches!(log_query(&text).error(), Some(LeafError::Text(_))));
    }
    let deep = format!("| {}a=1{}", "( b=1 , ".repeat(1_000), " )".repeat(1_000));
    let found = log_query(&deep).error();
    assert!(matches!(&found, Some(LeafError::Text(error)) if error.message.contains("too deeply")));
}

#[test]
fn what_does_not_compile_is_refused() {
    for text in [
        "|~ \"(\"",
        "| line_format \"{{\"",
        "| label_format a=\"{{ nope }}\"",
        "|= ip(\"x\")",
        "| json a=\"[\"",
        "|> \"<_><_>\"",
    ] {
        let found = log_query(text).error();
        assert!(matches!(found, Some(LeafError::Plan(_))), "{text}: {found:?}");
    }
    let with_pattern = |op, pattern: &str| Pieces {
        matchers: vec![("a", op, pattern.to_owned()), ("b", 0, "(".to_owned())],
        ..count()
    };
    assert_eq!(with_pattern(1, "(").error(), None);
    for pattern in ["(", "a{1001}", "\\p{Nope}"] {
        for op in [2, 3] {
            assert!(matches!(with_pattern(op, pattern).error(), Some(LeafError::Text(_))));
        }
    }
    // Patterns add up, those of the selector and those of the pipeline; but for one.
    let large = "[a-z]{900}";
    let mut many = with_pattern(2, large);
    many.matchers = vec![("a", 2, large.to_owned()); 1_000];
    assert!(
        matches!(many.error(), Some(LeafError::Text(error)) if error.message.contains("large"))
    );
    many.matchers = vec![("a", 2, ".+".to_owned()); 30_000];
    assert_eq!(many.error(), None);
}

/// An allowance of nothing.
#[derive(Debug)]
struct Nothing;

impl Allowance for Nothing {
    fn take(&mut self, _bytes: u64) -> Result<(), Stop> {
        Err(Stop::Busy)
    }

    fn give_back(&mut self, _bytes: u64) {}

    fn check(&mut self) -> Result<(), Stop> {
        Ok(())
    }

    fn sibling(&self) -> Box<dyn Allowance> {
        Box::new(Self)
    }
}

#[test]
fn a_leaf_is_compiled_within_an_allowance() {
    let read = LeafPlan::read(&log_query("| json").bytes()).expect("a leaf");
    assert_eq!(read.clone().checked(&Nothing), Err(PlanError::Stopped(Stop::Busy)));
    assert!(read.checked(&Unlimited).is_ok());
}

/// A few bytes that claim much.
#[test]
fn counts_without_bytes_are_refused() {
    let many = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let mut bytes = count().bytes();
    // Behind version, number, times and two options.
    bytes.truncate(1 + 1 + 24 + 1 + 1);
    bytes.extend(many);
    assert_eq!(LeafPlan::decode(&bytes), Err(WireError::Short.into()));
    assert_eq!(LeafPlan::read_estimate(&bytes), Err(WireError::Short));
    let mut bytes = vec![1];
    bytes.extend(many);
    assert_eq!(decode_matchers(&bytes).err(), Some(WireError::Short.into()));
}

#[test]
fn bad_matchers_of_look_ups_are_refused() {
    let bad: &[&[u8]] = &[&[1, 1, 1, 1, b'a', 2, 1, b'('], &[1, 1, 1, 1, b'a', 3, 1, b'(']];
    for bytes in bad {
        assert!(matches!(decode_matchers(bytes), Err(LeafError::Text(_))));
    }
    let found = decode_matchers(&[1, 1, 1, 1, b'a', 4, 0]).err();
    assert_eq!(found, Some(WireError::Kind(4).into()));
    let matcher =
        |value: &str| Matcher { name: "a".into(), op: MatchOp::Regex, value: value.into() };
    let compiled = |count| -> Vec<CompiledMatcher> {
        let one = || CompiledMatcher::new(&matcher("[a-z]{900}")).expect("a pattern");
        (0..count).map(|_| one()).collect()
    };
    let mut bytes = Vec::new();
    encode_matchers(&[compiled(2), compiled(1)], &mut bytes);
    assert!(decode_matchers(&bytes).is_ok());
    bytes.clear();
    encode_matchers(&[compiled(600)], &mut bytes);
    assert!(matches!(decode_matchers(&bytes), Err(LeafError::Text(_))));
}
