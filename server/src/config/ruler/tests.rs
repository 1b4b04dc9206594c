//! From the text of a file to what the ruler gets for a tenant.

use std::path::PathBuf;
use std::time::Duration;

use logsvc_proto::TenantId;
use logsvc_rules::config::{
    ClientAuth, RelabelAction, RemoteClientConfig, RuleStorage, Secret, SecretSource,
};

use crate::config::print::{self, Mode};
use crate::config::{Config, IgnoredKey, Limits, Machine, RuntimeFiles, load, load_text};

fn loaded(text: &str) -> Result<(Config, Vec<IgnoredKey>), Vec<String>> {
    let machine = Machine { cores: 2, memory_bytes: Ok(8 << 30), limited_by: None };
    load_text(text, &[], &machine).map_err(|errors| errors.0)
}

fn config_of(text: &str) -> Config {
    loaded(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}")).0
}

/// The limits of the tenant `t` by a file with limits of tenants.
fn tenant_of(config: &Config, text: &str) -> Limits {
    let texts = [format!("overrides:\n  t:\n{text}")];
    let files = RuntimeFiles::parse(&texts, &config.limits);
    let files = files.unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    (**files.limits.of(&TenantId::new("t").expect("a tenant"))).clone()
}

fn inline(text: &str) -> SecretSource {
    SecretSource::Inline(Secret(text.to_owned()))
}

/// All keys that Loki's reference of the configuration has for the ruler.
const FULL: &str = r#"
ruler:
  external_url: https://grafana.example/grafana
  datasource_uid: uid-1
  external_labels: {cluster: lab, az: 1}
  ruler_client: {max_recv_msg_size: 104857600, tls_enabled: false}
  evaluation_interval: 30s
  poll_interval: 2m
  storage:
    type: local
    azure: {container_name: rules}
    alibabacloud: {bucket: rules}
    gcs: {bucket_name: rules}
    s3: {bucketnames: rules}
    bos: {bucket_name: rules}
    swift: {container_name: rules}
    cos: {bucketnames: rules}
    local: {directory: /etc/loki/rules}
  rule_path: /tmp/rules
  alertmanager_url: http://a:9093,https://b/prefix
  enable_alertmanager_discovery: false
  alertmanager_refresh_interval: 2m
  enable_alertmanager_v2: true
  alert_relabel_configs:
    - {source_labels: [severity], regex: info, action: drop}
  notification_queue_capacity: 50
  notification_timeout: 3s
  alertmanager_client:
    tls_cert_path: ''
    tls_key_path: ''
    tls_ca_path: ''
    tls_server_name: am
    tls_insecure_skip_verify: true
    tls_cipher_suites: ''
    tls_min_version: VersionTLS12
    basic_auth_username: loki
    basic_auth_password: hush-1
    type: Bearer
    credentials: ''
    credentials_file: ''
  for_outage_tolerance: 2h
  for_grace_period: 5m
  resend_delay: 90s
  enable_sharding: true
  sharding_strategy: default
  sharding_algo: by-group
  search_pending_for: 5m
  ring: {kvstore: {store: inmemory}, num_tokens: 128}
  flush_period: 1m
  enable_api: false
  enabled_tenants: a,b
  disabled_tenants: b
  query_stats_enabled: true
  disable_rule_group_label: true
  wal: {dir: /loki/ruler-wal, truncate_frequency: 1h, min_age: 5m, max_age: 6h}
  wal_cleaner: {min_age: 12h, period: 0s}
  remote_write:
    enabled: true
    config_refresh_period: 10s
    add_org_id_header: false
    clients:
      second:
        url: https://user:hush-2@m.example/push
      first:
        url: http://p:9090/api/v1/write
        name: prom
        remote_timeout: 5s
        send_exemplars: false
        follow_redirects: true
        enable_http2: true
        headers: {X-Key: hush-3, x-scope-orgid: other}
        write_relabel_configs: [{regex: pod, action: labeldrop}]
        authorization: {type: Token, credentials: hush-4}
        tls_config: {insecure_skip_verify: true, min_version: TLS12}
        queue_config: {capacity: 10, max_shards: 5, max_samples_per_send: 7, min_backoff: 1s,
                       max_backoff: 1m, batch_send_deadline: 2s, retry_on_http_429: false}
        metadata_config: {send: false}
        protobuf_message: io.prometheus.write.v2.Request
  evaluation:
    mode: local
    max_jitter: 4s
    query_frontend: {address: 'dns:///frontend:9095', tls_enabled: false}
