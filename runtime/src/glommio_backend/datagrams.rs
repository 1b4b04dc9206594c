//! UDP of the glommio backend: a peek that waits, and a plain `recvfrom`. So a receive that is
//! dropped loses no datagram.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, IntoRawFd};

use glommio::net::UdpSocket;

use super::GlommioRuntime;
use crate::coop::CoopBudget;
use crate::udp::UdpPort;
use crate::{Datagram, Datagrams, Runtime};

/// A UDP socket of the glommio backend.
pub struct GlommioDatagrams {
    port: UdpPort,
    /// The same socket for the executor's ring, which wants it to be a blocking one.
    readiness: UdpSocket,
    coop: CoopBudget,
    runtime: GlommioRuntime,
}

impl GlommioDatagrams {
    pub(super) fn bind(
        address: SocketAddr,
        buffer_bytes: usize,
        runtime: GlommioRuntime,
    ) -> io::Result<GlommioDatagrams> {
        let port = UdpPort::bind(address, buffer_bytes)?;
        let second = port.second()?.into_raw_fd();
        // SAFETY: the descriptor is open, and `into_raw_fd` gives up its ownership.
        let readiness = unsafe { UdpSocket::from_raw_fd(second) };
        Ok(GlommioDatagrams { port, readiness, coop: CoopBudget::default(), runtime })
    }

    async fn wait_and_receive(&self, buffer: &mut Vec<u8>) -> io::Result<Datagram> {
        loop {
            if let Some(datagram) = self.port.receive(buffer)? {
                return Ok(datagram);
            }
            // The receive that follows tells the error, if there is one.
            let _ = self.readiness.peek_from(&mut [0]).await;
        }
    }
}

impl Datagrams for GlommioDatagrams {
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
