//! Requests over the HTTP client of this server.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use logsvc_http::client::{
    Client, ClientConfig, ClientError, ClientRequest, Proxies, ProxyError, RequestBody, Target,
};
use logsvc_runtime::{Dial, Runtime};

use super::{ANSWER_MAX_BYTES, OutgoingAnswer, OutgoingRequest, Transport, TransportError};
use crate::config::HttpConfig;

/// Longest body of an answer that is read at all; of it [`ANSWER_MAX_BYTES`] are kept.
const BODY_MAX_BYTES: u64 = 16 << 20;

/// Sends requests as settings say: through their proxy and with their headers. The dialer has
/// their TLS; who one is (`Authorization`) is the caller's part. Cheap to clone.
pub struct HttpTransport<R, D: Dial> {
    client: Client<R, D>,
    headers: HeaderMap,
}

/// Why settings give no transport. No message shows a secret.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HttpTransportError {
    /// The address of the proxy is none.
    #[error("{0}")]
    Proxy(#[from] ProxyError),
    /// A header has a bad name or value.
    #[error("invalid header {0:?}")]
    Header(String),
}

impl<R: Runtime, D: Dial> HttpTransport<R, D> {
    /// A transport with these settings, whose connections come from `dialer`.
    ///
    /// # Errors
    /// See [`HttpTransportError`].
    pub fn new(
        runtime: R,
        dialer: D,
        config: &HttpConfig,
    ) -> Result<HttpTransport<R, D>, HttpTransportError> {
        let proxies = match config.proxy_url.as_str() {
            "" => Proxies::from_environment()?,
            url => Proxies::always(url)?,
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &config.headers {
            let bad = || HttpTransportError::Header(name.clone());
            let name = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
            let value = HeaderValue::try_from(value.as_str()).map_err(|_| bad())?;
            headers.append(name, value);
        }
        // The time of a request counts, whichever phase takes it.
        let whole = Duration::from_secs(24 * 3600);
        let client_config = ClientConfig {
            connect_timeout: whole,
            head_timeout: whole,
            progress_timeout: whole,
            proxies,
            ..ClientConfig::default()
        };
        Ok(HttpTransport { client: Client::new(runtime, dialer, client_config), headers })
    }

    async fn send_request(
        &self,
        request: OutgoingRequest,
    ) -> Result<OutgoingAnswer, TransportError> {
        let OutgoingRequest { method, url, mut headers, body, timeout } = request;
        let target = Target::parse(&url).map_err(|error| TransportError(error.to_string()))?;
        for name in self.headers.keys() {
            if !headers.contains_key(name) {
                for value in self.headers.get_all(name) {
                    headers.append(name, value.clone());
                }
            }
        }
        let response = self
            .client
            .send(ClientRequest {
                headers,
                body: if body.is_empty() { RequestBody::Empty } else { RequestBody::Full(body) },
                timeout: Some(timeout),
                max_body_bytes: Some(BODY_MAX_BYTES),
                // Receivers take the same alert or sample twice for one.
                may_repeat: Some(true),
                ..ClientRequest::new(method, target)
            })
            .await
            .map_err(failed)?;
        let (status, headers) = (response.status, response.headers.clone());
        let body = response.first_bytes(ANSWER_MAX_BYTES).await.map_err(failed)?;
        Ok(OutgoingAnswer { status, headers, body })
    }
}

impl<R, D: Dial> Clone for HttpTransport<R, D> {
    fn clone(&self) -> HttpTransport<R, D> {
        HttpTransport { client: self.client.clone(), headers: self.headers.clone() }
    }
}

impl<R: Runtime, D: Dial> Transport for HttpTransport<R, D> {
    async fn send(&self, request: OutgoingRequest) -> Result<OutgoingAnswer, TransportError> {
        Box::pin(self.send_request(request)).await
    }
}

fn failed(error: ClientError) -> TransportError {
    TransportError(error.to_string())
}

#[cfg(test)]
mod tests;
