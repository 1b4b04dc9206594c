//! The bucket that is the store: `storage.bucket` and its keys, and Loki's keys for the same.
//!
//! [`decide`] makes one value of all of them, [`BucketConfig`]. Without one, everything is in the
//! data folder. The short form of this program ([`own`]) wins over Loki's keys ([`loki`]), of which
//! `schema_config` chooses the store. What the settings leave open is asked of the environment
//! ([`environment`]): credentials, region and endpoint.
//!
//! Guarantees: no message and no printed form has a secret. A file system as Loki's object store
//! means the data folder, and never a bucket.
//!
//! What can go wrong: settings that name no bucket, several, or one that there is no client for.

mod address;
mod azure;
mod bos;
mod environment;
mod gcs;
mod loki;
mod named;
mod own;
mod rules;
mod s3;
mod schema;
mod shown;
mod swift;
#[cfg(test)]
mod tests;
mod thanos;

use std::path::PathBuf;
use std::time::Duration;

use logsvc_rules::config::Secret;
use logsvc_shards::wal::SyncPolicy;
use logsvc_store::cloud::CloudConfig;

use super::Config;
use super::choice::Choice;
pub(crate) use environment::{Environment, now_s};
pub(crate) use loki::LokiStores;
pub(crate) use rules::LokiRules;

/// The path of a key without an effect, and why.
pub(super) type Vain = (String, &'static str);

/// What errors about values of the keys below begin with.
const UNREAD: [&str; 8] = [
    "storage.bucket",
    "--storage.bucket",
    "storage_config",
    "--storage-config",
    "common.storage",
    "--common.storage",
    "schema_config",
    "--schema-config",
];

/// Partitions of a new bucket, if nobody says a number.
const PARTITIONS: u16 = 64;

/// Oldest that a segment gets outside of the bucket while the log is on the local disk.
const UPLOAD_AGE_LOCAL: Duration = Duration::from_secs(60);

/// The same while the log is in the bucket, so that segments hold nothing that is not there.
const UPLOAD_AGE_STORE: Duration = Duration::from_secs(600);

/// Where segments are kept besides the local disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BucketConfig {
    /// A bucket of a cloud.
    Cloud(CloudConfig),
    /// A container of Swift.
    #[cfg(feature = "swift")]
    Swift(logsvc_store::swift::SwiftConfig),
    /// A folder that serves as a bucket, for example of a file system that several machines see.
    Folder(PathBuf),
}

/// Where an entry is when its push is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Durability {
    /// In the log on the local disk.
    #[default]
    Local,
    /// In the bucket.
    Store,
}

impl Choice for Durability {
    fn words(&self) -> &'static str {
        "local|store"
    }

    fn word(&self) -> &'static str {
        match self {
            Durability::Local => "local",
            Durability::Store => "store",
        }
    }

    fn choose(&mut self, word: &str) -> bool {
        *self = match word {
            "local" => Durability::Local,
            "store" => Durability::Store,
            _ => return false,
        };
        true
    }

    fn fault(&self, word: &str) -> String {
        match word {
            "kafka" => "kafka is not there: a push is answered when its entries are on the local \
                        disk (local) or in the bucket (store)"
                .to_owned(),
            word => format!("{word:?} is neither local nor store"),
        }
    }
}

/// Settings of the bucket as they are written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BucketSettings {
    /// The address; empty: Loki's keys decide.
    pub(crate) address: String,
    /// Where the store is; empty: where its provider has it.
    pub(crate) endpoint: String,
    /// The region of S3; empty: the environment's.
    pub(crate) region: String,
    /// The name of the key; empty: the environment's.
    pub(crate) access_key_id: String,
    /// The key.
    pub(crate) secret_access_key: Secret,
    /// Most bytes on the local disk of segments that are in the bucket, too; 0: no bound.
    pub(crate) cache_max_bytes: u64,
    /// Partitions of a new bucket.
    pub(crate) partitions: u16,
    /// Oldest that a sealed segment gets outside of the bucket; 0 follows from the durability.
    pub(crate) upload_max_age: Duration,
    /// Loki's keys for object stores.
    pub(crate) stores: LokiStores,
    /// Loki's keys without a meaning here, of which some values are errors.
    pub(crate) rules: LokiRules,
}

