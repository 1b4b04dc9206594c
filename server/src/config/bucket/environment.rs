//! What the environment of the process says about buckets: credentials, regions, endpoints.
//!
//! The variables and the file are those of the providers' own programs. Settings win over them.
//! Where neither says who asks, the machine does (its metadata service).

use std::io;
use std::path::{Path, PathBuf};

use logsvc_store::cloud::{
    AzureCredentials, ContainerAddress, GcsCredentials, S3Credentials, Secret,
};

use super::address::is_http;

/// The environment of the process. Tests have one of their own.
pub(crate) struct Environment<'e> {
    /// The value of a variable.
    pub(crate) variable: &'e dyn Fn(&str) -> Option<String>,
    /// The text of a file.
    pub(crate) file: &'e dyn Fn(&Path) -> io::Result<String>,
    /// The time, in seconds since 1970.
    pub(crate) now_s: i64,
}

#[cfg(test)]
impl Environment<'static> {
    /// An environment without anything, in November 2023.
    pub(crate) fn empty() -> Environment<'static> {
        Environment {
            variable: &|_| None,
            file: &|_| Err(io::ErrorKind::NotFound.into()),
            now_s: 1_700_000_000,
        }
    }
}

impl Environment<'_> {
    /// The value of a variable that is not empty.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        (self.variable)(name).filter(|value| !value.is_empty())
    }

    fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
    }

    /// The region of S3; empty if nothing names one.
    pub(super) fn s3_region(&self) -> Result<String, String> {
        let named = self.get("AWS_REGION").or_else(|| self.get("AWS_DEFAULT_REGION"));
        match named {
            Some(region) => Ok(region),
            None => Ok(self.profile()?.map(|profile| profile.region).unwrap_or_default()),
        }
    }

    /// The address of S3; empty if nothing names one.
    pub(super) fn s3_endpoint(&self) -> String {
        let named = self.get("AWS_ENDPOINT_URL_S3").or_else(|| self.get("AWS_ENDPOINT_URL"));
        named.unwrap_or_default()
    }

    /// Who asks S3: a key, a token of a web identity, a profile, the container, or the machine.
    ///
    /// # Errors
    /// A profile is named and cannot be read, or the address of the container's credentials cannot
    /// be used.
    pub(super) fn s3_credentials(&self, sts_endpoint: &str) -> Result<S3Credentials, String> {
        let key = self.get("AWS_ACCESS_KEY_ID").zip(self.get("AWS_SECRET_ACCESS_KEY"));
        if let Some((id, secret)) = key {
            let session_token = Secret(self.text("AWS_SESSION_TOKEN"));
            return Ok(S3Credentials::Key { id, secret: Secret(secret), session_token });
        }
        let identity = self.get("AWS_WEB_IDENTITY_TOKEN_FILE").zip(self.get("AWS_ROLE_ARN"));
        if let Some((token_file, role_arn)) = identity {
            let sts_endpoint = match sts_endpoint {
                "" => self.text("AWS_ENDPOINT_URL_STS"),
                named => named.to_owned(),
            };
            return Ok(S3Credentials::WebIdentity { token_file, role_arn, sts_endpoint });
        }
        if let Some(credentials) = self.profile()?.and_then(|profile| profile.credentials) {
            return Ok(credentials);
        }
        let container = self.container()?;
        Ok(container.map_or(S3Credentials::OfMachine, S3Credentials::OfContainer))
    }

    /// Where the container has credentials of Amazon, if it says so.
    fn container(&self) -> Result<Option<ContainerAddress>, String> {
        if let Some(path) = self.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
            if !path.starts_with('/') || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
                return Err("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI: is not a path".to_owned());
            }
            return Ok(Some(ContainerAddress::Path(path)));
        }
        let whole = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        let Some(url) = self.get(whole) else { return Ok(None) };
        if !is_http(&url) {
            return Err(format!("{whole}: must begin with http:// or https://"));
        }
        // There is no way to send a token that is in the environment, or none.
        let token_file = self
            .get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
            .ok_or_else(|| format!("{whole}: needs AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"))?;
        Ok(Some(ContainerAddress::Whole { url, token_file }))
    }

    /// The profile in the file of shared credentials, if it is there.
    fn profile(&self) -> Result<Option<Profile>, String> {
        let named_file = self.get("AWS_SHARED_CREDENTIALS_FILE").map(PathBuf::from);
        let named = self.get("AWS_PROFILE");
        let is_meant = named_file.is_some() || named.is_some();
        let home = self.get("HOME").map(|home| Path::new(&home).join(".aws/credentials"));
        let Some(path) = named_file.or(home) else { return Ok(None) };
        let text = match (self.file)(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_meant => return Ok(None),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display())),
        };
        let name = named.unwrap_or_else(|| "default".to_owned());
        match Profile::of(&text, &name) {
            None if is_meant => Err(format!("{} has no profile {name:?}", path.display())),
            found => Ok(found),
        }
    }

    /// Who asks Google: a file of credentials, or the machine.
    pub(super) fn gcs_credentials(&self) -> GcsCredentials {
        match self.get("GOOGLE_APPLICATION_CREDENTIALS") {
            Some(path) => GcsCredentials::File(path),
            None => GcsCredentials::OfMachine,
        }
    }

    /// The account of Azure; empty if nothing names one.
    pub(super) fn azure_account(&self) -> String {
        self.text("AZURE_STORAGE_ACCOUNT")
    }

    /// Who asks Azure for an account: its key, a client with a secret or a token, or the machine.
    pub(super) fn azure_credentials(&self, account: &str) -> AzureCredentials {
        let of_account = self.get("AZURE_STORAGE_ACCOUNT").is_none_or(|named| named == account);
        if let Some(key) = self.get("AZURE_STORAGE_KEY").filter(|_| of_account) {
            return AzureCredentials::Key(Secret(key));
        }
        let client = self.get("AZURE_TENANT_ID").zip(self.get("AZURE_CLIENT_ID"));
        if let Some(((tenant_id, id), secret)) = client.zip(self.get("AZURE_CLIENT_SECRET")) {
            return AzureCredentials::Client { tenant_id, id, secret: Secret(secret) };
        }
        match (self.azure_workload(), self.get("AZURE_CLIENT_ID")) {
            (Some(workload), _) => workload,
            (None, Some(id)) => AzureCredentials::Identity(id),
            (None, None) => AzureCredentials::OfMachine,
        }
    }

    /// The client of Azure that a token in a file proves.
    pub(super) fn azure_workload(&self) -> Option<AzureCredentials> {
        Some(AzureCredentials::WorkloadIdentity {
            tenant_id: self.get("AZURE_TENANT_ID")?,
            id: self.get("AZURE_CLIENT_ID")?,
            token_file: self.get("AZURE_FEDERATED_TOKEN_FILE")?,
        })
    }
}

