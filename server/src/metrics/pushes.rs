//! Pushed entries of tenants, and refused ones by reason.
//!
//! Every core counts in a table of its own. The table has a fixed number of rows, since tenants are
//! named by clients: tenants without a row are counted together.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use http::StatusCode;
use logsvc_proto::TenantId;

use super::{Exposition, add};

/// Tenants that a core counts apart.
pub(super) const TENANTS_MAX: usize = 1024;

/// Rows that are looked at for a tenant.
const PROBES: usize = 16;

/// The tenants without a row; no tenant can have this name.
pub(crate) const OTHERS: &str = "(others)";

/// Pushes whose tenant is not known; no tenant can have this name.
const NOBODY: &str = "(none)";

/// Why entries are refused, with the names of the reference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "their names say it")]
pub(crate) enum Reason {
    RateLimited,
    PerStreamRateLimit,
    StreamLimit,
    LineTooLong,
    MissingLabels,
    InvalidLabels,
    MaxLabelNamesPerSeries,
    LabelNameTooLong,
    LabelValueTooLong,
    DuplicateLabelNames,
    GreaterThanMaxSampleAge,
    TooFarInFuture,
    TooFarBehind,
    StructuredMetadataTooLarge,
    StructuredMetadataTooMany,
    DisallowedStructuredMetadata,
    BlockedIngestion,
    MissingEnforcedLabels,
    /// What was sent as an entry cannot be read as one.
    Unreadable,
}

impl Reason {
    const ALL: [(Reason, &'static str); 19] = [
        (Reason::RateLimited, "rate_limited"),
        (Reason::PerStreamRateLimit, "per_stream_rate_limit"),
        (Reason::StreamLimit, "stream_limit"),
        (Reason::LineTooLong, "line_too_long"),
        (Reason::MissingLabels, "missing_labels"),
        (Reason::InvalidLabels, "invalid_labels"),
        (Reason::MaxLabelNamesPerSeries, "max_label_names_per_series"),
        (Reason::LabelNameTooLong, "label_name_too_long"),
        (Reason::LabelValueTooLong, "label_value_too_long"),
        (Reason::DuplicateLabelNames, "duplicate_label_names"),
        (Reason::GreaterThanMaxSampleAge, "greater_than_max_sample_age"),
        (Reason::TooFarInFuture, "too_far_in_future"),
        (Reason::TooFarBehind, "too_far_behind"),
        (Reason::StructuredMetadataTooLarge, "structured_metadata_too_large"),
        (Reason::StructuredMetadataTooMany, "structured_metadata_too_many"),
        (Reason::DisallowedStructuredMetadata, "disallowed_structured_metadata"),
        (Reason::BlockedIngestion, "blocked_ingestion"),
        (Reason::MissingEnforcedLabels, "missing_enforced_labels"),
        (Reason::Unreadable, "unreadable"),
    ];
}

impl Reason {
    /// The name of the reference.
    pub(crate) fn name(self) -> &'static str {
        Reason::ALL[self as usize].1
    }
}

/// Why requests are refused as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "their names say it")]
pub(crate) enum RequestReason {
    Malformed,
    Unauthorized,
    Forbidden,
    TooSlow,
    TooLarge,
    Empty,
    TooBusy,
    Unavailable,
    TimedOut,
    InternalError,
    Other,
}

