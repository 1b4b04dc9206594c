//! Where alerts go: the settings of the node, and those of a tenant, which replace them.

use std::path::PathBuf;
use std::time::Duration;

use logsvc_rules::config::{
    AlertmanagerConfig, ClientAuth, ClientTls, HttpConfig, RelabelConfig, Secret, SecretSource,
};
use serde_json::Value;

use super::sections::{count, duration, each, text, truth};
use super::urls::{Urls, without_user};
use super::written::Written;

/// How Alertmanagers are reached.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AlertmanagerSettings {
    /// Their addresses.
    pub(crate) urls: Urls,
    /// Whether their hosts are SRV records.
    pub(crate) discovery: bool,
    /// How often names are resolved anew.
    pub(crate) refresh_interval: Duration,
    /// Whether version 2 of the API is wanted; there is no other.
    pub(crate) wants_v2: bool,
    /// Most alerts that wait.
    pub(crate) queue_capacity: usize,
    /// Longest request.
    pub(crate) timeout: Duration,
    /// What becomes of labels on the way.
    pub(crate) relabel_configs: Written<Vec<RelabelConfig>>,
    /// Who one is, and TLS.
    pub(crate) client: NotifierClient,
}

/// `alertmanager_client`. An empty text is not set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NotifierClient {
    /// File with one's own certificate.
    pub(crate) tls_cert_path: String,
    /// File with its key.
    pub(crate) tls_key_path: String,
    /// File with the authorities that are trusted.
    pub(crate) tls_ca_path: String,
    /// The name in the server's certificate.
    pub(crate) tls_server_name: String,
    /// Whether any certificate will do.
    pub(crate) tls_insecure_skip_verify: bool,
    /// Name for basic authentication.
    pub(crate) username: String,
    /// Its password.
    pub(crate) password: Secret,
    /// Type of the credentials.
    pub(crate) kind: String,
    /// Credentials.
    pub(crate) credentials: Secret,
    /// File with credentials.
    pub(crate) credentials_file: String,
}

/// The settings of a tenant; they are checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TenantAlertmanager(pub(super) AlertmanagerConfig);

impl Default for AlertmanagerSettings {
    fn default() -> AlertmanagerSettings {
        let AlertmanagerConfig { refresh_interval, queue_capacity, timeout, .. } =
            AlertmanagerConfig::default();
        AlertmanagerSettings {
            urls: Urls::default(),
            discovery: false,
            refresh_interval,
            wants_v2: true,
            queue_capacity,
            timeout,
            relabel_configs: Written::default(),
            client: NotifierClient::default(),
        }
    }
}

impl Default for NotifierClient {
    fn default() -> NotifierClient {
        NotifierClient {
            tls_cert_path: String::new(),
            tls_key_path: String::new(),
            tls_ca_path: String::new(),
            tls_server_name: String::new(),
            tls_insecure_skip_verify: false,
            username: String::new(),
            password: Secret::default(),
            kind: "Bearer".to_owned(),
            credentials: Secret::default(),
            credentials_file: String::new(),
        }
    }
}

impl AlertmanagerSettings {
    /// The settings in the form of the ruler.
    ///
    /// # Errors
    /// They contradict each other. The text begins with a key.
    pub(super) fn config(&self) -> Result<AlertmanagerConfig, String> {
        let mut http =
            self.client.http().map_err(|error| format!("alertmanager_client: {error}"))?;
        let mut urls = Vec::new();
        let mut users = Vec::new();
        for url in self.urls.iter() {
            let (url, user) = without_user(url);
            urls.push(url);
            users.push(user);
        }
        users.dedup();
        if http.auth == ClientAuth::None {
            http.auth = match users.as_slice() {
                [] | [None] => ClientAuth::None,
                [Some(user)] => user.clone(),
                _ => {
                    return Err("alertmanager_url: all addresses need the same user and password"
                        .to_owned());
                }
            };
        }
        if self.discovery {
            let bad = urls.iter().find(|url| !has_srv_host(url));
            if let Some(url) = bad {
                return Err(format!(
                    "alertmanager_url: when enable_alertmanager_discovery is on, the host name \
                     must be of the form _portname._tcp.service.fqdn (is {url:?})"
                ));
            }
        }
        if self.queue_capacity == 0 {
            return Err("notification_queue_capacity: must be more than 0".to_owned());
        }
        for (time, key) in [
            (self.timeout, "notification_timeout"),
            (self.refresh_interval, "alertmanager_refresh_interval"),
        ] {
            if time.is_zero() {
                return Err(format!("{key}: must be more than 0"));
            }
        }
        Ok(AlertmanagerConfig {
            urls,
            discovery: self.discovery,
            refresh_interval: self.refresh_interval,
            queue_capacity: self.queue_capacity,
            timeout: self.timeout,
            http,
            alert_relabel_configs: self.relabel_configs.meaning().clone(),
        })
    }
}

