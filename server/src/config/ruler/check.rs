//! Refuses settings of the ruler that contradict each other, and names those without an effect.

use std::io::{self, Read};
use std::path::Path;

use logsvc_rules::config::ClientTls;

use super::{RulerLimits, RulerSettings};

/// Stores of the reference that are elsewhere.
const OBJECT_STORES: [&str; 10] =
    ["s3", "gcs", "azure", "swift", "bos", "cos", "alibabacloud", "configdb", "consul", "etcd"];

/// Longer files are no certificates.
const PEM_MAX_BYTES: u64 = 1 << 20;

impl RulerSettings {
    /// Appends a text for each fault.
    pub(in crate::config) fn check(&self, errors: &mut Vec<String>) {
        if !matches!(self.evaluation_mode.as_str(), "" | "local" | "remote") {
            errors.push(format!(
                "invalid ruler evaluation config: invalid evaluation mode: {}. Acceptable modes \
                 are: local, remote",
                self.evaluation_mode
            ));
        }
        for (time, key) in [
            (self.evaluation.evaluation_interval, "evaluation_interval"),
            (self.evaluation.poll_interval, "poll_interval"),
            (self.evaluation.resend_delay, "resend_delay"),
        ] {
            if time.is_zero() {
                errors.push(format!("ruler.{key}: must be more than 0"));
            }
        }
        let storage = &self.storage;
        for (kind, key) in
            [(&storage.backend, "ruler_storage.backend"), (&storage.old_type, "ruler.storage.type")]
        {
            let is_here = matches!(kind.as_str(), "" | "local" | "filesystem");
            if !is_here && !OBJECT_STORES.contains(&kind.as_str()) {
                errors.push(format!("{key}: {kind:?} is neither local nor filesystem"));
            }
        }
        let is_url = |byte: u8| byte > b' ' && byte != 0x7f;
        if !self.evaluation.external_url.bytes().all(is_url) {
            errors.push("ruler.external_url: has blanks or control characters".to_owned());
        }
        if let Err(error) = self.alertmanager.config() {
            errors.push(format!("ruler.{error}"));
        }
        self.check_remote_write(errors);
    }

    fn check_remote_write(&self, errors: &mut Vec<String>) {
        let remote = &self.remote_write;
        let (only, clients) = (remote.client.meaning(), remote.clients.meaning());
        if only.is_some() && !clients.is_empty() {
            errors.push(
                "ruler remote write config: both 'client' and 'clients' options are defined; \
                 'client' is deprecated, please only use 'clients'"
                    .to_owned(),
            );
        }
        // Receivers that could not be read are no receivers that are missing.
        let is_unread = |error: &String| {
            error.starts_with("ruler.remote_write.") || error.starts_with("--ruler.remote-write.")
        };
        if !remote.enabled || errors.iter().any(is_unread) {
            return;
        }
        if clients.is_empty() && only.as_ref().is_none_or(|client| client.url.is_none()) {
            errors.push("remote-write enabled but no clients URL are configured".to_owned());
        }
        for (id, client) in clients.iter().filter(|(_, client)| client.url.is_none()) {
            let name = client.name.as_deref().unwrap_or_default();
            errors.push(format!(
                "remote-write enabled but client '{name}' URL for tenant {id} is not configured"
            ));
        }
    }

    /// Appends a text for each file of TLS that cannot be used, of the node or of a tenant with one
    /// of these limits. Requests read them again.
    pub(in crate::config) fn check_files<'a>(
        &self,
        of_tenants: impl Iterator<Item = &'a RulerLimits>,
        errors: &mut Vec<String>,
    ) {
        let mut used: Vec<ClientTls> =
            self.alertmanager.config().into_iter().map(|config| config.http.tls).collect();
        for limits in of_tenants {
            let alertmanager = limits.alertmanager.meaning().iter().map(|own| &own.0.http);
            let receivers = self.remote_write_of(limits).clients;
            for http in alertmanager.chain(receivers.iter().map(|client| &client.http)) {
                // Tenants mostly share the files of the node.
                if !used.contains(&http.tls) {
                    used.push(http.tls.clone());
                }
            }
        }
        used.iter().for_each(|tls| check_tls(tls, errors));
    }

    /// Names settings that do nothing as they are set, with the reasons.
    pub(in crate::config) fn without_effect(&self) -> Vec<(&'static str, &'static str)> {
        let storage = &self.storage;
        let here = "rule groups are kept in files of this node";
        let no_folder = "there is no folder for it, so rule groups are in the data folder";
        let is_lost = |kind: &str| kind == "local" && storage.folder().is_none();
        let found = [
            (OBJECT_STORES.contains(&storage.backend.as_str()), "ruler_storage.backend", here),
            (OBJECT_STORES.contains(&storage.old_type.as_str()), "ruler.storage.type", here),
            (is_lost(&storage.backend), "ruler_storage.backend", no_folder),
            (is_lost(&storage.old_type), "ruler.storage.type", no_folder),
            (
                self.evaluation_mode == "remote",
                "ruler.evaluation.mode",
                "there is one node, whose cores evaluate all rules",
            ),
            (
                !self.alertmanager.wants_v2,
                "ruler.enable_alertmanager_v2",
                "alerts are sent by version 2 of the API; Alertmanager has no other",
            ),
        ];
        found.into_iter().filter(|found| found.0).map(|(_, key, reason)| (key, reason)).collect()
    }
}

fn check_tls(tls: &ClientTls, errors: &mut Vec<String>) {
    for (file, name, begins) in [
        (&tls.ca_file, "ca cert", "CERTIFICATE-----"),
        (&tls.cert_file, "client cert", "CERTIFICATE-----"),
        (&tls.key_file, "client key", "PRIVATE KEY-----"),
    ] {
        let Some(file) = file else { continue };
        let fault = match read(file) {
            Ok(text) if text.contains("-----BEGIN ") && text.contains(begins) => continue,
            Ok(_) => "it has no PEM of this kind".to_owned(),
            Err(error) => error.to_string(),
        };
        let text = format!("error loading {name}: {}: {fault}", file.display());
        if !errors.contains(&text) {
            errors.push(text);
        }
    }
}

fn read(path: &Path) -> io::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "at the start, before any core")]
    let file = std::fs::File::open(path)?;
    let mut text = String::new();
    file.take(PEM_MAX_BYTES).read_to_string(&mut text)?;
    Ok(text)
}
