//! The knowledge of clients about the entries that they sent, and its consequences for answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_logql::engine::StreamResult;
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_shards::types::StreamDefinition;

/// An entry in full; no two entries of the ledger are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// Index of the stream in [`Ledger::streams`].
    pub(crate) stream: usize,
    pub(crate) timestamp_ns: i64,
    pub(crate) line: Vec<u8>,
    /// Sorted by name.
    pub(crate) metadata: Vec<(String, String)>,
}

/// The known facts about an entry's fate.
#[derive(Clone, Debug, Default)]
struct Fate {
    /// The entry must be there.
    acknowledged: bool,
    /// The entry must be there even after a power loss.
    durable: bool,
    /// When it was acknowledged first in this start, on the virtual clock.
    acknowledged_at_ns: u64,
    /// The entry may be there: its push was under way when the node ended, or its commit failed in
    /// an earlier start.
    maybe: bool,
    /// Its commit failed in this start: it must not show before the next one.
    failed: bool,
    /// Pushes under way that hold it.
    in_flight: u32,
    /// Points on the ledger's own clock.
    first_sent: u64,
    first_acknowledged: Option<u64>,
}

/// How a push ended for one of its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Acknowledged; by the policy of the log it is durable, or not yet.
    Stored { durable: bool, at_ns: u64 },
    /// Refused before anything was written.
    Refused,
    /// Written perhaps, and reported as failed.
    Failed,
    /// The fate is not known.
    Unknown,
}

#[derive(Clone)]
pub(crate) struct Ledger {
    pub(crate) streams: Vec<StreamDefinition>,
    fates: BTreeMap<Entry, Fate>,
    clock: u64,
}

impl Ledger {
    pub(crate) fn new(tenants: &[&str], streams_per_tenant: usize) -> Ledger {
        let stream = |tenant: &&str, number: usize| {
            let tenant = TenantId::new(tenant).expect("a tenant id");
            let number = number.to_string();
            let labels = Labels::from_pairs([("app", "crash"), ("number", &number)]);
            let labels = labels.expect("valid labels");
            let id = StreamId::new(&tenant, &labels);
            StreamDefinition { id, tenant, labels: Arc::new(labels) }
        };
        let streams = tenants
            .iter()
            .flat_map(|tenant| (0..streams_per_tenant).map(move |number| stream(tenant, number)));
        Ledger { streams: streams.collect(), fates: BTreeMap::new(), clock: 0 }
    }

    /// The tenants of its streams.
    pub(crate) fn tenants(&self) -> Vec<TenantId> {
        let mut tenants: Vec<_> = self.streams.iter().map(|stream| stream.tenant.clone()).collect();
        tenants.dedup();
        tenants
    }

    /// A ledger that owes what `earlier` owed; whatever was sent since may be there or not.
    pub(crate) fn owing(&self, earlier: &Ledger) -> Ledger {
        let mut owing = self.clone();
        for (entry, fate) in &mut owing.fates {
            let was_owed = earlier.fates.get(entry).is_some_and(|fate| fate.acknowledged);
            fate.maybe |= fate.acknowledged || fate.failed || fate.in_flight > 0;
            fate.acknowledged = was_owed;
        }
        owing
    }

    pub(crate) fn len(&self) -> usize {
        self.fates.len()
    }

