//! The documentation of all settings, made from their table.

use std::fmt::Write;

use super::Config;
use super::table::SETTINGS;

/// What `docs/configuration.md` holds.
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
        let notation = setting.slot(&mut Config::default()).notation().replace('|', "\\|");
        let (flag, default, help) = (setting.flag, setting.default_value(), setting.help);
        writeln!(out, "| `{key}` | `--{flag}` | `{notation}` | `{default}` | {help} |")
            .expect("a String takes all");
    }
    out.push_str(TLS);
    out.push_str(OTLP);
    out.push_str(TENANTS);
    out
}

const INTRODUCTION: &str = "\
# Configuration

logsvc needs no configuration. It listens on port 3100 and keeps its data in
`./data`. What should be otherwise goes into a YAML file, `logsvc
--config.file=logsvc.yaml`, or into flags. A flag beats the file. Flags can be
written with one dash, too: `-config.file=logsvc.yaml`.

```yaml
server:
  http_listen_port: 3100
data_dir: /var/lib/logsvc
limits_config:
  max_line_size: 512KB
```

Configuration files of the reference server load as they are. Keys that mean
nothing here are named in a warning when the server starts, and so are sections
of which nothing is known. Duplicate keys and bad values are errors, and the
server does not start; `logsvc --config.file=logsvc.yaml --verify-config` only
checks, prints `config is valid` or all errors, and exits with 0 or 1.

A *duration* is written as whole numbers with units: `90s`, `10m`, `1h30m`,
`30d1h`, `1w`. A *size* is a number of bytes or has a unit: `256KB`, `1GB`;
units count in steps of 1024.

Flags that are no settings: `--config.file` (the file), `--verify-config`,
`--version`, `--help`.

The tables below are made from the table in the program that also reads the
values.
";

const TLS: &str = "
## HTTPS

With a certificate and its key the port speaks HTTPS, and nothing else:

```yaml
server:
  http_tls_config:
    cert_file: /etc/logsvc/server.pem
    key_file: /etc/logsvc/server.key
    client_auth_type: RequireAndVerifyClientCert
    client_ca_file: /etc/logsvc/clients.pem
  tls_min_version: VersionTLS12
```

TLS 1.2 and 1.3 are spoken, with HTTP/1.1. A client that speaks plain HTTP to the
port gets 400 and `Client sent an HTTP request to an HTTPS server.` The files are
read when the server starts; a new certificate needs a restart. A handshake has
10 seconds. Sessions are not resumed, so clients should keep their connections.
Keys inside the configuration file (`cert`, `key`, `client_ca`) are not read.
";

const OTLP: &str = "
## OpenTelemetry attributes

`limits_config.otlp_config` says what becomes of the attributes of OpenTelemetry
logs. The first entry whose list or pattern has the name of an attribute decides;
the default attributes of resources come first, unless `ignore_defaults` is set.
What no entry names becomes structured metadata. A `regex` must match the whole
name.

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

const TENANTS: &str = "
## Limits of single tenants

A file that `runtime_config.file` names gives single tenants limits of their own. A
tenant begins with `limits_config` and changes single keys of it; every key of
`limits_config` may stand there.

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

Without `auth_enabled` the only tenant is `fake`. Of several files, separated by
commas, the last one counts for each key. `${...}` is not expanded in them.

The server reads the files again every `runtime_config.period`. What has changed
holds for requests that come from then on, on all cores, and for retention. A key
that nobody knows, or a bad value, refuses the files as a whole: at the start the
server says what is wrong and ends; later the limits stay as they were, the error
stands in the log once, and `loki_runtime_config_last_reload_successful` is 0 until
the files are good again. `loki_runtime_config_hash` has the SHA-256 of the file
that is in force.

`/config/tenant/v1/limits` shows what holds for the tenant that asks.
";
