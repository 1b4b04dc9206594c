//! Kills the server again and again under load, and insists that every
//! acknowledged line is there after each start: once, and in order.
//!
//! A push that was not answered is in doubt: each of its lines may be there, or may not. Lines that
//! a start has brought to light must stay, and lines that it has not must never come back; clients
//! that send such a push again must not make duplicates. The number of shards, the backend, the
//! driver, the size of log files and of heads change from start to start; heads are mostly so small
//! that kills hit sealing, and the merging of the many small segments that it leaves.

mod ledger;
mod writer;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::support::random::seed;
use crate::support::{DataDir, Server, node};
use logsvc_testkit::Rng;
use writer::Writer;

const WRITERS: u64 = 5;

/// How the server runs from one start to the next kill.
#[derive(Debug)]
struct Setup {
    cores: &'static str,
    runtime: &'static [&'static str],
    file_max: &'static str,
    head_max: &'static str,
}

impl Setup {
    fn choose(random: &mut Rng, runtimes: &[&'static [&'static str]]) -> Setup {
        let cores = *random.pick(&["1", "2", "4"]);
        let runtime = *random.pick(runtimes);
        let file_max = *random.pick(&["1MB", "256MB"]);
        let head_max = *random.pick(&["2KB", "8KB", "32KB", "64MB"]);
        Setup { cores, runtime, file_max, head_max }
    }

    fn args(&self) -> Vec<&'static str> {
        let common = ["--cores", self.cores, "--wal.file-max-bytes", self.file_max];
        let heads = ["--storage.head-max-bytes", self.head_max];
        [&common[..], &heads, self.runtime].concat()
    }
}

fn runtimes() -> Vec<&'static [&'static str]> {
    const MONOIO: [&[&str]; 2] =
        [&["--runtime", "monoio"], &["--runtime", "monoio", "--runtime.driver", "epoll"]];
    const GLOMMIO: &[&str] = &["--runtime", "glommio"];
    match std::env::var("LOGSVC_RUNTIME").as_deref() {
        Ok("monoio") => MONOIO.to_vec(),
        Ok("glommio") => vec![GLOMMIO],
        Ok(other) => panic!("LOGSVC_RUNTIME: {other} is neither monoio nor glommio"),
        Err(_) if node::glommio_works() => [&MONOIO[..], &[GLOMMIO, GLOMMIO]].concat(),
        Err(_) => MONOIO.to_vec(),
    }
}

#[test]
fn acknowledged_lines_survive_kills() {
    let kills: u32 = match std::env::var("LOGSVC_KILLS") {
        Ok(text) => text.parse().expect("LOGSVC_KILLS is a number"),
        Err(_) => 12,
    };
    let mut random = Rng::new(seed());
    let runtimes = runtimes();
    let folder = DataDir::new();
    let mut writers: Vec<Writer> =
        (0..WRITERS).map(|number| Writer::new(number, random.next_u64())).collect();
    let mut segments_most = 0;
    for round in 1..=kills {
        let setup = Setup::choose(&mut random, &runtimes);
        if random.one_in(4) {
            // A start that does not get far.
            let server = Server::launch(folder.path(), &setup.args());
            thread::sleep(Duration::from_micros(random.below(60_000)));
            server.kill();
        }
        let server = Server::start(folder.path(), &setup.args());
        check(&server, &mut writers, &format!("start {round}, {setup:?}"));
        assert_eq!(server.metric("logsvc_damaged_segments"), 0.0);
        segments_most = segments_most.max(server.metric("logsvc_segments") as u64);
        let acks = 20 + random.below(180);
        let delay = Duration::from_micros(random.below(3_000));
        let orderly = random.one_in(8);
        load_and_end(server, &mut writers, acks, delay, orderly);
    }
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let lines = check(&server, &mut writers, "the last start");
    eprintln!("{kills} kills, {lines} lines, up to {segments_most} segments");
    assert!(kills < 5 || segments_most > 0, "nothing was sealed");
    assert_eq!(server.metric("logsvc_recovery_damaged_bytes"), 0.0);
    server.stop();
}

/// Compares each stream with its ledger; returns the number of lines.
fn check(server: &Server, writers: &mut [Writer], when: &str) -> usize {
    let mut client = server.client();
    writers.iter_mut().map(|writer| writer.check(&mut client, when)).sum()
}

/// Pushes from all writers until `acks` pushes are acknowledged, and ends the
/// server in the middle of the rest.
fn load_and_end(server: Server, writers: &mut [Writer], acks: u64, delay: Duration, orderly: bool) {
    let address = server.address().to_owned();
    let ending = AtomicBool::new(false);
    let (acked, all_acked) = mpsc::channel();
    thread::scope(|scope| {
        for writer in writers {
            let (acked, address, ending) = (acked.clone(), address.as_str(), &ending);
            scope.spawn(move || writer.push_until_the_end(address, &acked, ending));
        }
        drop(acked);
        for count in 0..acks {
            let waited = all_acked.recv_timeout(Duration::from_secs(30));
            assert!(waited.is_ok(), "only {count} of {acks} pushes are acknowledged: {waited:?}");
        }
        thread::sleep(delay);
        ending.store(true, Ordering::SeqCst);
        if orderly {
            server.stop();
        } else {
            server.kill();
        }
    });
}
