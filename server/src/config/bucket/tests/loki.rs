//! Loki's keys.

use super::*;

/// A file with a section below `storage_config` whose store is chosen.
fn chosen(store: &str, section: &str) -> String {
    format!(
        "common: {{path_prefix: /loki}}\nschema_config: {{configs: [{{from: 2023-01-01, store: tsdb, \
         object_store: {store}, schema: v13, index: {{prefix: index_, period: 24h}}}}]}}\n\
         storage_config: {{{section}}}"
    )
}

#[test]
fn keys_of_s3_mean_what_they_mean_in_loki() {
    type Expected<'t> = (&'t str, &'t str, &'t str, bool);
    let cases: [(&str, Expected<'_>); 12] = [
        // Section, and bucket, endpoint, region, whether the path has the bucket.
        ("bucketnames: b, region: r", ("b", "", "r", false)),
        (
            "bucketnames: b, endpoint: 'minio:9000', insecure: true, s3forcepathstyle: true",
            ("b", "http://minio:9000", "", true),
        ),
        (
            "bucketnames: b, endpoint: 'minio:9000', insecure: true",
            ("b", "http://minio:9000", "", true),
        ),
        (
            "bucketnames: b, endpoint: 'http://10.0.0.1:9000'",
            ("b", "http://10.0.0.1:9000", "", true),
        ),
        (
            "bucketnames: b, endpoint: s3.eu-west-2.amazonaws.com",
            ("b", "https://b.s3.eu-west-2.amazonaws.com", "eu-west-2", false),
        ),
        (
            "bucketnames: b, endpoint: s3.example.com, s3forcepathstyle: 'true'",
            ("b", "https://s3.example.com", "", true),
        ),
        ("bucketnames: b, endpoint: s3.example.com", ("b", "https://b.s3.example.com", "", false)),
        ("s3: 's3://i:s%2Fx@us-east-2/b'", ("b", "", "us-east-2", false)),
        ("s3: 's3://i:s%2Fx@minio:9000/b', insecure: true", ("b", "http://minio:9000", "", true)),
        (
            "s3: 'http://i:s%2Fx@localhost.:9000/b', s3forcepathstyle: true",
            ("b", "http://localhost.:9000", "", true),
        ),
        ("s3: 's3://i:s%2Fx@us-east-2/x', bucketnames: b", ("b", "", "us-east-2", false)),
        ("endpoint: 's3://b', region: us-west-1", ("b", "", "us-west-1", false)),
    ];
    for (section, (bucket, endpoint, region, is_in_path)) in cases {
        let found = s3(&chosen("s3", &format!("aws: {{{section}}}")));
        let place = (&*found.bucket, &*found.endpoint, &*found.region, found.has_bucket_in_path);
        assert_eq!(place, (bucket, endpoint, region, is_in_path), "{section}");
        assert_eq!(found.prefix, "logsvc");
        if section.contains("i:s") {
            assert_eq!(found.credentials, key("i", "s/x"), "{section}");
        } else {
            assert_eq!(found.credentials, S3Credentials::OfMachine, "{section}");
        }
    }
    let section = "aws: {bucketnames: b, access_key_id: i, secret_access_key: s, session_token: t}";
    let expected = S3Credentials::Key {
        id: "i".to_owned(),
        secret: Secret("s".to_owned()),
        session_token: Secret("t".to_owned()),
    };
    assert_eq!(s3(&chosen("aws", section)).credentials, expected);
    for (sse, expected) in [
        ("sse_encryption: true", Encryption::Store),
        ("sse: {type: SSE-S3}", Encryption::Store),
        ("sse: {type: SSE-KMS, kms_key_id: k}", Encryption::Key("k".to_owned())),
        ("sse: {type: ''}", Encryption::OfBucket),
    ] {
        let found = s3(&chosen("s3", &format!("aws: {{bucketnames: b, {sse}}}")));
        assert_eq!(found.encryption, expected, "{sse}");
    }
}

