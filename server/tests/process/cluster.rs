//! Several nodes that share a bucket, which is a folder here: each takes pushes and answers for all;
//! nodes come, leave and die with their disks, and nothing that was acknowledged is lost or doubled.

mod random;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::websocket::WebSocket;
use crate::support::{Client, DataDir, SECOND_NS, Server, entry, now_ns, query, stream};

/// Longest time until others have taken over what a node had.
const PATIENCE: Duration = Duration::from_secs(90);

/// How many streams the tests push to: many more than there are nodes.
const STREAMS: i64 = 40;

/// The nodes of a test: each has a loopback address of its own for the others.
pub(crate) struct Cluster {
    folder: DataDir,
    /// The second and the third byte of their addresses, which no other process has.
    net: (u8, u8),
    /// The fourth byte of the first address, which no other test has.
    first: u8,
}

/// Tests of this process that have begun.
static TESTS: AtomicU8 = AtomicU8::new(0);

impl Cluster {
    pub(crate) fn new() -> Cluster {
        let process = std::process::id();
        let first = 10 * TESTS.fetch_add(1, Ordering::Relaxed);
        Cluster { folder: DataDir::new(), net: ((process >> 8) as u8 | 64, process as u8), first }
    }

    pub(crate) fn ip(&self, node: u8) -> String {
        format!("127.{}.{}.{}", self.net.0, self.net.1, self.first + node)
    }

    /// Starts a node with an empty folder.
    fn start(&self, node: u8) -> Server {
        self.start_with(node, &[])
    }

    /// The same with more flags.
    pub(crate) fn start_with(&self, node: u8, more: &[String]) -> Server {
        let mut server = self.launch_with(node, more);
        server.await_ready().unwrap_or_else(|| panic!("not ready: {}", server.log_text()));
        server
    }

    /// The same, without waiting.
    pub(crate) fn launch_with(&self, node: u8, more: &[String]) -> Server {
        let (ip, path) = (self.ip(node), self.folder.path());
        let bucket = format!("--storage.bucket=file://{}", path.join("bucket").display());
        let mut args = vec![
            "--cores=1".to_owned(),
            bucket,
            format!("--common.instance-addr={ip}"),
            format!("--common.storage.ring.instance-id=node-{node}"),
            format!("--server.grpc-listen-address={ip}"),
            format!("--memberlist.bind-addr={ip}"),
        ];
        args.extend((1..=4).map(|other| format!("--memberlist.join={}", self.ip(other))));
        let args: Vec<&str> = args.iter().chain(more).map(String::as_str).collect();
        let data = path.join(format!("node-{node}-{}", now_ns()));
        Server::launch(&data, &args)
    }
}

/// Where the entries of a test begin.
pub(crate) fn base_ns() -> i64 {
    now_ns() - 600 * SECOND_NS
}

/// A push of one line to each stream. Returns whether it was acknowledged.
fn push(client: &mut Client, base: i64, number: i64) -> bool {
    let streams: Vec<_> = (0..STREAMS)
        .map(|name| {
            let entries = vec![entry(base + number, format!("{name} {number}"))];
            stream(&[("app", "cluster"), ("n", &name.to_string())], entries)
        })
        .collect();
    let body = crate::support::body::json(&streams);
    let headers = [("Content-Type", "application/json")];
    let reply = client.try_request("POST", "/loki/api/v1/push", &headers, Some(body.as_bytes()));
    match reply {
        Ok(reply) if reply.status == 204 => true,
        Ok(reply) => {
            assert!(matches!(reply.status, 429 | 503), "{}: {}", reply.status, reply.text());
            false
        }
        Err(_) => false,
    }
}

/// Pushes again until it is acknowledged.
#[track_caller]
pub(crate) fn insist(client: &mut Client, base: i64, number: i64) {
    let begun = Instant::now();
    while !push(client, base, number) {
        assert!(begun.elapsed() < PATIENCE, "push {number} is not taken");
        thread::sleep(Duration::from_millis(100));
    }
}

