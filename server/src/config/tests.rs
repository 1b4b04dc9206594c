//! From the text of a file and flags to settings, errors and ignored keys.

mod arbitrary;
mod deployed;

use super::table::{SETTINGS, by_path};
use super::*;

const MACHINE_MEMORY_BYTES: u64 = 8 << 30;

fn machine() -> Machine {
    Machine { cores: 3, memory_bytes: Ok(MACHINE_MEMORY_BYTES), limited_by: None }
}

fn given(flags: &[(&str, &str)]) -> Vec<GivenFlag> {
    let row = |path: &str| by_path(path).unwrap_or_else(|| panic!("no setting {path}"));
    flags.iter().map(|(path, value)| (row(path), (*value).to_owned())).collect()
}

fn load_with(
    text: &str,
    flags: &[(&str, &str)],
) -> Result<(Config, Vec<IgnoredKey>), ConfigErrors> {
    load_text(text, &given(flags), &machine())
}

fn config_of(text: &str, flags: &[(&str, &str)]) -> Config {
    load_with(text, flags).unwrap_or_else(|errors| panic!("{text}\n{errors}")).0
}

fn errors_of(text: &str) -> Vec<String> {
    match load_with(text, &[]) {
        Ok(_) => Vec::new(),
        Err(ConfigErrors(errors)) => errors,
    }
}

/// The value of a setting, as the file writes it.
fn value_of(config: &Config, path: &str) -> String {
    by_path(path).expect("a setting").field(&mut config.clone()).print()
}

#[test]
fn nothing_need_be_said() {
    for text in ["", "\n", "---\n", "# only a comment\n", "server:\nlimits_config: {}\n"] {
        let config = config_of(text, &[]);
        assert_eq!(config.http_address.to_string(), "0.0.0.0:3100", "{text:?}");
        assert_eq!(config.data_dir, Path::new("./data"));
        assert_eq!(config.cores, 3);
        assert_eq!(config.memory_max_bytes, MACHINE_MEMORY_BYTES / 4);
        assert_eq!(config.wal.sync, SyncPolicy::Always);
        assert_eq!(config.out_of_order_window_ns, HOUR_NS);
        assert_eq!(config.limits, Limits::default());
        assert!(!config.auth_enabled && !config.align_queries_with_step);
    }
}

#[test]
fn defaults_are_those_of_the_reference() {
    for (path, expected) in [
        ("server.http_listen_port", "3100"),
        ("server.http_server_read_timeout", "30s"),
        ("server.http_server_idle_timeout", "2m"),
        ("distributor.max_recv_msg_size", "100MB"),
        ("distributor.max_decompressed_size", "5000MB"),
        ("frontend.max_body_size", "10MB"),
        ("ingester.max_chunk_age", "2h"),
        ("limits_config.max_line_size", "256KB"),
        ("limits_config.reject_old_samples_max_age", "1w"),
        ("limits_config.creation_grace_period", "10m"),
        ("limits_config.max_structured_metadata_size", "64KB"),
        ("limits_config.max_query_length", "30d1h"),
        ("limits_config.max_query_lookback", "0s"),
        ("limits_config.query_timeout", "1m"),
    ] {
        assert_eq!(by_path(path).expect("a setting").default_value(), expected, "{path}");
    }
}

#[test]
fn every_setting_takes_what_it_prints() {
    for setting in SETTINGS {
        let mut config = Config::default();
        let printed = setting.default_value();
        let outcome = setting.field(&mut config).set(&printed);
        assert_eq!(outcome, Ok(()), "{}", setting.path);
        assert_eq!(config, Config::default(), "{}", setting.path);
    }
}

/// Names of one setting, of which some have fewer values.
const DELETION: [&str; 4] = [
    "compactor.allow_deletes",
    "compactor.deletion_mode",
    "limits_config.allow_deletes",
    "limits_config.deletion_mode",
];

