//! Settings of the buckets of clouds, and the clients of `object_store` that they make.
//!
//! This is the only place that builds such clients: each is built with `max_retries` 0.

use std::fmt;
use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GcpCredential, GoogleCloudStorageBuilder};
use object_store::multipart::MultipartStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig, StaticCredentialProvider};

use super::connector::Connector;
use super::errors::of_store;

/// Why settings make no bucket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub String);

/// A bucket of a cloud.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloudConfig {
    /// S3, or a store that speaks like it.
    S3(S3Config),
    /// Google Cloud Storage.
    Gcs(GcsConfig),
    /// Azure Blob Storage.
    Azure(AzureConfig),
}

/// A text that is in no log and no message.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(pub String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "\"\"" } else { "\"…\"" })
    }
}

/// A bucket of S3.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct S3Config {
    /// Its name.
    pub bucket: String,
    /// What all names of objects begin with; empty, or parts with `/` between them.
    pub prefix: String,
    /// The address with its scheme; empty: Amazon's for the region.
    pub endpoint: String,
    /// The region.
    pub region: String,
    /// Whether the name of the bucket is in the path and not in the name of the host.
    pub has_bucket_in_path: bool,
    /// Who asks.
    pub credentials: S3Credentials,
    /// Who encrypts objects, and how.
    pub encryption: Encryption,
}

/// Who asks S3.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum S3Credentials {
    /// What the machine gives: its metadata service.
    #[default]
    OfMachine,
    /// What the container gives
    /// (<https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html>).
    OfContainer(ContainerAddress),
    /// A key.
    Key {
        /// Its name.
        id: String,
        /// The key.
        secret: Secret,
        /// The token of a session; empty: none.
        session_token: Secret,
    },
    /// A role that a token in a file gives.
    WebIdentity {
        /// The file, read anew for each exchange.
        token_file: String,
        /// The role.
        role_arn: String,
        /// The address that exchanges tokens; empty: Amazon's for the region.
        sts_endpoint: String,
    },
    /// Nobody: requests are not signed.
    Anonymous,
}

/// Where a container asks for credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerAddress {
    /// A path at the address that containers of ECS have for this, with its `/`.
    Path(String),
    /// A whole address, as pods of EKS have it.
    Whole {
        /// The address.
        url: String,
        /// The file with the token that is sent, read anew for each request.
        token_file: String,
    },
}

/// Who encrypts objects of S3.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Encryption {
    /// The bucket's own setting counts.
    #[default]
    OfBucket,
    /// The store, with its own keys (SSE-S3).
    Store,
    /// The store, with a key of its key service (SSE-KMS).
    Key(String),
}

/// A bucket of Google Cloud Storage.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct GcsConfig {
    /// Its name.
    pub bucket: String,
    /// As for [`S3Config::prefix`].
    pub prefix: String,
    /// The address with its scheme; empty: Google's.
    pub endpoint: String,
    /// Who asks.
    pub credentials: GcsCredentials,
}

/// Who asks Google Cloud Storage.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum GcsCredentials {
    /// What the machine gives: its metadata service.
    #[default]
    OfMachine,
    /// A key of a service account, as JSON.
    ServiceAccount(Secret),
    /// A file with such a key, or another of Google's files of credentials.
    File(String),
    /// Nobody: requests are not signed.
    Anonymous,
}

/// A container of Azure Blob Storage.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct AzureConfig {
    /// The account.
    pub account: String,
    /// The container.
    pub container: String,
    /// As for [`S3Config::prefix`].
    pub prefix: String,
    /// The address with its scheme, the account included; empty: Azure's.
    pub endpoint: String,
    /// Who asks.
    pub credentials: AzureCredentials,
}

/// Who asks Azure.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum AzureCredentials {
    /// The machine's identity.
    #[default]
    OfMachine,
    /// One of the machine's identities.
    Identity(String),
    /// A key of the account.
    Key(Secret),
    /// A signature that somebody else made, as a query.
    Signature(Secret),
    /// A client with a secret.
    Client {
        /// The tenant of Azure.
        tenant_id: String,
        /// The client.
        id: String,
        /// Its secret.
        secret: Secret,
    },
    /// A client that a token in a file proves.
    WorkloadIdentity {
        /// The tenant of Azure.
        tenant_id: String,
        /// The client.
        id: String,
        /// The file, read anew for each exchange.
        token_file: String,
    },
}

type Clients = (Arc<dyn ObjectStore>, Arc<dyn MultipartStore>);

/// Nothing is repeated: the repetition of that crate needs a runtime that is not there.
fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn both<S: ObjectStore + MultipartStore>(
    built: object_store::Result<S>,
) -> Result<Clients, ConfigError> {
    let client = Arc::new(built.map_err(|error| ConfigError(of_store(error).to_string()))?);
    Ok((client.clone(), client))
}

impl CloudConfig {
    /// What all names of objects begin with.
    pub(super) fn prefix(&self) -> &str {
        let prefix = match self {
            CloudConfig::S3(config) => &config.prefix,
            CloudConfig::Gcs(config) => &config.prefix,
            CloudConfig::Azure(config) => &config.prefix,
        };
        prefix.trim_matches('/')
    }

    /// What the bucket is called in messages.
    pub(super) fn address(&self) -> String {
        let (scheme, bucket) = match self {
            CloudConfig::S3(config) => ("s3", config.bucket.clone()),
            CloudConfig::Gcs(config) => ("gs", config.bucket.clone()),
            CloudConfig::Azure(config) => {
                ("azure", format!("{}/{}", config.account, config.container))
            }
        };
        match self.prefix() {
            "" => format!("{scheme}://{bucket}"),
            prefix => format!("{scheme}://{bucket}/{prefix}"),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "these clients repeat nothing")]
    pub(super) fn build(&self, connector: Connector) -> Result<Clients, ConfigError> {
        match self {
            CloudConfig::S3(config) => both(s3(config, connector).build()),
            CloudConfig::Gcs(config) => both(gcs(config, connector).build()),
            CloudConfig::Azure(config) => both(azure(config, connector).build()),
        }
    }
}

