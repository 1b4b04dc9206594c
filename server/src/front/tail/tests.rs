//! The logic of tails without sockets and shards.

use std::rc::Rc;
use std::sync::Arc;

use logsvc_logql::syntax;
use logsvc_logql::syntax::ast::{Expr, LogExpr};
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::Budget;
use serde_json::{Value, json};

use super::counts::TailCounts;
use super::evaluate::{TailPipeline, flatten};
use super::frame::{Entry, Form, Frame, missed_list};
use super::missed::{LISTED_MAX, Missed};
use super::outbox::{OUTBOX_MAX_BYTES, Outbox, Outgoing};
use super::timeline::Timeline;
use super::{Dialect, delay_for, with_line_filter};

const SECOND_NS: i64 = 1_000_000_000;

fn memory() -> Budget {
    Budget::new("tails", 64 << 20)
}

fn entry(timestamp_ns: i64, line: &str) -> Rc<Entry> {
    let labels = Labels::from_pairs([("app", "a")]).expect("labels");
    let line = line.as_bytes().into();
    Rc::new(Entry { timestamp_ns, labels: Arc::new(labels), line, categories: None, place: None })
}

fn lines(released: Vec<(u64, Rc<Entry>)>) -> Vec<String> {
    let line = |entry: &Entry| String::from_utf8(entry.line.to_vec()).expect("text");
    released.iter().map(|(_, entry)| line(entry)).collect()
}

fn frames(form: Form, entries: &[Rc<Entry>], missed: &mut Missed, memory: &Budget) -> Vec<Frame> {
    let mut rest = entries;
    let mut frames = Vec::new();
    while !rest.is_empty() {
        frames.push(Frame::take(form, &mut rest, missed, 1 << 20, memory).expect("memory"));
    }
    frames
}

fn text(frame: &Frame, own: &str) -> String {
    frame.with_text(own, |pieces| pieces.concat())
}

fn read(frame: &Frame) -> Value {
    serde_json::from_str(&text(frame, "")).expect("JSON")
}

#[test]
fn entries_wait_for_their_delay_and_leave_in_order_of_time() {
    let mut timeline = Timeline::new(2, &memory());
    let now_ns = 100 * SECOND_NS;
    for (seconds, line) in [(99, "b"), (98, "a"), (100, "d"), (99, "c"), (500, "future"), (1, "0")]
    {
        timeline.push(entry(seconds * SECOND_NS, line), 1, now_ns).expect("memory");
    }
    assert_eq!(lines(timeline.release(now_ns)), ["0", "a"], "late ones are due at once");
    assert_eq!(timeline.next_due_ns(), Some(101 * SECOND_NS));
    assert!(timeline.release(101 * SECOND_NS - 1).is_empty());
    assert_eq!(lines(timeline.release(101 * SECOND_NS)), ["b", "c"], "ties keep their order");
    // One that claims to be of the future is not held for longer than the others.
    assert_eq!(lines(timeline.release(102 * SECOND_NS)), ["d", "future"]);
    assert!(timeline.is_empty() && timeline.next_due_ns().is_none());
}

#[test]
fn without_a_delay_nothing_is_held() {
    let mut timeline = Timeline::new(0, &memory());
    for (time_ns, line) in [(30, "c"), (10, "a"), (i64::MAX, "z"), (20, "b")] {
        timeline.push(entry(time_ns, line), 1, 15).expect("memory");
    }
    assert_eq!(lines(timeline.release(15)), ["a", "b", "c", "z"]);
}

#[test]
fn held_entries_count_against_the_memory() {
    let memory = Budget::new("tails", 1000);
    let mut timeline = Timeline::new(5, &memory);
    let refused = (0..20).filter(|&n| timeline.push(entry(n, "x"), 1, 0).is_err()).count();
    assert_eq!(refused, 14, "six of 161 bytes fit");
    assert!(memory.used_bytes() > 900);
    assert_eq!(timeline.release(i64::MAX).len(), 6);
    assert_eq!(memory.used_bytes(), 0);
}

