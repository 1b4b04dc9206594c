//! Loki's sections about S3.

use logsvc_store::cloud::{Encryption, S3Config, S3Credentials, Secret};
use serde_json::Value;

use super::address::{Address, is_http, without_port};
use super::environment::Environment;
use super::shown::{says_something, without_secrets};
use crate::config::ruler::sections::{each, text, truth};
use crate::config::ruler::{HIDDEN, Meaning};

/// Which of Loki's two families of clients a section is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Form {
    /// `storage_config.aws` and the like.
    #[default]
    Own,
    /// `storage_config.object_store` and the like.
    Thanos,
}

/// Where requests name the bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lookup {
    /// In the host where that can be found.
    #[default]
    Host,
    /// In the path, except for Amazon and its like.
    Auto,
    /// In the path.
    Path,
}

/// A section about S3.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct S3Keys {
    /// Whether anything is set.
    pub(super) is_written: bool,
    /// Keys without an effect, and why.
    pub(super) unused: Vec<(&'static str, &'static str)>,
    /// An address that has all in one.
    url: Secret,
    buckets: String,
    endpoint: String,
    region: String,
    access_key_id: String,
    secret_access_key: Secret,
    session_token: Secret,
    is_insecure: bool,
    lookup: Lookup,
    encryption: Encryption,
    sts_endpoint: String,
}

const KEYS: [&str; 29] = [
    "s3",
    "s3forcepathstyle",
    "bucketnames",
    "bucket_name",
    "endpoint",
    "region",
    "access_key_id",
    "secret_access_key",
    "session_token",
    "insecure",
    "sse",
    "sse_encryption",
    "bucket_lookup_type",
    "sts_endpoint",
    "signature_version",
    // What changes nothing here.
    "storage_class",
    "http_config",
    "http",
    "backoff_config",
    "chunk_delimiter",
    "disable_dualstack",
    "dualstack_enabled",
    "native_aws_auth_enabled",
    "list_objects_version",
    "part_size",
    "send_content_md5",
    "max_retries",
    "trace",
    "dynamodb",
];

/// Why a key changes nothing, if there is something to tell.
fn reason(key: &str) -> Option<(&'static str, &'static str)> {
    Some(match key {
        "storage_class" => ("storage_class", "objects have the class that the bucket gives them"),
        "http_config" => ("http_config", "requests have timeouts and connections of their own"),
        "http" => ("http", "requests have timeouts and connections of their own"),
        "backoff_config" => ("backoff_config", "requests are repeated until a deadline"),
        "max_retries" => ("max_retries", "requests are repeated until a deadline"),
        "chunk_delimiter" => ("chunk_delimiter", "there are no chunks"),
        "dynamodb" => ("dynamodb", "the index is in segments"),
        "part_size" => ("part_size", "large objects are sent in parts of 16MB"),
        _ => return None,
    })
}

impl Meaning for S3Keys {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<S3Keys, String> {
        S3Keys::read(json, Form::Own)
    }

    fn shown(json: &Value) -> Value {
        without_secrets(json)
    }
}

impl S3Keys {
    /// Reads a section.
    ///
    /// # Errors
    /// The first fault, with its key.
    pub(super) fn read(json: &Value, form: Form) -> Result<S3Keys, String> {
        let mut keys = S3Keys { is_written: says_something(json), ..S3Keys::default() };
        if form == Form::Thanos {
            keys.lookup = Lookup::Auto;
        }
        let mut sse = None;
        each(json, &KEYS, |key, value| {
            match key {
                "s3" => keys.url = Secret(text(value)?),
                "s3forcepathstyle" if truth(value)? => keys.lookup = Lookup::Path,
                "bucketnames" | "bucket_name" => keys.buckets = text(value)?,
                "endpoint" => keys.endpoint = text(value)?,
                "region" => keys.region = text(value)?,
                "access_key_id" => keys.access_key_id = text(value)?,
                "secret_access_key" => keys.secret_access_key = Secret(text(value)?),
                "session_token" => keys.session_token = Secret(text(value)?),
                "insecure" => keys.is_insecure = truth(value)?,
                "sse_encryption" if truth(value)? => keys.encryption = Encryption::Store,
                "sse" => sse = encryption(value, &mut keys.unused)?,
                "bucket_lookup_type" => keys.lookup = lookup(&text(value)?)?,
                "sts_endpoint" => keys.sts_endpoint = sts_endpoint(text(value)?)?,
                "signature_version" if !matches!(&*text(value)?, "" | "v4") => {
                    return Err("only v4 is there".to_owned());
                }
                key => keys.unused.extend(reason(key).filter(|_| says_something(value))),
            }
            Ok(())
        })?;
        keys.encryption = sse.unwrap_or(keys.encryption);
        if form == Form::Thanos && keys.has_bucket_in_endpoint() {
            return Err("the endpoint must not prefixed with the bucket name".to_owned());
        }
        Ok(keys)
    }

