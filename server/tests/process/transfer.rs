//! Exports and imports: entries of one server reach another one as they are.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use serde_json::Value;

use crate::support::{
    Client, DataDir, Reply, SECOND_NS, Server, entry, logsvc, now_ns, query, stream, text,
};

const EXPORT: &str = "/loki/api/v1/export";
const IMPORT: &str = "/loki/api/v1/import";

/// 2015-06-01T00:00:00Z.
const OLD_NS: i64 = 1_433_116_800_000_000_000;

/// More than a page has, and than a query of default settings may ask for.
const MANY: usize = 6_000;

const START: &str = "1400000000";
const END: &str = "4000000000";

fn export(client: &mut Client, selector: &str, more: &[(&str, &str)]) -> Reply {
    let params = [&[("query", selector), ("start", START), ("end", END)], more].concat();
    client.get(&query::target(EXPORT, &params))
}

/// The lines of an export, of which the last says that it is whole.
fn exported(client: &mut Client, selector: &str, more: &[(&str, &str)]) -> Vec<String> {
    let text = export(client, selector, more).expect(200);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let end: Value = serde_json::from_str(&lines.pop().expect("a last line")).expect("JSON");
    assert_eq!(end["end"], true, "{end}");
    let entries = lines.iter().filter(|line| line.starts_with("{\"timestamp\"")).count();
    assert_eq!(end["entries"], entries, "{end}");
    lines
}

/// A server with entries of all kinds.
fn filled(folder: &DataDir) -> Server {
    let server =
        Server::start(folder.path(), &["--cores", "2", "--limits.reject-old-samples=false"]);
    let mut client = server.client();
    let now_ns = now_ns();
    // All of one nanosecond.
    let same_ns = now_ns - 60 * SECOND_NS;
    let many = (0..MANY).map(|n| entry(same_ns, format!("line {n} {}", "x".repeat(n % 100))));
    client.push(&[stream(&[("app", "many"), ("a__b", "1")], many.collect())]);
    let odd = [
        "two\nlines\r\n",
        "a \"quoted\" \\ 'text'",
        "\u{e4}\u{20ac}\u{1f600}\u{fffd}\u{feff}\u{2028}",
        "nul \u{0} bell \u{7} del \u{7f}",
        "",
        " ",
        "{\"json\": [1, {}]}",
        "level=error msg=x",
    ];
    let odd = odd.iter().enumerate().map(|(n, line)| {
        entry(now_ns - 30 * SECOND_NS + n as i64, *line)
            .with_metadata(&[("trace_id", "0af"), ("odd", "\"\\\n\u{e4}")])
    });
    let labels = [("app", "odd"), ("path", "C:\\x \"y\"\n\u{e4}")];
    client.push(&[stream(&labels, odd.collect())]);
    let old = (0..500).map(|n| entry(OLD_NS + n * 3_600 * SECOND_NS, format!("old {n}")));
    client.push(&[stream(&[("app", "old")], old.collect())]);
    server
}

const ALL: &str = r#"{app=~".+"}"#;

/// What queries answer about a stream.
fn answer(client: &mut Client, selector: &str) -> Value {
    let day_ns = 86_400 * SECOND_NS;
    let mut data = Value::Null;
    for (start_ns, end_ns) in [(now_ns() - day_ns, now_ns()), (OLD_NS, OLD_NS + 20 * day_ns)] {
        let (start, end) = (start_ns.to_string(), end_ns.to_string());
        let params = [("start", start.as_str()), ("end", &end), ("limit", "1000")];
        let found = query::range(client, selector, &params);
        if found["result"] != serde_json::json!([]) {
            data = found["result"].clone();
        }
    }
    data
}

