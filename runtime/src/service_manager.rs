//! The service manager that has started the process, such as systemd: the messages of
//! `sd_notify(3)`, the watchdog, and a listening socket that it hands over.
//!
//! Guarantees: without a service manager nothing happens. A manager that does not read costs a
//! log line, never the service. What can go wrong: a socket is handed over that is no TCP listener,
//! or more than one ([`take_listener`]).

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as SocketAddrUnix, UnixDatagram};
use std::sync::OnceLock;
use std::time::Duration;

use sd_notify::NotifyState;
use socket2::{Socket, Type};

/// The listener that the service manager has opened; all cores accept from it.
static INHERITED: OnceLock<(SocketAddr, TcpListener)> = OnceLock::new();

/// Tells the service manager how the process does. Cheap to clone.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceManager {
    is_there: bool,
    watchdog: Option<Duration>,
}

impl ServiceManager {
    /// The manager that the environment names: `NOTIFY_SOCKET` is a path or, after an `@`, a name
    /// without a file; `WATCHDOG_USEC` and `WATCHDOG_PID` say how often it wants to hear.
    pub fn of_environment() -> ServiceManager {
        ServiceManager {
            is_there: std::env::var_os("NOTIFY_SOCKET").is_some_and(|path| !path.is_empty()),
            watchdog: sd_notify::watchdog_enabled().filter(|interval| !interval.is_zero()),
        }
    }

    /// The manager restarts the process if it hears nothing for so long; `None` if it does not.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog.filter(|_| self.is_there)
    }

    /// Whether somebody listens.
    pub fn is_there(&self) -> bool {
        self.is_there
    }

    /// The start goes on and may take so much longer.
    pub fn starting(&self, status: &str, patience: Duration) {
        let micros = u32::try_from(patience.as_micros()).unwrap_or(u32::MAX);
        self.send(&[NotifyState::ExtendTimeoutUsec(micros), NotifyState::Status(status)]);
    }

    /// The service takes requests. `status` is one line for people.
    pub fn ready(&self, status: &str) {
        self.send(&[NotifyState::Ready, NotifyState::Status(status)]);
    }

    /// The service reads its files again; [`ServiceManager::ready`] ends that.
    pub fn reloading(&self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.send(&[NotifyState::Reloading, now]),
            Err(error) => tracing::warn!(%error, "the service manager hears of no reload"),
        }
    }

    /// The service is ending.
    pub fn stopping(&self) {
        self.send(&[NotifyState::Stopping, NotifyState::Status("stopping")]);
    }

    /// One line for people.
    pub fn status(&self, status: &str) {
        self.send(&[NotifyState::Status(status)]);
    }

    /// The service lives.
    pub fn alive(&self) {
        self.send(&[NotifyState::Watchdog]);
    }

    fn send(&self, states: &[NotifyState<'_>]) {
        if self.is_there
            && let Err(error) = notify(states)
        {
            tracing::warn!(%error, "the service manager cannot be told anything");
        }
    }
}

/// Sends one message, and never waits: a manager that does not read loses it.
fn notify(states: &[NotifyState<'_>]) -> io::Result<()> {
    let name = std::env::var_os("NOTIFY_SOCKET").unwrap_or_default();
    let address = match name.as_bytes() {
        // A name without a file.
        [b'@', name @ ..] => SocketAddrUnix::from_abstract_name(name)?,
        _ => SocketAddrUnix::from_pathname(&name)?,
    };
    let text: String = states.iter().map(|state| format!("{state}\n")).collect();
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    socket.send_to_addr(text.as_bytes(), &address).map(drop)
}

/// Takes the listener that the service manager has opened for this process (`LISTEN_FDS` and
/// `LISTEN_PID`), for [`Runtime::listen`](crate::Runtime::listen) with its address. Returns the
/// address; `None` if there is no listener. To be called once, before there are cores.
///
/// # Errors
/// There are several sockets, or it is no listener for TCP.
pub fn take_listener() -> io::Result<Option<SocketAddr>> {
    let mut handed = sd_notify::listen_fds()?;
    let Some(fd) = handed.next() else { return Ok(None) };
    if handed.next().is_some() {
        return Err(refused("the service manager hands over several sockets; one is needed"));
    }
    adopt(fd).map(Some)
}

fn adopt(fd: RawFd) -> io::Result<SocketAddr> {
    // SAFETY: the service manager has opened the descriptor for this process, and nothing else in
    // it knows of the descriptor.
    let socket = Socket::from(unsafe { OwnedFd::from_raw_fd(fd) });
    let is_listener = socket.r#type()? == Type::STREAM && socket.is_listener()?;
    let address = socket.local_addr()?.as_socket().filter(|_| is_listener);
    let Some(address) = address else {
        return Err(refused(
            "the socket of the service manager is no TCP listener (ListenStream=)",
        ));
    };
    socket.set_nonblocking(true)?;
    if INHERITED.set((address, socket.into())).is_err() {
        return Err(refused("a socket of the service manager is in use already"));
    }
    Ok(address)
}

fn refused(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// Another handle of the inherited listener, if it has this address. Connections wait in one queue
/// for all handles.
pub(crate) fn inherited(address: SocketAddr) -> Option<io::Result<TcpListener>> {
    let (known, listener) = INHERITED.get()?;
    (*known == address).then(|| listener.try_clone())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpStream, UdpSocket};
    use std::os::fd::IntoRawFd;

    use super::*;

    #[test]
    fn only_listeners_are_adopted_and_all_handles_share_one_queue() {
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let error = adopt(datagrams.into_raw_fd()).unwrap_err();
        assert!(error.to_string().contains("no TCP listener"), "{error}");

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert!(inherited(address).is_none());
        assert_eq!(adopt(listener.into_raw_fd()).unwrap(), address);
        let handles = [inherited(address).unwrap().unwrap(), inherited(address).unwrap().unwrap()];
        let client = TcpStream::connect(address).unwrap();
        let (_, peer) = handles[1].accept().unwrap();
        assert_eq!(peer, client.local_addr().unwrap());
        assert_eq!(handles[0].accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn nobody_is_told_without_a_manager() {
        let nobody = ServiceManager::default();
        assert_eq!(nobody.watchdog(), None);
        nobody.ready("x");
        nobody.reloading();
        nobody.stopping();
    }
}
