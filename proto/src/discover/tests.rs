use super::*;
use crate::labels::parse_labels;
use crate::push::MetadataRef;
use crate::push::metadata::MetadataNormalizer;

fn level(line: &str) -> &'static str {
    line_level(line.as_bytes(), &LevelFields::default(), 2).as_str()
}

/// Answers of Loki, and answers that follow from its rules.
#[test]
fn levels_of_lines() {
    let cases = [
        ("INFO starting up", "info"),
        ("info: lower", "info"),
        ("[WARN] disk", "warn"),
        ("WARNING: deprecated", "warn"),
        ("err: short", "error"),
        ("CRITICAL meltdown", "critical"),
        ("FATAL exit", "fatal"),
        ("deBUG", "debug"),
        ("TRACE deep", "trace"),
        ("no level at all", "unknown"),
        ("", "unknown"),
        ("er", "unknown"),
        ("err", "error"),
        ("information is power", "unknown"),
        ("the error was a warning", "error"),
        ("errors happened, stderr, noerror, warned", "unknown"),
        ("traceback (most recent call last)", "unknown"),
        ("<3>critical", "unknown"),
        ("misc:error", "unknown"),
        ("level:warn", "unknown"),
        ("panic: runtime error", "error"),
        ("INFO ERROR both", "info"),
        ("2026-03-10 00:00:00 ERROR [main] Foo - boom", "error"),
        ("{\"looks\" like json error", "error"),
        ("a=b error=none", "error"),
        ("level=info msg=ok", "info"),
        ("level=trc", "trace"),
        ("level=panic", "unknown"),
        ("level=notice msg=\"an error inside\"", "error"),
        ("level=notice error", "error"),
        ("LeVeL=debug", "debug"),
        ("log.level=warn", "warn"),
        ("level=\"error\" msg=q", "error"),
        ("level= msg=error", "error"),
        ("msg=\"level=error quoted\"", "error"),
        ("msg=\"level=debug \\\" lvl=trace\" severity=warn", "warn"),
        ("severity=info level=error", "error"),
        ("\"quoted level=info\" severity=warn x=error", "warn"),
        ("severity=info", "info"),
        ("level=3", "unknown"),
        ("level=\"unterminated", "unknown"),
        ("level=\"\\", "unknown"),
        ("{\"level\":\"info\",\"msg\":\"ok\"}", "info"),
        ("  { \"level\" : \"error\" }\n", "error"),
        ("{\"log\":{\"level\":\"error\"}}", "error"),
        ("{\"a\":{\"b\":{\"level\":\"dbg\"}}}", "unknown"),
        ("{\"a\":{\"b\":{\"level\":\"debug\"}}}", "debug"),
        ("{\"a\":{\"level\":\"warn\"},\"level\":\"info\"}", "warn"),
        ("{\"a\":{},\"b\":[{\"level\":\"error\"}],\"level\":\"inf\"}", "info"),
        ("{\"a\":[\"]\",{}],\"n\":-1.5e3,\"t\":true,\"lvl\":\"wrn\"}", "warn"),
        ("{\"level\":30,\"msg\":\"pino\"}", "unknown"),
        ("{\"level\":\"notice\",\"msg\":\"an error\"}", "error"),
        ("{\"LoGlEvEl\":\"dbg\"}", "unknown"),
        ("{\"level\":\"\\u0065rror\"}", "unknown"),
        ("{\"msg\":\"a \\\"level\\\":\\\"x\\\"\",\"level\":\"wrn\"}", "warn"),
        ("{\"x\":\"y\",\"level\":\"Inf\"}", "info"),
        ("{not json, \"level\":\"wrn\"}", "unknown"),
        ("[{\"level\":\"error\"}]", "error"),
    ];
    for (line, expected) in cases {
        assert_eq!(level(line), expected, "{line}");
    }
}

/// The vectorised search against one that is obviously right.
#[test]
fn words_are_found_wherever_they_stand() {
    for len in 0..200 {
        for word in ["err", "ERROR", "Warning", "critical"] {
            for at in 0..=len {
                let mut line = vec![b'-'; len];
                line.splice(at..at, format!(" {word} ").bytes());
                let found = line_level(&line, &LevelFields::default(), 2);
                assert_eq!(Some(found), Level::from_word(word.as_bytes()), "{len} {at} {word}");
                line[at] = b'-';
                let found = line_level(&line, &LevelFields::default(), 2);
                assert_eq!(found, Level::Unknown, "{len} {at} {word}");
            }
        }
    }
}

#[test]
fn depth_and_names_are_configurable() {
    let deep = br#"{"a":{"b":{"c":{"level":"dbg"}}}}"#;
    for (max_depth, expected) in [(1, "unknown"), (3, "unknown"), (4, "debug"), (0, "debug")] {
        let fields = LevelFields::default();
        assert_eq!(line_level(deep, &fields, max_depth).as_str(), expected, "{max_depth}");
    }
    let own = LevelFields::new(["grade", "prio", ""]);
    assert_eq!(own.names().collect::<Vec<_>>(), ["grade", "prio"]);
    for (line, expected) in [
        ("prio=wrn grade=dbg", "debug"),
        ("GRADE=dbg", "debug"),
        ("{\"prio\":\"trc\"}", "trace"),
        ("level=wrn", "unknown"),
    ] {
        assert_eq!(line_level(line.as_bytes(), &own, 2).as_str(), expected, "{line}");
    }
}

