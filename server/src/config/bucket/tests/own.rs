//! The short form.

use std::path::PathBuf;

use super::*;

#[test]
fn nothing_means_the_data_folder() {
    let config = config("");
    assert_eq!(config.bucket, None);
    assert_eq!(config.wal.durability, Durability::Local);
    assert_eq!(config.storage.partitions, 64);
    assert_eq!(config.storage.upload_max_age.as_secs(), 60);
    assert_eq!(config.storage.cache_max_bytes, 0);
}

#[test]
fn one_line_names_a_bucket() {
    let bucket = s3("storage: {bucket: s3://logs/a/b/}");
    assert_eq!((&*bucket.bucket, &*bucket.prefix, &*bucket.endpoint), ("logs", "a/b", ""));
    assert!(!bucket.has_bucket_in_path);
    assert_eq!(bucket.credentials, S3Credentials::OfMachine);
    let bucket = s3("storage: {bucket: 's3://logs', bucket_endpoint: 'http://minio:9000/', \
                     bucket_region: r, bucket_access_key_id: i, bucket_secret_access_key: s}");
    let expected = S3Config {
        bucket: "logs".to_owned(),
        prefix: String::new(),
        endpoint: "http://minio:9000".to_owned(),
        region: "r".to_owned(),
        has_bucket_in_path: true,
        credentials: key("i", "s"),
        encryption: Encryption::OfBucket,
    };
    assert_eq!(bucket, expected);
    let bucket = s3("storage: {bucket: 's3://l.ogs'}");
    assert!(bucket.has_bucket_in_path);
    let of_amazon = "storage: {bucket: 's3://logs', bucket_endpoint: \
                     'https://s3.eu-west-1.amazonaws.com'}";
    let bucket = s3(of_amazon);
    assert_eq!(bucket.endpoint, "https://logs.s3.eu-west-1.amazonaws.com");
    assert_eq!((&*bucket.region, bucket.has_bucket_in_path), ("eu-west-1", false));
    let bucket = s3("storage: {bucket: 's3://logs', bucket_region: cn-north-1}");
    assert_eq!(bucket.endpoint, "https://logs.s3.cn-north-1.amazonaws.com.cn");
    let bucket = gcs("storage: {bucket: 'gs://logs/x'}");
    assert_eq!((&*bucket.bucket, &*bucket.prefix), ("logs", "x"));
    assert_eq!(bucket.credentials, GcsCredentials::OfMachine);
    let emulator = gcs("storage: {bucket: 'gs://logs', bucket_endpoint: 'http://h:1'}");
    assert_eq!(emulator.credentials, GcsCredentials::Anonymous);
    let bucket = azure("storage: {bucket: 'azure://acc/con/p/q', bucket_secret_access_key: k}");
    assert_eq!((&*bucket.account, &*bucket.container), ("acc", "con"));
    assert_eq!(bucket.prefix, "p/q");
    assert_eq!(bucket.credentials, AzureCredentials::Key(Secret("k".to_owned())));
    let folder = bucket_with("storage: {bucket: 'file:///srv/logs'}", &[], &[]);
    assert_eq!(folder, BucketConfig::Folder(PathBuf::from("/srv/logs")));
}

#[test]
fn the_log_can_be_in_the_bucket() {
    let config = config("storage: {bucket: 's3://b'}\nwal: {durability: store}");
    assert_eq!(config.wal.durability, Durability::Store);
    assert_eq!(config.storage.upload_max_age.as_secs(), 600);
    let text = "storage: {bucket: 's3://b', upload_max_age: 5s, cache_max_bytes: 1GB, \
                partitions: 3}";
    let config = super::config(text);
    assert_eq!(config.storage.upload_max_age.as_secs(), 5);
    assert_eq!((config.storage.cache_max_bytes, config.storage.partitions), (1 << 30, 3));
    assert_eq!(ignored(text), [""; 0]);
    let vain = ignored("storage: {cache_max_bytes: 1GB, partitions: 3}");
    assert_eq!(vain, ["storage.cache_max_bytes", "storage.partitions"]);
}

