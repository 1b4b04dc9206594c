//! The rows of the ruler's settings.

use super::{Field, Setting};

/// Settings of the node.
pub(super) const NODE: &[Setting] = settings! {
    "ruler.external_url", "ruler.external.url",
        |c| Text(&mut c.ruler.evaluation.external_url),
        "Address of Grafana, with which links in notifications begin.";
    "ruler.datasource_uid", "ruler.datasource-uid",
        |c| Text(&mut c.ruler.evaluation.datasource_uid),
        "UID of this server's data source in Grafana, for links in notifications.";
    "ruler.external_labels", "ruler.external-labels",
        |c| Structured(&mut c.ruler.external_labels),
        "Labels that notifications get if they have none of the name. The flag takes JSON.";
    "ruler.evaluation_interval", "ruler.evaluation-interval",
        |c| Duration(&mut c.ruler.evaluation.evaluation_interval),
        "Time between two evaluations of a group that names no interval.";
    "ruler.poll_interval", "ruler.poll-interval",
        |c| Duration(&mut c.ruler.evaluation.poll_interval),
        "Time between two readings of rule files. Changes by the API apply at once.";
    "ruler.evaluation.mode", "ruler.evaluation.mode",
        |c| Text(&mut c.ruler.evaluation_mode),
        "local or remote. Both mean that the cores of this node evaluate rules.";
    "ruler.evaluation.max_jitter", "ruler.evaluation.max-jitter",
        |c| Duration(&mut c.ruler.evaluation.max_jitter),
        "The evaluation of a rule begins up to so much later, by a delay of its own.";
    "ruler.evaluation.max_concurrent", "ruler.evaluation.max-concurrent",
        |c| Count(&mut c.ruler.evaluation.max_concurrent),
        "Most rules that are evaluated at a time on the node. 0 means 2 for each core.";
    "ruler.storage.type", "ruler.storage.type",
        |c| Text(&mut c.ruler.storage.old_type),
        "Old name of ruler_storage.backend. It wins if it is set.";
    "ruler.storage.local.directory", "ruler.storage.local.directory",
        |c| Text(&mut c.ruler.storage.old_local_directory),
        "Old name of ruler_storage.local.directory, for ruler.storage.type.";
    "ruler.rule_path", "ruler.rule-path",
        |c| Text(&mut c.ruler.rule_path),
        "Folder with which the label rule_group of metrics begins, as in Loki. The server writes \
         no files there.";
    "ruler.alertmanager_url", "ruler.alertmanager-url",
        |c| Urls(&mut c.ruler.alertmanager.urls),
        "Addresses of Alertmanagers, with commas between them. Each gets all alerts, at the path \
         /api/v2/alerts below its address. Without an address no alerts are sent.";
    "ruler.enable_alertmanager_discovery", "ruler.alertmanager-discovery",
        |c| Bool(&mut c.ruler.alertmanager.discovery),
        "Whether the hosts of Alertmanagers are SRV records, such as \
         _http._tcp.alertmanager.example.";
    "ruler.alertmanager_refresh_interval", "ruler.alertmanager-refresh-interval",
        |c| Duration(&mut c.ruler.alertmanager.refresh_interval),
        "Time after which the names of Alertmanagers are looked up again.";
    "ruler.enable_alertmanager_v2", "ruler.alertmanager-use-v2",
        |c| Bool(&mut c.ruler.alertmanager.wants_v2),
        "Alerts are sent by version 2 of Alertmanager's API, whatever the value.";
    "ruler.alert_relabel_configs", "ruler.alert-relabel-configs",
        |c| Structured(&mut c.ruler.alertmanager.relabel_configs),
        "Relabelling rules of Prometheus for alerts that are sent. The flag takes JSON.";
    "ruler.notification_queue_capacity", "ruler.notification-queue-capacity",
        |c| Count(&mut c.ruler.alertmanager.queue_capacity),
        "Most alerts of a tenant that wait to be sent. Of more, the oldest are dropped.";
    "ruler.notification_timeout", "ruler.notification-timeout",
        |c| Duration(&mut c.ruler.alertmanager.timeout),
        "Longest request to an Alertmanager.";
    "ruler.alertmanager_client.tls_cert_path", "ruler.alertmanager-client.tls-cert-path",
        |c| Text(&mut c.ruler.alertmanager.client.tls_cert_path),
        "File with the certificate that is shown to Alertmanagers, as PEM.";
    "ruler.alertmanager_client.tls_key_path", "ruler.alertmanager-client.tls-key-path",
        |c| Text(&mut c.ruler.alertmanager.client.tls_key_path),
        "File with the private key of this certificate, as PEM.";
    "ruler.alertmanager_client.tls_ca_path", "ruler.alertmanager-client.tls-ca-path",
        |c| Text(&mut c.ruler.alertmanager.client.tls_ca_path),
        "File with the certificates of the issuers of Alertmanagers, as PEM. Empty means those \
         that the system trusts.";
    "ruler.alertmanager_client.tls_server_name", "ruler.alertmanager-client.tls-server-name",
        |c| Text(&mut c.ruler.alertmanager.client.tls_server_name),
        "Name that the certificates of Alertmanagers must have. Empty means the host of the \
         address.";
    "ruler.alertmanager_client.tls_insecure_skip_verify", "ruler.alertmanager-client.tls-insecure-skip-verify",
        |c| Bool(&mut c.ruler.alertmanager.client.tls_insecure_skip_verify),
        "Whether any certificate of an Alertmanager will do.";
    "ruler.alertmanager_client.basic_auth_username", "ruler.alertmanager-client.basic-auth-username",
        |c| Text(&mut c.ruler.alertmanager.client.username),
        "User name for basic authentication. It wins over the one in the address.";
    "ruler.alertmanager_client.basic_auth_password", "ruler.alertmanager-client.basic-auth-password",
        |c| Secret(&mut c.ruler.alertmanager.client.password),
        "Password for basic authentication.";
    "ruler.alertmanager_client.type", "ruler.alertmanager-client.type",
        |c| Text(&mut c.ruler.alertmanager.client.kind),
        "Type of the credentials in the header Authorization.";
    "ruler.alertmanager_client.credentials", "ruler.alertmanager-client.credentials",
        |c| Secret(&mut c.ruler.alertmanager.client.credentials),
        "Credentials in the header Authorization.";
    "ruler.alertmanager_client.credentials_file", "ruler.alertmanager-client.credentials-file",
        |c| Text(&mut c.ruler.alertmanager.client.credentials_file),
        "File with these credentials, which is read again while the server runs.";
    "ruler.for_outage_tolerance", "ruler.for-outage-tolerance",
        |c| Duration(&mut c.ruler.evaluation.for_outage_tolerance),
        "After a longer stop, pending alerts begin anew.";
    "ruler.for_grace_period", "ruler.for-grace-period",
        |c| Duration(&mut c.ruler.evaluation.for_grace_period),
        "Shortest time that an alert stays pending after a start, if its rule has a longer for.";
    "ruler.resend_delay", "ruler.resend-delay",
        |c| Duration(&mut c.ruler.evaluation.resend_delay),
        "Time after which an alert that still fires is sent again.";
    "ruler.enable_api", "ruler.enable-api",
        |c| Bool(&mut c.ruler.enable_api),
        "Whether rule groups can be listed, set and deleted by HTTP.";
    "ruler.enabled_tenants", "ruler.enabled-tenants",
        |c| Words(&mut c.ruler.enabled_tenants),
        "Tenants whose rules are evaluated. Empty means all.";
    "ruler.disabled_tenants", "ruler.disabled-tenants",
        |c| Words(&mut c.ruler.disabled_tenants),
        "Tenants whose rules are not evaluated.";
    "ruler.disable_rule_group_label", "ruler.disable-rule-group-label",
        |c| Bool(&mut c.ruler.disable_rule_group_label),
        "Whether metrics of rule groups are summed up for each tenant, without the label \
         rule_group.";
    "ruler.wal.max_age", "ruler.wal.max-age",
        |c| Duration(&mut c.ruler.samples.max_age),
        "Recorded samples that have waited longer for a receiver are dropped.";
    "ruler.wal.max_bytes", "ruler.wal.max-bytes",
        |c| Bytes(&mut c.ruler.samples.max_bytes),
        "Most bytes on the disk of a tenant's samples that wait for receivers. Of more, the oldest \
         are dropped.";
    "ruler.remote_write.enabled", "ruler.remote-write.enabled",
        |c| Bool(&mut c.ruler.remote_write.enabled),
        "Whether the samples of recording rules, and those about alerts, are sent by Prometheus \
         remote write.";
    "ruler.remote_write.client", "ruler.remote-write.client",
        |c| Structured(&mut c.ruler.remote_write.client),
        "Old form of clients, for a single receiver. The flag takes JSON.";
    "ruler.remote_write.clients", "ruler.remote-write.clients",
        |c| Structured(&mut c.ruler.remote_write.clients),
        "Receivers by their ids, in the form of remote_write of Prometheus, see *Remote write*. \
         Each gets all samples. The flag takes JSON.";
    "ruler.remote_write.add_org_id_header", "ruler.remote-write.add-org-id-header",
        |c| Bool(&mut c.ruler.remote_write.add_org_id_header),
        "Whether requests of remote write name the tenant in X-Scope-OrgID.";
    "ruler_storage.backend", "ruler-storage.backend",
        |c| Text(&mut c.ruler.storage.backend),
        "Where rule groups are. filesystem: in the data folder; they are changed by HTTP. local: \
         in the files <tenant>/<namespace> of a folder, which the server only reads.";
    "ruler_storage.local.directory", "ruler-storage.local.directory",
        |c| Text(&mut c.ruler.storage.local_directory),
        "Folder of rule files if backend is local.";
};

