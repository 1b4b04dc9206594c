//! Health as probes and service managers see it: signals, messages to the manager, a socket that it
//! hands over, and files that are read again.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{DataDir, Server, page};

const BINARY: &str = env!("CARGO_BIN_EXE_logsvc");

/// The next message that says something about `key`.
fn message_with(socket: &UnixDatagram, key: &str) -> String {
    let mut buffer = [0; 4096];
    loop {
        let len = socket.recv(&mut buffer).unwrap_or_else(|e| panic!("nothing of {key}: {e}"));
        let text = String::from_utf8_lossy(&buffer[..len]).into_owned();
        if text.contains(key) {
            return text;
        }
    }
}

fn tells_the_manager(socket: &UnixDatagram, name: &str) {
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let folder = DataDir::new();
    let mut command = Command::new(BINARY);
    command.env("NOTIFY_SOCKET", name).env("WATCHDOG_USEC", "400000").stdin(Stdio::null());
    let server = Server::launch_by(command, "0", folder.path(), &["--cores", "2"]);
    message_with(socket, "EXTEND_TIMEOUT_USEC=");
    let ready = message_with(socket, "READY=1");
    assert!(ready.contains("STATUS=listening on 127.0.0.1:"), "{ready}");
    for _ in 0..3 {
        message_with(socket, "WATCHDOG=1");
    }
    server.signal(libc::SIGHUP);
    let reloading = message_with(socket, "RELOADING=1");
    assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
    let ready = message_with(socket, "READY=1");
    assert!(ready.contains("STATUS=the files were read again"), "{ready}");
    server.terminate();
    message_with(socket, "STOPPING=1");
    let (status, log) = server.wait();
    assert!(status.success(), "{log}");
    let last = log.lines().last().expect("a log");
    assert!(last.contains("\"stopped\""), "{last}");
}

#[test]
fn a_service_manager_hears_how_the_server_does() {
    // Not the data folder: a server refuses one with files of others.
    let folder = DataDir::new();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    tells_the_manager(&socket, path.to_str().expect("UTF-8"));
    // A name without a file.
    let name = format!("logsvc-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a name");
    let socket = UnixDatagram::bind_addr(&address).expect("a socket");
    tells_the_manager(&socket, &format!("@{name}"));
}

/// Stops one thread of a process while the others go on, until it is dropped.
struct Halted(libc::pid_t);

impl Halted {
    fn new(thread: libc::pid_t) -> Halted {
        let nothing = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: these requests read and write no memory of this process; an error is a result.
        let results = unsafe {
            let seized = libc::ptrace(libc::PTRACE_SEIZE, thread, nothing, nothing);
            (seized, libc::ptrace(libc::PTRACE_INTERRUPT, thread, nothing, nothing))
        };
        assert_eq!(results, (0, 0), "{}", std::io::Error::last_os_error());
        let mut status = 0;
        // SAFETY: `status` lives as long as the call, which writes to it.
        let waited = unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) };
        assert_eq!(waited, thread, "{}", std::io::Error::last_os_error());
        Halted(thread)
    }
}

impl Drop for Halted {
    fn drop(&mut self) {
        let nothing = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: as above. If the thread is gone, nothing happens.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.0, nothing, nothing) };
    }
}

/// Counts the signs of life of a time.
fn signs_of_life(socket: &UnixDatagram, time: Duration) -> usize {
    let ends = Instant::now() + time;
    let (mut count, mut buffer) = (0, [0; 4096]);
    loop {
        let left = ends.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return count;
        }
        socket.set_read_timeout(Some(left)).expect("a time");
        if let Ok(len) = socket.recv(&mut buffer) {
            count += usize::from(buffer[..len].starts_with(b"WATCHDOG=1"));
        }
    }
}

#[test]
fn a_core_that_hangs_silences_the_watchdog() {
    let notify = DataDir::new();
    let path = notify.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    let folder = DataDir::new();
    let mut command = Command::new(BINARY);
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "400000").stdin(Stdio::null());
    let server = Server::launch_by(command, "0", folder.path(), &["--cores", "2"]);
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    message_with(&socket, "READY=1");
    message_with(&socket, "WATCHDOG=1");
    let halted = Halted::new(server.thread("core-1"));
    // What was said before the halt, and for two intervals after it.
    signs_of_life(&socket, Duration::from_millis(600));
    assert_eq!(signs_of_life(&socket, Duration::from_secs(1)), 0, "core 1 hangs");
    drop(halted);
    socket.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    message_with(&socket, "WATCHDOG=1");
    server.stop();
}

/// A server with a listener of ours as its third descriptor.
fn with_socket(socket: OwnedFd, folder: &DataDir, args: &[&str]) -> Server {
    let mut command = Command::new("sh");
    let script = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" \"$@\"";
    command.args(["-c", script, BINARY]).stdin(Stdio::from(socket));
    Server::launch_by(command, "1", folder.path(), args)
}

