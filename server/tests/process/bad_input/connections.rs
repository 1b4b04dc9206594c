//! Many connections, and connections that do nothing.

use std::io::{self, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::Victim;
use crate::support::client::{Reply, connect, read_reply};
use crate::support::{body, entry, now_ns, query, stream};

const IDLE_CONNECTIONS: u64 = 2000;

/// Most memory of an idle connection.
const IDLE_CONNECTION_MAX_BYTES: u64 = 16 << 10;

/// Most memory while 200 clients read none of 20 MB each. Finished answers are counted in full, but
/// up to 16 running queries with an eighth of the memory that one may hold, so it is more than
/// [`super::PEAK_MAX_BYTES`].
const UNREAD_PEAK_MAX_BYTES: u64 = 640 << 20;

/// Lets this process, and the servers that it starts, open as many files as the
/// system permits; returns how many that is.
fn raise_file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable and of the type that the call fills.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    assert_eq!(got, 0, "the limit of open files can be read");
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: `limit` is readable and of the type that the call takes.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    assert_eq!(set, 0, "the soft limit can be raised to the hard one");
    limit.rlim_max
}

#[test]
fn pushes_go_on_beside_thousands_of_idle_connections() {
    let count = match raise_file_limit() {
        limit if limit >= IDLE_CONNECTIONS + 1000 => IDLE_CONNECTIONS,
        limit => {
            eprintln!("only {limit} files may be open, so fewer connections are made");
            limit / 4
        }
    };
    let victim = Victim::new(&["--cores", "2"]);
    let before_bytes = victim.server.memory_bytes("VmRSS");
    let mut client = victim.server.client();
    let now_ns = now_ns();
    let mut idle = Vec::new();
    for number in 0..count {
        let mut connection = connect(victim.server.address()).expect("a connection");
        if number % 2 == 0 {
            // Half of them have been used before.
            let request = b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n";
            connection.write_all(request).expect("the server reads");
            let reply = read_reply(&mut BufReader::new(&connection), false).expect("an answer");
            reply.expect(200);
        }
        idle.push(connection);
        if number % 20 == 0 {
            let line = entry(now_ns + number as i64, format!("line {number}"));
            client.push(&[stream(&[("app", "idle")], vec![line])]);
        }
    }
    assert_eq!(victim.server.metric("loki_tcp_connections"), count as f64 + 2.0);
    let grown_bytes = victim.server.memory_bytes("VmRSS").saturating_sub(before_bytes);
    eprintln!("{count} idle connections: {} bytes each", grown_bytes / count);
    assert!(grown_bytes < count * IDLE_CONNECTION_MAX_BYTES, "{grown_bytes} bytes");
    // Every one of them still works.
    for connection in idle.iter_mut().step_by(50) {
        let request = b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n";
        connection.write_all(request).expect("the server reads");
        read_reply(&mut BufReader::new(&*connection), false).expect("an answer").expect(200);
    }
    let end_ns = now_ns + count as i64;
    let stored = query::all_lines(&mut client, r#"{app="idle"}"#, now_ns, end_ns);
    assert_eq!(stored.len() as u64, count.div_ceil(20));
    drop(idle);
    let begun = Instant::now();
    while victim.server.metric("loki_tcp_connections") > 2.0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "connections that are gone are counted");
    }
    victim.survives();
}

