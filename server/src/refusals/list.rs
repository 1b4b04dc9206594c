//! The last refusals of each tenant.
//!
//! Guarantees: at most [`RECORDS_MAX`] for a tenant, the newest ones, for at most [`TENANTS_MAX`]
//! tenants, in at most the configured bytes. Refusals that differ in nothing but their time and
//! amount are one record with a count. If the bytes are used up, the tenant that holds most of them
//! loses its oldest records, so that no tenant can push the records of others out; if there are too
//! many tenants, the one that was refused least recently loses its list.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use ahash::RandomState;
use logsvc_proto::TenantId;

use super::lines::Line;
use super::text::{TEXT_MAX_BYTES, shown};
use crate::metrics::Amount;

/// Records of a tenant.
pub(super) const RECORDS_MAX: usize = 100;

/// Tenants that have a list.
pub(super) const TENANTS_MAX: usize = 1024;

/// Bytes of a record besides its texts, and of a tenant besides its records, roughly.
const RECORD_OVERHEAD_BYTES: usize = 256;
const TENANT_OVERHEAD_BYTES: usize = 256;

/// One or several equal refusals.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// A hash of everything by which equal ones are told.
    identity: u64,
    /// When the first and the last of them happened, in ns since the Unix epoch.
    pub(crate) first_ns: i64,
    pub(crate) last_ns: i64,
    pub(crate) reason: &'static str,
    pub(crate) route: &'static str,
    /// The answer, if the push was refused as a whole.
    pub(crate) status: Option<u16>,
    /// The sender of the last one.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) user_agent: Box<str>,
    pub(crate) stream: Box<str>,
    /// Of the last one, as the limit and the text.
    pub(crate) entry_ns: Option<i64>,
    pub(crate) limit_ns: Option<i64>,
    pub(crate) text: Box<str>,
    /// How many pushes.
    pub(crate) pushes: u64,
    pub(crate) amount: Amount,
}

impl Record {
    /// The record of one refusal.
    pub(super) fn of(line: &Line<'_>, now_ns: i64) -> Record {
        let cut = |text: &str| shown(text, TEXT_MAX_BYTES).into_boxed_str();
        let (user_agent, stream) = (cut(line.user_agent), cut(line.stream));
        let route = line.route.unwrap_or_default();
        let address = line.peer.map(|peer| peer.ip());
        let identity = (line.reason, route, line.status, address, &user_agent, &stream);
        Record {
            identity: RandomState::with_seeds(25, 26, 27, 28).hash_one(identity),
            first_ns: now_ns,
            last_ns: now_ns,
            reason: line.reason,
            route,
            status: line.status,
            peer: line.peer,
            entry_ns: line.entry_ns,
            limit_ns: line.limit_ns,
            text: cut(line.error),
            user_agent,
            stream,
            pushes: 1,
            amount: line.amount,
        }
    }

    fn len_bytes(&self) -> usize {
        RECORD_OVERHEAD_BYTES + self.user_agent.len() + self.stream.len() + self.text.len()
    }

    /// Takes the numbers of an older equal one in.
    fn merge(&mut self, older: &Record) {
        self.first_ns = older.first_ns;
        self.pushes += older.pushes;
        self.amount.add(older.amount.entries, older.amount.bytes);
    }
}

#[derive(Debug, Default)]
struct TenantList {
    /// The oldest first.
    records: VecDeque<Record>,
    bytes: usize,
    /// Grows with each refusal of the node.
    used: u64,
}