ruler_storage:
  backend: s3
  storage_prefix: rules
  s3: {bucket_name: rules}
  filesystem: {dir: /loki/rules}
  local: {directory: ''}
limits_config:
  ruler_max_rules_per_rule_group: 20
  ruler_max_rule_groups_per_tenant: 30
  ruler_tenant_shard_size: 0
  ruler_enable_wal_replay: true
  ruler_evaluation_delay_duration: 10s
  ruler_remote_write_disabled: false
  ruler_remote_write_queue_capacity: 100
  ruler_remote_write_queue_min_shards: 1
  ruler_remote_write_queue_max_shards: 2
  ruler_remote_evaluation_timeout: 1m
  ruler_remote_evaluation_max_response_size: 0
"#;

#[test]
fn a_full_ruler_section_of_loki_loads() {
    let (config, ignored) = loaded(FULL).unwrap_or_else(|errors| panic!("{errors:?}"));
    let ruler = &config.ruler;
    let evaluation = ruler.evaluation_config();
    assert_eq!(evaluation.external_url, "https://grafana.example/grafana");
    let labels = [("az", "1"), ("cluster", "lab")].map(|(a, b)| (a.to_owned(), b.to_owned()));
    assert_eq!(evaluation.external_labels, labels);
    assert_eq!(evaluation.evaluation_interval, Duration::from_secs(30));
    assert_eq!(evaluation.max_jitter, Duration::from_secs(4));
    assert_eq!(evaluation.resend_delay, Duration::from_secs(90));
    assert_eq!(ruler.rule_storage(), RuleStorage::Local { folder: "/etc/loki/rules".into() });
    assert!(ruler.evaluates("a") && !ruler.evaluates("b") && !ruler.evaluates("c"));
    assert_eq!(ruler.rule_path, "/tmp/rules");
    assert!(!ruler.enable_api && ruler.disable_rule_group_label);
    assert_eq!(ruler.samples.max_age, Duration::from_secs(6 * 3600));

    let alertmanager = ruler.alertmanager_of(&config.limits.ruler);
    assert_eq!(alertmanager.urls, ["http://a:9093", "https://b/prefix"]);
    assert_eq!(alertmanager.alert_relabel_configs[0].action, RelabelAction::Drop);
    assert_eq!((alertmanager.queue_capacity, alertmanager.timeout.as_secs()), (50, 3));
    let user = ClientAuth::Basic { username: "loki".to_owned(), password: inline("hush-1") };
    assert_eq!(alertmanager.http.auth, user);
    assert!(alertmanager.http.tls.insecure_skip_verify);

    let remote = ruler.remote_write_of(&config.limits.ruler);
    assert!(remote.enabled && !remote.add_org_id_header);
    let [first, second] = &remote.clients[..] else { panic!("two receivers: {remote:?}") };
    assert_eq!(
        (&*first.id, &*first.name, &*first.url),
        ("first", "prom", "http://p:9090/api/v1/write")
    );
    assert_eq!(first.http.headers, [("X-Key".to_owned(), "hush-3".to_owned())]);
    let auth = ClientAuth::Credentials { kind: "Token".to_owned(), credentials: inline("hush-4") };
    assert_eq!(first.http.auth, auth);
    assert_eq!(first.write_relabel_configs[0].action, RelabelAction::LabelDrop);
    assert!(first.prefers_v2 && !first.queue.retry_on_http_429);
    assert_eq!((first.queue.max_samples_per_send, first.queue.max_backoff.as_secs()), (7, 60));
    assert_eq!(&*second.url, "https://m.example/push");
    let user = ClientAuth::Basic { username: "user".to_owned(), password: inline("hush-2") };
    assert_eq!(second.http.auth, user);
    assert_eq!(second.queue, RemoteClientConfig::default().queue);

    let mut paths: Vec<&str> = ignored.iter().map(|key| key.path.as_str()).collect();
    paths.sort_unstable();
    let expected = [
        "limits_config.ruler_enable_wal_replay",
        "limits_config.ruler_remote_evaluation_max_response_size",
        "limits_config.ruler_remote_evaluation_timeout",
        "limits_config.ruler_remote_write_queue_capacity",
        "limits_config.ruler_remote_write_queue_max_shards",
        "limits_config.ruler_remote_write_queue_min_shards",
        "limits_config.ruler_tenant_shard_size",
        "ruler.alertmanager_client.tls_cipher_suites",
        "ruler.alertmanager_client.tls_min_version",
        "ruler.enable_sharding",
        "ruler.evaluation.query_frontend",
        "ruler.flush_period",
        "ruler.query_stats_enabled",
        "ruler.remote_write.config_refresh_period",
        "ruler.ring",
        "ruler.ruler_client",
        "ruler.search_pending_for",
        "ruler.sharding_algo",
        "ruler.sharding_strategy",
        "ruler.storage.alibabacloud",
        "ruler.storage.azure",
        "ruler.storage.bos",
        "ruler.storage.cos",
        "ruler.storage.gcs",
        "ruler.storage.s3",
        "ruler.storage.swift",
        "ruler.wal.dir",
        "ruler.wal.min_age",
        "ruler.wal.truncate_frequency",
        "ruler.wal_cleaner",
        "ruler_storage.backend",
        "ruler_storage.filesystem",
        "ruler_storage.s3",
        "ruler_storage.storage_prefix",
    ];
    assert_eq!(paths, expected);
    assert!(ignored.iter().all(|key| !key.reason.is_empty()));
}

