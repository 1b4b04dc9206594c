//! The documentation of all settings, generated from their table.

mod bucket;
mod cluster;

use std::fmt::Write;

use super::Config;
use super::foreign;
use super::table::SETTINGS;

/// The text of `docs/configuration.md`.
pub(super) fn markdown() -> String {
    let mut out = String::from(INTRODUCTION);
    let mut section = None;
    for setting in SETTINGS {
        let here = setting.path.split_once('.').map_or("", |(section, _)| section);
        if section != Some(here) {
            section = Some(here);
            let title = if here.is_empty() { "Top level" } else { here };
            let head = "| Key | Flag | Value | Default | Meaning |\n|---|---|---|---|---|";
            writeln!(out, "\n## {title}\n\n{head}").expect("a String takes all");
        }
        let key = setting.path.split_once('.').map_or(setting.path, |(_, key)| key);
        let notation = setting.field(&mut Config::default()).notation().replace('|', "\\|");
        let (flag, default, help) = (setting.flag, setting.default_value(), setting.help);
        writeln!(out, "| `{key}` | `--{flag}` | `{notation}` | `{default}` | {help} |")
            .expect("a String takes all");
    }
    out.push_str(bucket::BUCKET);
    out.push_str(cluster::CLUSTER);
    out.push_str(TLS);
    out.push_str(OTLP);
    out.push_str(RULER);
    out.push_str(TENANTS);
    out.push_str(ENVIRONMENT);
    foreign_keys(&mut out);
    startup_errors(&mut out);
    out
}

/// Keys of the reference that do nothing, by their reasons.
fn foreign_keys(out: &mut String) {
    out.push_str(FOREIGN_KEYS);
    let section = |path: &'static str| path.rsplit_once('.').map_or("", |(section, _)| section);
    let rows: Vec<(&str, &str)> = foreign::keys().collect();
    let alike = rows.chunk_by(|a, b| section(a.0) == section(b.0) && a.1 == b.1);
    for rows in alike {
        let keys: Vec<String> = rows.iter().map(|(key, _)| format!("`{key}`")).collect();
        writeln!(out, "| {} | {} |", keys.join(", "), rows[0].1).expect("a String takes all");
    }
}

fn startup_errors(out: &mut String) {
    out.push_str(STARTUP);
    for (error, reason) in STARTUP_ERRORS_ELSEWHERE {
        writeln!(out, "| {error} | {reason} |").expect("a String takes all");
    }
}

const INTRODUCTION: &str = "\
# Configuration

logsvc needs no configuration. It listens on port 3100 and keeps its data in
`./data`. Other settings go into a YAML file, `logsvc --config.file=logsvc.yaml`,
or into flags. A flag overrides the file. Flags can be written with one dash, too:
`-config.file=logsvc.yaml`.

```yaml
server:
  http_listen_port: 3100
data_dir: /var/lib/logsvc
limits_config:
  max_line_size: 512KB
```

Configuration files of Loki load as they are. Some of Loki's keys have no effect
here: at the start the server logs a warning that names each of them, with the
reason. A key that neither Loki nor logsvc has is an error, which names its line
and the nearest known key. The same holds for flags. A flag of Loki that has
another name here, such as `-validation.reject-old-samples`, has the same meaning
as in Loki.

Duplicate keys and bad values are errors, too. With an error the server does not
start, and it reports all errors at once. `logsvc --config.file=logsvc.yaml
--verify-config` only checks the configuration, prints `config is valid` or all
errors, and exits with 0 or 1.

A *duration* is written as whole numbers with units: `90s`, `10m`, `1h30m`,
`30d1h`, `1w`. A *size* is a number of bytes or has a unit: `256KB`, `1GB`;
units count in steps of 1024.

Some flags are not settings: `--config.file` (the file; with several names,
separated by commas, the first that exists), `--config.expand-env`,
`--verify-config`, `--print-config-stderr` (prints the settings before the start),
`--list-targets` (prints the names that `target` may have, and exits),
`--version`, `--help`.

