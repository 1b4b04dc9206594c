//! Maps the label strings of pushed streams to resolved streams, so that the labels of a known
//! stream are never parsed again.
//!
//! Label strings are told apart by 128 bits of a hash with a random seed, so that they need not be
//! kept themselves. Bounded: when the younger of two generations is full, it becomes the older one,
//! and streams of the old one that were not used are forgotten. Streams that were resolved with
//! former limits are forgotten, too. A forgotten stream costs a parse, never an answer.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use ahash::{HashMap, RandomState};
use logsvc_proto::push::{LabelForm, LabelSource};
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_shards::types::StreamDefinition;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::refusals::Refusal;
use crate::config::Limits;

/// Bytes that one generation may hold at most, roughly, whatever the memory.
const GENERATION_MAX_BYTES: usize = 32 << 20;

/// Bytes of a stream besides its labels, roughly.
const STREAM_OVERHEAD_BYTES: usize = 192;

/// Bytes of a tenant in a generation besides its streams, roughly.
const TENANT_OVERHEAD_BYTES: usize = 640;

/// A resolved stream.
#[derive(Debug)]
pub(super) struct CachedStream {
    pub(super) id: StreamId,
    pub(super) labels: Arc<Labels>,
    /// Whether the owner has stored entries of it, so that the definition of the id need not be
    /// sent again.
    pub(super) announced: Cell<bool>,
    /// The level of all its entries, if its labels tell one.
    pub(super) level: Option<Box<[u8]>>,
    /// Why the labels break the tenant's limits, if they do.
    pub(super) refusal: Option<Box<Refusal>>,
}

impl CachedStream {
    /// The definition for its shard.
    pub(super) fn definition(&self, tenant: &TenantId) -> StreamDefinition {
        let labels = Arc::clone(&self.labels);
        StreamDefinition { id: self.id, tenant: tenant.clone(), labels }
    }
}

type Generation = HashMap<TenantId, TenantStreams>;

/// The streams of a tenant in a generation.
#[derive(Debug)]
struct TenantStreams {
    /// The limits that the streams were resolved with.
    limits: Arc<Limits>,
    /// By the form of the label strings and their hash.
    by_form: [HashMap<u128, Rc<CachedStream>>; 4],
    /// Bytes of the streams and their tenant in their generation.
    bytes: usize,
}

