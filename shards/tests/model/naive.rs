//! The model: the entries of each stream in a list.
//!
//! Entries of equal time are in order of arrival, and an entry that was stored twice stands where
//! it was stored first. Where a fault leaves open whether an entry was stored, the first look after
//! the next start decides: an entry that is shown stays, and an entry that is not shown never comes
//! back.

use std::sync::Arc;

use logsvc_logql::engine::StreamResult;
use logsvc_logql::engine::testing::{TestEntry, TestStore};
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_shards::types::StreamDefinition;

/// An entry that must be there.
#[derive(Debug)]
struct Known {
    entry: TestEntry,
    /// False if it may have come earlier than it was acknowledged, among the entries of its time.
    is_placed: bool,
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

    fn knows(&self, entry: &TestEntry) -> bool {
        let from = self.known.partition_point(|k| k.entry.timestamp_ns < entry.timestamp_ns);
        let same_time = self.known[from..]
            .iter()
            .take_while(|known| known.entry.timestamp_ns == entry.timestamp_ns);
        same_time.into_iter().any(|known| known.entry == *entry)
    }

    pub(crate) fn stored(&mut self, entry: &TestEntry) {
        if !self.knows(entry) {
            let index = self.known.partition_point(|k| k.entry.timestamp_ns <= entry.timestamp_ns);
            let is_placed = !self.doubtful.contains(entry);
            self.known.insert(index, Known { entry: entry.clone(), is_placed });
        }
    }

    pub(crate) fn doubted(&mut self, entry: &TestEntry) {
        if !self.knows(entry) && !self.doubtful.contains(entry) {
            self.doubtful.push(entry.clone());
        }
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
            let may_be = self.knows(entry) || self.doubtful.contains(entry);
            assert!(may_be, "{labels:?} shows what is not there: {entry:?}");
        }
        for known in &self.known {
            assert!(shown.contains(&known.entry), "{labels:?} lacks {known:?}");
        }
        let placed: Vec<&TestEntry> =
            self.known.iter().filter(|known| known.is_placed).map(|known| &known.entry).collect();
        let in_answer: Vec<&TestEntry> =
            shown.iter().filter(|entry| placed.contains(entry)).collect();
        assert!(in_answer == placed, "{labels:?}: the order of arrival has changed: {shown:?}");
        self.known = shown.into_iter().map(|entry| Known { entry, is_placed: true }).collect();
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
