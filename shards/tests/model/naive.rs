//! The model: the entries of each stream in a list.
//!
//! Entries of equal time are in order of arrival, and an entry that was stored twice stands where
//! it was stored first. Where a fault leaves open whether an entry was stored, the first look after
//! the next start decides: an entry that is shown stays, and an entry that is not shown never comes
//! back.
//!
//! An entry that a removal takes from the disk may be there or not while the removal is under way,
//! and is not there when it has ended. An entry that is stored meanwhile, or again, may be either.

use std::sync::Arc;

use logsvc_logql::engine::StreamResult;
use logsvc_logql::engine::testing::{TestEntry, TestStore};
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_shards::types::StreamDefinition;

/// The effect of a removal on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It must be there.
    Stays,
    /// It must be there no more when the removal has ended.
    Goes,
    /// It was stored while the removal was under way.
    MayGo,
}

/// An entry that was stored.
#[derive(Debug)]
struct Known {
    entry: TestEntry,
    /// False if it may have come earlier than it was acknowledged, among the entries of its time.
    is_placed: bool,
    fate: Fate,
}

/// One stream.
#[derive(Debug)]
pub(crate) struct Stream {
    pub(crate) definition: StreamDefinition,
    known: Vec<Known>,
    /// Entries that may show after the next start, but not before it.
    doubtful: Vec<TestEntry>,
}

impl Stream {
    pub(crate) fn entries(&self) -> impl ExactSizeIterator<Item = &TestEntry> {
        self.known.iter().map(|known| &known.entry)
    }

    /// Smallest and largest time; `None` without entries.
    pub(crate) fn bounds_ns(&self) -> Option<(i64, i64)> {
        let first = self.known.first()?.entry.timestamp_ns;
        Some((first, self.known.last()?.entry.timestamp_ns))
    }

    fn find(&mut self, entry: &TestEntry) -> Option<&mut Known> {
        let from = self.known.partition_point(|k| k.entry.timestamp_ns < entry.timestamp_ns);
        let same_time = self.known[from..]
            .iter_mut()
            .take_while(|known| known.entry.timestamp_ns == entry.timestamp_ns);
        same_time.into_iter().find(|known| known.entry == *entry)
    }

    /// Whether an entry is known. It may come again then.
    fn knows(&mut self, entry: &TestEntry) -> bool {
        let Some(known) = self.find(entry) else { return false };
        if known.fate == Fate::Goes {
            known.fate = Fate::MayGo;
        }
        true
    }

    pub(crate) fn stored(&mut self, entry: &TestEntry) {
        if !self.knows(entry) {
            let index = self.known.partition_point(|k| k.entry.timestamp_ns <= entry.timestamp_ns);
            let is_placed = !self.doubtful.contains(entry);
            self.known.insert(index, Known { entry: entry.clone(), is_placed, fate: Fate::Stays });
        }
    }

    pub(crate) fn doubted(&mut self, entry: &TestEntry) {
        if !self.knows(entry) && !self.doubtful.contains(entry) {
            self.doubtful.push(entry.clone());
        }
    }

    /// A removal of some entries begins.
    pub(crate) fn removal_begins(&mut self, takes: impl Fn(&TestEntry) -> bool) {
        let taken = self.known.iter_mut().filter(|known| takes(&known.entry));
        taken.for_each(|known| known.fate = Fate::Goes);
    }

    /// Entries have come while a removal is under way.
    pub(crate) fn removal_goes_on(&mut self, takes: impl Fn(&TestEntry) -> bool) {
        let is_new = |known: &&mut Known| known.fate == Fate::Stays && takes(&known.entry);
        self.known.iter_mut().filter(is_new).for_each(|known| known.fate = Fate::MayGo);
    }

    /// How many entries have come while they were removed.
    pub(crate) fn may_go(&self) -> u64 {
        self.known.iter().filter(|known| known.fate == Fate::MayGo).count() as u64
    }

    /// Compares with the entries that the node shows when no removal is under way, and
    /// gives the entries that are gone.
    fn removal_ends(&mut self, shown: &[TestEntry], is_complete: bool) -> Vec<TestEntry> {
        let labels = &self.definition.labels;
        let order = |entry: &TestEntry| shown.iter().position(|other| other == entry);
        let mut gone = Vec::new();
        self.known.retain(|known| {
            let is_shown = order(&known.entry).is_some();
            let may_stay = known.fate != Fate::Goes || !is_complete;
            assert!(!is_shown || may_stay, "{labels:?} still has {known:?}");
            let may_lack = known.fate != Fate::Stays;
            assert!(is_shown || may_lack, "{labels:?} lacks {known:?}");
            if !is_shown {
                gone.push(known.entry.clone());
            }
            is_shown
        });
        assert_eq!(self.known.len(), shown.len(), "{labels:?} shows what is not there: {shown:?}");
        self.check_order(shown);
        self.known.sort_by_key(|known| order(&known.entry));
        self.known.iter_mut().for_each(|known| known.fate = Fate::Stays);
        gone
    }

