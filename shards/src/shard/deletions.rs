//! The filters of requests for deletion that a shard knows, and the streams that they select.
//!
//! Each stream has the list of the filters that select it. Streams with equal lists share one. A new
//! stream asks for its list when it shows in the index: a table by label and value leads to the
//! filters that may select it, so requests on other streams cost a new stream next to nothing.
//! Filters without a matcher that names values are tried on each new stream of their tenant.
//!
//! Guarantees: a stream that shows in the index has all known filters that select it. A filter
//! that has ended stays for [`GRACE`], because a query with an older version may be on its way.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ahash::{HashMap, RandomState};
use logsvc_logql::engine::CompiledMatcher;
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::Monotonic;

use super::{Shard, StreamState};
use crate::deletion::{
    DeleteFilter, DeleteFilters, DeleteId, DeletionVersion, FilterWeight, StreamDeletions,
};
use crate::types::TimeRange;

/// How long a filter stays known after its end.
const GRACE: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub(super) struct Deletions {
    filters: BTreeMap<DeleteId, Arc<DeleteFilter>>,
    tenants: BTreeMap<TenantId, TenantFilters>,
    /// The lists of streams, by their ids.
    lists: HashMap<Box<[DeleteId]>, DeleteFilters>,
    /// Filters that have ended, with the time at which they go; rising.
    ended: VecDeque<(Monotonic, DeleteId)>,
}

/// Filters by a value of one label.
type ByValue = BTreeMap<Box<str>, Vec<Arc<DeleteFilter>>>;

/// The filters of one tenant, each in one place.
#[derive(Debug, Default)]
struct TenantFilters {
    /// By the name of a label and the values of which a stream must have one.
    by_value: BTreeMap<Box<str>, ByValue>,
    /// Filters that name no values.
    others: Vec<Arc<DeleteFilter>>,
}

/// The matcher of a filter that names the fewest values, with these.
fn named_values(filter: &DeleteFilter) -> Option<(&str, &[String])> {
    let named = |matcher: &CompiledMatcher| !matcher.is_negated();
    let matchers = filter.matchers.iter().filter(|matcher| named(matcher));
    let values = matchers.filter_map(|m| m.pattern_literals().map(|values| (m.name(), values)));
    // A stream without the label has the empty value.
    let values = values.filter(|(_, values)| !values.iter().any(String::is_empty));
    values.min_by_key(|(_, values)| values.len())
}

impl TenantFilters {
    fn add(&mut self, filter: &Arc<DeleteFilter>) {
        let Some((name, values)) = named_values(filter) else {
            self.others.push(Arc::clone(filter));
            return;
        };
        let by_value = self.by_value.entry(name.into()).or_default();
        for value in values {
            by_value.entry(value.as_str().into()).or_default().push(Arc::clone(filter));
        }
    }

    fn remove(&mut self, filter: &DeleteFilter) {
        let Some((name, values)) = named_values(filter) else {
            self.others.retain(|other| other.id != filter.id);
            return;
        };
        let Some(by_value) = self.by_value.get_mut(name) else { return };
        for value in values {
            if let Some(filters) = by_value.get_mut(value.as_str()) {
                filters.retain(|other| other.id != filter.id);
                if filters.is_empty() {
                    by_value.remove(value.as_str());
                }
            }
        }
        if by_value.is_empty() {
            self.by_value.remove(name);
        }
    }

    fn is_empty(&self) -> bool {
        self.by_value.is_empty() && self.others.is_empty()
    }
}

impl Deletions {
    /// The filters of requests of earlier starts.
    pub(super) fn new(filters: &[Arc<DeleteFilter>]) -> Deletions {
        let mut known = Deletions {
            filters: BTreeMap::new(),
            tenants: BTreeMap::new(),
            lists: HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4)),
            ended: VecDeque::new(),
        };
        filters.iter().for_each(|filter| known.add(filter));
        known
    }

    fn add(&mut self, filter: &Arc<DeleteFilter>) {
        self.tenants.entry(filter.tenant.clone()).or_default().add(filter);
        self.filters.insert(filter.id, Arc::clone(filter));
    }

    /// The filters that select a new stream.
    pub(super) fn matching(&mut self, tenant: &TenantId, labels: &Labels) -> Option<DeleteFilters> {
        let of_tenant = self.tenants.get(tenant)?;
        let named = labels.iter().filter_map(|(name, value)| {
            of_tenant.by_value.get(name).and_then(|by_value| by_value.get(value))
        });
        let found = named.flatten().chain(&of_tenant.others);
        let found: Vec<Arc<DeleteFilter>> =
            found.filter(|filter| filter.selects(tenant, labels)).cloned().collect();
        self.list(found)
    }

    /// The filters of some tenants that hold for a version and overlap a range, by id.
    pub(super) fn holding(
        &self,
        tenants: &[TenantId],
        version: DeletionVersion,
        range: TimeRange,
    ) -> DeleteFilters {
        let holds = |filter: &&Arc<DeleteFilter>| {
            filter.holds_at(version)
                && range.overlaps((filter.start_ns, filter.end_ns))
                && tenants.contains(&filter.tenant)
        };
        self.filters.values().filter(holds).cloned().collect()
    }

    /// The list of some filters that all streams with these filters share.
    fn list(&mut self, mut filters: Vec<Arc<DeleteFilter>>) -> Option<DeleteFilters> {
        if filters.is_empty() {
            return None;
        }
        filters.sort_unstable_by_key(|filter| filter.id);
        let ids: Box<[DeleteId]> = filters.iter().map(|filter| filter.id).collect();
        Some(Arc::clone(self.lists.entry(ids).or_insert_with(|| filters.into())))
    }

    /// When the next filter goes.
    pub(super) fn next_wakeup(&self) -> Option<Monotonic> {
        self.ended.front().map(|(at, _)| *at)
    }
}