/// Whether the host of an address is the name of an SRV record.
fn has_srv_host(url: &str) -> bool {
    let uri = url.parse::<http::Uri>().ok();
    let host = uri.as_ref().and_then(http::Uri::host).unwrap_or_default();
    let mut names = host.split('.');
    names.next().is_some_and(|name| name.len() > 1 && name.starts_with('_'))
        && names.next() == Some("_tcp")
        && names.next().is_some_and(|name| !name.is_empty())
}

impl NotifierClient {
    fn http(&self) -> Result<HttpConfig, String> {
        let path = |path: &str| (!path.is_empty()).then(|| PathBuf::from(path));
        let credentials = match (self.credentials.0.is_empty(), path(&self.credentials_file)) {
            (true, None) => None,
            (false, None) => Some(SecretSource::Inline(self.credentials.clone())),
            (true, Some(file)) => Some(SecretSource::File(file)),
            (false, Some(_)) => {
                return Err(
                    "at most one of credentials and credentials_file must be set".to_owned()
                );
            }
        };
        let has_user = !self.username.is_empty() || !self.password.0.is_empty();
        let auth = match credentials {
            Some(_) if has_user => {
                return Err(
                    "at most one of basic_auth_username and credentials must be set".to_owned()
                );
            }
            Some(credentials) => ClientAuth::Credentials { kind: self.kind.clone(), credentials },
            None if has_user => ClientAuth::Basic {
                username: self.username.clone(),
                password: SecretSource::Inline(self.password.clone()),
            },
            None => ClientAuth::None,
        };
        let tls = ClientTls {
            ca_file: path(&self.tls_ca_path),
            cert_file: path(&self.tls_cert_path),
            key_file: path(&self.tls_key_path),
            server_name: self.tls_server_name.clone(),
            insecure_skip_verify: self.tls_insecure_skip_verify,
        };
        if tls.cert_file.is_some() != tls.key_file.is_some() {
            return Err("tls_cert_path and tls_key_path go together".to_owned());
        }
        Ok(HttpConfig { auth, tls, ..HttpConfig::default() })
    }

    fn read(json: &Value) -> Result<NotifierClient, String> {
        const KEYS: [&str; 12] = [
            "tls_cert_path",
            "tls_key_path",
            "tls_ca_path",
            "tls_server_name",
            "tls_insecure_skip_verify",
            "basic_auth_username",
            "basic_auth_password",
            "type",
            "credentials",
            "credentials_file",
            // TLS 1.2 and 1.3 are spoken, with all their usual suites.
            "tls_cipher_suites",
            "tls_min_version",
        ];
        let mut client = NotifierClient::default();
        each(json, &KEYS, |key, value| {
            match key {
                "tls_cert_path" => client.tls_cert_path = text(value)?,
                "tls_key_path" => client.tls_key_path = text(value)?,
                "tls_ca_path" => client.tls_ca_path = text(value)?,
                "tls_server_name" => client.tls_server_name = text(value)?,
                "tls_insecure_skip_verify" => client.tls_insecure_skip_verify = truth(value)?,
                "basic_auth_username" => client.username = text(value)?,
                "basic_auth_password" => client.password = Secret(text(value)?),
                "type" => client.kind = text(value)?,
                "credentials" => client.credentials = Secret(text(value)?),
                "credentials_file" => client.credentials_file = text(value)?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(client)
    }
}

impl TenantAlertmanager {
    /// Reads the settings of a tenant, which begin with the defaults: they replace those of the
    /// node as a whole.
    ///
    /// # Errors
    /// The first fault, with its key.
    pub(super) fn of(json: &Value) -> Result<TenantAlertmanager, String> {
        const KEYS: [&str; 8] = [
            "alertmanager_url",
            "enable_alertmanager_discovery",
            "alertmanager_refresh_interval",
            "enable_alertmanager_v2",
            "alert_relabel_configs",
            "notification_queue_capacity",
            "notification_timeout",
            "alertmanager_client",
        ];
        let mut settings = AlertmanagerSettings::default();
        each(json, &KEYS, |key, value| {
            match key {
                "alertmanager_url" => settings.urls.set(&text(value)?)?,
                "enable_alertmanager_discovery" => settings.discovery = truth(value)?,
                "alertmanager_refresh_interval" => settings.refresh_interval = duration(value)?,
                "enable_alertmanager_v2" => settings.wants_v2 = truth(value)?,
                "alert_relabel_configs" => settings.relabel_configs = Written::of_json(value)?,
                "notification_queue_capacity" => settings.queue_capacity = count(value)?,
                "notification_timeout" => settings.timeout = duration(value)?,
                _ => settings.client = NotifierClient::read(value)?,
            }
            Ok(())
        })?;
        // Zeros are defaults, as in Loki.
        let default = AlertmanagerSettings::default();
        if settings.refresh_interval.is_zero() {
            settings.refresh_interval = default.refresh_interval;
        }
        if settings.timeout.is_zero() {
            settings.timeout = default.timeout;
        }
        if settings.queue_capacity == 0 {
            settings.queue_capacity = default.queue_capacity;
        }
        Ok(TenantAlertmanager(settings.config()?))
    }
}
