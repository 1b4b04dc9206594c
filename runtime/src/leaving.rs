//! Resources that a killed process can hold for a moment longer: its address, and the lock of
//! its data folder.
//!
//! The kernel takes down the rings of a process, and their listeners, a moment after the process
//! has ended, and it closes files when the last thread ends. A process that starts again at once
//! waits for that. It must not wait for a process that lives.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use crate::{Latch, clock};

/// The longest wait for an address or a lock that no living process seems to hold.
pub const LEAVING_PATIENCE: Duration = Duration::from_secs(5);

/// How often it is tried meanwhile.
pub const LEAVING_INTERVAL: Duration = Duration::from_millis(20);

/// How long a listener that lives takes to accept a connection, and to answer, at most.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);
const ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns when the address is free for a listener that does not share its port. Waits for an
/// address that is taken although no process answers on it, and logs that, until
/// [`LEAVING_PATIENCE`] is over or `stop` is triggered. Blocks the thread: to be called before
/// there are cores.
///
/// # Errors
/// A process answers on the address; or the address is still taken at the end; or it cannot be had
/// for another reason.
#[expect(clippy::disallowed_methods, reason = "there are no cores yet that it could block")]
pub fn await_free_address(address: SocketAddr, stop: &Latch) -> io::Result<()> {
    let deadline = clock::now().after(LEAVING_PATIENCE);
    let mut has_waited = false;
    loop {
        let error = match TcpListener::bind(address) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        let is_over = clock::has_passed(deadline) || stop.is_triggered();
        if error.kind() != io::ErrorKind::AddrInUse || is_over || somebody_answers(address) {
            return Err(error);
        }
        if !has_waited {
            tracing::warn!(
                %address, patience_ms = LEAVING_PATIENCE.as_millis() as u64,
                "the address is taken, and nobody answers on it; waiting for a process that is \
                 going"
            );
            has_waited = true;
        }
        thread::sleep(LEAVING_INTERVAL);
    }
}

/// Whether the other side answers a request, or hangs up, on an address. The listener of a process
/// that is gone takes connections, too, as long as the kernel has it.
fn somebody_answers(mut address: SocketAddr) -> bool {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    let answer = || -> io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
        stream.write_all(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        stream.read(&mut [0; 1]).map(drop)
    };
    answer().is_ok()
}

/// Whether a lock that [`crate::Runtime::lock_file`] could not get is held by a process that
/// is going or gone. False if that is not known. Blocks the thread for some system calls.
pub fn lock_holder_is_leaving(path: &Path) -> bool {
    lock_holder(path).is_ok_and(|holder| holder.is_some_and(is_leaving))
}

/// The process id of the holder of a file's lock.
#[expect(clippy::disallowed_methods, reason = "the file systems of the kernel never wait")]
fn lock_holder(path: &Path) -> io::Result<Option<u32>> {
    let inode = fs::metadata(path)?.ino();
    Ok(holder_in(&fs::read_to_string("/proc/locks")?, inode))
}

/// The holder of a file's lock in `/proc/locks`: lines such as
/// `1: FLOCK  ADVISORY  WRITE 1234 08:01:4711 0 EOF`. Files of other file systems may have the
/// same number, so that several holders tell nothing.
fn holder_in(locks: &str, inode: u64) -> Option<u32> {
    let holder = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, file, ..] = fields[..] else { return None };
        let of_file = file.rsplit(':').next()?.parse::<u64>().ok()?;
        (of_file == inode).then(|| pid.parse().ok()).flatten()
    };
    let mut holders = locks.lines().filter_map(holder);
    let first = holders.next()?;
    holders.all(|other| other == first).then_some(first)
}

/// Whether a process is gone, or has ended and the kernel only cleans up after it.
#[expect(clippy::disallowed_methods, reason = "the file systems of the kernel never wait")]
fn is_leaving(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => has_ended(&stat),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// Whether the state in `/proc/<pid>/stat`, behind the name in parentheses, is that of a
/// process that has ended.
fn has_ended(stat: &str) -> bool {
    let state = stat.rsplit_once(')').and_then(|(_, fields)| fields.trim_start().chars().next());
    matches!(state, Some('Z' | 'X' | 'x'))
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn any_port() -> TcpListener {
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port")
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "real sockets need real threads and time")]
    fn an_address_that_somebody_answers_on_fails_at_once() {
        let listener = any_port();
        let address = listener.local_addr().expect("it is bound");
        // One that answers, and one that hangs up.
        for answer in [&b"HTTP/1.1 503 Service Unavailable\r\n\r\n"[..], b""] {
            let listener = listener.try_clone().expect("a handle");
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("a connection");
                let mut request = [0; 512];
                let len = stream.read(&mut request).expect("a request");
                assert!(request[..len].starts_with(b"GET /ready "));
                stream.write_all(answer).expect("it is sent");
            });
            let begun = Instant::now();
            let error = await_free_address(address, &Latch::new()).expect_err("it is taken");
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
            assert!(begun.elapsed() < LEAVING_PATIENCE / 2);
            server.join().expect("it ends");
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "real sockets need real threads and time")]
    fn an_address_that_nobody_answers_on_is_waited_for() {
        let listener = any_port();
        let address = listener.local_addr().expect("it is bound");
        let owner = thread::spawn(move || {
            thread::sleep(Duration::from_millis(300));
            drop(listener);
        });
        await_free_address(address, &Latch::new()).expect("it is free in the end");
        owner.join().expect("it ends");
        // Not for ever.
        let listener = TcpListener::bind(address).expect("it is free");
        let begun = Instant::now();
        let error = await_free_address(address, &Latch::new()).expect_err("it is taken");
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(begun.elapsed() >= LEAVING_PATIENCE);
        // And not when the process is to stop.
        let stop = Latch::new();
        stop.trigger();
        let begun = Instant::now();
        await_free_address(address, &stop).expect_err("it is taken");
        assert!(begun.elapsed() < LEAVING_PATIENCE / 2);
        drop(listener);
    }

    #[test]
    fn what_the_kernel_says_of_locks_is_read() {
        let locks = "1: POSIX  ADVISORY  WRITE 700 08:01:42 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 1234 08:01:42 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 99 08:01:42 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 5 08:01:43 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 6 08:02:43 0 EOF\n\
                     5: FLOCK  ADVISORY  WRITE -1 08:02:44 0 EOF\n?";
        assert_eq!(holder_in(locks, 42), Some(1234));
        assert_eq!(holder_in(locks, 43), None, "one of two");
        assert_eq!(holder_in(locks, 44), None);
        assert_eq!(holder_in(locks, 45), None);
        assert!(has_ended("12 (a) b) Z 1 2") && !has_ended("12 (Z) S 1 2") && !has_ended(""));
        assert!(!is_leaving(std::process::id()));
    }
}
