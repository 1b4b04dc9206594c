//! The rows of the bucket and of Loki's object stores.

use super::{Field, Setting};

/// The short form, and what goes with it.
pub(super) const OWN: &[Setting] = settings! {
    "storage.bucket", "storage.bucket" common,
        |c| Text(&mut c.storage.address),
        "The bucket that is the store: s3://name/prefix, gs://name/prefix, \
         azure://account/container/prefix, or file:///path for a folder that serves as one. The \
         local disk then holds the write-ahead log and a cache. Empty means that Loki's keys \
         decide (schema_config), and without them that everything is in the data folder.";
    "storage.bucket_endpoint", "storage.bucket-endpoint",
        |c| Text(&mut c.storage.endpoint),
        "Address of the store, such as http://minio:9000, if it is not where its provider has it.";
    "storage.bucket_region", "storage.bucket-region",
        |c| Text(&mut c.storage.region),
        "Region of S3. Empty means the one that the endpoint or the environment names, or else \
         us-east-1.";
    "storage.bucket_access_key_id", "storage.bucket-access-key-id",
        |c| Text(&mut c.storage.access_key_id),
        "Name of the key of S3. Empty means what the environment says: see *The bucket*.";
    "storage.bucket_secret_access_key", "storage.bucket-secret-access-key",
        |c| Secret(&mut c.storage.secret_access_key),
        "The key of S3, or of the account of Azure.";
    "storage.cache_max_bytes", "storage.cache-max-bytes",
        |c| Bytes(&mut c.storage.cache_max_bytes),
        "Most bytes on the local disk of segments that are in the bucket, too. Only with a bucket. \
         0 means no bound.";
    "storage.partitions", "storage.partitions",
        |c| SmallCount(&mut c.storage.partitions),
        "Partitions of a new bucket, at most 65535 and at least as many as cores. A bucket keeps \
         its number.";
    "storage.upload_max_age", "storage.upload-max-age",
        |c| Duration(&mut c.storage.upload_max_age),
        "Time after which a segment is in the bucket at the latest. If the node is lost with its \
         disk, so are younger entries, unless wal.durability is store. 0 means 1m, or 10m if \
         wal.durability is store.";
};

/// Loki's sections for all its parts.
pub(super) const COMMON: &[Setting] = settings! {
    "common.storage.s3", "common.storage.s3",
        |c| Structured(&mut c.storage.stores.common.s3),
        "A bucket of S3, see *The bucket*. The flag takes JSON.";
    "common.storage.gcs", "common.storage.gcs",
        |c| Structured(&mut c.storage.stores.common.gcs),
        "A bucket of Google Cloud Storage. The flag takes JSON.";
    "common.storage.azure", "common.storage.azure",
        |c| Structured(&mut c.storage.stores.common.azure),
        "A container of Azure. The flag takes JSON.";
    "common.storage.bos", "common.storage.bos",
        |c| Structured(&mut c.storage.stores.common.bos),
        "A bucket of Baidu, which is asked by its interface for programs of S3. The flag takes \
         JSON.";
    "common.storage.swift", "common.storage.swift",
        |c| Structured(&mut c.storage.stores.common.swift),
        "A container of Swift; an error if it is chosen, see *The bucket*. The flag takes JSON.";
    "common.storage.filesystem", "common.storage.filesystem",
        |c| Structured(&mut c.storage.stores.common.filesystem),
        "Means the data folder, whatever folders it names. The flag takes JSON.";
    "common.storage.object_store", "common.storage.object-store",
        |c| Structured(&mut c.storage.stores.common.object_store),
        "Stores in the form that storage_config.use_thanos_objstore chooses. The flag takes JSON.";
};

