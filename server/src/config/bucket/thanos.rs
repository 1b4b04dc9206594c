//! Loki's other family of clients (`storage_config.object_store`, `common.storage.object_store`),
//! which count if `use_thanos_objstore` is set.

use serde_json::Value;

use super::named::{Kind, NamedStores, Store};
use super::s3::Form;
use super::shown::{says_something, without_secrets};
use crate::config::ruler::Meaning;
use crate::config::ruler::sections::{each, text};

/// The sections of all kinds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ThanosStores {
    /// Whether anything is set.
    pub(super) is_written: bool,
    /// Before the names of all objects.
    pub(super) prefix: String,
    /// Stores with names.
    pub(super) named: NamedStores,
    stores: Vec<(Kind, Store)>,
}

impl Meaning for ThanosStores {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<ThanosStores, String> {
        let mut all = ThanosStores { is_written: says_something(json), ..ThanosStores::default() };
        let known = [
            "s3",
            "gcs",
            "azure",
            "swift",
            "filesystem",
            "bos",
            "alibaba",
            "storage_prefix",
            "named_stores",
        ];
        each(json, &known, |key, value| {
            match (key, Kind::of(key)) {
                ("storage_prefix", _) => {
                    all.prefix = text(value)?;
                    if !all.prefix.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-') {
                        return Err("storage prefix contains invalid characters, it may only \
                                    contain digits, English alphabet letters and dashes"
                            .to_owned());
                    }
                }
                ("named_stores", _) => all.named = NamedStores::read(value, Form::Thanos)?,
                (_, Some(kind)) if says_something(value) => {
                    all.stores.push((kind, Store::read(kind, value, Form::Thanos)?));
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(all)
    }

    fn shown(json: &Value) -> Value {
        without_secrets(json)
    }
}

impl ThanosStores {
    /// The section of a kind, if it is written.
    pub(super) fn get(&self, kind: Kind) -> Option<&Store> {
        self.stores.iter().find(|(known, _)| *known == kind).map(|(_, store)| store)
    }
}
