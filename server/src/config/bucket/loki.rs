//! Loki's keys for object stores together: which of them is the bucket, and the errors of Loki's
//! start that are about them.

use super::address::joined;
use super::azure::AzureKeys;
use super::bos::BosKeys;
use super::environment::Environment;
use super::gcs::GcsKeys;
use super::named::{FOLDER, FolderKeys, Kind, NamedStores, Store, unrecognized};
use super::s3::S3Keys;
use super::schema::{Period, Periods};
use super::swift::SwiftKeys;
use super::thanos::ThanosStores;
use super::{BucketConfig, Vain};
use crate::config::Config;
use crate::config::ruler::Written;

/// Loki's own objects lie beside this one's, whose names begin with this.
const FOLDER_OF_OBJECTS: &str = "logsvc";

/// Sections of one kind each.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StoreSections {
    pub(crate) s3: Written<S3Keys>,
    pub(crate) gcs: Written<GcsKeys>,
    pub(crate) azure: Written<AzureKeys>,
    pub(crate) bos: Written<BosKeys>,
    pub(crate) swift: Written<SwiftKeys>,
    pub(crate) filesystem: Written<FolderKeys>,
    /// The other family of clients.
    pub(crate) object_store: Written<ThanosStores>,
}

impl StoreSections {
    /// The section of a kind, if anything of it is written.
    fn get(&self, kind: Kind) -> Option<Store> {
        fn written<T: Clone>(is_written: bool, keys: &T, store: fn(T) -> Store) -> Option<Store> {
            is_written.then(|| store(keys.clone()))
        }
        let (s3, gcs) = (self.s3.meaning(), self.gcs.meaning());
        let (azure, bos) = (self.azure.meaning(), self.bos.meaning());
        let swift = self.swift.meaning();
        match kind {
            Kind::S3 => written(s3.is_written, s3, Store::S3),
            Kind::Gcs => written(gcs.is_written, gcs, Store::Gcs),
            Kind::Azure => written(azure.is_written, azure, Store::Azure),
            Kind::Bos => written(bos.is_written, bos, Store::Bos),
            Kind::Swift => written(swift.is_written, swift, Store::Swift),
            Kind::Filesystem => self.filesystem.meaning().is_written.then_some(Store::Filesystem),
        }
    }

    /// The kinds that are written.
    fn kinds(&self) -> Vec<Kind> {
        Kind::ALL.into_iter().filter(|kind| self.get(*kind).is_some()).collect()
    }
}

/// Loki's keys for object stores, as they are written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct LokiStores {
    /// `common.storage`.
    pub(crate) common: StoreSections,
    /// `storage_config`, which wins.
    pub(crate) own: StoreSections,
    /// `storage_config.named_stores`.
    pub(crate) named: Written<NamedStores>,
    /// `storage_config.object_prefix`.
    pub(crate) object_prefix: String,
    /// Whether the sections `object_store` count, and no others.
    pub(crate) uses_thanos: bool,
    /// `schema_config.configs`.
    pub(crate) periods: Written<Periods>,
}

/// The key of a kind below `storage_config`.
fn key_of(kind: Kind) -> &'static str {
    match kind {
        Kind::S3 => "aws",
        kind => kind.name(),
    }
}

/// A store that is chosen: its path in the file, its section, and what names begin with.
struct Chosen {
    path: String,
    store: Store,
    prefix: String,
}

impl LokiStores {
    /// Appends the faults that do not depend on the store that is chosen. Gives the entry of
    /// `schema_config` that is in force.
    pub(super) fn check(
        &self,
        config: &Config,
        environment: &Environment<'_>,
        errors: &mut Vec<String>,
    ) -> Option<&Period> {
        if self.common.kinds().len() > 1 {
            errors.push(
                "too many storage configs provided in the common config, please only define one \
                 storage backend"
                    .to_owned(),
            );
        }
        let periods = self.periods.meaning();
        periods.check_index_types(errors);
        for name in periods.object_stores() {
            if Kind::of(name).is_none() && self.named_kind(name).is_none() {
                errors.push(format!(
                    "unrecognized object_store type {name}, which also does not match any \
                     named_stores. Choose one of: s3, gcs, azure, swift, filesystem, bos"
                ));
            }
        }
        let period = periods.in_force(environment.now_s);
        if config.limits.allow_structured_metadata
            && let Some(period) = period
        {
            period.check_metadata(errors);
        }
        period
    }

    fn thanos(&self) -> &ThanosStores {
        let own = self.own.object_store.meaning();
        if own.is_written { own } else { self.common.object_store.meaning() }
    }

    fn named_kind(&self, name: &str) -> Option<Kind> {
        let named = self.named.meaning().kind(name);
        named.or_else(|| self.thanos().named.kind(name))
    }

    /// The bucket that these keys name; `None`: the data folder. Appends keys without an effect.
    ///
    /// # Errors
    /// The store that is chosen cannot be one.
    pub(super) fn choose(
        &self,
        period: Option<&Period>,
        environment: &Environment<'_>,
        ignored: &mut Vec<Vain>,
    ) -> Result<Option<BucketConfig>, String> {
        let chosen = self.chosen(period)?;
        let path = chosen.as_ref().map_or("", |chosen| &chosen.path).to_owned();
        self.ignore_others(&path, "another store is chosen: see schema_config.configs", ignored);
        let Some(Chosen { path, store, prefix }) = chosen else { return Ok(None) };
        let mut unused = store.unused().to_vec();
        if path.ends_with(".filesystem") {
            // It is told already.
            unused.clear();
        }
        let of_section = |error: String| format!("{path}: {error}");
        let config = store.config(&prefix, environment, &mut unused).map_err(of_section)?;
        ignored.extend(unused.into_iter().map(|(key, reason)| {
            let path = if key.is_empty() { path.clone() } else { format!("{path}.{key}") };
            (path, reason)
        }));
        Ok(config)
    }