#[test]
fn a_socket_that_is_handed_over_serves_on_all_cores() {
    for more in [&["--runtime.driver", "epoll"][..], &[]] {
        let folder = DataDir::new();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let expected = listener.local_addr().expect("an address").to_string();
        let fd = listener.try_clone().expect("a descriptor").into();
        let mut server = with_socket(fd, &folder, &[&["--cores", "2"], more].concat());
        assert_eq!(server.await_ready().expect("it starts"), expected);
        let mut clients: Vec<_> = (0..8).map(|_| server.client()).collect();
        for client in &mut clients {
            assert_eq!(client.get("/ready").expect(200), "ready\n");
        }
        server.stop();
        // The manager keeps the socket open for the next start.
        assert_eq!(listener.local_addr().expect("an address").to_string(), expected);
    }
}

#[test]
fn sockets_that_are_no_listeners_are_refused() {
    let folder = DataDir::new();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (status, log) = with_socket(socket.into(), &folder, &[]).wait();
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("no TCP listener (ListenStream=)"), "{log}");
}

#[test]
fn signals_that_mean_nothing_do_no_harm() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    for signal in [libc::SIGUSR1, libc::SIGUSR2, libc::SIGHUP, libc::SIGPIPE] {
        server.signal(signal);
    }
    let said = |log: &str| {
        log.contains("read certificates, accounts, limits and rules again").then_some(())
    };
    server.await_log(said).expect("it lives");
    assert_eq!(server.get("/health").expect(200), "OK\n");
    assert_eq!(server.metric("logsvc_reloads_total"), 1.0);
    // As GNU timeout does it.
    server.terminate();
    server.signal(libc::SIGINT);
    server.stop();
}

#[test]
fn a_bad_file_leaves_the_settings_in_force() {
    let folder = DataDir::new();
    let (config, limits) = (folder.path().join("c.yaml"), folder.path().join("limits.yaml"));
    let write = |path: &std::path::Path, text: &str| std::fs::write(path, text).expect("a file");
    let series = |n: u32| format!("overrides: {{fake: {{max_query_series: {n}}}}}\n");
    write(&config, "limits_config: {max_query_series: 5}\n");
    write(&limits, &series(6));
    let args = [
        format!("--config.file={}", config.display()),
        format!("--runtime-config.file={}", limits.display()),
        // Only when it is asked for.
        "--runtime-config.reload-period=1h".to_owned(),
    ];
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let server = Server::start(&folder.path().join("data"), &args);
    let mut client = server.client();
    let reload = || server.client().request("POST", "/-/reload", &[], None);
    let in_force = |n: u32| {
        let text = server.get("/config/tenant/v1/limits").expect(200);
        text.contains(&format!("\nmax_query_series: {n}\n"))
    };
    assert!(in_force(6));
    // A typo in either file: both stay as they are, and the answer has the place.
    write(&config, "limits_config: {max_query_serie: 5}\n");
    write(&limits, &series(7));
    let said = reload().expect(500);
    assert!(said.contains("max_query_serie: unknown key in line 1"), "{said}");
    assert!(in_force(6));
    assert_eq!(server.metric("logsvc_reload_last_successful"), 0.0);
    write(&config, "limits_config: {max_query_series: 5}\n");
    write(&limits, "overrides: {fake: {max_query_serie: 7}}\n");
    let said = reload().expect(500);
    assert!(said.contains("max_query_serie: unknown key in line 1"), "{said}");
    assert!(in_force(6));
    // Two files and two signals close to each other: the second file holds at the end.
    write(&limits, &series(8));
    server.signal(libc::SIGHUP);
    thread::sleep(Duration::from_millis(10));
    write(&limits, &series(9));
    server.signal(libc::SIGHUP);
    let begun = std::time::Instant::now();
    while !in_force(9) {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", server.log_text());
        thread::sleep(Duration::from_millis(10));
    }
    // A value that needs a restart is named.
    write(&config, "limits_config: {max_query_series: 4}\n");
    assert_eq!(reload().expect(200), "reloaded\n");
    assert_eq!(server.metric("logsvc_reload_last_successful"), 1.0);
    assert_eq!(client.get("/health").expect(200), "OK\n");
    let log = server.stop();
    assert!(log.contains("changed settings need a restart"), "{log}");
    assert!(log.contains("limits_config.max_query_series"), "{log}");
}

#[test]
fn the_commands_of_the_page_about_operating_work() {
    let folder = DataDir::new();
    let config = folder.path().join("logsvc.yaml");
    std::fs::write(&config, "limits_config:\n  max_line_size: 1MB\n").expect("written");
    let config = config.to_str().expect("a path of text");
    let data = folder.path().join("data");
    let server = Server::start(&data, &["--cores", "1", "--config.file", config]);
    let replaced = [
        ("http://127.0.0.1:3100", &*format!("http://{}", server.address())),
        ("/etc/logsvc/logsvc.yaml", config),
    ];
    page::run("operating.md", folder.path(), &replaced, 4);
    server.stop();
}
