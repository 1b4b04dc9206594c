//! Keeps pages of other sites from changing the server.
//!
//! Pages of origins that the operator has listed by name count as own pages.
//!
//! A browser lets any page send requests to any server, with all rights of the browser and its
//! network. It only keeps the answer from the page. Browsers say where a request comes from, in
//! headers that pages cannot set: `Sec-Fetch-Site`, and `Origin` with everything but plain GETs.
//! Other clients send neither.
//!
//! Guarantees: a request that a page of another origin caused does not get through to a route
//! that changes state, nor to a tail. Another port, another scheme's host name, a sibling
//! domain and a page without an origin (`null`) are other origins. Behind a proxy that has
//! replaced `Host`, the host of the page is the one in `X-Forwarded-Host`.

use super::cors::is_listed;
use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Method};
use logsvc_proto::error::ApiError;

const FETCH_SITE_HEADER: &str = "sec-fetch-site";
const FORWARDED_HOST_HEADER: &str = "x-forwarded-host";

/// From which web pages a browser may send requests to a route. Other clients always may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CrossSite {
    /// From any: the route changes nothing, and browsers keep the answer from the page.
    Allowed,
    /// From any with GET or HEAD, which change nothing; from own pages with other methods.
    OnlyGet,
    /// From own pages.
    Refused,
}

/// Refuses a request that a page of another origin has sent, if the route does not allow it.
///
/// # Errors
/// 403.
pub(super) fn check(
    allowed: CrossSite,
    method: &Method,
    headers: &HeaderMap,
    listed: &[String],
) -> Result<(), ApiError> {
    let is_allowed = match allowed {
        CrossSite::Allowed => true,
        CrossSite::OnlyGet => matches!(*method, Method::GET | Method::HEAD),
        CrossSite::Refused => false,
    };
    if is_allowed || !is_from_another_origin(headers) || is_listed(listed, headers) {
        return Ok(());
    }
    Err(ApiError::forbidden(
        "this was sent by a web page of another origin, as its Origin or Sec-Fetch-Site header \
         says; only clients outside of browsers and pages of this server may do that",
    )
    .with_newline())
}

fn is_from_another_origin(headers: &HeaderMap) -> bool {
    let mut is_same_origin = false;
    for site in headers.get_all(FETCH_SITE_HEADER) {
        match site.as_bytes() {
            b"same-origin" => is_same_origin = true,
            b"none" => {}
            _ => return true,
        }
    }
    // Proxies may change the host, but they leave the headers of the browser.
    !is_same_origin && headers.get_all(ORIGIN).iter().any(|o| !is_own(o.as_bytes(), headers))
}

/// Whether an origin is that of the server, by the name that the client has for it.
fn is_own(origin: &[u8], headers: &HeaderMap) -> bool {
    let Some((scheme, host)) =
        std::str::from_utf8(origin).ok().and_then(|origin| origin.trim().split_once("://"))
    else {
        return false;
    };
    let default_port = match scheme.to_ascii_lowercase().as_str() {
        "http" | "ws" => ":80",
        "https" | "wss" => ":443",
        _ => return false,
    };
    let normal = |host: &str| {
        let host = host.trim().to_ascii_lowercase();
        host.strip_suffix(default_port).map(str::to_owned).unwrap_or(host)
    };
    let host = normal(host);
    let named = [HOST.as_str(), FORWARDED_HOST_HEADER];
    let values = named.into_iter().flat_map(|name| headers.get_all(name));
    let hosts = values.filter_map(|value| value.to_str().ok()).flat_map(|list| list.split(','));
    !host.is_empty() && hosts.into_iter().any(|known| normal(known) == host)
}

#[cfg(test)]
mod tests {
    use http::header::{HeaderName, HeaderValue};

    use super::*;

    fn map(headers: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for &(name, value) in headers {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    fn is_foreign(headers: &[(&'static str, &'static str)]) -> bool {
        is_from_another_origin(&map(headers))
    }

    #[test]
    fn origins_are_compared_with_the_host_that_was_asked_for() {
        const HOST: (&str, &str) = ("host", "logs.example.com:3100");
        let own = [
            vec![HOST],
            vec![],
            vec![HOST, ("origin", "http://logs.example.com:3100")],
            vec![HOST, ("origin", "https://LOGS.example.com:3100")],
            vec![("host", "logs.example.com"), ("origin", "https://logs.example.com")],
            vec![("host", "logs.example.com:443"), ("origin", "https://logs.example.com")],
            vec![("host", "logs.example.com"), ("origin", "http://logs.example.com:80")],
            vec![("host", "[::1]:3100"), ("origin", "http://[::1]:3100")],
            vec![
                HOST,
                ("x-forwarded-host", "public.example"),
                ("origin", "https://public.example"),
            ],
            vec![HOST, ("x-forwarded-host", "a.example, b"), ("origin", "http://a.example")],
            vec![HOST, ("sec-fetch-site", "same-origin")],
            vec![HOST, ("sec-fetch-site", "none")],
            // The proxy in between has changed the host.
            vec![HOST, ("sec-fetch-site", "same-origin"), ("origin", "https://public.example")],
        ];
        for headers in own {
            assert!(!is_foreign(&headers), "{headers:?}");
        }
        let foreign = [
            vec![HOST, ("origin", "null")],
            vec![HOST, ("origin", "")],
            vec![HOST, ("origin", "http://")],
            vec![HOST, ("origin", "http://evil.example")],
            vec![HOST, ("origin", "http://logs.example.com")],
            vec![HOST, ("origin", "http://logs.example.com:3000")],
            vec![HOST, ("origin", "http://logs.example.com:3100.evil.example")],
            vec![HOST, ("origin", "http://evil.example/logs.example.com:3100")],
            vec![HOST, ("origin", "file://logs.example.com:3100")],
            vec![("host", "logs.example.com:80"), ("origin", "https://logs.example.com")],
            vec![("host", "127.0.0.1:3100"), ("origin", "http://localhost:3100")],
            vec![("origin", "http://logs.example.com:3100")],
            vec![
                HOST,
                ("origin", "http://logs.example.com:3100"),
                ("origin", "http://evil.example"),
            ],
            vec![HOST, ("sec-fetch-site", "cross-site")],
            vec![HOST, ("sec-fetch-site", "same-site")],
            vec![HOST, ("sec-fetch-site", "none"), ("origin", "http://evil.example")],
            vec![HOST, ("sec-fetch-site", "same-origin"), ("sec-fetch-site", "cross-site")],
            vec![
                HOST,
                ("sec-fetch-site", "cross-site"),
                ("origin", "http://logs.example.com:3100"),
            ],
        ];
        for headers in foreign {
            assert!(is_foreign(&headers), "{headers:?}");
        }
    }
}