#[test]
fn no_page_shows_a_secret() {
    let mut text = FULL.to_owned();
    text += "  ruler_alertmanager_config:\n    alertmanager_url: http://u:hush-5@am\n";
    text += "    alertmanager_client: {type: X, credentials_file: /f}\n";
    text += "  ruler_remote_write_url: http://u:hush-6@r\n";
    text += "  ruler_remote_write_headers: {X-Token: hush-7}\n";
    text += "  ruler_remote_write_sigv4_config: {region: r, access_key: a, secret_key: hush-8}\n";
    text += "  ruler_remote_write_config: {first: {basic_auth: {username: u, password: hush-9}}}\n";
    let text = text.replace("/f}", "/f, basic_auth_password: ''}");
    let config = config_of(&text);
    let all: Vec<&str> =
        crate::config::table::SETTINGS.iter().map(|setting| setting.path).collect();
    for mode in [Mode::Full, Mode::Differences(&all)] {
        let printed = print::yaml(&config, mode);
        assert!(!printed.contains("hush"), "{printed}");
        assert!(printed.contains("basic_auth_password: \"<secret>\""), "{printed}");
        assert!(printed.contains("http://u:xxxxx@r"), "{printed}");
        // What is no secret is there, and the whole can be read.
        assert!(printed.contains("\"regex\":\"pod\""), "{printed}");
        assert_eq!(config_of(&printed).ruler.evaluation, config.ruler.evaluation);
    }
    let debug = format!("{config:?}");
    assert!(!debug.contains("hush"), "{debug}");
    // The settings of a tenant as well, and those that the ruler gets.
    let limits = &config.limits.ruler;
    let given = (config.ruler.remote_write_of(limits), config.ruler.alertmanager_of(limits));
    assert!(!format!("{given:?}").contains("hush"), "{given:?}");
}

