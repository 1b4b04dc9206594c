//! Parquet files instead of JSON, for clients that ask for them.

use bytes::Bytes;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use crate::support::{Client, DataDir, Reply, SECOND_NS, Server, entry, now_ns, query, stream};

const MEDIA_TYPES: [&str; 2] =
    ["application/vnd.apache.parquet", "application/vnd.neutral.parquet"];

/// Labels, time and value of a row, as texts.
type Row = (Vec<(String, String)>, String, String);

fn text(field: &Field) -> String {
    match field {
        Field::Str(text) => text.clone(),
        Field::Long(number) | Field::TimestampMillis(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        other => panic!("{other:?} is in no schema"),
    }
}

#[track_caller]
fn rows(reply: &Reply, media_type: &str) -> Vec<Row> {
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some(media_type));
    assert_eq!(reply.header("vary"), Some("Accept-Encoding"));
    let reader = SerializedFileReader::new(Bytes::from(reply.body.clone())).expect("a file");
    let rows = reader.get_row_iter(None).expect("rows").map(|row| {
        let row = row.expect("a row");
        let columns: Vec<(&String, &Field)> = row.get_column_iter().collect();
        let [(_, time), (_, Field::MapInternal(labels)), (_, value)] = columns[..] else {
            panic!("other columns: {columns:?}")
        };
        let labels = labels.entries().iter().map(|(name, value)| (text(name), text(value)));
        (labels.collect(), text(time), text(value))
    });
    rows.collect()
}

/// The rows that a JSON answer stands for.
fn expected(data: &Value) -> Vec<Row> {
    let one = data["resultType"] == "vector";
    let (labels, values) = match data["resultType"].as_str() {
        Some("streams") => ("stream", "values"),
        Some("matrix") => ("metric", "values"),
        _ => ("metric", "value"),
    };
    let mut rows = Vec::new();
    for series in data["result"].as_array().expect("a list") {
        let pairs = series[labels].as_object().expect("labels").iter();
        let pairs: Vec<(String, String)> =
            pairs.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
        let samples = if one { vec![series[values].clone()] } else { list(&series[values]) };
        for sample in samples {
            let time = match &sample[0] {
                Value::String(time_ns) => time_ns.clone(),
                time_s => ((time_s.as_f64().unwrap() * 1000.0).round() as i64).to_string(),
            };
            rows.push((pairs.clone(), time, sample[1].as_str().unwrap().to_owned()));
        }
    }
    rows
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().expect("a list").clone()
}

fn ask(client: &mut Client, path: &str, params: &[(&str, &str)], accept: &str) -> Reply {
    let target = query::target(&format!("/loki/api/v1/{path}"), params);
    client.request("GET", &target, &[("Accept", accept)], None)
}