/// All lines that a node finds, once it answers.
#[track_caller]
fn found(server: &Server, base: i64) -> Vec<String> {
    let begun = Instant::now();
    let (start, end) = ((base - 1).to_string(), (now_ns() + SECOND_NS).to_string());
    let params =
        [("query", "{app=\"cluster\"}"), ("start", &start), ("end", &end), ("limit", "5000")];
    loop {
        let target = query::target("/loki/api/v1/query_range", &params);
        let reply = server.client().get(&target);
        if reply.status == 200 {
            let mut lines = query::texts(&reply.json()["data"]);
            lines.sort_unstable();
            return lines;
        }
        assert!(matches!(reply.status, 429 | 503 | 504), "{}: {}", reply.status, reply.text());
        assert!(begun.elapsed() < PATIENCE, "no answer: {}", reply.text());
    }
}

/// Each node finds one line of each stream for each number.
#[track_caller]
pub(crate) fn all_have(nodes: &[&Server], base: i64, count: i64) {
    let mut expected: Vec<String> = (0..count)
        .flat_map(|number| (0..STREAMS).map(move |name| format!("{name} {number}")))
        .collect();
    expected.sort_unstable();
    for node in nodes {
        assert!(found(node, base) == expected, "{} does not have just all", node.address());
    }
}

/// Pushes to nodes in turn until told to stop; the number of the next push is in `next`.
fn load(
    nodes: &[&Server],
    base: i64,
    next: &Arc<AtomicI64>,
) -> (Arc<AtomicBool>, thread::JoinHandle<()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let (has_to_stop, next) = (Arc::clone(&stop), Arc::clone(next));
    let addresses: Vec<String> = nodes.iter().map(|node| node.address().to_owned()).collect();
    let pushing = thread::spawn(move || {
        let mut clients: Vec<Client> = addresses.iter().map(|at| Client::new(at)).collect();
        let places = clients.len();
        while !has_to_stop.load(Ordering::Acquire) {
            let number = next.load(Ordering::Acquire);
            insist(&mut clients[number as usize % places], base, number);
            next.store(number + 1, Ordering::Release);
            thread::sleep(Duration::from_millis(200));
        }
    });
    (stop, pushing)
}

#[test]
fn nothing_is_lost_when_nodes_come_leave_and_die() {
    let (cluster, base) = (Cluster::new(), base_ns());
    let first = cluster.start(1);
    insist(&mut first.client(), base, 0);
    all_have(&[&first], base, 1);
    let second = cluster.start(2);
    let third = cluster.start(3);
    let next = Arc::new(AtomicI64::new(1));
    let count = || next.load(Ordering::Acquire);

    // All nodes are asked while partitions go from the first one to the others.
    let (stop, pushing) = load(&[&first, &second, &third], base, &next);
    thread::sleep(Duration::from_secs(6));
    stop.store(true, Ordering::Release);
    pushing.join().expect("all pushes were taken");
    all_have(&[&first, &second, &third], base, count());

    // One dies with its disk.
    let (stop, pushing) = load(&[&first, &third], base, &next);
    thread::sleep(Duration::from_secs(1));
    second.kill();
    let killed = Instant::now();
    thread::sleep(Duration::from_secs(2));
    assert!(!found(&first, base).is_empty());
    println!("answers again {} ms after the kill", killed.elapsed().as_millis());
    stop.store(true, Ordering::Release);
    pushing.join().expect("all pushes were taken");
    all_have(&[&first, &third], base, count());

    // One comes, and one is stopped in order.
    let fourth = cluster.start(4);
    let (stop, pushing) = load(&[&third, &fourth], base, &next);
    thread::sleep(Duration::from_secs(3));
    let log = first.stop();
    assert!(!log.contains("\"ERROR\""), "{log}");
    stop.store(true, Ordering::Release);
    pushing.join().expect("all pushes were taken");
    all_have(&[&third, &fourth], base, count());
    third.stop();
    fourth.stop();

    // The last ones have left everything in the bucket.
    let fifth = cluster.start(1);
    all_have(&[&fifth], base, count());
    let metrics = fifth.get("/memberlist");
    assert!(metrics.text().contains("node-1"), "{}", metrics.text());
}

