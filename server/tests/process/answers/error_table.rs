//! The request-time errors of the interface: every row of its table, with a way to
//! provoke it, or with the reason why no node ever answers so. Rules have a table of their own;
//! the cancellation of a processed request for deletion is tried where one is processed.

use std::io::{BufReader, Write};

use crate::support::{DataDir, Reply, Server, body, client, entry, now_ns, query, stream};

/// How an error comes about.
enum How {
    /// The request is answered by one of the nodes.
    Provoked(fn(&Nodes) -> Reply),
    /// It is answered by nodes that have others. This test of whole nodes on the simulation has it, in
    /// this source.
    OfMany(&'static str, &'static str),
    /// It cannot, because of this.
    Never(&'static str),
}

use How::{Never, OfMany, Provoked};

/// Tests of many nodes.
const PARTS: &str = include_str!("../../../src/app/tests/cluster/partial.rs");
const RINGS: &str = include_str!("../../../src/app/tests/cluster/rings.rs");

/// The nodes that errors are provoked on.
struct Nodes {
    /// Asks for tenants.
    tenants: Server,
    /// Takes little: small bodies, slow pushes, no queries.
    small: Server,
    /// Has little memory, and a stream `{app="big"}` of lines that grow when they are
    /// written as JSON.
    narrow: Server,
    /// Its ingester was shut down.
    without_ingester: Server,
    /// For nodes that are started for one row.
    _folders: Vec<DataDir>,
}

impl Nodes {
    fn start() -> Nodes {
        let folders: Vec<DataDir> = (0..4).map(|_| DataDir::new()).collect();
        let start = |place: usize, args: &[&str]| {
            Server::start(folders[place].path(), &[&["--cores", "1"], args].concat())
        };
        let deletes = ["--compactor.retention-enabled=true", "--limits.deletion-mode=filter-only"];
        let tenants = start(0, &[&["--auth.enabled=true"], &deletes[..]].concat());
        let small = start(
            1,
            &[
                "--distributor.max-recv-msg-size=1000B",
                "--distributor.max-decompressed-size=3000B",
                "--limits.ingestion-rate-mb=0.0001",
                "--limits.ingestion-burst-size-mb=0.0001",
                "--limits.max-query-parallelism=0",
                "--limits.deletion-mode=filter-only",
            ],
        );
        let narrow = start(2, &["--memory.max-bytes=64MB"]);
        let now_ns = now_ns();
        let entries = (0..40).map(|n| entry(now_ns - n, "<".repeat(100_000)));
        narrow.client().push(&[stream(&[("app", "big")], entries.collect())]);
        let without_ingester = start(3, &[]);
        let shut = without_ingester.client().request(
            "POST",
            "/ingester/shutdown?terminate=false",
            &[],
            None,
        );
        shut.expect(204);
        Nodes { tenants, small, narrow, without_ingester, _folders: folders }
    }

    /// The answer to a request for labels as this tenant.
    fn of_tenant(&self, tenant: &str) -> Reply {
        let headers = [("X-Scope-OrgID", tenant)];
        self.tenants.client().request("GET", "/loki/api/v1/labels", &headers, None)
    }