impl TenantList {
    fn remove_oldest(&mut self) -> usize {
        let freed = self.records.pop_front().map_or(0, |record| record.len_bytes());
        self.bytes -= freed;
        freed
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Lists {
    by_tenant: BTreeMap<TenantId, TenantList>,
    bytes: usize,
    max_bytes: usize,
    uses: u64,
}

impl Lists {
    /// Empty lists.
    pub(super) fn new(max_bytes: usize) -> Lists {
        Lists { by_tenant: BTreeMap::new(), bytes: 0, max_bytes, uses: 0 }
    }

    /// Adds a refusal.
    pub(super) fn add(&mut self, tenant: &TenantId, mut record: Record) {
        self.uses += 1;
        if !self.by_tenant.contains_key(tenant) {
            if self.by_tenant.len() >= TENANTS_MAX {
                self.remove_stalest();
            }
            self.by_tenant.insert(tenant.clone(), TenantList::default());
            self.bytes += TENANT_OVERHEAD_BYTES + tenant.as_str().len();
        }
        let Some(list) = self.by_tenant.get_mut(tenant) else { return };
        list.used = self.uses;
        let is_equal = |known: &Record| known.identity == record.identity;
        if let Some(place) = list.records.iter().rposition(is_equal)
            && let Some(known) = list.records.remove(place)
        {
            list.bytes -= known.len_bytes();
            self.bytes -= known.len_bytes();
            record.merge(&known);
        } else if list.records.len() >= RECORDS_MAX {
            self.bytes -= list.remove_oldest();
        }
        list.bytes += record.len_bytes();
        self.bytes += record.len_bytes();
        list.records.push_back(record);
        while self.bytes > self.max_bytes && self.shrink_largest() {}
    }

    /// The newest first.
    pub(super) fn of(&self, tenant: &TenantId) -> Vec<Record> {
        let list = self.by_tenant.get(tenant);
        list.map_or(Vec::new(), |list| list.records.iter().rev().cloned().collect())
    }

    fn remove_stalest(&mut self) {
        let stalest = self.by_tenant.iter().min_by_key(|(_, list)| list.used);
        if let Some(tenant) = stalest.map(|(tenant, _)| tenant.clone()) {
            self.remove(&tenant);
        }
    }

    fn remove(&mut self, tenant: &TenantId) {
        if let Some(list) = self.by_tenant.remove(tenant) {
            self.bytes -= list.bytes + TENANT_OVERHEAD_BYTES + tenant.as_str().len();
        }
    }

    /// Frees some bytes. False if there is nothing to free.
    fn shrink_largest(&mut self) -> bool {
        let largest = self.by_tenant.iter_mut().max_by_key(|(_, list)| list.bytes);
        let Some((tenant, list)) = largest else { return false };
        self.bytes -= list.remove_oldest();
        if list.records.is_empty() {
            let tenant = tenant.clone();
            self.remove(&tenant);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::{Level, Subject};
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    fn record(reason: &'static str, stream: &str, now_ns: i64) -> Record {
        let amount = Amount { entries: 2, bytes: 20 };
        let line = Line::new(Subject::Entries, Level::Warn, reason, "t");
        Record::of(&Line { stream, amount, route: Some("push"), ..line }, now_ns)
    }

    #[test]
    fn the_last_hundred_are_kept_and_equal_ones_are_one() {
        let (mut lists, tenant) = (Lists::new(1 << 20), TenantId::no_auth());
        for number in 0..250 {
            for _ in 0..3 {
                lists.add(&tenant, record("line_too_long", &number.to_string(), number));
            }
        }
        let kept = lists.of(&tenant);
        assert_eq!(kept.len(), RECORDS_MAX);
        assert!(kept.iter().map(|r| r.last_ns).eq((150..250).rev()));
        assert!(kept.iter().all(|r| r.pushes == 3 && r.amount.entries == 6));
        // One that happens again is the newest.
        lists.add(&tenant, record("line_too_long", "200", 900));
        let newest = &lists.of(&tenant)[0];
        assert_eq!((newest.first_ns, newest.last_ns, newest.pushes), (200, 900, 4));
        assert_eq!(lists.of(&tenant).len(), RECORDS_MAX);
    }

    #[test]
    fn memory_is_bounded_and_a_loud_tenant_displaces_itself() {
        let mut lists = Lists::new(64 << 10);
        let quiet = TenantId::new("quiet").expect("a good name");
        lists.add(&quiet, record("rate_limited", "{a=\"1\"}", 1));
        for number in 0..2000 {
            let stream = format!("{number}{}", "x".repeat(5000));
            lists.add(&TenantId::no_auth(), record("line_too_long", &stream, number));
            assert!(lists.bytes <= lists.max_bytes);
        }
        assert_eq!(lists.of(&quiet).len(), 1);
        assert!(lists.of(&TenantId::no_auth()).len() > 30);
    }

    #[test]
    fn counted_bytes_are_those_that_are_held() {
        for seed in seeds(20) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let mut lists = Lists::new(100_000);
            for now_ns in 0..4000 {
                let tenant = format!("t{}", rng.below(2000));
                let tenant = TenantId::new(&tenant).expect("a good name");
                let stream = "s".repeat(rng.below(900) as usize);
                lists.add(&tenant, record("line_too_long", &stream, now_ns));
                assert!(lists.bytes <= lists.max_bytes && lists.by_tenant.len() <= TENANTS_MAX);
            }
            let held: usize = lists
                .by_tenant
                .iter()
                .map(|(tenant, list)| {
                    let records: usize = list.records.iter().map(Record::len_bytes).sum();
                    assert_eq!(records, list.bytes);
                    records + TENANT_OVERHEAD_BYTES + tenant.as_str().len()
                })
                .sum();
            assert_eq!(held, lists.bytes);
        }
    }
}