/// Waits until the server closes; returns all bytes that it sent before.
fn read_until_closed(mut connection: TcpStream) -> String {
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).expect("the server closes in time");
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn heads_that_do_not_end_and_idle_connections_are_closed() {
    let timeouts = ["--server.http-read-timeout", "1s", "--server.http-idle-timeout", "300ms"];
    let victim = Victim::new(&[&["--cores", "2"], &timeouts[..]].concat());
    let open = |bytes: &[u8]| {
        let mut connection = connect(victim.server.address()).expect("a connection");
        connection.write_all(bytes).expect("the server reads");
        connection
    };
    let silent = open(b"");
    let partial = open(b"GET /ready HTTP/1.1\r\nHost: x\r\nA: ");
    let used = open(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n");
    let answer = read_until_closed(used);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("ready\n"), "{answer}");
    // One more header now and then does not keep a head alive.
    let mut dripping = open(b"GET /ready HTTP/1.1\r\nHost: x\r\n");
    dripping.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
    let begun = Instant::now();
    let mut answer = Vec::new();
    loop {
        assert!(begun.elapsed() < Duration::from_secs(20), "a head of twenty seconds");
        _ = dripping.write_all(b"A: b\r\n");
        let mut buffer = [0; 4096];
        match dripping.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            // Bytes that were sent after the answer reset the connection.
            Err(_) => break,
        }
    }
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer:?}");
    assert!(read_until_closed(partial).starts_with("HTTP/1.1 408 "));
    assert_eq!(read_until_closed(silent), "");
    victim.survives();
}