#[test]
fn what_names_no_bucket_is_refused() {
    for (text, expected) in [
        ("storage: {bucket: logs}", "storage.bucket: must be s3://name/prefix"),
        ("storage: {bucket: 's3:///x'}", "storage.bucket: names no bucket"),
        ("storage: {bucket: 's3://i:hush@b'}", "storage.bucket: takes no key"),
        ("storage: {bucket: 'ftp://b'}", "storage.bucket: unsupported storage backend ftp"),
        ("storage: {bucket: 'azure://a'}", "storage.bucket: names no account or no container"),
        ("storage: {bucket: 'file://x/y'}", "storage.bucket: needs a whole path"),
        ("storage: {bucket: 's3://b', bucket_endpoint: h}", "storage.bucket_endpoint: must be"),
        (
            "storage: {bucket: 's3://b', bucket_endpoint: 'http://b.h:1'}",
            "the endpoint must not prefixed with the bucket name",
        ),
        ("storage: {bucket: 's3://b', bucket_access_key_id: i}", "set both or none"),
        (
            "storage: {bucket: 'gs://b', bucket_access_key_id: i, bucket_secret_access_key: s}",
            "set GOOGLE_APPLICATION_CREDENTIALS",
        ),
        ("storage: {bucket_region: r}", "storage.bucket_region: needs storage.bucket"),
        ("storage: {partitions: 0}", "storage.partitions: at least 1"),
        ("storage: {partitions: 65536}", "65536 is out of range, at most 65535"),
        (
            "storage: {bucket: 's3://b', partitions: 2}",
            "storage.partitions: at least the number of cores, 3",
        ),
        ("wal: {durability: store}", "wal.durability: store needs a bucket: set storage.bucket"),
        ("wal: {durability: kafka}", "wal.durability: kafka is not there: a push is answered"),
        ("wal: {durability: x}", "wal.durability: \"x\" is neither local nor store"),
    ] {
        let found = errors(text);
        assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}");
        assert!(!found[0].contains("hush"), "{found:?}");
    }
    // A node without a bucket may have more cores than a bucket would have partitions.
    assert_eq!(config("cores: 100").cores, 100);
}

#[test]
fn the_short_form_wins_over_the_keys_of_loki() {
    let text = "storage: {bucket: 's3://mine'}\nstorage_config: {aws: {bucketnames: theirs}}\n\
                schema_config: {configs: [{from: 2020-01-01, object_store: s3}]}";
    assert_eq!(s3(text).bucket, "mine");
    assert_eq!(ignored(text), ["storage_config.aws", "schema_config"]);
}

#[test]
fn secrets_are_hidden() {
    let text = "
storage: {bucket: 's3://b', bucket_access_key_id: i, bucket_secret_access_key: hush1}
common: {storage: {s3: {s3: 's3://key:hush2@region/b', secret_access_key: hush3, \
                session_token: hush4, endpoint: 'http://k:hush5@h.x'}}}
storage_config:
  gcs: {bucket_name: b, service_account: '{\"private_key\": \"hush6\"}'}
  azure: {account_name: a, account_key: hush7, client_secret: hush8, connection_string: \
                'AccountName=a;AccountKey=hush9'}
  swift: {password: hush10}
  bos: {bucket_name: b, secret_access_key: hush11}
  named_stores: {aws: {x: {bucketnames: b, secret_access_key: hush12}}}
  object_store: {bos: {secret_key: hush13}, named_stores: {s3: {why: {bucket_name: b, \
                secret_access_key: hush14}}}}
";
    let config = config(text);
    for shown in [yaml(&config, Mode::Full), format!("{config:?}")] {
        assert!(!shown.contains("hush"), "{shown}");
    }
    assert!(yaml(&config, Mode::Full).contains("s3://key:xxxxx@region/b"));
    assert!(load(&yaml(&config, Mode::Full)).is_ok());
    let row = by_path("storage.bucket_secret_access_key").expect("a setting");
    assert_eq!(row.field(&mut config.clone()).print(), "<secret>");
    let text = "storage_config: {aws: {s3: 'ftp://key:hush@h/b'}}\nschema_config: {configs: \
                [{from: 2020-01-01, object_store: s3}]}";
    let found = errors(text);
    assert!(found.len() == 1 && !found[0].contains("hush"), "{found:?}");
}
