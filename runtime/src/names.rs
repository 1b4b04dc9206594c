//! Names of hosts, looked up by the resolver of the system.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};

/// The addresses of a host, in the order in which they are to be tried. Blocks, maybe for many
/// seconds.
///
/// # Errors
/// The host is not known, or the resolver does not answer.
pub(crate) fn look_up(host: &str) -> io::Result<Vec<IpAddr>> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in (host, 0).to_socket_addrs()? {
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    if addresses.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_host_has_addresses() {
        let found = look_up("localhost").expect("every system knows it");
        assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
        assert_eq!(look_up("127.0.0.1").expect("an address"), [IpAddr::from([127, 0, 0, 1])]);
        assert!(look_up("no host").is_err());
        assert!(look_up("").is_err());
    }
}
