//! Settings of the ruler, as the server reads them from its file and flags.
//!
//! The names of fields are those of Loki's and Prometheus' settings. Texts that hold secrets are
//! [`Secret`]s, which print as `<secret>`.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::shown_url::shown_url;

/// A text that no page and no log line shows.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<secret>")
    }
}

/// Who one is to a server that is asked.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum ClientAuth {
    /// Nobody.
    #[default]
    None,
    /// A name with a password.
    Basic {
        /// The name.
        username: String,
        /// The password.
        password: SecretSource,
    },
    /// The header `Authorization` with a type and credentials.
    Credentials {
        /// `Bearer` unless said otherwise.
        kind: String,
        /// The credentials.
        credentials: SecretSource,
    },
    /// AWS signature version 4, of remote write alone.
    SigV4(SigV4Config),
}

/// Where a secret is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SecretSource {
    /// In the settings.
    Inline(Secret),
    /// In a file, which is read again for each request that is sent a minute or more after it was
    /// read last.
    File(PathBuf),
}

/// AWS signature version 4.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SigV4Config {
    /// Region; empty: the environment's `AWS_REGION`.
    pub region: String,
    /// Key; empty: the environment's `AWS_ACCESS_KEY_ID`.
    pub access_key: String,
    /// Its secret; `None`: the environment's `AWS_SECRET_ACCESS_KEY`.
    pub secret_key: Option<Secret>,
}

/// How TLS is spoken to a server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientTls {
    /// PEM file of the authorities that are trusted; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// PEM file of one's own certificate.
    pub cert_file: Option<PathBuf>,
    /// PEM file of its key.
    pub key_file: Option<PathBuf>,
    /// The name that the server's certificate is for; empty: the one of the address.
    pub server_name: String,
    /// Takes any certificate.
    pub insecure_skip_verify: bool,
}

/// How a server is asked.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct HttpConfig {
    /// Who one is.
    pub auth: ClientAuth,
    /// TLS.
    pub tls: ClientTls,
    /// Headers that each request gets.
    pub headers: Vec<(String, String)>,
    /// The proxy; empty: the environment's `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`.
    pub proxy_url: String,
}

/// Without the values of headers and without the proxy, which may hold secrets.
impl fmt::Debug for HttpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("HttpConfig")
            .field("auth", &self.auth)
            .field("tls", &self.tls)
            .field("headers", &headers)
            .finish_non_exhaustive()
    }
}

/// A relabelling rule, as Prometheus has them. [`crate::config`] has the settings only.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RelabelConfig {
    /// Labels whose values are joined.
    pub source_labels: Vec<String>,
    /// Between them.
    pub separator: String,
    /// Label that is written.
    pub target_label: String,
    /// Regular expression, anchored at both ends.
    pub regex: String,
    /// Of hashmod.
    pub modulus: u64,
    /// What is written, with `$1` and the like.
    pub replacement: String,
    /// What is done.
    pub action: RelabelAction,
}

impl Default for RelabelConfig {
    fn default() -> RelabelConfig {
        RelabelConfig {
            source_labels: Vec::new(),
            separator: ";".to_owned(),
            target_label: String::new(),
            regex: "(.*)".to_owned(),
            modulus: 0,
            replacement: "$1".to_owned(),
            action: RelabelAction::Replace,
        }
    }
}

/// Actions of relabelling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum RelabelAction {
    Replace,
    Lowercase,
    Uppercase,
    Keep,
    Drop,
    KeepEqual,
    DropEqual,
    HashMod,
    LabelMap,
    LabelDrop,
    LabelKeep,
}

impl RelabelAction {
    /// The word of settings and messages.
    pub fn word(self) -> &'static str {
        match self {
            RelabelAction::Replace => "replace",
            RelabelAction::Lowercase => "lowercase",
            RelabelAction::Uppercase => "uppercase",
            RelabelAction::Keep => "keep",
            RelabelAction::Drop => "drop",
            RelabelAction::KeepEqual => "keepequal",
            RelabelAction::DropEqual => "dropequal",
            RelabelAction::HashMod => "hashmod",
            RelabelAction::LabelMap => "labelmap",
            RelabelAction::LabelDrop => "labeldrop",
            RelabelAction::LabelKeep => "labelkeep",
        }
    }
}

