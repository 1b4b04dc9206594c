//! Loki's sections about Google Cloud Storage.

use logsvc_store::cloud::{GcsConfig, GcsCredentials, Secret};
use serde_json::Value;

use super::environment::Environment;
use super::shown::{says_something, without_secrets};
use crate::config::ruler::Meaning;
use crate::config::ruler::sections::{each, text};

/// A section about Google Cloud Storage.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct GcsKeys {
    /// Whether anything is set.
    pub(super) is_written: bool,
    /// Keys without an effect, and why.
    pub(super) unused: Vec<(&'static str, &'static str)>,
    bucket: String,
    service_account: Secret,
}

const KEYS: [&str; 8] = [
    "bucket_name",
    "service_account",
    "chunk_buffer_size",
    "request_timeout",
    "enable_opencensus",
    "enable_http2",
    "enable_retries",
    "max_retries",
];

impl Meaning for GcsKeys {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<GcsKeys, String> {
        let mut keys = GcsKeys { is_written: says_something(json), ..GcsKeys::default() };
        each(json, &KEYS, |key, value| {
            match key {
                "bucket_name" => keys.bucket = text(value)?,
                "service_account" => keys.service_account = Secret(text(value)?),
                "request_timeout" => {
                    let reason = "requests have timeouts of their own";
                    keys.unused.push(("request_timeout", reason));
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(keys)
    }

    fn shown(json: &Value) -> Value {
        without_secrets(json)
    }
}

impl GcsKeys {
    /// The bucket.
    ///
    /// # Errors
    /// It has no name.
    pub(super) fn config(
        &self,
        prefix: &str,
        environment: &Environment<'_>,
    ) -> Result<GcsConfig, String> {
        if self.bucket.is_empty() {
            return Err("names no bucket: set bucket_name".to_owned());
        }
        let credentials = if self.service_account.0.is_empty() {
            environment.gcs_credentials()
        } else {
            GcsCredentials::ServiceAccount(self.service_account.clone())
        };
        let prefix = prefix.to_owned();
        Ok(GcsConfig { bucket: self.bucket.clone(), prefix, endpoint: String::new(), credentials })
    }
}