#[test]
fn stated_levels_are_normalised() {
    for (stated, expected) in
        [("Warning", "warn"), ("ERR", "error"), ("custom", "custom"), ("Information", "info")]
    {
        assert_eq!(normalize_level(stated.as_bytes()), expected.as_bytes());
    }
    let numbers = [
        ("0", "unknown"),
        ("1", "trace"),
        ("-1", "trace"),
        ("8", "debug"),
        ("9", "info"),
        ("13", "warn"),
        ("20", "error"),
        ("24", "fatal"),
        ("25", "unknown"),
        ("x", "info"),
    ];
    for (number, expected) in numbers {
        assert_eq!(severity_number_level(number.as_bytes()).as_str(), expected, "{number}");
    }
}

#[test]
fn levels_are_known_by_the_value_that_is_stored() {
    let levels = [
        Level::Trace,
        Level::Debug,
        Level::Info,
        Level::Warn,
        Level::Error,
        Level::Critical,
        Level::Fatal,
        Level::Unknown,
    ];
    assert!(levels.iter().all(|level| is_known_level(level.as_str().as_bytes())));
    for other in ["", "err", "INFO", "notice", "information"] {
        assert!(!is_known_level(other.as_bytes()), "{other}");
    }
}

#[test]
fn the_level_stands_in_its_place() {
    let cases: [(&[&str], &str); 5] = [
        (&[], "detected_level"),
        (&["a"], "a detected_level"),
        (&["a", "z"], "a detected_level z"),
        (&["detected_level"], "detected_level"),
        (&["a", "detected_level", "e"], "a detected_level e"),
    ];
    for (names, expected) in cases {
        let pairs: Vec<_> = names.iter().map(|name| (name.as_bytes(), &b"sent"[..])).collect();
        let mut normalizer = MetadataNormalizer::new();
        let metadata = normalizer.normalize(MetadataRef::from_slice(&pairs)).expect("valid names");
        let with = WithLevel::new(metadata.iter(), Some(b"warn"));
        assert_eq!(with.clone().count(), expected.split(' ').count());
        let text: Vec<_> = with
            .map(|(name, value)| {
                let own = name == DETECTED_LEVEL.as_bytes();
                assert_eq!(value, if own { &b"warn"[..] } else { b"sent" });
                String::from_utf8_lossy(name).into_owned()
            })
            .collect();
        assert_eq!(text.join(" "), expected);
        let without = WithLevel::new(metadata.iter(), None);
        assert_eq!(without.count(), names.len());
        let beside = beside_level(metadata.iter()).map(|(name, _)| name.to_vec());
        let others = names.iter().filter(|&&name| name != DETECTED_LEVEL);
        assert!(beside.eq(others.map(|name| name.as_bytes().to_vec())), "{names:?}");
    }
}

#[test]
fn services_of_streams() {
    let cases = [
        ("{app=\"a\"}", "{app=\"a\", service_name=\"a\"}"),
        ("{app=\"a\", service=\"s\"}", "{app=\"a\", service=\"s\", service_name=\"s\"}"),
        ("{job=\"j\", Service=\"x\"}", "{Service=\"x\", job=\"j\", service_name=\"j\"}"),
        ("{service_name=\"own\", app=\"a\"}", "{app=\"a\", service_name=\"own\"}"),
        ("{}", "{service_name=\"unknown_service\"}"),
    ];
    for (sent, expected) in cases {
        let labels = parse_labels(sent.as_bytes()).expect("a label set");
        let found = with_service_name(labels.clone(), &DEFAULT_SERVICE_LABELS);
        assert_eq!(found.canonical(), expected);
        assert_eq!(with_service_name::<&str>(labels.clone(), &[]), labels);
    }
}

/// Prints the cost per line: `cargo test --release -p logsvc-proto -- --nocapture cost_of`.
/// The bound is far above the time of any build, and far below the time of a mistake, such as
/// time that grows with the square of the length.
#[test]
fn cost_of_a_line() {
    let fill = |text: &str| format!("{text:x<200.200}").replace("xx", "se");
    let kinds = [
        ("plain, level first", fill("2026-03-10 00:00:00 INFO [main] request finished ")),
        ("plain, no level", fill("10.0.0.1 - - \"GET /index.html HTTP/1.1\" 200 1234 ")),
        ("logfmt", fill("ts=2026-03-10T00:00:00Z caller=main.go:12 level=info msg=")),
        ("logfmt, no level", fill("ts=2026-03-10T00:00:00Z caller=main.go:12 a=b msg=")),
        (
            "JSON",
            format!(
                "{}\"}}",
                fill("{\"ts\":\"2026-03-10T00:00:00Z\",\"level\":\"info\",\"msg\":\"")
            ),
        ),
        (
            "JSON, no level",
            format!("{}\"}}", fill("{\"ts\":\"2026-03-10T00:00:00Z\",\"status\":200,\"msg\":\"")),
        ),
    ];
    let fields = LevelFields::default();
    for (kind, line) in kinds {
        const ROUNDS: u32 = 20_000;
        #[expect(clippy::disallowed_methods, reason = "a measurement outside of any core")]
        let begun = std::time::Instant::now();
        for _ in 0..ROUNDS {
            std::hint::black_box(line_level(std::hint::black_box(line.as_bytes()), &fields, 2));
        }
        let ns = begun.elapsed().as_nanos() as f64 / f64::from(ROUNDS);
        println!("{kind} ({} bytes): {ns:.0} ns", line.len());
        assert!(ns < 100_000.0, "{kind}: {ns} ns");
    }
}