    /// Some entry that was sent before.
    pub(crate) fn nth(&self, index: usize) -> Option<&Entry> {
        self.fates.keys().nth(index)
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(crate) fn sent(&mut self, entry: &Entry) {
        let now = self.tick();
        let new = || Fate { first_sent: now, ..Fate::default() };
        self.fates.entry(entry.clone()).or_insert_with(new).in_flight += 1;
    }

    pub(crate) fn ended(&mut self, entry: &Entry, outcome: Outcome) {
        let now = self.tick();
        let fate = self.fates.get_mut(entry).expect("it was sent");
        fate.in_flight -= 1;
        match outcome {
            Outcome::Stored { durable, at_ns } => {
                if !fate.acknowledged {
                    fate.acknowledged = true;
                    fate.acknowledged_at_ns = at_ns;
                }
                fate.durable |= durable;
                fate.first_acknowledged.get_or_insert(now);
            }
            Outcome::Refused => {}
            Outcome::Failed => fate.failed = true,
            Outcome::Unknown => fate.maybe = true,
        }
    }

    /// The node has ended, in whatever way; no client waits for an answer any more. An acknowledged
    /// entry that is not durable may be missing if `may_be_lost` says so, given the time of its
    /// acknowledgement.
    pub(crate) fn node_ended(&mut self, may_be_lost: impl Fn(u64) -> bool) {
        for fate in self.fates.values_mut() {
            fate.maybe |= fate.failed || fate.in_flight > 0;
            fate.failed = false;
            fate.in_flight = 0;
            if fate.acknowledged && !fate.durable && may_be_lost(fate.acknowledged_at_ns) {
                fate.acknowledged = false;
                fate.first_acknowledged = None;
                fate.maybe = true;
            }
        }
    }

    /// Everything acknowledged so far is on stable storage.
    pub(crate) fn all_durable(&mut self) {
        self.fates.values_mut().for_each(|fate| fate.durable |= fate.acknowledged);
    }

    /// Compares with the entries that queries show of one tenant.
    ///
    /// # Panics
    /// If the entries contradict the ledger.
    pub(crate) fn check(&self, tenant: &TenantId, shown: &[StreamResult]) {
        let mut seen: BTreeMap<&Entry, ()> = BTreeMap::new();
        for stream in shown {
            let is_stream =
                |s: &StreamDefinition| s.tenant == *tenant && *s.labels == stream.labels;
            let number = self.streams.iter().position(is_stream);
            let number = number.unwrap_or_else(|| panic!("unknown stream {:?}", stream.labels));
            let mut before: Vec<(&Entry, &Fate)> = Vec::new();
            for shown in &stream.entries {
                let metadata = shown.categories.iter().flat_map(|c| c.structured_metadata.iter());
                let entry = Entry {
                    stream: number,
                    timestamp_ns: shown.timestamp_ns,
                    line: shown.line.to_vec(),
                    metadata: metadata.map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
                };
                let Some((entry, fate)) = self.fates.get_key_value(&entry) else {
                    panic!("{tenant} shows an entry that was never sent: {entry:?}");
                };
                assert!(
                    fate.acknowledged || fate.maybe || fate.in_flight > 0,
                    "{tenant} shows an entry that was refused: {entry:?} {fate:?}"
                );
                assert!(seen.insert(entry, ()).is_none(), "{tenant} shows twice: {entry:?}");
                check_order(&mut before, entry, fate);
            }
        }
        for (entry, fate) in &self.fates {
            let is_owed = self.streams[entry.stream].tenant == *tenant && fate.acknowledged;
            assert!(!is_owed || seen.contains_key(entry), "{tenant} lacks {entry:?} {fate:?}");
        }
    }
}

/// Entries come by time. Entries of one time come in the order in which they were stored, as far as
/// clients can tell it.
fn check_order<'l>(before: &mut Vec<(&'l Entry, &'l Fate)>, entry: &'l Entry, fate: &'l Fate) {
    if let Some((last, _)) = before.last() {
        assert!(last.timestamp_ns <= entry.timestamp_ns, "not in time order: {entry:?}");
        if last.timestamp_ns < entry.timestamp_ns {
            before.clear();
        }
    }
    if let Some(acknowledged) = fate.first_acknowledged {
        for (earlier, earlier_fate) in before.iter() {
            assert!(
                earlier_fate.first_sent < acknowledged,
                "{earlier:?} was sent after {entry:?} was stored, but comes before it"
            );
        }
    }
    before.push((entry, fate));
}
