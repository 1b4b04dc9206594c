//! Three nodes that know each other by a real etcd, which goes away and comes back.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, all_have, base_ns, insist};
use crate::support::{DataDir, Server};

/// Longest time until a node knows of others.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long etcd is away: longer than any lease.
const AWAY: Duration = Duration::from_secs(8);

/// Longer than a node waits for one that it has never seen.
const UNSEEN: Duration = Duration::from_secs(20);

/// A process of etcd, which keeps its data when it is dropped.
struct Etcd(Child);

impl Etcd {
    /// `None` if this machine has no etcd.
    fn start(folder: &DataDir, client: &str, peer: &str) -> Option<Etcd> {
        let started = Command::new("etcd")
            .arg("--data-dir")
            .arg(folder.path())
            .args(["--listen-client-urls", client, "--advertise-client-urls", client])
            .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match started {
            Ok(child) => Some(Etcd(child)),
            Err(error) => {
                let may_skip = std::env::var_os("CI").is_none_or(|ci| ci != "true");
                assert!(may_skip, "there is no etcd: {error}");
                println!("SKIPPED: this machine has no etcd: {error}");
                None
            }
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It has ended by itself, or ends now.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An address that nobody listens on.
fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    format!("http://{}", listener.local_addr().expect("an address"))
}

/// The names of the members that a node takes for alive, in order.
fn alive(server: &Server) -> Vec<String> {
    let headers = [("Accept", "application/json")];
    let listed = server.client().request("GET", "/memberlist", &headers, None).json();
    let members = listed["SortedMembers"].as_array().expect("members").iter();
    let alive = members.filter(|member| member["Standing"] != "dead");
    let mut names: Vec<String> =
        alive.map(|member| member["Name"].as_str().expect("a name").to_owned()).collect();
    names.sort_unstable();
    names
}

#[track_caller]
fn await_alive(server: &Server, expected: &[&str]) -> Duration {
    let begun = Instant::now();
    while alive(server) != expected {
        assert!(begun.elapsed() < PATIENCE, "{:?}", alive(server));
        thread::sleep(Duration::from_millis(50));
    }
    begun.elapsed()
}

#[test]
fn nodes_know_each_other_by_etcd() {
    let (folder, client, peer) = (DataDir::new(), free(), free());
    let Some(etcd) = Etcd::start(&folder, &client, &peer) else { return };
    let (cluster, base) = (Cluster::new(), base_ns());
    let flags = [
        "--common.storage.ring.store=etcd".to_owned(),
        // Nobody is at the first one.
        format!("--common.storage.ring.etcd.endpoints={}", free()),
        format!("--common.storage.ring.etcd.endpoints={client}"),
    ];
    let [first, second, third] = [1, 2, 3].map(|node| cluster.start_with(node, &flags));
    let all = ["node-1", "node-2", "node-3"];
    for node in [&first, &second, &third] {
        await_alive(node, &all);
    }
    for number in 0..3 {
        insist(&mut second.client(), base, number);
    }
    all_have(&[&first, &second, &third], base, 3);

    // Without etcd everything goes on.
    drop(etcd);
    let gone = Instant::now();
    insist(&mut third.client(), base, 3);
    while gone.elapsed() < AWAY {
        assert_eq!(alive(&first), all);
        thread::sleep(Duration::from_millis(200));
    }
    all_have(&[&first, &second, &third], base, 4);
    // A node that comes meanwhile takes part, and none is taken for dead for that.
    let fourth = cluster.start_with(4, &flags);
    thread::sleep(UNSEEN);
    insist(&mut fourth.client(), base, 4);
    all_have(&[&first, &second, &third, &fourth], base, 5);
    let etcd = Etcd::start(&folder, &client, &peer).expect("it was there");
    let back = Instant::now();
    await_alive(&first, &["node-1", "node-2", "node-3", "node-4"]);
    while back.elapsed() < AWAY {
        assert_eq!(alive(&first).len(), 4);
        thread::sleep(Duration::from_millis(200));
    }
    fourth.stop();
    await_alive(&third, &all);

    // Who dies and who leaves is missed.
    thread::sleep(Duration::from_secs(5));
    second.kill();
    println!("dead by etcd after {:?}", await_alive(&third, &["node-1", "node-3"]));
    insist(&mut third.client(), base, 5);
    all_have(&[&first, &third], base, 6);
    let log = first.stop();
    assert!(!log.contains("\"ERROR\"") && !log.contains("panicked"), "{log}");
    await_alive(&third, &["node-3"]);
    all_have(&[&third], base, 6);
    third.stop();
    drop(etcd);
}
