//! Lets web pages of chosen origins read the answers of the server (CORS, the Fetch standard).
//!
//! Guarantees: without the setting no answer has a header of CORS. A listed origin may send every
//! request that a page of the server itself may send, and read every answer. `*` lets pages of any
//! origin read, and change nothing ([`super::cross_site`]). Cookies and passwords that the browser
//! keeps are never asked for: a page has to send the header `Authorization` itself.

use http::Method;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS,
    ACCESS_CONTROL_REQUEST_METHOD, ALLOW, HeaderMap, HeaderValue, ORIGIN, VARY,
};
use logsvc_http::{RequestHead, Response};

/// Headers of answers that pages have a use for, besides those that they may always read.
const EXPOSED: &str = "Retry-After, X-Logsvc-Next-Cursor";

/// How long a browser remembers what it may send, in seconds.
const MAX_AGE_S: &str = "600";

/// Stands for every origin.
const ANY: &str = "*";

/// The origin of a request whose page may read the answer.
#[derive(Clone, Debug)]
pub(super) struct Reader(HeaderValue);

/// The origin of a request, if its page may read the answer.
pub(super) fn reader(allowed: &[String], headers: &HeaderMap) -> Option<Reader> {
    if allowed.is_empty() {
        return None;
    }
    let origin = headers.get(ORIGIN)?;
    let is_any = allowed.iter().any(|one| one == ANY);
    if is_listed(allowed, headers) {
        Some(Reader(origin.clone()))
    } else {
        is_any.then(|| Reader(HeaderValue::from_static(ANY)))
    }
}

/// Whether a request comes from a page of an origin that is listed by its name.
pub(super) fn is_listed(allowed: &[String], headers: &HeaderMap) -> bool {
    let mut origins = headers.get_all(ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else { return false };
    allowed.iter().any(|one| origin.as_bytes().eq_ignore_ascii_case(one.as_bytes()))
}

impl Reader {
    /// Lets the page read an answer.
    pub(super) fn admit(&self, response: &mut Response) {
        let headers = &mut response.headers;
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, self.0.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(EXPOSED));
        headers.append(VARY, HeaderValue::from_static("Origin"));
    }

    /// Tells a browser what it may send, if it asks.
    pub(super) fn answer_preflight(&self, head: &RequestHead, response: &mut Response) {
        let asks = head.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let Some(methods) = response.headers.get(ALLOW).cloned() else { return };
        if head.method != Method::OPTIONS || !asks {
            return;
        }
        let headers = &mut response.headers;
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
        if let Some(wanted) = head.headers.get(ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, wanted.clone());
        }
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(MAX_AGE_S));
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;

    use super::*;

    fn headers(origins: &[&'static str]) -> HeaderMap {
        let mut map = HeaderMap::new();
        origins.iter().for_each(|origin| {
            map.append(ORIGIN, HeaderValue::from_static(origin));
        });
        map
    }

    #[test]
    fn answers_are_for_the_origins_that_are_listed() {
        let list = |origins: &[&str]| origins.iter().map(|&o| o.to_owned()).collect::<Vec<_>>();
        let one = list(&["https://grafana.example:3000", "http://localhost"]);
        let shown = |allowed: &[String], origins: &[&'static str]| {
            let reader = reader(allowed, &headers(origins))?;
            let mut response = Response::new(StatusCode::OK);
            reader.admit(&mut response);
            assert_eq!(response.headers[VARY], "Origin");
            Some(response.headers[ACCESS_CONTROL_ALLOW_ORIGIN].clone())
        };
        assert_eq!(shown(&one, &["http://localhost"]).expect("listed"), "http://localhost");
        for origins in [
            &[][..],
            &["null"],
            &["http://localhost:80"],
            &["https://grafana.example"],
            &["https://evil.example", "http://localhost"],
        ] {
            assert_eq!(shown(&one, origins), None, "{origins:?}");
        }
        assert_eq!(shown(&list(&["*"]), &["https://evil.example"]).expect("any"), "*");
        assert!(!is_listed(&list(&["*"]), &headers(&["https://evil.example"])));
        assert_eq!(shown(&[], &["http://localhost"]), None);
    }
}