/// Now, in seconds since 1970.
pub(crate) fn now_s() -> i64 {
    #[expect(clippy::disallowed_methods, reason = "at the start, before there is any core")]
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock before 1970 is before all days.
    now.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// A section of the file of shared credentials.
struct Profile {
    credentials: Option<S3Credentials>,
    region: String,
}

impl Profile {
    /// The section of a name.
    fn of(text: &str, name: &str) -> Option<Profile> {
        let (mut is_here, mut is_found) = (false, false);
        let (mut id, mut secret, mut session_token, mut region) = Default::default();
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
            if let Some(title) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                let title = title.trim();
                is_here = title.strip_prefix("profile ").unwrap_or(title).trim() == name;
                is_found |= is_here;
            } else if let Some((key, value)) = line.split_once('=').filter(|_| is_here) {
                let value = value.trim().to_owned();
                match key.trim() {
                    "aws_access_key_id" => id = value,
                    "aws_secret_access_key" => secret = value,
                    "aws_session_token" => session_token = value,
                    "region" => region = value,
                    _ => {}
                }
            }
        }
        let has_key = !String::is_empty(&id) && !String::is_empty(&secret);
        let credentials = has_key.then_some(S3Credentials::Key {
            id,
            secret: Secret(secret),
            session_token: Secret(session_token),
        });
        is_found.then_some(Profile { credentials, region })
    }
}