The program reads its settings with the same table from which the tables below are
generated.
";

const TLS: &str = "
## HTTPS

With a certificate and its key the port speaks only HTTPS:

```yaml
server:
  http_tls_config:
    cert_file: /etc/logsvc/server.pem
    key_file: /etc/logsvc/server.key
    client_auth_type: RequireAndVerifyClientCert
    client_ca_file: /etc/logsvc/clients.pem
  tls_min_version: VersionTLS12
```

The server speaks TLS 1.2 and 1.3, with HTTP/1.1. A client that speaks plain HTTP to
the port gets 400 and `Client sent an HTTP request to an HTTPS server.` The server
reads the files when it starts, and again with SIGHUP or `POST /-/reload`. A handshake may
take 10 seconds. Sessions are not resumed, so clients should keep their connections.
The server takes certificates and keys from files only, not from the configuration
file (`cert`, `key`, `client_ca`).
";

const OTLP: &str = "
## OpenTelemetry attributes

`limits_config.otlp_config` maps the attributes of OpenTelemetry logs to labels and
structured metadata, or drops them. The first entry whose list or pattern has the
name of an attribute decides; the default attributes of resources come first, unless
`ignore_defaults` is set. An attribute that no entry names becomes structured
metadata. A `regex` must match the whole name.

```yaml
limits_config:
  otlp_config:
    resource_attributes:
      ignore_defaults: false
      attributes_config:
        - action: index_label          # or structured_metadata, or drop
          attributes: [team.name]
        - action: drop
          regex: process\\..*
    scope_attributes:                  # no index_label here
      - action: drop
        attributes: [internal.id]
    log_attributes:                    # index_label: a stream for each value
      - action: drop
        attributes: [secret]
    severity_text_as_label: false
```
";

const RULER: &str = "
## Remote write

`ruler.remote_write.clients` has a section for each receiver, in the form of `remote_write` of
Prometheus:

```yaml
ruler:
  remote_write:
    enabled: true
    clients:
      prometheus:                      # the id of the receiver
        url: http://prometheus:9090/api/v1/write
        name: prometheus               # for log lines and metrics
        remote_timeout: 30s
        headers: {X-Team: a}
        http_headers: {X-Zone: {values: [b]}}
        basic_auth: {username: u, password_file: /etc/logsvc/password}
        # instead: authorization (type, credentials, credentials_file), bearer_token,
        # bearer_token_file, or sigv4 (region, access_key, secret_key)
        tls_config: {ca_file: /etc/logsvc/ca.pem, server_name: p, insecure_skip_verify: false}
        # tls_config has cert_file and key_file as well
        proxy_url: http://proxy:3128   # default: HTTPS_PROXY, HTTP_PROXY and NO_PROXY
        write_relabel_configs: [{regex: pod, action: labeldrop}]
        protobuf_message: prometheus.WriteRequest
        # or io.prometheus.write.v2.Request
        queue_config:
          max_samples_per_send: 2000
          batch_send_deadline: 5s
          min_backoff: 30ms
          max_backoff: 5s
          retry_on_http_429: true      # default of Prometheus: false
```

Prometheus' other keys are accepted without an effect, except for those that a receiver could not do
without: `oauth2`, `azuread`, `google_iam`, `proxy_connect_header`, `no_proxy`, certificates in the
file, and stores of secrets are errors. The server drops a header `X-Scope-OrgID` of the settings.

`/config` shows `<secret>` in place of passwords, credentials and the values of headers, and `xxxxx`
in place of a password in an address. When the server starts it reads the files with certificates,
keys, passwords and credentials that these settings name, and refuses to start if one cannot be
used. Files that only settings of single tenants name are read, too: then, and when the file with
the limits of tenants has changed, which is refused as a whole if one of them cannot be used. It is
an error if `min_backoff` of a receiver is more than its `max_backoff`.

