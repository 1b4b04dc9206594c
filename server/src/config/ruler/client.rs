//! Clients of remote write, in the form that Prometheus has for them (`remote_write`).
//!
//! A [`ClientChange`] has what was written, and puts it over other settings: over the defaults for
//! a receiver of the node, and over such a receiver for a tenant. Keys of Prometheus without a
//! meaning here are accepted. Keys that a receiver could not do without, such as other kinds of
//! authentication, are errors.

use std::path::PathBuf;
use std::time::Duration;

use logsvc_rules::config::{
    ClientAuth, ClientTls, RelabelConfig, RemoteClientConfig, Secret, SecretSource, SigV4Config,
};
use serde_json::Value;

use super::relabel;
use super::sections::{count, duration, each, list, section, some_time, text, truth};
use super::urls;
use super::written::{Headers, Meaning, check_header};

/// Keys that mean something here.
const KEYS: [&str; 34] = [
    "url",
    "name",
    "remote_timeout",
    "headers",
    "http_headers",
    "write_relabel_configs",
    "basic_auth",
    "authorization",
    "bearer_token",
    "bearer_token_file",
    "sigv4",
    "tls_config",
    "proxy_url",
    "protobuf_message",
    "queue_config",
    "no_proxy",
    // What nobody can do without, if it is set.
    "oauth2",
    "azuread",
    "google_iam",
    "proxy_connect_header",
    // What changes nothing that is sent here.
    "metadata_config",
    "send_exemplars",
    "send_native_histograms",
    "round_robin_dns",
    "proxy_from_environment",
    "follow_redirects",
    "enable_http2",
    "enable_http3",
    "enable_compression",
    "scheme",
    "role",
    "chunked_read_limit",
    "required_matchers",
    "filter_external_labels",
];

/// What was written of a client. `None`: nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClientChange {
    /// The address, maybe with a user name and a password.
    pub(super) url: Option<String>,
    pub(super) name: Option<String>,
    remote_timeout: Option<Duration>,
    auth: Option<ClientAuth>,
    tls: Option<ClientTls>,
    headers: Option<Vec<(String, String)>>,
    proxy_url: Option<String>,
    write_relabel_configs: Option<Vec<RelabelConfig>>,
    prefers_v2: Option<bool>,
    queue: QueueChange,
}

/// What was written of `queue_config`.
#[derive(Clone, Debug, Default, PartialEq)]
struct QueueChange {
    max_samples_per_send: Option<usize>,
    batch_send_deadline: Option<Duration>,
    min_backoff: Option<Duration>,
    max_backoff: Option<Duration>,
    retry_on_http_429: Option<bool>,
}

impl ClientChange {
    /// Reads a client.
    ///
    /// # Errors
    /// The first fault, with its key.
    pub(super) fn of(json: &Value) -> Result<ClientChange, String> {
        let mut client = ClientChange::default();
        each(json, &KEYS, |key, value| client.read(key, value))?;
        Ok(client)
    }

    fn read(&mut self, key: &str, value: &Value) -> Result<(), String> {
        match key {
            "url" => self.url = Some(url(value)?),
            "name" => self.name = Some(text(value)?),
            "remote_timeout" => self.remote_timeout = Some(some_time(value)?),
            "headers" => {
                let Headers(headers) = Headers::of(value)?;
                self.headers.get_or_insert_default().extend(headers);
            }
            "http_headers" => self.headers.get_or_insert_default().extend(http_headers(value)?),
            "write_relabel_configs" => self.write_relabel_configs = Some(relabel::rules(value)?),
            "basic_auth" => self.set_auth(basic_auth(value)?)?,
            "authorization" => self.set_auth(authorization(value)?)?,
            "bearer_token" => self.set_auth(bearer(inline(value)?))?,
            "bearer_token_file" => self.set_auth(bearer(file(value)?))?,
            "sigv4" => self.set_auth(ClientAuth::SigV4(sigv4(value)?))?,
            "tls_config" => self.tls = Some(tls(value)?),
            "proxy_url" => self.proxy_url = Some(url(value)?),
            "protobuf_message" => self.prefers_v2 = Some(is_v2(value)?),
            "queue_config" => self.queue = QueueChange::of(value)?,
            "no_proxy" if text(value)?.is_empty() => {}
            "no_proxy" => return Err("set NO_PROXY in the environment instead".to_owned()),
            "oauth2" | "azuread" | "google_iam" | "proxy_connect_header" => {
                return Err("this server cannot do that".to_owned());
            }
            _ => {}
        }
        Ok(())
    }

