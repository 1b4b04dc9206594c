//! Outcomes of reading the files with the limits of tenants again.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use super::Exposition;

/// Outcomes since the start.
#[derive(Debug)]
pub(crate) struct Reloads {
    is_good: AtomicBool,
    changes: AtomicU64,
    failures: AtomicU64,
    asked_good: AtomicBool,
    asked: AtomicU64,
    /// When limits were last changed, in ns since the Unix epoch; 0: never.
    changed_ns: AtomicI64,
}

impl Default for Reloads {
    fn default() -> Reloads {
        Reloads {
            is_good: AtomicBool::new(true),
            changes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            asked_good: AtomicBool::new(true),
            asked: AtomicU64::new(0),
            changed_ns: AtomicI64::new(0),
        }
    }
}

impl Reloads {
    /// The files are good.
    pub(crate) fn read(&self) {
        self.is_good.store(true, Ordering::Relaxed);
    }

    /// The files cannot be used.
    pub(crate) fn failed(&self) {
        self.is_good.store(false, Ordering::Relaxed);
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// Somebody had the files read; whether they are in force.
    pub(crate) fn was_asked(&self, is_good: bool) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.asked_good.store(is_good, Ordering::Relaxed);
    }

    /// The files have changed limits, at this time in ns since the Unix epoch.
    pub(crate) fn changed(&self, unix_ns: i64) {
        self.changes.fetch_add(1, Ordering::Relaxed);
        self.changed_ns.store(unix_ns, Ordering::Relaxed);
    }
}

/// Writes the outcomes of readings that somebody asked for.
pub(super) fn expose_asked(reloads: &Reloads, out: &mut Exposition) {
    out.single(
        "logsvc_reloads_total",
        "counter",
        "Times that SIGHUP or a request had the files of the settings read again.",
        reloads.asked.load(Ordering::Relaxed),
    );
    out.single(
        "logsvc_reload_last_successful",
        "gauge",
        "Whether the files were good when they were last read so.",
        u64::from(reloads.asked_good.load(Ordering::Relaxed)),
    );
}

/// Writes the outcomes, and the hash of the files that hold.
pub(super) fn expose(reloads: &Reloads, sha256: [u8; 32], out: &mut Exposition) {
    const CONFIG: (&str, &str) = ("config", "loki");
    const GOOD: &str = "loki_runtime_config_last_reload_successful";
    out.family(GOOD, "gauge", "Whether the files with the limits of tenants are good.");
    out.sample(GOOD, &[CONFIG], f64::from(u8::from(reloads.is_good.load(Ordering::Relaxed))));
    const HASH: &str = "loki_runtime_config_hash";
    out.family(HASH, "gauge", "The hash of the files that the limits of tenants come from.");
    let hash: String = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    out.sample(HASH, &[("sha256", &hash), CONFIG], 1.0);
    out.single(
        "logsvc_runtime_config_changes_total",
        "counter",
        "Times that files have changed the limits of tenants since the start.",
        reloads.changes.load(Ordering::Relaxed),
    );
    out.single(
        "logsvc_runtime_config_failures_total",
        "counter",
        "Times that files with the limits of tenants were read and could not be used.",
        reloads.failures.load(Ordering::Relaxed),
    );
    const CHANGED: &str = "logsvc_runtime_config_changed_timestamp_seconds";
    out.family(CHANGED, "gauge", "When files last changed the limits of tenants.");
    out.sample(CHANGED, &[], reloads.changed_ns.load(Ordering::Relaxed) as f64 / 1e9);
}
