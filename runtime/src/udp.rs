//! Calls on UDP sockets that every backend on a real machine shares. None of them waits.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use socket2::{Domain, Protocol, Socket, Type};

use crate::Datagram;

/// Memory figures of a socket; `libc` has no name for the option.
const SO_MEMINFO: libc::c_int = 55;
/// How many figures there are, and the place of the number of dropped datagrams.
const MEMINFO_FIGURES: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// A bound socket.
pub(crate) struct UdpPort {
    socket: Socket,
}

impl UdpPort {
    pub(crate) fn bind(address: SocketAddr, buffer_bytes: usize) -> io::Result<UdpPort> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        // The kernel lowers it to `net.core.rmem_max` without a word.
        socket.set_recv_buffer_size(buffer_bytes)?;
        // For UDP the kernel takes a port as free that only sharing sockets of this user have. So a
        // socket that asks for any free port shares it only once it is bound.
        socket.set_reuse_port(address.port() != 0)?;
        socket.bind(&address.into())?;
        socket.set_reuse_port(true)?;
        Ok(UdpPort { socket })
    }

    /// A second descriptor of the socket, for a driver that tells when a datagram is there.
    pub(crate) fn second(&self) -> io::Result<Socket> {
        self.socket.try_clone()
    }

    /// Receives into spare capacity: `None` if nothing is there.
    pub(crate) fn receive(&self, buffer: &mut Vec<u8>) -> io::Result<Option<Datagram>> {
        if buffer.len() == buffer.capacity() {
            return Err(no_room());
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        let received = loop {
            match self.socket.recv_from_with_flags(buffer.spare_capacity_mut(), flags) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                received => break received?,
            }
        };
        // `MSG_TRUNC` gives the length of the whole datagram.
        let (len_bytes, sender) = received;
        let filled = buffer.len() + len_bytes.min(buffer.capacity() - buffer.len());
        // SAFETY: the call has written the datagram, or as much of it as there was room for, to the
        // start of the spare capacity.
        unsafe { buffer.set_len(filled) };
        let sender = sender.as_socket().ok_or(io::ErrorKind::InvalidData)?;
        Ok(Some(Datagram { sender, len_bytes }))
    }

    /// See [`crate::Datagrams::send`].
    pub(crate) fn send(&self, bytes: &[u8], receiver: SocketAddr) -> io::Result<()> {
        self.socket.send_to_with_flags(bytes, &receiver.into(), libc::MSG_DONTWAIT).map(|_| ())
    }

    /// See [`crate::Datagrams::dropped`].
    pub(crate) fn dropped(&self) -> io::Result<u64> {
        let mut figures = [0_u32; MEMINFO_FIGURES];
        let mut len_bytes = size_of_val(&figures) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len_bytes` bytes, which is the size of `figures`, and
        // any bytes are numbers.
        let result = unsafe {
            let to = figures.as_mut_ptr().cast();
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                SO_MEMINFO,
                to,
                &raw mut len_bytes,
            )
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(figures[MEMINFO_DROPS].into())
    }

    /// See [`crate::Datagrams::buffer_bytes`].
    pub(crate) fn buffer_bytes(&self) -> io::Result<usize> {
        self.socket.recv_buffer_size()
    }

    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()?.as_socket().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }
}

/// A buffer without spare capacity would swallow a datagram.
fn no_room() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "no room for a datagram")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shared port would give the datagrams of one socket to another.
    #[test]
    fn a_free_port_is_nobody_elses() {
        let any: SocketAddr = ([127, 0, 0, 1], 0).into();
        for _ in 0..20 {
            let ports: Vec<_> = (0..200).map(|_| UdpPort::bind(any, 4096).unwrap()).collect();
            let addresses: std::collections::BTreeSet<_> =
                ports.iter().map(|port| port.local_address().unwrap()).collect();
            assert_eq!(addresses.len(), ports.len());
        }
    }

    /// The number comes from the kernel's own list, so a wrong place would give another figure.
    #[test]
    fn what_the_kernel_drops_is_counted() {
        let to = UdpPort::bind(([127, 0, 0, 1], 0).into(), 4096).unwrap();
        let from = UdpPort::bind(([127, 0, 0, 1], 0).into(), 4096).unwrap();
        assert_eq!(to.dropped().unwrap(), 0);
        for _ in 0..100 {
            from.send(&[b'x'; 1000], to.local_address().unwrap()).unwrap();
        }
        let mut received = 0;
        let mut buffer = Vec::with_capacity(2000);
        while to.receive(&mut buffer).unwrap().is_some() {
            buffer.clear();
            received += 1;
        }
        assert!(received > 0 && received < 100, "{received}");
        assert_eq!(to.dropped().unwrap(), 100 - received);
    }
}
