//! Refuses settings of the ruler that contradict each other or name files that cannot be used, and
//! names those without an effect.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use logsvc_proto::TenantId;
use logsvc_rules::config::{ClientAuth, HttpConfig, SecretSource};

use super::{RulerLimits, RulerSettings};

/// Stores of the reference that are elsewhere.
const OBJECT_STORES: [&str; 10] =
    ["s3", "gcs", "azure", "swift", "bos", "cos", "alibabacloud", "configdb", "consul", "etcd"];

/// Longer files are neither certificates nor secrets.
pub(crate) const NEEDED_FILE_MAX_BYTES: u32 = 1 << 20;

/// The limits of all tenants, as far as they are about rules.
pub(crate) struct LimitsOfAll<'l> {
    /// Of tenants without limits of their own.
    pub(in crate::config) others: &'l RulerLimits,
    /// Of the rest.
    pub(in crate::config) own: Vec<(&'l TenantId, &'l RulerLimits)>,
}

impl RulerSettings {
    /// Appends a text for each fault.
    pub(in crate::config) fn check(&self, limits: &RulerLimits, errors: &mut Vec<String>) {
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
        self.check_pauses(limits, errors);
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

    /// Appends a text for each receiver of a tenant with these limits whose pauses contradict each
    /// other.
    fn check_pauses(&self, limits: &RulerLimits, errors: &mut Vec<String>) {
        for client in self.remote_write_of(limits).clients {
            let (min, max) = (client.queue.min_backoff, client.queue.max_backoff);
            if min > max {
                errors.push(format!(
                    "remote write to {:?}: min_backoff ({min:?}) must not be more than max_backoff \
                     ({max:?})",
                    client.id
                ));
            }
        }
    }

    /// What is wrong with the limits of single tenants over these settings: one text for each
    /// fault, in the order of the tenants' names.
    pub(crate) fn tenant_faults(&self, limits: &LimitsOfAll<'_>) -> Vec<String> {
        let mut faults = Vec::new();
        for &(tenant, own) in &limits.own {
            let mut errors = Vec::new();
            self.check_pauses(own, &mut errors);
            faults.extend(errors.into_iter().map(|error| of_tenant(tenant, &error)));
        }
        faults.sort();
        faults
    }

    /// Files that requests to Alertmanagers and receivers need for tenants with these limits.
    pub(in crate::config) fn files(&self, limits: &RulerLimits) -> Vec<NeededFile> {
        let own = limits.alertmanager.meaning().as_ref().map(|own| own.0.http.clone());
        let alertmanager = self.alertmanager.config().ok().map(|config| config.http);
        let receivers = self.remote_write_of(limits).clients.into_iter().map(|it| it.http);
        let mut files = Vec::new();
        for http in alertmanager.into_iter().chain(own).chain(receivers) {
            for file in files_of(&http) {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        files
    }

    /// Files that only single tenants need, in the order of the tenants' names.
    pub(crate) fn tenant_files(&self, limits: &LimitsOfAll<'_>) -> Vec<(TenantId, NeededFile)> {
        let of_all = self.files(limits.others);
        let mut files = Vec::new();
        for &(tenant, own) in &limits.own {
            let needed = self.files(own).into_iter();
            let needed = needed.filter(|file| !of_all.contains(file));
            files.extend(needed.map(|file| (tenant.clone(), file)));
        }
        files.sort();
        files
    }

    /// Appends a text for each file that cannot be used. Requests read them again.
    pub(in crate::config) fn check_files(
        &self,
        limits: &LimitsOfAll<'_>,
        errors: &mut Vec<String>,
    ) {
        for file in self.files(limits.others) {
            errors.extend(file.fault(read(&file.path)));
        }
        for (tenant, file) in self.tenant_files(limits) {
            errors.extend(file.tenant_fault(&tenant, read(&file.path)));
        }
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
                "one node evaluates all rules",
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

/// A file that requests need.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NeededFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// What it is.
    name: &'static str,
    /// What a line of it has to have; `None` for secrets.
    pem: Option<&'static str>,
}

impl NeededFile {
    /// What is wrong with the file, by the outcome of reading it. Nothing of the file is in the
    /// text.
    fn fault(&self, text: io::Result<String>) -> Option<String> {
        let fault = match (text, self.pem) {
            (Ok(_), None) => return None,
            (Ok(text), Some(pem)) if text.contains("-----BEGIN ") && text.contains(pem) => {
                return None;
            }
            (Ok(_), Some(_)) => "it has no PEM of this kind".to_owned(),
            (Err(error), _) => error.to_string(),
        };
        Some(format!("error loading {}: {}: {fault}", self.name, self.path.display()))
    }

    /// The same for a file that a tenant needs.
    pub(crate) fn tenant_fault(
        &self,
        tenant: &TenantId,
        text: io::Result<String>,
    ) -> Option<String> {
        self.fault(text).map(|fault| of_tenant(tenant, &fault))
    }
}

fn of_tenant(tenant: &TenantId, fault: &str) -> String {
    format!("invalid override for tenant {}: {fault}", tenant.as_str())
}

fn files_of(http: &HttpConfig) -> Vec<NeededFile> {
    let secret = match &http.auth {
        ClientAuth::Basic { password: SecretSource::File(path), .. } => {
            Some(("password file", path))
        }
        ClientAuth::Credentials { credentials: SecretSource::File(path), .. } => {
            Some(("credentials file", path))
        }
        _ => None,
    };
    let tls = [
        (&http.tls.ca_file, "ca cert", "CERTIFICATE-----"),
        (&http.tls.cert_file, "client cert", "CERTIFICATE-----"),
        (&http.tls.key_file, "client key", "PRIVATE KEY-----"),
    ];
    let tls = tls.into_iter().filter_map(|(path, name, pem)| {
        path.as_ref().map(|path| NeededFile { path: path.clone(), name, pem: Some(pem) })
    });
    let secret = secret.map(|(name, path)| NeededFile { path: path.clone(), name, pem: None });
    tls.chain(secret).collect()
}

fn read(path: &Path) -> io::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "at the start, before any core")]
    let file = std::fs::File::open(path)?;
    let mut text = String::new();
    file.take(NEEDED_FILE_MAX_BYTES.into()).read_to_string(&mut text)?;
    Ok(text)
}