/// Loki's sections for stores, and those that choose one.
pub(super) const LOKI: &[Setting] = settings! {
    "schema_config.configs", "schema-config.configs",
        |c| Structured(&mut c.storage.stores.periods),
        "Days from which on a store counts. The entry of today chooses by object_store: s3 (or \
         aws), gcs, azure, bos, swift, filesystem or a named store. The flag takes JSON.";
    "storage_config.aws", "storage-config.aws",
        |c| Structured(&mut c.storage.stores.own.s3),
        "A bucket of S3; it wins over common.storage.s3. The flag takes JSON.";
    "storage_config.gcs", "storage-config.gcs",
        |c| Structured(&mut c.storage.stores.own.gcs),
        "A bucket of Google Cloud Storage; it wins over common.storage.gcs. The flag takes JSON.";
    "storage_config.azure", "storage-config.azure",
        |c| Structured(&mut c.storage.stores.own.azure),
        "A container of Azure; it wins over common.storage.azure. The flag takes JSON.";
    "storage_config.bos", "storage-config.bos",
        |c| Structured(&mut c.storage.stores.own.bos),
        "A bucket of Baidu; it wins over common.storage.bos. The flag takes JSON.";
    "storage_config.swift", "storage-config.swift",
        |c| Structured(&mut c.storage.stores.own.swift),
        "A container of Swift; an error if it is chosen, see *The bucket*. The flag takes JSON.";
    "storage_config.filesystem", "storage-config.filesystem",
        |c| Structured(&mut c.storage.stores.own.filesystem),
        "Means the data folder, whatever folder it names. The flag takes JSON.";
    "storage_config.named_stores", "storage-config.named-stores",
        |c| Structured(&mut c.storage.stores.named),
        "Sections of stores by their kinds (aws, gcs, azure, bos, swift, filesystem) and by names \
         for object_store. The flag takes JSON.";
    "storage_config.object_prefix", "store.object-prefix",
        |c| Text(&mut c.storage.stores.object_prefix),
        "What the names of all objects begin with in a bucket of Loki's keys. logsvc/ comes behind \
         it.";
    "storage_config.use_thanos_objstore", "use-thanos-objstore",
        |c| Bool(&mut c.storage.stores.uses_thanos),
        "Whether the section object_store has the stores, and not aws, gcs and so on.";
    "storage_config.object_store", "storage-config.object-store",
        |c| Structured(&mut c.storage.stores.own.object_store),
        "Sections of stores by their kinds (s3, gcs, azure, bos, swift, filesystem), storage_prefix \
         and named_stores; it wins over common.storage.object_store. The flag takes JSON.";
    "storage_config.tsdb_shipper.active_index_directory", "tsdb.shipper.active-index-directory",
        |c| Text(&mut c.storage.rules.active_index_directory),
        "No effect: the index is in segments. Loki wants it, or common.path_prefix.";
    "storage_config.tsdb_shipper.cache_location", "tsdb.shipper.cache-location",
        |c| Text(&mut c.storage.rules.cache_location),
        "No effect: the index is in segments. Loki wants it, or common.path_prefix.";
};

/// Keys of Loki's parts of which some values are errors.
pub(super) const COMPACTOR: &[Setting] = settings! {
    "compactor.working_directory", "compactor.working-directory",
        |c| Text(&mut c.storage.rules.working_directory),
        "No effect: nothing is written there. It must not be empty.";
    "compactor.delete_request_store", "compactor.delete-request-store",
        |c| Text(&mut c.storage.rules.delete_request_store),
        "No effect: requests for deletion are recorded where the data is. As in Loki it must be \
         set if retention_enabled is on and Loki's keys choose a bucket.";
    "compactor.max_compaction_parallelism", "compactor.max-compaction-parallelism",
        |c| Count(&mut c.storage.rules.max_compaction_parallelism),
        "No effect: cores compact when they have time. At least 1.";
};

/// The same of the ingester.
pub(super) const INGESTER: &[Setting] = settings! {
    "ingester.wal.checkpoint_duration", "ingester.checkpoint-duration",
        |c| Duration(&mut c.storage.rules.checkpoint_duration),
        "No effect: the log has no checkpoints. More than 0.";
    "ingester.query_store_max_look_back_period", "ingester.query-store-max-look-back-period",
        |c| SignedNanos(&mut c.storage.rules.look_back_ns),
        "No effect: there is one store for recent and old entries. 0 with a bucket of Loki's keys.";
};
