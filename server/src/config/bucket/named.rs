//! A store of any kind, and Loki's stores with names (`named_stores`).

use logsvc_store::cloud::CloudConfig;
use serde_json::Value;

use super::BucketConfig;
use super::azure::AzureKeys;
use super::bos::BosKeys;
use super::environment::Environment;
use super::gcs::GcsKeys;
use super::s3::{Form, S3Keys};
use super::shown::{says_something, without_secrets};
use super::swift::SwiftKeys;
use crate::config::ruler::Meaning;
use crate::config::ruler::sections::{each, section, text};

/// Kinds of stores, by Loki's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    S3,
    Gcs,
    Azure,
    Bos,
    Swift,
    Filesystem,
}

/// Kinds that Loki knows and `schema_config` may not name.
const OTHER_KINDS: [&str; 4] = ["alibabacloud", "alibaba", "cos", "oss"];

impl Kind {
    /// All kinds, in the order of messages.
    pub(super) const ALL: [Kind; 6] =
        [Kind::S3, Kind::Gcs, Kind::Azure, Kind::Swift, Kind::Filesystem, Kind::Bos];

    /// The kind that `object_store` means.
    pub(super) fn of(name: &str) -> Option<Kind> {
        match name {
            "aws" => Some(Kind::S3),
            name => Kind::ALL.into_iter().find(|kind| kind.name() == name),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::S3 => "s3",
            Kind::Gcs => "gcs",
            Kind::Azure => "azure",
            Kind::Bos => "bos",
            Kind::Swift => "swift",
            Kind::Filesystem => "filesystem",
        }
    }
}

/// A section about a store of any kind.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Store {
    S3(S3Keys),
    Gcs(GcsKeys),
    Azure(AzureKeys),
    Bos(BosKeys),
    Swift(SwiftKeys),
    /// The data folder.
    Filesystem,
}

impl Store {
    /// Reads a section of a kind.
    pub(super) fn read(kind: Kind, json: &Value, form: Form) -> Result<Store, String> {
        Ok(match kind {
            Kind::S3 => Store::S3(S3Keys::read(json, form)?),
            Kind::Gcs => Store::Gcs(GcsKeys::of(json)?),
            Kind::Azure => Store::Azure(AzureKeys::of(json)?),
            Kind::Bos => Store::Bos(BosKeys::of(json)?),
            Kind::Swift => Store::Swift(SwiftKeys::of(json)?),
            Kind::Filesystem => {
                FolderKeys::of(json)?;
                Store::Filesystem
            }
        })
    }

    /// Keys without an effect, and why.
    pub(super) fn unused(&self) -> &[(&'static str, &'static str)] {
        match self {
            Store::S3(keys) => &keys.unused,
            Store::Gcs(keys) => &keys.unused,
            Store::Azure(keys) => &keys.unused,
            Store::Bos(_) => &[],
            Store::Swift(keys) => &keys.unused,
            Store::Filesystem => &[("", FOLDER)],
        }
    }

    /// The bucket; `None`: the data folder.
    ///
    /// # Errors
    /// The section lacks something, or there is no client.
    pub(super) fn config(
        &self,
        prefix: &str,
        environment: &Environment<'_>,
        unused: &mut Vec<(&'static str, &'static str)>,
    ) -> Result<Option<BucketConfig>, String> {
        Ok(Some(BucketConfig::Cloud(match self {
            Store::S3(keys) => CloudConfig::S3(keys.config(prefix, environment, unused)?),
            Store::Gcs(keys) => CloudConfig::Gcs(keys.config(prefix, environment)?),
            Store::Azure(keys) => CloudConfig::Azure(keys.config(prefix, environment)?),
            Store::Bos(keys) => CloudConfig::S3(keys.config(prefix)?),
            #[cfg(feature = "swift")]
            Store::Swift(keys) => return Ok(Some(BucketConfig::Swift(keys.config(prefix)?))),
            #[cfg(not(feature = "swift"))]
            Store::Swift(_) => return Err(NO_SWIFT.to_owned()),
            Store::Filesystem => return Ok(None),
        })))
    }
}

/// Why Swift cannot be chosen.
#[cfg(not(feature = "swift"))]
const NO_SWIFT: &str = "Swift cannot be the store: it does not keep creates apart that race, also by its \
                        interface for programs of S3";

/// Why a folder of chunks means nothing.
pub(super) const FOLDER: &str = "a file system as object store means the data folder (data_dir); storage.bucket: file:///path \
     makes a folder a bucket";

/// A section about a file system, which is read for its shape only.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FolderKeys {
    /// Whether anything is set.
    pub(super) is_written: bool,
    /// Whether a folder of chunks is.
    pub(super) has_chunks: bool,
}

impl Meaning for FolderKeys {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<FolderKeys, String> {
        let mut keys = FolderKeys { is_written: says_something(json), has_chunks: false };
        let known = ["directory", "dir", "chunks_directory", "rules_directory"];
        each(json, &known, |key, value| {
            let folder = text(value)?;
            keys.has_chunks |= key != "rules_directory" && !folder.is_empty();
            Ok(())
        })?;
        Ok(keys)
    }

    fn shown(json: &Value) -> Value {
        json.clone()
    }
}

/// Stores with names, by their kinds. `None`: a section without anything.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NamedStores(Vec<(Kind, String, Option<Store>)>);

impl Meaning for NamedStores {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<NamedStores, String> {
        NamedStores::read(json, Form::Own)
    }

    fn shown(json: &Value) -> Value {
        // The names of stores are anybody's, so they are not asked whether they are secrets.
        without_secrets(json)
    }
}

impl NamedStores {
    /// Reads the sections of all kinds.
    pub(super) fn read(json: &Value, form: Form) -> Result<NamedStores, String> {
        let mut stores = NamedStores::default();
        for (kind_name, of_kind) in section(json)? {
            if OTHER_KINDS.contains(&kind_name.as_str()) || of_kind.is_null() {
                continue;
            }
            let kind = Kind::of(kind_name)
                .ok_or_else(|| format!("unrecognized named storage type: {kind_name}"))?;
            for (name, json) in section(of_kind).map_err(|error| format!("{kind_name}: {error}"))? {
                let path = |error: String| format!("{kind_name}.{name}: {error}");
                if Kind::of(name).is_some() {
                    return Err(path("the name is that of a kind of stores".to_owned()));
                }
                if stores.0.iter().any(|(_, known, _)| known == name) {
                    return Err(path("another store has this name".to_owned()));
                }
                let store = match says_something(json) {
                    true => Some(Store::read(kind, json, form).map_err(path)?),
                    false => None,
                };
                stores.0.push((kind, name.clone(), store));
            }
        }
        Ok(stores)
    }

    /// The store with a name. `Some` of an error: it has the name only.
    pub(super) fn get(&self, name: &str) -> Option<Result<&Store, String>> {
        let (kind, _, store) = self.0.iter().find(|(_, known, _)| known == name)?;
        Some(store.as_ref().ok_or_else(|| unrecognized(*kind, name)))
    }

    /// The kind of the store with a name.
    pub(super) fn kind(&self, name: &str) -> Option<Kind> {
        self.0.iter().find(|(_, known, _)| known == name).map(|(kind, _, _)| *kind)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The error about a store that has a name and nothing else.
pub(super) fn unrecognized(kind: Kind, name: &str) -> String {
    match kind {
        Kind::Bos => format!("unrecognized named storage config {name}"),
        kind => format!("unrecognized named {} storage config {name}", kind.name()),
    }
}
