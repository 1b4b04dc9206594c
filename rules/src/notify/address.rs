//! Addresses of Alertmanagers, as settings have them.

use http::Uri;
use http::header::HeaderValue;
use logsvc_proto::go::quote::quoted;

use crate::auth::basic;

/// Longest address, in bytes.
const ADDRESS_MAX_BYTES: usize = 8 << 10;

/// Why a text is no address of an Alertmanager. No message shows a password.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddressError {
    /// It is no URL with a host.
    #[error("parse {0}: invalid Alertmanager URL")]
    Invalid(String),
    /// The scheme is neither `http` nor `https`.
    #[error("unsupported scheme {0} of an Alertmanager URL")]
    Scheme(String),
    /// The host is no SRV record.
    #[error(
        "when alertmanager-discovery is on, host name must be of the form \
         _portname._tcp.service.fqdn (is {0})"
    )]
    NoService(String),
}

/// An address, taken apart.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Address {
    /// `http` or `https`.
    scheme: &'static str,
    /// With its port, if the address has one.
    pub(super) host: String,
    /// Below which the API is; no `/` at its end.
    path: String,
    /// Of the name and password in the address.
    pub(super) authorization: Option<HeaderValue>,
}

impl Address {
    /// Where alerts are posted, at the address's own host or at another one.
    pub(super) fn post_url(&self, host: &str) -> String {
        format!("{}://{host}{}/api/v2/alerts", self.scheme, self.path)
    }
}

/// Reads addresses. Each text may have several, with commas between.
pub(super) fn parse_addresses(
    texts: &[String],
    is_discovered: bool,
) -> Result<Vec<Address>, AddressError> {
    let texts = texts.iter().flat_map(|text| text.split(',')).map(str::trim);
    texts.filter(|text| !text.is_empty()).map(|text| parse(text, is_discovered)).collect()
}

fn parse(text: &str, is_discovered: bool) -> Result<Address, AddressError> {
    let invalid = || AddressError::Invalid(quoted(&without_userinfo(text)));
    let (scheme, rest) = text.split_once("://").ok_or_else(invalid)?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" => "http",
        "https" => "https",
        other if is_scheme(other) => return Err(AddressError::Scheme(quoted(other))),
        // It may be a part of a password.
        _ => return Err(invalid()),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let (userinfo, host) = match authority.rsplit_once('@') {
        Some((userinfo, host)) => (Some(userinfo), host),
        None => (None, authority),
    };
    let path = clean(path);
    let is_url = Uri::try_from(format!("{scheme}://{host}{path}/")).is_ok();
    if !is_host(host) || !is_url || text.len() > ADDRESS_MAX_BYTES {
        return Err(invalid());
    }
    if is_discovered && !is_service(host) {
        return Err(AddressError::NoService(quoted(host)));
    }
    let authorization = userinfo.map(|userinfo| {
        let (name, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
        Some(basic(&percent_decoded(name)?, &percent_decoded(password)?))
    });
    let authorization = match authorization {
        Some(None) => return Err(invalid()),
        Some(header) => header,
        None => None,
    };
    Ok(Address { scheme, host: host.to_owned(), path, authorization })
}

/// Whether a text is the scheme of some URL. A name with its password is none.
fn is_scheme(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|one| one.is_ascii_alphanumeric() || "+-.".contains(one))
}

/// Whether a text is a host with or without a port. A part of a password is none.
fn is_host(text: &str) -> bool {
    let name_end = text.rfind(']').map_or(0, |at| at + 1);
    match text[name_end..].rsplit_once(':') {
        Some((name, port)) => name_end + name.len() > 0 && port.parse::<u16>().is_ok(),
        None => !text.is_empty(),
    }
}

/// Whether a host is `_service._proto.name`.
fn is_service(host: &str) -> bool {
    let Some(rest) = host.strip_prefix('_') else { return false };
    rest.match_indices("._").any(|(at, _)| at > 0 && rest.len() > at + 2)
}

/// A path without empty parts, `.` and `..`, and without a `/` at its end.
fn clean(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.iter().flat_map(|part| ["/", part]).collect()
}

