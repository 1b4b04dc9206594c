//! Request heads as bytes.

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue,
    PROXY_AUTHORIZATION, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderMap, Method};

use crate::encode::put_name;

/// How the end of a request body is marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BodyMark {
    /// There is none, and no header says so.
    None,
    /// `Content-Length`.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// What a request head is made of.
#[derive(Clone, Copy)]
pub(super) struct HeadParts<'a> {
    pub(super) method: &'a Method,
    /// A path, a whole address for a proxy, or host and port for a tunnel.
    pub(super) target: &'a str,
    pub(super) host: &'a str,
    pub(super) headers: &'a HeaderMap,
    pub(super) user_agent: &'a str,
    /// Used if `headers` has none.
    pub(super) authorization: Option<&'a HeaderValue>,
    pub(super) proxy_authorization: Option<&'a HeaderValue>,
    pub(super) mark: BodyMark,
    pub(super) expects_continue: bool,
}

/// Appends a request head.
pub(super) fn encode_head(out: &mut Vec<u8>, parts: &HeadParts<'_>) {
    out.extend_from_slice(parts.method.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(parts.target.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    let headers = parts.headers;
    if !headers.contains_key(HOST) {
        put(out, &HOST, parts.host.as_bytes());
    }
    if !headers.contains_key(USER_AGENT) && !parts.user_agent.is_empty() {
        put(out, &USER_AGENT, parts.user_agent.as_bytes());
    }
    if let Some(value) = parts.authorization
        && !headers.contains_key(AUTHORIZATION)
    {
        put(out, &AUTHORIZATION, value.as_bytes());
    }
    if let Some(value) = parts.proxy_authorization {
        put(out, &PROXY_AUTHORIZATION, value.as_bytes());
    }
    for (name, value) in headers {
        let is_own = [&CONTENT_LENGTH, &TRANSFER_ENCODING, &CONNECTION, &EXPECT, &UPGRADE];
        if !is_own.contains(&name) {
            put(out, name, value.as_bytes());
        }
    }
    match parts.mark {
        BodyMark::None => {}
        BodyMark::Length(len_bytes) => {
            put(out, &CONTENT_LENGTH, itoa::Buffer::new().format(len_bytes).as_bytes());
        }
        BodyMark::Chunked => put(out, &TRANSFER_ENCODING, b"chunked"),
    }
    if parts.expects_continue {
        put(out, &EXPECT, b"100-continue");
    }
    out.extend_from_slice(b"\r\n");
}

fn put(out: &mut Vec<u8>, name: &HeaderName, value: &[u8]) {
    put_name(out, name.as_str());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::header::ACCEPT;

    #[test]
    fn heads_have_the_client_s_headers_once() {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("999"));
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        let secret = HeaderValue::from_static("Basic eDp5");
        let mut parts = HeadParts {
            method: &Method::POST,
            target: "/x?y",
            host: "am:9093",
            headers: &headers,
            user_agent: "logsvc/1",
            authorization: Some(&secret),
            proxy_authorization: None,
            mark: BodyMark::Length(12),
            expects_continue: true,
        };
        let mut out = Vec::new();
        encode_head(&mut out, &parts);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "POST /x?y HTTP/1.1\r\nHost: am:9093\r\nUser-Agent: logsvc/1\r\n\
             Authorization: Basic eDp5\r\nAccept: */*\r\nContent-Length: 12\r\n\
             Expect: 100-continue\r\n\r\n"
        );
        let mut own = HeaderMap::new();
        own.insert(HOST, HeaderValue::from_static("other"));
        own.insert(USER_AGENT, HeaderValue::from_static("me"));
        own.insert(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
        parts.headers = &own;
        parts.proxy_authorization = Some(&secret);
        (parts.mark, parts.expects_continue) = (BodyMark::Chunked, false);
        out.clear();
        encode_head(&mut out, &parts);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "POST /x?y HTTP/1.1\r\nProxy-Authorization: Basic eDp5\r\nHost: other\r\n\
             User-Agent: me\r\nAuthorization: Bearer x\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
    }
}