#[test]
fn keys_without_an_effect_are_told() {
    let section = "aws: {bucketnames: 'b, c', storage_class: GLACIER, http_config: {timeout: 1s}, \
                   backoff_config: {max_retries: 1}, sse: {type: SSE-S3, kms_encryption_context: \
                   '{}'}}, object_prefix: x/, hedging: {at: 1s}";
    let text = chosen("s3", section);
    assert_eq!(s3(&text).bucket, "b");
    assert_eq!(s3(&text).prefix, "x/logsvc");
    let mut found = ignored(&text);
    found.sort();
    let expected = [
        "storage_config.aws.backoff_config",
        "storage_config.aws.bucketnames",
        "storage_config.aws.http_config",
        "storage_config.aws.sse.kms_encryption_context",
        "storage_config.aws.storage_class",
        "storage_config.hedging",
    ];
    assert_eq!(found, expected);
}

#[test]
fn other_clouds_have_their_keys() {
    let bucket = gcs(&chosen("gcs", "gcs: {bucket_name: b, service_account: '{}'}"));
    assert_eq!((&*bucket.bucket, &*bucket.prefix), ("b", "logsvc"));
    assert_eq!(bucket.credentials, GcsCredentials::ServiceAccount(Secret("{}".to_owned())));
    let bucket =
        s3(&chosen("bos", "bos: {bucket_name: b, access_key_id: i, secret_access_key: s}"));
    assert_eq!((&*bucket.endpoint, &*bucket.region), ("https://s3.bj.bcebos.com", "bj"));
    let keys = "bos: {bucket_name: b, endpoint: gz.bcebos.com, access_key_id: i, \
                secret_access_key: s}";
    let bucket = s3(&chosen("bos", keys));
    assert_eq!((&*bucket.endpoint, &*bucket.region), ("https://s3.gz.bcebos.com", "gz"));
    assert_eq!(bucket.credentials, key("i", "s"));
    let secret = |text: &str| Secret(text.to_owned());
    for (section, endpoint, credentials) in [
        ("account_name: a, account_key: k", "", AzureCredentials::Key(secret("k"))),
        ("account_name: a", "", AzureCredentials::OfMachine),
        ("account_name: a, use_managed_identity: true", "", AzureCredentials::OfMachine),
        (
            "account_name: a, use_managed_identity: true, user_assigned_id: u",
            "",
            AzureCredentials::Identity("u".to_owned()),
        ),
        (
            "account_name: a, endpoint_suffix: blob.core.example",
            "https://a.blob.core.example",
            AzureCredentials::OfMachine,
        ),
        (
            "account_name: a, environment: AzureChinaCloud, use_service_principal: true, client_id: \
             i, client_secret: s, tenant_id: t",
            "https://a.blob.core.chinacloudapi.cn",
            AzureCredentials::Client {
                tenant_id: "t".to_owned(),
                id: "i".to_owned(),
                secret: secret("s"),
            },
        ),
        (
            "connection_string: 'DefaultEndpointsProtocol=https;AccountName=a;AccountKey=k==;\
             EndpointSuffix=core.windows.net'",
            "https://a.blob.core.windows.net",
            AzureCredentials::Key(secret("k==")),
        ),
        (
            "connection_string: 'BlobEndpoint=https://a.blob.core.windows.net/;\
             SharedAccessSignature=sv=1&sig=x'",
            "https://a.blob.core.windows.net",
            AzureCredentials::Signature(secret("sv=1&sig=x")),
        ),
    ] {
        let found = azure(&chosen("azure", &format!("azure: {{{section}}}")));
        let expected = AzureConfig {
            account: "a".to_owned(),
            container: "loki".to_owned(),
            prefix: "logsvc".to_owned(),
            endpoint: endpoint.to_owned(),
            credentials,
        };
        assert_eq!(found, expected, "{section}");
    }
    let emulator = "azure: {connection_string: 'UseDevelopmentStorage=true', container_name: c}";
    let found = azure(&chosen("azure", emulator));
    assert_eq!((&*found.account, &*found.container), ("devstoreaccount1", "c"));
    assert_eq!(found.endpoint, "http://127.0.0.1:10000/devstoreaccount1");
}

