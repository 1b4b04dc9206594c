//! Settings of the ruler: `ruler`, `ruler_storage`, and what tenants may change of them.
//!
//! Values with a structure of their own are read here ([`written`]), also the parts that other
//! programs define: relabelling rules ([`relabel`]) and clients of remote write ([`client`]).
//! [`RulerSettings`] and [`RulerLimits`] together give what the ruler needs for a tenant
//! ([`tenant`]).
//!
//! Guarantee: no printed form has a secret. What can go wrong: bad values, which name their keys;
//! settings that contradict each other, and files that cannot be used ([`check`]).

mod check;
mod client;
mod notifier;
mod relabel;
pub(in crate::config) mod sections;
mod tenant;
#[cfg(test)]
mod tests;
mod urls;
mod written;

use std::collections::BTreeMap;
use std::time::Duration;

use logsvc_rules::config::{EvaluationConfig, RelabelConfig, SampleLogConfig, SigV4Config};

pub(crate) use check::{LimitsOfAll, NEEDED_FILE_MAX_BYTES};
pub(crate) use client::ClientChange;
pub(crate) use notifier::{AlertmanagerSettings, TenantAlertmanager};
pub(crate) use urls::Urls;
pub(in crate::config) use urls::unescaped;
pub(crate) use written::{HIDDEN, Headers, Meaning, Structured, Written};

/// Settings of the ruler that hold for the node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RulerSettings {
    /// How groups are evaluated. `external_labels` of it are empty: see the field below.
    pub(crate) evaluation: EvaluationConfig,
    /// Labels of all notifications.
    pub(crate) external_labels: Written<Labels>,
    /// `local` or `remote`; both mean the same on a single node.
    pub(crate) evaluation_mode: String,
    /// Whether rule groups can be read and changed by the API.
    pub(crate) enable_api: bool,
    /// Tenants whose rules are evaluated; empty stands for all.
    pub(crate) enabled_tenants: Vec<String>,
    /// Tenants whose rules are not evaluated.
    pub(crate) disabled_tenants: Vec<String>,
    /// What the label `rule_group` of metrics begins with.
    pub(crate) rule_path: String,
    /// Whether metrics lack the label `rule_group`.
    pub(crate) disable_rule_group_label: bool,
    /// Where rule groups are.
    pub(crate) storage: StorageSettings,
    /// Where alerts go.
    pub(crate) alertmanager: AlertmanagerSettings,
    /// Where samples go.
    pub(crate) remote_write: RemoteWriteSettings,
    /// The log of samples that wait.
    pub(crate) samples: SampleLogConfig,
}

/// Where rule groups are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StorageSettings {
    /// The kind of the store (`ruler_storage.backend`).
    pub(crate) backend: String,
    /// The folder of rule files (`ruler_storage.local.directory`).
    pub(crate) local_directory: String,
    /// The old name of `backend`, which wins if it is not empty (`ruler.storage.type`).
    pub(crate) old_type: String,
    /// The folder of rule files if `old_type` is `local`.
    pub(crate) old_local_directory: String,
}

/// Where samples go.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RemoteWriteSettings {
    /// Whether samples are sent.
    pub(crate) enabled: bool,
    /// The only receiver, in the old form.
    pub(crate) client: Written<Option<ClientChange>>,
    /// All receivers by their ids.
    pub(crate) clients: Written<BTreeMap<String, ClientChange>>,
    /// Whether requests name the tenant.
    pub(crate) add_org_id_header: bool,
}

/// What a tenant may change of the ruler's settings (`limits_config.ruler_*`). 0 or an empty text
/// means the settings of the node, unless said otherwise.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct RulerLimits {
    /// Most rules of a group; 0: no limit.
    pub(crate) max_rules_per_rule_group: usize,
    /// Most groups; 0: no limit.
    pub(crate) max_rule_groups_per_tenant: usize,
    /// Where the tenant's alerts go.
    pub(crate) alertmanager: Written<Option<TenantAlertmanager>>,
    /// How far queries look before the time of the evaluation.
    pub(crate) evaluation_delay: Duration,
    /// Where the tenant's samples go.
    pub(crate) remote_write: RemoteWriteLimits,
}

/// What a tenant may change of remote write.
#[derive(Clone, Debug, PartialEq, Default)]
pub(crate) struct RemoteWriteLimits {
    /// Whether the tenant's samples are not sent.
    pub(crate) disabled: bool,
    /// The address of all receivers.
    pub(crate) url: Urls,
    /// Longest request.
    pub(crate) timeout: Duration,
    /// Headers that replace those of the receivers.
    pub(crate) headers: Written<Option<Headers>>,
    /// Rules that replace those of the receivers; also if there are none.
    pub(crate) relabel_configs: Written<Option<Vec<RelabelConfig>>>,
    /// Most samples of a request.
    pub(crate) max_samples_per_send: usize,
    /// How long a request waits to become full.
    pub(crate) batch_send_deadline: Duration,
    /// Pause after the first failure.
    pub(crate) min_backoff: Duration,
    /// Longest pause.
    pub(crate) max_backoff: Duration,
    /// Makes 429 retried where it is not; false changes nothing.
    pub(crate) retry_on_ratelimit: bool,
    /// Signs requests for AWS.
    pub(crate) sigv4: Written<Option<SigV4Config>>,
    /// Changes of receivers by their ids, and receivers of the tenant alone.
    pub(crate) clients: Written<Option<BTreeMap<String, ClientChange>>>,
}

/// Names and values, sorted by name.
pub(crate) type Labels = Vec<(String, String)>;

impl Default for RulerSettings {
    fn default() -> RulerSettings {
        RulerSettings {
            evaluation: EvaluationConfig::default(),
            external_labels: Written::default(),
            evaluation_mode: "local".to_owned(),
            enable_api: true,
            enabled_tenants: Vec::new(),
            disabled_tenants: Vec::new(),
            rule_path: "/rules".to_owned(),
            disable_rule_group_label: false,
            storage: StorageSettings {
                backend: "filesystem".to_owned(),
                local_directory: String::new(),
                old_type: String::new(),
                old_local_directory: String::new(),
            },
            alertmanager: AlertmanagerSettings::default(),
            remote_write: RemoteWriteSettings {
                enabled: false,
                client: Written::default(),
                clients: Written::default(),
                add_org_id_header: true,
            },
            samples: SampleLogConfig::default(),
        }
    }
}