    fn has_bucket_in_endpoint(&self) -> bool {
        let host = Address::of(&self.endpoint).map_or(self.endpoint.clone(), |it| it.host);
        !self.buckets.is_empty() && host.starts_with(&format!("{}.", self.buckets))
    }

    /// The bucket. `prefix` is what its names begin with. Adds keys without an effect to `unused`.
    ///
    /// # Errors
    /// It lacks something, or its address is none.
    pub(super) fn config(
        &self,
        prefix: &str,
        environment: &Environment<'_>,
        unused: &mut Vec<(&'static str, &'static str)>,
    ) -> Result<S3Config, String> {
        let mut place = self.place()?;
        let mut names = self.buckets.split(',').map(str::trim).filter(|name| !name.is_empty());
        if let Some(name) = names.next() {
            name.clone_into(&mut place.bucket);
        }
        if names.next().is_some() {
            unused.push(("bucketnames", "all objects go to the first of several buckets"));
        }
        if place.bucket.is_empty() {
            return Err("names no bucket: set bucketnames".to_owned());
        }
        if place.endpoint.is_empty() {
            place.endpoint = environment.s3_endpoint();
        }
        let mut region = [&*self.region, &*place.region, region_of(&place.endpoint)]
            .into_iter()
            .find(|region| !region.is_empty())
            .unwrap_or_default()
            .to_owned();
        if region.is_empty() {
            region = environment.s3_region()?;
        }
        let credentials = match (place.key, self.access_key_id.is_empty()) {
            (_, false) => S3Credentials::Key {
                id: self.access_key_id.clone(),
                secret: self.secret_access_key.clone(),
                session_token: self.session_token.clone(),
            },
            (Some((id, secret)), true) => {
                S3Credentials::Key { id, secret, session_token: self.session_token.clone() }
            }
            (None, true) => environment.s3_credentials(&self.sts_endpoint)?,
        };
        let has_bucket_in_path = match self.lookup {
            Lookup::Path => true,
            Lookup::Auto => !place.endpoint.is_empty() && !is_amazon(&place.endpoint),
            Lookup::Host => !can_be_in_host(&place.bucket, &place.endpoint),
        };
        let mut config = S3Config {
            bucket: place.bucket,
            prefix: prefix.to_owned(),
            endpoint: place.endpoint,
            region,
            has_bucket_in_path,
            credentials,
            encryption: self.encryption.clone(),
        };
        finish(&mut config);
        Ok(config)
    }

    /// What the address and the endpoint say.
    fn place(&self) -> Result<Place, String> {
        let mut place = Place::default();
        if !self.url.0.is_empty() {
            let fault = "s3: is not an address such as s3://key:secret@region/bucket";
            let address = Address::of(&self.url.0).ok_or(fault)?;
            if !matches!(address.scheme.as_str(), "s3" | "http" | "https") {
                return Err(fault.to_owned());
            }
            let is_server = address.host.contains(['.', ':']);
            if is_server && address.scheme != "s3" {
                place.endpoint = format!("{}://{}", address.scheme, address.host);
            } else if is_server {
                place.endpoint = self.with_scheme(&address.host);
            } else {
                place.region = address.host;
            }
            place.bucket = address.path;
            place.key = address.key;
        }
        match Address::of(&self.endpoint) {
            // Loki's documentation has a named store with such an endpoint.
            Some(address) if address.scheme == "s3" => {
                place.bucket = address.host;
                place.endpoint = String::new();
            }
            _ if is_http(&self.endpoint) => {
                self.endpoint.trim_end_matches('/').clone_into(&mut place.endpoint);
            }
            Some(_) => return Err("endpoint: must begin with http:// or https://".to_owned()),
            None if !self.endpoint.is_empty() => {
                place.endpoint = self.with_scheme(self.endpoint.trim_end_matches('/'));
                if !is_http(&place.endpoint) {
                    return Err("endpoint: is not the address of a server".to_owned());
                }
            }
            None => {}
        }
        Ok(place)
    }

