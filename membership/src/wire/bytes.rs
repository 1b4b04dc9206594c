//! Pieces of messages: numbers, texts and addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::damaged::Damaged;
use crate::identity::is_reachable;

/// Reads from the front of some bytes.
pub(super) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes }
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(super) fn take(&mut self, len_bytes: usize) -> Result<&'a [u8], Damaged> {
        let (taken, rest) = self.rest.split_at_checked(len_bytes).ok_or(Damaged::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Damaged> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Damaged::Short)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Damaged> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Damaged> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Damaged> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Damaged> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number that the engine writes.
    pub(super) fn u16_big(&mut self) -> Result<u16, Damaged> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, Damaged> {
        let len_bytes = self.u8()?;
        std::str::from_utf8(self.take(len_bytes.into())?).map_err(|_| Damaged::Text)
    }

    /// An address behind the byte that says its kind; `None` if the byte is 0.
    pub(super) fn address(&mut self) -> Result<Option<SocketAddr>, Damaged> {
        let ip: IpAddr = match self.u8()? {
            0 => return Ok(None),
            4 => Ipv4Addr::from(self.array::<4>()?).into(),
            6 => Ipv6Addr::from(self.array::<16>()?).into(),
            _ => return Err(Damaged::Address),
        };
        let address = SocketAddr::new(ip, self.u16()?);
        if is_reachable(address) { Ok(Some(address)) } else { Err(Damaged::Address) }
    }

    pub(super) fn end(&self) -> Result<(), Damaged> {
        if self.rest.is_empty() { Ok(()) } else { Err(Damaged::Long) }
    }
}

/// Writes a text of at most 255 bytes behind its length.
pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    debug_assert!(text.len() <= 255, "whoever made the value has checked its length");
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

/// Writes an address behind its kind.
pub(super) fn put_address(out: &mut Vec<u8>, address: Option<SocketAddr>) {
    let Some(address) = address else { return out.push(0) };
    match address.ip() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&address.port().to_le_bytes());
}