/// Limits of tenants.
pub(super) const LIMITS: &[Setting] = settings! {
    "limits_config.ruler_max_rules_per_rule_group", "limits.ruler-max-rules-per-rule-group",
        |c| Count(&mut c.limits.ruler.max_rules_per_rule_group),
        "Most rules of a group. 0 means no limit.";
    "limits_config.ruler_max_rule_groups_per_tenant", "limits.ruler-max-rule-groups-per-tenant",
        |c| Count(&mut c.limits.ruler.max_rule_groups_per_tenant),
        "Most rule groups of a tenant. 0 means no limit.";
    "limits_config.ruler_alertmanager_config", "limits.ruler-alertmanager-config",
        |c| Structured(&mut c.limits.ruler.alertmanager),
        "Where the tenant's alerts go: the keys of ruler about Alertmanagers, from \
         alertmanager_url to alertmanager_client. They replace those of ruler as a whole. The \
         flag takes JSON.";
    "limits_config.ruler_evaluation_delay_duration", "limits.ruler-evaluation-delay-duration",
        |c| Duration(&mut c.limits.ruler.evaluation_delay),
        "How far before the time of an evaluation the queries of rules look, so that late entries \
         count. A group's query_offset wins.";
    "limits_config.ruler_remote_write_disabled", "limits.ruler-remote-write-disabled",
        |c| Bool(&mut c.limits.ruler.remote_write.disabled),
        "Whether the tenant's samples are not sent.";
    "limits_config.ruler_remote_write_url", "limits.ruler-remote-write-url",
        |c| Urls(&mut c.limits.ruler.remote_write.url),
        "Address of all receivers. This key and the next ones replace the settings of each \
         receiver; ruler_remote_write_config wins over them.";
    "limits_config.ruler_remote_write_timeout", "limits.ruler-remote-write-timeout",
        |c| Duration(&mut c.limits.ruler.remote_write.timeout),
        "Longest request. 0 means that of the receiver.";
    "limits_config.ruler_remote_write_headers", "limits.ruler-remote-write-headers",
        |c| Structured(&mut c.limits.ruler.remote_write.headers),
        "Headers in place of those of the receivers. The flag takes JSON.";
    "limits_config.ruler_remote_write_relabel_configs", "limits.ruler-remote-write-relabel-configs",
        |c| Structured(&mut c.limits.ruler.remote_write.relabel_configs),
        "Relabelling rules in place of those of the receivers, also if the list is empty. The \
         flag takes JSON.";
    "limits_config.ruler_remote_write_queue_max_samples_per_send", "limits.ruler-remote-write-queue-max-samples-per-send",
        |c| Count(&mut c.limits.ruler.remote_write.max_samples_per_send),
        "Most samples of a request. 0 means as the receiver has it.";
    "limits_config.ruler_remote_write_queue_batch_send_deadline", "limits.ruler-remote-write-queue-batch-send-deadline",
        |c| Duration(&mut c.limits.ruler.remote_write.batch_send_deadline),
        "How long a request waits for more samples. 0 means as the receiver has it.";
    "limits_config.ruler_remote_write_queue_min_backoff", "limits.ruler-remote-write-queue-min-backoff",
        |c| Duration(&mut c.limits.ruler.remote_write.min_backoff),
        "Pause after a failure, which each further failure doubles. 0 means as the receiver has it.";
    "limits_config.ruler_remote_write_queue_max_backoff", "limits.ruler-remote-write-queue-max-backoff",
        |c| Duration(&mut c.limits.ruler.remote_write.max_backoff),
        "Longest pause. 0 means as the receiver has it.";
    "limits_config.ruler_remote_write_queue_retry_on_ratelimit", "limits.ruler-remote-write-queue-retry-on-ratelimit",
        |c| Bool(&mut c.limits.ruler.remote_write.retry_on_ratelimit),
        "true: samples are sent again after an answer 429. false: as the receiver has it.";
    "limits_config.ruler_remote_write_sigv4_config", "limits.ruler-remote-write-sigv4-config",
        |c| Structured(&mut c.limits.ruler.remote_write.sigv4),
        "AWS signature of requests: region, access_key and secret_key. The flag takes JSON.";
    "limits_config.ruler_remote_write_config", "limits.ruler-remote-write-config",
        |c| Structured(&mut c.limits.ruler.remote_write.clients),
        "Settings of receivers by their ids, which replace single settings of the receiver. An id \
         that ruler.remote_write lacks adds a receiver if it has a url. The flag takes JSON.";
};
