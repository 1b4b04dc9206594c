//! Opens connections to hosts by name.
//!
//! [`Dial`] is what a client of a protocol needs from below: a connection to a host, plain or
//! encrypted. [`PlainDialer`] gives plain ones on every runtime; a layer that encrypts implements
//! the trait over it.
//!
//! What can go wrong: a host has several addresses of which some do not answer. Each address gets
//! a fair part of the time that is left, so that one dead address does not use it up.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::traits::{Monotonic, Reader, Runtime, Writer};

/// Least time for an attempt to connect, unless the deadline comes first.
const LEAST_ATTEMPT: Duration = Duration::from_secs(2);

/// Opens connections to hosts.
#[allow(async_fn_in_trait)]
pub trait Dial: 'static {
    /// The receiving half of a connection.
    type Reader: Reader;
    /// The sending half of a connection.
    type Writer: Writer;

    /// Opens a connection to a port of a host, which is a name or an address (of IPv6 without
    /// brackets). All addresses of a name are tried in turn. A secure connection is encrypted, and
    /// the host has proved its name when this returns.
    ///
    /// # Errors
    /// The host is not known, no address takes the connection, or the host has not proved its
    /// name. [`io::ErrorKind::TimedOut`] at the deadline, [`io::ErrorKind::Unsupported`] if the
    /// dialer cannot encrypt.
    async fn dial(
        &self,
        host: &str,
        port: u16,
        is_secure: bool,
        deadline: Monotonic,
    ) -> io::Result<(Self::Reader, Self::Writer)>;

    /// Makes a plain connection of this dialer a secure one, for a host at the end of a tunnel.
    /// Nothing may have been read that the host sent.
    ///
    /// # Errors
    /// As for [`Dial::dial`].
    async fn secure(
        &self,
        reader: Self::Reader,
        writer: Self::Writer,
        host: &str,
        deadline: Monotonic,
    ) -> io::Result<(Self::Reader, Self::Writer)>;
}

/// Opens plain connections.
#[derive(Clone)]
pub struct PlainDialer<R> {
    runtime: R,
}

impl<R: Runtime> PlainDialer<R> {
    /// A dialer for the runtime's core.
    pub fn new(runtime: R) -> PlainDialer<R> {
        PlainDialer { runtime }
    }
}

fn no_encryption() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "this client speaks no TLS")
}

impl<R: Runtime> Dial for PlainDialer<R> {
    type Reader = R::Reader;
    type Writer = R::Writer;

    async fn dial(
        &self,
        host: &str,
        port: u16,
        is_secure: bool,
        deadline: Monotonic,
    ) -> io::Result<(R::Reader, R::Writer)> {
        if is_secure {
            return Err(no_encryption());
        }
        connect_host(&self.runtime, host, port, deadline).await
    }

    async fn secure(
        &self,
        _reader: R::Reader,
        _writer: R::Writer,
        _host: &str,
        _deadline: Monotonic,
    ) -> io::Result<(R::Reader, R::Writer)> {
        Err(no_encryption())
    }
}

/// Opens a plain connection to a port of a host: a name, or an address without brackets. The
/// addresses of a name are tried in turn.
///
/// # Errors
/// The error of the look-up, or the one of the last address that was tried, which names the
/// address. [`io::ErrorKind::TimedOut`] at the deadline.
pub async fn connect_host<R: Runtime>(
    runtime: &R,
    host: &str,
    port: u16,
    deadline: Monotonic,
) -> io::Result<(R::Reader, R::Writer)> {
    let addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![address],
        Err(_) => runtime.resolve(host, deadline).await?,
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for (tried, address) in addresses.iter().enumerate() {
        let now = runtime.now();
        if now >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let waiting = u32::try_from(addresses.len() - tried).unwrap_or(u32::MAX);
        let part = (deadline.since(now) / waiting).max(LEAST_ATTEMPT);
        let until = if waiting == 1 { deadline } else { now.after(part).min(deadline) };
        let address = SocketAddr::new(*address, port);
        match runtime.connect(address, until).await {
            Ok(connection) => return Ok(connection),
            Err(error) => last = io::Error::new(error.kind(), format!("{address}: {error}")),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::Listener;
    use crate::sim::{Simulation, for_each_seed};

    const HOST: &str = "am.example";

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn dial(simulation: &Simulation, seconds: u64) -> (io::Result<()>, Duration) {
        simulation.block_on(move |runtime| async move {
            let started = runtime.now();
            let deadline = started.after(Duration::from_secs(seconds));
            let dialer = PlainDialer::new(runtime.clone());
            let result = dialer.dial("AM.example", 9093, false, deadline).await;
            (result.map(drop), runtime.now().since(started))
        })
    }

    /// Accepts at the address for as long as the simulation lives.
    fn serve_at(simulation: &Simulation, address: IpAddr) {
        let listens = Rc::new(Cell::new(false));
        let says_so = Rc::clone(&listens);
        simulation.start_node(1, move |runtime| {
            let says_so = Rc::clone(&says_so);
            async move {
                let listener = runtime.listen(SocketAddr::new(address, 9093)).expect("listens");
                says_so.set(true);
                while listener.accept().await.is_ok() {}
            }
        });
        simulation.run_until(|| listens.get()).expect("it listens");
    }

    #[test]
    fn all_addresses_are_tried_in_turn() {
        for_each_seed(0..20, |simulation| {
            serve_at(simulation, ip(2));
            let delay = Duration::from_secs(1);
            simulation.set_host(HOST, Ok(vec![ip(1), ip(2), ip(3)]), delay);
            let (result, took) = dial(simulation, 60);
            result.expect("one address listens");
            assert!(took >= delay);
            simulation.set_host(HOST, Ok(vec![ip(1), ip(3)]), Duration::ZERO);
            let error = dial(simulation, 60).0.expect_err("nobody listens");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            assert!(error.to_string().starts_with("10.0.0.3:9093: "), "{error}");
        });
    }

    #[test]
    fn look_ups_fail_and_time_out() {
        for_each_seed(0..20, |simulation| {
            let error = dial(simulation, 60).0.expect_err("no such host");
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            simulation.set_host(HOST, Err(io::ErrorKind::Other), Duration::from_millis(3));
            assert_eq!(dial(simulation, 60).0.expect_err("fails").kind(), io::ErrorKind::Other);
            simulation.set_host(HOST, Ok(vec![ip(1)]), Duration::from_secs(100));
            let (result, took) = dial(simulation, 5);
            assert_eq!(result.expect_err("too slow").kind(), io::ErrorKind::TimedOut);
            assert!(took < Duration::from_secs(6), "{took:?}");
        });
    }

    #[test]
    fn a_plain_dialer_encrypts_nothing() {
        for_each_seed(0..1, |simulation| {
            let kind = simulation.block_on(|runtime| async move {
                let dialer = PlainDialer::new(runtime);
                let result = dialer.dial("localhost", 1, true, Monotonic::NEVER).await;
                result.err().map(|error| error.kind())
            });
            assert_eq!(kind, Some(io::ErrorKind::Unsupported));
        });
    }
}
