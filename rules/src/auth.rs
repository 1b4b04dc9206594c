//! Headers that say who sends a request: `Authorization`, and those of the settings.
//!
//! Guarantees: a secret in a file is read again for a request that is sent a minute or more after
//! it was read last, so that it can be changed without a start. No error and no debug output shows
//! a secret. AWS signatures depend on the whole request and are not made here.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use logsvc_runtime::{Monotonic, Runtime};

use crate::config::{ClientAuth, HttpConfig, SecretSource};

/// How long a secret out of a file is used before the file is read again.
const SECRET_MAX_AGE: Duration = Duration::from_secs(60);

/// Longest file with a secret, in bytes.
const SECRET_MAX_BYTES: usize = 64 << 10;

/// Why a request cannot say who sends it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AuthError {
    /// The name or the value of a header is none.
    #[error("invalid header {0:?}")]
    Header(String),
    /// The file with the secret cannot be read.
    #[error("unable to read the secret file {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The secret has bytes that no header may have.
    #[error("the credentials do not fit into a header")]
    Credentials,
}

/// Makes the headers of requests by their settings.
pub struct RequestAuth<R> {
    runtime: R,
    auth: ClientAuth,
    headers: HeaderMap,
    /// The secret of a file, and when it was read.
    read: RefCell<Option<(Monotonic, String)>>,
}

impl<R> fmt::Debug for RequestAuth<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestAuth").field("auth", &self.auth).finish_non_exhaustive()
    }
}

impl<R: Runtime> RequestAuth<R> {
    /// For requests with these settings. Reads no file yet.
    ///
    /// # Errors
    /// [`AuthError::Header`] for headers that are none.
    pub fn new(runtime: R, config: &HttpConfig) -> Result<RequestAuth<R>, AuthError> {
        let headers = configured_headers(config)?;
        Ok(RequestAuth { runtime, auth: config.auth.clone(), headers, read: RefCell::default() })
    }

    /// Whether the settings say nothing of who sends the requests.
    pub fn is_anonymous(&self) -> bool {
        self.auth == ClientAuth::None
    }

    /// The headers of a request that is sent at this moment. `Authorization` is missing for nobody
    /// and for AWS signatures.
    ///
    /// # Errors
    /// [`AuthError::File`] and [`AuthError::Credentials`]; the next request may succeed.
    pub async fn headers(&self) -> Result<HeaderMap, AuthError> {
        let value = match &self.auth {
            ClientAuth::None | ClientAuth::SigV4(_) => None,
            ClientAuth::Basic { username, password } => {
                Some(basic(username, &self.secret(password).await?))
            }
            ClientAuth::Credentials { kind, credentials } => {
                let kind = if kind.is_empty() { "Bearer" } else { kind.trim() };
                Some(authorization(&format!("{kind} {}", self.secret(credentials).await?))?)
            }
        };
        let mut headers = self.headers.clone();
        if let Some(value) = value {
            headers.insert(AUTHORIZATION, value);
        }
        Ok(headers)
    }

    async fn secret(&self, source: &SecretSource) -> Result<String, AuthError> {
        let path = match source {
            SecretSource::Inline(secret) => return Ok(secret.0.clone()),
            SecretSource::File(path) => path,
        };
        let now = self.runtime.now();
        if let Some((read_at, secret)) = &*self.read.borrow()
            && now.since(*read_at) < SECRET_MAX_AGE
        {
            return Ok(secret.clone());
        }
        let secret = self.read_secret(path).await?;
        self.read.replace(Some((now, secret.clone())));
        Ok(secret)
    }

    async fn read_secret(&self, path: &Path) -> Result<String, AuthError> {
        let failed = |reason: String| AuthError::File { path: path.to_owned(), reason };
        let read = self.runtime.read_file(path, SECRET_MAX_BYTES).await;
        let bytes = read.map_err(|error| failed(error.to_string()))?;
        let text = String::from_utf8(bytes).map_err(|_| failed("it is not UTF-8".to_owned()))?;
        Ok(text.trim().to_owned())
    }
}

/// The headers that the settings name.
///
/// # Errors
/// [`AuthError::Header`] with the first name that does not fit.
pub fn configured_headers(config: &HttpConfig) -> Result<HeaderMap, AuthError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &config.headers {
        let bad = || AuthError::Header(name.clone());
        let key = HeaderName::try_from(name).map_err(|_| bad())?;
        let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
        value.set_sensitive(true);
        headers.append(key, value);
    }
    Ok(headers)
}

/// The value of `Authorization` for a name with a password.
pub fn basic(username: &str, password: &str) -> HeaderValue {
    let encoded = STANDARD.encode(format!("{username}:{password}"));
    authorization(&format!("Basic {encoded}")).expect("base64 fits into a header")
}

fn authorization(text: &str) -> Result<HeaderValue, AuthError> {
    let mut value = HeaderValue::try_from(text).map_err(|_| AuthError::Credentials)?;
    value.set_sensitive(true);
    Ok(value)
}