#[test]
fn a_tail_shows_what_all_nodes_take() {
    let cluster = Cluster::new();
    let (first, second, third) = (cluster.start(1), cluster.start(2), cluster.start(3));
    insist(&mut first.client(), now_ns(), 0);
    thread::sleep(Duration::from_secs(6));
    let target = query::target("/loki/api/v1/tail", &[("query", "{app=\"cluster\"}")]);
    let opened = WebSocket::open(third.address(), &target, &[]);
    let mut tail = opened.unwrap_or_else(|reply| panic!("{}: {}", reply.status, reply.text()));
    let mut shown = tail.lines(STREAMS as usize);
    for number in 1..20 {
        let node = if number % 2 == 0 { &first } else { &second };
        insist(&mut node.client(), now_ns(), number);
    }
    shown.extend(tail.lines(19 * STREAMS as usize));
    second.kill();
    // Taken by the heirs of its partitions.
    insist(&mut first.client(), now_ns(), 20);
    shown.extend(tail.lines(STREAMS as usize));
    let mut expected: Vec<String> = (0..=20)
        .flat_map(|number| (0..STREAMS).map(move |name| format!("{name} {number}")))
        .collect();
    shown.sort_unstable();
    expected.sort_unstable();
    assert!(shown == expected, "just all lines, each once");
    // The last words of the one that has died are asked for again, and nothing is shown again.
    thread::sleep(Duration::from_secs(3));
    insist(&mut third.client(), now_ns(), 21);
    let mut shown = tail.lines(STREAMS as usize);
    shown.sort_unstable();
    assert!(shown.iter().all(|line| line.ends_with(" 21")), "{shown:?}");
    tail.close();
    drop(first.stop());
    let log = third.stop();
    assert!(!log.contains("\"ERROR\"") && !log.contains("panicked"), "{log}");
}

/// The names of the groups and the states of the alerts that a node lists, once it answers.
#[track_caller]
fn rules(server: &Server) -> Vec<(String, String)> {
    let begun = Instant::now();
    loop {
        let reply = server.get("/prometheus/api/v1/rules");
        if reply.status == 200 {
            let groups = reply.json()["data"]["groups"].clone();
            let listed = groups.as_array().expect("groups").iter().map(|group| {
                let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
                (text(&group["name"]), text(&group["rules"][0]["state"]))
            });
            return listed.collect();
        }
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert!(begun.elapsed() < PATIENCE, "no answer: {}", reply.text());
    }
}

#[test]
fn rules_outlive_the_node_that_evaluates_them() {
    let (cluster, base) = (Cluster::new(), now_ns());
    let nodes = [cluster.start(1), cluster.start(2), cluster.start(3)];
    insist(&mut nodes[1].client(), base, 0);
    let group = "name: g\ninterval: 1s\nrules:\n- {alert: a, expr: vector(1), for: 3s}\n";
    let target = "/loki/api/v1/rules/team";
    let reply = nodes[2].client().request("POST", target, &[], Some(group.as_bytes()));
    assert_eq!(reply.status, 202, "{}", reply.text());
    let (begun, firing) = (Instant::now(), vec![("g".to_owned(), "firing".to_owned())]);
    while rules(&nodes[1]) != firing {
        assert!(begun.elapsed() < PATIENCE, "{:?}", rules(&nodes[1]));
        thread::sleep(Duration::from_millis(100));
    }
    // Until the bucket has the state. Partitions move rarely, so the first node evaluates.
    thread::sleep(Duration::from_secs(7));
    let [first, second, third] = nodes;
    first.kill();
    let killed = Instant::now();
    for node in [&third, &second] {
        assert!(matches!(&rules(node)[..], [(name, _)] if name == "g"));
    }
    println!("listed again {} ms after the kill", killed.elapsed().as_millis());
    // It is not pending again, which would take three seconds and more.
    thread::sleep(Duration::from_secs(2));
    assert_eq!(rules(&second), firing);
    third.stop();
    assert_eq!(rules(&second), firing);
    let reply = second.client().request("DELETE", target, &[], None);
    assert_eq!(reply.status, 202, "{}", reply.text());
    assert_eq!(rules(&second), []);
}