#[test]
fn every_entry_is_a_stream_of_its_own() {
    let memory = memory();
    let entries: Vec<_> = (0..150).map(|n| entry(n, "line \"q\"")).collect();
    let frames = frames(Form::Plain, &entries, &mut Missed::default(), &memory);
    let sizes: Vec<_> = frames
        .iter()
        .map(|frame| read(frame)["streams"].as_array().expect("a list").len())
        .collect();
    assert_eq!(sizes, [100, 50]);
    let first = read(&frames[0]);
    let stream = json!({"stream": {"app": "a"}, "values": [["0", "line \"q\""]]});
    assert_eq!(first["streams"][0], stream);
    assert_eq!(first.as_object().expect("an object").len(), 1, "nothing was dropped");
    assert!(!text(&frames[0], "").ends_with('\n'));
    assert!(memory.used_bytes() > 0);
    drop(frames);
    assert_eq!(memory.used_bytes(), 0);
    // Long lines make short frames, but never empty ones.
    let long = "x".repeat(50_000);
    let entries: Vec<_> = (0..3).map(|n| entry(n, &long)).collect();
    let sizes: Vec<_> = frames_of(&entries).iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 1]);
}

fn frames_of(entries: &[Rc<Entry>]) -> Vec<Vec<Value>> {
    let frames = frames(Form::Plain, entries, &mut Missed::default(), &memory());
    frames.iter().map(|f| read(f)["streams"].as_array().expect("a list").clone()).collect()
}

#[test]
fn frames_have_the_form_of_their_dialect() {
    let missed = || {
        let mut missed = Missed::default();
        missed.add(&missed_list(&[entry(7, "gone")]), 3);
        missed
    };
    let entries = [entry(1_500_000_000, "l")];
    let told = json!([{"timestamp": "7", "labels": {"app": "a"}}]);
    let plain = frames(Form::Plain, &entries, &mut missed(), &memory());
    assert_eq!(read(&plain[0])["dropped_entries"], told);
    assert_eq!(plain[0].missed_count(), 3);
    let categorized = frames(Form::Categorized, &entries, &mut missed(), &memory());
    let frame = read(&categorized[0]);
    assert_eq!(frame["encodingFlags"], json!(["categorize-labels"]));
    assert_eq!(frame["dropped_entries"], told);
    let legacy = frames(Form::Legacy, &entries, &mut Missed::default(), &memory());
    assert_eq!(
        text(&legacy[0], ""),
        "{\"streams\":[{\"labels\":\"{app=\\\"a\\\"}\",\"entries\":[{\"ts\":\"1970-01-01T00:00:01.5Z\",\
         \"line\":\"l\"}]}],\"dropped_entries\":null}\n"
    );
    let legacy = frames(Form::Legacy, &entries, &mut missed(), &memory());
    let told = json!([{"timestamp": "1970-01-01T00:00:00.000000007Z", "labels": "{app=\"a\"}"}]);
    assert_eq!(read(&legacy[0])["dropped_entries"], told);
}

#[test]
fn a_slow_client_is_told_what_it_missed() {
    let memory = memory();
    let outbox = Outbox::new(Form::Plain);
    let line = "y".repeat(1000);
    let send = |from: i64, count: i64| {
        let entries: Vec<_> = (from..from + count).map(|n| entry(n, &line)).collect();
        for frame in frames(Form::Plain, &entries, &mut Missed::default(), &memory) {
            outbox.offer(&Rc::new(frame));
        }
    };
    send(0, 3000);
    assert!(memory.used_bytes() < 2 * OUTBOX_MAX_BYTES as u64, "{}", memory.used_bytes());
    let receive = || -> Option<(Value, u64)> {
        let Outgoing { frame, missed_text, missed_count } = outbox.take()?;
        let value = serde_json::from_str(&text(&frame, &missed_text)).expect("JSON");
        Some((value, missed_count))
    };
    let (mut received, mut missed, mut first_told) = (0, 0, None);
    let mut take_all = || {
        while let Some((frame, count)) = receive() {
            let told = frame["dropped_entries"].as_array();
            assert_eq!(told.map_or(0, Vec::len), LISTED_MAX.min(count as usize));
            if let Some(told) = told {
                first_told.get_or_insert((received, told[0].clone()));
            }
            received += frame["streams"].as_array().expect("a list").len();
            missed += count as usize;
        }
        (received, missed)
    };
    let (seen, _) = take_all();
    assert!((200..1000).contains(&seen), "{seen}");
    send(3000, 1);
    let (seen, missed) = take_all();
    assert_eq!(seen + missed, 3001, "every entry was either shown or counted");
    assert!(missed > 2000);
    let (shown, told) = first_told.expect("something was missed");
    // A shorter frame may get in behind those that had no room.
    assert_eq!(told, json!({"timestamp": shown.to_string(), "labels": {"app": "a"}}));
    send(3001, 1);
    let (frame, missed) = receive().expect("a frame");
    assert_eq!((missed, &frame["dropped_entries"]), (0, &Value::Null), "told once");
    assert_eq!(memory.used_bytes(), 0, "all frames were taken");
}

