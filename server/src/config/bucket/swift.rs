//! Loki's sections about Swift.

use logsvc_store::cloud::Secret;
use serde_json::Value;

use super::shown::{says_something, without_secrets};
use crate::config::ruler::Meaning;
use crate::config::ruler::sections::{each, text, truth};

/// A section about Swift.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SwiftKeys {
    /// Whether anything is set.
    pub(super) is_written: bool,
    /// Keys without an effect, and why.
    pub(super) unused: Vec<(&'static str, &'static str)>,
    version: u8,
    auth_url: String,
    is_internal: bool,
    region: String,
    container: String,
    user: Named,
    password: Secret,
    /// Of the user.
    user_domain: Named,
    /// Of the user and the project, where they have none of their own.
    domain: Named,
    project: Named,
    project_domain: Named,
    application: Named,
    application_secret: Secret,
}

/// What Keystone knows by an id or by a name.
#[derive(Clone, Debug, Default, PartialEq)]
struct Named {
    id: String,
    name: String,
}

const KEYS: [&str; 23] = [
    "auth_version",
    "auth_url",
    "internal",
    "username",
    "user_domain_name",
    "user_domain_id",
    "user_id",
    "password",
    "domain_id",
    "domain_name",
    "project_id",
    "project_name",
    "project_domain_id",
    "project_domain_name",
    "region_name",
    "container_name",
    "application_credential_id",
    "application_credential_name",
    "application_credential_secret",
    // What changes nothing here.
    "max_retries",
    "connect_timeout",
    "request_timeout",
    "http",
];

fn reason(key: &str) -> Option<(&'static str, &'static str)> {
    Some(match key {
        "max_retries" => ("max_retries", "requests are repeated until a deadline"),
        "connect_timeout" => ("connect_timeout", "requests have timeouts of their own"),
        "request_timeout" => ("request_timeout", "requests have timeouts of their own"),
        "http" => ("http", "requests have timeouts and connections of their own"),
        _ => return None,
    })
}

impl Meaning for SwiftKeys {
    const EMPTY: &'static str = "{}";
    const NOTATION: &'static str = "section";

    fn of(json: &Value) -> Result<SwiftKeys, String> {
        let mut keys = SwiftKeys { is_written: says_something(json), ..SwiftKeys::default() };
        each(json, &KEYS, |key, value| {
            match key {
                "auth_version" => keys.version = version(value)?,
                "auth_url" => keys.auth_url = text(value)?,
                "internal" => keys.is_internal = truth(value)?,
                "username" => keys.user.name = text(value)?,
                "user_id" => keys.user.id = text(value)?,
                "user_domain_name" => keys.user_domain.name = text(value)?,
                "user_domain_id" => keys.user_domain.id = text(value)?,
                "password" => keys.password = Secret(text(value)?),
                "domain_name" => keys.domain.name = text(value)?,
                "domain_id" => keys.domain.id = text(value)?,
                "project_name" => keys.project.name = text(value)?,
                "project_id" => keys.project.id = text(value)?,
                "project_domain_name" => keys.project_domain.name = text(value)?,
                "project_domain_id" => keys.project_domain.id = text(value)?,
                "region_name" => keys.region = text(value)?,
                "container_name" => keys.container = text(value)?,
                "application_credential_id" => keys.application.id = text(value)?,
                "application_credential_name" => keys.application.name = text(value)?,
                "application_credential_secret" => {
                    keys.application_secret = Secret(text(value)?);
                }
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

/// The version of the exchange; 0: the address tells.
fn version(json: &Value) -> Result<u8, String> {
    let number = match json {
        Value::Null => Some(0),
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let number = number.and_then(|number| u8::try_from(number).ok());
    number.filter(|number| *number <= 3).ok_or_else(|| "must be 0, 1, 2 or 3".to_owned())
}

#[cfg(feature = "swift")]
mod client {
    use logsvc_store::swift::{IdOrName, SwiftConfig, SwiftCredentials, SwiftPlace, SwiftUser};

    use super::super::address::is_http;
    use super::{Named, SwiftKeys};

    /// The domain of users and projects that name none.
    const DOMAIN: &str = "Default";

    impl Named {
        fn get(&self) -> Option<IdOrName> {
            match (self.id.as_str(), self.name.as_str()) {
                ("", "") => None,
                ("", name) => Some(IdOrName::Name(name.to_owned())),
                (id, _) => Some(IdOrName::Id(id.to_owned())),
            }
        }
    }

    impl SwiftKeys {
        /// The container.
        ///
        /// # Errors
        /// It lacks something.
        pub(in super::super) fn config(&self, prefix: &str) -> Result<SwiftConfig, String> {
            if self.container.is_empty() {
                return Err("names no container: set container_name".to_owned());
            }
            if !is_http(&self.auth_url) {
                return Err("auth_url: must begin with http:// or https://".to_owned());
            }
            let region = self.region.clone();
            Ok(SwiftConfig {
                container: self.container.clone(),
                prefix: prefix.to_owned(),
                auth_url: self.auth_url.clone(),
                credentials: self.credentials()?,
                place: SwiftPlace { region, is_internal: self.is_internal },
            })
        }

        fn credentials(&self) -> Result<SwiftCredentials, String> {
            // As Loki's library does, in this order.
            let guessed =
                [3, 2, 1].into_iter().find(|it| self.auth_url.contains(&format!("v{it}")));
            let version = match self.version {
                0 => guessed.ok_or("auth_url: does not tell the version: set auth_version")?,
                version => version,
            };
            let default = || IdOrName::Name(DOMAIN.to_owned());
            let domain =
                |own: &Named| own.get().or_else(|| self.domain.get()).unwrap_or_else(default);
            let user = self.user.get();
            if let Some(credential) = self.application.get().filter(|_| version == 3) {
                let user = SwiftUser {
                    user: match (user, &credential) {
                        (None, IdOrName::Name(_)) => {
                            let needs = "application_credential_name: needs username or user_id";
                            return Err(needs.to_owned());
                        }
                        // An id tells the user.
                        (user, _) => user.unwrap_or_else(|| credential.clone()),
                    },
                    domain: domain(&self.user_domain),
                };
                let secret = self.application_secret.clone();
                return Ok(SwiftCredentials::Application { credential, user, secret });
            }
            let user = user.ok_or("names no user: set username")?;
            let password = self.password.clone();
            if version == 3 {
                let user = SwiftUser { user, domain: domain(&self.user_domain) };
                let project = self.project.get().map(|it| (it, domain(&self.project_domain)));
                return Ok(SwiftCredentials::V3 { user, password, project });
            }
            let IdOrName::Name(user) = user else {
                return Err("user_id: needs auth_version 3".to_owned());
            };
            Ok(match version {
                2 => SwiftCredentials::V2 { user, password, project: self.project.get() },
                _ => SwiftCredentials::V1 { user, key: password },
            })
        }
    }
}
