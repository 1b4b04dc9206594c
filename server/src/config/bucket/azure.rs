//! Loki's sections about Azure Blob Storage.

use std::collections::BTreeMap;

use logsvc_store::cloud::{AzureConfig, AzureCredentials, Secret};
use serde_json::Value;

use super::environment::Environment;
use super::shown::{says_something, without_secrets};
use crate::config::ruler::Meaning;
use crate::config::ruler::sections::{each, text, truth};

/// A section about Azure.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AzureKeys {
    /// Whether anything is set.
    pub(super) is_written: bool,
    /// Keys without an effect, and why.
    pub(super) unused: Vec<(&'static str, &'static str)>,
    /// Of the clouds with hosts of their own.
    host_end: &'static str,
    account: String,
    container: String,
    account_key: Secret,
    connection: Option<Connection>,
    endpoint_suffix: String,
    user_assigned_id: String,
    uses_identity: bool,
    uses_token: bool,
    uses_principal: bool,
    client_id: String,
    client_secret: Secret,
    tenant_id: String,
}

const KEYS: [&str; 23] = [
    "environment",
    "account_name",
    "account_key",
    "connection_string",
    "container_name",
    "endpoint_suffix",
    "use_managed_identity",
    "use_federated_token",
    "user_assigned_id",
    "use_service_principal",
    "client_id",
    "client_secret",
    "tenant_id",
    // What changes nothing here.
    "active_directory_endpoint",
    "chunk_delimiter",
    "download_buffer_size",
    "upload_buffer_size",
    "upload_buffer_count",
    "request_timeout",
    "max_retries",
    "min_retry_delay",
    "max_retry_delay",
    "http",
];

fn reason(key: &str) -> Option<(&'static str, &'static str)> {
    Some(match key {
        "active_directory_endpoint" => {
            ("active_directory_endpoint", "tokens come from Azure's usual address")
        }
        "request_timeout" => ("request_timeout", "requests have timeouts of their own"),
        "http" => ("http", "requests have timeouts and connections of their own"),
        "max_retries" => ("max_retries", "requests are repeated until a deadline"),
        "min_retry_delay" => ("min_retry_delay", "requests are repeated until a deadline"),
        "max_retry_delay" => ("max_retry_delay", "requests are repeated until a deadline"),
        _ => return None,
    })
}

/// The container, if nobody says one.
const CONTAINER: &str = "loki";

impl Meaning for AzureKeys {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<AzureKeys, String> {
        let mut keys = AzureKeys { is_written: says_something(json), ..AzureKeys::default() };
        each(json, &KEYS, |key, value| {
            match key {
                "environment" => keys.host_end = host_end(&text(value)?)?,
                "account_name" => keys.account = text(value)?,
                "account_key" => keys.account_key = Secret(text(value)?),
                "connection_string" => keys.connection = Connection::of(&text(value)?)?,
                "container_name" => keys.container = text(value)?,
                "endpoint_suffix" => keys.endpoint_suffix = text(value)?,
                "use_managed_identity" => keys.uses_identity = truth(value)?,
                "use_federated_token" => keys.uses_token = truth(value)?,
                "user_assigned_id" => keys.user_assigned_id = text(value)?,
                "use_service_principal" => keys.uses_principal = truth(value)?,
                "client_id" => keys.client_id = text(value)?,
                "client_secret" => keys.client_secret = Secret(text(value)?),
                "tenant_id" => keys.tenant_id = text(value)?,
                key => keys.unused.extend(reason(key).filter(|_| says_something(value))),
            }
            Ok(())
        })?;
        Ok(keys)
    }

    fn shown(json: &Value) -> Value {
        without_secrets(json)
    }
}

/// What comes behind the account in the hosts of a cloud; empty for the usual one.
fn host_end(environment: &str) -> Result<&'static str, String> {
    Ok(match environment {
        "" | "AzureGlobal" => "",
        "AzureChinaCloud" => "blob.core.chinacloudapi.cn",
        "AzureGermanCloud" => "blob.core.cloudapi.de",
        "AzureUSGovernment" => "blob.core.usgovcloudapi.net",
        _ => {
            let known = "must be AzureGlobal, AzureChinaCloud, AzureGermanCloud or \
                         AzureUSGovernment";
            return Err(known.to_owned());
        }
    })
}

impl AzureKeys {
    /// The container.
    ///
    /// # Errors
    /// It lacks something.
    pub(super) fn config(
        &self,
        prefix: &str,
        environment: &Environment<'_>,
    ) -> Result<AzureConfig, String> {
        let container = if self.container.is_empty() { CONTAINER } else { &self.container };
        let (container, prefix) = (container.to_owned(), prefix.to_owned());
        if let Some(connection) = &self.connection {
            let Connection { account, endpoint, credentials } = connection.clone();
            return Ok(AzureConfig { account, container, prefix, endpoint, credentials });
        }
        let mut account = self.account.clone();
        if account.is_empty() {
            account = environment.azure_account();
        }
        if account.is_empty() {
            return Err("names no account: set account_name".to_owned());
        }
        let suffix = match self.endpoint_suffix.trim_start_matches('.') {
            "" => self.host_end,
            suffix => suffix,
        };
        let endpoint =
            if suffix.is_empty() { String::new() } else { format!("https://{account}.{suffix}") };
        let credentials = self.credentials(&account, environment)?;
        Ok(AzureConfig { account, container, prefix, endpoint, credentials })
    }