#[test]
fn clients_that_leave_cost_nothing() {
    let victim = Victim::new(&["--cores", "2"]);
    let now_ns = now_ns();
    let entries = (0..4000).map(|number| entry(now_ns - number, format!("line {number}")));
    victim.server.client().push(&[stream(&[("app", "gone")], entries.collect())]);
    let params = [("query", r#"{app="gone"} |~ "l.*e" != "x""#), ("limit", "5000")];
    let query = query::target("/loki/api/v1/query_range", &params);
    let push = body::json(&[stream(&[("app", "gone")], vec![entry(now_ns, "half")])]);
    let push_half = format!(
        "POST /loki/api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{push}",
        push.len() + 1
    );
    let query = format!("GET {query} HTTP/1.1\r\nHost: x\r\n\r\n");
    for number in 0..200 {
        let mut connection = connect(victim.server.address()).expect("a connection");
        let request = if number % 2 == 0 { &query } else { &push_half };
        connection.write_all(request.as_bytes()).expect("the server reads");
        drop(connection);
    }
    assert_eq!(victim.stored(), 4000.0);
    let begun = Instant::now();
    while victim.server.metric("loki_tcp_connections") > 1.0 {
        assert!(begun.elapsed() < Duration::from_secs(20), "connections that are gone are counted");
    }
    victim.survives();
}

#[test]
fn many_connections_that_push_at_once_are_all_answered() {
    let victim = Victim::new(&["--cores", "2"]);
    let now_ns = now_ns();
    let statuses = Mutex::new(std::collections::BTreeMap::new());
    std::thread::scope(|scope| {
        for thread in 0..16 {
            let (victim, statuses) = (&victim, &statuses);
            scope.spawn(move || {
                let mut client = victim.server.client();
                for number in 0..20 {
                    // Large ones, so that the budget for bodies is used up.
                    let line = "x".repeat(100_000);
                    let time_ns = now_ns + thread * 1_000_000 + number;
                    let entries = (0..10).map(|n| entry(time_ns, format!("{n}{line}"))).collect();
                    let labels = [("app", "crowd"), ("thread", &*thread.to_string())];
                    let json = body::json(&[stream(&labels, entries)]);
                    let reply = client.push_json(json.as_bytes());
                    if reply.status == 429 {
                        assert!(reply.header("retry-after").is_some(), "{}", reply.text());
                    }
                    *statuses.lock().expect("no holder panics").entry(reply.status).or_insert(0) +=
                        1;
                }
            });
        }
    });
    let statuses = statuses.into_inner().expect("no holder panics");
    eprintln!("answers: {statuses:?}");
    // 320 MB of lines do not fit into memory; the rest is refused politely.
    assert!(statuses.keys().all(|status| [204, 429].contains(status)), "{statuses:?}");
    assert!(statuses[&204] > 0);
    assert_eq!(victim.stored(), f64::from(statuses[&204] * 10));
    let peak_bytes = victim.server.memory_bytes("VmHWM");
    assert!(peak_bytes < super::PEAK_MAX_BYTES, "the memory reached {peak_bytes} bytes");
    let ready = victim.server.get("/ready");
    ready.expect(200);
}

#[test]
fn clients_that_do_not_read_their_answers_are_bounded() {
    let timeouts = ["--server.http-write-timeout", "1s", "--server.http-idle-timeout", "1s"];
    let victim = Victim::new(&[&["--cores", "2"], &timeouts[..]].concat());
    let now_ns = now_ns();
    let line = "x".repeat(200_000);
    for number in 0..100 {
        let labels = [("app", "slow"), ("half", if number % 2 == 0 { "a" } else { "b" })];
        let entries = vec![entry(now_ns + number, format!("{number}{line}"))];
        victim.server.client().push(&[stream(&labels, entries)]);
    }
    let end = (now_ns + 100).to_string();
    let params = [("query", r#"{app="slow"}"#), ("end", &end)];
    let target = query::target("/loki/api/v1/query_range", &params);
    let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
    // Each answer has 20 MB.
    let clients: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut connection = connect(victim.server.address()).expect("a connection");
            connection.write_all(request.as_bytes()).expect("the server reads");
            connection
        })
        .collect();
    // Each connection is closed after about the write timeout and the time that the slowest
    // permitted rate has for one piece; connections with a refusal are idle then.
    let begun = Instant::now();
    while victim.server.metric("loki_tcp_connections") > 1.0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "clients that do not read are kept");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(clients);
    victim.survives_with(UNREAD_PEAK_MAX_BYTES);
}

/// Ten thousand, or as many as the limit of open files lets be, since both ends of each
/// connection are on this machine.
#[test]
fn ten_thousand_connections_fit() {
    let count = 10_000.min((raise_file_limit() / 4) * 3);
    let limit = ["--server.http-conn-limit", "12000"];
    let victim = Victim::new(&[&["--cores", "2"], &limit[..]].concat());
    let before_bytes = victim.server.memory_bytes("VmRSS");
    let request = b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n";
    let open = |bytes: &[u8]| {
        let mut connection = connect(victim.server.address()).expect("a connection");
        connection.write_all(bytes).expect("the server reads");
        connection
    };
    let mut idle = Vec::new();
    for _ in 0..count * 4 / 5 {
        let connection = open(request);
        read_reply(&mut BufReader::new(&connection), false).expect("an answer").expect(200);
        idle.push(connection);
    }
    let used = idle.len();
    // The rest says nothing, or half of a head; they have 10 seconds.
    while (idle.len() as u64) < count {
        idle.push(open(if idle.len() % 2 == 0 { b"" } else { b"GET /ready HTTP/1.1\r\nHo" }));
    }
    let open_count = victim.server.metric("loki_tcp_connections");
    assert!(open_count > used as f64, "{open_count} connections");
    let grown_bytes = victim.server.memory_bytes("VmRSS").saturating_sub(before_bytes);
    eprintln!("{open_count} of {count} connections: {} bytes each", grown_bytes / count);
    assert!(grown_bytes < count * IDLE_CONNECTION_MAX_BYTES, "{grown_bytes} bytes");
    for connection in idle[..used].iter_mut().step_by(100) {
        connection.write_all(request).expect("the server reads");
        read_reply(&mut BufReader::new(&*connection), false).expect("an answer").expect(200);
    }
    drop(idle);
    victim.survives();
}

#[test]
fn connections_over_the_limit_are_told() {
    let victim = Victim::new(&["--cores", "2", "--server.http-conn-limit", "20"]);
    let mut open: Vec<TcpStream> = Vec::new();
    // An idle connection in each place; which cores they go to does not matter.
    for _ in 0..20 {
        let mut connection = connect(victim.server.address()).expect("a connection");
        connection.write_all(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n").expect("it reads");
        read_reply(&mut BufReader::new(&connection), false).expect("an answer").expect(200);
        open.push(connection);
    }
    for _ in 0..100 {
        let reply = victim.server.get("/ready");
        assert_eq!(reply.expect(503), "too many connections\n");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    // A closed connection makes room for another.
    open.truncate(19);
    let begun = Instant::now();
    while victim.server.get("/ready").status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(20), "there is no room again");
    }
    drop(open);
    while victim.server.client().get("/metrics").status != 200 {
        assert!(begun.elapsed() < Duration::from_secs(20), "there is no room again");
    }
    assert!(victim.server.metric("logsvc_connections_refused_total") >= 100.0);
    victim.survives();
}

/// Most connections that are served without descriptors: as many as the server may still open files.
const SERVED_MAX: usize = 20;

fn ask_readiness(connection: &mut TcpStream) -> Reply {
    connection.write_all(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n").expect("a request");
    read_reply(&mut BufReader::new(&*connection), false).expect("an answer")
}

/// Most clients that say nothing and wait for an answer.
const SILENT_MAX: usize = 8;

/// Whether the server has said something to a client that says nothing. Waits for a moment.
fn is_told(connection: &TcpStream) -> bool {
    let before = connection.read_timeout().expect("a timeout");
    connection.set_read_timeout(Some(Duration::from_millis(10))).expect("a timeout");
    let peeked = connection.peek(&mut [0]);
    connection.set_read_timeout(before).expect("a timeout");
    let is_silence = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
    };
    !peeked.as_ref().is_err_and(is_silence)
}

/// Without descriptors connections are told so, with the few that are kept for this; the
/// server does not try all the time.
fn outlasts_a_lack_of_descriptors(args: &[&str]) {
    let victim = Victim::new(&[args, &["--server.http-conn-limit", "5000"]].concat());
    victim.server.get("/ready").expect(200);
    let settled = |log: &str| log.contains("loaded the rule groups").then_some(());
    victim.server.await_log(settled).expect("the server runs");
    victim.server.limit_open_files(20);
    let connections: Vec<TcpStream> =
        (0..80).map(|_| connect(victim.server.address()).expect("the kernel accepts")).collect();
    let failed = |log: &str| log.contains("accept failed").then_some(());
    victim.server.await_log(failed).expect("the server runs");
    // What the start has let go of makes room for a few. The ruler closes its files a moment later
    // than it logs its groups, so a few are served between refusals, too.
    let mut served = Vec::new();
    loop {
        let mut connection = connect(victim.server.address()).expect("the kernel accepts");
        let reply = ask_readiness(&mut connection);
        if reply.status == 503 {
            break;
        }
        reply.expect(200);
        served.push(connection);
        assert!(served.len() < SERVED_MAX, "there is room for all");
    }
    // Also if connections come one after the other, and if clients keep refused connections open.
    // Half of the clients say nothing, and are told all the same; such a one that is served stays
    // among those that wait.
    let begun = Instant::now();
    let (mut asked, mut told, mut silent) = (Vec::new(), Vec::new(), Vec::new());
    while asked.len() < 20 || told.len() < 20 {
        if asked.len() < 20 {
            let mut connection = connect(victim.server.address()).expect("the kernel accepts");
            let reply = ask_readiness(&mut connection);
            if reply.status == 200 {
                served.push(connection);
            } else {
                assert_eq!(reply.expect(503), "too many connections\n");
                asked.push(connection);
            }
        }
        if silent.len() < SILENT_MAX {
            silent.push(connect(victim.server.address()).expect("the kernel accepts"));
        }
        for connection in silent.extract_if(.., |connection| is_told(connection)) {
            let reply = read_reply(&mut BufReader::new(&connection), false).expect("an answer");
            assert_eq!(reply.expect(503), "too many connections\n");
            told.push(connection);
        }
        assert!(served.len() + silent.len() < SERVED_MAX, "there is room for all");
        let refused = (asked.len(), told.len());
        assert!(begun.elapsed() < Duration::from_secs(8), "{refused:?} are refused");
    }
    // Later the idle ones make room.
    drop((asked, told, silent));
    let before = victim.server.cpu_ticks();
    std::thread::sleep(Duration::from_secs(2));
    let ticks = victim.server.cpu_ticks() - before;
    assert!(ticks < 60, "{ticks} ticks of 10 ms within 2 seconds");
    drop((connections, served));
    let begun = Instant::now();
    let mut client = victim.server.client();
    while client.try_request("GET", "/ready", &[], None).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing is accepted any more");
        client = victim.server.client();
    }
    drop(client);
    // The other core may still be taking over connections that their clients have closed. Then
    // there is no descriptor for the log file of a shard, and clients are told to come again.
    let of_all_shards = (0..16).map(|number| {
        stream(&[("app", &format!("again-{number}"))], vec![entry(now_ns(), "again")])
    });
    let push = body::json(&of_all_shards.collect::<Vec<_>>());
    loop {
        let reply = victim.server.client().push_json(push.as_bytes());
        if reply.status == 204 {
            break;
        }
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert!(begun.elapsed() < Duration::from_secs(20), "no push is taken any more");
    }
    victim.survives();
}

