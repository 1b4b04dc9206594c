//! What the ruler needs: the settings of the node, with those of a tenant over them.
//!
//! The settings have been checked ([`super::check`]), so there are no errors here.

use logsvc_rules::config::{
    AlertmanagerConfig, ClientAuth, EvaluationConfig, RemoteClientConfig, RemoteWriteConfig,
    RuleStorage,
};

use super::urls::without_user;
use super::{
    ClientChange, Headers, RemoteWriteLimits, RulerLimits, RulerSettings, StorageSettings,
};

/// The id of the receiver in the old form.
const ONLY_CLIENT: &str = "default";

impl RulerSettings {
    /// How groups are evaluated.
    pub(crate) fn evaluation_config(&self) -> EvaluationConfig {
        let external_labels = self.external_labels.meaning().clone();
        EvaluationConfig { external_labels, ..self.evaluation.clone() }
    }

    /// Where rule groups are.
    pub(crate) fn rule_storage(&self) -> RuleStorage {
        match self.storage.folder() {
            Some(folder) => RuleStorage::Local { folder: folder.into() },
            None => RuleStorage::DataFolder,
        }
    }

    /// Whether the rules of a tenant are evaluated.
    pub(crate) fn evaluates(&self, tenant: &str) -> bool {
        let has = |tenants: &[String]| tenants.iter().any(|named| named == tenant);
        let enabled = self.enabled_tenants.is_empty() || has(&self.enabled_tenants);
        enabled && !has(&self.disabled_tenants)
    }

    /// Where the alerts of a tenant with these limits go: the tenant's settings replace those of
    /// the node as a whole.
    pub(crate) fn alertmanager_of(&self, limits: &RulerLimits) -> AlertmanagerConfig {
        match limits.alertmanager.meaning() {
            Some(own) => own.0.clone(),
            // The check has refused settings without a configuration.
            None => self.alertmanager.config().unwrap_or_else(|error| {
                tracing::error!(error, "alerts are not sent");
                AlertmanagerConfig::default()
            }),
        }
    }

    /// Where the samples of a tenant with these limits go: single keys of the tenant replace those
    /// of each receiver, then those for the receiver's id replace more of them. A receiver that
    /// only the tenant has needs an address.
    pub(crate) fn remote_write_of(&self, limits: &RulerLimits) -> RemoteWriteConfig {
        let limits = &limits.remote_write;
        let own = limits.clients.meaning().as_ref();
        let mut clients = self.clients();
        for client in &mut clients {
            limits.apply(client);
            if let Some(change) = own.and_then(|own| own.get(&client.id)) {
                change.apply(client);
            }
        }
        for (id, change) in own.into_iter().flatten() {
            if change.url.is_some() && clients.iter().all(|client| client.id != *id) {
                clients.push(client(id, change));
            }
        }
        clients.iter_mut().for_each(finish);
        RemoteWriteConfig {
            enabled: self.remote_write.enabled && !limits.disabled,
            add_org_id_header: self.remote_write.add_org_id_header,
            clients,
        }
    }

    /// The receivers of the node, whose addresses may still have users.
    pub(super) fn clients(&self) -> Vec<RemoteClientConfig> {
        let remote = &self.remote_write;
        let only = remote.client.meaning().iter().map(|change| client(ONLY_CLIENT, change));
        let all = remote.clients.meaning().iter().map(|(id, change)| client(id, change));
        only.chain(all).collect()
    }
}

impl StorageSettings {
    /// The folder of rule files, if rules are in files that somebody else writes. The old names
    /// win if they say anything.
    pub(super) fn folder(&self) -> Option<&str> {
        let folder = match (self.old_type.as_str(), self.backend.as_str()) {
            ("local", _) if !self.old_local_directory.is_empty() => &self.old_local_directory,
            ("" | "local", "local") => &self.local_directory,
            _ => return None,
        };
        Some(folder.as_str()).filter(|folder| !folder.is_empty())
    }
}

/// A receiver with the default settings and what was written.
fn client(id: &str, change: &ClientChange) -> RemoteClientConfig {
    let mut client = RemoteClientConfig { id: id.to_owned(), ..RemoteClientConfig::default() };
    change.apply(&mut client);
    client
}

/// Makes the user of the address the user of requests, unless they have another one.
fn finish(client: &mut RemoteClientConfig) {
    let (url, user) = without_user(&client.url);
    client.url = url;
    if let (ClientAuth::None, Some(user)) = (&client.http.auth, user) {
        client.http.auth = user;
    }
}

impl RemoteWriteLimits {
    /// Puts what is set over a receiver.
    fn apply(&self, client: &mut RemoteClientConfig) {
        fn put<T: Default + PartialEq + Clone>(to: &mut T, from: &T) {
            if *from != T::default() {
                *to = from.clone();
            }
        }
        put(&mut client.url, &self.url.0);
        put(&mut client.remote_timeout, &self.timeout);
        if let Some(Headers(headers)) = self.headers.meaning() {
            client.http.headers.clone_from(headers);
        }
        if let Some(rules) = self.relabel_configs.meaning() {
            client.write_relabel_configs.clone_from(rules);
        }
        put(&mut client.queue.max_samples_per_send, &self.max_samples_per_send);
        put(&mut client.queue.batch_send_deadline, &self.batch_send_deadline);
        put(&mut client.queue.min_backoff, &self.min_backoff);
        put(&mut client.queue.max_backoff, &self.max_backoff);
        client.queue.retry_on_http_429 |= self.retry_on_ratelimit;
        if let Some(sigv4) = self.sigv4.meaning() {
            client.http.auth = ClientAuth::SigV4(sigv4.clone());
        }
    }
}