#[test]
fn every_setting_has_a_name_and_a_field_of_its_own() {
    for (index, setting) in SETTINGS.iter().enumerate() {
        for other in &SETTINGS[..index] {
            assert_ne!(setting.path, other.path);
            assert_ne!(setting.flag, other.flag);
            assert!(!setting.path.starts_with(&format!("{}.", other.path)), "{}", setting.path);
        }
        let values = [
            "7",
            "7h",
            "7MB",
            "true",
            "false",
            "debug",
            "json",
            "glommio",
            "epoll",
            "store",
            "memberlist",
            "local",
            "filter-only",
            "::7",
            "/7",
            "2030-01-01T00:00:00Z",
            "{\"severity_text_as_label\":true}",
            "[{\"selector\":\"{a=\\\"b\\\"}\",\"period\":\"24h\"}]",
            "[{\"pattern\":\"x\"}]",
            "[{\"action\":\"drop\"}]",
            "http://h",
            "{\"a\":\"b\"}",
            "{\"bucketnames\":\"b\"}",
            "{\"bucket_name\":\"b\"}",
            "{\"account_name\":\"b\"}",
            "{\"username\":\"b\"}",
            "{\"directory\":\"b\"}",
            "{\"storage_prefix\":\"b\"}",
            "{\"aws\":{\"a\":{}}}",
            "[{\"from\":\"2020-01-01\"}]",
            "{\"a\":{}}",
            "{}",
            "[]",
        ];
        let mut config = Config::default();
        for value in values {
            // Most values suit only some settings.
            if setting.field(&mut config).set(value).is_ok() && config != Config::default() {
                break;
            }
        }
        let changed: Vec<&str> = SETTINGS
            .iter()
            .filter(|row| value_of(&config, row.path) != row.default_value())
            .map(|row| row.path)
            .collect();
        match setting.path {
            "common.path_prefix" | "data_dir" => {
                assert_eq!(changed, ["common.path_prefix", "data_dir"]);
            }
            "runtime_config.file" | "limits_config.per_tenant_override_config" => {
                let names = ["limits_config.per_tenant_override_config", "runtime_config.file"];
                assert_eq!(changed, names);
            }
            "runtime_config.period" | "limits_config.per_tenant_override_period" => {
                let names = ["limits_config.per_tenant_override_period", "runtime_config.period"];
                assert_eq!(changed, names);
            }
            path @ ("frontend.max_outstanding_per_tenant"
            | "query_scheduler.max_outstanding_requests_per_tenant") => {
                assert_eq!(changed.len(), 2, "{path}");
                assert!(changed.iter().all(|path| path.contains(".max_outstanding_")));
            }
            path if DELETION.contains(&path) => assert!(changed.contains(&path), "{changed:?}"),
            path => assert_eq!(changed, [path]),
        }
    }
}

#[test]
fn values_have_the_notations_of_the_field() {
    for (text, path, printed) in [
        ("auth_enabled: true", "auth_enabled", "true"),
        ("auth_enabled: 'true'", "auth_enabled", "true"),
        ("server: {http_listen_port: '80'}", "server.http_listen_port", "80"),
        ("server: {http_listen_address: ''}", "server.http_listen_address", "0.0.0.0"),
        ("server: {http_listen_address: localhost}", "server.http_listen_address", "127.0.0.1"),
        ("server: {http_listen_address: '[::1]'}", "server.http_listen_address", "::1"),
        ("server: {http_server_read_timeout: 1h2m}", "server.http_server_read_timeout", "1h2m"),
        ("server: {log_level: warn}", "server.log_level", "warn"),
        ("runtime: {backend: glommio}", "runtime.backend", "glommio"),
        ("limits_config: {max_line_size: 1000}", "limits_config.max_line_size", "1000B"),
        ("limits_config: {max_line_size: 1MiB}", "limits_config.max_line_size", "1MB"),
        ("limits_config: {max_line_size: 0}", "limits_config.max_line_size", "0B"),
        ("limits_config: {max_query_length: 0}", "limits_config.max_query_length", "0s"),
        (
            "limits_config: {max_query_length: 1h0m0.5s}",
            "limits_config.max_query_length",
            "1h500ms",
        ),
        ("wal: {sync: 250ms}", "wal.sync", "250ms"),
        ("wal: {sync: never}", "wal.sync", "never"),
        ("limits_config: {discover_service_name: []}", "limits_config.discover_service_name", "[]"),
        (
            "limits_config: {discover_service_name: [a, b]}",
            "limits_config.discover_service_name",
            "a,b",
        ),
        ("limits_config: {log_level_fields: 'a, b'}", "limits_config.log_level_fields", "a,b"),
        ("limits_config: {ingestion_rate_mb: 0.5}", "limits_config.ingestion_rate_mb", "0.5"),
        (
            "limits_config: {block_ingestion_until: '2030-01-01T00:00:00Z'}",
            "limits_config.block_ingestion_until",
            "2030-01-01T00:00:00Z",
        ),
        ("limits_config: {block_ingestion_until: 0}", "limits_config.block_ingestion_until", "0"),
        ("common: {path_prefix: /srv}", "data_dir", "/srv"),
        ("common: {path_prefix: /srv}\ndata_dir: /other", "data_dir", "/other"),
        ("data_dir: /other\ncommon: {path_prefix: /srv}", "data_dir", "/other"),
        (
            "limits_config: {max_line_size: &size 1MB, max_structured_metadata_size: *size}",
            "limits_config.max_structured_metadata_size",
            "1MB",
        ),
    ] {
        assert_eq!(value_of(&config_of(text, &[]), path), printed, "{text}");
    }
}

