//! From the text of a file and an environment to a bucket, errors and keys without an effect.

use std::io;
use std::path::Path;

use logsvc_store::cloud::{
    AzureConfig, AzureCredentials, CloudConfig, ContainerAddress, Encryption, GcsConfig,
    GcsCredentials, S3Config, S3Credentials, Secret,
};

use super::{BucketConfig, Durability, Environment};
use crate::config::print::{Mode, yaml};
use crate::config::table::by_path;
use crate::config::{Config, ConfigErrors, IgnoredKey, Machine, load_in};

mod environment;
mod loki;
mod own;
mod refusals;
#[cfg(feature = "swift")]
mod swift;

type Loading = Result<(Config, Vec<IgnoredKey>), Vec<String>>;

/// The time of the tests, in 2023.
const NOW_S: i64 = 1_700_000_000;

fn load_with(text: &str, variables: &[(&str, &str)], files: &[(&str, &str)]) -> Loading {
    let of = |pairs: &[(&str, &str)], key: &str| {
        let pair = pairs.iter().find(|(name, _)| *name == key);
        pair.map(|(_, value)| (*value).to_owned())
    };
    let environment = Environment {
        variable: &|name| of(variables, name),
        file: &|path: &Path| {
            let text = path.to_str().and_then(|path| of(files, path));
            text.ok_or_else(|| io::ErrorKind::NotFound.into())
        },
        now_s: NOW_S,
    };
    let machine = Machine { cores: 3, memory_bytes: Ok(8 << 30), limited_by: None };
    load_in(text, &[], &machine, &environment).map_err(|ConfigErrors(errors)| errors)
}

fn load(text: &str) -> Loading {
    load_with(text, &[], &[])
}

fn config(text: &str) -> Config {
    load(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}")).0
}

fn errors(text: &str) -> Vec<String> {
    load(text).err().unwrap_or_default()
}

fn ignored(text: &str) -> Vec<String> {
    let keys = load(text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}")).1;
    keys.into_iter().map(|key| key.path).collect()
}

fn bucket_with(text: &str, variables: &[(&str, &str)], files: &[(&str, &str)]) -> BucketConfig {
    let loaded = load_with(text, variables, files);
    let (config, _) = loaded.unwrap_or_else(|errors| panic!("{text}\n{errors:?}"));
    config.bucket.unwrap_or_else(|| panic!("no bucket: {text}"))
}

fn s3_with(text: &str, variables: &[(&str, &str)], files: &[(&str, &str)]) -> S3Config {
    match bucket_with(text, variables, files) {
        BucketConfig::Cloud(CloudConfig::S3(config)) => config,
        other => panic!("{text}: {other:?}"),
    }
}

fn s3(text: &str) -> S3Config {
    s3_with(text, &[], &[])
}

fn gcs(text: &str) -> GcsConfig {
    match bucket_with(text, &[], &[]) {
        BucketConfig::Cloud(CloudConfig::Gcs(config)) => config,
        other => panic!("{text}: {other:?}"),
    }
}

fn azure(text: &str) -> AzureConfig {
    match bucket_with(text, &[], &[]) {
        BucketConfig::Cloud(CloudConfig::Azure(config)) => config,
        other => panic!("{text}: {other:?}"),
    }
}

fn key(id: &str, secret: &str) -> S3Credentials {
    S3Credentials::Key {
        id: id.to_owned(),
        secret: Secret(secret.to_owned()),
        session_token: Secret::default(),
    }
}
