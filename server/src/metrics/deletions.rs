//! Metrics of the requests for deletion.

use logsvc_proto::TenantId;
use logsvc_shards::deletion::{DeletionStatus, TenantDeletions};

use super::exposition::Exposition;
use super::pushes::{OTHERS, TENANTS_MAX};

/// A metric of which each tenant with requests has a value: name, help and value.
type TenantFamily = (&'static str, &'static str, fn(&TenantDeletions) -> u64);

/// A metric of the node: name, kind, help and value.
type NodeFamily = (&'static str, &'static str, &'static str, fn(&DeletionStatus) -> u64);

const TENANT_FAMILIES: [TenantFamily; 3] = [
    (
        "loki_compactor_delete_requests_received_total",
        "Delete requests that were recorded.",
        |tenant| tenant.received,
    ),
    (
        "loki_compactor_delete_requests_processed_total",
        "Delete requests whose entries have left the disk.",
        |tenant| tenant.processed,
    ),
    ("loki_compactor_deleted_lines", "Entries that delete requests removed.", |tenant| {
        tenant.removed_entries
    }),
];

/// `now_ns` is the time of the scrape. Without a status, because the keeper does not run, only the
/// names are there.
pub(super) fn expose(status: Option<&DeletionStatus>, now_ns: i64, out: &mut Exposition) {
    let empty = DeletionStatus::default();
    let tenants = &status.unwrap_or(&empty).tenants;
    // A tenant counts alone as long as there are not too many for one answer.
    let (alone, others): (Vec<_>, Vec<_>) =
        tenants.iter().enumerate().partition(|(place, _)| *place < TENANTS_MAX);
    for (name, help, read) in TENANT_FAMILIES {
        out.family(name, "counter", help);
        let sample = |out: &mut Exposition, user: &str, count: u64| {
            out.sample(name, &[("user", user)], count as f64);
        };
        for (_, (tenant, numbers)) in &alone {
            sample(out, TenantId::as_str(tenant), read(numbers));
        }
        if !others.is_empty() {
            sample(out, OTHERS, others.iter().map(|(_, (_, numbers))| read(numbers)).sum());
        }
    }
    let help = "Failures to load the generation of caches; there are none, caches are told.";
    out.single("loki_delete_cache_gen_load_failures_total", "counter", help, 0);
    let age_s = |status: &DeletionStatus| {
        let oldest_ms = status.oldest_pending_ms?;
        Some((now_ns / 1_000_000).saturating_sub(oldest_ms).max(0) as f64 / 1000.0)
    };
    let numbers: [NodeFamily; 3] = [
        (
            "loki_compactor_pending_delete_requests_count",
            "gauge",
            "Delete requests that are not processed.",
            |status| status.pending,
        ),
        (
            "logsvc_deletion_failures_total",
            "counter",
            "Attempts to remove the entries of delete requests that failed.",
            |status| status.failures,
        ),
        (
            "logsvc_deletion_rewritten_line_bytes_total",
            "counter",
            "Bytes of lines that were written anew because entries beside them were deleted.",
            |status| status.rewritten_line_bytes,
        ),
    ];
    for (name, kind, help, read) in numbers {
        out.family(name, kind, help);
        if let Some(status) = status {
            out.sample(name, &[], read(status) as f64);
        }
    }
    let gauges: [(&str, &str, Option<f64>); 2] = [
        (
            "loki_compactor_oldest_pending_delete_request_age_seconds",
            "Age of the oldest delete request that is not processed; 0 if there is none.",
            status.map(|status| age_s(status).unwrap_or(0.0)),
        ),
        (
            "logsvc_deletion_last_success_timestamp_seconds",
            "When entries were last removed without a failure.",
            status.and_then(|status| Some(status.last_success_ms? as f64 / 1000.0)),
        ),
    ];
    for (name, help, value) in gauges {
        out.family(name, "gauge", help);
        if let Some(value) = value {
            out.sample(name, &[], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ExpositionFormat;
    use super::*;

    fn exposed(status: Option<&DeletionStatus>) -> String {
        let mut out = Exposition::new(ExpositionFormat::Text);
        expose(status, 1_000_000_500_000_000, &mut out);
        out.into_text().lines().filter(|line| !line.starts_with('#')).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn tenants_with_requests_have_samples() {
        let failures = "loki_delete_cache_gen_load_failures_total 0";
        assert_eq!(exposed(None), failures);
        let text = exposed(Some(&DeletionStatus::default()));
        assert!(!text.contains("user="), "{text}");
        let none = "loki_compactor_oldest_pending_delete_request_age_seconds 0";
        assert!(text.lines().any(|line| line == none), "{text}");
        let mut status = DeletionStatus {
            pending: 2,
            oldest_pending_ms: Some(999_000_000),
            failures: 3,
            rewritten_line_bytes: 4,
            last_success_ms: Some(7_500),
            ..DeletionStatus::default()
        };
        let numbers = TenantDeletions { received: 5, processed: 6, removed_entries: 7 };
        for place in 0..TENANTS_MAX + 2 {
            let tenant = TenantId::new(&format!("t{place:05}")).expect("a tenant");
            status.tenants.insert(tenant, numbers);
        }
        let text = exposed(Some(&status));
        for sample in [
            "loki_compactor_delete_requests_received_total{user=\"t00000\"} 5",
            "loki_compactor_delete_requests_received_total{user=\"(others)\"} 10",
            "loki_compactor_delete_requests_processed_total{user=\"t00001\"} 6",
            "loki_compactor_deleted_lines{user=\"t00001\"} 7",
            "loki_compactor_pending_delete_requests_count 2",
            "loki_compactor_oldest_pending_delete_request_age_seconds 1000.5",
            "logsvc_deletion_failures_total 3",
            "logsvc_deletion_rewritten_line_bytes_total 4",
            "logsvc_deletion_last_success_timestamp_seconds 7.5",
        ] {
            assert!(text.lines().any(|line| line == sample), "{sample}");
        }
    }
}