#[test]
fn entries_come_to_another_server_as_they_are() {
    let folders = [DataDir::new(), DataDir::new(), DataDir::new()];
    let server = filled(&folders[0]);
    let mut client = server.client();
    let lines = exported(&mut client, ALL, &[]);
    assert_eq!(lines.len(), MANY + 508);
    let times = lines.iter().map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["timestamp"].as_str().and_then(|time| time.parse::<i64>().ok()).expect("a time")
    });
    assert!(times.is_sorted(), "the oldest come first");
    // The limit on the age of entries is on.
    let fresh = Server::start(folders[1].path(), &["--cores", "1"]);
    let mut other = fresh.client();
    let (from, to) =
        (format!("http://{}", server.address()), format!("http://{}/", fresh.address()));
    let file = folders[2].path().join("all.ndjson");
    let args = ["--query", ALL, "--start", START, "--end", END, "--output", text(&file)];
    let export = [&["export", "--address", &from], &args[..]].concat();
    let (code, said) = logsvc(&export);
    assert!(code == 0 && said.contains(&format!("exported {} entries", lines.len())), "{said}");
    let (code, said) = logsvc(&export);
    assert!(code == 2 && said.contains("exists"), "nothing is overwritten: {code}: {said}");
    let import = ["import", "--address", &to, text(&file)];
    for round in 0..2 {
        let (code, said) = logsvc(&import);
        let told = format!("{} entries taken, 0 lines refused", lines.len());
        assert!(code == 0 && said.contains(&told), "{round}: {code}: {said}");
        let found = exported(&mut other, ALL, &[]);
        assert_eq!(found.len(), lines.len(), "{round}");
        assert!(found == lines, "{round}: the same entries in the same order");
        for selector in [r#"{app="odd"}"#, r#"{app="old"}"#] {
            let (own, others) = (answer(&mut client, selector), answer(&mut other, selector));
            assert!(own != Value::Null && own == others, "{own}\n{others}");
        }
    }
    let names = std::fs::read_dir(folders[2].path()).expect("a folder");
    assert_eq!(names.count(), 1, "places are removed in the end");
    // Segments, too, and compressed bodies.
    other.request("POST", "/flush", &[], Some(b"")).expect(204);
    let gzipped = {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&std::fs::read(&file).expect("a file")).expect("memory");
        encoder.finish().expect("memory")
    };
    let headers = [("Content-Encoding", "gzip")];
    let answered = other.request("POST", IMPORT, &headers, Some(&gzipped)).json();
    assert_eq!(answered["taken"], lines.len(), "{answered}");
    assert_eq!(answered["lines"], lines.len() + 1, "{answered}");
    let zipped = file.with_extension("zst");
    let bytes = std::fs::read(&file).expect("a file");
    let bytes = zstd::stream::encode_all(bytes.as_slice(), 1).expect("memory");
    std::fs::write(&zipped, bytes).expect("a file");
    let (code, said) = logsvc(&["import", "--address", &to, text(&zipped)]);
    assert_eq!(code, 0, "{said}");
    assert!(exported(&mut other, ALL, &[]) == lines);
    fresh.stop();
    let again = Server::start(folders[1].path(), &["--cores", "2"]);
    assert!(exported(&mut again.client(), ALL, &[]) == lines, "also after a restart");
}