/// An address as messages show it.
fn without_userinfo(text: &str) -> String {
    let scheme_end = text.find("://").filter(|&at| is_scheme(&text[..at]));
    let start = scheme_end.map_or(0, |at| at + 3);
    let end = text[start..].find(['/', '?', '#']).map_or(text.len(), |at| start + at);
    // A password may have a `/` that should have been escaped, so all before the last `@` goes.
    match text.rfind('@') {
        Some(at) if at >= start => format!("{}{}", &text[..start], &text[at + 1..]),
        _ => text[..end].to_owned() + &text[end..],
    }
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit = |at: usize| char::from(*rest.get(at)?).to_digit(16);
        out.push(u8::try_from(digit(0)? * 16 + digit(1)?).ok()?);
        rest = &rest[2..];
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn urls(text: &str) -> Result<Vec<String>, String> {
        let addresses = parse_addresses(&[text.to_owned()], false).map_err(|e| e.to_string())?;
        Ok(addresses.iter().map(|address| address.post_url(&address.host)).collect())
    }

    #[test]
    fn the_api_is_below_the_path() {
        for (text, expected) in [
            ("http://am:9093", &["http://am:9093/api/v2/alerts"][..]),
            ("HTTPS://am/", &["https://am/api/v2/alerts"]),
            ("http://am:1//x/./y/../z/?a=b#c", &["http://am:1/x/z/api/v2/alerts"]),
            ("http://[::1]:9093/am", &["http://[::1]:9093/am/api/v2/alerts"]),
            (" http://a , ,http://b/p,", &["http://a/api/v2/alerts", "http://b/p/api/v2/alerts"]),
            ("", &[]),
        ] {
            assert_eq!(
                urls(text).as_deref(),
                Ok(&expected.iter().map(|&u| u.to_owned()).collect::<Vec<_>>()[..]),
                "{text}"
            );
        }
    }

    #[test]
    fn no_message_shows_a_password() {
        for (text, message) in [
            ("am:9093", "parse \"am:9093\": invalid Alertmanager URL"),
            ("ftp://u:secret@am", "unsupported scheme \"ftp\" of an Alertmanager URL"),
            ("u:secret://x@am", "parse \"am\": invalid Alertmanager URL"),
            ("://u:secret@am", "parse \"am\": invalid Alertmanager URL"),
            ("http://", "parse \"http://\": invalid Alertmanager URL"),
            ("http://:80", "parse \"http://:80\": invalid Alertmanager URL"),
            ("http://u:secret@a b", "parse \"http://a b\": invalid Alertmanager URL"),
            ("http://u:secret%zz@a", "parse \"http://a\": invalid Alertmanager URL"),
            ("http://u:sec/ret@a", "parse \"http://a\": invalid Alertmanager URL"),
            ("http://a:99999", "parse \"http://a:99999\": invalid Alertmanager URL"),
        ] {
            assert_eq!(urls(text), Err(message.to_owned()));
        }
    }

    #[test]
    fn names_and_passwords_of_addresses_become_a_header() {
        for (text, header) in [
            ("http://am", None),
            ("http://Aladdin:open%20sesame@am", Some("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")),
            ("http://u@am", Some("Basic dTo=")),
            ("http://u:a@b@am", Some("Basic dTphQGI=")),
        ] {
            let addresses = parse_addresses(&[text.to_owned()], false).expect("valid");
            let found = addresses[0].authorization.as_ref().map(|value| value.to_str().ok());
            assert_eq!(found, header.map(Some));
            assert_eq!(addresses[0].host, "am");
        }
    }

    #[test]
    fn discovery_takes_services_alone() {
        let parse = |text: &str| parse_addresses(&[text.to_owned()], true);
        assert_eq!(parse("http://_http._tcp.am.example/x").map(|found| found.len()), Ok(1));
        for host in ["am", "_http.am", "_._tcp", "am._tcp.x"] {
            let refusal = parse(&format!("http://{host}")).expect_err("no service").to_string();
            assert!(refusal.ends_with(&format!("(is {})", quoted(host))), "{refusal}");
        }
    }
}
