//! Settings of a container of Swift.

use crate::cloud::Secret;

/// A container of Swift, or of a store that speaks like it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwiftConfig {
    /// The container.
    pub container: String,
    /// What all names of objects begin with; empty, or parts with `/` between them.
    pub prefix: String,
    /// Where tokens come from, with its scheme.
    pub auth_url: String,
    /// Who asks, and how.
    pub credentials: SwiftCredentials,
    /// Which entry of the catalogue of services counts.
    pub place: SwiftPlace,
}

/// Which entry of a catalogue counts.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SwiftPlace {
    /// The region; empty: the first one.
    pub region: String,
    /// Whether the address within the provider's network counts, and not the public one.
    pub is_internal: bool,
}

/// Who asks Swift, by the version of the exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwiftCredentials {
    /// Swift's own (`X-Auth-User`, `X-Auth-Key`).
    V1 {
        /// The user, often with an account before it: `account:user`.
        user: String,
        /// The key.
        key: Secret,
    },
    /// Keystone's second version.
    V2 {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
        /// The project; `None`: the user's own.
        project: Option<IdOrName>,
    },
    /// Keystone's third version, with a password.
    V3 {
        /// The user.
        user: SwiftUser,
        /// The password.
        password: Secret,
        /// The project, with the domain of a name; `None`: the user's own.
        project: Option<(IdOrName, IdOrName)>,
    },
    /// Keystone's third version, with a credential of an application, which knows its project.
    Application {
        /// The credential; a name needs its user.
        credential: IdOrName,
        /// The user.
        user: SwiftUser,
        /// The secret.
        secret: Secret,
    },
}

/// A user of Keystone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwiftUser {
    /// The user.
    pub user: IdOrName,
    /// The domain of a name.
    pub domain: IdOrName,
}

/// What Keystone knows by an id and by a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdOrName {
    /// The id.
    Id(String),
    /// The name.
    Name(String),
}

impl SwiftConfig {
    /// What all names of objects begin with: empty, or with a `/` at its end.
    pub(super) fn whole_prefix(&self) -> String {
        match self.prefix.trim_matches('/') {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        }
    }

    /// What the bucket is called in messages.
    pub(super) fn address(&self) -> String {
        let address = format!("swift://{}/{}", self.container, self.whole_prefix());
        address.trim_end_matches('/').to_owned()
    }
}
