//! Addresses of requests.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, Uri};

use crate::percent;

/// Why a text is no address of a request. No message shows the text, which may hold a password.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("invalid URL: {0}")]
pub struct UrlError(pub &'static str);

/// A host and a port, and whether TLS is spoken there.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Origin {
    /// In lower case, addresses of IPv6 without brackets.
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_secure: bool,
}

impl Origin {
    /// The host as URLs have it.
    fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.bracketed(), self.port)
    }
}

/// The address of a request, taken apart.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    pub(super) origin: Origin,
    /// The value of the header `Host`.
    pub(super) host_header: String,
    /// Begins with `/`.
    pub(super) path_and_query: String,
    /// Of the name and password in the address.
    pub(super) authorization: Option<HeaderValue>,
}

impl Target {
    /// Takes an address with the scheme `http` or `https` apart. A name and a password in it
    /// become the header `Authorization` of requests that have none; a fragment is dropped.
    ///
    /// # Errors
    /// See [`UrlError`].
    pub fn parse(url: &str) -> Result<Target, UrlError> {
        let uri: Uri = url.parse().map_err(|_| UrlError("malformed"))?;
        let is_secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            Some(_) => return Err(UrlError("the scheme is neither http nor https")),
            None => return Err(UrlError("no scheme")),
        };
        let authority = uri.authority().ok_or(UrlError("no host"))?;
        let host = authority.host();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(UrlError("no host"));
        }
        let usual_port = if is_secure { 443 } else { 80 };
        let port_text = authority.as_str().rsplit('@').next().unwrap_or_default();
        let port_text = port_text.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
        let port = match (authority.port_u16(), port_text) {
            (Some(0), _) => return Err(UrlError("the port is 0")),
            (Some(port), _) => port,
            (None, None | Some((_, ""))) => usual_port,
            (None, Some(_)) => return Err(UrlError("malformed port")),
        };
        let origin = Origin { host: host.to_ascii_lowercase(), port, is_secure };
        let host_header = if port == usual_port { origin.bracketed() } else { origin.to_string() };
        let path_and_query = uri.path_and_query().map_or("/", |path| path.as_str());
        let path_and_query = match path_and_query.as_bytes().first() {
            Some(b'/') => path_and_query.to_owned(),
            _ => format!("/{path_and_query}"),
        };
        let authorization = match authority.as_str().rsplit_once('@') {
            Some((userinfo, _)) => Some(basic(userinfo)?),
            None => None,
        };
        Ok(Target { origin, host_header, path_and_query, authorization })
    }

    /// The host, in lower case, and without brackets.
    pub fn host(&self) -> &str {
        &self.origin.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.origin.port
    }

    /// Whether TLS is spoken.
    pub fn is_secure(&self) -> bool {
        self.origin.is_secure
    }

    /// The value of the header `Host`: without the port that the scheme implies. Signatures of
    /// requests sign it.
    pub fn host_header(&self) -> &str {
        &self.host_header
    }

    /// Path and query, as they are sent.
    pub fn path_and_query(&self) -> &str {
        &self.path_and_query
    }

    /// The whole address without name and password, as a proxy wants it.
    pub(super) fn absolute(&self) -> String {
        let scheme = if self.origin.is_secure { "https" } else { "http" };
        format!("{scheme}://{}{}", self.host_header, self.path_and_query)
    }
}

/// Without name and password.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.absolute())
    }
}

/// The header of a `name:password` with percent escapes.
fn basic(userinfo: &str) -> Result<HeaderValue, UrlError> {
    let (name, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
    let decoded = |text| percent::decode_path(text).map_err(|_| UrlError("malformed user"));
    let pair = format!("{}:{}", decoded(name)?, decoded(password)?);
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
        .map_err(|_| UrlError("malformed user"))?;
    value.set_sensitive(true);
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (url, expected) in [
            ("http://am", ("am:80", "am", "/")),
            ("http://AM:9093/x?y#z", ("am:9093", "am:9093", "/x?y")),
            ("https://am:443", ("am:443", "am", "/")),
            ("http://am:443?q=1", ("am:443", "am:443", "/?q=1")),
            ("http://[::1]:8080/a%20b", ("[::1]:8080", "[::1]:8080", "/a%20b")),
            ("https://[::1]/", ("[::1]:443", "[::1]", "/")),
            ("http://am:/", ("am:80", "am", "/")),
        ] {
            let target = Target::parse(url).expect(url);
            let origin = target.origin.to_string();
            let parts = (origin.as_str(), target.host_header.as_str(), target.path_and_query());
            assert_eq!(parts, expected, "{url}");
            assert_eq!(target.is_secure(), url.starts_with("https"));
        }
        assert_eq!(Target::parse("http://[::1]:1").expect("good").host(), "::1");
    }

    #[test]
    fn bad_addresses_are_refused_without_their_text() {
        for url in [
            "",
            "am",
            "/x",
            "am:9093",
            "ftp://am",
            "http://",
            "http:///x",
            "http://am:0",
            "http://am:99999",
            "http://am:x",
            "http://a b",
            "http://am/ä b\n",
            "http://:80",
            "http://u:sec%zzret@am",
            "http://am:80:90",
        ] {
            let error = Target::parse(url).expect_err(url).to_string();
            assert!(!error.contains("sec"), "{error}");
        }
    }

    #[test]
    fn names_and_passwords_become_a_header_and_are_not_shown() {
        let target = Target::parse("http://Aladdin:open%20sesame@am/x").expect("good");
        let header = target.authorization.clone().expect("a header");
        assert_eq!(header, "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert!(header.is_sensitive());
        assert_eq!(format!("{target:?} {}", target.absolute()), "http://am/x http://am/x");
        assert_eq!(Target::parse("http://am").expect("good").authorization, None);
    }
}