    fn set_auth(&mut self, auth: ClientAuth) -> Result<(), String> {
        if self.auth.is_some() {
            return Err("at most one of basic_auth, authorization, bearer_token, \
                        bearer_token_file and sigv4 must be configured"
                .to_owned());
        }
        self.auth = Some(auth);
        Ok(())
    }

    /// Puts what was written over the settings of a client. The address may still have a user.
    pub(super) fn apply(&self, client: &mut RemoteClientConfig) {
        fn put<T: Clone>(to: &mut T, from: Option<&T>) {
            if let Some(from) = from {
                *to = from.clone();
            }
        }
        put(&mut client.url, self.url.as_ref());
        put(&mut client.name, self.name.as_ref());
        put(&mut client.remote_timeout, self.remote_timeout.as_ref());
        put(&mut client.http.auth, self.auth.as_ref());
        put(&mut client.http.tls, self.tls.as_ref());
        put(&mut client.http.headers, self.headers.as_ref());
        put(&mut client.http.proxy_url, self.proxy_url.as_ref());
        put(&mut client.write_relabel_configs, self.write_relabel_configs.as_ref());
        put(&mut client.prefers_v2, self.prefers_v2.as_ref());
        let (queue, from) = (&mut client.queue, &self.queue);
        put(&mut queue.max_samples_per_send, from.max_samples_per_send.as_ref());
        put(&mut queue.batch_send_deadline, from.batch_send_deadline.as_ref());
        put(&mut queue.min_backoff, from.min_backoff.as_ref());
        put(&mut queue.max_backoff, from.max_backoff.as_ref());
        put(&mut queue.retry_on_http_429, from.retry_on_http_429.as_ref());
    }
}

impl QueueChange {
    fn of(json: &Value) -> Result<QueueChange, String> {
        const KEYS: [&str; 10] = [
            "max_samples_per_send",
            "batch_send_deadline",
            "min_backoff",
            "max_backoff",
            "retry_on_http_429",
            // Samples wait in a file, and a receiver gets them one request after the other.
            "capacity",
            "max_shards",
            "min_shards",
            "sample_age_limit",
            "max_retries",
        ];
        let mut queue = QueueChange::default();
        each(json, &KEYS, |key, value| {
            match key {
                "max_samples_per_send" => match count(value)? {
                    0 => return Err("must be more than 0".to_owned()),
                    most => queue.max_samples_per_send = Some(most),
                },
                "batch_send_deadline" => queue.batch_send_deadline = Some(duration(value)?),
                "min_backoff" => queue.min_backoff = Some(some_time(value)?),
                "max_backoff" => queue.max_backoff = Some(some_time(value)?),
                "retry_on_http_429" => queue.retry_on_http_429 = Some(truth(value)?),
                _ => {}
            }
            Ok(())
        })?;
        Ok(queue)
    }
}

fn url(value: &Value) -> Result<String, String> {
    let url = text(value)?;
    urls::check(&url)?;
    Ok(url)
}

fn inline(value: &Value) -> Result<SecretSource, String> {
    Ok(SecretSource::Inline(Secret(text(value)?)))
}

fn file(value: &Value) -> Result<SecretSource, String> {
    Ok(SecretSource::File(PathBuf::from(text(value)?)))
}

fn bearer(credentials: SecretSource) -> ClientAuth {
    ClientAuth::Credentials { kind: "Bearer".to_owned(), credentials }
}

/// Sets a source that may be set once.
fn set_once(slot: &mut Option<SecretSource>, source: SecretSource) -> Result<(), String> {
    match slot.replace(source) {
        None => Ok(()),
        Some(_) => Err("a secret and its file must not both be configured".to_owned()),
    }
}

const NO_SECRETS_STORE: &str = "there is no store of secrets";

fn basic_auth(value: &Value) -> Result<ClientAuth, String> {
    const KEYS: [&str; 6] =
        ["username", "password", "password_file", "username_file", "username_ref", "password_ref"];
    let (mut username, mut password) = (String::new(), None);
    each(value, &KEYS, |key, value| match key {
        "username" => {
            username = text(value)?;
            Ok(())
        }
        "password" => set_once(&mut password, inline(value)?),
        "password_file" => set_once(&mut password, file(value)?),
        "username_file" => Err("write the name itself, as username".to_owned()),
        _ => Err(NO_SECRETS_STORE.to_owned()),
    })?;
    let password = password.unwrap_or(SecretSource::Inline(Secret::default()));
    Ok(ClientAuth::Basic { username, password })
}

