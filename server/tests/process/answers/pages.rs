//! Pages of log queries: entries beyond the limit are reached by a cursor, however many share a
//! nanosecond.

use serde_json::Value;

use crate::support::{Client, DataDir, Reply, SECOND_NS, Server, entry, now_ns, query, stream};

const NEXT: &str = "x-logsvc-next-cursor";

fn page(client: &mut Client, path: &str, params: &[(&str, &str)]) -> Reply {
    client.get(&query::target(path, params))
}

fn lines(reply: &Reply) -> Vec<String> {
    query::texts(&reply.json()["data"])
}

/// Asks for page after page. Between two of them `between` may change something.
fn all_pages(
    client: &mut Client,
    params: &[(&str, &str)],
    mut between: impl FnMut(&mut Client, usize),
) -> Vec<Vec<String>> {
    let (mut pages, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let more = cursor.as_deref().map(|cursor| ("cursor", cursor));
        let params: Vec<_> = params.iter().copied().chain(more).collect();
        let reply = page(client, "/loki/api/v1/query_range", &params);
        pages.push(lines(&reply));
        match reply.header(NEXT) {
            Some(next) => cursor = Some(next.to_owned()),
            None => return pages,
        }
        assert!(pages.len() < 100, "pages end");
        between(client, pages.len());
    }
}

fn numbered(prefix: &str, numbers: std::ops::Range<usize>) -> Vec<String> {
    numbers.map(|number| format!("{prefix}{number:03}")).collect()
}

#[test]
fn lines_of_one_nanosecond_come_once_each() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let time_ns = now_ns() - 10 * SECOND_NS;
    let push = |client: &mut Client, app: &str, prefix: &str, numbers| {
        let entries = numbered(prefix, numbers).into_iter().map(|line| entry(time_ns, line));
        client.push(&[stream(&[("app", app)], entries.collect())]);
    };
    push(&mut client, "x", "l", 0..250);
    for (direction, reversed) in [("forward", false), ("backward", true)] {
        let params = [("query", "{app=\"x\"}"), ("limit", "100"), ("direction", direction)];
        let pages = all_pages(&mut client, &params, |_, _| {});
        let lens: Vec<usize> = pages.iter().map(Vec::len).collect();
        assert_eq!(lens, [100, 100, 50], "{direction}");
        let mut expected = numbered("l", 0..250);
        if reversed {
            expected.reverse();
        }
        assert_eq!(pages.concat(), expected, "{direction}");
    }
    // Lines arrive, and move to a segment, between the pages. Nothing is left out or comes twice.
    for direction in ["forward", "backward"] {
        let params = [("query", "{app=~\"x|y\"}"), ("limit", "70"), ("direction", direction)];
        let pages = all_pages(&mut client, &params, |client, number| {
            push(client, ["x", "y"][number % 2], direction, number..number + 1);
            if number == 2 {
                client.request("POST", "/flush", &[], None).expect(204);
            }
        });
        let mut found = pages.concat();
        found.sort();
        let before = found.len();
        found.dedup();
        assert_eq!(found.len(), before, "{direction}: none comes twice");
        let missing = numbered("l", 0..250).into_iter().find(|line| !found.contains(line));
        assert_eq!(missing, None, "{direction}");
    }
    // A page that is not full has no next one.
    let reply = page(&mut client, "/loki/api/v1/query_range", &[("query", "{app=\"none\"}")]);
    assert_eq!(reply.header(NEXT), None);
}

#[test]
fn a_cursor_goes_on_in_every_form_of_answer() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let time_ns = now_ns() - 10 * SECOND_NS;
    let entries = (0..3).map(|number| entry(time_ns, format!("line {number}"))).collect();
    client.push(&[stream(&[("app", "x")], entries)]);
    let params = [("query", "{app=\"x\"}"), ("limit", "2"), ("direction", "forward")];
    let first = page(&mut client, "/api/prom/query", &params);
    let cursor = first.header(NEXT).expect("there is one more").to_owned();
    let second = [&params[..], &[("cursor", &cursor)]].concat();
    let legacy = page(&mut client, "/api/prom/query", &second).json();
    assert_eq!(legacy["streams"][0]["entries"][0]["line"], "line 2");
    assert_eq!(legacy["streams"].as_array().map(Vec::len), Some(1));
    // A form works as an address does, and the range may be another one.
    let start = (time_ns - SECOND_NS).to_string();
    let form = query::form(&[&second[..], &[("start", &start)]].concat());
    let headers = [("Content-Type", "application/x-www-form-urlencoded")];
    let reply =
        client.request("POST", "/logsvc/api/v1/query_range", &headers, Some(form.as_bytes()));
    assert_eq!(lines(&reply), ["line 2"]);
    assert_eq!(reply.header(NEXT), None);
}

#[test]
fn foreign_cursors_are_refused() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    let mut client = server.client();
    let time_ns = now_ns() - 10 * SECOND_NS;
    let entries = (0..3).map(|number| entry(time_ns, format!("line {number}"))).collect();
    client.push(&[stream(&[("app", "x")], entries)]);
    let path = "/loki/api/v1/query_range";
    let params = [("query", "{app=\"x\"}"), ("limit", "2")];
    let first = page(&mut client, path, &params);
    let cursor = first.header(NEXT).expect("there is one more").to_owned();
    let damaged = cursor.replace('1', "2");
    let refused: [(&[(&str, &str)], &str); 6] = [
        (&[("query", "{app=\"x\"}"), ("cursor", "abc")], "invalid cursor"),
        (&[("query", "{app=\"x\"}"), ("cursor", &damaged)], "invalid cursor"),
        (&[("query", "{app=\"x\"} |= \"l\""), ("cursor", &cursor)], "invalid cursor"),
        (
            &[("query", "{app=\"x\"}"), ("cursor", &cursor), ("direction", "forward")],
            "invalid cursor",
        ),
        (
            &[("query", "{app=\"x\"}"), ("cursor", &cursor), ("interval", "1s")],
            "cursor and interval exclude each other",
        ),
        (&[("query", "rate({app=\"x\"}[1m])"), ("cursor", &cursor)], "invalid cursor"),
    ];
    for (params, text) in refused {
        let answer = page(&mut client, path, params).expect(400);
        assert!(answer.starts_with(text), "{params:?}: {answer}");
    }
    // The same query, written another way, is the same.
    let params = [("query", "{ app = \"x\" }"), ("cursor", &*cursor), ("limit", "5")];
    assert_eq!(lines(&page(&mut client, path, &params)), ["line 0"]);
    let stats: Value = first.json();
    assert!(stats["data"].get("cursor").is_none(), "bodies are as they were");
}
