//! The opening handshake (RFC 6455, section 4.2).

use std::future::Future;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{
    CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
    UPGRADE,
};
use http::{Method, StatusCode};
use sha1::{Digest, Sha1};

use super::socket::{Upgrade, WebSocket, WebSocketConfig};
use crate::framing::{Framing, has_token};
use crate::head::RequestHead;
use crate::response::{Response, ResponseBody};

const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A request is not the opening handshake of a WebSocket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotAWebSocket {
    /// It is something else than a GET without a body.
    #[error("a WebSocket starts with a GET request without a body")]
    Method,
    /// `Upgrade: websocket` or `Connection: Upgrade` is missing.
    #[error("the request does not ask for an upgrade to a WebSocket")]
    NoUpgrade,
    /// `Sec-WebSocket-Version` is not 13.
    #[error("the version of the WebSocket protocol is not 13")]
    Version,
    /// `Sec-WebSocket-Key` is missing, repeated, or not 16 bytes in base64.
    #[error("the key of the WebSocket is malformed")]
    Key,
}

/// A valid opening handshake.
#[derive(Clone, Debug)]
pub struct Handshake {
    accept: HeaderValue,
}

impl Handshake {
    /// Checks whether a request opens a WebSocket.
    pub fn of_request(head: &RequestHead) -> Result<Handshake, NotAWebSocket> {
        // RFC 6455 wants HTTP/1.1, but proxies that speak HTTP/1.0 to their backends pass the
        // handshake on, and every common server takes it.
        if head.method != Method::GET || head.framing != Framing::None {
            return Err(NotAWebSocket::Method);
        }
        if !has_token(&head.headers, UPGRADE, "websocket")
            || !has_token(&head.headers, CONNECTION, "upgrade")
        {
            return Err(NotAWebSocket::NoUpgrade);
        }
        let mut versions = head.headers.get_all(SEC_WEBSOCKET_VERSION).iter();
        if versions.next().is_none_or(|version| version != "13") || versions.next().is_some() {
            return Err(NotAWebSocket::Version);
        }
        let mut keys = head.headers.get_all(SEC_WEBSOCKET_KEY).iter();
        let (Some(key), None) = (keys.next(), keys.next()) else { return Err(NotAWebSocket::Key) };
        if STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16) {
            let accept = HeaderValue::from_str(&accept_key(key.as_bytes()));
            Ok(Handshake { accept: accept.map_err(|_| NotAWebSocket::Key)? })
        } else {
            Err(NotAWebSocket::Key)
        }
    }

    /// The response that opens the WebSocket. `handler` runs on the connection's
    /// task; when it ends, the WebSocket is closed with code 1000 unless
    /// [`WebSocket::close`] named another.
    pub fn accept<H, F>(self, config: WebSocketConfig, handler: H) -> Response
    where
        H: FnOnce(WebSocket) -> F + 'static,
        F: Future<Output = ()> + 'static,
    {
        let mut response = Response::new(StatusCode::SWITCHING_PROTOCOLS);
        response.headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        response.headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        response.headers.insert(SEC_WEBSOCKET_ACCEPT, self.accept);
        response.body = ResponseBody::WebSocket(Upgrade::new(config, handler));
        response
    }
}

/// The value that proves to a client that its key was read.
pub fn accept_key(key: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(key);
    hash.update(GUID);
    STANDARD.encode(hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455, section 1.3.
    #[test]
    fn accept_key_matches_the_standard() {
        assert_eq!(accept_key(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
