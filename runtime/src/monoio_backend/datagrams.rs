//! UDP of the monoio backend: a wait for readiness, and a plain `recvfrom`. So a receive that is
//! dropped loses no datagram, on io_uring as on epoll.

use std::io;
use std::net::SocketAddr;

use super::MonoioRuntime;
use crate::coop::CoopBudget;
use crate::udp::UdpPort;
use crate::{Datagram, Datagrams, Runtime};

/// A UDP socket of the monoio backend.
pub struct MonoioDatagrams {
    port: UdpPort,
    /// The same socket, registered with the driver.
    readiness: monoio::net::udp::UdpSocket,
    coop: CoopBudget,
    runtime: MonoioRuntime,
}

impl MonoioDatagrams {
    pub(super) fn bind(
        address: SocketAddr,
        buffer_bytes: usize,
        runtime: MonoioRuntime,
    ) -> io::Result<MonoioDatagrams> {
        let port = UdpPort::bind(address, buffer_bytes)?;
        let readiness = monoio::net::udp::UdpSocket::from_std(port.second()?.into())?;
        Ok(MonoioDatagrams { port, readiness, coop: CoopBudget::default(), runtime })
    }

    async fn wait_and_receive(&self, buffer: &mut Vec<u8>) -> io::Result<Datagram> {
        loop {
            if let Some(datagram) = self.port.receive(buffer)? {
                return Ok(datagram);
            }
            // Not relaxed: on epoll that would report the readiness of the last datagram for ever.
            self.readiness.readable(false).await?;
        }
    }
}

impl Datagrams for MonoioDatagrams {
    async fn receive(&self, mut buffer: Vec<u8>) -> (io::Result<Datagram>, Vec<u8>) {
        if self.coop.is_spent() {
            self.runtime.yield_now().await;
        }
        let result = self.coop.count(self.wait_and_receive(&mut buffer)).await;
        (result, buffer)
    }

    fn send(&self, bytes: &[u8], receiver: SocketAddr) -> io::Result<()> {
        self.port.send(bytes, receiver)
    }

    fn dropped(&self) -> io::Result<u64> {
        self.port.dropped()
    }

    fn buffer_bytes(&self) -> io::Result<usize> {
        self.port.buffer_bytes()
    }

    fn local_address(&self) -> io::Result<SocketAddr> {
        self.port.local_address()
    }
}