#[test]
fn an_export_goes_on_behind_each_of_its_cursors() {
    let folder = DataDir::new();
    let server = filled(&folder);
    let mut client = server.client();
    let whole = exported(&mut client, ALL, &[]);
    let with_cursors = exported(&mut client, ALL, &[("cursors", "true")]);
    let cursors: Vec<(usize, String)> = with_cursors
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with("{\"cursor\""))
        .map(|(place, line)| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            (place, line["cursor"].as_str().expect("a cursor").to_owned())
        })
        .collect();
    assert!(cursors.len() >= 3, "{}", cursors.len());
    for (count, (place, cursor)) in cursors.iter().enumerate() {
        // Lines before it that are entries.
        let before = place - count;
        let rest = exported(&mut client, ALL, &[("cursor", cursor)]);
        assert!(rest == whole[before..], "{count}");
    }
    // What a query makes of entries is told apart, and is not imported.
    let made = exported(&mut client, r#"{app="odd"} | logfmt | msg="x""#, &[]);
    let line: Value = serde_json::from_str(&made[0]).expect("JSON");
    assert_eq!((made.len(), &line["parsed"]["level"]), (1, &Value::from("error")), "{line}");
    assert_eq!(line["metadata"]["trace_id"], "0af", "{line}");
    assert_eq!(line["labels"]["app"], "odd", "{line}");
    // A deleted or hidden entry, or a time without entries, is no line.
    assert_eq!(exported(&mut client, r#"{app="many"} |= "nowhere""#, &[]), [""; 0]);
    let reply = client.get(&query::target(EXPORT, &[("query", ALL), ("start", "0"), ("end", "9")]));
    assert_eq!(reply.expect(200), "{\"end\":true,\"entries\":0}\n");
    let cursor = cursors[0].1.as_str();
    for (selector, more, status, part) in [
        ("{", &[][..], 400, "parse error"),
        ("{}", &[], 400, "at least one"),
        ("rate({app=\"odd\"}[5m])", &[], 400, "not of a metric query"),
        (r#"{app="odd"}"#, &[("cursor", cursor)], 400, "invalid cursor"),
        (ALL, &[("cursor", "1-00")], 400, "invalid cursor"),
        (ALL, &[("end", "1400000000")], 400, "end timestamp must not be before"),
        (ALL, &[("start", "never")], 400, "never"),
        (ALL, &[("cursors", "yes")], 400, "is true or false"),
        (ALL, &[("format", "csv")], 400, "neither ndjson nor parquet"),
    ] {
        let mut params = vec![("query", selector), ("start", START), ("end", END)];
        for &(name, value) in more {
            params.retain(|(other, _)| *other != name);
            params.push((name, value));
        }
        let said = client.get(&query::target(EXPORT, &params)).expect(status);
        assert!(said.contains(part), "{selector} {more:?}: {said}");
    }
}

/// A row of a file in the form of a line: every column is a part of it.
#[cfg(feature = "parquet")]
fn line_of(row: &parquet::record::Row) -> Value {
    use parquet::record::Field;

    let mut line = serde_json::Map::new();
    for (name, field) in row.get_column_iter() {
        let value = match field {
            Field::Long(time) => Value::from(time.to_string()),
            Field::Str(text) => Value::from(text.as_str()),
            Field::MapInternal(map) if map.len() == 0 && name != "labels" => continue,
            Field::MapInternal(map) => {
                let text = |field: &Field| match field {
                    Field::Str(text) => text.clone(),
                    other => panic!("{other:?} is in no map"),
                };
                let pairs = map.entries().iter();
                Value::Object(pairs.map(|(n, v)| (text(n), Value::from(text(v)))).collect())
            }
            other => panic!("{other:?} is in no schema"),
        };
        line.insert(name.clone(), value);
    }
    Value::Object(line)
}

#[cfg(feature = "parquet")]
#[test]
fn a_parquet_file_has_what_the_lines_have() {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let folder = DataDir::new();
    let server = filled(&folder);
    let mut client = server.client();
    let selector = r#"{app=~".+"} | logfmt odd_made="msg""#;
    let lines = exported(&mut client, selector, &[]);
    let reply = export(&mut client, selector, &[("format", "parquet")]);
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("application/vnd.apache.parquet"));
    let reader = SerializedFileReader::new(Bytes::from(reply.body)).expect("a file");
    assert!(reader.num_row_groups() >= 3, "a group for each page");
    let rows = reader.get_row_iter(None).expect("rows").map(|row| line_of(&row.expect("a row")));
    let rows: Vec<Value> = rows.collect();
    assert_eq!(rows.len(), lines.len());
    for (row, line) in rows.iter().zip(&lines) {
        assert_eq!(*row, serde_json::from_str::<Value>(line).expect("JSON"));
    }
    // No entry, and a file all the same.
    let reply = export(&mut client, r#"{app="none"}"#, &[("format", "parquet")]);
    let reader = SerializedFileReader::new(Bytes::from(reply.body)).expect("a file");
    assert_eq!(reader.metadata().file_metadata().num_rows(), 0);
    let params = [("format", "parquet"), ("cursors", "true")];
    assert!(export(&mut client, selector, &params).expect(400).contains("ndjson"));
}

#[cfg(feature = "parquet")]
#[test]
fn parts_of_an_export_meet_without_a_gap() {
    use bytes::Bytes;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    let folder = DataDir::new();
    let server = filled(&folder);
    let mut client = server.client();
    let lines = exported(&mut client, ALL, &[]);
    let (mut rows, mut parts, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let params = [("format", "parquet"), ("part_entries", "2000"), ("cursor", &*cursor)];
        let reply = export(&mut client, ALL, &params);
        assert_eq!(reply.status, 200, "{}", reply.text());
        let reader = SerializedFileReader::new(Bytes::from(reply.body)).expect("a file");
        let part = reader.get_row_iter(None).expect("rows");
        rows.extend(part.map(|row| line_of(&row.expect("a row"))));
        parts += 1;
        let pairs = reader.metadata().file_metadata().key_value_metadata();
        let rest = pairs.into_iter().flatten().find(|pair| pair.key == "logsvc.cursor");
        match rest.and_then(|pair| pair.value.clone()) {
            Some(rest) => cursor = rest,
            None => break,
        }
    }
    assert!(parts >= 2, "{parts}");
    assert_eq!(rows.len(), lines.len());
    for (row, line) in rows.iter().zip(&lines) {
        assert_eq!(*row, serde_json::from_str::<Value>(line).expect("JSON"));
    }
    for (more, part) in [
        ([("format", "ndjson"), ("part_entries", "5")], "is for format=parquet"),
        ([("format", "parquet"), ("part_entries", "0")], "is no number above 0"),
    ] {
        assert!(export(&mut client, ALL, &more).expect(400).contains(part));
    }
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_files_come_to_another_server() {
    let folders = [DataDir::new(), DataDir::new(), DataDir::new()];
    let server = filled(&folders[0]);
    let lines = exported(&mut server.client(), ALL, &[]);
    let output = folders[2].path().join("all.parquet");
    let from = format!("http://{}", server.address());
    let export = [
        &["export", "--format", "parquet", "--address", &from, "--query", ALL, "--start", START][..],
        &["--end", END, "--output", text(&output)],
    ];
    let export = export.concat();
    let (code, said) = logsvc(&export);
    assert!(code == 0 && said.contains(&format!("exported {} entries", lines.len())), "{said}");
    let part = folders[2].path().join("all.0001.parquet");
    let names = std::fs::read_dir(folders[2].path()).expect("a folder");
    let names: Vec<_> = names.map(|item| item.expect("an item").path()).collect();
    assert_eq!(names, std::slice::from_ref(&part), "one part, and no place");
    let (code, said) = logsvc(&export);
    assert!(code == 2 && said.contains("exists"), "nothing is overwritten: {code}: {said}");
    let (code, said) = logsvc(&[&export[..export.len() - 1], &["-"]].concat());
    assert!(code == 2 && said.contains("--output needs a name"), "{code}: {said}");

    let fresh = Server::start(folders[1].path(), &["--cores", "1"]);
    let to = format!("http://{}", fresh.address());
    for _ in 0..2 {
        let (code, said) = logsvc(&["import", "--address", &to, text(&part)]);
        let told = format!("{} entries taken, 0 lines refused", lines.len());
        assert!(code == 0 && said.contains(&told), "{code}: {said}");
        assert!(exported(&mut fresh.client(), ALL, &[]) == lines, "the same entries");
    }
    // A file that is cut off, one with other columns, and one that only begins like Parquet.
    let whole = std::fs::read(&part).expect("a file");
    let metrics = server.client().request(
        "GET",
        &query::target(
            "/loki/api/v1/query_range",
            &[("query", "sum(count_over_time({app=\"many\"}[1m]))")],
        ),
        &[("Accept", "application/vnd.apache.parquet")],
        None,
    );
    for (bytes, told) in [
        (&whole[..whole.len() / 2], "bad.parquet"),
        (&metrics.body[..], "has no column line"),
        (&b"PAR1 and something else"[..], "bad.parquet"),
    ] {
        let bad = folders[2].path().join("bad.parquet");
        std::fs::write(&bad, bytes).expect("a file");
        let (code, said) = logsvc(&["import", "--address", &to, text(&bad)]);
        assert!(code == 2 && said.contains(told), "{code}: {said}");
    }
}

/// A proxy that passes so many bytes of its first connection's answer, and then nothing.
struct Stall {
    address: String,
    stalled: mpsc::Receiver<()>,
    is_over: Arc<AtomicBool>,
}

fn stall_after(bytes: usize, server: &Server) -> Stall {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    let (to, (tell, stalled)) = (server.address().to_owned(), mpsc::channel());
    let is_over = Arc::new(AtomicBool::new(false));
    let over = Arc::clone(&is_over);
    thread::spawn(move || {
        for (count, client) in listener.incoming().enumerate() {
            if over.load(Ordering::Acquire) {
                return;
            }
            let (Ok(mut client), Ok(mut server)) = (client, TcpStream::connect(&to)) else {
                return;
            };
            let (mut up_from, mut up_to) =
                (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
            thread::spawn(move || std::io::copy(&mut up_from, &mut up_to));
            if count > 0 {
                thread::spawn(move || {
                    // The client sees how it ends.
                    _ = std::io::copy(&mut server, &mut client);
                    _ = client.shutdown(Shutdown::Both);
                });
                continue;
            }
            let mut start = vec![0; bytes];
            server.read_exact(&mut start).expect("an answer of so many bytes");
            client.write_all(&start).expect("a client");
            tell.send(()).expect("the test waits");
            // It stays open, and says nothing.
            std::mem::forget((client, server));
        }
    });
    Stall { address, stalled, is_over }
}

#[test]
fn an_export_that_was_killed_goes_on() {
    let folders = [DataDir::new(), DataDir::new()];
    let server = filled(&folders[0]);
    let whole = exported(&mut server.client(), ALL, &[]);
    let proxy = stall_after(1_200_000, &server);
    let file = folders[1].path().join("all.ndjson");
    let state = folders[1].path().join("all.ndjson.state");
    let args = ["export", "--address", &proxy.address, "--start", START, "--end", END, "--output"];
    let args = [&args[..], &[text(&file)]].concat();
    let right = [&args[..], &["--query", ALL]].concat();
    let mut child = Command::new(env!("CARGO_BIN_EXE_logsvc"))
        .args(&right)
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary starts");
    proxy.stalled.recv().expect("the proxy passes the start");
    let place = loop {
        let kept = std::fs::read(&state).ok();
        let place: Option<Value> = kept.and_then(|kept| serde_json::from_slice(&kept).ok());
        match place {
            Some(place) if place["entries"].as_u64() > Some(0) => break place,
            _ => thread::yield_now(),
        }
    };
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(place["entries"].as_u64() < Some(whole.len() as u64), "{place}");
    let wrong = [&args[..], &["--query", r#"{app="odd"}"#]].concat();
    let (code, said) = logsvc(&wrong);
    assert!(code == 2 && said.contains("other arguments"), "{code}: {said}");
    let (code, said) = logsvc(&right);
    assert!(code == 0 && said.contains("going on behind"), "{code}: {said}");
    proxy.is_over.store(true, Ordering::Release);
    let found = std::fs::read_to_string(&file).expect("the file");
    let found: Vec<&str> = found.lines().collect();
    assert!(found[..whole.len()] == whole);
    let end = format!("{{\"end\":true,\"entries\":{}}}", whole.len());
    assert_eq!(found[whole.len()..], [end.as_str()]);
    assert!(!state.exists());
}

#[test]
fn an_import_that_ended_early_goes_on_behind_its_lines() {
    let folders = [DataDir::new(), DataDir::new()];
    let server = Server::start(folders[0].path(), &["--cores", "1"]);
    let file = folders[1].path().join("some.ndjson");
    let state = folders[1].path().join("some.ndjson.import-state");
    let line = |n: i64| format!(r#"{{"timestamp":"{n}","labels":{{"a":"b"}},"line":"{n}"}}"#);
    let lines: Vec<String> = (1..=100).map(line).collect();
    std::fs::write(&file, lines.join("\n")).expect("a file");
    let address = format!("http://{}", server.address());
    let len = std::fs::metadata(&file).expect("a file").len();
    let place = |len: u64| {
        serde_json::json!({"arguments": [address, "", format!("{len} bytes")], "cursor": null,
            "bytes": 0, "parts": 0, "lines": 40, "entries": 40, "refused": 0})
    };
    let import = || logsvc(&["import", "--address", &address, text(&file)]);
    std::fs::write(&state, place(len + 1).to_string()).expect("a file");
    let (code, said) = import();
    assert!(code == 2 && said.contains("other arguments"), "the file has changed: {said}");
    std::fs::write(&state, place(len).to_string()).expect("a file");
    let (code, said) = import();
    assert!(code == 0 && said.contains("going on behind line 40"), "{code}: {said}");
    assert!(said.contains("100 entries taken"), "{said}");
    assert!(!state.exists());
    let params = [("query", r#"{a="b"}"#), ("start", "1970-01-01T00:00:00Z"), ("end", END)];
    let found = server.client().get(&query::target(EXPORT, &params)).expect(200);
    assert_eq!(found.lines().count(), 61, "{found}");
    assert!(found.starts_with(r#"{"timestamp":"41","#), "{found}");
}

#[test]
fn bad_lines_are_refused_and_others_taken() {
    let folder = DataDir::new();
    let server = Server::start(
        folder.path(),
        &["--cores", "1", "--limits.max-global-streams-per-user=3", "--limits.max-line-size=100B"],
    );
    let mut client = server.client();
    let now_ns = now_ns();
    let line = |app: &str, line: &str| {
        format!(r#"{{"timestamp":"{now_ns}","labels":{{"app":"{app}"}},"line":"{line}"}}"#)
    };
    let long = line("a", &"x".repeat(200));
    let late = format!(
        r#"{{"timestamp":"{}","labels":{{"app":"a"}},"line":"x"}}"#,
        now_ns + 86_400 * SECOND_NS
    );
    let body = [
        line("a", "one").as_str(),
        "oops",
        "",
        &long,
        r#"{"timestamp":"1","labels":{},"line":"x"}"#,
        &late,
        r#"{"cursor":"1-00"}"#,
        r#"{"timestamp":"1","labels":{"app":"b"},"line_base64":"/w=="}"#,
        r#"{"error":"stopped"}"#,
        r#"{"end":true,"entries":3}"#,
        &line("a", "two"),
    ]
    .join("\r\n");
    let answer = client.request("POST", IMPORT, &[], Some(body.as_bytes())).json();
    assert_eq!(
        (&answer["lines"], &answer["taken"], &answer["refused"]),
        (&Value::from(11), &Value::from(4), &Value::from(4)),
        "{answer}"
    );
    let refusals = answer["first_refusals"].as_array().expect("a list").clone();
    let told: Vec<(u64, String)> = refusals
        .iter()
        .map(|one| (one["line"].as_u64().unwrap_or(0), one["reason"].to_string()))
        .collect();
    for (place, (number, part)) in [
        (2, "expected an object"),
        (4, "max entry size '100' bytes exceeded"),
        (6, "timestamp too new"),
        (9, "was cut off: stopped"),
    ]
    .into_iter()
    .enumerate()
    {
        assert!(told[place].0 == number && told[place].1.contains(part), "{told:?}");
    }
    let params = [("query", r#"{app="b"}"#), ("start", "1970-01-01T00:00:00Z"), ("end", END)];
    let found = client.get(&query::target(EXPORT, &params)).expect(200);
    assert!(found.contains(r#""line_base64":"/w==""#), "bytes stay what they are: {found}");
    let listed = client.get("/loki/api/v1/refusals").expect(200);
    assert!(listed.contains("loki_api_v1_import"), "{listed}");

    // Without labels it is of a service that nobody knows, as in a push.
    let params = [("query", r#"{service_name="unknown_service"}"#), ("start", "0"), ("end", END)];
    let found = client.get(&query::target(EXPORT, &params)).expect(200);
    assert!(found.contains(r#""entries":1"#), "{found}");

    // A fourth stream may be taken later: the lines before it need not come again.
    let body = [line("a", "three"), line("c", "x"), line("a", "four")].join("\n");
    let reply = client.request("POST", IMPORT, &[], Some(body.as_bytes()));
    let answer: Value = serde_json::from_str(&reply.expect(429)).expect("JSON");
    assert_eq!(
        (&answer["lines"], &answer["taken"]),
        (&Value::from(1), &Value::from(1)),
        "{answer}"
    );
    assert!(answer["error"].as_str().is_some_and(|text| text.contains("stream")), "{answer}");
    assert!(reply.header("retry-after").is_some());

    for (headers, body, status, part) in [
        (&[("Content-Encoding", "lz4")][..], &b"x"[..], 415, "gzip or zstd"),
        (&[("Content-Encoding", "br")], b"x", 400, "not supported"),
        (&[("Content-Encoding", "gzip")], b"no gzip", 400, "gzip"),
        (&[("Content-Encoding", "zstd")], b"no zstd", 400, "zstd"),
        (&[], b"", 200, r#"{"lines":0,"taken":0,"refused":0,"first_refusals":[]}"#),
    ] {
        let said = client.request("POST", IMPORT, headers, Some(body)).expect(status);
        assert!(said.contains(part), "{headers:?}: {said}");
    }
    let missing = folder.path().join("missing");
    let address = format!("http://{}", server.address());
    for (args, part) in [
        (&["import", "--address", &address, text(&missing)][..], "missing: No such file"),
        (&["import", "--address", "https://localhost:1", text(&missing)], "https:// is not"),
        (
            &[
                "export",
                "--address",
                &address,
                "--query",
                "{",
                "--start",
                "1",
                "--end",
                "2",
                "--output",
                "-",
            ],
            "answers 400: parse error",
        ),
    ] {
        let (code, said) = logsvc(args);
        assert!(code == 2 && said.contains(part), "{args:?}: {code}: {said}");
    }
}