#[test]
fn a_tenant_changes_single_settings_of_receivers() {
    let config = config_of(
        "ruler: {remote_write: {enabled: true, clients: {
           a: {url: 'http://a', bearer_token: t, headers: {X: '1'}, queue_config: {min_backoff: 2s}},
           b: {url: 'http://b', write_relabel_configs: [{regex: x, action: labeldrop}]}}}}",
    );
    let node = config.ruler.remote_write_of(&config.limits.ruler);
    assert_eq!(node.clients.len(), 2);
    let limits = tenant_of(
        &config,
        "    ruler_remote_write_timeout: 3s
    ruler_remote_write_headers: {Y: 2}
    ruler_remote_write_relabel_configs: []
    ruler_remote_write_queue_max_samples_per_send: 9
    ruler_remote_write_queue_max_backoff: 7m
    ruler_remote_write_config:
      a: {remote_timeout: 4s, basic_auth: {username: u, password_file: /p}}
      c: {url: 'http://c'}
      d: {remote_timeout: 1s}
",
    );
    let own = config.ruler.remote_write_of(&limits.ruler);
    let ids: Vec<(&str, &str)> = own.clients.iter().map(|it| (&*it.id, &*it.url)).collect();
    assert_eq!(ids, [("a", "http://a"), ("b", "http://b"), ("c", "http://c")]);
    let [a, b, c] = &own.clients[..] else { panic!("three") };
    assert_eq!((a.remote_timeout.as_secs(), b.remote_timeout.as_secs()), (4, 3));
    assert_eq!(a.http.headers, [("Y".to_owned(), "2".to_owned())]);
    assert_eq!(a.queue.min_backoff.as_secs(), 2);
    assert_eq!((a.queue.max_backoff.as_secs(), b.queue.max_samples_per_send), (420, 9));
    let file = SecretSource::File(PathBuf::from("/p"));
    assert_eq!(a.http.auth, ClientAuth::Basic { username: "u".to_owned(), password: file });
    assert!(b.write_relabel_configs.is_empty());
    assert_eq!(c.queue, RemoteClientConfig::default().queue);

    let off = tenant_of(&config, "    ruler_remote_write_disabled: true\n");
    assert!(!config.ruler.remote_write_of(&off.ruler).enabled);
    let sigv4 = "    ruler_remote_write_sigv4_config: {region: eu, access_key: a, secret_key: b}\n";
    let signed = config.ruler.remote_write_of(&tenant_of(&config, sigv4).ruler);
    assert!(matches!(&signed.clients[0].http.auth, ClientAuth::SigV4(it) if it.region == "eu"));
    let moved = tenant_of(&config, "    ruler_remote_write_url: https://u:p@x/y\n");
    let moved = config.ruler.remote_write_of(&moved.ruler);
    assert_eq!((&*moved.clients[1].url, moved.clients.len()), ("https://x/y", 2));
    assert!(matches!(moved.clients[1].http.auth, ClientAuth::Basic { .. }));
}

#[test]
fn the_alertmanagers_of_a_tenant_replace_those_of_the_node() {
    let config = config_of(
        "ruler: {alertmanager_url: 'http://node', notification_timeout: 3s,
                 alertmanager_client: {basic_auth_username: u, basic_auth_password: p}}",
    );
    let limits = tenant_of(
        &config,
        "    ruler_alertmanager_config:
      alertmanager_url: https://_am._tcp.example
      enable_alertmanager_discovery: true
      enable_alertmanager_v2: true
      notification_timeout: 0
      alert_relabel_configs: [{target_label: a, replacement: b}]
      alertmanager_client: {credentials: c, tls_server_name: s}
",
    );
    let own = config.ruler.alertmanager_of(&limits.ruler);
    assert_eq!(own.urls, ["https://_am._tcp.example"]);
    assert!(own.discovery);
    assert_eq!((own.timeout.as_secs(), own.queue_capacity), (10, 10_000));
    let auth = ClientAuth::Credentials { kind: "Bearer".to_owned(), credentials: inline("c") };
    assert_eq!((own.http.auth, own.http.tls.server_name), (auth, "s".to_owned()));
    assert_eq!(own.alert_relabel_configs[0].replacement, "b");
    // A tenant with an empty section has no Alertmanager.
    let none = tenant_of(&config, "    ruler_alertmanager_config: {}\n");
    assert!(config.ruler.alertmanager_of(&none.ruler).urls.is_empty());
    assert_eq!(config.ruler.alertmanager_of(&config.limits.ruler).timeout.as_secs(), 3);
}