#[test]
fn files_hold_what_json_says() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let begin_ns = now_ns() - 600 * SECOND_NS;
    let entries = |step: i64| {
        let entries = (0..200).map(|n| {
            let line = format!("line {n} dur={}ms \"<&\u{1f600}>\"", n * step);
            entry(begin_ns + n * step * SECOND_NS / 100, line)
        });
        entries.collect::<Vec<_>>()
    };
    let traced = entries(2).into_iter().map(|e| e.with_metadata(&[("trace_id", "t1")]));
    client.push(&[
        stream(&[("app", "shop"), ("env", "prod")], entries(1)),
        stream(&[("app", "cart"), ("env", "prod")], traced.collect()),
    ]);
    let start = begin_ns.to_string();
    let end = (begin_ns + 60 * SECOND_NS).to_string();
    let range = |query| [("query", query), ("start", start.as_str()), ("end", end.as_str())];
    let logs = [&range(r#"{env="prod"} | logfmt"#)[..], &[("limit", "300")]].concat();
    let rate =
        [&range(r#"sum by (app) (rate({env="prod"}[1m]))"#)[..], &[("step", "7.5")]].concat();
    let instant = [("query", r#"count_over_time({env="prod"}[1h])"#), ("time", end.as_str())];
    let nothing = range(r#"{env="none"}"#);
    let (vector, volume) = (range("vector(1)"), range(r#"{env="prod"}"#));
    for (path, params, count) in [
        ("query_range", &logs[..], Some(300)),
        ("query_range", &rate, None),
        ("query_range", &vector, None),
        ("query_range", &nothing, Some(0)),
        ("query", &instant, Some(2)),
        ("index/volume", &volume, Some(1)),
        ("index/volume_range", &volume, None),
    ] {
        let json = ask(&mut client, path, params, "*/*").json();
        let expected = expected(&json["data"]);
        assert!(count.is_none_or(|count| expected.len() == count), "{path} {params:?}");
        assert!(count.is_some() || !expected.is_empty(), "{path} {params:?}");
        for media_type in MEDIA_TYPES {
            let reply = ask(&mut client, path, params, media_type);
            assert_eq!(rows(&reply, media_type), expected, "{path} {params:?}");
        }
    }
    // A scalar is a row without labels.
    let scalar = ask(&mut client, "query", &[("query", "1+1"), ("time", "7")], MEDIA_TYPES[0]);
    assert_eq!(rows(&scalar, MEDIA_TYPES[0]), [(vec![], "7000".to_owned(), "2".to_owned())]);
    // Labels of all categories stay in their one column.
    let target = query::target("/loki/api/v1/query_range", &logs);
    let flags = ("X-Loki-Response-Encoding-Flags", "categorize-labels");
    let headers = [("Accept", MEDIA_TYPES[0]), flags];
    let flagged = client.request("GET", &target, &headers, None);
    let plain = ask(&mut client, "query_range", &logs, MEDIA_TYPES[0]);
    assert_eq!(flagged.body, plain.body);
    // Larger files are compressed once more for clients that take compressed answers.
    let headers = [("Accept", MEDIA_TYPES[0]), ("Accept-Encoding", "gzip")];
    let packed = client.request("GET", &target, &headers, None);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut unpacked = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(&packed.body[..]);
    std::io::Read::read_to_end(&mut decoder, &mut unpacked).expect("gzip");
    assert_eq!(unpacked, plain.body);
}

#[test]
fn the_header_is_taken_literally_and_errors_stay_texts() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--auth.enabled=true"]);
    let mut client = server.client();
    let mut ask = |path: &str, tenant: &str, accept: &str| {
        let params = [("query", r#"{app="x"}"#), ("match[]", r#"{app="x"}"#)];
        let target = query::target(&format!("/loki/api/v1/{path}"), &params);
        let headers = [("Accept", accept), ("X-Scope-OrgID", tenant)];
        let headers = if tenant.is_empty() { &headers[..1] } else { &headers[..] };
        client.request("GET", &target, headers, None)
    };
    let parquet = MEDIA_TYPES[0];
    for other in
        ["application/vnd.apache.parquet, */*", "application/vnd.apache.parquet;q=1", "*/*"]
    {
        let reply = ask("query_range", "a", other);
        assert_eq!(
            reply.header("content-type"),
            Some("application/json; charset=UTF-8"),
            "{other}"
        );
    }
    let texts =
        [ask("query", "a", parquet), ask("query_range", "", parquet), ask("labels", "", parquet)];
    let log_query = "log queries are not supported as an instant query type, please change your \
                     query to a range query type";
    for (reply, (status, text)) in
        texts.iter().zip([(400, log_query), (401, "no org id\n"), (401, "no org id\n")])
    {
        assert_eq!(reply.expect(status), text);
        assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
    }
    for path in [
        "labels",
        "label/app/values",
        "series",
        "index/stats",
        "index/shards",
        "detected_fields",
        "detected_field/x/values",
        "detected_labels",
        "patterns",
    ] {
        let reply = ask(path, "a", parquet);
        assert_eq!(reply.expect(400), "request does not support Parquet responses", "{path}");
        assert_ne!(ask(path, "a", "*/*").text(), "request does not support Parquet responses");
    }
}