#[test]
fn a_file_system_is_the_data_folder() {
    for text in [
        "common: {storage: {filesystem: {chunks_directory: /c, rules_directory: /r}}}\n\
         schema_config: {configs: [{from: 2020-01-01, object_store: filesystem, store: tsdb}]}",
        "common: {storage: {filesystem: {chunks_directory: /c}}}",
        "storage_config: {filesystem: {directory: /c}}\n\
         schema_config: {configs: [{from: 2020-01-01, object_store: filesystem, store: tsdb}]}",
    ] {
        let (config, ignored) = load(text).unwrap_or_else(|errors| panic!("{errors:?}"));
        assert_eq!(config.bucket, None, "{text}");
        assert_eq!(ignored.len(), 1, "{ignored:?}");
        assert!(ignored[0].path.ends_with(".filesystem"), "{ignored:?}");
        assert!(ignored[0].reason.contains("means the data folder"), "{ignored:?}");
    }
    let named = "named_stores: {filesystem: {f: {directory: /c}}}";
    assert_eq!(config(&chosen("f", named)).bucket, None);
    let rules = "common: {storage: {filesystem: {rules_directory: /r}}}";
    assert_eq!(ignored(rules), [""; 0]);
}

#[test]
fn the_entry_in_force_chooses() {
    let stores = "storage_config:\n  aws: {bucketnames: b}\n  gcs: {bucket_name: g}\n  named_stores: \
                  {aws: {mine: {bucketnames: m}}}\nschema_config:\n  configs:\n";
    let of = |entries: &[(&str, &str)]| {
        let entries = entries.iter().map(|(from, store)| {
            format!("  - {{from: {from}, store: tsdb, object_store: {store}, schema: v13}}\n")
        });
        let text = format!("data_dir: /d\n{stores}{}", entries.collect::<String>());
        match config(&text).bucket {
            None => "none".to_owned(),
            Some(BucketConfig::Cloud(CloudConfig::S3(config))) => config.bucket,
            Some(BucketConfig::Cloud(CloudConfig::Gcs(config))) => config.bucket,
            Some(other) => panic!("{other:?}"),
        }
    };
    // It is November 2023.
    assert_eq!(of(&[("2020-01-01", "filesystem"), ("2023-11-14", "s3")]), "b");
    assert_eq!(of(&[("2020-01-01", "filesystem"), ("2023-11-15", "s3")]), "none");
    assert_eq!(of(&[("2023-01-01", "gcs"), ("2022-01-01", "s3")]), "g");
    assert_eq!(of(&[("2022-01-01", "aws")]), "b");
    assert_eq!(of(&[("2022-01-01", "mine")]), "m");
    // None has begun.
    assert_eq!(of(&[("2030-01-01", "s3"), ("2031-01-01", "gcs")]), "b");
    // Nobody chooses between two.
    assert_eq!(of(&[]), "none");
    let only = "common: {storage: {s3: {bucketnames: b}}}";
    assert_eq!(s3(only).bucket, "b");
    assert_eq!(s3("storage_config: {aws: {bucketnames: b}}").bucket, "b");
    let both = "data_dir: /d\ncommon: {storage: {s3: {bucketnames: b, region: r}}}\n\
                storage_config: {aws: {bucketnames: c}}\n\
                schema_config: {configs: [{from: 2020-01-01, object_store: s3}]}";
    assert_eq!(s3(both).bucket, "c");
    assert_eq!(ignored(both), ["common.storage.s3"]);
}