impl RequestReason {
    const ALL: [(RequestReason, &'static str); 11] = [
        (RequestReason::Malformed, "malformed"),
        (RequestReason::Unauthorized, "unauthorized"),
        (RequestReason::Forbidden, "forbidden"),
        (RequestReason::TooSlow, "too_slow"),
        (RequestReason::TooLarge, "too_large"),
        (RequestReason::Empty, "empty"),
        (RequestReason::TooBusy, "too_busy"),
        (RequestReason::Unavailable, "unavailable"),
        (RequestReason::TimedOut, "timed_out"),
        (RequestReason::InternalError, "internal_error"),
        (RequestReason::Other, "other"),
    ];

    /// The reason that an answer with this status has.
    pub(crate) fn of(status: StatusCode) -> RequestReason {
        match status.as_u16() {
            400 | 411 | 414 | 415 | 417 | 431 | 501 | 505 => RequestReason::Malformed,
            401 => RequestReason::Unauthorized,
            403 => RequestReason::Forbidden,
            408 => RequestReason::TooSlow,
            413 => RequestReason::TooLarge,
            422 => RequestReason::Empty,
            429 => RequestReason::TooBusy,
            503 => RequestReason::Unavailable,
            504 => RequestReason::TimedOut,
            500.. => RequestReason::InternalError,
            _ => RequestReason::Other,
        }
    }

    /// Its name in metrics and logs.
    pub(crate) fn name(self) -> &'static str {
        RequestReason::ALL[self as usize].1
    }
}

/// Entries, and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Amount {
    /// How many.
    pub(crate) entries: u64,
    /// Bytes of their lines and metadata.
    pub(crate) bytes: u64,
}

impl Amount {
    /// Adds more entries.
    pub(crate) fn add(&mut self, entries: u64, bytes: u64) {
        self.entries += entries;
        self.bytes += bytes;
    }
}

/// Counters of a tenant.
#[derive(Debug, Default)]
pub(crate) struct TenantCounters {
    tenant: Option<TenantId>,
    lines: AtomicU64,
    bytes: AtomicU64,
    metadata_bytes: AtomicU64,
    discarded: [(AtomicU64, AtomicU64); Reason::ALL.len()],
    mutated: [(AtomicU64, AtomicU64); Mutation::ALL.len()],
    refused_pushes: [AtomicU64; RequestReason::ALL.len()],
}

/// Why entries are stored with less than was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutation {
    /// The line was cut.
    LineTooLong,
    /// Names in the metadata became one, and one value was kept.
    MetadataNamesMerged,
}

impl Mutation {
    const ALL: [(Mutation, &'static str); 2] = [
        (Mutation::LineTooLong, "line_too_long"),
        (Mutation::MetadataNamesMerged, "structured_metadata_names_merged"),
    ];
}

impl TenantCounters {
    /// Counts entries that were stored; metadata is a part of their bytes.
    pub(crate) fn received(&self, amount: Amount, metadata_bytes: u64) {
        add(&self.lines, amount.entries);
        add(&self.bytes, amount.bytes);
        add(&self.metadata_bytes, metadata_bytes);
    }

    /// Counts entries that lost something, and the bytes of that.
    pub(crate) fn mutated(&self, why: Mutation, amount: Amount) {
        let (lines, bytes) = &self.mutated[why as usize];
        add(lines, amount.entries);
        add(bytes, amount.bytes);
    }

    /// Counts a push that was refused as a whole. Only [`crate::refusals`] may do this.
    pub(crate) fn refused_push(&self, reason: RequestReason) {
        add(&self.refused_pushes[reason as usize], 1);
    }