#[test]
fn tails_are_counted_for_each_tenant() {
    let counts = Arc::new(TailCounts::for_tenants(64));
    let tenants: Vec<_> =
        (0..30).map(|n| TenantId::new(&format!("t{n}")).expect("a tenant")).collect();
    let add = |tenant: &TenantId| counts.add(tenant, 2);
    let first: Vec<_> = tenants.iter().map(|tenant| add(tenant).expect("the first")).collect();
    let second: Vec<_> = tenants.iter().map(|tenant| add(tenant).expect("the second")).collect();
    for tenant in &tenants {
        assert_eq!(add(tenant).map(drop), Err(3));
        assert!(counts.add(tenant, 0).is_ok(), "without a limit");
    }
    drop(first);
    let again: Vec<_> = tenants.iter().map(|tenant| add(tenant).expect("one has ended")).collect();
    assert!(tenants.iter().all(|tenant| add(tenant).is_err()));
    drop((second, again));
    assert!(tenants.iter().all(|tenant| add(tenant).is_ok()));
}

fn log(query: &str) -> LogExpr {
    match syntax::parse(query).expect("a query") {
        Expr::Log(log) => log,
        Expr::Metric(_) => panic!("a metric query"),
    }
}

#[test]
fn queries_without_stages_show_streams_only() {
    for (query, form, streams_only) in [
        ("{app=`a`}", Form::Plain, true),
        ("{app=`a`}", Form::Legacy, true),
        ("{app=`a`}", Form::Categorized, false),
        ("{app=`a`} | json", Form::Plain, false),
    ] {
        let live = TailPipeline::new(&log(query), form, false, 0).expect("a plan");
        assert_eq!(live.shows_streams_only(), streams_only, "{query} {form:?}");
    }
    assert!(flatten(Vec::new(), true).is_empty());
}

#[test]
fn the_old_interface_filters_by_pattern() {
    let filtered = |query: &str, pattern: &str| {
        let expr = syntax::parse(query).expect("a query");
        with_line_filter(&expr, pattern).map(|expr| expr.to_string())
    };
    let text = r#"{app="a"} |= "x" |~ "a\\d\"b""#;
    assert_eq!(filtered(r#"{app="a"} |= "x""#, "a\\d\"b").as_deref(), Ok(text));
    // A bad pattern is found with all others, when the pipeline is made.
    let bad = with_line_filter(&Expr::Log(log(r#"{app="a"}"#)), "(").expect("text");
    let Expr::Log(bad) = bad else { panic!("a metric query") };
    assert!(TailPipeline::new(&bad, Form::Legacy, false, 0).is_err());
    assert!(filtered(r#"rate({app="a"}[1m])"#, "x").is_err());
    assert_ne!(Dialect::V1, Dialect::Legacy);
}

#[test]
fn delays_are_whole_seconds_up_to_five() {
    let delay = |text: &str| {
        let params = logsvc_http::Params::parse(text.as_bytes()).expect("parameters");
        delay_for(&params).map_err(|error| error.to_string())
    };
    assert_eq!((delay(""), delay("delay_for="), delay("delay_for=5")), (Ok(0), Ok(0), Ok(5)));
    for (text, error) in [
        ("6", "delay_for can't be greater than 5"),
        ("4294967296", "delay_for value 4294967296 is out of range [0, 4294967295]"),
        ("-1", "delay_for value -1 is out of range [0, 4294967295]"),
        ("1.5", "strconv.Atoi: parsing \"1.5\": invalid syntax"),
        (
            "9999999999999999999",
            "strconv.Atoi: parsing \"9999999999999999999\": value out of range",
        ),
    ] {
        assert_eq!(delay(&format!("delay_for={text}")), Err(error.to_owned()));
    }
}