#[test]
fn the_place_of_rule_groups_follows_from_old_and_new_keys() {
    let local = |folder: &str| RuleStorage::Local { folder: folder.into() };
    for (text, expected, ignored) in [
        ("{}", RuleStorage::DataFolder, 0),
        ("ruler_storage: {backend: filesystem}", RuleStorage::DataFolder, 0),
        ("ruler_storage: {backend: local, local: {directory: /r}}", local("/r"), 0),
        ("ruler_storage: {backend: local}", RuleStorage::DataFolder, 1),
        ("ruler_storage: {backend: gcs}", RuleStorage::DataFolder, 1),
        ("ruler: {storage: {type: local, local: {directory: /o}}}", local("/o"), 0),
        ("ruler: {storage: {type: local}}", RuleStorage::DataFolder, 1),
        ("ruler: {storage: {type: s3, s3: {bucketnames: x}}}", RuleStorage::DataFolder, 2),
        (
            "{ruler: {storage: {type: local}}, ruler_storage: {backend: local, local: {directory: /r}}}",
            local("/r"),
            0,
        ),
        (
            "{ruler: {storage: {type: local, local: {directory: /o}}}, ruler_storage: {backend: s3}}",
            local("/o"),
            1,
        ),
    ] {
        let (config, keys) = loaded(text).unwrap_or_else(|errors| panic!("{text}: {errors:?}"));
        assert_eq!(config.ruler.rule_storage(), expected, "{text}");
        assert_eq!(keys.len(), ignored, "{text}: {keys:?}");
    }
    let (_, keys) = loaded("ruler: {evaluation: {mode: remote}, enable_alertmanager_v2: false}")
        .expect("both have no effect");
    let paths: Vec<&str> = keys.iter().map(|key| key.path.as_str()).collect();
    assert_eq!(paths, ["ruler.evaluation.mode", "ruler.enable_alertmanager_v2"]);
}

