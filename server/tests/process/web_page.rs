//! The web page as a browser gets it.

use crate::support::websocket::{Frame, WebSocket};
use crate::support::{DataDir, Server, body, entry, now_ns, query, stream};

const HTML: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
const BROTLI: (&str, &str) = ("Accept-Encoding", "gzip, deflate, br, zstd");

#[test]
fn a_browser_gets_the_page_with_all_its_files() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    let mut client = server.client();
    for (path, headers, status) in
        [("/", &[HTML][..], 302), ("/ui", &[HTML], 301), ("/ui", &[], 301)]
    {
        let reply = client.request("GET", path, headers, None);
        // Relative: a proxy may have taken off a prefix.
        assert_eq!((reply.status, reply.header("location")), (status, Some("ui/")), "{path}");
    }
    let list = client.get("/");
    assert!(list.expect(200).contains("href=\"/ui/\""));
    assert_eq!(list.header("vary"), Some("Accept"));

    let page = client.get("/ui/");
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    assert_eq!(page.header("cache-control"), Some("no-cache"));
    let text = page.expect(200);
    let links = text.split("\"").filter(|word| word.ends_with(".js") || word.ends_with(".css"));
    let links: Vec<&str> = links.chain(["icon.svg", "index.html"]).collect();
    assert!(links.len() > 4, "{text}");
    for name in links {
        let path = format!("/ui/{name}");
        let plain = client.get(&path);
        plain.expect(200);
        let packed = client.request("GET", &path, &[BROTLI], None);
        assert_eq!(packed.header("content-encoding"), Some("br"), "{name}");
        assert!(packed.body.len() < plain.body.len(), "{name}");
        for reply in [&plain, &packed] {
            let policy = reply.header("content-security-policy").expect("a policy");
            assert!(policy.starts_with("default-src 'self';") && !policy.contains("unsafe"));
            assert_eq!(reply.header("x-content-type-options"), Some("nosniff"));
            assert_eq!(reply.header("referrer-policy"), Some("no-referrer"));
            assert_eq!(reply.header("vary"), Some("Accept-Encoding"));
            assert!(reply.header("set-cookie").is_none());
        }
        let etag = packed.header("etag").expect("a tag");
        assert_ne!(plain.header("etag"), Some(etag));
        let again = client.request("GET", &path, &[BROTLI, ("If-None-Match", etag)], None);
        assert_eq!((again.status, again.body.len()), (304, 0), "{name}");
        let head = client.request("HEAD", &path, &[BROTLI], None);
        assert_eq!((head.status, head.body.len()), (200, 0), "{name}");
        let length = packed.body.len().to_string();
        assert_eq!(head.header("content-length"), Some(&*length), "{name}");
    }
    // Only what belongs to the page is there, and it cannot be changed.
    for path in ["/ui/manifest.json", "/ui/x.js", "/ui/index.html.br", "/ui/index.html/"] {
        client.get(path).expect(404);
    }
    client.request("POST", "/ui/", &[], Some(b"x")).expect(405);
}

#[test]
fn a_page_names_its_tenant_where_it_cannot_set_headers() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1", "--auth.enabled=true"]);
    let mut client = server.client();
    // The page itself holds no data; what it asks for does. No password is of use.
    client.get("/ui/").expect(200);
    let refused = client.get(&query::target("/loki/api/v1/labels", &[]));
    assert_eq!(refused.expect(401), "no org id\n");
    assert_eq!(refused.header("www-authenticate"), None);

    let open = |more: &[(&str, &str)], headers: &[(&str, &str)]| {
        let params = [&[("query", r#"{app="x"}"#)], more].concat();
        WebSocket::open(server.address(), &query::target("/loki/api/v1/tail", &params), headers)
    };
    let mut tail = open(&[("tenant", "one")], &[]).map_err(|r| r.text()).expect("a tail");
    // A proxy that names the tenant has the last word.
    let header = [("X-Scope-OrgID", "two")];
    let mut of_proxy = open(&[("tenant", "one")], &header).map_err(|r| r.text()).expect("a tail");
    assert_eq!((tail.next(), of_proxy.next()), (Frame::Ping, Frame::Ping));
    for name in ["two", "one"] {
        let labels = [("app", "x"), ("service_name", "x")];
        let pushed = body::json(&[stream(&labels, vec![entry(now_ns(), name)])]);
        let headers = [("Content-Type", "application/json"), ("X-Scope-OrgID", name)];
        client.request("POST", "/loki/api/v1/push", &headers, Some(pushed.as_bytes())).expect(204);
    }
    assert_eq!(tail.lines(1), ["one"]);
    assert_eq!(of_proxy.lines(1), ["two"]);
    for (tenant, status) in [("", 401), ("a|b", 400), ("a/b", 400), ("..", 400)] {
        let refused = open(&[("tenant", tenant)], &[]).err().expect("a refusal");
        assert_eq!(refused.status, status, "{tenant}: {}", refused.text());
    }
}
