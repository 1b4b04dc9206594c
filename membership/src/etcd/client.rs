//! Requests to etcd: to one endpoint as long as it answers, and then to the next one.
//!
//! Guarantees: each request has a deadline, and an answer a limit. A token that is not good any more is
//! replaced once per request.

use std::cell::{Cell, RefCell};

use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use logsvc_http::client::{Client, ClientConfig, ClientError, ClientRequest, Target};
use logsvc_runtime::{Dial, Runtime};
use serde_json::Value;

use super::api::{self, NoSuchField};
use super::settings::EtcdSettings;

/// Longest answer: more than all members with the longest vitals have.
const ANSWER_MAX_BYTES: usize = 4 << 20;

/// What is kept of an answer that tells of a failure.
const TOLD_MAX_BYTES: usize = 1 << 10;

/// Why etcd has not done what it was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum EtcdError {
    /// An endpoint does not answer.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An endpoint refuses.
    #[error("etcd says {status}: {text}")]
    Status {
        /// The status.
        status: u16,
        /// The text.
        text: String,
    },
    /// The answer is no JSON.
    #[error("the answer of etcd cannot be read: {0}")]
    Json(#[from] serde_json::Error),
    /// The answer lacks something.
    #[error(transparent)]
    Field(#[from] NoSuchField),
    /// An address or a token cannot be sent.
    #[error("{0} cannot be sent")]
    Unsendable(&'static str),
}

/// See the module.
pub(super) struct EtcdClient<R: Runtime, D: Dial> {
    client: Client<R, D>,
    urls: Vec<String>,
    /// The endpoint that has answered last.
    current: Cell<usize>,
    user: Option<(String, String)>,
    token: RefCell<Option<String>>,
}

impl<R: Runtime, D: Dial> EtcdClient<R, D> {
    pub(super) fn new(runtime: R, dialer: D, settings: &EtcdSettings, urls: Vec<String>) -> Self {
        let timeout = EtcdSettings::request_timeout();
        let config = ClientConfig {
            connect_timeout: settings.dial_timeout.min(timeout),
            head_timeout: timeout,
            progress_timeout: timeout,
            ..ClientConfig::default()
        };
        let is_known = !settings.username.is_empty();
        let user = is_known.then(|| (settings.username.clone(), settings.password.clone()));
        let client = Client::new(runtime, dialer, config);
        EtcdClient { client, urls, current: Cell::new(0), user, token: RefCell::default() }
    }

    /// How many endpoints there are.
    pub(super) fn endpoints(&self) -> usize {
        self.urls.len()
    }

    /// Sends further requests to the next endpoint.
    pub(super) fn turn_to_next(&self) {
        self.current.set((self.current.get() + 1) % self.urls.len());
        *self.token.borrow_mut() = None;
    }

    /// Asks the current endpoint.
    pub(super) async fn ask(&self, path: &str, body: &Value) -> Result<Value, EtcdError> {
        let Some((name, password)) = &self.user else { return self.send(path, body, None).await };
        let known = self.token.borrow().clone();
        if let Some(token) = known {
            match self.send(path, body, Some(&token)).await {
                // It has expired, or etcd was started anew.
                Err(EtcdError::Status { status: 400 | 401 | 403, .. }) => {}
                answered => return answered,
            }
        }
        let asked = api::authenticate(name, password);
        let token = api::token(&self.send("/v3/auth/authenticate", &asked, None).await?)?;
        *self.token.borrow_mut() = Some(token.clone());
        self.send(path, body, Some(&token)).await
    }

    async fn send(
        &self,
        path: &str,
        body: &Value,
        token: Option<&str>,
    ) -> Result<Value, EtcdError> {
        let url = format!("{}{path}", self.urls[self.current.get()]);
        let target = Target::parse(&url).map_err(|_| EtcdError::Unsendable("an address"))?;
        let mut request = ClientRequest::new(Method::POST, target)
            .with_header(CONTENT_TYPE, HeaderValue::from_static("application/json"))
            .with_body(body.to_string().into_bytes())
            .with_timeout(EtcdSettings::request_timeout());
        // A lease that is granted twice ends by itself, and all else may be done twice.
        request.may_repeat = Some(true);
        request.max_body_bytes = Some(ANSWER_MAX_BYTES as u64);
        if let Some(token) = token {
            let value = HeaderValue::from_str(token);
            let mut value = value.map_err(|_| EtcdError::Unsendable("a token"))?;
            value.set_sensitive(true);
            request.headers.insert(AUTHORIZATION, value);
        }
        let response = self.client.send(request).await?;
        let status = response.status.as_u16();
        if status != 200 {
            let told = response.first_bytes(TOLD_MAX_BYTES).await?;
            let text = String::from_utf8_lossy(&told).trim_end().to_owned();
            return Err(EtcdError::Status { status, text });
        }
        Ok(serde_json::from_slice(&response.collect(ANSWER_MAX_BYTES).await?)?)
    }
}