#[test]
fn a_lack_of_descriptors_passes_on_io_uring() {
    outlasts_a_lack_of_descriptors(&["--cores", "2"]);
}

#[test]
fn a_lack_of_descriptors_passes_on_epoll() {
    outlasts_a_lack_of_descriptors(&["--cores", "2", "--runtime.driver", "epoll"]);
}

#[test]
fn a_lack_of_descriptors_passes_on_glommio() {
    if crate::support::node::glommio_works() {
        outlasts_a_lack_of_descriptors(&["--cores", "1", "--runtime", "glommio"]);
    }
}

/// Slower than the slowest rate that is served, but never silent.
#[test]
fn bodies_and_readers_that_drip_are_cut_off() {
    let timeouts = ["--server.http-read-timeout", "1s", "--server.http-write-timeout", "1s"];
    // The part that fits into the socket's buffers was sent, and its connection is idle.
    let idle = ["--server.http-idle-timeout", "1s"];
    let victim = Victim::new(&[&["--cores", "2"], &timeouts[..], &idle].concat());
    let now_ns = now_ns();
    let line = "x".repeat(200_000);
    for number in 0..100 {
        let entries = vec![entry(now_ns + number, format!("{number}{line}"))];
        victim.server.client().push(&[stream(&[("app", "drip")], entries)]);
    }
    let before = victim.stored();
    let end = (now_ns + 100).to_string();
    let target =
        query::target("/loki/api/v1/query_range", &[("query", "{app=\"drip\"}"), ("end", &end)]);
    let read = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
    let push = "POST /loki/api/v1/push HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n\
                Content-Length: 5000000\r\n\r\n{\"streams\":["
        .to_owned();
    let mut clients: Vec<(bool, TcpStream)> = (0..40)
        .map(|number| {
            let is_reader = number % 2 == 0;
            let mut connection = connect(victim.server.address()).expect("a connection");
            let request = if is_reader { &read } else { &push };
            connection.write_all(request.as_bytes()).expect("the server reads");
            connection.set_read_timeout(Some(Duration::from_millis(1))).expect("a timeout");
            (is_reader, connection)
        })
        .collect();
    let begun = Instant::now();
    let mut refused = 0;
    while victim.server.metric("loki_tcp_connections") > 1.0 {
        assert!(begun.elapsed() < Duration::from_secs(30), "clients that drip are kept");
        clients.retain_mut(|(is_reader, connection)| {
            let mut buffer = [0; 100];
            if *is_reader {
                return !matches!(connection.read(&mut buffer), Ok(0));
            }
            let sent = connection.write_all(b" ").is_ok();
            match connection.read(&mut buffer) {
                Ok(count) if count > 0 => {
                    assert!(buffer.starts_with(b"HTTP/1.1 408 "));
                    refused += 1;
                    false
                }
                Ok(_) => false,
                Err(_) => sent,
            }
        });
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(refused > 0, "no body was refused");
    assert_eq!(victim.stored(), before);
    victim.survives_with(UNREAD_PEAK_MAX_BYTES);
}
