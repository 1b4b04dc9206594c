//! How old the newest entry of a push is when it comes, by tenant and client.
//!
//! Clients name themselves as they like, so a core keeps a table of fixed size; clients
//! without a row are counted together.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use ahash::RandomState;
use logsvc_proto::TenantId;

use super::{Exposition, add};

/// Rows of a core.
const ROWS: usize = 256;

/// Rows that are looked at for a client.
const PROBES: usize = 8;

/// So much of a client's name is kept.
const AGENT_MAX_CHARS: usize = 64;

/// Clients without a row.
const OTHERS: &str = "(others)";

/// Which protocol a push came by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum PushFormat {
    /// The push endpoints.
    Loki,
    /// OpenTelemetry.
    Otlp,
    /// Syslog, over any transport.
    Syslog,
    /// The journal of systemd.
    Journald,
    /// Bulk requests of Elasticsearch.
    Elasticsearch,
    /// Lines of text or JSON.
    Lines,
    /// Entries of an export.
    Import,
}

impl PushFormat {
    fn name(self) -> &'static str {
        match self {
            PushFormat::Loki => "loki",
            PushFormat::Otlp => "otlp",
            PushFormat::Syslog => "syslog",
            PushFormat::Journald => "journald",
            PushFormat::Elasticsearch => "elasticsearch",
            PushFormat::Lines => "lines",
            PushFormat::Import => "import",
        }
    }
}

/// Milliseconds of one client.
#[derive(Debug)]
struct Row {
    tenant: TenantId,
    agent: String,
    format: PushFormat,
    lag_ms: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Lags {
    rows: Box<[OnceLock<Box<Row>>]>,
    others_ms: AtomicU64,
}

impl Lags {
    /// Nothing counted yet.
    pub(super) fn new() -> Lags {
        let rows = (0..ROWS).map(|_| OnceLock::new()).collect();
        Lags { rows, others_ms: AtomicU64::new(0) }
    }

    /// Adds the age of the newest entry of a push.
    pub(crate) fn add(&self, tenant: &TenantId, agent: &str, format: PushFormat, lag_ms: u64) {
        let agent = match agent.char_indices().nth(AGENT_MAX_CHARS) {
            Some((end, _)) => &agent[..end],
            None => agent,
        };
        let state = RandomState::with_seeds(17, 18, 19, 20);
        let hash = state.hash_one((tenant, agent, format)) as usize;
        for probe in 0..PROBES {
            let row = self.rows[hash.wrapping_add(probe) % ROWS].get_or_init(|| {
                let (tenant, agent) = (tenant.clone(), agent.to_owned());
                Box::new(Row { tenant, agent, format, lag_ms: AtomicU64::new(0) })
            });
            if row.tenant == *tenant && row.agent == agent && row.format == format {
                return add(&row.lag_ms, lag_ms);
            }
        }
        add(&self.others_ms, lag_ms);
    }
}

/// Writes the ages of all cores.
pub(super) fn expose<'l>(cores: impl Iterator<Item = &'l Lags>, out: &mut Exposition) {
    const NAME: &str = "loki_distributor_lag_ms_total";
    out.family(NAME, "counter", "Age of the newest entry of each push when it came, in ms.");
    let mut sums = std::collections::BTreeMap::<(&str, &str, &str), u64>::new();
    for core in cores {
        for row in core.rows.iter().filter_map(OnceLock::get) {
            let key = (row.tenant.as_str(), row.agent.as_str(), row.format.name());
            *sums.entry(key).or_default() += row.lag_ms.load(Ordering::Relaxed);
        }
        let others_ms = core.others_ms.load(Ordering::Relaxed);
        if others_ms > 0 {
            *sums.entry((OTHERS, OTHERS, OTHERS)).or_default() += others_ms;
        }
    }
    for ((tenant, agent, format), lag_ms) in sums {
        let labels = [("tenant", tenant), ("userAgent", agent), ("format", format)];
        out.sample(NAME, &labels, lag_ms as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::super::ExpositionFormat;
    use super::*;

    #[test]
    fn clients_are_counted_apart_until_there_are_too_many() {
        let cores = [Lags::new(), Lags::new()];
        let tenant = TenantId::no_auth();
        for core in &cores {
            core.add(&tenant, "promtail/3", PushFormat::Loki, 5);
        }
        cores[0].add(&tenant, "promtail/3", PushFormat::Otlp, 7);
        for number in 0..2000 {
            cores[1].add(&tenant, &format!("{}{number}", "ä".repeat(60)), PushFormat::Loki, 1);
        }
        cores[0].add(&tenant, &"ö".repeat(100), PushFormat::Loki, 9);
        let mut out = Exposition::new(ExpositionFormat::Text);
        expose(cores.iter(), &mut out);
        let text = out.into_text();
        let name = "loki_distributor_lag_ms_total";
        for line in [
            format!(r#"{name}{{tenant="fake",userAgent="promtail/3",format="loki"}} 10"#),
            format!(r#"{name}{{tenant="fake",userAgent="promtail/3",format="otlp"}} 7"#),
            format!(r#"{name}{{tenant="fake",userAgent="{}",format="loki"}} 9"#, "ö".repeat(64)),
        ] {
            assert!(text.lines().any(|known| known == line), "{line} is missing in\n{text}");
        }
        let values = text.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
        assert_eq!(values.sum::<f64>(), 10.0 + 7.0 + 2000.0 + 9.0);
        assert!(text.lines().count() <= ROWS * 2 + 3);
    }
}
