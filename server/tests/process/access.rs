//! Accounts and web pages: who may use the server, and what a browser lets pages of others do.

use std::fs;

use serde_json::Value;

use crate::support::{Client, DataDir, Reply, Server, body, entry, now_ns, query, stream};

/// `Basic` credentials.
fn basic(name: &str, password: &str) -> String {
    use base64::Engine;
    let text = base64::engine::general_purpose::STANDARD.encode(format!("{name}:{password}"));
    format!("Basic {text}")
}

/// A line of the file, by a cheap hash.
fn account(name: &str, password: &str, tenant: &str) -> String {
    let hash = bcrypt::hash(password, 4).expect("a hash");
    format!("{name}:{hash}:{tenant}\n")
}

fn token(name: &str, token: &str, tenant: &str) -> String {
    use sha2::{Digest, Sha256};
    let digits: String = Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{name}:$sha256${digits}:{tenant}\n")
}

fn push(client: &mut Client, headers: &[(&str, &str)], line: &str) -> Reply {
    let streams = [stream(&[("app", "x")], vec![entry(now_ns(), line)])];
    let headers = [headers, &[("Content-Type", "application/json")]].concat();
    let body = body::json(&streams);
    client.request("POST", "/loki/api/v1/push", &headers, Some(body.as_bytes()))
}

fn lines(client: &mut Client, headers: &[(&str, &str)]) -> Vec<String> {
    let target = query::target("/loki/api/v1/query_range", &[("query", "{app=\"x\"}")]);
    let answer: Value = client.request("GET", &target, headers, None).json();
    query::texts(&answer["data"])
}

#[test]
fn nobody_gets_in_without_an_account() {
    let folder = DataDir::new();
    let file = folder.path().join("users");
    let text = account("ann", "secret", "")
        + &account("bob", "word", "shop")
        + &token("bot", "t0ken", "shop");
    fs::write(&file, text).expect("the folder is there");
    let users = format!("--server.users-file={}", file.display());
    let data = DataDir::new();
    let server = Server::start(data.path(), &["--cores", "2", "--auth.enabled=true", &users]);
    let mut client = server.client();
    let ann = basic("ann", "secret");
    let bob = basic("bob", "word");
    let (ann, bob) = (("Authorization", &*ann), ("Authorization", &*bob));
    let bot = ("Authorization", "Bearer t0ken");
    let tenant = |id| ("X-Scope-OrgID", id);
    // Any account may name any tenant if it has none of its own.
    push(&mut client, &[ann, tenant("a")], "of a").expect(204);
    push(&mut client, &[bob], "of the shop").expect(204);
    push(&mut client, &[bot], "of a bot").expect(204);
    push(&mut client, &[("Authorization", &basic("bot", "t0ken"))], "of a bot, too").expect(204);
    assert_eq!(lines(&mut client, &[ann, tenant("a")]), ["of a"]);
    assert_eq!(lines(&mut client, &[bob, tenant("shop")]).len(), 3);
    assert_eq!(lines(&mut client, &[ann, tenant("shop")]).len(), 3);
    // Wrong ones, again and again: an answer that was good once does not help.
    let wrong = [
        basic("ann", "Secret"),
        basic("ann", ""),
        basic("eve", "secret"),
        basic("bob", "secret"),
        "Bearer t0ke".to_owned(),
        "Bearer".to_owned(),
        "Basic ???".to_owned(),
        "Digest username=\"ann\"".to_owned(),
    ];
    for value in &wrong {
        for _ in 0..2 {
            let reply = push(&mut client, &[("Authorization", value), tenant("a")], "never");
            let text = reply.expect(401);
            assert!(text.contains("an account are needed"), "{value}: {text}");
            let challenge = "Basic realm=\"logsvc\", charset=\"UTF-8\"";
            assert_eq!(reply.header("www-authenticate"), Some(challenge), "{value}");
        }
    }
    push(&mut client, &[tenant("a")], "never").expect(401);
    push(&mut client, &[ann, ann, tenant("a")], "never").expect(401);
    // A password is of no use where the tenant is missing.
    let reply = push(&mut client, &[ann], "never");
    assert_eq!(
        (reply.expect(401).as_str(), reply.header("www-authenticate")),
        ("no org id\n", None)
    );
    push(&mut client, &[bob, tenant("a")], "never").expect(403);
    push(&mut client, &[bob, tenant("a|shop")], "never").expect(403);
    for path in ["/metrics", "/config", "/services", "/log_level"] {
        let status =
            |client: &mut Client, headers: &[_]| client.request("GET", path, headers, None).status;
        assert_eq!(status(&mut client, &[]), 401, "{path}");
        assert_eq!(status(&mut client, &[bob]), 403, "{path}");
        assert_eq!(status(&mut client, &[ann]), 200, "{path}");
    }
    client.request("POST", "/flush", &[bob], None).expect(403);
    client.request("POST", "/ingester/shutdown", &[bot], None).expect(403);
    for path in ["/ready", "/health", "/-/healthy", "/-/ready"] {
        client.get(path).expect(200);
    }
    assert_eq!(lines(&mut client, &[ann, tenant("a")]), ["of a"], "nothing else was stored");
}