fn authorization(value: &Value) -> Result<ClientAuth, String> {
    const KEYS: [&str; 4] = ["type", "credentials", "credentials_file", "credentials_ref"];
    let (mut kind, mut credentials) = ("Bearer".to_owned(), None);
    each(value, &KEYS, |key, value| match key {
        "type" => {
            kind = text(value)?.trim().to_owned();
            if kind.eq_ignore_ascii_case("basic") {
                return Err("cannot be \"basic\", use basic_auth instead".to_owned());
            }
            check_header("X-Type", &kind).map_err(|_| "is not a word".to_owned())
        }
        "credentials" => set_once(&mut credentials, inline(value)?),
        "credentials_file" => set_once(&mut credentials, file(value)?),
        _ => Err(NO_SECRETS_STORE.to_owned()),
    })?;
    let credentials = credentials.unwrap_or(SecretSource::Inline(Secret::default()));
    Ok(ClientAuth::Credentials { kind, credentials })
}

/// Reads the settings of a signature.
///
/// # Errors
/// The first fault, with its key.
pub(super) fn sigv4(value: &Value) -> Result<SigV4Config, String> {
    const KEYS: [&str; 8] = [
        "region",
        "access_key",
        "secret_key",
        "profile",
        "role_arn",
        "external_id",
        "use_fips_sts_endpoint",
        "service_name",
    ];
    let mut config = SigV4Config::default();
    each(value, &KEYS, |key, value| {
        let value = text(value)?;
        match key {
            "region" => config.region = value,
            "access_key" => config.access_key = value,
            "secret_key" if value.is_empty() => {}
            "secret_key" => config.secret_key = Some(Secret(value)),
            "service_name" if value == "aps" || value.is_empty() => {}
            "service_name" => return Err("requests are signed for the service aps".to_owned()),
            "use_fips_sts_endpoint" => {}
            _ if value.is_empty() => {}
            _ => {
                return Err("credentials come from the settings or from AWS_ACCESS_KEY_ID and \
                            AWS_SECRET_ACCESS_KEY in the environment"
                    .to_owned());
            }
        }
        Ok(())
    })?;
    if config.access_key.is_empty() != config.secret_key.is_none() {
        return Err("access_key and secret_key go together".to_owned());
    }
    Ok(config)
}

fn tls(value: &Value) -> Result<ClientTls, String> {
    const KEYS: [&str; 13] = [
        "ca_file",
        "cert_file",
        "key_file",
        "server_name",
        "insecure_skip_verify",
        "min_version",
        "max_version",
        "ca",
        "cert",
        "key",
        "ca_ref",
        "cert_ref",
        "key_ref",
    ];
    let path = |value: &Value| -> Result<Option<PathBuf>, String> {
        Ok(Some(text(value)?).filter(|path| !path.is_empty()).map(PathBuf::from))
    };
    let mut tls = ClientTls::default();
    each(value, &KEYS, |key, value| {
        match key {
            "ca_file" => tls.ca_file = path(value)?,
            "cert_file" => tls.cert_file = path(value)?,
            "key_file" => tls.key_file = path(value)?,
            "server_name" => tls.server_name = text(value)?,
            "insecure_skip_verify" => tls.insecure_skip_verify = truth(value)?,
            "ca" | "cert" | "key" => return Err(format!("write it into a file: {key}_file")),
            "ca_ref" | "cert_ref" | "key_ref" => return Err(NO_SECRETS_STORE.to_owned()),
            // TLS 1.2 and 1.3 are spoken.
            _ => {}
        }
        Ok(())
    })?;
    if tls.cert_file.is_some() != tls.key_file.is_some() {
        return Err("cert_file and key_file go together".to_owned());
    }
    Ok(tls)
}

fn is_v2(value: &Value) -> Result<bool, String> {
    match text(value)?.as_str() {
        "" | "prometheus.WriteRequest" => Ok(false),
        "io.prometheus.write.v2.Request" => Ok(true),
        other => Err(format!(
            "{other:?} is neither prometheus.WriteRequest nor io.prometheus.write.v2.Request"
        )),
    }
}

/// Headers with lists of values.
fn http_headers(value: &Value) -> Result<Vec<(String, String)>, String> {
    let mut headers = Vec::new();
    for (name, header) in section(value)? {
        each(header, &["values", "secrets", "files"], |key, values| {
            if key == "files" {
                return Err("write the values themselves".to_owned());
            }
            for value in list(values)? {
                let value = text(value)?;
                check_header(name, &value)?;
                headers.push((name.clone(), value));
            }
            Ok(())
        })
        .map_err(|error| format!("{name}.{error}"))?;
    }
    headers.retain(|(name, _)| !name.eq_ignore_ascii_case("X-Scope-OrgID"));
    Ok(headers)
}