fn options(endpoint: &str) -> ClientOptions {
    ClientOptions::new().with_allow_http(endpoint.starts_with("http://"))
}

/// Whether requests to S3 leave their bodies out of the signature, as Amazon's own clients do it: over TLS
/// nobody on the way can change a body, and to hash it takes as long as to send it. Objects have
/// checksums of their own, which readers check.
fn has_unsigned_bodies(endpoint: &str) -> bool {
    endpoint.is_empty() || endpoint.starts_with("https://")
}

fn s3(config: &S3Config, connector: Connector) -> AmazonS3Builder {
    let mut builder = AmazonS3Builder::new()
        .with_http_connector(connector)
        .with_retry(no_retries())
        .with_client_options(options(&config.endpoint))
        .with_bucket_name(&config.bucket)
        .with_region(if config.region.is_empty() { "us-east-1" } else { &config.region })
        .with_unsigned_payload(has_unsigned_bodies(&config.endpoint))
        .with_virtual_hosted_style_request(!config.has_bucket_in_path);
    if !config.endpoint.is_empty() {
        builder = builder.with_endpoint(&config.endpoint);
    }
    builder = match &config.credentials {
        S3Credentials::OfMachine => builder,
        S3Credentials::OfContainer(ContainerAddress::Path(path)) => {
            builder.with_config(AmazonS3ConfigKey::ContainerCredentialsRelativeUri, path)
        }
        S3Credentials::OfContainer(ContainerAddress::Whole { url, token_file }) => builder
            .with_config(AmazonS3ConfigKey::ContainerCredentialsFullUri, url)
            .with_config(AmazonS3ConfigKey::ContainerAuthorizationTokenFile, token_file),
        S3Credentials::Anonymous => builder.with_skip_signature(true),
        S3Credentials::Key { id, secret, session_token } => {
            let builder = builder.with_access_key_id(id).with_secret_access_key(&secret.0);
            if session_token.0.is_empty() { builder } else { builder.with_token(&session_token.0) }
        }
        S3Credentials::WebIdentity { token_file, role_arn, sts_endpoint } => {
            let builder = builder
                .with_config(AmazonS3ConfigKey::WebIdentityTokenFile, token_file)
                .with_config(AmazonS3ConfigKey::RoleArn, role_arn)
                .with_config(AmazonS3ConfigKey::RoleSessionName, "logsvc");
            if sts_endpoint.is_empty() {
                builder
            } else {
                builder.with_config(AmazonS3ConfigKey::StsEndpoint, sts_endpoint)
            }
        }
    };
    match &config.encryption {
        Encryption::OfBucket => builder,
        Encryption::Store => match "aws_server_side_encryption".parse() {
            Ok(key) => builder.with_config(key, "AES256"),
            Err(_) => builder,
        },
        Encryption::Key(key_id) => builder.with_sse_kms_encryption(key_id),
    }
}

fn gcs(config: &GcsConfig, connector: Connector) -> GoogleCloudStorageBuilder {
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_http_connector(connector)
        .with_retry(no_retries())
        .with_client_options(options(&config.endpoint))
        .with_bucket_name(&config.bucket);
    if !config.endpoint.is_empty() {
        builder = builder.with_base_url(&config.endpoint);
    }
    match &config.credentials {
        GcsCredentials::OfMachine => builder,
        // Creates ask for a token although nothing is signed.
        GcsCredentials::Anonymous => builder.with_skip_signature(true).with_credentials(Arc::new(
            StaticCredentialProvider::new(GcpCredential { bearer: String::new() }),
        )),
        GcsCredentials::ServiceAccount(key) => builder.with_service_account_key(&key.0),
        GcsCredentials::File(path) => builder.with_application_credentials(path),
    }
}

fn azure(config: &AzureConfig, connector: Connector) -> MicrosoftAzureBuilder {
    let mut builder = MicrosoftAzureBuilder::new()
        .with_http_connector(connector)
        .with_retry(no_retries())
        .with_client_options(options(&config.endpoint))
        .with_account(&config.account)
        .with_container_name(&config.container);
    if !config.endpoint.is_empty() {
        builder = builder.with_endpoint(config.endpoint.clone());
    }
    match &config.credentials {
        AzureCredentials::OfMachine => builder,
        AzureCredentials::Identity(id) => builder.with_client_id(id),
        AzureCredentials::Key(key) => builder.with_access_key(&key.0),
        AzureCredentials::Signature(query) => {
            builder.with_config(AzureConfigKey::SasKey, query.0.trim_start_matches('?'))
        }
        AzureCredentials::Client { tenant_id, id, secret } => {
            builder.with_client_secret_authorization(id, &secret.0, tenant_id)
        }
        AzureCredentials::WorkloadIdentity { tenant_id, id, token_file } => builder
            .with_tenant_id(tenant_id)
            .with_client_id(id)
            .with_federated_token_file(token_file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_signed_where_they_may_change_on_the_way() {
        for (endpoint, is_unsigned) in [
            ("", true),
            ("https://s3.example", true),
            ("http://127.0.0.1:9000", false),
            ("HTTPS://s3.example", false),
        ] {
            assert_eq!(has_unsigned_bodies(endpoint), is_unsigned, "{endpoint}");
        }
    }
}