#[test]
fn the_other_family_of_clients_has_its_keys() {
    let text = |section: &str, store: &str| {
        chosen(store, &format!("use_thanos_objstore: true, object_store: {{{section}}}"))
    };
    let minio = "s3: {bucket_name: b, endpoint: 'minio.example:9000', insecure: true, \
                 access_key_id: i, secret_access_key: s}, storage_prefix: x-1";
    let found = s3(&text(minio, "s3"));
    assert_eq!(found.endpoint, "http://minio.example:9000");
    assert_eq!((found.has_bucket_in_path, &*found.prefix), (true, "x-1/logsvc"));
    assert_eq!(found.credentials, key("i", "s"));
    let amazon = "s3: {bucket_name: b, endpoint: s3.us-west-2.amazonaws.com}";
    let found = s3(&text(amazon, "s3"));
    assert_eq!(found.endpoint, "https://b.s3.us-west-2.amazonaws.com");
    let host = "s3: {bucket_name: b, endpoint: minio.example, bucket_lookup_type: virtual-hosted}";
    assert_eq!(s3(&text(host, "s3")).endpoint, "https://b.minio.example");
    assert_eq!(gcs(&text("gcs: {bucket_name: g}", "gcs")).bucket, "g");
    let named = "named_stores: {s3: {mine: {bucket_name: m}}}";
    assert_eq!(s3(&text(named, "mine")).bucket, "m");
    assert_eq!(config(&text("filesystem: {dir: /x}", "filesystem")).bucket, None);
    let common = "common: {path_prefix: /x, storage: {object_store: {s3: {bucket_name: b}}}}\n\
                  storage_config: {use_thanos_objstore: true}\nschema_config: {configs: [{from: \
                  2020-01-01, object_store: s3, store: tsdb, schema: v13}]}";
    assert_eq!(s3(common).bucket, "b");
    // Without the switch it is idle.
    let idle = common.replace("true", "false").replace("s3, store", "filesystem, store");
    assert_eq!(config(&idle).bucket, None);
    assert_eq!(ignored(&idle), ["common.storage.object_store"]);
}

/// As charts and guides have it.
#[test]
fn usual_files_with_s3_start() {
    let text = "
auth_enabled: true
common:
  compactor_grpc_address: 'loki-backend.loki.svc.cluster.local:9095'
  path_prefix: /var/loki
  replication_factor: 3
  storage:
    s3:
      access_key_id: root-user
      bucketnames: chunks
      endpoint: loki-minio.loki.svc:9000
      insecure: true
      s3forcepathstyle: true
      secret_access_key: supersecretpassword
ruler: {storage: {s3: {bucketnames: ruler}, type: s3}}
schema_config:
  configs:
  - {from: '2020-10-24', index: {period: 24h, prefix: index_}, object_store: filesystem, schema: v12, store: boltdb-shipper}
  - {from: '2022-04-01', index: {period: 24h, prefix: loki_index_}, object_store: s3, schema: v13, store: tsdb}
storage_config:
  boltdb_shipper: {index_gateway_client: {server_address: 'x:9095'}}
  hedging: {at: 250ms, max_per_second: 20, up_to: 3}
  tsdb_shipper: {active_index_directory: /var/loki/i, cache_location: /var/loki/c, cache_ttl: 24h}
compactor:
  working_directory: /var/loki/retention
  retention_enabled: true
  delete_request_store: s3
  compaction_interval: 10m
ingester: {wal: {dir: /var/loki/wal, checkpoint_duration: 5m}, chunk_encoding: snappy}
limits_config: {retention_period: 744h}
";
    let found = s3(text);
    assert_eq!((&*found.bucket, &*found.endpoint), ("chunks", "http://loki-minio.loki.svc:9000"));
    assert_eq!(found.credentials, key("root-user", "supersecretpassword"));
    let told = ignored(text);
    assert!(told.contains(&"compactor.working_directory".to_owned()), "{told:?}");
    assert!(told.contains(&"compactor.delete_request_store".to_owned()), "{told:?}");
}