    /// Counts entries that were refused. Only [`crate::refusals`] may do this.
    pub(crate) fn discarded(&self, reason: Reason, amount: Amount) {
        let (lines, bytes) = &self.discarded[reason as usize];
        add(lines, amount.entries);
        add(bytes, amount.bytes);
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Pushes {
    rows: Box<[OnceLock<Box<TenantCounters>>]>,
    others: TenantCounters,
    nobody: TenantCounters,
}

impl Pushes {
    /// Nothing counted yet.
    pub(super) fn new() -> Pushes {
        let rows = (0..TENANTS_MAX).map(|_| OnceLock::new()).collect();
        Pushes { rows, others: TenantCounters::default(), nobody: TenantCounters::default() }
    }

    /// The counters of a tenant, if there is one, or else those of pushes without one.
    pub(crate) fn of_any(&self, tenant: Option<&TenantId>) -> &TenantCounters {
        tenant.map_or(&self.nobody, |tenant| self.of(tenant))
    }

    /// The counters of a tenant.
    pub(crate) fn of(&self, tenant: &TenantId) -> &TenantCounters {
        let hash = RandomState::with_seeds(13, 14, 15, 16).hash_one(tenant) as usize;
        for probe in 0..PROBES {
            let row = &self.rows[hash.wrapping_add(probe) % TENANTS_MAX];
            let counters = row.get_or_init(|| {
                let tenant = Some(tenant.clone());
                Box::new(TenantCounters { tenant, ..TenantCounters::default() })
            });
            if counters.tenant.as_ref() == Some(tenant) {
                return counters;
            }
        }
        &self.others
    }

    fn counters(&self) -> impl Iterator<Item = (&str, &TenantCounters)> {
        let rows = self.rows.iter().filter_map(OnceLock::get).map(Box::as_ref);
        let named = rows.map(|row| (row.tenant.as_ref().map_or(OTHERS, TenantId::as_str), row));
        named.chain([(OTHERS, &self.others), (NOBODY, &self.nobody)])
    }
}

/// The counts of all cores for a tenant.
#[derive(Default)]
struct Sums {
    received: [u64; 3],
    discarded: [Amount; Reason::ALL.len()],
    mutated: [Amount; Mutation::ALL.len()],
    refused_pushes: [u64; RequestReason::ALL.len()],
}

/// Writes the counters of all cores.
pub(super) fn expose<'p>(cores: impl Iterator<Item = &'p Pushes>, out: &mut Exposition) {
    let mut by_tenant = std::collections::BTreeMap::<&str, Sums>::new();
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    for (tenant, counters) in cores.flat_map(Pushes::counters) {
        let sums = by_tenant.entry(tenant).or_default();
        let received = [&counters.bytes, &counters.lines, &counters.metadata_bytes];
        for (sum, counter) in sums.received.iter_mut().zip(received) {
            *sum += read(counter);
        }
        for (sum, (lines, bytes)) in sums.discarded.iter_mut().zip(&counters.discarded) {
            sum.add(read(lines), read(bytes));
        }
        for (sum, (lines, bytes)) in sums.mutated.iter_mut().zip(&counters.mutated) {
            sum.add(read(lines), read(bytes));
        }
        for (sum, counter) in sums.refused_pushes.iter_mut().zip(&counters.refused_pushes) {
            *sum += read(counter);
        }
    }
    by_tenant.retain(|&tenant, sums| {
        ![OTHERS, NOBODY].contains(&tenant)
            || sums.received[1] > 0
            || sums.discarded.iter().any(|s| s.entries > 0)
            || sums.refused_pushes.iter().any(|&count| count > 0)
    });
    let families = [
        ("loki_distributor_bytes_received_total", "Line and metadata bytes of stored entries."),
        ("loki_distributor_lines_received_total", "Stored entries."),
        (
            "loki_distributor_structured_metadata_bytes_received_total",
            "Metadata bytes of stored entries.",
        ),
    ];
    for (place, (name, help)) in families.into_iter().enumerate() {
        out.family(name, "counter", help);
        for (tenant, sums) in by_tenant.iter().filter(|(tenant, _)| **tenant != NOBODY) {
            out.sample(name, &[("tenant", tenant)], sums.received[place] as f64);
        }
    }
    type Read = fn(&Amount) -> u64;
    let families: [(&str, &str, Read); 2] = [
        ("loki_discarded_samples_total", "Entries that were refused.", |sum| sum.entries),
        ("loki_discarded_bytes_total", "Line and metadata bytes of them.", |sum| sum.bytes),
    ];
    for (name, help, read) in families {
        out.family(name, "counter", help);
        for (tenant, sums) in &by_tenant {
            for (sum, (_, reason)) in sums.discarded.iter().zip(Reason::ALL) {
                if sum.entries > 0 {
                    let labels = [("reason", reason), ("tenant", tenant)];
                    out.sample(name, &labels, read(sum) as f64);
                }
            }
        }
    }
    const REFUSED: &str = "logsvc_refused_pushes_total";
    out.family(REFUSED, "counter", "Pushes that were refused as a whole.");
    for (tenant, sums) in &by_tenant {
        for (&count, (_, reason)) in sums.refused_pushes.iter().zip(RequestReason::ALL) {
            if count > 0 {
                let labels = [("reason", reason), ("tenant", tenant)];
                out.sample(REFUSED, &labels, count as f64);
            }
        }
    }
    let families: [(&str, &str, Read); 2] = [
        ("loki_mutated_samples_total", "Entries that were stored without a part.", |sum| {
            sum.entries
        }),
        ("loki_mutated_bytes_total", "Bytes that they lost.", |sum| sum.bytes),
    ];
    for (name, help, read) in families {
        out.family(name, "counter", help);
        for (tenant, sums) in &by_tenant {
            for (sum, (_, reason)) in sums.mutated.iter().zip(Mutation::ALL) {
                if sum.entries > 0 {
                    let labels = [("reason", reason), ("tenant", tenant)];
                    out.sample(name, &labels, read(sum) as f64);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::ExpositionFormat;
    use super::*;

    #[test]
    fn reasons_stand_where_they_are_counted() {
        for (place, (reason, _)) in Reason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{reason:?}");
        }
        for (place, (reason, _)) in RequestReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, place, "{reason:?}");
        }
        for (place, (mutation, _)) in Mutation::ALL.into_iter().enumerate() {
            assert_eq!(mutation as usize, place, "{mutation:?}");
        }
    }

    #[test]
    fn pushes_without_a_tenant_are_counted() {
        let cores = [Pushes::new(), Pushes::new()];
        let tenant = TenantId::no_auth();
        for core in &cores {
            core.of_any(None).refused_push(RequestReason::of(StatusCode::UNAUTHORIZED));
            core.of_any(Some(&tenant)).refused_push(RequestReason::of(StatusCode::BAD_REQUEST));
        }
        let mut out = Exposition::new(ExpositionFormat::Text);
        expose(cores.iter(), &mut out);
        let text = out.into_text();
        let refused: Vec<&str> =
            text.lines().filter(|line| line.contains("refused_pushes_total{")).collect();
        assert_eq!(
            refused,
            [
                r#"logsvc_refused_pushes_total{reason="unauthorized",tenant="(none)"} 2"#,
                r#"logsvc_refused_pushes_total{reason="malformed",tenant="fake"} 2"#,
            ]
        );
        assert!(!text.contains("received_total{tenant=\"(none)\"}"), "{text}");
    }

    #[test]
    fn tenants_are_counted_apart_until_there_are_too_many() {
        let cores = [Pushes::new(), Pushes::new()];
        let tenants: Vec<TenantId> = (0..5000)
            .map(|n| {
                let header = format!("t{n}");
                logsvc_proto::tenant::parse_single_tenant_header(Some(header.as_bytes()))
                    .expect("a good name")
            })
            .collect();
        let one = Amount { entries: 1, bytes: 10 };
        for tenant in &tenants {
            cores[0].of(tenant).received(one, 3);
            cores[0].of(tenant).discarded(Reason::LineTooLong, one);
        }
        cores[1].of(&tenants[0]).received(one, 0);
        let mut out = Exposition::new(ExpositionFormat::Text);
        expose(cores.iter(), &mut out);
        let text = out.into_text();
        let first = r#"loki_distributor_lines_received_total{tenant="t0"} 2"#;
        assert!(text.lines().any(|line| line == first), "{text:.2000}");
        let sum = |name: &str| -> f64 {
            let lines = text.lines().filter(|line| line.starts_with(name));
            lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
        };
        assert_eq!(sum("loki_distributor_lines_received_total{"), 5001.0);
        assert_eq!(sum("loki_distributor_bytes_received_total{"), 50_010.0);
        assert_eq!(sum("loki_distributor_structured_metadata_bytes_received_total{"), 15_000.0);
        assert_eq!(sum(r#"loki_discarded_bytes_total{reason="line_too_long""#), 50_000.0);
        let rows = text.lines().filter(|line| line.starts_with("loki_distributor_lines")).count();
        assert!(rows <= TENANTS_MAX + 1, "{rows}");
        assert!(text.contains(OTHERS));
    }
}