#[test]
fn bad_settings_name_their_keys() {
    let clients = |client: &str| {
        format!("ruler: {{remote_write: {{enabled: true, clients: {{c: {client}}}}}}}")
    };
    let client = |rest: &str| clients(&format!("{{url: 'http://h', {rest}}}"));
    for (text, expected) in [
        (
            "ruler: {evaluation: {mode: distributed}}".to_owned(),
            "invalid ruler evaluation config: invalid evaluation mode: distributed. Acceptable modes are: local, remote",
        ),
        (
            "ruler: {remote_write: {client: {url: 'http://h'}, clients: {a: {url: 'http://h'}}}}"
                .to_owned(),
            "ruler remote write config: both 'client' and 'clients' options are defined; 'client' is deprecated, please only use 'clients'",
        ),
        (
            "ruler: {remote_write: {enabled: true}}".to_owned(),
            "remote-write enabled but no clients URL are configured",
        ),
        (
            "ruler: {remote_write: {enabled: true, client: {name: x}}}".to_owned(),
            "remote-write enabled but no clients URL are configured",
        ),
        (
            clients("{name: prom}"),
            "remote-write enabled but client 'prom' URL for tenant c is not configured",
        ),
        (
            "ruler: {alertmanager_url: 'am:9093'}".to_owned(),
            "ruler.alertmanager_url: \"am:9093\" must begin with http:// or https://",
        ),
        (
            "ruler: {alertmanager_url: 'http://am', enable_alertmanager_discovery: true}"
                .to_owned(),
            "ruler.alertmanager_url: when enable_alertmanager_discovery is on, the host name \
             must be of the form _portname._tcp.service.fqdn",
        ),
        (
            "ruler: {alertmanager_url: 'http://a:p@x,http://y'}".to_owned(),
            "ruler.alertmanager_url: all addresses need the same user and password",
        ),
        (
            "ruler: {alert_relabel_configs: [{action: drop}, {action: keep, regex: '['}]}"
                .to_owned(),
            "ruler.alert_relabel_configs: [1]: error parsing regexp",
        ),
        (
            "ruler: {external_labels: {a-b: c}}".to_owned(),
            "ruler.external_labels: \"a-b\" is not a valid label name",
        ),
        (
            "ruler: {notification_queue_capacity: 0}".to_owned(),
            "ruler.notification_queue_capacity: must be more than 0",
        ),
        (
            "ruler: {evaluation_interval: 0s}".to_owned(),
            "ruler.evaluation_interval: must be more than 0",
        ),
        (
            "ruler: {resend_delay: soon}".to_owned(),
            "ruler.resend_delay: \"soon\" is not a duration",
        ),
        (
            "ruler: {alertmanager_client: {credentials: a, credentials_file: b}}".to_owned(),
            "ruler.alertmanager_client: at most one of credentials and credentials_file",
        ),
        (
            "ruler: {alertmanager_client: {tls_cert_path: a}}".to_owned(),
            "ruler.alertmanager_client: tls_cert_path and tls_key_path go together",
        ),
        (
            "ruler_storage: {backend: redis}".to_owned(),
            "ruler_storage.backend: \"redis\" is neither local nor filesystem",
        ),
        (
            client("remote_timeout: 5x"),
            "ruler.remote_write.clients: c.remote_timeout: \"5x\" is not a duration",
        ),
        (
            client("remote_timout: 5s"),
            "ruler.remote_write.clients: c.remote_timout: unknown key; did you mean remote_timeout?",
        ),
        (
            client("queue_config: {min_backoff: 0s}"),
            "c.queue_config.min_backoff: must be more than 0",
        ),
        (
            client("queue_config: {min_backoff: 10s, max_backoff: 1s}"),
            "remote write to \"c\": min_backoff (10s) must not be more than max_backoff (1s)",
        ),
        (client("remote_timeout: 0s"), "c.remote_timeout: must be more than 0"),
        (client("remote_timeout: -5s"), "c.remote_timeout: \"-5s\" is not a duration"),
        (
            client("queue_config: {max_backoff: -5s}"),
            "c.queue_config.max_backoff: \"-5s\" is not a duration",
        ),
        (client("oauth2: {client_id: x}"), "c.oauth2: this server cannot do that"),
        (client("headers: {Authorization: x}"), "c.headers.Authorization: set it by basic_auth"),
        (client("headers: {Content-Type: x}"), "c.headers: Content-Type is a reserved header"),
        (
            client("bearer_token: a, basic_auth: {username: b}"),
            "at most one of basic_auth, authorization",
        ),
        (
            client("authorization: {type: Basic, credentials: x}"),
            "c.authorization.type: cannot be \"basic\"",
        ),
        (
            client("basic_auth: {password: a, password_file: b}"),
            "a secret and its file must not both",
        ),
        (client("sigv4: {access_key: a}"), "c.sigv4: access_key and secret_key go together"),
        (client("sigv4: {role_arn: a}"), "c.sigv4.role_arn: credentials come from the settings"),
        (client("tls_config: {cert_file: a}"), "c.tls_config: cert_file and key_file go together"),
        (client("tls_config: {ca: '-----'}"), "c.tls_config.ca: write it into a file: ca_file"),
        (client("protobuf_message: v3"), "c.protobuf_message: \"v3\" is neither"),
        (client("write_relabel_configs: {}"), "c.write_relabel_configs: must be a list"),
        (
            clients("{url: h}"),
            "ruler.remote_write.clients: c.url: \"h\" must begin with http:// or https://",
        ),
        (
            "ruler: {remote_write: {clients: [a]}}".to_owned(),
            "ruler.remote_write.clients: must be a section",
        ),
        (
            "limits_config: {ruler_remote_write_url: x}".to_owned(),
            "limits_config.ruler_remote_write_url: \"x\" must begin",
        ),
        (
            "limits_config: {ruler_alertmanager_config: {alertmanager_url: x}}".to_owned(),
            "limits_config.ruler_alertmanager_config: alertmanager_url: \"x\" must begin",
        ),
    ] {
        let errors = loaded(&text).expect_err(&text);
        assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        assert!(errors[0].contains(expected), "{text}: {}", errors[0]);
    }
    // A secret in the wrong place does not get into the error.
    for bad in
        ["basic_auth: 'u:hush'", "bearer_token: [hush]", "sigv4: hush", "url: 'x://u:hush@h'"]
    {
        let text = clients(&format!("{{{bad}}}"));
        let errors = loaded(&text).expect_err(&text).join("\n");
        assert!(!errors.contains("hush"), "{errors}");
    }
}

