//! Socket calls that every backend on a real machine shares.

use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use crate::service_manager;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};

/// Connections that the kernel holds for one listener until they are accepted;
/// `net.core.somaxconn` may lower it.
const BACKLOG_CONNECTIONS: i32 = 4096;

/// How long a connection that has shut down its sending side still takes bytes of the peer. Closing
/// at once would answer late bytes with a reset, which can destroy the response on its way to the
/// peer.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

/// How long the other end of a connection that was opened here may say nothing at all: neither that it
/// has received what was sent, nor that it is still there. Then pending reads and writes fail.
pub(crate) const SILENCE: Duration = Duration::from_secs(10);

/// How long a connection has been quiet when the kernel begins to ask whether anybody is there, and the
/// pause between such questions.
const QUIET: Duration = Duration::from_secs(5);
const ASK_INTERVAL: Duration = Duration::from_secs(1);

/// Sets up a connection that was opened here. Small requests leave at once (`TCP_NODELAY`), and an end
/// that is silent for [`SILENCE`] is given up, as if the machine were off or a cable broken.
pub(crate) fn set_up(stream: &impl AsRawFd) {
    // SAFETY: the stream, which has the descriptor open, is borrowed until the end of this function.
    let descriptor = unsafe { BorrowedFd::borrow_raw(stream.as_raw_fd()) };
    let socket = SockRef::from(&descriptor);
    let asks = u32::try_from((SILENCE - QUIET).as_secs() / ASK_INTERVAL.as_secs()).unwrap_or(1);
    let keepalive =
        TcpKeepalive::new().with_time(QUIET).with_interval(ASK_INTERVAL).with_retries(asks);
    // All fail only if the peer has gone already, which the next read tells.
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_keepalive(&keepalive);
    let _ = socket.set_tcp_user_timeout(Some(SILENCE));
}

/// A non-blocking listener with `SO_REUSEPORT`, or a handle of the one that the service manager has
/// opened for this address.
pub(crate) fn listen(address: SocketAddr) -> io::Result<net::TcpListener> {
    if let Some(inherited) = service_manager::inherited(address) {
        return inherited;
    }
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restart must not wait for connections of the last run in TIME_WAIT.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG_CONNECTIONS)?;
    Ok(socket.into())
}

/// Accepts without waiting: `None` if no connection is there. Small answers
/// leave at once (`TCP_NODELAY`).
pub(crate) fn accept(
    listener: &net::TcpListener,
) -> io::Result<Option<(net::TcpStream, SocketAddr)>> {
    match listener.accept() {
        Ok((stream, address)) => {
            // Fails only if the peer has gone already, which the next read tells.
            let _ = stream.set_nodelay(true);
            Ok(Some((stream, address)))
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// Ends a pending read, and lets every later one report the end of the stream.
pub(crate) fn stop_reading(fd: RawFd) {
    shut_down(fd, libc::SHUT_RD);
}

/// Sends the end of the stream after everything written.
pub(crate) fn finish_writing(fd: RawFd) -> io::Result<()> {
    // SAFETY: a call with plain integers; the caller holds the socket open.
    if unsafe { libc::shutdown(fd, libc::SHUT_WR) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Ends pending reads and writes.
pub(crate) fn stop_both(fd: RawFd) {
    shut_down(fd, libc::SHUT_RDWR);
}

/// Ignores errors: a connection that is not connected has nothing to shut down.
fn shut_down(fd: RawFd, how: libc::c_int) {
    // SAFETY: a call with plain integers; the caller holds the socket open.
    unsafe { libc::shutdown(fd, how) };
}

/// One `recv` that does not wait, into spare capacity: `None` if nothing is there.
pub(crate) fn receive(socket: &impl AsRawFd, buffer: &mut Vec<u8>) -> io::Result<Option<usize>> {
    let fd = socket.as_raw_fd();
    let result = crate::file_ops::read_into_spare(buffer, |start, room| {
        // SAFETY: `start` and `room` describe writable spare capacity, and the
        // caller holds the socket open.
        unsafe { libc::recv(fd, start.cast(), room, libc::MSG_DONTWAIT) }
    });
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_gives_silent_ends_up() {
        let listener = net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let stream = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        set_up(&stream);
        let socket = SockRef::from(&stream);
        assert!(stream.nodelay().unwrap() && socket.keepalive().unwrap());
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(SILENCE));
        let asks = socket.tcp_keepalive_retries().unwrap();
        let interval = socket.tcp_keepalive_interval().unwrap();
        assert_eq!(socket.tcp_keepalive_time().unwrap() + asks * interval, SILENCE);
    }
}
