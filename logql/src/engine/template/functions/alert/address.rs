//! Host names with ports.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Go's `net.SplitHostPort`: host and port; `None` where Go gives an error.
pub(super) fn split(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = match host.strip_prefix('[') {
        Some(inside) => inside.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let has_brackets = |part: &str| part.contains(['[', ']']);
    (!has_brackets(host) && !has_brackets(port)).then_some((host, port))
}

/// The first part of a host name, with its port; `None` for the text as it is.
pub(super) fn without_domain(text: &str) -> Option<String> {
    let (host, port) = split(text).unwrap_or((text, ""));
    let is_address = host.parse::<Ipv4Addr>().is_ok() || host.parse::<Ipv6Addr>().is_ok();
    if is_address {
        return None;
    }
    let first = host.split('.').next().unwrap_or(host);
    Some(match (port, first.contains(':')) {
        ("", _) => first.to_owned(),
        (port, true) => format!("[{first}]:{port}"),
        (port, false) => format!("{first}:{port}"),
    })
}