/// Where alerts go. Settings of the ruler, or of a tenant (`ruler_alertmanager_config`).
#[derive(Clone, PartialEq, Eq)]
pub struct AlertmanagerConfig {
    /// Addresses, with the path below which `/api/v2/alerts` is. A host may be
    /// `_service._proto.name` if `discovery` is on.
    pub urls: Vec<String>,
    /// Whether hosts are SRV records.
    pub discovery: bool,
    /// How often names are resolved anew.
    pub refresh_interval: Duration,
    /// Most alerts that wait to be sent, per tenant.
    pub queue_capacity: usize,
    /// Longest request.
    pub timeout: Duration,
    /// How it is asked.
    pub http: HttpConfig,
    /// What becomes of labels on the way.
    pub alert_relabel_configs: Vec<RelabelConfig>,
}

/// Addresses without their passwords.
impl fmt::Debug for AlertmanagerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A text may have several addresses.
        let shown = |text: &String| text.split(',').map(shown_url).collect::<Vec<_>>().join(",");
        f.debug_struct("AlertmanagerConfig")
            .field("urls", &self.urls.iter().map(shown).collect::<Vec<_>>())
            .field("discovery", &self.discovery)
            .field("refresh_interval", &self.refresh_interval)
            .field("queue_capacity", &self.queue_capacity)
            .field("timeout", &self.timeout)
            .field("http", &self.http)
            .field("alert_relabel_configs", &self.alert_relabel_configs)
            .finish()
    }
}

impl Default for AlertmanagerConfig {
    fn default() -> AlertmanagerConfig {
        AlertmanagerConfig {
            urls: Vec::new(),
            discovery: false,
            refresh_interval: Duration::from_secs(60),
            queue_capacity: 10_000,
            timeout: Duration::from_secs(10),
            http: HttpConfig::default(),
            alert_relabel_configs: Vec::new(),
        }
    }
}

/// A receiver of remote write.
#[derive(Clone, PartialEq, Eq)]
pub struct RemoteClientConfig {
    /// Its key in the map of clients.
    pub id: String,
    /// `http://` or `https://`.
    pub url: String,
    /// A name for log lines and metrics; empty: `id`.
    pub name: String,
    /// Longest request.
    pub remote_timeout: Duration,
    /// How it is asked.
    pub http: HttpConfig,
    /// What becomes of series on the way.
    pub write_relabel_configs: Vec<RelabelConfig>,
    /// Whether version 2 of the protocol is tried first.
    pub prefers_v2: bool,
    /// The queue.
    pub queue: RemoteQueueConfig,
}

/// The address without its password.
impl fmt::Debug for RemoteClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteClientConfig")
            .field("id", &self.id)
            .field("url", &shown_url(&self.url))
            .field("name", &self.name)
            .field("remote_timeout", &self.remote_timeout)
            .field("http", &self.http)
            .field("write_relabel_configs", &self.write_relabel_configs)
            .field("prefers_v2", &self.prefers_v2)
            .field("queue", &self.queue)
            .finish()
    }
}

impl Default for RemoteClientConfig {
    fn default() -> RemoteClientConfig {
        RemoteClientConfig {
            id: String::new(),
            url: String::new(),
            name: String::new(),
            remote_timeout: Duration::from_secs(30),
            http: HttpConfig::default(),
            write_relabel_configs: Vec::new(),
            prefers_v2: false,
            queue: RemoteQueueConfig::default(),
        }
    }
}

/// How samples are gathered for a receiver (`queue_config`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoteQueueConfig {
    /// Most samples of a request.
    pub max_samples_per_send: usize,
    /// How long a request waits to become full.
    pub batch_send_deadline: Duration,
    /// Pause after the first failure; each further failure doubles it.
    pub min_backoff: Duration,
    /// Longest pause.
    pub max_backoff: Duration,
    /// Whether 429 is retried; Prometheus drops the samples instead.
    pub retry_on_http_429: bool,
}

impl Default for RemoteQueueConfig {
    fn default() -> RemoteQueueConfig {
        RemoteQueueConfig {
            max_samples_per_send: 2000,
            batch_send_deadline: Duration::from_secs(5),
            min_backoff: Duration::from_millis(30),
            max_backoff: Duration::from_secs(5),
            retry_on_http_429: true,
        }
    }
}

/// Remote write of one tenant: the node's settings with those of the tenant over them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemoteWriteConfig {
    /// Whether samples are sent at all.
    pub enabled: bool,
    /// Whether requests name the tenant (`X-Scope-OrgID`).
    pub add_org_id_header: bool,
    /// All receivers; each gets all samples.
    pub clients: Vec<RemoteClientConfig>,
}

/// The log of samples that wait to be sent (`ruler.wal`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampleLogConfig {
    /// Most bytes of the log of a tenant. Beyond it the oldest samples are dropped.
    pub max_bytes: u64,
    /// Samples that have waited longer are dropped.
    pub max_age: Duration,
}