#[test]
fn accounts_change_while_the_server_runs() {
    let folder = DataDir::new();
    let file = folder.path().join("users");
    fs::write(&file, account("ann", "old", "")).expect("the folder is there");
    let users = format!("--server.users-file={}", file.display());
    let data = DataDir::new();
    let server = Server::start(data.path(), &["--cores", "1", &users]);
    let mut client = server.client();
    let (old, new) = (basic("ann", "old"), basic("ann", "new"));
    let (old, new) = ([("Authorization", &*old)], [("Authorization", &*new)]);
    push(&mut client, &old, "one").expect(204);
    push(&mut client, &new, "never").expect(401);
    // A file with a bad line changes nothing.
    fs::write(&file, "ann:new\n").expect("the folder is there");
    let answer = client.request("POST", "/-/reload", &old, None);
    assert!(answer.text().contains("line 1: the hash is none of"), "{}", answer.text());
    push(&mut client, &old, "two").expect(204);
    fs::write(&file, account("ann", "new", "")).expect("the folder is there");
    client.request("POST", "/-/reload", &old, None).expect(200);
    push(&mut client, &old, "never").expect(401);
    push(&mut client, &new, "three").expect(204);
    let mut found = lines(&mut client, &new);
    found.sort();
    assert_eq!(found, ["one", "three", "two"]);
}

#[test]
fn chosen_origins_may_use_the_server_from_a_browser() {
    let data = DataDir::new();
    let page = "https://page.example";
    let allowed = format!("--server.cors-allowed-origins={page}");
    let server = Server::start(data.path(), &["--cores", "1", &allowed]);
    let mut client = server.client();
    let preflight = [
        ("Origin", page),
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-type,x-scope-orgid"),
    ];
    let reply = client.request("OPTIONS", "/loki/api/v1/push", &preflight, None);
    reply.expect(204);
    assert_eq!(reply.header("access-control-allow-origin"), Some(page));
    assert_eq!(reply.header("access-control-allow-methods"), Some("POST, OPTIONS"));
    assert_eq!(reply.header("access-control-allow-headers"), Some("content-type,x-scope-orgid"));
    let reply = push(&mut client, &[("Origin", page)], "from a page");
    reply.expect(204);
    assert_eq!(reply.header("access-control-allow-origin"), Some(page));
    assert_eq!(lines(&mut client, &[("Origin", page)]), ["from a page"]);
    // Errors are readable as well.
    let reply = client.request("GET", "/nowhere", &[("Origin", page)], None);
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (404, Some(page)));
    // Other pages stay where they were.
    let evil = [("Origin", "https://evil.example")];
    push(&mut client, &evil, "never").expect(403);
    let reply = client.request("GET", "/loki/api/v1/labels", &evil, None);
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, None));
    drop(server);
    // Any page may read, and none may change anything.
    let server = Server::start(data.path(), &["--cores", "1", "--server.cors-allowed-origins=*"]);
    let mut client = server.client();
    push(&mut client, &evil, "never").expect(403);
    let reply = client.request("GET", "/loki/api/v1/labels", &evil, None);
    assert_eq!((reply.status, reply.header("access-control-allow-origin")), (200, Some("*")));
    assert_eq!(lines(&mut client, &evil), ["from a page"]);
}
