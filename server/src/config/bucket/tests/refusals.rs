//! Errors of the start that Loki has, too.

use super::*;

/// A file whose bucket Loki's keys choose.
const WITH_BUCKET: &str = "\
common: {path_prefix: /x, storage: {s3: {bucketnames: b}}}
schema_config: {configs: [{from: 2020-01-01, store: tsdb, object_store: s3, schema: v13}]}
";

fn of_schema(entry: &str) -> String {
    format!("schema_config: {{configs: [{{from: 2020-01-01, {entry}}}]}}")
}

fn of_aws(section: &str) -> String {
    format!("storage_config: {{aws: {{bucketnames: b, {section}}}}}")
}

#[test]
fn errors_have_the_texts_of_the_contract() {
    let thanos = |section: &str| format!("storage_config: {{object_store: {{{section}}}}}");
    let named = |section: &str| format!("storage_config: {{named_stores: {{{section}}}}}");
    let cases = [
        (
            "common: {storage: {s3: {bucketnames: b}, gcs: {bucket_name: b}}}".to_owned(),
            "too many storage configs provided in the common config, please only define one \
             storage backend",
        ),
        (
            of_schema("store: cassandra"),
            "unrecognized store (index) type cassandra, choose one of: tsdb",
        ),
        (
            of_schema("object_store: ftp"),
            "unrecognized object_store type ftp, which also does not match any named_stores",
        ),
        (
            of_schema("object_store: cos"),
            "unrecognized object_store type cos, which also does not match any named_stores",
        ),
        (
            of_schema("schema: v12"),
            "CONFIG ERROR: schema v13 is required to store Structured Metadata and use native OTLP \
             ingestion, your schema version is v12",
        ),
        (
            of_schema("store: boltdb-shipper"),
            "CONFIG ERROR: tsdb index type is required to store Structured Metadata and use native \
             OTLP ingestion, your index type is boltdb-shipper",
        ),
        (
            WITH_BUCKET.replace("path_prefix: /x, ", "")
                + "storage_config: {tsdb_shipper: {cache_location: /c}}",
            "CONFIG ERROR: tsdb index type is configured in schema_config, but \
             storage_config.tsdb_shipper.active_index_directory is not set",
        ),
        (
            WITH_BUCKET.replace("path_prefix: /x, ", "")
                + "storage_config: {tsdb_shipper: {active_index_directory: /i}}",
            "storage_config.tsdb_shipper.cache_location is not set",
        ),
        (
            "compactor: {working_directory: ''}".to_owned(),
            "CONFIG ERROR: compactor: working_directory: is empty",
        ),
        (
            WITH_BUCKET.to_owned() + "ingester: {query_store_max_look_back_period: -1ns}",
            "it is an error to specify a non zero query_store_max_look_back_period value when \
             using any object store other than filesystem",
        ),
        ("storage: {bucket: 'x://b'}".to_owned(), "unsupported storage backend"),
        (
            thanos("storage_prefix: a/b"),
            "storage prefix contains invalid characters, it may only contain digits, English \
             alphabet letters and dashes",
        ),
        (of_aws("sse: {type: SSE-C}"), "unsupported S3 SSE type"),
        (
            of_aws("sse: {type: SSE-KMS, kms_encryption_context: '{'}"),
            "invalid S3 SSE encryption context",
        ),
        (
            thanos("s3: {bucket_name: b, endpoint: b.s3.amazonaws.com}"),
            "the endpoint must not prefixed with the bucket name",
        ),
        (thanos("s3: {bucket_name: b, sts_endpoint: sts}"), "sts-endpoint must be a valid url"),
        (
            "storage_config: {azure: {connection_string: hush}}".to_owned(),
            "connection string is either blank or malformed",
        ),
        (
            "storage_config: {azure: {connection_string: 'AccountName=a'}}".to_owned(),
            "connection string is either blank or malformed",
        ),
        (named("ftp: {x: {}}"), "unrecognized named storage type: ftp"),
        (
            WITH_BUCKET.to_owned() + "compactor: {retention_enabled: true}",
            "compactor.delete-request-store should be configured when retention is enabled",
        ),
        (
            "compactor: {max_compaction_parallelism: 0}".to_owned(),
            "max compaction parallelism must be >= 1",
        ),
        (
            "ingester: {wal: {checkpoint_duration: 0s}}".to_owned(),
            "invalid checkpoint duration: 0s",
        ),
    ];
    for (text, expected) in cases {
        let found = errors(&text);
        assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}");
        assert!(!found[0].contains("hush"), "{found:?}");
    }
    for (kind, name) in [
        ("aws", "unrecognized named s3 storage config mine"),
        ("gcs", "unrecognized named gcs storage config mine"),
        ("azure", "unrecognized named azure storage config mine"),
        ("filesystem", "unrecognized named filesystem storage config mine"),
        ("swift", "unrecognized named swift storage config mine"),
        ("bos", "unrecognized named storage config mine"),
    ] {
        let schema = of_schema("object_store: mine");
        let text = format!("{schema}\nstorage_config: {{named_stores: {{{kind}: {{mine: }}}}}}");
        assert_eq!(errors(&text), [name], "{text}");
    }
    // A named store of the other family of clients.
    let text = of_schema("object_store: mine")
        + "\nstorage_config: {use_thanos_objstore: true, named_stores: {aws: {mine: {bucketnames: b}}}}";
    assert_eq!(errors(&text), ["unrecognized named s3 storage config mine"]);
}