    fn with_scheme(&self, host: &str) -> String {
        format!("{}://{host}", if self.is_insecure { "http" } else { "https" })
    }
}

/// What an address says.
#[derive(Default)]
struct Place {
    bucket: String,
    endpoint: String,
    region: String,
    key: Option<(String, Secret)>,
}

/// Makes the endpoint one that the client takes as it is.
pub(super) fn finish(config: &mut S3Config) {
    // The client knows Amazon's host for other regions only.
    if config.endpoint.is_empty() && config.region.starts_with("cn-") {
        config.endpoint = format!("https://s3.{}.amazonaws.com.cn", config.region);
    }
    if !config.has_bucket_in_path
        && let Some((scheme, host)) = config.endpoint.split_once("://")
        && !host.starts_with(&format!("{}.", config.bucket))
    {
        config.endpoint = format!("{scheme}://{}.{host}", config.bucket);
    }
}

/// Whether an endpoint is Amazon's, or of a provider that wants the bucket in the host.
pub(super) fn is_amazon(endpoint: &str) -> bool {
    let host = endpoint.split_once("://").map_or(endpoint, |(_, host)| host);
    let host = without_port(host);
    [".amazonaws.com", ".amazonaws.com.cn", ".aliyuncs.com"].iter().any(|end| host.ends_with(end))
}

/// The region that the host of an endpoint of Amazon names.
pub(super) fn region_of(endpoint: &str) -> &str {
    let host = endpoint.split_once("://").map_or(endpoint, |(_, host)| host);
    let name = ["s3.dualstack.", "s3-", "s3."].iter().filter_map(|start| host.strip_prefix(start));
    let ends = [".amazonaws.com", ".amazonaws.com.cn"];
    let mut regions = name.filter_map(|rest| ends.iter().find_map(|end| rest.strip_suffix(end)));
    regions.find(|region| !region.contains('.')).unwrap_or_default()
}

/// Whether the name of a bucket before the host of an endpoint can be looked up.
fn can_be_in_host(bucket: &str, endpoint: &str) -> bool {
    if endpoint.is_empty() {
        return !bucket.contains('.');
    }
    let host = endpoint.split_once("://").map_or(endpoint, |(_, host)| host);
    let name = without_port(host);
    let is_number = name.starts_with('[') || name.parse::<std::net::Ipv4Addr>().is_ok();
    !is_number && name.trim_end_matches('.').contains('.') && !bucket.contains('.')
}

fn lookup(word: &str) -> Result<Lookup, String> {
    Ok(match word {
        "" | "auto" | "0" => Lookup::Auto,
        "virtual-hosted" | "1" => Lookup::Host,
        "path" | "2" => Lookup::Path,
        _ => return Err("must be auto, path or virtual-hosted".to_owned()),
    })
}

fn sts_endpoint(address: String) -> Result<String, String> {
    if address.is_empty() || is_http(&address) {
        return Ok(address);
    }
    Err("sts-endpoint must be a valid url".to_owned())
}

/// Reads the section `sse`.
fn encryption(
    json: &Value,
    unused: &mut Vec<(&'static str, &'static str)>,
) -> Result<Option<Encryption>, String> {
    let (mut kind, mut key_id, mut context) = (String::new(), String::new(), String::new());
    each(json, &["type", "kms_key_id", "kms_encryption_context"], |key, value| {
        match key {
            "type" => kind = text(value)?,
            "kms_key_id" => key_id = text(value)?,
            _ => context = text(value)?,
        }
        Ok(())
    })?;
    if !context.is_empty() && context != HIDDEN {
        let parsed = serde_json::from_str::<Value>(&context);
        if !parsed.is_ok_and(|json| json.is_object()) {
            return Err("invalid S3 SSE encryption context".to_owned());
        }
        unused.push(("sse.kms_encryption_context", "objects are encrypted without a context"));
    }
    match kind.as_str() {
        "" => Ok(None),
        "SSE-S3" => Ok(Some(Encryption::Store)),
        "SSE-KMS" => Ok(Some(Encryption::Key(key_id))),
        _ => Err("unsupported S3 SSE type: must be SSE-S3 or SSE-KMS".to_owned()),
    }
}