/// The address of a list, which tells lists apart.
fn address(list: &DeleteFilters) -> usize {
    Arc::as_ptr(list).cast::<()>() as usize
}

impl Shard {
    /// Makes a filter known, and marks the streams that it selects.
    pub(super) fn hide(&mut self, filter: &Arc<DeleteFilter>) {
        // A request may be sent again.
        self.forget_filter(filter.id);
        self.deletions.ended.retain(|(_, id)| *id != filter.id);
        self.deletions.add(filter);
        self.remark(filter, |filters| filters.push(Arc::clone(filter)));
    }

    /// Notes that a filter has ended.
    pub(super) fn unhide(&mut self, id: DeleteId, now: Monotonic) {
        let is_ended = self.deletions.ended.iter().any(|(_, ended)| *ended == id);
        if self.deletions.filters.contains_key(&id) && !is_ended {
            self.deletions.ended.push_back((now.after(GRACE), id));
        }
    }

    /// Forgets the filters whose time has come.
    #[inline]
    pub(super) fn forget_ended_filters(&mut self, now: Monotonic) {
        while let Some(&(at, id)) = self.deletions.ended.front()
            && at <= now
        {
            self.deletions.ended.pop_front();
            self.forget_filter(id);
        }
    }

    fn forget_filter(&mut self, id: DeleteId) {
        let Some(filter) = self.deletions.filters.remove(&id) else { return };
        if let Some(of_tenant) = self.deletions.tenants.get_mut(&filter.tenant) {
            of_tenant.remove(&filter);
            if of_tenant.is_empty() {
                self.deletions.tenants.remove(&filter.tenant);
            }
        }
        self.remark(&filter, |filters| filters.retain(|other| other.id != id));
        self.deletions.lists.retain(|_, list| Arc::strong_count(list) > 1);
    }

    /// Changes the lists of the streams that a filter selects. Each list is changed once.
    fn remark(&mut self, filter: &DeleteFilter, change: impl Fn(&mut Vec<Arc<DeleteFilter>>)) {
        let Some(index) = self.index.tenant(&filter.tenant) else { return };
        // The old list is kept, so that its address means no other list meanwhile.
        let mut changed: HashMap<usize, (Option<DeleteFilters>, Option<DeleteFilters>)> =
            HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4));
        for slot in index.select(&filter.matchers) {
            let marks = &mut self.streams[slot as usize].deletions;
            let key = marks.as_ref().map_or(0, address);
            let (_, list) = changed.entry(key).or_insert_with(|| {
                let mut filters = marks.as_ref().map_or(Vec::new(), |list| list.to_vec());
                change(&mut filters);
                (marks.clone(), self.deletions.list(filters))
            });
            marks.clone_from(list);
        }
    }
}

/// Picks the filters of streams that hold for one query.
#[derive(Debug)]
pub(super) struct QueryDeletions {
    version: DeletionVersion,
    range: TimeRange,
    /// What is left of a list, by its address. A shard's lists stay while it makes a snapshot.
    left: HashMap<usize, Option<DeleteFilters>>,
}

impl QueryDeletions {
    pub(super) fn new(version: DeletionVersion, range: TimeRange) -> QueryDeletions {
        let left = HashMap::with_hasher(RandomState::with_seeds(1, 2, 3, 4));
        QueryDeletions { version, range, left }
    }

    /// The weight of all filters of the streams so far.
    pub(super) fn weight(&self) -> FilterWeight {
        let filters = self.left.values().flatten().flat_map(|filters| filters.iter());
        filters.fold(FilterWeight::NOTHING, |sum, filter| sum.and(filter.weight))
    }

    /// The filters of a stream that hold and overlap the query's times, if there are any.
    #[inline]
    pub(super) fn of(&mut self, stream: &StreamState) -> Option<Box<StreamDeletions>> {
        let list = stream.deletions.as_ref()?;
        let (version, range) = (self.version, self.range);
        let left = self.left.entry(address(list)).or_insert_with(|| {
            let holds = |filter: &&Arc<DeleteFilter>| {
                filter.holds_at(version) && range.overlaps((filter.start_ns, filter.end_ns))
            };
            let left: Vec<_> = list.iter().filter(holds).cloned().collect();
            (!left.is_empty()).then(|| left.into())
        });
        let filters = Arc::clone(left.as_ref()?);
        Some(Box::new(StreamDeletions { labels: Arc::clone(&stream.labels), filters }))
    }
}

#[cfg(test)]
mod tests;