Limits of a tenant change receivers in this order: `ruler_remote_write_url` and the other single keys
change each receiver, then the section of `ruler_remote_write_config` with the receiver's id. A
section `ruler_alertmanager_config` replaces all settings of `ruler` about Alertmanagers, also those
that it lacks.

## Keys of the ruler that Loki knows differently

Some values load as in Loki, but mean what a single node can do. The server names them in a warning:
`ruler_storage.backend` or `ruler.storage.type` with the name of an object store, or `local` without a
folder, means the data folder; `ruler.evaluation.mode: remote` means `local`;
`ruler.enable_alertmanager_v2: false` means `true`.
";

const TENANTS: &str = "
## Limits of single tenants

A file that `runtime_config.file` names gives single tenants limits of their own. A
tenant has the limits of `limits_config`, and its section replaces single keys. Every
key of `limits_config` is permitted there.

```yaml
overrides:
  team-a:
    ingestion_rate_mb: 10
    max_line_size: 1MB
    retention_period: 72h
    retention_stream:
      - selector: '{namespace=\"dev\"}'
        period: 24h
  team-b:
    query_timeout: 5m
```

Without `auth_enabled` the only tenant is `fake`. There may be several files, separated
by commas. If several files set a key, the last file wins. The server does not expand
`${...}` in these files.

The server reads the files again every `runtime_config.period`. Changed limits apply
to all later requests, on all cores, and to retention. An unknown key or a bad value
makes the server refuse the files as a whole. At the start the server prints the
errors and ends. Later it keeps the limits in force and logs the error once, and
`loki_runtime_config_last_reload_successful` is 0 until the files are good again.
`loki_runtime_config_hash` has the SHA-256 of the file that is in force.

`/config/tenant/v1/limits` shows the limits of the tenant that sends the request.

## Retention and the clock

Retention by age uses the wall clock as long as it advances like the monotonic clock, within 10
seconds. When the wall clock jumps, the server logs a warning. Retention then uses the time before
the jump, or the wall clock if it is earlier, until the wall clock has advanced from there for an
hour.

Every ten minutes the server writes the time into the file `CLOCK` of the data folder. A start that
finds the wall clock more than an hour behind or ahead of that time treats it like a jump. So after a
break of more than an hour retention begins an hour late.

Retention by disk space needs no clock. Limits on the age of entries (`reject_old_samples`,
`creation_grace_period`) and `block_ingestion_until` use the wall clock as it is.

## Starts

A start waits up to 5 seconds for an address that is taken although no process answers on it, and for
a data folder whose holder has ended: the kernel releases the address and the folder of a killed
process a moment after its end. The server logs that it waits. If a process answers on the address,
the start fails at once.

A start never removes the only copy of an entry. It reads complete segments that the manifest does
not name, and logs an error with their numbers of entries. It moves unusable files to
`wal/quarantine` and `segments/quarantine`, which no start empties: `logsvc check` lists the files
there, and the operator removes them. Files of a newer version make the start fail, unless
`storage.ignore_unknown_versions` is set; then the server leaves them alone.
";

const ENVIRONMENT: &str = "
## Variables of the environment

With `--config.expand-env` the file may have variables: `${VAR}` becomes the value
of the variable, or an empty text if the variable is missing. `${VAR:-text}` (likewise
`${VAR:text}`, `${VAR-text}`, `${VAR:=text}` and `${VAR=text}`) becomes the text if the
variable is missing or empty; the text may have variables of its own. With
`${VAR:?text}` a missing or empty variable is an error, and the text is its message.
`$${` stands for `${`, and two backslashes stand for one, so write backslashes twice.
Loki's other functions, such as `${VAR^^}`, are errors.
";

const FOREIGN_KEYS: &str = "
## Keys of Loki that do nothing here

The server accepts these keys, with all keys below them, and names them in a warning.

