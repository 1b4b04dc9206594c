//! How long entries stay: by age, and by disk space.
//!
//! By age: each stream has a period. The rule with the largest priority whose selector matches
//! the stream gives it; of rules with equal priorities the one with the shorter period. Without
//! a rule it is the period of the tenant. Entries older than the period may go at any time;
//! until then queries see them. By size: when the segments of the node take more space than
//! allowed, whole segments go, oldest day first.
//!
//! Rules are plain data. [`crate::shard`] applies them to its own segments, and [`NodeSegments`]
//! is the knowledge that the shards of a node share for it.

mod clock;
mod compaction_filter;
mod expiry;
mod node;

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_logql::engine::CompiledMatcher;
use logsvc_proto::{Labels, TenantId};

pub(crate) use clock::{ClockChange, RetentionClock, clock_path, keep as keep_clock};
pub use clock::{STEADY_AFTER, StartClock};
pub(crate) use compaction_filter::ViewedMetadata;
pub use compaction_filter::{CompactionFilter, EntryView, FilterDecision, RunView};
pub(crate) use expiry::ExpiryFilter;
pub use node::NodeSegments;

/// The shortest period that the settings allow, in ns: 24 hours. Segments are of one
/// day or more, so shorter ones would mean constant rewriting.
pub const PERIOD_MIN_NS: i64 = 24 * 3_600_000_000_000;

/// A period for the streams that a selector matches.
#[derive(Clone, Debug)]
pub struct StreamPeriod {
    /// All of them must match.
    pub matchers: Arc<[CompiledMatcher]>,
    /// The rule with the largest one counts.
    pub priority: i64,
    /// How long entries stay, in ns.
    pub period_ns: i64,
}

/// The periods of one tenant.
#[derive(Clone, Debug, Default)]
pub struct TenantPeriods {
    /// For streams that no rule matches, in ns; `None`: for ever.
    pub period_ns: Option<i64>,
    /// The rules.
    pub streams: Vec<StreamPeriod>,
}

/// When entries go. The default keeps everything.
#[derive(Clone, Debug, Default)]
pub struct RetentionPolicy {
    /// Periods of tenants that have none of their own; `None`: nothing goes for its age.
    pub periods: Option<TenantPeriods>,
    /// Periods of single tenants, if `periods` is there.
    pub tenants: BTreeMap<TenantId, TenantPeriods>,
    /// The most bytes of the files of all segments; `None`: no limit.
    pub disk_max_bytes: Option<u64>,
    /// The same as a part of the file system, in percent; the smaller one counts.
    pub disk_max_percent: Option<f64>,
}

impl TenantPeriods {
    /// The period of a stream in ns; `None`: its entries stay for ever.
    pub fn of_stream(&self, labels: &Labels) -> Option<i64> {
        let matches = |rule: &&StreamPeriod| {
            rule.matchers.iter().all(|m| m.matches(labels.get(m.name()).unwrap_or("")))
        };
        let rules = self.streams.iter().filter(matches);
        let first = rules.min_by_key(|rule| (std::cmp::Reverse(rule.priority), rule.period_ns));
        first.map_or(self.period_ns, |rule| Some(rule.period_ns))
    }

    fn all(&self) -> impl Iterator<Item = Option<i64>> {
        std::iter::once(self.period_ns).chain(self.streams.iter().map(|rule| Some(rule.period_ns)))
    }
}

impl RetentionPolicy {
    /// The period of a stream in ns; `None`: its entries stay for ever.
    pub fn of_stream(&self, tenant: &TenantId, labels: &Labels) -> Option<i64> {
        let periods = self.periods.as_ref()?;
        self.tenants.get(tenant).unwrap_or(periods).of_stream(labels)
    }

    /// The shortest and the longest period that a stream may have; `None` within for
    /// one that never ends, and on the whole if no period ends.
    pub(crate) fn bounds_ns(&self) -> Option<(i64, Option<i64>)> {
        let periods = self.periods.as_ref()?;
        let all = || periods.all().chain(self.tenants.values().flat_map(TenantPeriods::all));
        let longest =
            if all().any(|period| period.is_none()) { None } else { all().flatten().max() };
        Some((all().flatten().min()?, longest))
    }
}

#[cfg(test)]
mod tests {
    use logsvc_logql::syntax;

    use super::*;

    fn rule(selector: &str, priority: i64, period_ns: i64) -> StreamPeriod {
        let selector = syntax::parse_selector(selector).expect("a selector");
        let matchers = selector.matchers.iter().map(|m| CompiledMatcher::new(m).expect("valid"));
        StreamPeriod { matchers: matchers.collect(), priority, period_ns }
    }

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::from_pairs(pairs.iter().copied()).expect("valid labels")
    }

    #[test]
    fn the_rule_with_the_largest_priority_counts_and_then_the_shortest_period() {
        let periods = TenantPeriods {
            period_ns: Some(100),
            streams: vec![
                rule(r#"{app="a"}"#, 1, 50),
                rule(r#"{app=~"a|b", env!="dev"}"#, 2, 70),
                rule(r#"{app="b"}"#, 2, 60),
                rule(r#"{app="b"}"#, 2, 65),
                rule(r#"{app="c"}"#, 0, 200),
            ],
        };
        let of = |pairs: &[(&str, &str)]| periods.of_stream(&labels(pairs));
        assert_eq!(of(&[("app", "a")]), Some(70), "a label that is absent is not dev");
        assert_eq!(of(&[("app", "a"), ("env", "dev")]), Some(50));
        assert_eq!(of(&[("app", "b")]), Some(60));
        assert_eq!(of(&[("app", "c")]), Some(200), "longer than the tenant's");
        assert_eq!(of(&[("app", "d")]), Some(100));
    }

    #[test]
    fn a_tenant_may_have_periods_of_its_own() {
        let (a, b) = (TenantId::new("a").unwrap(), TenantId::new("b").unwrap());
        let all = TenantPeriods { period_ns: Some(10), streams: Vec::new() };
        let own = TenantPeriods { period_ns: None, streams: vec![rule(r#"{x="y"}"#, 1, 5)] };
        let mut policy = RetentionPolicy { periods: Some(all), ..RetentionPolicy::default() };
        assert_eq!(policy.bounds_ns(), Some((10, Some(10))));
        policy.tenants.insert(b.clone(), own);
        assert_eq!(policy.bounds_ns(), Some((5, None)));
        assert_eq!(policy.of_stream(&a, &labels(&[("x", "y")])), Some(10));
        assert_eq!(policy.of_stream(&b, &labels(&[("x", "y")])), Some(5));
        assert_eq!(policy.of_stream(&b, &labels(&[("x", "z")])), None);
        policy.periods = None;
        assert_eq!(policy.of_stream(&b, &labels(&[("x", "y")])), None, "switched off");
        assert_eq!(policy.bounds_ns(), None);
    }
}