#[test]
fn a_flag_beats_the_file() {
    let text = "server: {http_listen_port: 1}\ncores: 2\ncommon: {path_prefix: /file}\n";
    let flags = [("server.http_listen_port", "4000"), ("data_dir", "/flag")];
    let config = config_of(text, &flags);
    assert_eq!(config.http_address.port(), 4000);
    assert_eq!(config.data_dir, Path::new("/flag"));
    assert_eq!(config.cores, 2);
    // Also if the value of the file is bad, and by any name of the setting.
    assert_eq!(config_of("cores: many", &[("cores", "5")]).cores, 5);
    let config = config_of("data_dir: /file", &[("common.path_prefix", "/flag")]);
    assert_eq!(config.data_dir, Path::new("/flag"));
}

#[test]
fn budgets_follow_from_the_memory() {
    for (memory, body, heads, query) in [
        ("64MB", 16 << 20, 12 << 20, 12 << 20),
        ("640MB", 100 << 20, 120 << 20, 120 << 20),
        ("8GB", 1 << 30, 288 << 20, 3 << 29),
    ] {
        let config = config_of("", &[("memory.max_bytes", memory)]);
        let budgets =
            (config.body_budget_bytes, config.heads_budget_bytes, config.query_budget_bytes);
        assert_eq!(budgets, (body, heads, query), "{memory}");
        let others = config.stream_budget_bytes
            + config.resolved_budget_bytes
            + config.directory_budget_bytes
            + config.cache_budget_bytes
            + config.result_budget_bytes
            + config.tail_budget_bytes;
        // Machines with little memory take bodies as long as larger machines do.
        let most = if memory == "8GB" { 31 * config.memory_max_bytes / 32 } else { u64::MAX };
        let all = body + heads + query + others;
        assert!(all <= most.min(config.memory_max_bytes / 32 * 35), "{memory}: {all}");
    }
    // Few cores leave some of the share of heads to the cache.
    let config = config_of("cores: 2", &[("memory.max_bytes", "8GB")]);
    assert_eq!((config.heads_budget_bytes, config.cache_budget_bytes), (192 << 20, 2220 << 20));
    assert_eq!(config.result_budget_bytes, 148 << 20);
    let config = config_of("cores: 2", &[("memory.max_bytes", "640MB")]);
    assert_eq!((config.heads_budget_bytes, config.cache_budget_bytes), (120 << 20, 75 << 20));
    let mut unknown = machine();
    unknown.memory_bytes = Err("no /proc".to_owned());
    let refused = load_text("", &[], &unknown).expect_err("no memory is known");
    assert_eq!(refused.0, ["memory.max_bytes: set it, no /proc"]);
    let flags = given(&[("memory.max_bytes", "1GB")]);
    assert!(load_text("", &flags, &unknown).is_ok());
}

