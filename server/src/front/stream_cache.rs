//! Remembers what the label strings of pushed streams resolve to, so that the
//! labels of a known stream are never parsed again.
//!
//! Bounded: when the younger of two generations is full it becomes the older one
//! and what was not used meanwhile is forgotten. Forgetting costs a parse, never
//! an answer.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use ahash::{HashMap, RandomState};
use logsvc_proto::push::{LabelForm, LabelSource};
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_runtime::CoreId;

/// Bytes of keys and labels that one generation may hold, roughly.
const GENERATION_MAX_BYTES: usize = 32 << 20;

/// What a stream costs besides its texts, roughly.
const STREAM_OVERHEAD_BYTES: usize = 256;

/// A resolved stream.
#[derive(Debug)]
pub(super) struct CachedStream {
    pub(super) id: StreamId,
    /// The shard that owns it.
    pub(super) shard: CoreId,
    pub(super) labels: Arc<Labels>,
    /// Whether the owner has stored entries of it, so that it need not be told
    /// again what the id stands for.
    pub(super) announced: Cell<bool>,
    /// What its labels say of the level of all its entries, if anything.
    pub(super) level: Option<Box<[u8]>>,
    /// Why the labels break the tenant's limits, if they do.
    pub(super) refusal: Option<Box<str>>,
}

type Generation = HashMap<TenantId, [HashMap<Box<[u8]>, Rc<CachedStream>>; 4]>;

/// See the module.
#[derive(Debug)]
pub(super) struct StreamCache {
    young: Generation,
    old: Generation,
    young_bytes: usize,
}

impl Default for StreamCache {
    fn default() -> StreamCache {
        StreamCache { young: new_map(), old: new_map(), young_bytes: 0 }
    }
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
    /// What the labels of a tenant's stream resolve to, if that is remembered.
    pub(super) fn get(
        &mut self,
        tenant: &TenantId,
        source: &LabelSource<'_>,
    ) -> Option<Rc<CachedStream>> {
        let form = form_index(source.form);
        if let Some(found) = self.young.get(tenant).and_then(|maps| maps[form].get(source.bytes)) {
            return Some(Rc::clone(found));
        }
        let (key, stream) = self.old.get_mut(tenant)?[form].remove_entry(source.bytes)?;
        self.keep(tenant, form, key, Rc::clone(&stream));
        Some(stream)
    }

    /// Remembers a stream.
    pub(super) fn insert(
        &mut self,
        tenant: &TenantId,
        source: &LabelSource<'_>,
        stream: Rc<CachedStream>,
    ) {
        self.keep(tenant, form_index(source.form), source.bytes.into(), stream);
    }

    fn keep(&mut self, tenant: &TenantId, form: usize, key: Box<[u8]>, stream: Rc<CachedStream>) {
        let bytes = key.len() + stream.labels.as_bytes().len() + STREAM_OVERHEAD_BYTES;
        if self.young_bytes + bytes > GENERATION_MAX_BYTES {
            self.old = std::mem::replace(&mut self.young, new_map());
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        if !self.young.contains_key(tenant) {
            self.young.insert(tenant.clone(), [new_map(), new_map(), new_map(), new_map()]);
        }
        if let Some(maps) = self.young.get_mut(tenant) {
            maps[form].insert(key, stream);
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
            shard: CoreId(0),
            labels: Arc::new(labels),
            announced: Cell::new(false),
            level: None,
            refusal: None,
        })
    }

    #[test]
    fn tenants_do_not_share_and_used_streams_outlive_a_generation() {
        let (a, b) = (TenantId::new("a").unwrap(), TenantId::new("b").unwrap());
        let mut cache = StreamCache::default();
        let used = LabelSource::text(b"{used=\"1\"}");
        let unused = LabelSource::text(b"{unused=\"1\"}");
        cache.insert(&a, &used, stream(1));
        cache.insert(&a, &unused, stream(1));
        assert!(cache.get(&b, &used).is_none());
        for round in 0..4u32 {
            cache.insert(&a, &LabelSource::text(&round.to_le_bytes()), stream(20 << 20));
            assert!(cache.get(&a, &used).is_some(), "round {round}");
        }
        assert!(cache.get(&a, &unused).is_none());
    }
}
