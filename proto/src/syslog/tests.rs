use super::*;

const UTC: fn(i64) -> i64 = |local| local;

fn ns(text: &str) -> i64 {
    crate::go::calendar::parse_rfc3339_ns(text).unwrap()
}

fn parse_at<'a>(text: &'a str, clock: &str) -> Message<'a> {
    parse(text, Arrival { unix_ns: ns(clock), zone: &UTC })
}

fn parsed(text: &str) -> Message<'_> {
    parse_at(text, "2026-11-25T03:00:10Z")
}

/// Host, app, process and line.
fn parts<'a>(message: &Message<'a>) -> [&'a str; 4] {
    [message.host, message.app, message.pid, message.line]
}

/// The messages of a stream that comes in pieces of this size, `!` behind those that are cut.
fn frames(input: &[u8], max_bytes: usize, piece: usize) -> Vec<String> {
    let mut framer = Framer::new(max_bytes);
    let (mut found, mut held, mut rest) = (Vec::new(), Vec::new(), input);
    loop {
        let room = (max_bytes + STEP_ROOM_BYTES - held.len()).min(piece).min(rest.len());
        held.extend_from_slice(&rest[..room]);
        rest = &rest[room..];
        loop {
            let (done, frame) = framer.step(&held, rest.is_empty());
            if let Some(frame) = frame {
                let mark = if frame.is_cut { "!" } else { "" };
                found.push(String::from_utf8_lossy(frame.text).into_owned() + mark);
            }
            held.drain(..done);
            if done == 0 {
                break;
            }
        }
        assert!(held.len() < max_bytes + STEP_ROOM_BYTES, "a full buffer must get on");
        if rest.is_empty() {
            assert!(held.is_empty());
            return found;
        }
    }
}

#[test]
fn framing_is_found_for_each_message() {
    let first = "<13>1 2026-11-25T03:00:00Z h1 app 7 - - one\ntwo";
    let second = "<13>1 2026-11-25T03:00:01Z h1 app 7 - - three";
    let input = format!(
        "{} {first}{} {second}2026-11-25 03:00:02 x\n12345678 <13>y\r\n<13>z\0{} {first}\n\n0 <1>\n7 up",
        first.len(),
        second.len(),
        first.len(),
    );
    let expected =
        [first, second, "2026-11-25 03:00:02 x", "12345678 <13>y", "<13>z", first, "0 <1>", "7 up"];
    for piece in [1, 2, 7, 1000] {
        assert_eq!(frames(input.as_bytes(), 1000, piece), expected, "{piece}");
    }
    // A text that looks like a count until the stream ends, and a count that promises more.
    assert_eq!(frames(b"12 ", 100, 1), ["12 "]);
    assert_eq!(frames(b"90 <13>left", 100, 1), ["<13>left"]);
}

#[test]
fn a_message_that_is_too_long_is_cut_and_its_rest_skipped() {
    let long = "<13>".to_owned() + &"a".repeat(300);
    let expected = [format!("<13>{}!", "a".repeat(96)), "<14>1 - - - - - - x".to_owned()];
    for piece in [1, 50, 99, 100, 101, 1000] {
        let counted = format!("{} {long}19 <14>1 - - - - - - x", long.len());
        assert_eq!(frames(counted.as_bytes(), 100, piece), expected);
        let lines = format!("{long}\n<14>1 - - - - - - x\n");
        assert_eq!(frames(lines.as_bytes(), 100, piece), expected);
    }
    // Exactly the limit is not too long. Half a character does not stay.
    assert_eq!(frames(b"abc\nabcd\n", 3, 10), ["abc", "abc!"]);
    assert_eq!(frames("ab\u{e4}\n".as_bytes(), 3, 10), ["ab!"]);
    // A count with nothing behind it.
    assert_eq!(Framer::new(100).step(b"9999999 <", false), (0, None));
}

#[test]
fn messages_of_the_standard_are_read_to_the_end() {
    let text = "<165>1 2026-11-25T03:00:02.003000Z h1 app 7 ID47 \
                [a@1 p=\"1\\\\2\" q=\"x\\]y\" r=\"\\n\"][b k=\"v\"] \u{feff}{\"a\":1}";
    let message = parsed(text);
    assert_eq!(message.timestamp_ns, Some(ns("2026-11-25T03:00:02.003Z")));
    assert_eq!(parts(&message), ["h1", "app", "7", "{\"a\":1}"]);
    assert_eq!(message.message_id, "ID47");
    assert_eq!((message.facility(), message.severity().keyword), ("local4", "notice"));
    let parameters: Vec<_> = message.parameters().collect();
    let expected =
        [("a@1", "p", "1\\2"), ("a@1", "q", "x]y"), ("a@1", "r", "\\n"), ("b", "k", "v")];
    assert_eq!(parameters, expected);
    assert_eq!(message.fault, None);

    let message = parsed("<13>1 - - - - - [x] y] [z]");
    assert_eq!((message.line, message.timestamp_ns, message.fault), ("y] [z]", None, None));
    let message = parsed("<13>1 - - - - - - [x] y");
    assert_eq!((message.line, message.fault), ("[x] y", None));
    for (text, line) in
        [("<13>1 - h a - - -", ""), ("<13>1 - h a - - [x]", ""), ("<13>1 - h a - -", "")]
    {
        assert_eq!(parts(&parsed(text)), ["h", "a", "", line], "{text}");
    }
}

