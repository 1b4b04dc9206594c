//! Who may use the HTTP interface: the file of accounts, and the pages that may read answers.
//!
//! What can go wrong: an origin that is none, which [`AccessConfig::check`] finds without reading a
//! file; and a file that cannot be read or has a bad line, which [`AccessConfig::load`] finds.

use std::io::{self, Read};

use crate::users::{FILE_MAX_BYTES, Users};

/// See the module.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AccessConfig {
    /// File with the accounts; nobody is asked if empty.
    pub(crate) users_file: String,
    /// Origins of web pages that may read answers; `*` is any.
    pub(crate) cors_allowed_origins: Vec<String>,
}

impl AccessConfig {
    /// Whether clients must say who they are.
    pub(crate) fn asks_who(&self) -> bool {
        !self.users_file.is_empty()
    }

    /// Appends a text for each fault that can be seen without the file.
    pub(super) fn check(&self, errors: &mut Vec<String>) {
        let faults = self.cors_allowed_origins.iter().filter_map(|origin| fault_of(origin));
        errors.extend(faults.map(|fault| format!("server.cors_allowed_origins: {fault}")));
    }

    /// Reads the accounts; `None` if nobody is asked. `has_tenants` says whether requests name
    /// tenants.
    ///
    /// # Errors
    /// See the module.
    pub(crate) fn load(&self, has_tenants: bool) -> Result<Option<Users>, String> {
        if !self.asks_who() {
            return Ok(None);
        }
        let path = &self.users_file;
        let failed = |fault: &str| format!("server.users_file: {path}: {fault}");
        let text = read(path).map_err(|error| failed(&error.to_string()))?;
        let text = String::from_utf8(text).map_err(|_| failed("it is not UTF-8"))?;
        let users = Users::parse(&text).map_err(|fault| failed(&fault))?;
        if users.name_tenants() && !has_tenants {
            return Err(failed("accounts name tenants, which needs auth_enabled"));
        }
        tracing::info!(accounts = users.len(), "clients must say who they are");
        Ok(Some(users))
    }
}

fn read(path: &str) -> io::Result<Vec<u8>> {
    #[expect(clippy::disallowed_methods, reason = "at the start, or on a side thread")]
    let file = std::fs::File::open(path)?;
    let mut bytes = Vec::new();
    file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MAX_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// What is wrong with an origin of the setting.
fn fault_of(origin: &str) -> Option<String> {
    let is_good = origin == "*"
        || origin.split_once("://").is_some_and(|(scheme, host)| {
            let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
            let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
            !scheme.is_empty()
                && scheme.bytes().all(is_scheme)
                && !host.is_empty()
                && host.bytes().all(is_host)
        });
    (!is_good).then(|| {
        format!("{origin:?} is no origin: scheme://host or scheme://host:port without a path, or *")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_have_neither_paths_nor_blanks() {
        for good in ["*", "https://a.example", "http://[::1]:3000", "app://desk-top"] {
            assert_eq!(fault_of(good), None, "{good}");
        }
        for bad in ["", "null", "a.example", "https://", "https://a/", "https://a b", "://a", "**"]
        {
            assert!(fault_of(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_named() {
        let mut config = AccessConfig::default();
        assert!(config.load(true).expect("nobody is asked").is_none());
        config.users_file = "/nowhere/users".into();
        let error = config.load(true).expect_err("there is none");
        assert!(error.starts_with("server.users_file: /nowhere/users: No such file"), "{error}");
    }
}
