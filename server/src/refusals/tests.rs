//! What a refusal leaves behind: a number, a record and a line, and no bytes of clients as they
//! were sent.

use std::time::Duration;

use super::*;
use crate::config::LogFormat;
use crate::logging::captured;
use crate::metrics::NodeMetrics;
use logsvc_runtime::CoreId;

fn moment(seconds: u64) -> Moment {
    let monotonic = Monotonic(0).after(Duration::from_secs(seconds));
    Moment { monotonic, unix_ns: 1_700_000_000_000_000_000 + seconds as i64 * 1_000_000_000 }
}

fn sender(user_agent: &str) -> Sender<'_> {
    let peer = SocketAddr::from(([10, 0, 0, 7], 4711));
    Sender { peer, user_agent, route: "syslog_udp" }
}

#[test]
fn metric_list_and_log_agree() {
    let tenant = TenantId::new("team-a").expect("a good name");
    let stream = Labels::from_pairs([("app", "x")]).expect("good labels");
    let metrics = NodeMetrics::new(1, &[]);
    let refusals = Refusals::new(1 << 20);
    let mut refused = Refused {
        tenant: Some(&tenant),
        cause: Cause::Entries(Reason::LineTooLong, Amount { entries: 3, bytes: 300 }),
        sender: sender("agent/1"),
        stream: Some(&stream),
        entry_ns: Some(1_600_000_000_000_000_000),
        limit_ns: Some(1_650_000_000_000_000_000),
        text: "too long",
    };
    let lines = captured(LogFormat::Json, || {
        let counters = &metrics.core(CoreId(0)).pushes;
        for seconds in 0..10 {
            refusals.note(counters, moment(seconds), &refused);
        }
        refused.cause = Cause::Push(StatusCode::SERVICE_UNAVAILABLE);
        refusals.note(counters, moment(11), &refused);
        refused.cause = Cause::NotServing(StatusCode::SERVICE_UNAVAILABLE);
        refused.tenant = None;
        refusals.note(counters, moment(12), &refused);
        refusals.tell_rest(moment(30).monotonic, false);
        refusals.tell_rest(moment(61).monotonic, false);
    });
    let lines: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let said: Vec<(&str, &str, &str)> = lines
        .iter()
        .map(|line| {
            let text = |name: &str| line[name].as_str().unwrap_or("-");
            (text("level"), text("message"), text("reason"))
        })
        .collect();
    assert_eq!(
        said,
        [
            ("WARN", "refused entries", "line_too_long"),
            ("ERROR", "refused a push", "unavailable"),
            ("WARN", "refused a push", "unavailable"),
            ("WARN", "refused more entries", "line_too_long"),
        ]
    );
    let first = &lines[0];
    for (name, value) in [
        ("tenant", "team-a"),
        ("peer", "10.0.0.7:4711"),
        ("user_agent", "agent/1"),
        ("route", "syslog_udp"),
        ("stream", "{app=\"x\"}"),
        ("entry_time", "2020-09-13T12:26:40Z"),
        ("limit_time", "2022-04-15T05:20:00Z"),
        ("error", "too long"),
    ] {
        assert_eq!(first[name], value, "{first}");
    }
    assert_eq!((&first["entries"], &first["bytes"]), (&3.into(), &300.into()), "{first}");
    assert!(first.get("query").is_none() && first.get("status").is_none(), "{first}");
    assert_eq!((&lines[3]["left_out"], &lines[3]["entries"]), (&9.into(), &27.into()));

    let kept = refusals.of(&tenant);
    assert_eq!(kept.len(), 2);
    assert_eq!((kept[0].status, kept[0].pushes), (Some(503), 1));
    assert_eq!((kept[1].reason, kept[1].pushes, kept[1].amount.entries), ("line_too_long", 10, 30));
    assert_eq!(kept[1].last_ns - kept[1].first_ns, 9_000_000_000);
    assert!(refusals.of(&TenantId::no_auth()).is_empty());
    let text = metrics.pushes_text();
    for expected in [
        r#"loki_discarded_samples_total{reason="line_too_long",tenant="team-a"} 30"#,
        r#"loki_discarded_bytes_total{reason="line_too_long",tenant="team-a"} 3000"#,
        r#"logsvc_refused_pushes_total{reason="unavailable",tenant="team-a"} 1"#,
        r#"logsvc_refused_pushes_total{reason="unavailable",tenant="(none)"} 1"#,
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
    }
}

#[test]
fn texts_of_clients_cannot_make_lines_or_colours() {
    let tenant = TenantId::no_auth();
    let evil = "x\n2026-01-01T00:00:00Z ERROR forged\r\u{1b}[31m\u{9b}31m\u{202e}\u{7f}\0";
    let stream = Labels::from_pairs([("app", evil)]).expect("good labels");
    let metrics = NodeMetrics::new(1, &[]);
    for format in [LogFormat::Text, LogFormat::Json] {
        let refusals = Refusals::new(1 << 20);
        let long = format!("{evil}{}", "y".repeat(10_000));
        let lines = captured(format, || {
            let refused = Refused {
                tenant: Some(&tenant),
                cause: Cause::Push(StatusCode::BAD_REQUEST),
                sender: sender(&long),
                stream: Some(&stream),
                entry_ns: None,
                limit_ns: None,
                text: &long,
            };
            refusals.note(&metrics.core(CoreId(0)).pushes, moment(0), &refused);
            let line = Line::new(Subject::Query, Level::Info, "malformed", evil);
            refusals.tell(moment(0).monotonic, &Line { query: &long, ..line });
        });
        assert_eq!(lines.lines().count(), 2, "{lines}");
        let hidden = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!lines.contains(hidden), "{lines:?}");
        // Two texts of a half kilobyte, or the query of one.
        assert!(lines.lines().all(|line| line.len() < 2400), "{lines}");
        assert!(lines.contains("bytes)"), "{lines}");
        let kept = &refusals.of(&tenant)[0];
        assert!([&kept.user_agent, &kept.stream, &kept.text].iter().all(|t| !t.contains(hidden)));
    }
}