    fn chosen(&self, period: Option<&Period>) -> Result<Option<Chosen>, String> {
        let name = period.map_or("", |period| &*period.object_store);
        if self.uses_thanos {
            return self.chosen_of_thanos(name);
        }
        let prefix = joined(&[&self.object_prefix, FOLDER_OF_OBJECTS]);
        let with = |path: String, store: Store| Some(Chosen { path, store, prefix });
        if let Some(kind) = Kind::of(name) {
            let own_key = key_of(kind);
            return Ok(match (self.own.get(kind), self.common.get(kind)) {
                (Some(store), _) => with(format!("storage_config.{own_key}"), store),
                (None, Some(store)) => with(format!("common.storage.{}", kind.name()), store),
                (None, None) if kind == Kind::Filesystem => None,
                (None, None) => {
                    return Err(format!(
                        "schema_config.configs: object_store is {name}, but neither \
                         storage_config.{own_key} nor common.storage.{} says where it is",
                        kind.name()
                    ));
                }
            });
        }
        if !name.is_empty() {
            return match (self.named.meaning().get(name), self.named_kind(name)) {
                (Some(store), kind) => {
                    let key = key_of(kind.unwrap_or(Kind::S3));
                    let path = format!("storage_config.named_stores.{key}.{name}");
                    store.map(|store| with(path, store.clone()))
                }
                (None, Some(kind)) => Err(unrecognized(kind, name)),
                // An error has been told already.
                (None, None) => Ok(None),
            };
        }
        // Nobody chooses, so the only store is meant.
        let one = |kinds: Vec<Kind>| <[Kind; 1]>::try_from(kinds).ok().map(|[kind]| kind);
        if let Some(kind) = one(self.common.kinds()) {
            let path = format!("common.storage.{}", kind.name());
            return Ok(self.common.get(kind).and_then(|store| with(path, store)));
        }
        match one(self.own.kinds()).filter(|_| self.common.kinds().is_empty()) {
            Some(kind) => {
                let path = format!("storage_config.{}", key_of(kind));
                Ok(self.own.get(kind).and_then(|store| with(path, store)))
            }
            None => Ok(None),
        }
    }

    fn chosen_of_thanos(&self, name: &str) -> Result<Option<Chosen>, String> {
        let stores = self.thanos();
        let section = if self.own.object_store.meaning().is_written {
            "storage_config.object_store"
        } else {
            "common.storage.object_store"
        };
        let prefix = joined(&[&self.object_prefix, &stores.prefix, FOLDER_OF_OBJECTS]);
        let with = |path: String, store: &Store| Chosen { path, store: store.clone(), prefix };
        match (Kind::of(name), name) {
            (Some(kind), _) => match stores.get(kind) {
                Some(store) => Ok(Some(with(format!("{section}.{}", kind.name()), store))),
                None if kind == Kind::Filesystem => Ok(None),
                None => Err(format!(
                    "schema_config.configs: object_store is {name}, but {section}.{} does not say \
                     where it is",
                    kind.name()
                )),
            },
            (None, "") => {
                let mut kinds = Kind::ALL.into_iter().filter(|kind| stores.get(*kind).is_some());
                let only = kinds.next().filter(|_| kinds.next().is_none());
                let found = only.and_then(|kind| Some((kind, stores.get(kind)?)));
                Ok(found.map(|(kind, store)| with(format!("{section}.{}", kind.name()), store)))
            }
            (None, name) => match (stores.named.get(name), self.named_kind(name)) {
                (Some(store), kind) => {
                    let kind = kind.map_or("", Kind::name);
                    let path = format!("{section}.named_stores.{kind}.{name}");
                    store.map(|store| Some(with(path, store)))
                }
                (None, Some(kind)) => Err(unrecognized(kind, name)),
                (None, None) => Ok(None),
            },
        }
    }

    /// Names all keys, for none of them counts.
    pub(super) fn ignore_all(&self, reason: &'static str, ignored: &mut Vec<Vain>) {
        self.ignore_others("", reason, ignored);
        if self.periods != Written::default() {
            ignored.push(("schema_config".to_owned(), reason));
        }
    }

    /// Names all sections but the one at a path.
    fn ignore_others(&self, chosen: &str, reason: &'static str, ignored: &mut Vec<Vain>) {
        let is_chosen = |path: &str| {
            chosen
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ':']))
        };
        let mut add = |path: String, is_written: bool, reason: &'static str| {
            if is_written && !is_chosen(&path) {
                ignored.push((path, reason));
            }
        };
        for (section, name, is_own) in
            [(&self.common, "common.storage", false), (&self.own, "storage_config", true)]
        {
            // The folder of chunks of a single node is told below.
            for kind in section.kinds().into_iter().filter(|kind| *kind != Kind::Filesystem) {
                let key = if is_own { key_of(kind) } else { kind.name() };
                add(format!("{name}.{key}"), true, reason);
            }
            let thanos = section.object_store.meaning();
            let off = "use_thanos_objstore is not set";
            let reason = if self.uses_thanos { reason } else { off };
            add(format!("{name}.object_store"), thanos.is_written, reason);
        }
        let has_named = !self.named.meaning().is_empty();
        add("storage_config.named_stores".to_owned(), has_named, reason);
        for (section, path) in
            [(&self.common, "common.storage.filesystem"), (&self.own, "storage_config.filesystem")]
        {
            // One of rules is for the ruler.
            if section.filesystem.meaning().has_chunks {
                ignored.push((path.to_owned(), FOLDER));
            }
        }
    }
}
