//! What an operator says about etcd: the keys of `common.ring.kvstore.etcd`.

use std::fmt;
use std::time::Duration;

/// How a node speaks with etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdSettings {
    /// `host:port`, or the same with `http://` or `https://` before it. At least one.
    pub endpoints: Vec<String>,
    /// What the names of all keys begin with.
    pub prefix: String,
    /// Longest attempt to connect. Beyond [`EtcdSettings::request_timeout`] it does nothing.
    pub dial_timeout: Duration,
    /// Whether endpoints that do not say so are spoken to over TLS.
    pub is_secure: bool,
    /// Who the node is to etcd; empty: nobody.
    pub username: String,
    /// The password.
    pub password: String,
    /// A dead member is forgotten three times as long after its last sign of life.
    pub heartbeat_timeout: Duration,
}

impl EtcdSettings {
    /// Longest request, with its connection: one that hangs must not cost the lease.
    #[must_use]
    pub fn request_timeout() -> Duration {
        super::LEASE * 2 / 5
    }

    /// The addresses of the endpoints.
    ///
    /// # Errors
    /// The text of an endpoint that is none.
    pub(crate) fn urls(&self) -> Result<Vec<String>, String> {
        let url = |endpoint: &String| {
            let scheme = if self.is_secure { "https" } else { "http" };
            let url = match endpoint.contains("://") {
                true => endpoint.trim_end_matches('/').to_owned(),
                false => format!("{scheme}://{endpoint}"),
            };
            let parsed = logsvc_http::client::Target::parse(&url);
            parsed.map(|_| url).map_err(|_| endpoint.clone())
        };
        self.endpoints.iter().map(url).collect()
    }

    /// Checks that a node can run with them.
    ///
    /// # Errors
    /// A text that begins with the key.
    pub fn check(&self) -> Result<(), String> {
        if self.endpoints.is_empty() {
            return Err("endpoints: name at least one, such as etcd-1:2379".to_owned());
        }
        self.urls().map_err(|text| format!("endpoints: {text:?} is none such as etcd-1:2379"))?;
        if self.dial_timeout.is_zero() {
            return Err("dial_timeout: must not be zero".to_owned());
        }
        if self.username.is_empty() != self.password.is_empty() {
            return Err("username and password go together".to_owned());
        }
        Ok(())
    }
}

impl fmt::Debug for EtcdSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing of the password.
        f.debug_struct("EtcdSettings")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> EtcdSettings {
        EtcdSettings {
            endpoints: vec!["e1:2379".to_owned(), "https://e2:2379/".to_owned()],
            prefix: "collectors/".to_owned(),
            dial_timeout: Duration::from_secs(10),
            is_secure: false,
            username: String::new(),
            password: String::new(),
            heartbeat_timeout: Duration::from_secs(60),
        }
    }

    #[test]
    fn endpoints_may_say_how_they_are_spoken_to() {
        assert_eq!(settings().urls(), Ok(vec!["http://e1:2379".into(), "https://e2:2379".into()]));
        let secure = EtcdSettings { is_secure: true, ..settings() };
        assert_eq!(secure.urls().expect("they are good")[0], "https://e1:2379");
        assert_eq!(settings().check(), Ok(()));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let none = EtcdSettings { endpoints: Vec::new(), ..settings() };
        assert!(none.check().is_err_and(|text| text.starts_with("endpoints: name")));
        let bad = EtcdSettings { endpoints: vec!["a b".to_owned()], ..settings() };
        assert!(bad.check().is_err_and(|text| text.starts_with("endpoints: \"a b\"")));
        let zero = EtcdSettings { dial_timeout: Duration::ZERO, ..settings() };
        assert!(zero.check().is_err_and(|text| text.starts_with("dial_timeout")));
        let half = EtcdSettings { username: "u".to_owned(), ..settings() };
        assert!(half.check().is_err_and(|text| text.starts_with("username")));
        let whole = EtcdSettings { password: "secret".to_owned(), ..half };
        assert_eq!(whole.check(), Ok(()));
        assert!(!format!("{whole:?}").contains("secret"));
    }
}
