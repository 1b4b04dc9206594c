//! The short form: `storage.bucket` and the keys that begin like it.

use std::path::PathBuf;

use logsvc_store::cloud::{
    AzureConfig, AzureCredentials, CloudConfig, Encryption, GcsConfig, GcsCredentials, S3Config,
    S3Credentials, Secret,
};

use super::address::{Address, is_http};
use super::environment::Environment;
use super::s3::{finish, is_amazon, region_of};
use super::{BucketConfig, BucketSettings};

/// The bucket of the short form.
///
/// # Errors
/// The address is none, or other keys do not fit to it.
pub(super) fn bucket(
    settings: &BucketSettings,
    environment: &Environment<'_>,
) -> Result<BucketConfig, String> {
    let fault = |text: &str| format!("storage.bucket: {text}");
    let forms = "must be s3://name/prefix, gs://name/prefix, azure://account/container/prefix or \
                 file:///path";
    let address = Address::of(settings.address.trim()).ok_or_else(|| fault(forms))?;
    if address.key.is_some() {
        return Err(fault("takes no key: set bucket_access_key_id and bucket_secret_access_key"));
    }
    if !settings.endpoint.is_empty() && !is_http(&settings.endpoint) {
        return Err("storage.bucket_endpoint: must be an address that begins with http:// or \
                    https://"
            .to_owned());
    }
    if settings.access_key_id.is_empty() != settings.secret_access_key.0.is_empty()
        && address.scheme != "azure"
    {
        return Err("storage.bucket_access_key_id and storage.bucket_secret_access_key: set both \
                    or none"
            .to_owned());
    }
    let name = address.host.clone();
    let needs_name = |what: &str| fault(&format!("names no {what}: {forms}"));
    match address.scheme.as_str() {
        "s3" if name.is_empty() => Err(needs_name("bucket")),
        "gs" if name.is_empty() => Err(needs_name("bucket")),
        "s3" => Ok(BucketConfig::Cloud(CloudConfig::S3(s3(settings, address, environment)?))),
        "gs" => {
            if !settings.access_key_id.is_empty() {
                return Err("storage.bucket_access_key_id: for gs:// set \
                            GOOGLE_APPLICATION_CREDENTIALS in the environment instead"
                    .to_owned());
            }
            let endpoint = settings.endpoint.trim_end_matches('/').to_owned();
            let credentials = match environment.gcs_credentials() {
                // Only emulators speak plain HTTP, and they ask nobody.
                GcsCredentials::OfMachine if endpoint.starts_with("http://") => {
                    GcsCredentials::Anonymous
                }
                credentials => credentials,
            };
            let config = GcsConfig { bucket: name, prefix: address.path, endpoint, credentials };
            Ok(BucketConfig::Cloud(CloudConfig::Gcs(config)))
        }
        "azure" => {
            let (container, prefix) = address.path.split_once('/').unwrap_or((&address.path, ""));
            if name.is_empty() || container.is_empty() {
                return Err(needs_name("account or no container"));
            }
            let credentials = if settings.secret_access_key.0.is_empty() {
                environment.azure_credentials(&name)
            } else {
                AzureCredentials::Key(Secret(settings.secret_access_key.0.clone()))
            };
            Ok(BucketConfig::Cloud(CloudConfig::Azure(AzureConfig {
                account: name,
                container: container.to_owned(),
                prefix: prefix.trim_matches('/').to_owned(),
                endpoint: settings.endpoint.trim_end_matches('/').to_owned(),
                credentials,
            })))
        }
        "file" if name.is_empty() && !address.path.is_empty() => {
            Ok(BucketConfig::Folder(PathBuf::from(format!("/{}", address.path))))
        }
        "file" => Err(fault("needs a whole path: file:///path")),
        scheme => Err(fault(&format!("unsupported storage backend {scheme}: {forms}"))),
    }
}

fn s3(
    settings: &BucketSettings,
    address: Address,
    environment: &Environment<'_>,
) -> Result<S3Config, String> {
    let endpoint = match settings.endpoint.trim_end_matches('/') {
        "" => environment.s3_endpoint(),
        named => named.to_owned(),
    };
    let host = endpoint.split_once("://").map_or("", |(_, host)| host);
    if host.starts_with(&format!("{}.", address.host)) {
        return Err("storage.bucket_endpoint: the endpoint must not prefixed with the bucket name"
            .to_owned());
    }
    let of_environment = |error: String| format!("storage.bucket: {error}");
    let mut region = match settings.region.as_str() {
        "" => region_of(&endpoint).to_owned(),
        named => named.to_owned(),
    };
    if region.is_empty() {
        region = environment.s3_region().map_err(of_environment)?;
    }
    let credentials = if settings.access_key_id.is_empty() {
        environment.s3_credentials("").map_err(of_environment)?
    } else {
        S3Credentials::Key {
            id: settings.access_key_id.clone(),
            secret: Secret(settings.secret_access_key.0.clone()),
            session_token: Secret::default(),
        }
    };
    let mut config = S3Config {
        // Certificates of Amazon's hosts do not fit to names with dots.
        has_bucket_in_path: address.host.contains('.')
            || (!endpoint.is_empty() && !is_amazon(&endpoint)),
        bucket: address.host,
        prefix: address.path,
        endpoint,
        region,
        credentials,
        encryption: Encryption::OfBucket,
    };
    finish(&mut config);
    Ok(config)
}

/// Appends a text for each key that needs an address.
pub(super) fn check_unused(settings: &BucketSettings, errors: &mut Vec<String>) {
    for (is_set, key) in [
        (!settings.endpoint.is_empty(), "bucket_endpoint"),
        (!settings.region.is_empty(), "bucket_region"),
        (!settings.access_key_id.is_empty(), "bucket_access_key_id"),
        (!settings.secret_access_key.0.is_empty(), "bucket_secret_access_key"),
    ] {
        if is_set {
            errors.push(format!("storage.{key}: needs storage.bucket"));
        }
    }
}
