//! A disk that is full: pushes are refused with a clear text, reads go on, and
//! once there is room again pushes succeed and entries are sealed without a restart.
//! Nothing that was acknowledged is lost. Heads are so small that the disk fills up
//! with segments, too.
//!
//! Needs a small file system of its own, and so the right to mount one. Without
//! it the tests say so and do nothing.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Client, DataDir, Server, body, entry, node, now_ns, query, stream};
use logsvc_testkit::Rng;

const SELECTOR: &str = r#"{app="full"}"#;

/// A file system in memory, unmounted when dropped.
struct SmallDisk(DataDir);

impl SmallDisk {
    fn mount() -> Option<SmallDisk> {
        let folder = DataDir::new();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64m", "logsvc-test"])
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

    /// Takes all the space that is left but `room_bytes`.
    fn fill_but(&self, room_bytes: u64) {
        self.fill();
        let path = self.path().join("ballast");
        let ballast = std::fs::OpenOptions::new().write(true).open(path).expect("it is there");
        let len_bytes = ballast.metadata().expect("it is there").len();
        ballast.set_len(len_bytes - room_bytes).expect("a file can be cut");
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

/// Pushes lines one by one and keeps the acknowledged ones.
struct Pusher {
    client: Client,
    start_ns: i64,
    next_ns: i64,
    random: Rng,
    acked: Vec<(i64, String)>,
}

impl Pusher {
    fn new(server: &Server) -> Pusher {
        let start_ns = now_ns();
        Pusher {
            client: server.client(),
            start_ns,
            next_ns: start_ns,
            random: Rng::new(1),
            acked: Vec::new(),
        }
    }

    /// Pushes one line of 20 kB, which does not compress well; returns the answer's
    /// status and text.
    fn push(&mut self) -> (u16, String) {
        self.next_ns += 1;
        let mut line = format!("{} ", self.next_ns - self.start_ns);
        while line.len() < 20_000 {
            line += &format!("{:016x}", self.random.next_u64());
        }
        let streams = [stream(&[("app", "full")], vec![entry(self.next_ns, line.as_str())])];
        let reply = self.client.push_protobuf(&body::protobuf(&streams));
        if reply.status == 204 {
            self.acked.push((self.next_ns, line));
        }
        (reply.status, reply.text())
    }

    /// Pushes until the disk is full: sealing may free some space for a
    /// while.
    fn push_until_full(&mut self, when: &str) {
        let begun = Instant::now();
        let mut refused = 0;
        while refused < 20 {
            match self.push() {
                (204, _) => {
                    refused = 0;
                    assert!(begun.elapsed() < Duration::from_secs(30), "{when}: never full");
                }
                (503, text) => {
                    let clear = text.contains("No space left on device")
                        || text.contains("the write-ahead log cannot be written");
                    assert!(clear && text.ends_with('\n'), "{when}: {text:?}");
                    refused += 1;
                }
                (status, text) => panic!("{when}: {status} {text}"),
            }
        }
    }

    /// Pushes until it is possible again, and more.
    fn push_again(&mut self, when: &str) {
        let begun = Instant::now();
        while self.push().0 != 204 {
            assert!(begun.elapsed() < Duration::from_secs(20), "{when}: no recovery");
        }
        for _ in 0..20 {
            assert_eq!(self.push().0, 204, "{when}");
        }
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

/// Waits until more has been sealed than before.
fn await_sealing(server: &Server, pusher: &mut Pusher, when: &str) {
    let sealed = server.metric("logsvc_seals_total");
    let begun = Instant::now();
    while server.metric("logsvc_seals_total") <= sealed {
        assert_eq!(pusher.push().0, 204, "{when}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{when}: nothing is sealed");
        // Pushed without a pause, entries would fill the disk before the next attempt.
        thread::sleep(Duration::from_millis(20));
    }
}

fn fill_and_free(runtime: &[&str]) {
    let Some(disk) = SmallDisk::mount() else { return };
    let data = disk.path().join("data");
    let heads = ["--storage.head-max-bytes", "128KB"];
    let server = Server::start(&data, &[&["--cores", "1"], &heads[..], runtime].concat());
    let mut pusher = Pusher::new(&server);
    for _ in 0..20 {
        assert_eq!(pusher.push().0, 204);
    }
    for round in 0..4 {
        let when = format!("round {round}");
        // Fills the disk at once, or by pushes.
        match round % 2 {
            0 => disk.fill(),
            _ => disk.fill_but(1 << 20),
        }
        pusher.push_until_full(&when);
        pusher.check();
        let reason = server.get("/ready").expect(503);
        assert!(reason.contains("pushes cannot be stored"), "{when}: {reason}");
        assert!(
            reason.contains("retention.max_disk_percent") || reason.contains("data_dir"),
            "{reason}"
        );
        assert_eq!(server.get("/health").expect(200), "OK\n", "alive all the same");
        disk.make_room();
        pusher.push_again(&when);
        assert_eq!(server.get("/ready").expect(200), "ready\n", "{when}");
        await_sealing(&server, &mut pusher, &when);
        pusher.check();
    }
    assert!(server.metric("logsvc_segments") > 0.0);
    // Killed while full. The kill leaves the bytes of the last attempts.
    disk.fill_but(300 << 10);
    pusher.push_until_full("before the kill");
    server.kill();
    disk.make_room();
    let server = Server::start(&data, &[&["--cores", "2"], &heads[..]].concat());
    pusher.client = server.client();
    pusher.check();
    assert_eq!(pusher.push().0, 204);
    pusher.check();
    assert_eq!(server.metric("logsvc_recovery_damaged_bytes"), 0.0);
    assert_eq!(server.metric("logsvc_damaged_segments"), 0.0);
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
    let mut pusher = Pusher::new(&server);
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
