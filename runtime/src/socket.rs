//! Socket calls that every backend on a real machine shares.

use std::io;
use std::net::{self, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use crate::service_manager;
use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the kernel holds for one listener until they are accepted;
/// `net.core.somaxconn` may lower it.
const BACKLOG_CONNECTIONS: i32 = 4096;

/// How long a connection that has shut down its sending side still takes bytes of the peer. Closing
/// at once would answer late bytes with a reset, which can destroy the response on its way to the
/// peer.
pub(crate) const LINGER: Duration = Duration::from_secs(1);

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