impl TenantStreams {
    fn new(limits: &Arc<Limits>, tenant_bytes: usize) -> TenantStreams {
        let by_form = [new_map(), new_map(), new_map(), new_map()];
        TenantStreams { limits: Arc::clone(limits), by_form, bytes: tenant_bytes }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct StreamCache {
    young: Generation,
    old: Generation,
    young_bytes: usize,
    generation_max_bytes: usize,
    seed: u64,
}

fn new_map<K, V>() -> HashMap<K, V> {
    HashMap::with_hasher(RandomState::with_seeds(5, 6, 7, 8))
}

fn form_index(form: LabelForm) -> usize {
    match form {
        LabelForm::Text => 0,
        LabelForm::JsonObject => 1,
        LabelForm::JsonText => 2,
        LabelForm::Encoded => 3,
    }
}

impl StreamCache {
    /// An empty cache that holds at most about `max_bytes`. `seed` is a number that no
    /// client can guess.
    pub(crate) fn new(max_bytes: u64, seed: u64) -> StreamCache {
        let generation_max_bytes = usize::try_from(max_bytes / 2).unwrap_or(usize::MAX);
        StreamCache {
            young: new_map(),
            old: new_map(),
            young_bytes: 0,
            generation_max_bytes: generation_max_bytes.min(GENERATION_MAX_BYTES),
            seed,
        }
    }

    fn key(&self, source: &LabelSource<'_>) -> u128 {
        xxh3_128_with_seed(source.bytes, self.seed)
    }

    /// The stream of a tenant with these labels under these limits, if it is known.
    pub(super) fn get(
        &mut self,
        tenant: &TenantId,
        limits: &Arc<Limits>,
        source: &LabelSource<'_>,
    ) -> Option<Rc<CachedStream>> {
        let (form, key) = (form_index(source.form), self.key(source));
        if let Some(streams) = self.young.get(tenant)
            && Arc::ptr_eq(&streams.limits, limits)
            && let Some(found) = streams.by_form[form].get(&key)
        {
            return Some(Rc::clone(found));
        }
        let streams = self.old.get_mut(tenant)?;
        if !Arc::ptr_eq(&streams.limits, limits) {
            self.old.remove(tenant);
            return None;
        }
        let stream = streams.by_form[form].remove(&key)?;
        self.keep(tenant, limits, form, key, Rc::clone(&stream));
        Some(stream)
    }

    /// Remembers a stream.
    pub(super) fn insert(
        &mut self,
        tenant: &TenantId,
        limits: &Arc<Limits>,
        source: &LabelSource<'_>,
        stream: Rc<CachedStream>,
    ) {
        self.keep(tenant, limits, form_index(source.form), self.key(source), stream);
    }

    fn keep(
        &mut self,
        tenant: &TenantId,
        limits: &Arc<Limits>,
        form: usize,
        key: u128,
        stream: Rc<CachedStream>,
    ) {
        let bytes = stream.labels.as_bytes().len() + STREAM_OVERHEAD_BYTES;
        let tenant_bytes = TENANT_OVERHEAD_BYTES + tenant.as_str().len();
        let is_known = self.young.contains_key(tenant);
        let more_bytes = if is_known { bytes } else { bytes + tenant_bytes };
        if self.young_bytes + more_bytes > self.generation_max_bytes {
            self.old = std::mem::replace(&mut self.young, new_map());
            self.young_bytes = 0;
        }
        if !self.young.contains_key(tenant) {
            self.young.insert(tenant.clone(), TenantStreams::new(limits, tenant_bytes));
            self.young_bytes += tenant_bytes;
        }
        if let Some(streams) = self.young.get_mut(tenant) {
            if !Arc::ptr_eq(&streams.limits, limits) {
                self.young_bytes = self.young_bytes - streams.bytes + tenant_bytes;
                *streams = TenantStreams::new(limits, tenant_bytes);
            }
            self.young_bytes += bytes;
            streams.bytes += bytes;
            streams.by_form[form].insert(key, stream);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(size: usize) -> Rc<CachedStream> {
        let tenant = TenantId::no_auth();
        let labels = Labels::from_pairs([("a", "x".repeat(size).as_str())]).unwrap();
        Rc::new(CachedStream {
            id: StreamId::new(&tenant, &labels),
            labels: Arc::new(labels),
            announced: Cell::new(false),
            level: None,
            refusal: None,
        })
    }

    #[test]
    fn tenants_do_not_share_and_used_streams_outlive_a_generation() {
        let (a, b) = (TenantId::new("a").unwrap(), TenantId::new("b").unwrap());
        let mut cache = StreamCache::new(1 << 30, 7);
        let used = LabelSource::text(b"{used=\"1\"}");
        let unused = LabelSource::text(b"{unused=\"1\"}");
        let limits = Arc::new(Limits::default());
        cache.insert(&a, &limits, &used, stream(1));
        cache.insert(&a, &limits, &unused, stream(1));
        assert!(cache.get(&b, &limits, &used).is_none());
        for round in 0..4u32 {
            let other = round.to_le_bytes();
            cache.insert(&a, &limits, &LabelSource::text(&other), stream(20 << 20));
            assert!(cache.get(&a, &limits, &used).is_some(), "round {round}");
        }
        assert!(cache.get(&a, &limits, &unused).is_none());
    }

    #[test]
    fn other_limits_forget_the_streams_of_their_tenant_only() {
        let (a, b) = (TenantId::new("a").unwrap(), TenantId::new("b").unwrap());
        let (was, now) = (Arc::new(Limits::default()), Arc::new(Limits::default()));
        let source = LabelSource::text(b"{x=\"1\"}");
        for is_old in [false, true] {
            let mut cache = StreamCache::new(1 << 30, 7);
            cache.insert(&a, &was, &source, stream(1));
            cache.insert(&b, &was, &source, stream(1));
            if is_old {
                for text in [b"one", b"two"] {
                    cache.insert(&b, &was, &LabelSource::text(text), stream(20 << 20));
                }
                assert!(!cache.young.contains_key(&a) && cache.old.contains_key(&a));
            }
            assert!(cache.get(&a, &now, &source).is_none());
            cache.insert(&a, &now, &source, stream(2));
            assert!(cache.get(&a, &now, &source).is_some_and(|s| s.labels.as_bytes().len() > 3));
            assert!(cache.get(&b, &was, &source).is_some());
            let held: usize = cache.young.values().map(|streams| streams.bytes).sum();
            assert_eq!(cache.young_bytes, held);
        }
    }
}
