//! Loki's sections about Baidu's store, which is asked by its interface for programs of S3.

use logsvc_store::cloud::{Encryption, S3Config, S3Credentials, Secret};
use serde_json::Value;

use super::address::is_http;
use super::shown::{says_something, without_secrets};
use crate::config::ruler::Meaning;
use crate::config::ruler::sections::{each, text};

/// A section about Baidu's store.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BosKeys {
    /// Whether anything is set.
    pub(super) is_written: bool,
    bucket: String,
    endpoint: String,
    access_key_id: String,
    secret_access_key: Secret,
}

/// Where Baidu's store is, if nobody says.
const BOS_ENDPOINT: &str = "bj.bcebos.com";

impl Meaning for BosKeys {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<BosKeys, String> {
        let mut keys = BosKeys { is_written: says_something(json), ..BosKeys::default() };
        let known = [
            "bucket_name",
            "bucket",
            "endpoint",
            "access_key_id",
            "access_key",
            "secret_access_key",
            "secret_key",
        ];
        each(json, &known, |key, value| {
            match key {
                "bucket_name" | "bucket" => keys.bucket = text(value)?,
                "endpoint" => keys.endpoint = text(value)?,
                "access_key_id" | "access_key" => keys.access_key_id = text(value)?,
                _ => keys.secret_access_key = Secret(text(value)?),
            }
            Ok(())
        })?;
        Ok(keys)
    }

    fn shown(json: &Value) -> Value {
        without_secrets(json)
    }
}

impl BosKeys {
    /// The bucket, as Baidu's interface for programs of S3 has it.
    ///
    /// # Errors
    /// It lacks something.
    pub(super) fn config(&self, prefix: &str) -> Result<S3Config, String> {
        if self.bucket.is_empty() {
            return Err("names no bucket: set bucket_name".to_owned());
        }
        if self.access_key_id.is_empty() || self.secret_access_key.0.is_empty() {
            return Err("has no key: set access_key_id and secret_access_key".to_owned());
        }
        let endpoint = if self.endpoint.is_empty() { BOS_ENDPOINT } else { &self.endpoint };
        let (scheme, host) = endpoint.split_once("://").unwrap_or(("https", endpoint));
        let host = host.trim_end_matches('/').trim_start_matches("s3.");
        let region = host.strip_suffix(".bcebos.com");
        let host = if region.is_some() { format!("s3.{host}") } else { host.to_owned() };
        let endpoint = format!("{scheme}://{host}");
        if !is_http(&endpoint) {
            return Err("endpoint: is not the address of a server".to_owned());
        }
        Ok(S3Config {
            bucket: self.bucket.clone(),
            prefix: prefix.to_owned(),
            endpoint,
            region: region.unwrap_or_default().to_owned(),
            has_bucket_in_path: true,
            credentials: S3Credentials::Key {
                id: self.access_key_id.clone(),
                secret: self.secret_access_key.clone(),
                session_token: Secret::default(),
            },
            encryption: Encryption::OfBucket,
        })
    }
}
