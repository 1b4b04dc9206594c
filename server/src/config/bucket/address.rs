//! Addresses of buckets and of the servers that have them.

use logsvc_store::cloud::Secret;

use crate::config::ruler::unescaped;

/// An address in its parts. The key is in no message.
#[derive(Debug, PartialEq)]
pub(super) struct Address {
    /// In small letters.
    pub(super) scheme: String,
    /// The name of a key and the key, without escapes.
    pub(super) key: Option<(String, Secret)>,
    /// The host, with its port.
    pub(super) host: String,
    /// What is behind the host, without the first `/` and those at the end.
    pub(super) path: String,
}

impl Address {
    /// The parts of a text with `://`.
    pub(super) fn of(text: &str) -> Option<Address> {
        let (scheme, rest) = text.split_once("://")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (key, host) = match authority.rsplit_once('@') {
            Some((user, host)) => {
                let (id, secret) = user.split_once(':').unwrap_or((user, ""));
                (Some((unescaped(id), Secret(unescaped(secret)))), host)
            }
            None => (None, authority),
        };
        Some(Address {
            scheme: scheme.to_ascii_lowercase(),
            key,
            host: host.to_owned(),
            path: path.trim_matches('/').to_owned(),
        })
    }
}

/// Whether a text can be the address of an HTTP server.
pub(super) fn is_http(text: &str) -> bool {
    let is_plain = |byte: u8| byte > b' ' && byte != 0x7f;
    text.bytes().all(is_plain)
        && Address::of(text).is_some_and(|address| {
            matches!(address.scheme.as_str(), "http" | "https")
                && !address.host.is_empty()
                && !address.host.starts_with(':')
        })
}

/// The host without its port.
pub(super) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Parts of names, joined by `/`; empty ones are left out.
pub(super) fn joined(parts: &[&str]) -> String {
    let parts = parts.iter().map(|part| part.trim_matches('/')).filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("/")
}

/// The text with the key of its address hidden, whatever it is.
pub(super) fn hidden(text: &str) -> String {
    let start = text.find("://").map_or(0, |place| place + 3);
    let Some(end) = text.rfind('@').filter(|&end| end >= start) else { return text.to_owned() };
    match text[start..end].split_once(':') {
        Some((id, _)) => format!("{}{id}:xxxxx{}", &text[..start], &text[end..]),
        None => text.to_owned(),
    }
}
