//! Lines of text and newline-delimited JSON, as `curl` and jobs send them.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::{Client, DataDir, Reply, SECOND_NS, Server, now_ns, query};

const DAY_NS: i64 = 24 * 3600 * SECOND_NS;

const NDJSON: (&str, &str) = ("Content-Type", "application/x-ndjson");
/// What `curl --data-binary` sends by default.
const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

fn post(client: &mut Client, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    client.request("POST", target, headers, Some(body))
}

fn stored(client: &mut Client, selector: &str) -> Vec<String> {
    query::texts(&query::range(client, selector, &[("direction", "forward")]))
}

#[test]
fn one_bad_line_refuses_nothing_else() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let body = concat!("{\"message\":\"a\"}{\"message\":\"b\"}\n", "oops\n", "{\"message\":\"c\"}");
    let reply = post(&mut client, "/loki/api/v1/lines?app=x", &[NDJSON], body.as_bytes());
    let text = "stored 3 entries, refused 1\n\
                line 2: no JSON object: expected an object at byte 1\n";
    assert_eq!((reply.status, reply.text().as_str()), (400, text));
    assert_eq!(stored(&mut client, r#"{app="x"}"#), ["a", "b", "c"]);
    let labels = r#"{reason="unreadable",tenant="fake"}"#;
    assert_eq!(server.metric(&format!("loki_discarded_samples_total{labels}")), 1.0);
    let list = client.get("/loki/api/v1/refusals").json();
    assert_eq!(list["data"][0]["reason"], "unreadable", "{list}");
    assert_eq!(list["data"][0]["route"], "loki_api_v1_lines", "{list}");

    // Both objects of a line, or none; a time that is none; a value that is no object.
    for (body, told) in [
        (r#"{"message":"d"}{"message":"e""#, "line 1: no JSON object: expected ','"),
        ("\n{\"message\":\"d\",\"_time\":\"soon\"}\n", "line 2: the field \"_time\" is no time"),
        ("[{\"message\":\"d\"}]", "line 1: no JSON object: expected an object"),
    ] {
        let reply = post(&mut client, "/loki/api/v1/lines?app=x", &[NDJSON], body.as_bytes());
        let text = reply.text();
        assert!(text.starts_with("stored 0 entries, refused 1\n"), "{text}");
        assert!(reply.status == 400 && text.contains(told), "{text}");
    }
    assert_eq!(stored(&mut client, r#"{app="x"}"#), ["a", "b", "c"]);
}

#[test]
fn lines_of_text_are_entries() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let target = "/loki/api/v1/lines?app=backup&host=h1";
    post(&mut client, target, &[FORM], b"one\r\n\ntwo {a=b&c}\ntwo {a=b&c}\nlast").expect(204);
    let lines = stored(&mut client, r#"{app="backup", host="h1"}"#);
    assert_eq!(lines, ["one", "two {a=b&c}", "two {a=b&c}", "last"]);

    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(b"packed\n").expect("memory");
    let packed = gzip.finish().expect("memory");
    let encoding = ("Content-Encoding", "gzip");
    post(&mut client, "/logsvc/api/v1/lines?app=gz", &[encoding], &packed).expect(204);
    assert_eq!(stored(&mut client, r#"{app="gz"}"#), ["packed"]);

    post(&mut client, target, &[FORM], b"\n\r\n").expect(204);
    for (target, headers, status) in [
        ("/loki/api/v1/lines?a-b=c", &[FORM][..], 400),
        ("/loki/api/v1/lines?app=x&format=xml", &[FORM], 400),
        ("/loki/api/v1/lines?app=x", &[("Content-Encoding", "br")], 400),
        ("/loki/api/v1/lines?app=x", &[encoding], 400),
    ] {
        post(&mut client, target, headers, b"never\n").expect(status);
    }
    assert!(stored(&mut client, r#"{app="x"}"#).is_empty());
}

#[test]
fn victorialogs_parameters_choose_the_fields() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let at_ms = now_ns() / 1_000_000 - 5000;
    let line = |text: &str| {
        json!({"at": at_ms, "text": text, "k": {"pod": "p1"}, "secret": "s", "n": 12}).to_string()
    };
    let body = format!("{}\n{}\n", line("first"), line("second"));
    let target = "/insert/jsonline?_stream_fields=k.pod&_msg_field=text&_time_field=at";
    let headers = [FORM, ("VL-Ignore-Fields", "sec*"), ("VL-Extra-Fields", "env=test")];
    for _ in 0..2 {
        post(&mut client, target, &headers, body.as_bytes()).expect(204);
    }
    let data = query::range(
        &mut client,
        r#"{k_pod="p1"} | env="test" | n="12" | secret="""#,
        &[("direction", "forward")],
    );
    let expected = ["first", "second"].map(|text| (at_ms * 1_000_000, text.to_owned()));
    assert_eq!(query::lines(&data), expected, "sent again, stored once");
}

#[test]
fn what_is_too_old_is_told_and_listed() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--auth.enabled", "--cores", "2"]);
    let mut client = server.client();
    let old_ns = now_ns() - 30 * DAY_NS;
    for (name, path) in
        [("own", "/loki/api/v1/lines?app=old&format=json"), ("vl", "/insert/jsonline")]
    {
        let tenant = ("X-Scope-OrgID", name);
        let lines =
            (0..100).map(|n| json!({"app": "old", "message": "SECRET", "_time": old_ns + n}));
        let body: String = lines.map(|line| format!("{line}\n")).collect();
        let reply = post(&mut client, path, &[tenant], body.as_bytes());
        let text = reply.text();
        assert_eq!(reply.status, 400, "{text}");
        assert!(text.starts_with("stored 0 entries, refused 100\nline 1: "), "{text}");
        assert_eq!(text.lines().count(), 11, "{text}");
        let labels = format!("{{reason=\"greater_than_max_sample_age\",tenant=\"{name}\"}}");
        assert_eq!(server.metric(&format!("loki_discarded_samples_total{labels}")), 100.0);
        let list: Value = client.request("GET", "/loki/api/v1/refusals", &[tenant], None).json();
        let record = &list["data"][0];
        assert_eq!(record["entries"], 100, "{list}");
        assert_eq!(record["stream"], r#"{app="old", service_name="old"}"#);
        assert!(record["entry_time"].is_string() && record["limit_time"].is_string(), "{list}");
    }
    // Without a tenant nothing is taken.
    post(&mut client, "/insert/jsonline", &[], b"{\"app\":\"old\"}\n").expect(401);
    assert!(!server.stop().contains("SECRET"));
}

#[test]
fn many_lines_are_stored_in_parts() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let begun_ns = now_ns();
    let body: String = (0..10_000).map(|n| format!("line {n} {}\n", "x".repeat(100))).collect();
    post(&mut client, "/loki/api/v1/lines?app=many", &[], body.as_bytes()).expect(204);
    let selector = r#"{app="many"}"#;
    let lines = query::all_lines(&mut client, selector, begun_ns - SECOND_NS, now_ns() + SECOND_NS);
    let expected: Vec<String> = body.lines().map(str::to_owned).collect();
    let came: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    assert!(came == expected, "{} of 10000 lines, or another order", came.len());
}

#[test]
fn a_body_may_have_a_time() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let at_s = now_ns() / SECOND_NS - 60;
    let target = format!("/loki/api/v1/lines?app=timed&time={at_s}");
    for _ in 0..2 {
        post(&mut client, &target, &[FORM], b"one\none\ntwo\n").expect(204);
    }
    let data = query::range(&mut client, r#"{app="timed"}"#, &[("direction", "forward")]);
    let texts = ["one", "one", "two"].map(str::to_owned);
    let times = (0..).map(|after_ns| at_s * SECOND_NS + after_ns);
    let expected: Vec<_> = times.zip(texts).collect();
    assert_eq!(query::lines(&data), expected, "sent again, stored once");

    // Objects have their own times first.
    let target = format!("/loki/api/v1/lines?app=objects&time={at_s}");
    let body = format!("{{\"msg\":\"a\",\"_time\":{}}}\n{{\"msg\":\"b\"}}\n", at_s - 5);
    post(&mut client, &target, &[NDJSON], body.as_bytes()).expect(204);
    let data = query::range(&mut client, r#"{app="objects"}"#, &[("direction", "forward")]);
    let expected =
        [((at_s - 5) * SECOND_NS, "a".to_owned()), (at_s * SECOND_NS + 1, "b".to_owned())];
    assert_eq!(query::lines(&data), expected);

    let reply = post(&mut client, "/loki/api/v1/lines?app=x&time=soon", &[FORM], b"never\n");
    assert_eq!(reply.status, 400);
    assert!(reply.text().contains("time \"soon\" is neither"), "{}", reply.text());
}

#[test]
fn labels_of_the_address_are_bounded_before_the_lines_are_read() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let long = "v".repeat(17_000);
    let many: String = (0..129).map(|n| format!("&l{n}=v")).collect();
    for labels in [format!("a={long}"), format!("{long}=a"), many] {
        for headers in [&[FORM][..], &[NDJSON]] {
            let target = format!("/loki/api/v1/lines?{labels}");
            let reply = post(&mut client, &target, headers, b"{}\n{}\n");
            assert_eq!(reply.status, 400);
            let text = reply.text();
            assert!(text.starts_with("the address has more than 128 labels"), "{text}");
        }
    }
    let target = format!("/insert/jsonline?extra_fields=a={long}");
    let reply = post(&mut client, &target, &[NDJSON], b"{}\n");
    assert_eq!(reply.status, 400);
    assert!(
        reply.text().starts_with("extra_fields is longer than 16384 bytes"),
        "{}",
        reply.text()
    );
    // The tenant's limit holds besides, and refuses the lines.
    let some: String = (0..20).map(|n| format!("&l{n}=v")).collect();
    let reply = post(&mut client, &format!("/loki/api/v1/lines?{some}"), &[FORM], b"x\ny\n");
    assert_eq!(reply.status, 400);
    assert!(reply.text().starts_with("stored 0 entries, refused 2\n"), "{}", reply.text());
}
