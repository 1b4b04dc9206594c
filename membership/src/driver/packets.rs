//! How packets of gossip leave: as datagrams, or over connections that are encrypted.

use std::net::SocketAddr;
use std::rc::Rc;

use logsvc_runtime::{Datagrams, Dial, Runtime};

use super::streams::Streams;

/// See the module.
pub(super) enum Packets<R: Runtime, D: Dial> {
    /// By the socket of the family of the address.
    Datagrams(Vec<Rc<R::Datagrams>>),
    /// Over connections.
    Streams(Streams<R, D>),
}

impl<R: Runtime, D: Dial> Packets<R, D> {
    /// Sends a packet. False if that is not possible.
    pub(super) fn send(&mut self, packet: Vec<u8>, to: SocketAddr) -> bool {
        match self {
            Packets::Datagrams(sockets) => {
                let fits = |socket: &&Rc<R::Datagrams>| {
                    socket.local_address().is_ok_and(|own| own.is_ipv4() == to.is_ipv4())
                };
                sockets.iter().find(fits).is_some_and(|socket| socket.send(&packet, to).is_ok())
            }
            Packets::Streams(streams) => streams.send(packet, to),
        }
    }
}