impl Default for SampleLogConfig {
    fn default() -> SampleLogConfig {
        SampleLogConfig { max_bytes: 1 << 30, max_age: Duration::from_secs(4 * 3600) }
    }
}

/// How groups are evaluated.
#[derive(Clone, PartialEq, Eq)]
pub struct EvaluationConfig {
    /// Interval of groups that name none.
    pub evaluation_interval: Duration,
    /// How often files of rules and settings of tenants are looked at again.
    pub poll_interval: Duration,
    /// Most evaluations at a time on the node; 0: twice the number of cores.
    pub max_concurrent: usize,
    /// The evaluation of each rule begins up to so much later, at random by rule.
    pub max_jitter: Duration,
    /// Most time between two sends of an alert that fires.
    pub resend_delay: Duration,
    /// A pending state older than this is not restored after a start.
    pub for_outage_tolerance: Duration,
    /// Shortest time that an alert stays pending after a start, if its `for` is longer.
    pub for_grace_period: Duration,
    /// Labels of all notifications that have none of the name, sorted by name.
    pub external_labels: Vec<(String, String)>,
    /// The address of Grafana, for links.
    pub external_url: String,
    /// The data source in Grafana, for links.
    pub datasource_uid: String,
}

impl EvaluationConfig {
    /// How many queries of rules may run at a time on a node with so many cores.
    pub fn places(&self, cores: u16) -> usize {
        match self.max_concurrent {
            0 => 2 * usize::from(cores),
            max_concurrent => max_concurrent,
        }
    }
}

/// The address of Grafana without its password.
impl fmt::Debug for EvaluationConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvaluationConfig")
            .field("evaluation_interval", &self.evaluation_interval)
            .field("poll_interval", &self.poll_interval)
            .field("max_concurrent", &self.max_concurrent)
            .field("max_jitter", &self.max_jitter)
            .field("resend_delay", &self.resend_delay)
            .field("for_outage_tolerance", &self.for_outage_tolerance)
            .field("for_grace_period", &self.for_grace_period)
            .field("external_labels", &self.external_labels)
            .field("external_url", &shown_url(&self.external_url))
            .field("datasource_uid", &self.datasource_uid)
            .finish()
    }
}

impl Default for EvaluationConfig {
    fn default() -> EvaluationConfig {
        EvaluationConfig {
            evaluation_interval: Duration::from_secs(60),
            poll_interval: Duration::from_secs(60),
            max_concurrent: 0,
            max_jitter: Duration::ZERO,
            resend_delay: Duration::from_secs(60),
            for_outage_tolerance: Duration::from_secs(3600),
            for_grace_period: Duration::from_secs(600),
            external_labels: Vec::new(),
            external_url: String::new(),
            datasource_uid: String::new(),
        }
    }
}

/// Where rule groups are (`ruler_storage`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum RuleStorage {
    /// In the data folder, changed by the API.
    #[default]
    DataFolder,
    /// In files that somebody else writes: `<folder>/<tenant>/<namespace>`.
    Local {
        /// The folder.
        folder: PathBuf,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_shows_no_password() {
        let url = || "http://u:hunter2@h:1/x".to_owned();
        let alertmanager = AlertmanagerConfig {
            urls: vec![format!("{},{}", url(), url()), url()],
            ..AlertmanagerConfig::default()
        };
        let client = RemoteClientConfig { url: url(), ..RemoteClientConfig::default() };
        let remote = RemoteWriteConfig { clients: vec![client], ..RemoteWriteConfig::default() };
        let evaluation = EvaluationConfig { external_url: url(), ..EvaluationConfig::default() };
        let http = HttpConfig {
            proxy_url: url(),
            headers: vec![("X-A".to_owned(), "hunter2".to_owned())],
            auth: ClientAuth::Basic {
                username: "u".to_owned(),
                password: SecretSource::Inline(Secret("hunter2".to_owned())),
            },
            ..HttpConfig::default()
        };
        let shown = [
            format!("{alertmanager:?}"),
            format!("{remote:?}"),
            format!("{evaluation:?}"),
            format!("{http:?}"),
        ];
        for text in &shown {
            assert!(!text.contains("hunter2"), "{text}");
        }
        assert_eq!(shown[0].matches("http://u:xxxxx@h:1/x").count(), 3, "{}", shown[0]);
        assert!(shown[1].contains("http://u:xxxxx@h:1/x"), "{}", shown[1]);
    }
}