impl Default for BucketSettings {
    fn default() -> BucketSettings {
        BucketSettings {
            address: String::new(),
            endpoint: String::new(),
            region: String::new(),
            access_key_id: String::new(),
            secret_access_key: Secret(String::new()),
            cache_max_bytes: 0,
            partitions: PARTITIONS,
            upload_max_age: Duration::ZERO,
            stores: LokiStores::default(),
            rules: LokiRules::default(),
        }
    }
}

impl BucketSettings {
    /// Fills in what follows from the durability.
    pub(super) fn complete(&mut self, durability: Durability) {
        if self.upload_max_age.is_zero() {
            self.upload_max_age = match durability {
                Durability::Local => UPLOAD_AGE_LOCAL,
                Durability::Store => UPLOAD_AGE_STORE,
            };
        }
    }
}

/// Whether there are errors about values of keys that name a bucket.
pub(super) fn is_unread(errors: &[String]) -> bool {
    errors.iter().any(|error| UNREAD.iter().any(|start| error.starts_with(start)))
}

/// The bucket that the settings name; `None`: everything is in the data folder. Appends a text for
/// each fault, and each key without an effect.
pub(super) fn decide(
    config: &Config,
    environment: &Environment<'_>,
    errors: &mut Vec<String>,
    ignored: &mut Vec<Vain>,
) -> Option<BucketConfig> {
    // A section that could not be read is no section that is missing.
    if is_unread(errors) {
        return None;
    }
    let mut faults = Vec::new();
    let settings = &config.storage;
    let period = settings.stores.check(config, environment, &mut faults);
    settings.rules.check(&mut faults, ignored);
    let mut bucket = None;
    if settings.address.is_empty() {
        own::check_unused(settings, &mut faults);
        match settings.stores.choose(period, environment, ignored) {
            Ok(chosen) => bucket = chosen,
            Err(error) => faults.push(error),
        }
        if bucket.is_some() {
            settings.rules.check_with_bucket(config, period, &mut faults);
        }
    } else {
        settings.stores.ignore_all("storage.bucket names the bucket", ignored);
        match own::bucket(settings, environment) {
            Ok(named) => bucket = Some(named),
            Err(error) => faults.push(error),
        }
    }
    let is_known = faults.is_empty();
    errors.append(&mut faults);
    let mut need = |good: bool, text: String| {
        if !good {
            errors.push(text);
        }
    };
    need(settings.partitions > 0, "storage.partitions: at least 1".to_owned());
    if bucket.is_some() {
        need(
            settings.partitions == 0 || settings.partitions >= config.cores,
            format!("storage.partitions: at least the number of cores, {}", config.cores),
        );
        need(
            config.wal.durability == Durability::Local || config.wal.sync == SyncPolicy::Always,
            "wal.durability: store needs wal.sync: always".to_owned(),
        );
    } else if is_known {
        need(
            // A cluster says itself that it needs a bucket.
            config.wal.durability == Durability::Local || config.cluster_keys.is_cluster(),
            "wal.durability: store needs a bucket: set storage.bucket".to_owned(),
        );
        let defaults = BucketSettings::default();
        for (differs, path) in [
            (settings.cache_max_bytes != defaults.cache_max_bytes, "storage.cache_max_bytes"),
            (settings.partitions != defaults.partitions, "storage.partitions"),
        ] {
            if differs {
                let reason = "there is no bucket (storage.bucket)";
                ignored.push((path.to_owned(), reason));
            }
        }
    }
    bucket
}