    /// The answer to a request for deletion of some entries of an hour.
    fn deletion(&self, more: &[(&str, &str)]) -> Reply {
        let default = [("query", r#"{app="x"} |= "y""#), ("start", HOUR[0]), ("end", HOUR[1])];
        let params = [more, &default].concat();
        deletion(&self.tenants, "POST", &params)
    }

    fn range(&self, params: &[(&str, &str)]) -> Reply {
        self.narrow.get(&query::target("/loki/api/v1/query_range", params))
    }
}

/// The bounds of an hour, in seconds.
const HOUR: [&str; 2] = ["1700000000", "1700003600"];

fn deletion(server: &Server, method: &str, params: &[(&str, &str)]) -> Reply {
    let target = query::target("/loki/api/v1/delete", params);
    server.client().request(method, &target, &[("X-Scope-OrgID", "a")], Some(b""))
}

fn line(text: &str) -> String {
    body::json(&[stream(&[("app", "x")], vec![entry(now_ns(), text)])])
}

/// The first answer that is no success, beside many answers that clients do not read.
fn refused_beside_unread_answers(server: &Server) -> Reply {
    let params = [("query", r#"{app="big"}"#), ("limit", "7")];
    let target = query::target("/loki/api/v1/query_range", &params);
    let mut unread = Vec::new();
    for _ in 0..20 {
        let mut connection = client::connect(server.address()).expect("a connection");
        write!(connection, "GET {target} HTTP/1.1\r\nHost: x\r\n\r\n").expect("a request");
        let mut connection = BufReader::with_capacity(16, connection);
        let reply = client::read_head(&mut connection).expect("an answer");
        if reply.status != 200 {
            return client::read_body(&mut connection, reply).expect("a whole answer");
        }
        unread.push(connection);
    }
    panic!("{} answers that nobody reads have room", unread.len())
}

/// The answer to a request whose first bytes came before the stop, and whose other bytes come
/// after.
fn answered_while_stopping(begin: &str, end: &str) -> Reply {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    let mut connection = client::connect(server.address()).expect("a connection");
    connection.write_all(begin.as_bytes()).expect("the server reads");
    // The one core has seen the first bytes when it answers this later request.
    server.get("/ready").expect(200);
    server.terminate();
    // It stops once it accepts nothing more.
    while client::connect(server.address()).is_ok() {
        std::thread::yield_now();
    }
    connection.write_all(end.as_bytes()).expect("the server still reads");
    let reply = client::read_reply(&mut BufReader::new(connection), false).expect("an answer");
    let (status, log) = server.wait();
    assert!(status.success(), "{log}");
    reply
}

/// The answer of `/ready` while the log is being replayed.
fn ready_while_starting() -> Reply {
    let folder = DataDir::new();
    let port = free_port();
    let mut entries = 20_000;
    // A start that is over before it is seen is repeated with a longer log.
    for _ in 0..6 {
        let server = Server::start(folder.path(), &["--cores", "1"]);
        let now_ns = now_ns();
        for batch in 0..entries / 2000 {
            let at = |n: i64| now_ns - batch * 2000 - n;
            let lines = (0..2000).map(|n| entry(at(n), format!("line {n} of a batch {batch}")));
            server.client().push(&[stream(&[("app", "start")], lines.collect())]);
        }
        server.kill();
        let mut server = Server::launch_on(&port, folder.path(), &["--cores", "1"]);
        let address = format!("127.0.0.1:{port}");
        let seen = loop {
            let mut client = client::Client::new(&address);
            match client.try_request("GET", "/ready", &[], None) {
                Ok(reply) if reply.status == 200 => break None,
                Ok(reply) => break Some(reply),
                Err(_) => std::thread::yield_now(),
            }
        };
        server.await_ready().expect("it starts");
        server.stop();
        if let Some(reply) = seen {
            return reply;
        }
        entries *= 4;
    }
    panic!("no start took long enough to be seen")
}

fn free_port() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port().to_string()
}

const NO_SCHEDULER: &str = "the node that a query comes to has its queue and runs it: a node that is a \
                            scheduler alone takes no queries, and no node asks it";

const NO_GATEWAY: &str = "owners of partitions find the streams themselves: no node asks an index gateway, \
                          and a node that is one alone takes no queries";

/// Message, status, and how it comes about. Words in `<>` stand for any text.
const TABLE: &[(&str, u16, How)] = &[
    ("no org id", 401, Provoked(|n| n.tenants.get("/loki/api/v1/labels"))),
    ("multiple org IDs present", 400, Provoked(|n| n.of_tenant("a|b"))),
    ("tenant ID is too long: max 150 characters", 400, Provoked(|n| n.of_tenant(&"x".repeat(151)))),
    ("tenant ID is '.' or '..'", 400, Provoked(|n| n.of_tenant(".."))),
    (
        "tenant ID '<id>' contains unsupported character '<char>'",
        400,
        Provoked(|n| n.of_tenant("a b")),
    ),
    (
        "deletion is not available for this tenant",
        403,
        Provoked(|n| deletion(&n.narrow, "GET", &[])),
    ),
    ("Retention is not enabled", 400, Provoked(|n| deletion(&n.small, "POST", &[]))),
    (
        "could not find delete request with given id",
        404,
        Provoked(|n| deletion(&n.tenants, "DELETE", &[("request_id", "00000000")])),
    ),
    (
        "invalid start time: require unix seconds or RFC3339 format",
        400,
        Provoked(|n| n.deletion(&[("start", "1700000000000")])),
    ),
    (
        "invalid end time: require unix seconds or RFC3339 format",
        400,
        Provoked(|n| n.deletion(&[("end", "yesterday")])),
    ),
    (
        "invalid max_interval: valid time units are 's', 'm', 'h'",
        400,
        Provoked(|n| n.deletion(&[("max_interval", "1d")])),
    ),
    (
        "max_interval can't be greater than <limit>",
        400,
        Provoked(|n| n.deletion(&[("max_interval", "25h")])),
    ),
    (
        "max_interval can't be greater than the interval to be deleted (<duration>)",
        400,
        Provoked(|n| n.deletion(&[("max_interval", "2h")])),
    ),
    ("invalid direction '<value>'", 400, Provoked(|n| n.range(&[("direction", "up")]))),
    ("limit must be a positive value", 400, Provoked(|n| n.range(&[("limit", "0")]))),
    (
        "end timestamp must not be before or equal to start time",
        400,
        Provoked(|n| n.range(&[("start", "7"), ("end", "7")])),
    ),
    (
        "delay_for can't be greater than <max>",
        400,
        Provoked(|n| {
            let params = [("query", r#"{app="x"}"#), ("delay_for", "6")];
            n.narrow.get(&query::target("/loki/api/v1/tail", &params))
        }),
    ),
    (
        "categorize is true or false, and not <value>",
        400,
        Provoked(|n| {
            let params = [("query", r#"{app="x"}"#), ("categorize", "1")];
            n.narrow.get(&query::target("/loki/api/v1/tail", &params))
        }),
    ),
    (
        "log queries are not supported as an instant query type, please change your query to a \
         range query type",
        400,
        Provoked(|n| {
            let params = [("query", r#"{app="x"}"#)];
            n.narrow.get(&query::target("/loki/api/v1/query", &params))
        }),
    ),
    ("parse error at line 1, <where>", 400, Provoked(|n| n.range(&[("query", "{app=")]))),
    (
        "<problem>imestamp<details>",
        400,
        Provoked(|n| {
            let body =
                br#"{"streams":[{"stream":{"a":"b"},"values":[[1795224420000000000,"x"]]}]}"#;
            n.narrow.client().push_json(body)
        }),
    ),
    (
        "message size too large than max (<size> vs <max>)",
        413,
        Provoked(|n| n.small.client().push_json(line(&"x".repeat(2000)).as_bytes())),
    ),
    (
        "decompressed message size too large than max (<size> vs <max>)",
        400,
        Provoked(|n| {
            let headers = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")];
            let body = body::gzip(line(&"x".repeat(4000)).as_bytes());
            n.small.client().request("POST", "/loki/api/v1/push", &headers, Some(&body))
        }),
    ),
    (
        "compressed message size <size> exceeds limit <limit>",
        400,
        Never("a body over the limit is never read to its end: its length is refused with 413"),
    ),
    (
        "response larger than the max message size (<size> vs <max>)",
        413,
        Provoked(|n| n.range(&[("query", r#"{app="big"}"#)])),
    ),
    ("too many outstanding requests", 429, Provoked(|n| refused_beside_unread_answers(&n.narrow))),
    (
        "querying is disabled, please contact your operator",
        429,
        Provoked(|n| {
            n.small.get("/loki/api/v1/labels").expect(200);
            n.small.get(&query::target("/loki/api/v1/query", &[("query", "vector(1)")]))
        }),
    ),
    (
        "ingestion rate limit exceeded for user <tenant> (limit: <rate> bytes/sec) while attempting \
         to ingest '<lines>' lines totaling '<bytes>' bytes, reduce log volume or contact your \
         administrator to see if the limit can be increased",
        429,
        Provoked(|n| n.small.client().push_json(line(&"x".repeat(500)).as_bytes())),
    ),
    ("no frontend address", 400, Never(NO_SCHEDULER)),
    ("scheduler is not running", 503, Never(NO_SCHEDULER)),
    ("scheduler is shutting down", 503, Never(NO_SCHEDULER)),
    // What is wrong follows, behind a colon.
    (
        "too many unhealthy instances in the ring",
        503,
        OfMany("a_part_is_an_answer_for_who_takes_it", PARTS),
    ),
    ("empty ring", 503, Provoked(|n| n.without_ingester.client().push_json(line("x").as_bytes()))),
    ("instance <id> not found in the ring", 503, OfMany("rings_of_any_node_show_all_nodes", RINGS)),
    (
        "this instance owns no tokens",
        503,
        Never("a node without partitions is ready: it brings pushes and queries to their owners"),
    ),
    (
        "error talking to the KV store",
        503,
        Never(
            "no request asks the bucket who owns what: a node goes by the map that it has, and one \
             that has none says that no ring was returned",
        ),
    ),
    (
        "no ring returned from the KV store",
        503,
        OfMany("a_node_that_knows_no_map_has_no_ring", RINGS),
    ),
    (
        "Application is stopping",
        503,
        Provoked(|_| answered_while_stopping("GET /ready HTTP/1.1\r\n", "Host: x\r\n\r\n")),
    ),
    (
        "Some services are not Running:\n<counts>",
        503,
        Provoked(|n| n.without_ingester.get("/ready")),
    ),
    ("Ingester not ready: ingester not ready: <state>", 503, Provoked(|_| ready_while_starting())),
    (
        "Query Frontend not ready: not ready: number of queriers connected to query-frontend is 0",
        503,
        Never(
            "a node that takes queries runs them itself. One that knows no node with entries says so, \
             with the same beginning",
        ),
    ),
    (
        "Query Frontend not ready: not ready: number of schedulers this worker is connected to is 0",
        503,
        Never(NO_SCHEDULER),
    ),
    (
        "Ingester is shutting down",
        503,
        Provoked(|_| {
            let body = line("x");
            let end = format!(
                "Host: x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            answered_while_stopping("POST /loki/api/v1/push HTTP/1.1\r\n", &end)
        }),
    ),
    (
        "Ingester is stopping or already stopped.",
        503,
        Provoked(|n| n.without_ingester.get("/ingester/shutdown")),
    ),
    ("index-gateway is unhealthy in the ring", 500, Never(NO_GATEWAY)),
    ("no index gateway instances found for tenant <tenant>", 500, Never(NO_GATEWAY)),
    (
        "request time range must span exactly one day",
        500,
        Never("filters belong to segments, so there is no gateway that asks for them"),
    ),
    (
        "from time must not be after through time",
        500,
        Never("filters belong to segments, so there is no gateway that asks for them"),
    ),
    (
        "wal is stopped",
        500,
        Never(
            "a stopping node refuses pushes before it closes its log, and waits for those that \
               are under way",
        ),
    ),
];

/// Whether a text is an instance of a message. A line break at its end is the form of the endpoint,
/// not a part of the message.
fn stands_for(message: &str, text: &str) -> bool {
    let mut rest = text.strip_suffix('\n').unwrap_or(text);
    let mut pieces = message.split('<');
    let Some(begin) = pieces.next() else { return false };
    let Some(behind) = rest.strip_prefix(begin) else { return false };
    rest = behind;
    let pieces: Vec<&str> =
        pieces.map(|piece| piece.split_once('>').map_or("", |(_, text)| text)).collect();
    for (place, piece) in pieces.iter().enumerate() {
        let is_last = place + 1 == pieces.len();
        let found = if is_last { rest.rfind(piece) } else { rest.find(piece) };
        let Some(at) = found else { return false };
        if is_last {
            // The last piece ends the text, unless a word in brackets does.
            return piece.is_empty() || at + piece.len() == rest.len();
        }
        rest = &rest[at + piece.len()..];
    }
    rest.is_empty()
}

#[test]
fn every_error_of_the_table_is_answered_as_it_says() {
    assert!(stands_for("a (<x> vs <y>)", "a (1 vs 2)\n") && stands_for("a <x>", "a 1 b"));
    assert!(!stands_for("a (<x> vs <y>)", "a (1 vs 2") && !stands_for("a", "a b"));
    let nodes = Nodes::start();
    let mut wrong = Vec::new();
    for (message, status, how) in TABLE {
        match how {
            Never(reason) => assert!(!reason.is_empty(), "{message}"),
            OfMany(test, source) => {
                assert!(source.contains(&format!("\nfn {test}() {{")), "{test} is no test");
                let pieces = message.split('<').map(|it| it.split_once('>').map_or(it, |it| it.1));
                for piece in pieces {
                    assert!(source.contains(piece), "{test} does not look for {message:?}");
                }
            }
            Provoked(provoke) => {
                let reply = provoke(&nodes);
                let text = reply.text();
                if reply.status != *status || !stands_for(message, &text) {
                    wrong.push(format!("{status} {message}\n    {} {text:.300}", reply.status));
                }
                let media_type = reply.header("content-type");
                assert_eq!(media_type, Some("text/plain; charset=utf-8"), "{message}");
                assert_eq!(reply.header("x-content-type-options"), Some("nosniff"), "{message}");
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