| Keys | Why |
|---|---|
";

/// Files, and texts of the interface that they are refused with.
#[cfg(test)]
pub(super) const STARTUP_ERRORS_HERE: &[(&str, &str)] = &[
    ("limits_config: {retention_period: 1h}", "retention period must be >= 24h was 1h"),
    (
        "limits_config: {retention_stream: [{selector: '{a=\"b\"}', period: 23h}]}",
        "retention period must be >= 24h was 23h",
    ),
    (
        "target: overrides-exporter",
        "overrides-exporter has been enabled, but no runtime configuration file was configured",
    ),
    (
        "{target: backend, legacy_read_mode: true, memberlist: {join_members: [a]}}",
        "CONFIG ERROR: invalid target, cannot run backend target with legacy read mode",
    ),
    (
        "ruler: {evaluation: {mode: x}}",
        "invalid ruler evaluation config: invalid evaluation mode: x",
    ),
    (
        "ruler: {remote_write: {client: {}, clients: {a: {}}}}",
        "ruler remote write config: both 'client' and 'clients' options are defined",
    ),
    (
        "ruler: {remote_write: {enabled: true}}",
        "remote-write enabled but no clients URL are configured",
    ),
    (
        "ruler: {remote_write: {enabled: true, clients: {a: {name: prom}}}}",
        "remote-write enabled but client 'prom' URL for tenant a is not configured",
    ),
    ("common: {persist_tokens: true}", "if persist_tokens is true, path_prefix MUST be defined"),
    (
        "frontend_worker: {grpc_client_config: {}, query_scheduler_grpc_client: {}}",
        "both `grpc_client_config` and (`query_frontend_grpc_client` or \
         `query_scheduler_grpc_client`) are set at the same time",
    ),
];

const STARTUP: &str = "
## Errors at the start

The server lists all errors below `MULTIPLE CONFIG ERRORS FOUND, PLEASE READ CAREFULLY`; a single
one follows `config error:`. These errors of Loki can occur: `retention period must be >= 24h was
<duration>`, `invalid override for tenant <tenant>: <details>`, `overrides-exporter has been
enabled, but no runtime configuration file was configured`, `invalid ruler evaluation config:
<details>`, `ruler remote write config: both 'client' and 'clients' options are defined`,
`remote-write enabled but no clients URL are configured`, `remote-write enabled but client '<name>'
URL for tenant <client-id> is not configured`, `if persist_tokens is true, path_prefix MUST be
defined`, `CONFIG ERROR: invalid target, cannot run backend target with legacy read mode`,
``both `grpc_client_config` and (`query_frontend_grpc_client` or
`query_scheduler_grpc_client`) are set at the same time``, the errors about TLS, and those about object stores
(*Errors about buckets* above). Loki's other errors cannot occur:

| Error of Loki | Why not |
|---|---|
";

/// Errors of the interface that cannot occur.
const STARTUP_ERRORS_ELSEWHERE: &[(&str, &str)] = &[
    (
        "`use of multiple cache storage systems is not supported`, `no cache configured`",
        "the cache of answers is in memory",
    ),
    (
        "`the <broker> address has not been configured`, `the <broker> topic has not been configured`, `both sasl username and password must be set`, `<broker> is enabled in distributor but not in ingester`",
        "there are no message brokers",
    ),
    (
        "`addresses requires a list of comma separated strings in DNS service discovery format with at least one item`",
        "there are no bloom gateways: filters are in segments",
    ),
    (
        "`pattern ingester replication factor must be 1`, `retain-for must be greater than or equal to chunk-duration`, `chunk-duration must be greater than or equal to sample-interval`, `volume_threshold must be between 0 and 1`",
        "patterns are found when they are asked for",
    ),
    (
        "`query filtering for deletes requires 'compactor_grpc_address' or 'compactor_address' to be configured`",
        "every node that answers queries has the delete requests itself: many nodes read them in their bucket",
    ),
];