#[test]
fn half_of_the_chunk_age_is_the_window() {
    let config = config_of("ingester: {max_chunk_age: 30m}", &[]);
    assert_eq!(config.out_of_order_window_ns, HOUR_NS / 4);
}

#[test]
fn bad_values_name_their_keys() {
    for (text, expected) in [
        ("auth_enabled: 5", r#"auth_enabled: "5" is neither true nor false"#),
        ("cores: -1", r#"cores: "-1" is not a whole number of 0 or more"#),
        ("cores: 1.5", r#"cores: "1.5" is not a whole number of 0 or more"#),
        ("cores: 70000", "cores: 70000 is out of range, at most 65535"),
        ("cores: 2000", "cores: at most 1024"),
        ("server: {http_listen_port: 65536}", "server.http_listen_port: 65536 is out of range"),
        (
            "server: {http_listen_address: here}",
            r#"server.http_listen_address: "here" is not an IP"#,
        ),
        ("server: {log_level: loud}", r#"server.log_level: "loud" is none of: debug, info, warn"#),
        ("server: {http_server_read_timeout: 5}", r#"http_server_read_timeout: "5" is not a dur"#),
        ("server: {http_server_read_timeout: 0s}", "must be more than 0"),
        ("server: {http_server_read_timeout: -5s}", r#""-5s" is not a duration"#),
        (
            "limits_config: {max_line_size: 1XB}",
            r#"limits_config.max_line_size: "1XB" is not a size"#,
        ),
        ("limits_config: {max_line_size: 1.5MB}", r#""1.5MB" is not a size"#),
        (
            "limits_config: {max_query_series: 99999999999999999999}",
            "limits_config.max_query_series",
        ),
        ("wal: {sync: sometimes}", r#"wal.sync: "sometimes" is neither always nor never nor an"#),
        ("wal: {sync: 0s}", r#"wal.sync: "0s" is neither"#),
        ("wal: {sync: 10us}", "wal.sync: an interval must be at least 1ms"),
        ("wal: {file_max_bytes: 4}", "wal.file_max_bytes: at least 1MB"),
        ("memory: {max_bytes: 1MB}", "memory.max_bytes: at least 64MB"),
        ("data_dir: ''", "data_dir: must not be empty"),
        ("data_dir: [a]", "data_dir: must be one value, not a list"),
        ("cores: {a: 1}", "cores: must be one value, not a section"),
        ("server: 5", "server: must be a section, not a single value"),
        ("limits_config: [a]", "limits_config: must be a section, not a list"),
        ("just text", "the file must consist of `key: value`, found a single value"),
        ("- a", "the file must consist of `key: value`, found a list"),
        ("\nservr: {}", "servr: unknown key in line 2; did you mean server?"),
        (
            "limits_config:\n  max_line_sise: 1",
            "limits_config.max_line_sise: unknown key in line 2; did you mean limits_config.max_line_size?",
        ),
        ("max_line_size: 1", "did you mean limits_config.max_line_size?"),
        (
            "server.log_level: debug",
            "unknown key in line 1; did you mean the key log_level in the section server?",
        ),
        ("common: {rings: {a: 1}}", "did you mean common.ring?"),
        ("no_such_thing_at_all: 1", "no_such_thing_at_all: unknown key in line 1"),
        ("target: backnd", "target: unrecognised module name: backnd"),
        (
            "target: overrides-exporter",
            "overrides-exporter has been enabled, but no runtime configuration file was configured",
        ),
        ("runtime_config: {period: 0s}", "runtime_config.period: must be more than 0"),
        ("cores: 1\ncores: 2", "not valid YAML"),
        ("server: {log_level: info, log_level: warn}", "not valid YAML"),
        ("a: [", "not valid YAML"),
        ("a: 1\n---\nb: 2", "not valid YAML"),
        ("cores: *unknown", "not valid YAML"),
    ] {
        let errors = errors_of(text);
        assert_eq!(errors.len(), 1, "{text}: {errors:?}");
        assert!(errors[0].contains(expected), "{text}: {}", errors[0]);
    }
}

#[test]
fn all_errors_are_told_at_once() {
    let text =
        "cores: many\nserver: {log_level: loud}\nwal: [1]\nlimits_config: {query_timeout: x}";
    let flags = given(&[("auth_enabled", "perhaps")]);
    let errors = load_text(text, &flags, &machine()).expect_err("five faults");
    assert_eq!(errors.0.len(), 5, "{errors}");
    assert!(errors.0.contains(&r#"--auth.enabled: "perhaps" is neither true nor false"#.into()));
    let printed = errors.to_string();
    assert!(printed.starts_with("MULTIPLE CONFIG ERRORS FOUND, PLEASE READ CAREFULLY\n"));
    assert_eq!(printed.lines().count(), 6, "{printed}");
}

#[test]
fn a_file_for_the_reference_loads_and_its_other_keys_are_named() {
    let text = "
auth_enabled: false
server:
  http_listen_address: 127.0.0.1
  http_listen_port: 3200
  grpc_listen_port: 9097
  log_level: warn
common:
  path_prefix: /tmp/logs
  replication_factor: 1
  ring: {kvstore: {store: inmemory}}
schema_config:
  configs:
    - {from: 2020-01-01, store: tsdb, index: {prefix: index_, period: 24h}}
ingester:
  max_chunk_age: 2h
  query_store_max_look_back_period: -1ns
  wal: {enabled: false}
querier: {query_ingesters_within: 0}
limits_config:
  reject_old_samples: false
  reject_old_samples_max_age: 87600h
  per_stream_rate_limit: 1GB
  discover_service_name: []
  max_line_size: 256KB
  max_query_length: 721h
  ruler_max_rules_per_rule_group: 5
ruler:
";
    let loaded = load_with(text, &[]).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(loaded.0.http_address.to_string(), "127.0.0.1:3200");
    assert_eq!(loaded.0.log_level, LogLevel::Warn);
    assert_eq!(loaded.0.data_dir, Path::new("/tmp/logs"));
    assert!(!loaded.0.limits.reject_old_samples);
    assert!(loaded.0.limits.discover_service_name.is_empty());
    assert_eq!(loaded.0.limits.per_stream_rate_limit_bytes, 1 << 30);
    assert_eq!(loaded.0.limits.reject_old_samples_max_age_ns, 87_600 * HOUR_NS);
    let mut ignored: Vec<String> = loaded.1.into_iter().map(|key| key.path).collect();
    ignored.sort_unstable();
    let expected = [
        "common.replication_factor",
        "ingester.query_store_max_look_back_period",
        "ingester.wal.enabled",
        "querier.query_ingesters_within",
        "server.grpc_listen_port",
    ];
    assert_eq!(ignored, expected);
}

#[test]
fn a_hostile_file_is_refused_in_bounded_time() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let inner = format!("*a{}, ", level - 1).repeat(10);
        bomb += &format!("a{level}: &a{level} [{inner}]\n");
    }
    let deep_flow = format!("a: {}1{}", "[".repeat(10_000), "]".repeat(10_000));
    let deep_block: String = (0..2000).map(|level| " ".repeat(level) + "a:\n").collect();
    let many = "- 1\n".repeat(200_000);
    for text in [bomb, deep_flow, deep_block, many] {
        let errors = errors_of(&text);
        assert_eq!(errors.len(), 1);
        assert!(errors[0].contains("not valid YAML"), "{}", errors[0]);
        assert!(errors[0].len() < 2000, "the message is short");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let path = Path::new("/nonexistent/logsvc.yaml");
    let errors = load(Some(path), false, &[], &machine()).expect_err("no such file");
    assert!(errors.0[0].starts_with("cannot read /nonexistent/logsvc.yaml: "), "{errors}");
    let errors =
        load(Some(Path::new("/dev/zero")), false, &[], &machine()).expect_err("it has no end");
    assert_eq!(errors.0, ["/dev/zero is longer than 4194304 bytes"]);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "it compares a file of the repository")]
fn the_documentation_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md");
    let made = reference::markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, made).expect("the folder docs can be written");
        return;
    }
    let kept = std::fs::read_to_string(path).expect("docs/configuration.md can be read");
    assert!(
        kept == made,
        "docs/configuration.md differs from the table of settings: run\n\
         UPDATE_DOCS=1 cargo test -p logsvc-server documentation"
    );
}

/// Files as the reference's images, its charts and its corpus of answers have them.
#[test]
fn usual_files_of_the_reference_load() {
    let local = "
auth_enabled: false
server: {http_listen_port: 3100, grpc_listen_port: 9096, log_level: debug, grpc_server_max_concurrent_streams: 1000}
common:
  instance_addr: 127.0.0.1
  path_prefix: /tmp/loki
  storage: {filesystem: {chunks_directory: /tmp/loki/chunks, rules_directory: /tmp/loki/rules}}
  replication_factor: 1
  ring: {kvstore: {store: inmemory}}
query_range:
  results_cache: {cache: {embedded_cache: {enabled: true, max_size_mb: 100}}}
limits_config: {metric_aggregation_enabled: true}
schema_config:
  configs:
    - {from: 2020-10-24, store: tsdb, object_store: filesystem, schema: v13, index: {prefix: index_, period: 24h}}
pattern_ingester: {enabled: true, metric_aggregation: {loki_address: 'localhost:3100'}}
ruler: {alertmanager_url: 'http://localhost:9093'}
frontend: {encoding: protobuf}
";
    let chart = "
auth_enabled: true
bloom_build: {enabled: false}
bloom_gateway: {enabled: false}
chunk_store_config: {chunk_cache_config: {background: {writeback_buffer: 500000}}}
common:
  compactor_grpc_address: 'loki.svc:9095'
  path_prefix: /var/loki
  replication_factor: 1
  ring: {instance_id: loki-0}
  storage: {s3: {bucketnames: chunks, region: eu-west-1}}
compactor: {}
distributor: {}
frontend: {scheduler_address: '', tail_proxy_url: 'http://querier:3100'}
frontend_worker: {scheduler_address: ''}
index_gateway: {mode: simple}
ingester: {chunk_encoding: snappy}
limits_config:
  max_cache_freshness_per_query: 10m
  query_timeout: 300s
  reject_old_samples: true
  reject_old_samples_max_age: 168h
  split_queries_by_interval: 15m
  volume_enabled: true
memberlist: {join_members: [loki-memberlist]}
pattern_ingester: {enabled: false}
query_range:
  align_queries_with_step: true
  cache_results: true
  results_cache: {cache: {default_validity: 12h}}
ruler: {storage: {type: local}, wal: {dir: /var/loki/ruler-wal}}
ruler_storage: {backend: s3}
schema_config: {configs: [{from: 2024-04-01, store: tsdb, object_store: s3, schema: v13, index: {prefix: index_, period: 24h}}]}
server:
  grpc_listen_port: 9095
  http_listen_port: 3100
  http_server_read_timeout: 600s
  http_server_write_timeout: 600s
storage_config:
  bloom_shipper: {working_directory: /var/loki/data/bloomshipper}
  boltdb_shipper: {index_gateway_client: {server_address: ''}}
  hedging: {at: 250ms, max_per_second: 20, up_to: 3}
  tsdb_shipper: {index_gateway_client: {server_address: ''}}
tracing: {enabled: true}
ui: {discovery: {join_peers: [loki]}}
";
    for text in [local, chart] {
        let (_, ignored) = load_with(text, &[]).unwrap_or_else(|errors| panic!("{errors}"));
        assert!(ignored.len() > 5 && ignored.iter().all(|key| !key.reason.is_empty()));
    }
    let (config, ignored) = load_with("target: read,write", &[]).expect("known parts");
    assert_eq!(config.target, "read,write");
    assert_eq!(ignored[0].path, "target");
}

#[test]
fn unknown_keys_do_not_flood() {
    let text: String = (0..5000).map(|number| format!("key_{number}: 1\n")).collect();
    let errors = errors_of(&text);
    assert_eq!(errors.len(), 51);
    assert_eq!(errors[50], "and 4950 more unknown keys");
}

#[test]
fn start_up_errors_of_the_contract_have_its_texts() {
    for (text, expected) in reference::STARTUP_ERRORS_HERE {
        let told = errors_of(text).join("\n");
        assert!(told.contains(expected), "{text}: {told}");
    }
}
