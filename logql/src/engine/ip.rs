//! `ip("...")`: addresses in text, shared by line filters and label filters.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A set of addresses: one address, a prefix or a range, all as an inclusive range
/// within one family.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IpSet {
    V4 { first: u32, last: u32 },
    V6 { first: u128, last: u128 },
}

impl IpSet {
    /// Parses a single address, a CIDR prefix or a `from-to` range, in this order.
    /// `None` when it is none of them.
    pub(crate) fn parse(pattern: &str) -> Option<Self> {
        if let Ok(address) = pattern.parse::<IpAddr>() {
            return Self::range(address, address);
        }
        if let Some((address, bits)) = pattern.split_once('/') {
            return Self::parse_prefix(address.parse().ok()?, bits);
        }
        let (from, to) = pattern.split_once('-')?;
        Self::range(from.parse().ok()?, to.parse().ok()?)
    }

    fn parse_prefix(address: IpAddr, bits: &str) -> Option<Self> {
        let canonical = bits == "0" || !bits.starts_with('0');
        if bits.is_empty()
            || bits.len() > 3
            || !bits.bytes().all(|b| b.is_ascii_digit())
            || !canonical
        {
            return None;
        }
        let bits: u32 = bits.parse().ok()?;
        match address {
            IpAddr::V4(address) if bits <= 32 => {
                let host = u32::MAX.checked_shr(bits).unwrap_or(0);
                let address = u32::from(address);
                Some(Self::V4 { first: address & !host, last: address | host })
            }
            IpAddr::V6(address) if bits <= 128 => {
                let host = u128::MAX.checked_shr(bits).unwrap_or(0);
                let address = u128::from(address);
                Some(Self::V6 { first: address & !host, last: address | host })
            }
            _ => None,
        }
    }

    fn range(from: IpAddr, to: IpAddr) -> Option<Self> {
        match (from, to) {
            (IpAddr::V4(from), IpAddr::V4(to)) if from <= to => {
                Some(Self::V4 { first: from.into(), last: to.into() })
            }
            (IpAddr::V6(from), IpAddr::V6(to)) if from <= to => {
                Some(Self::V6 { first: from.into(), last: to.into() })
            }
            _ => None,
        }
    }

    /// The beginning that the members have in common as they are written, with the dot behind it,
    /// or the only one. `None` where there is none, and for IPv6, which has many spellings.
    pub(crate) fn common_text(&self) -> Option<String> {
        let Self::V4 { first, last } = *self else { return None };
        let (first, last) = (first.to_be_bytes(), last.to_be_bytes());
        let common = first.iter().zip(&last).take_while(|(a, b)| a == b).count();
        if common == first.len() {
            return Some(Ipv4Addr::from(first).to_string());
        }
        let octets = first[..common].iter().map(|octet| format!("{octet}."));
        Some(octets.collect()).filter(|text: &String| !text.is_empty())
    }

    fn contains_v4(&self, address: Ipv4Addr) -> bool {
        matches!(*self, Self::V4 { first, last } if (first..=last).contains(&u32::from(address)))
    }

    fn contains_v6(&self, address: Ipv6Addr) -> bool {
        matches!(*self, Self::V6 { first, last } if (first..=last).contains(&u128::from(address)))
    }

    /// True when some address written in `text` belongs to the set.
    ///
    /// The scan looks for the hints that Loki looks for: a digit with a dot among the next three
    /// bytes, or up to four hex digits before a colon. The run of address characters behind a hint
    /// counts only when it is an address in full.
    pub(crate) fn found_in(&self, text: &[u8]) -> bool {
        let mut i = 0;
        while i < text.len() {
            if is_v4_hint(text, i) {
                let run = run_of(text, i, |b| b.is_ascii_digit() || b == b'.');
                if parse::<Ipv4Addr>(run).is_some_and(|address| self.contains_v4(address)) {
                    return true;
                }
                i += run.len();
            } else if is_v6_hint(text, i) {
                let run = run_of(text, i, |b| b.is_ascii_hexdigit() || b == b':' || b == b'.');
                if parse::<Ipv6Addr>(run).is_some_and(|address| self.contains_v6(address)) {
                    return true;
                }
                i += run.len();
            }
            i += 1;
        }
        false
    }
}

fn parse<A: std::str::FromStr>(run: &[u8]) -> Option<A> {
    std::str::from_utf8(run).ok()?.parse().ok()
}

fn run_of(text: &[u8], from: usize, belongs: impl Fn(u8) -> bool) -> &[u8] {
    let len = text[from..].iter().position(|&b| !belongs(b)).unwrap_or(text.len() - from);
    &text[from..from + len]
}

fn is_v4_hint(text: &[u8], i: usize) -> bool {
    text[i].is_ascii_digit()
        && i + 3 < text.len()
        && (text[i + 1] == b'.' || text[i + 2] == b'.' || text[i + 3] == b'.')
}

fn is_v6_hint(text: &[u8], i: usize) -> bool {
    let at = |offset: usize| text.get(i + offset).copied().unwrap_or(0);
    if at(0) == b':' {
        return at(1) == b':' && at(2).is_ascii_hexdigit();
    }
    let digits = (0..5).take_while(|&offset| at(offset).is_ascii_hexdigit()).count();
    (1..=4).contains(&digits) && at(digits) == b':'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_addresses_prefixes_or_ranges() {
        for good in [
            "10.0.0.1",
            "::1",
            "10.0.0.9/8",
            "0.0.0.0/0",
            "2001:db8::/32",
            "10.0.0.1-10.0.0.9",
            "::1-::ffff",
        ] {
            assert!(IpSet::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "bad",
            "10.0.0.1/33",
            "::1/129",
            "10.0.0.1/",
            "10.0.0.1/08",
            "10.0.0.9-10.0.0.1",
            "10.0.0.1 - 10.0.0.2",
            "::1-10.0.0.1",
            "01.2.3.4",
            "10.0.0/8",
        ] {
            assert_eq!(IpSet::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_are_found_only_when_the_whole_run_is_one() {
        let one = IpSet::parse("1.2.3.4").expect("valid");
        for hit in ["1.2.3.4", "1.2.3.4:80", "x1.2.3.4y", "999.1.1.1 1.2.3.4", "a 1.2.3.4,"] {
            assert!(one.found_in(hit.as_bytes()), "{hit}");
        }
        for miss in ["1.2.3.4.5", "1.2.3", "::ffff:1.2.3.4", "01.2.3.4", "", "1", "11.2.3.4"] {
            assert!(!one.found_in(miss.as_bytes()), "{miss}");
        }
        let v6 = IpSet::parse("fe80::/16").expect("valid");
        assert!(v6.found_in(b"[fe80::1%eth0]:80"));
        assert!(IpSet::parse("::1").expect("valid").found_in(b"[::1]:80"));
        assert!(!v6.found_in(b"fe80:"));
    }

    #[test]
    fn members_of_a_set_begin_alike() {
        for (set, text) in [
            ("1.2.3.4", Some("1.2.3.4")),
            ("10.9.0.77/24", Some("10.9.0.")),
            ("10.9.0.1-10.9.255.2", Some("10.9.")),
            ("10.0.0.0/7", None),
            ("0.0.0.0/0", None),
            ("::1", None),
        ] {
            let common = IpSet::parse(set).expect("valid").common_text();
            assert_eq!(common.as_deref(), text, "{set}");
        }
    }
}
