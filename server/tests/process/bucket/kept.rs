//! Rule groups and delete requests outlive the data folder, too.

use super::*;
use crate::support::Reply;

const RULES: &str = "/loki/api/v1/rules";
const DELETE: &str = "/loki/api/v1/delete";
const STORED: &str = "--wal.durability=store";
const TENANTS: [&str; 2] = ["a", "b-1"];

/// Requests stay pending, and hide their entries.
const ON: [&str; 3] = [
    "--auth.enabled=true",
    "--compactor.retention-enabled=true",
    "--limits.deletion-mode=filter-and-delete",
];

fn start(place: &Place, data: &str, more: &[&str]) -> Server {
    place.start(data, &[&ON[..], more].concat())
}

fn ask(server: &Server, tenant: &str, method: &str, target: &str, body: Option<&str>) -> Reply {
    let headers = [("X-Scope-OrgID", tenant), ("Content-Type", "application/json")];
    server.client().request(method, target, &headers, body.map(str::as_bytes))
}

fn group(name: &str, value: u32) -> String {
    format!("name: {name}\nrules:\n  - alert: A\n    expr: vector({value})\n")
}

fn set(server: &Server, tenant: &str, name: &str, value: u32) -> Reply {
    ask(server, tenant, "POST", &format!("{RULES}/ns"), Some(&group(name, value)))
}

fn get(server: &Server, tenant: &str, name: &str) -> Option<String> {
    let reply = ask(server, tenant, "GET", &format!("{RULES}/ns/{name}"), None);
    match reply.status {
        404 => None,
        _ => Some(reply.expect(200)),
    }
}

#[track_caller]
fn insist_group(server: &Server, tenant: &str, name: &str, value: u32) {
    let found = get(server, tenant, name).expect("the group is there");
    assert!(found.contains(&format!("expr: vector({value})")), "{tenant} {name}: {found}");
}

/// Hides the lines with a word.
fn hide(server: &Server, tenant: &str, word: &str, base: i64) -> Reply {
    let (query, start) = (format!("{{app=\"x\"}} |= \"{word}\""), (base / SECOND_NS).to_string());
    let target = query::target(DELETE, &[("query", &query), ("start", &start)]);
    ask(server, tenant, "POST", &target, Some(""))
}

fn id_of(reply: &Reply) -> String {
    assert_eq!(reply.status, 204, "{}", reply.text());
    reply.header("x-delete-request-id").expect("an id").to_owned()
}

fn cancel(server: &Server, tenant: &str, id: &str) -> Reply {
    ask(server, tenant, "DELETE", &query::target(DELETE, &[("request_id", id)]), None)
}

fn requests(server: &Server, tenant: &str) -> Vec<String> {
    let listed = ask(server, tenant, "GET", DELETE, None).json();
    let listed = listed.as_array().expect("a list").clone();
    listed.iter().map(|one| one["request_id"].as_str().expect("an id").to_owned()).collect()
}