#[test]
fn what_cannot_be_parsed_is_the_line() {
    let message = parsed("<13>1 2026-11-25T03:00:02Z h1 app - - [a p=1] body");
    assert_eq!(parts(&message), ["h1", "app", "", "[a p=1] body"]);
    assert_eq!(message.fault, Some(Fault::BadStructuredData));
    assert_eq!(message.timestamp_ns, Some(ns("2026-11-25T03:00:02Z")));

    let message = parsed("<5>2026-11-25T04:00:47+01:00 h1 nats[34500]: start");
    assert_eq!(parts(&message), ["h1", "nats", "34500", "start"]);
    assert_eq!(message.timestamp_ns, Some(ns("2026-11-25T03:00:47Z")));
    assert_eq!((message.severity().keyword, message.fault), ("notice", None));

    let message = parsed("<30>device=\"fw\" log_id=\"1\"");
    assert_eq!(parts(&message), ["", "", "", "device=\"fw\" log_id=\"1\""]);
    assert_eq!((message.severity().level, message.facility()), ("info", "daemon"));
    assert_eq!((message.timestamp_ns, message.fault), (None, Some(Fault::NoHeader)));

    for text in ["hello", "<192>x", "<>x", "<13", "2026-11-25 03:00:02 x", "<+13>x", "<0013>x"] {
        let message = parsed(text);
        assert_eq!(parts(&message), ["", "", "", text]);
        assert_eq!((message.severity().keyword, message.facility()), ("notice", "user"));
        assert_eq!((message.timestamp_ns, message.fault), (None, Some(Fault::NoPriority)));
    }
    let message = parsed("<13>1 2026-13-25T03:00:02Z h1 app - - - x");
    assert_eq!(parts(&message), ["h1", "app", "", "x"]);
    assert_eq!((message.timestamp_ns, message.fault), (None, Some(Fault::BadStamp)));
}

#[test]
fn stamps_without_a_year_are_in_the_latest_year_that_fits() {
    for (clock, stamp, expected) in [
        ("2027-01-01T00:00:05Z", "Dec 31 23:59:59", Some("2026-12-31T23:59:59Z")),
        ("2026-12-31T23:59:58Z", "Jan  1 00:00:00", Some("2027-01-01T00:00:00Z")),
        ("2026-11-25T03:00:00Z", "May 19 01:02:03", Some("2026-05-19T01:02:03Z")),
        ("2026-11-25T03:00:00Z", "Nov 26 02:59:59", Some("2026-11-26T02:59:59Z")),
        ("2026-11-25T03:00:00Z", "Nov 26 03:00:01", Some("2025-11-26T03:00:01Z")),
        ("2026-11-25T03:00:00Z", "Feb 29 03:00:01", None),
        ("2028-03-01T03:00:00Z", "Feb 29 03:00:01.25", Some("2028-02-29T03:00:01.25Z")),
        ("2026-11-25T03:00:00Z", "Nov 25 2024 03:00:01", Some("2024-11-25T03:00:01Z")),
        ("2026-11-25T03:00:00Z", "Nov 25 25:00:01", None),
        ("2026-11-25T03:00:00Z", "Nov 31 03:00:01", None),
    ] {
        let text = format!("<13>{stamp} h1 app: a");
        let message = parse_at(&text, clock);
        assert_eq!(message.timestamp_ns, expected.map(ns), "{clock} {stamp}");
        assert_eq!(parts(&message), ["h1", "app", "", "a"]);
        assert_eq!(message.fault, expected.is_none().then_some(Fault::BadStamp), "{stamp}");
    }
}

#[test]
fn stamps_without_a_zone_are_in_that_of_the_listener() {
    let almaty: fn(i64) -> i64 = |local| local - 5 * 3600;
    let arrival = Arrival { unix_ns: ns("2026-11-25T03:00:10Z"), zone: &almaty };
    for stamp in ["Nov 25 08:00:00", "2026-11-25T08:00:00", "2026-11-25 08:00:00"] {
        let text = format!("<13>{stamp} h1 app: a");
        let message = parse(&text, arrival);
        assert_eq!(message.timestamp_ns, Some(ns("2026-11-25T03:00:00Z")), "{stamp}");
        assert_eq!(parts(&message), ["h1", "app", "", "a"]);
    }
    let message = parse("<13>1 2026-11-25T08:00:00Z h1 app - - - a", arrival);
    assert_eq!(message.timestamp_ns, Some(ns("2026-11-25T08:00:00Z")));
}

