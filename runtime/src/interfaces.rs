//! The IP addresses of the machine's network interfaces.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;

/// An address of a network interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InterfaceAddress {
    /// The name of the interface, such as `eth0`.
    pub interface: String,
    /// The address.
    pub ip: IpAddr,
}

/// The addresses of all interfaces that are up, in the order of the system. It asks the kernel, so
/// only for the start.
///
/// # Errors
/// The system does not tell them.
pub fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the pointer is writable and of the type that the call fills.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next: *const libc::ifaddrs = first;
    // SAFETY: the call has made a list that ends with null; nothing frees it before the loop is over.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        if entry.ifa_flags & libc::IFF_UP as libc::c_uint == 0 {
            continue;
        }
        // SAFETY: the address of an entry is null or one of its family, as the list lives.
        let Some(ip) = (unsafe { ip_of(entry.ifa_addr) }) else { continue };
        // SAFETY: the name of an entry ends with a zero byte and lives as the list does.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        found.push(InterfaceAddress { interface: name.to_string_lossy().into_owned(), ip });
    }
    // SAFETY: the list came from `getifaddrs`, is freed once, and nothing of it is used from here on.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The IP address of a socket address, if it has one.
///
/// # Safety
/// The pointer is null, or it leads to a whole socket address of the family that it names.
unsafe fn ip_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as the caller says; every socket address begins with its family.
    let family = unsafe { address.as_ref() }?.sa_family;
    match libc::c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: it is an address of this family. It may be less aligned than its type.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_there() {
        let found = interface_addresses().expect("the kernel tells them");
        let loopback = found.iter().find(|address| address.ip == IpAddr::from([127, 0, 0, 1]));
        // A network namespace of its own may have its loopback down.
        assert!(loopback.is_none_or(|address| !address.interface.is_empty()), "{found:?}");
    }

    #[test]
    fn addresses_have_two_families() {
        // SAFETY: zeros are a value of the type.
        let mut four: libc::sockaddr_in = unsafe { std::mem::zeroed() };
        four.sin_family = libc::AF_INET as libc::sa_family_t;
        four.sin_addr.s_addr = u32::from_be_bytes([10, 1, 2, 3]).to_be();
        // SAFETY: it is a whole address of its family.
        let ip = unsafe { ip_of((&raw const four).cast()) };
        assert_eq!(ip, Some([10, 1, 2, 3].into()));
        // SAFETY: as above.
        let mut six: libc::sockaddr_in6 = unsafe { std::mem::zeroed() };
        six.sin6_family = libc::AF_INET6 as libc::sa_family_t;
        six.sin6_addr.s6_addr[15] = 1;
        // SAFETY: as above.
        let ip = unsafe { ip_of((&raw const six).cast()) };
        assert_eq!(ip, Some(Ipv6Addr::LOCALHOST.into()));
        four.sin_family = libc::AF_PACKET as libc::sa_family_t;
        // SAFETY: no other family is looked at.
        assert_eq!(unsafe { ip_of((&raw const four).cast()) }, None);
        // SAFETY: null is no address.
        assert_eq!(unsafe { ip_of(ptr::null()) }, None);
    }
}
