//! Keys of Loki's parts that have no effect here, but whose values Loki refuses to start with.
//!
//! Some of these errors are about what only Loki needs. They count where Loki's keys choose a
//! bucket: such a file is one of Loki's, which must fail as it does there.

use std::time::Duration;

use super::Vain;
use super::schema::Period;
use crate::config::Config;

/// The folder of Loki's compactor, if nobody says one.
const WORKING_DIRECTORY: &str = "/var/loki/compactor";

/// Values of such keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LokiRules {
    /// `compactor.working_directory`
    pub(crate) working_directory: String,
    /// `compactor.delete_request_store`
    pub(crate) delete_request_store: String,
    /// `compactor.max_compaction_parallelism`
    pub(crate) max_compaction_parallelism: usize,
    /// `ingester.wal.checkpoint_duration`
    pub(crate) checkpoint_duration: Duration,
    /// `ingester.query_store_max_look_back_period`, in ns
    pub(crate) look_back_ns: i64,
    /// `storage_config.tsdb_shipper.active_index_directory`
    pub(crate) active_index_directory: String,
    /// `storage_config.tsdb_shipper.cache_location`
    pub(crate) cache_location: String,
}

impl Default for LokiRules {
    fn default() -> LokiRules {
        LokiRules {
            working_directory: WORKING_DIRECTORY.to_owned(),
            delete_request_store: String::new(),
            max_compaction_parallelism: 1,
            checkpoint_duration: Duration::from_secs(300),
            look_back_ns: 0,
            active_index_directory: String::new(),
            cache_location: String::new(),
        }
    }
}

impl LokiRules {
    /// Appends a text for each value that no file may have, and each key that is set in vain.
    pub(super) fn check(&self, errors: &mut Vec<String>, ignored: &mut Vec<Vain>) {
        let mut need = |good: bool, text: &str| {
            if !good {
                errors.push(text.to_owned());
            }
        };
        need(
            !self.working_directory.is_empty(),
            "CONFIG ERROR: compactor: working_directory: is empty, leave it out or name a folder",
        );
        need(self.max_compaction_parallelism > 0, "max compaction parallelism must be >= 1");
        need(!self.checkpoint_duration.is_zero(), "invalid checkpoint duration: 0s");
        let defaults = LokiRules::default();
        let here = "data is kept in files of this node, or in its bucket";
        for (is_set, path, reason) in [
            (
                self.working_directory != defaults.working_directory,
                "compactor.working_directory",
                here,
            ),
            (
                self.delete_request_store != defaults.delete_request_store,
                "compactor.delete_request_store",
                "requests for deletion are recorded where the data is",
            ),
            (
                self.max_compaction_parallelism != defaults.max_compaction_parallelism,
                "compactor.max_compaction_parallelism",
                "cores compact when they have time",
            ),
            (
                self.checkpoint_duration != defaults.checkpoint_duration,
                "ingester.wal.checkpoint_duration",
                "there is always a write-ahead log: see the section wal",
            ),
            (
                self.look_back_ns != defaults.look_back_ns,
                "ingester.query_store_max_look_back_period",
                "there is one store for recent and old entries",
            ),
            (
                self.active_index_directory != defaults.active_index_directory,
                "storage_config.tsdb_shipper.active_index_directory",
                "the index is in segments",
            ),
            (
                self.cache_location != defaults.cache_location,
                "storage_config.tsdb_shipper.cache_location",
                "the index is in segments",
            ),
        ] {
            if is_set {
                ignored.push((path.to_owned(), reason));
            }
        }
    }

    /// Appends a text for each value that Loki does not take with a bucket.
    pub(super) fn check_with_bucket(
        &self,
        config: &Config,
        period: Option<&Period>,
        errors: &mut Vec<String>,
    ) {
        let mut need = |good: bool, text: &str| {
            if !good {
                errors.push(text.to_owned());
            }
        };
        need(
            self.look_back_ns == 0,
            "it is an error to specify a non zero query_store_max_look_back_period value when \
             using any object store other than filesystem",
        );
        need(
            !config.retention_enabled || !self.delete_request_store.is_empty(),
            "compactor.delete-request-store should be configured when retention is enabled",
        );
        // Loki's folders of the index are in this one, if it is named.
        let has_folder = config.data_dir != Config::default().data_dir;
        if period.is_some_and(|period| period.index_type == "tsdb") && !has_folder {
            for (folder, key) in [
                (&self.active_index_directory, "active_index_directory"),
                (&self.cache_location, "cache_location"),
            ] {
                need(
                    !folder.is_empty(),
                    &format!(
                        "CONFIG ERROR: tsdb index type is configured in schema_config, but \
                         storage_config.tsdb_shipper.{key} is not set: set it, or path_prefix in \
                         the section common"
                    ),
                );
            }
        }
    }
}