#[test]
fn messages_of_daemons_and_devices_have_their_fields() {
    let three = "2026-11-25T03:00:00Z";
    for (text, expected, id) in [
        ("<13>Nov 25 03:00:00 h1 app[12]: a b", ["h1", "app", "12", "a b"], ""),
        ("<13>Nov 25 03:00:00 h1 app[12] a", ["h1", "app", "12", "a"], ""),
        ("<13>Nov 25 03:00:00 h1 CRON[12]:(root) CMD", ["h1", "CRON", "12", "(root) CMD"], ""),
        ("<13>Nov 25 03:00:00 h1 postfix/smtpd[1]: x", ["h1", "postfix/smtpd", "1", "x"], ""),
        ("<13>Nov 25 03:00:00 h1 just some: text", ["h1", "", "", "just some: text"], ""),
        ("<13>Nov 25 03:00:00 h1 http://x/y got", ["h1", "", "", "http://x/y got"], ""),
        ("<13>Nov 25 03:00:00 2001:db8::1 app: x", ["2001:db8::1", "app", "", "x"], ""),
        // Without a host: busybox and the C library.
        ("<13>Nov 25 03:00:00 root: hello", ["", "root", "", "hello"], ""),
        ("<13>Nov 25 03:00:00 app[1]: hello", ["", "app", "1", "hello"], ""),
        ("<13>Nov 25 03:00:00 word", ["", "", "", "word"], ""),
        // rsyslog and syslog-ng with stamps of ISO 8601.
        ("<13>2026-11-25T05:00:00.000000+02:00 h1 app: x", ["h1", "app", "", "x"], ""),
        (
            "<13>1 2026-11-25T03:00:00Z h1 app: old tail here now",
            ["h1", "app", "", "old tail here now"],
            "",
        ),
        // Cisco IOS and ASA, Meraki.
        (
            "<189>237: *Nov 25 03:00:00.000: %SYS-5-CONFIG_I: Done",
            ["", "", "", "%SYS-5-CONFIG_I: Done"],
            "SYS-5-CONFIG_I",
        ),
        (
            "<189>45: r1: Nov 25 03:00:00 UTC: %LINK-3-UPDOWN: Up",
            ["r1", "", "", "%LINK-3-UPDOWN: Up"],
            "LINK-3-UPDOWN",
        ),
        (
            "<166>Nov 25 2026 03:00:00 fw1 : %ASA-6-302013: Built",
            ["fw1", "", "", "%ASA-6-302013: Built"],
            "ASA-6-302013",
        ),
        (
            "<166>Nov 25 2026 03:00:00: %ASA-6-302013: Built",
            ["", "", "", "%ASA-6-302013: Built"],
            "ASA-6-302013",
        ),
        ("<134>1 1795575600.0 MR18 events type=x", ["MR18", "", "", "events type=x"], ""),
    ] {
        let message = parsed(text);
        assert_eq!(parts(&message), expected, "{text}");
        assert_eq!(message.timestamp_ns, Some(ns(three)), "{text}");
        assert_eq!((message.message_id, message.fault), (id, None), "{text}");
    }
    let message = parsed("<166>%ASA-6-305012: Teardown");
    assert_eq!((message.line, message.message_id), ("%ASA-6-305012: Teardown", "ASA-6-305012"));
    assert_eq!(message.fault, None);
}

#[test]
fn arbitrary_bytes_are_messages() {
    let mut rng = logsvc_testkit::Rng::new(7);
    let seeds: [&[u8]; 4] = [
        b"<13>1 2026-11-25T03:00:02Z h1 app - - [a@1 p=\"1\\\\2\"] \xef\xbb\xbfx\n",
        b"47 <13>Nov 25 2026 03:00:00 fw1 : %ASA-6-302013: Built\n",
        b"<189>45: r1: *Nov 25 03:00:00.1 UTC: %LINK-3-UPDOWN: Up\0",
        b"<134>1 1795575600.0 MR18 events\r\n",
    ];
    for _ in 0..50_000 {
        let mut bytes = seeds[rng.index(seeds.len())].to_vec();
        for _ in 0..rng.index(6) {
            let at = rng.index(bytes.len());
            match rng.index(3) {
                0 => bytes[at] = rng.next_u64() as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b" <>[]\":\\-\n19T"[rng.index(13)]),
            }
        }
        logsvc_fuzz_bodies::proto::syslog(&bytes);
    }
}
