//! Requests to one receiver: address, headers, who one is.

use std::rc::Rc;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use http::{HeaderMap, Method, Uri};
use logsvc_proto::TenantId;
use logsvc_runtime::Runtime;

use super::sigv4::{Key, Signed, sign};
use super::wire::Version;
use crate::auth::RequestAuth;
use crate::config::{ClientAuth, RemoteClientConfig, SigV4Config};
use crate::notify::Connect;
use crate::transport::{OutgoingAnswer, OutgoingRequest, Transport, TransportError};

/// The service of AWS that takes remote write.
const AWS_SERVICE: &str = "aps";

/// Makes and sends requests by the settings of a receiver.
pub(super) struct Requests<R, T> {
    runtime: R,
    uri: Uri,
    auth: RequestAuth<R>,
    aws: Option<AwsKey>,
    transport: Rc<T>,
}

/// An answer, whatever its status, or none.
pub(super) type Answer = Result<OutgoingAnswer, TransportError>;

impl<R: Runtime, T: Transport> Requests<R, T> {
    /// By settings.
    ///
    /// # Errors
    /// A text for the log: settings are wrong, or a file of theirs cannot be read.
    pub(super) async fn new(
        runtime: &R,
        connect: &impl Connect<Transport = T>,
        config: &RemoteClientConfig,
    ) -> Result<Requests<R, T>, String> {
        let uri: Uri = config.url.parse().map_err(|error| format!("invalid URL: {error}"))?;
        let auth = RequestAuth::new(runtime.clone(), &config.http);
        let aws = match &config.http.auth {
            ClientAuth::SigV4(config) => Some(AwsKey::new(config)?),
            _ => None,
        };
        Ok(Requests {
            runtime: runtime.clone(),
            uri,
            auth: auth.map_err(|error| error.to_string())?,
            aws,
            transport: connect.transport(&config.http).await.map_err(|error| error.to_string())?,
        })
    }

    /// Sends a compressed body.
    ///
    /// # Errors
    /// A text for the log: the request cannot be made.
    pub(super) async fn send(
        &self,
        version: Version,
        body: Vec<u8>,
        config: &RemoteClientConfig,
        org_id: Option<&TenantId>,
    ) -> Result<Answer, String> {
        let mut headers = self.auth.headers().await.map_err(|error| error.to_string())?;
        if let Some(org_id) = org_id {
            put(&mut headers, HeaderName::from_static("x-scope-orgid"), org_id.as_str())?;
        }
        put(&mut headers, CONTENT_TYPE, version.content_type())?;
        put(&mut headers, CONTENT_ENCODING, "snappy")?;
        let name = HeaderName::from_static("x-prometheus-remote-write-version");
        put(&mut headers, name, version.number())?;
        if let Some(key) = &self.aws {
            let signed = Signed {
                method: "POST",
                uri: &self.uri,
                body: &body,
                unix_seconds: self.runtime.unix_nanos().div_euclid(1_000_000_000),
            };
            for (name, value) in sign(key.key(), signed) {
                put(&mut headers, HeaderName::from_static(name), &value)?;
            }
        }
        let request = OutgoingRequest {
            method: Method::POST,
            url: config.url.clone(),
            headers,
            body,
            timeout: config.remote_timeout,
        };
        Ok(self.transport.send(request).await)
    }
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) -> Result<(), String> {
    let value = HeaderValue::from_str(value)
        .map_err(|_| format!("the header {name} cannot have its value"))?;
    headers.insert(name, value);
    Ok(())
}

/// A key with all that the settings leave to the environment.
struct AwsKey {
    region: String,
    access_key: String,
    secret_key: String,
    session_token: String,
}

impl AwsKey {
    fn new(config: &SigV4Config) -> Result<AwsKey, String> {
        AwsKey::with(config, |name| std::env::var(name).ok())
    }

    fn with(
        config: &SigV4Config,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<AwsKey, String> {
        let or_variable = |text: &str, name: &str| match text {
            "" => variable(name)
                .filter(|value| !value.is_empty())
                .ok_or_else(|| format!("sigv4: neither the settings nor {name} say what to use")),
            text => Ok(text.to_owned()),
        };
        let secret_key = config.secret_key.as_ref().map_or("", |secret| &secret.0);
        // A session belongs to the key of the environment alone.
        let session_token = if config.access_key.is_empty() {
            variable("AWS_SESSION_TOKEN").unwrap_or_default()
        } else {
            String::new()
        };
        Ok(AwsKey {
            region: or_variable(&config.region, "AWS_REGION")?,
            access_key: or_variable(&config.access_key, "AWS_ACCESS_KEY_ID")?,
            secret_key: or_variable(secret_key, "AWS_SECRET_ACCESS_KEY")?,
            session_token,
        })
    }

    fn key(&self) -> Key<'_> {
        Key {
            access_key: &self.access_key,
            secret_key: &self.secret_key,
            session_token: &self.session_token,
            region: &self.region,
            service: AWS_SERVICE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;

    #[test]
    fn the_environment_has_what_the_settings_leave_out() {
        let variable = |name: &str| Some(format!("<{name}>"));
        let key = AwsKey::with(&SigV4Config::default(), variable).unwrap();
        assert_eq!(key.region, "<AWS_REGION>");
        assert_eq!(key.access_key, "<AWS_ACCESS_KEY_ID>");
        assert_eq!(key.secret_key, "<AWS_SECRET_ACCESS_KEY>");
        assert_eq!(key.session_token, "<AWS_SESSION_TOKEN>");
        let config = SigV4Config {
            region: "r".to_owned(),
            access_key: "a".to_owned(),
            secret_key: Some(Secret("s".to_owned())),
        };
        let key = AwsKey::with(&config, variable).unwrap();
        assert_eq!((&*key.region, &*key.access_key, &*key.secret_key), ("r", "a", "s"));
        assert_eq!(key.session_token, "");
        let missing = AwsKey::with(&SigV4Config::default(), |_| None).err().unwrap();
        assert!(missing.contains("AWS_REGION"), "{missing}");
    }
}