#[test]
fn a_bad_setting_of_a_tenant_refuses_the_files() {
    for (text, expected) in [
        (
            "ruler_remote_write_relabel_configs: [{action: keep, regex: '('}]",
            "invalid override for tenant t: ruler_remote_write_relabel_configs: [0]: error parsing",
        ),
        (
            "ruler_remote_write_config: {a: {queue_config: {max_samples_per_send: 0}}}",
            "invalid override for tenant t: ruler_remote_write_config: a.queue_config.max_samples_per_send: must be more than 0",
        ),
        (
            "ruler_alertmanager_config: {alertmanager_urls: x}",
            "ruler_alertmanager_config: alertmanager_urls: unknown key; did you mean alertmanager_url?",
        ),
    ] {
        let texts = [format!("overrides: {{t: {{{text}}}}}")];
        let errors = RuntimeFiles::parse(&texts, &Limits::default()).expect_err(text);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains(expected), "{}", errors[0]);
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it writes files for the test")]
fn files_of_tls_are_read_at_the_start() {
    let folder = std::env::temp_dir().join(format!("logsvc-ruler-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let pem = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let cert = pem("c.pem", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n");
    let key = pem("k.pem", "-----BEGIN EC PRIVATE KEY-----\nAA==\n-----END EC PRIVATE KEY-----\n");
    let start = |text: &str| {
        let file = pem("logsvc.yaml", text);
        let machine = Machine { cores: 1, memory_bytes: Ok(8 << 30), limited_by: None };
        load(Some(file.as_ref()), false, &[], &machine).map(drop).map_err(|errors| errors.0)
    };
    let with = |ca: &str, cert: &str, key: &str| {
        format!(
            "ruler: {{alertmanager_client: {{tls_ca_path: {ca}}}, remote_write: {{clients: {{a: \
             {{url: 'https://h', tls_config: {{cert_file: {cert}, key_file: {key}}}}}}}}}}}"
        )
    };
    assert_eq!(start(&with(&cert, &cert, &key)), Ok(()));
    let errors = start(&with("/none/ca", "/none/cert", &cert)).expect_err("three bad files");
    assert_eq!(errors.len(), 3, "{errors:?}");
    assert!(errors[0].starts_with("error loading ca cert: /none/ca: "), "{errors:?}");
    assert!(errors[1].starts_with("error loading client cert: /none/cert: "), "{errors:?}");
    assert!(errors[2].starts_with(&format!("error loading client key: {cert}: ")), "{errors:?}");
    // Those of all tenants and of single ones, and files with secrets.
    let own = |tls: &str| {
        format!("ruler_alertmanager_config: {{alertmanager_client: {{tls_ca_path: {tls}, ")
            + "credentials_file: /none/token}}"
    };
    let errors = start(&format!("limits_config: {{{}}}", own(&key))).expect_err("two bad files");
    let expected =
        [format!("error loading ca cert: {key}: "), loading("credentials file", "token")];
    assert!(all_begin(&errors, &expected), "{errors:?}");
    let runtime = pem("runtime.yaml", &format!("overrides: {{t: {{{}}}}}", own("/none/ca")));
    let errors = start(&format!("runtime_config: {{file: {runtime}}}")).expect_err("a tenant's");
    let of_t = |fault: String| format!("invalid override for tenant t: {fault}");
    let expected = [of_t(loading("ca cert", "ca")), of_t(loading("credentials file", "token"))];
    assert!(all_begin(&errors, &expected), "{errors:?}");
    std::fs::remove_dir_all(&folder).expect("the folder can go");
}

fn loading(name: &str, file: &str) -> String {
    format!("error loading {name}: /none/{file}: ")
}

fn all_begin(texts: &[String], begins: &[String]) -> bool {
    texts.len() == begins.len()
        && texts.iter().zip(begins).all(|(text, begin)| text.starts_with(begin))
}

#[test]
fn pauses_of_a_tenant_must_agree_with_those_of_the_node() {
    let config = config_of(
        "ruler: {remote_write: {enabled: true, clients: {c: {url: 'http://h', queue_config: \
         {max_backoff: 1s}}}}}",
    );
    for (own, faults) in [("500ms", 0), ("2s", 1)] {
        let texts = [format!("overrides: {{t: {{ruler_remote_write_queue_min_backoff: {own}}}}}")];
        let files = RuntimeFiles::parse(&texts, &config.limits).expect("readable");
        let found = config.ruler.tenant_faults(&files.limits.of_rules());
        assert_eq!(found.len(), faults, "{found:?}");
        let begins = "invalid override for tenant t: remote write to \"c\": min_backoff (2s)";
        assert!(found.iter().all(|fault| fault.starts_with(begins)), "{found:?}");
    }
}
