//! A disk that is full: pushes are refused with a clear text, reads go on, and
//! once there is room again pushes succeed without a restart. Nothing that was
//! acknowledged is lost.
//!
//! Needs a small file system of its own, and so the right to mount one. Without
//! it the tests say so and do nothing.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::{Client, DataDir, Server, body, entry, node, now_ns, query, stream};

const SELECTOR: &str = r#"{app="full"}"#;

/// A file system in memory, unmounted when dropped.
struct SmallDisk(DataDir);

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let folder = DataDir::new();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=24m", "logsvc-test"])
            .arg(folder.path())
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(SmallDisk(folder)),
            other => {
                eprintln!("skipped, no file system can be mounted: {other:?}");
                None
            }
        }
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Takes all the space that is left.
    fn fill(&self) {
        let mut ballast = std::fs::File::create(self.path().join("ballast")).expect("a file");
        let mut len = 1 << 20;
        while len > 0 {
            if ballast.write_all(&vec![b'x'; len]).is_err() {
                len /= 2;
            }
        }
    }

    fn make_room(&self) {
        std::fs::remove_file(self.path().join("ballast")).expect("the ballast is there");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // At worst it stays until the machine restarts.
        _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Pushes lines one by one and keeps those that were acknowledged.
struct Pusher {
    client: Client,
    start_ns: i64,
    next_ns: i64,
    acked: Vec<(i64, String)>,
}

impl Pusher {
    /// Pushes one line of 20 kB; returns the answer's status and text.
    fn push(&mut self) -> (u16, String) {
        self.next_ns += 1;
        let line = format!("{} {}", self.next_ns - self.start_ns, "x".repeat(20_000));
        let streams = [stream(&[("app", "full")], vec![entry(self.next_ns, line.as_str())])];
        let reply = self.client.push_protobuf(&body::protobuf(&streams));
        if reply.status == 204 {
            self.acked.push((self.next_ns, line));
        }
        (reply.status, reply.text())
    }

    fn check(&mut self) {
        let end_ns = self.next_ns + 1;
        let found = query::all_lines(&mut self.client, SELECTOR, self.start_ns, end_ns);
        let numbers = |lines: &[(i64, String)]| -> Vec<i64> {
            lines.iter().map(|(time_ns, _)| time_ns - self.start_ns).collect()
        };
        assert_eq!(numbers(&found), numbers(&self.acked));
        assert!(found == self.acked, "a line has changed");
    }
}

fn fill_and_free(runtime: &[&str]) {
    let Some(disk) = SmallDisk::mount() else { return };
    let data = disk.path().join("data");
    let server = Server::start(&data, &[&["--cores", "1"], runtime].concat());
    let start_ns = now_ns();
    let mut pusher =
        Pusher { client: server.client(), start_ns, next_ns: start_ns, acked: Vec::new() };
    for _ in 0..20 {
        assert_eq!(pusher.push().0, 204);
    }
    for round in 0..3 {
        disk.fill();
        // What the log's file has room for already may still go in.
        let begun = Instant::now();
        let text = loop {
            match pusher.push() {
                (204, _) => assert!(begun.elapsed() < Duration::from_secs(20), "never full"),
                (503, text) => break text,
                (status, text) => panic!("round {round}: {status} {text}"),
            }
        };
        let clear = text.contains("No space left on device")
            || text.contains("the write-ahead log cannot be written");
        assert!(clear && text.ends_with('\n'), "round {round}: {text:?}");
        for _ in 0..20 {
            let (status, text) = pusher.push();
            assert_eq!(status, 503, "round {round}: {text}");
        }
        pusher.check();
        assert_eq!(server.get("/ready").expect(200), "ready\n");
        disk.make_room();
        let begun = Instant::now();
        while pusher.push().0 != 204 {
            assert!(begun.elapsed() < Duration::from_secs(20), "round {round}: no recovery");
        }
        for _ in 0..20 {
            assert_eq!(pusher.push().0, 204, "round {round}");
        }
        pusher.check();
    }
    // Killed while full, which leaves whatever the last attempts wrote.
    disk.fill();
    while pusher.push().0 == 204 {}
    server.kill();
    disk.make_room();
    let server = Server::start(&data, &["--cores", "2"]);
    pusher.client = server.client();
    pusher.check();
    assert_eq!(pusher.push().0, 204);
    pusher.check();
    assert_eq!(server.metric("logsvc_recovery_damaged_bytes"), 0.0);
    server.stop();
}

#[test]
fn a_full_disk_refuses_pushes_until_there_is_room() {
    fill_and_free(&["--runtime", "monoio"]);
    fill_and_free(&["--runtime", "monoio", "--runtime.driver", "epoll"]);
    if node::glommio_works() {
        fill_and_free(&["--runtime", "glommio"]);
    }
}

#[test]
fn a_start_on_a_full_disk_says_so_or_serves_reads() {
    let Some(disk) = SmallDisk::mount() else { return };
    let data = disk.path().join("data");
    let server = Server::start(&data, &["--cores", "1"]);
    let start_ns = now_ns();
    let mut pusher =
        Pusher { client: server.client(), start_ns, next_ns: start_ns, acked: Vec::new() };
    for _ in 0..20 {
        assert_eq!(pusher.push().0, 204);
    }
    server.kill();
    disk.fill();
    let server = Server::start(&data, &["--cores", "2"]);
    pusher.client = server.client();
    pusher.check();
    assert_eq!(pusher.push().0, 503);
    disk.make_room();
    let begun = Instant::now();
    while pusher.push().0 != 204 {
        assert!(begun.elapsed() < Duration::from_secs(20), "no recovery");
    }
    pusher.check();
    server.stop();
}