fn push_words(server: &Server, tenant: &str, base: i64, words: &[&str]) {
    let value = |(at, word): (usize, &&str)| format!("[\"{}\", \"{word}\"]", base + at as i64);
    let values: Vec<String> = words.iter().enumerate().map(value).collect();
    let values = values.join(",");
    let body = format!(r#"{{"streams":[{{"stream":{{"app":"x"}},"values":[{values}]}}]}}"#);
    ask(server, tenant, "POST", "/loki/api/v1/push", Some(&body)).expect(204);
}

fn words(server: &Server, tenant: &str, base: i64) -> Vec<String> {
    let (start, end) = (base.to_string(), (now_ns() + SECOND_NS).to_string());
    let params = [("query", "{app=\"x\"}"), ("start", &start), ("end", &end)];
    let params = [&params[..], &[("direction", "forward")]].concat();
    let target = query::target("/loki/api/v1/query_range", &params);
    let answer = ask(server, tenant, "GET", &target, None).json();
    let streams = answer["data"]["result"].as_array().expect("streams").clone();
    let values = streams.iter().flat_map(|stream| stream["values"].as_array().expect("values"));
    values.map(|value| value[1].as_str().expect("a line").to_owned()).collect()
}

/// How many objects of files the bucket has.
fn objects(place: &Place) -> usize {
    let folder = place.folder("bucket").join("files");
    std::fs::read_dir(folder).map_or(0, |entries| entries.count())
}

#[test]
fn groups_and_requests_outlive_the_data_folder() {
    for durability in [STORED, "--wal.durability=local"] {
        let place = Place::new();
        let base = base_ns();
        let server = start(&place, "one", &[durability]);
        for tenant in TENANTS {
            push_words(&server, tenant, base, &["keep", "secret", "keep", "other"]);
            set(&server, tenant, "g", 1).expect(202);
            set(&server, tenant, "h", 1).expect(202);
            set(&server, tenant, "g", 2).expect(202);
        }
        let id = id_of(&hide(&server, "a", "secret", base));
        let other = id_of(&hide(&server, "b-1", "other", base));
        if durability != STORED {
            flush(&server);
            assert_eq!(objects(&place), 5, "those that were replaced are gone");
        }
        server.kill();
        place.remove("one");

        let server = start(&place, "two", &[durability]);
        for tenant in TENANTS {
            insist_group(&server, tenant, "g", 2);
            insist_group(&server, tenant, "h", 1);
        }
        assert_eq!(requests(&server, "a"), std::slice::from_ref(&id));
        assert_eq!(words(&server, "a", base), ["keep", "keep", "other"]);
        assert_eq!(words(&server, "b-1", base), ["keep", "secret", "keep"]);
        // What is taken back stays so.
        ask(&server, "a", "DELETE", &format!("{RULES}/ns/g"), None).expect(202);
        ask(&server, "b-1", "DELETE", &format!("{RULES}/ns"), None).expect(202);
        assert_eq!(cancel(&server, "b-1", &other).status, 204);
        if durability != STORED {
            flush(&server);
            assert_eq!(objects(&place), 2);
        }
        server.kill();
        place.remove("two");

        let server = start(&place, "three", &[durability]);
        assert_eq!(get(&server, "a", "g"), None);
        insist_group(&server, "a", "h", 1);
        assert_eq!(get(&server, "b-1", "g"), None);
        assert_eq!(get(&server, "b-1", "h"), None);
        assert_eq!((requests(&server, "a"), requests(&server, "b-1")), (vec![id], vec![]));
        assert_eq!(words(&server, "a", base), ["keep", "keep", "other"]);
        assert_eq!(words(&server, "b-1", base), ["keep", "secret", "keep", "other"]);
        server.stop();
    }
}

#[test]
fn changes_wait_for_the_bucket_only_where_the_log_does() {
    let place = Place::new();
    let base = base_ns();
    let away = |is_away: bool| {
        let (bucket, aside) = (place.folder("bucket"), place.folder("aside"));
        if is_away {
            std::fs::rename(&bucket, aside).expect("the bucket is there");
            // Nobody can make an object below a file.
            std::fs::write(bucket, "x").expect("a file");
        } else {
            std::fs::remove_file(&bucket).expect("the file is there");
            std::fs::rename(aside, bucket).expect("it is away");
        }
    };
    let server = start(&place, "data", &[STORED]);
    set(&server, "a", "g", 1).expect(202);
    let id = id_of(&hide(&server, "a", "secret", base));
    away(true);
    thread::scope(|scope| {
        // They wait beside each other.
        let begun = Instant::now();
        let changed = scope.spawn(|| set(&server, "a", "g", 2));
        // The removal of nothing waits only behind a change.
        while get(&server, "a", "g").is_none_or(|group| !group.contains("vector(2)")) {
            assert!(begun.elapsed() < PATIENCE, "it is never in force");
            thread::sleep(Duration::from_millis(10));
        }
        let refused = [
            changed,
            scope.spawn(|| ask(&server, "a", "DELETE", &format!("{RULES}/ns/unknown"), None)),
            scope.spawn(|| hide(&server, "a", "other", base)),
            scope.spawn(|| cancel(&server, "a", &id)),
        ];
        for reply in refused {
            let text = reply.join().expect("an answer").expect(503);
            assert!(text.contains("the bucket does not take"), "{text}");
        }
        let waited = begun.elapsed();
        assert!(waited > Duration::from_secs(9) && waited < Duration::from_secs(25), "{waited:?}");
    });
    away(false);
    let deadline = Instant::now() + PATIENCE;
    while set(&server, "b-1", "g", 3).status != 202 {
        assert!(Instant::now() < deadline, "it never goes on");
    }
    server.kill();
    place.remove("data");
    let server = start(&place, "data", &["--wal.durability=local"]);
    insist_group(&server, "a", "g", 2);
    insist_group(&server, "b-1", "g", 3);
    assert_eq!(requests(&server, "a").len(), 1);
    away(true);
    let begun = Instant::now();
    set(&server, "a", "g", 4).expect(202);
    id_of(&hide(&server, "a", "more", base));
    assert!(begun.elapsed() < Duration::from_secs(5));
    away(false);
    server.stop();
    place.remove("data");
    let server = start(&place, "data", &[]);
    insist_group(&server, "a", "g", 4);
    assert_eq!(requests(&server, "a").len(), 2);
    server.stop();
}

#[test]
fn groups_of_a_folder_that_had_no_bucket_go_into_one() {
    let place = Place::new();
    let args = [&["--cores", "1"][..], &ON].concat();
    let server = Server::start(&place.folder("one"), &args);
    set(&server, "a", "g", 1).expect(202);
    let id = id_of(&hide(&server, "a", "secret", base_ns()));
    server.stop();
    let server = start(&place, "one", &[]);
    flush(&server);
    server.kill();
    let server = start(&place, "two", &[]);
    insist_group(&server, "a", "g", 1);
    assert_eq!(requests(&server, "a"), [id]);
    server.stop();
    // A start says which object it lacks.
    let folder = place.folder("bucket").join("files");
    let object = std::fs::read_dir(folder).expect("it is there").next().expect("an object");
    let path = object.expect("an object").path();
    std::fs::remove_file(&path).expect("it is there");
    let log = failed(place.launch("three", &ON));
    let name = path.file_name().expect("a name").to_string_lossy().into_owned();
    assert!(log.contains(&format!("the object files/{name}")), "{log}");
    assert!(log.contains("it is missing"), "{log}");
}