    fn check_order(&self, shown: &[TestEntry]) {
        let labels = &self.definition.labels;
        let is_placed = |known: &&Known| known.is_placed && known.fate == Fate::Stays;
        let placed: Vec<&TestEntry> =
            self.known.iter().filter(is_placed).map(|known| &known.entry).collect();
        let in_answer: Vec<&TestEntry> =
            shown.iter().filter(|entry| placed.contains(entry)).collect();
        assert!(in_answer == placed, "{labels:?}: the order of arrival has changed: {shown:?}");
    }

    /// Compares with the entries that the node shows after a start, and ends all doubts.
    fn adopt(&mut self, shown: Vec<TestEntry>) {
        let labels = &self.definition.labels;
        assert!(
            shown.is_sorted_by_key(|entry| entry.timestamp_ns),
            "{labels:?} is not in time order: {shown:?}"
        );
        for (index, entry) in shown.iter().enumerate() {
            assert!(!shown[..index].contains(entry), "{labels:?} shows twice: {entry:?}");
            let is_known = self.known.iter().any(|known| known.entry == *entry);
            let may_be = is_known || self.doubtful.contains(entry);
            assert!(may_be, "{labels:?} shows what is not there: {entry:?}");
        }
        for known in self.known.iter().filter(|known| known.fate == Fate::Stays) {
            assert!(shown.contains(&known.entry), "{labels:?} lacks {known:?}");
        }
        self.check_order(&shown);
        let known = |entry| Known { entry, is_placed: true, fate: Fate::Stays };
        self.known = shown.into_iter().map(known).collect();
        self.doubtful.clear();
    }
}

/// All streams of all tenants.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) streams: Vec<Stream>,
}

impl Model {
    pub(crate) fn add(&mut self, tenant: &TenantId, labels: Labels) {
        let id = StreamId::new(tenant, &labels);
        let definition = StreamDefinition { id, tenant: tenant.clone(), labels: Arc::new(labels) };
        self.streams.push(Stream { definition, known: Vec::new(), doubtful: Vec::new() });
    }

    pub(crate) fn tenants(&self) -> Vec<TenantId> {
        let mut tenants: Vec<TenantId> =
            self.streams.iter().map(|stream| stream.definition.tenant.clone()).collect();
        tenants.sort();
        tenants.dedup();
        tenants
    }

    pub(crate) fn of<'m>(&'m self, tenant: &'m TenantId) -> impl Iterator<Item = &'m Stream> {
        self.streams.iter().filter(move |stream| stream.definition.tenant == *tenant)
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.streams.iter().map(|stream| stream.known.len()).sum()
    }

    /// Smallest and largest time of all.
    pub(crate) fn bounds_ns(&self) -> Option<(i64, i64)> {
        let bounds = || self.streams.iter().filter_map(Stream::bounds_ns);
        Some((bounds().map(|b| b.0).min()?, bounds().map(|b| b.1).max()?))
    }

    /// The store that answers any query over a tenant's entries.
    pub(crate) fn store(&self, tenant: &TenantId) -> TestStore {
        let mut store = TestStore::new();
        for stream in self.of(tenant) {
            for entry in stream.entries() {
                store.push(&stream.definition.labels, entry.clone());
            }
        }
        store
    }

    /// Compares with all that the node shows of a tenant after a start, and ends all
    /// doubts.
    pub(crate) fn adopt(&mut self, tenant: &TenantId, shown: &[StreamResult]) {
        for result in shown {
            let is_known = self.of(tenant).any(|s| *s.definition.labels == result.labels);
            assert!(is_known, "{tenant} shows an unknown stream {:?}", result.labels);
        }
        for stream in self.streams.iter_mut().filter(|s| s.definition.tenant == *tenant) {
            let mut of_stream = shown.iter().filter(|r| r.labels == *stream.definition.labels);
            let entries = of_stream.next().map_or(Vec::new(), entries_of);
            assert!(of_stream.next().is_none(), "{:?} is shown twice", stream.definition.labels);
            stream.adopt(entries);
        }
    }
}

impl Model {
    /// Compares with all that the node shows of a tenant when no removal is under way. Gives
    /// the entries that are gone, with the indices of their streams.
    pub(crate) fn removal_ends(
        &mut self,
        tenant: &TenantId,
        shown: &[StreamResult],
        is_complete: bool,
    ) -> Vec<(usize, TestEntry)> {
        let mut gone = Vec::new();
        for (index, stream) in self.streams.iter_mut().enumerate() {
            if stream.definition.tenant != *tenant {
                continue;
            }
            let mut of_stream = shown.iter().filter(|r| r.labels == *stream.definition.labels);
            let entries = of_stream.next().map_or(Vec::new(), entries_of);
            let gone_here = stream.removal_ends(&entries, is_complete);
            gone.extend(gone_here.into_iter().map(|entry| (index, entry)));
        }
        gone
    }
}

/// The entries of an answer with categorised labels.
pub(crate) fn entries_of(result: &StreamResult) -> Vec<TestEntry> {
    let entry = |entry: &logsvc_logql::engine::ResultEntry| {
        let metadata = entry.categories.iter().flat_map(|c| c.structured_metadata.iter());
        TestEntry {
            timestamp_ns: entry.timestamp_ns,
            line: entry.line.to_vec(),
            metadata: metadata.map(|(n, v)| (n.to_owned(), v.to_owned())).collect(),
        }
    };
    result.entries.iter().map(entry).collect()
}