    fn credentials(
        &self,
        account: &str,
        environment: &Environment<'_>,
    ) -> Result<AzureCredentials, String> {
        if self.uses_identity || !self.user_assigned_id.is_empty() {
            return Ok(match self.user_assigned_id.as_str() {
                "" => AzureCredentials::OfMachine,
                id => AzureCredentials::Identity(id.to_owned()),
            });
        }
        if self.uses_token {
            return environment.azure_workload().ok_or_else(|| {
                "use_federated_token: needs AZURE_CLIENT_ID, AZURE_TENANT_ID and \
                 AZURE_FEDERATED_TOKEN_FILE in the environment"
                    .to_owned()
            });
        }
        if self.uses_principal {
            let (tenant_id, id) = (self.tenant_id.clone(), self.client_id.clone());
            let secret = self.client_secret.clone();
            if tenant_id.is_empty() || id.is_empty() || secret.0.is_empty() {
                let needs = "use_service_principal: needs client_id, client_secret and tenant_id";
                return Err(needs.to_owned());
            }
            return Ok(AzureCredentials::Client { tenant_id, id, secret });
        }
        if self.account_key.0.is_empty() {
            return Ok(environment.azure_credentials(account));
        }
        Ok(AzureCredentials::Key(self.account_key.clone()))
    }
}

/// What a connection string says.
#[derive(Clone, Debug, PartialEq)]
struct Connection {
    account: String,
    /// Empty: Azure's.
    endpoint: String,
    credentials: AzureCredentials,
}

/// The account of the emulator Azurite, its key, which is public, and its address.
const EMULATOR: [&str; 3] = [
    "devstoreaccount1",
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
    "http://127.0.0.1:10000/devstoreaccount1",
];

impl Connection {
    /// Reads a connection string; an empty one is none.
    fn of(string: &str) -> Result<Option<Connection>, String> {
        if string.is_empty() {
            return Ok(None);
        }
        let malformed = || {
            "connection string is either blank or malformed: it should have pairs of key and value \
             with semicolons between them, such as AccountName=a;AccountKey=k;\
             EndpointSuffix=core.windows.net"
                .to_owned()
        };
        let mut pairs = BTreeMap::new();
        for pair in string.split(';').map(str::trim).filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').ok_or_else(malformed)?;
            pairs.insert(key, value);
        }
        let get = |key: &str| pairs.get(key).copied().filter(|value| !value.is_empty());
        if get("UseDevelopmentStorage") == Some("true") {
            let [account, key, endpoint] = EMULATOR.map(str::to_owned);
            let credentials = AzureCredentials::Key(Secret(key));
            return Ok(Some(Connection { account, endpoint, credentials }));
        }
        let scheme = get("DefaultEndpointsProtocol").unwrap_or("https");
        let endpoint = match (get("BlobEndpoint"), get("AccountName"), get("EndpointSuffix")) {
            (Some(endpoint), _, _) => endpoint.trim_end_matches('/').to_owned(),
            (None, Some(account), Some(suffix)) => format!("{scheme}://{account}.blob.{suffix}"),
            (None, _, _) => String::new(),
        };
        let account = match get("AccountName") {
            Some(account) => account.to_owned(),
            None => account_of(&endpoint).ok_or_else(malformed)?,
        };
        let credentials = match (get("AccountKey"), get("SharedAccessSignature")) {
            (Some(key), _) => AzureCredentials::Key(Secret(key.to_owned())),
            (None, Some(query)) => AzureCredentials::Signature(Secret(query.to_owned())),
            (None, None) => return Err(malformed()),
        };
        Ok(Some(Connection { account, endpoint, credentials }))
    }
}

/// The account that the host of an address begins with.
fn account_of(endpoint: &str) -> Option<String> {
    let (_, host) = endpoint.split_once("://")?;
    let (account, _) = host.split_once(".blob.")?;
    Some(account.to_owned()).filter(|account| !account.is_empty())
}

/// A connection string without its secrets.
pub(super) fn hidden(string: &str) -> String {
    let pairs = string.split(';').map(|pair| match pair.split_once('=') {
        Some((key, _)) if matches!(key.trim(), "AccountKey" | "SharedAccessSignature") => {
            format!("{key}=xxxxx")
        }
        Some(_) => pair.to_owned(),
        // It is malformed, so it may be anything.
        None => "xxxxx".to_owned(),
    });
    pairs.collect::<Vec<_>>().join(";")
}