#[test]
fn several_errors_are_told_together() {
    let text = of_schema("store: x, object_store: y, schema: v9")
        + "\ncommon: {storage: {s3: {bucketnames: b}, swift: {username: u}}}";
    let found = errors(&text);
    assert_eq!(found.len(), 4, "{found:?}");
    let all = ConfigErrors(found).to_string();
    assert!(all.starts_with("MULTIPLE CONFIG ERRORS FOUND, PLEASE READ CAREFULLY\n"), "{all}");
}

/// With a client, what the section lacks is told instead.
#[cfg(not(feature = "swift"))]
const SWIFT_OWN: &str =
    "storage_config.swift: Swift cannot be the store: it does not keep creates apart";
#[cfg(not(feature = "swift"))]
const SWIFT_COMMON: &str =
    "common.storage.swift: Swift cannot be the store: it does not keep creates apart";
#[cfg(feature = "swift")]
const SWIFT_OWN: &str = "storage_config.swift: names no container: set container_name";
#[cfg(feature = "swift")]
const SWIFT_COMMON: &str = "common.storage.swift: names no container: set container_name";

#[test]
fn stores_that_cannot_be_used_are_refused() {
    for (text, expected) in [
        (of_schema("object_store: swift") + "\nstorage_config: {swift: {username: u}}", SWIFT_OWN),
        ("common: {storage: {swift: {username: u}}}".to_owned(), SWIFT_COMMON),
        (
            of_schema("object_store: s3"),
            "schema_config.configs: object_store is s3, but neither storage_config.aws nor \
             common.storage.s3 says where it is",
        ),
        (
            of_schema("object_store: s3") + "\nstorage_config: {aws: {region: r}}",
            "storage_config.aws: names no bucket: set bucketnames",
        ),
        (
            of_schema("object_store: s3") + "\nstorage_config: {aws: {s3: 'inmemory:///b'}}",
            "storage_config.aws: s3: is not an address such as",
        ),
        (
            of_schema("object_store: gcs") + "\nstorage_config: {gcs: {service_account: x}}",
            "storage_config.gcs: names no bucket",
        ),
        (
            of_schema("object_store: azure") + "\nstorage_config: {azure: {account_key: x}}",
            "storage_config.azure: names no account",
        ),
        (
            of_schema("object_store: azure")
                + "\nstorage_config: {azure: {account_name: x, use_federated_token: true}}",
            "storage_config.azure: use_federated_token: needs AZURE_CLIENT_ID",
        ),
        (
            of_schema("object_store: bos") + "\nstorage_config: {bos: {bucket_name: x}}",
            "storage_config.bos: has no key",
        ),
        (of_aws("buckets: x"), "storage_config.aws: buckets: unknown key"),
        (
            of_schema("object_store: s3") + "\n" + &of_aws("buckets: x"),
            "storage_config.aws: buckets: unknown key",
        ),
        (
            "storage_config: {swift: {auth_version: 4}}".to_owned(),
            "storage_config.swift: auth_version: must be 0, 1, 2 or 3",
        ),
        (of_aws("signature_version: v2"), "storage_config.aws: signature_version: only v4"),
        (of_schema("schema: thirteen"), "schema: \"thirteen\" is none such as v13"),
        ("schema_config: {configs: [{from: soon}]}".to_owned(), "is not a day such as"),
        ("storage_config: {aws: 5}".to_owned(), "storage_config.aws: must be"),
        (
            "storage_config: {named_stores: {aws: {s3: {bucketnames: b}}}}".to_owned(),
            "the name is that of a kind of stores",
        ),
        (
            "storage_config: {named_stores: {aws: {x: {a: b}}, gcs: {x: {}}}}".to_owned(),
            "aws.x: a: unknown key",
        ),
    ] {
        let found = errors(&text);
        assert!(found.len() == 1 && found[0].contains(expected), "{text}: {found:?}");
    }
}

/// What Loki refuses and a node with its data folder has always taken.
#[test]
fn a_node_without_a_bucket_need_not_obey() {
    for text in [
        "compactor: {retention_enabled: true}",
        "ingester: {query_store_max_look_back_period: -1ns}",
        "schema_config: {configs: [{from: 2020-01-01, store: tsdb, object_store: filesystem}]}",
        "schema_config: {configs: []}",
        "limits_config: {allow_structured_metadata: false}\n\
         schema_config: {configs: [{from: 2020-01-01, store: boltdb-shipper, schema: v11}]}",
        "storage: {bucket: 's3://b'}\ncompactor: {retention_enabled: true}",
    ] {
        assert_eq!(errors(text), [""; 0], "{text}");
    }
    // Days that are over may have had anything that Loki had.
    let text = "schema_config: {configs: [{from: 2020-01-01, store: boltdb-shipper, schema: v11}, \
                {from: 2022-01-01, store: tsdb, schema: v13}]}";
    assert_eq!(errors(text), [""; 0]);
}
