//! Requests with a token, which is renewed as needed.
//!
//! Guarantees: a core makes one exchange at a time, and all requests that need its token wait for
//! it. A token is renewed ahead of its end. An answer of 401 renews it too, once for each request.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::{LocalBoxFuture, Shared};
use http::{HeaderMap, Method, StatusCode};
use logsvc_http::client::{Client, ClientRequest, ClientResponse, Target};
use logsvc_runtime::{Dial, Monotonic, Runtime};

use super::config::SwiftConfig;
use super::errors::{of_client, of_status};
use super::exchange::{self, Granted, TOKEN};
use crate::bucket::{BucketError, Reason};

/// The longest answer to an exchange: catalogues of large providers have some 100 KB.
const EXCHANGE_MAX_BYTES: u64 = 4 << 20;
/// The longest answer that is not an object or a listing.
const TEXT_MAX_BYTES: u64 = 64 << 10;
/// How long an exchange may take.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(30);
/// A token is renewed so long before its end, or in the last tenth of its life.
const AHEAD_MAX: Duration = Duration::from_secs(300);
/// The life of a token that tells none.
const LIFE: Duration = Duration::from_secs(3_600);

/// A request without its token, which may be sent twice.
pub(super) struct Ask {
    pub(super) method: Method,
    /// Behind the address of the account: begins with `/`.
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The longest body of an answer.
    pub(super) max_bytes: u64,
}

impl Ask {
    pub(super) fn new(method: Method, path: String) -> Ask {
        let (headers, body) = (HeaderMap::new(), Bytes::new());
        Ask { method, path, headers, body, max_bytes: TEXT_MAX_BYTES }
    }
}

/// A token, and the moment from which another one is wanted.
#[derive(Debug)]
struct Session {
    granted: Granted,
    renew_at: Monotonic,
}

type Exchange = Shared<LocalBoxFuture<'static, Result<Rc<Session>, BucketError>>>;

/// See the module. Stays on its core.
pub(super) struct Sessions<R, D: Dial> {
    runtime: R,
    client: Client<R, D>,
    config: Rc<SwiftConfig>,
    /// The last exchange, which may be under way.
    exchange: RefCell<Option<Exchange>>,
}

impl<R: Runtime, D: Dial> Sessions<R, D> {
    pub(super) fn new(runtime: R, client: Client<R, D>, config: SwiftConfig) -> Sessions<R, D> {
        Sessions { runtime, client, config: Rc::new(config), exchange: RefCell::new(None) }
    }

    /// Sends a request, and gives the answer if it is good. The statuses of errors are those of
    /// [`of_status`].
    pub(super) async fn send(&self, ask: &Ask) -> Result<ClientResponse<R, D>, BucketError> {
        let mut session = self.session(None).await?;
        let mut is_second = false;
        loop {
            let answer = self.send_with(&session, ask).await?;
            if answer.status == StatusCode::UNAUTHORIZED && !is_second {
                is_second = true;
                session = self.session(Some(&session)).await?;
                continue;
            }
            if answer.status.is_success() {
                return Ok(answer);
            }
            let status = answer.status;
            // The status says enough if its text is cut off.
            let text = answer.collect(TEXT_MAX_BYTES as usize).await.unwrap_or_else(|_| Vec::new());
            return Err(of_status(status, &text));
        }
    }

    /// Sends a request, and gives the body of its answer.
    pub(super) async fn fetch(&self, ask: &Ask) -> Result<(HeaderMap, Vec<u8>), BucketError> {
        let answer = self.send(ask).await?;
        let headers = answer.headers.clone();
        let max_bytes = usize::try_from(ask.max_bytes).unwrap_or(usize::MAX);
        Ok((headers, answer.collect(max_bytes).await.map_err(of_client)?))
    }

    async fn send_with(
        &self,
        session: &Session,
        ask: &Ask,
    ) -> Result<ClientResponse<R, D>, BucketError> {
        let url = format!("{}{}", session.granted.storage_url, ask.path);
        let target =
            Target::parse(&url).map_err(|error| BucketError::Refused(Reason(error.to_string())))?;
        let mut request = ClientRequest::new(ask.method.clone(), target);
        request.headers = ask.headers.clone();
        request.headers.insert(TOKEN, session.granted.token.clone());
        // Whoever reads the body has a bound.
        request.max_body_bytes = Some(u64::MAX);
        if ask.method == Method::PUT {
            request = request.with_shared_body(ask.body.clone());
            // The store tries again, and has to know of each attempt.
            request.may_repeat = Some(false);
        }
        self.client.send(request).await.map_err(of_client)
    }

    /// A token that counts for a while, other than the one that was refused.
    async fn session(&self, refused: Option<&Rc<Session>>) -> Result<Rc<Session>, BucketError> {
        let exchange = {
            let mut slot = self.exchange.borrow_mut();
            let is_good = |exchange: &Exchange| match exchange.peek() {
                // It is under way.
                None => true,
                Some(Ok(session)) => {
                    self.runtime.now() < session.renew_at
                        && refused.is_none_or(|refused| !Rc::ptr_eq(refused, session))
                }
                Some(Err(_)) => false,
            };
            match slot.as_ref().filter(|exchange| is_good(exchange)) {
                Some(exchange) => exchange.clone(),
                None => slot.insert(self.begin()).clone(),
            }
        };
        exchange.await
    }

    /// An exchange. It goes on when those who wait for it change.
    fn begin(&self) -> Exchange {
        let (runtime, client) = (self.runtime.clone(), self.client.clone());
        let config = Rc::clone(&self.config);
        let exchange = async move {
            let refused = |text: String| BucketError::Refused(Reason(text));
            let mut request = exchange::request(&config).map_err(refused)?;
            request.timeout = Some(EXCHANGE_TIMEOUT);
            request.max_body_bytes = Some(EXCHANGE_MAX_BYTES);
            let answer = client.send(request).await.map_err(of_client)?;
            let (status, headers) = (answer.status, answer.headers.clone());
            let body = answer.collect(EXCHANGE_MAX_BYTES as usize).await.map_err(of_client)?;
            if !status.is_success() {
                return Err(match of_status(status, &body) {
                    BucketError::NotFound => refused(format!("{status} from auth_url")),
                    error => error,
                });
            }
            let granted = exchange::granted(&config, &headers, &body, runtime.unix_nanos());
            let granted = granted.map_err(|error| refused(format!("auth_url: {error}")))?;
            let life = granted
                .life_ns
                .map_or(LIFE, |life_ns| Duration::from_nanos(u64::try_from(life_ns).unwrap_or(0)));
            let renew_at = runtime.now().after(life - AHEAD_MAX.min(life / 10));
            Ok(Rc::new(Session { granted, renew_at }))
        };
        exchange.boxed_local().shared()
    }
}
