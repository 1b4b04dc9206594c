//! Keeps what was found in the parts of the windows of rules, and evaluates rules with it.
//!
//! A rule over `[5m]` that comes every ten seconds has a window of 30 parts, of which 29 were read
//! before ([`logsvc_logql::engine::WindowParts`]). Parts whose entries have not changed since are
//! taken from the last evaluation, the others are read.
//!
//! Guarantees: an answer is the one of a plain evaluation, bit for bit. As for answers by steps
//! ([`super::results`]), the stamp of the changes is taken before anything is read, and nothing is
//! kept of a leaf that failed or had to leave out unreadable blocks. Kept parts never take more
//! than their budget, and one window an eighth of it at most. Clients' queries cannot push them
//! out: the budget is for rules alone.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use logsvc_logql::engine::{KnownParts, LeafPlan, LeafResult, Plan, WindowParts};
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Runtime, SharedCache};
use logsvc_shards::changes::Stamp;
use logsvc_shards::scan::stop_of;
use logsvc_shards::scope::TenantScope;
use logsvc_shards::types::TimeRange;

use super::Querier;
use super::errors::stopped;
use super::execute::{Asked, Executed};
use super::leaves::{inline_or_offloaded, merge_queue};
use super::queue::QueryPermit;
use super::results::LARGEST_PART;
use super::tenants::Tenants;
use crate::metrics::Metric;

/// Parts of windows, of the whole node.
pub(crate) type WindowCache = SharedCache<WindowKey, KeptWindow>;

/// Everything that the parts of a window depend on besides the data and their times.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct WindowKey {
    tenants: Tenants,
    /// See [`WindowParts::key`].
    window: String,
    /// See [`super::Queries::cache_generation`].
    generation: i64,
}

/// The parts of a window, and the stamp of the changes when their entries were read.
#[derive(Debug)]
pub(crate) struct KeptWindow {
    parts: KnownParts,
    stamp: Stamp,
}

/// The window of a leaf that is put together from parts.
struct Window {
    parts: WindowParts,
    key: WindowKey,
    stamp: Stamp,
    known: Option<Arc<KeptWindow>>,
    missing: Range<u32>,
}

impl<R: Runtime> Querier<R> {
    /// [`Querier::execute`] of an instant query that is repeated every `interval_ns`, but for the
    /// parts of its windows that are known.
    ///
    /// # Errors
    /// As for [`Querier::execute`].
    pub(super) async fn execute_in_parts(
        &self,
        tenants: &Tenants,
        plan: &Plan,
        interval_ns: i64,
        permit: &QueryPermit,
    ) -> Result<Executed, ApiError> {
        let scope = tenants.labelled();
        let (mut windows, mut leaves): (Vec<Window>, Vec<LeafPlan>) = (Vec::new(), Vec::new());
        for leaf in plan.leaves() {
            match self.window(tenants, &scope, leaf, interval_ns) {
                Some(window) => windows.push(window),
                None => leaves.push(leaf.clone()),
            }
        }
        // Before known parts are looked at, so that all parts hide the same.
        let version = self.core.node.deletions.version();
        for window in &mut windows {
            self.look_up(window);
            if !window.missing.is_empty() {
                leaves.push(window.parts.leaf_of(&window.missing));
            }
        }
        let mut asked = self.ask_leaves(&scope, leaves, version, permit).await?;
        if !asked.gathered.is_decided() {
            for window in windows {
                self.complete_window(&mut asked, window).await?;
            }
        }
        self.merge(asked, plan, permit).await
    }

    /// The window of a leaf; `None` if it is read as a whole.
    fn window(
        &self,
        tenants: &Tenants,
        scope: &TenantScope,
        leaf: &LeafPlan,
        interval_ns: i64,
    ) -> Option<Window> {
        let parts = leaf.parts(interval_ns)?;
        let (start_ns, end_ns) = parts.entry_bounds_ns();
        // Before anything is read: a later change makes another stamp.
        let range = TimeRange { start_ns, end_ns };
        let stamp = self.stamp(scope, range)?;
        let generation = self.shared.cache_generation.load(Ordering::Acquire);
        let key = WindowKey { tenants: tenants.clone(), window: parts.key(), generation };
        let missing = 0..parts.count();
        Some(Window { parts, key, stamp, known: None, missing })
    }

    /// Finds the parts of a window that are known.
    fn look_up(&self, window: &mut Window) {
        if let Some(kept) = self.shared.windows.get(&window.key) {
            let changed = self.core.node.changes.since(&kept.stamp);
            let missing = window.parts.missing(&kept.parts, &changed);
            if missing != (0..window.parts.count()) {
                (window.known, window.missing) = (Some(kept), missing);
            }
        }
        let (read, all) = (window.missing.len() as u64, u64::from(window.parts.count()));
        self.core.counters().numbers.add(Metric::WindowPartsRead, read);
        self.core.counters().numbers.add(Metric::WindowPartsKept, all - read);
    }

    /// Puts the result of a leaf together, in place of the results for the missing parts, and keeps
    /// the parts for the next time.
    async fn complete_window(&self, asked: &mut Asked, window: Window) -> Result<(), ApiError> {
        let Window { parts, key, stamp, known, missing } = window;
        let fresh: Vec<LeafResult> = asked.gathered.take(parts.leaf_index());
        let bytes = WindowParts::completed_bytes(known.as_ref().map(|kept| &kept.parts), &fresh);
        asked.gathered.reserve(bytes).map_err(|denied| stopped(stop_of(denied)))?;
        let queue = merge_queue(usize::try_from(bytes).unwrap_or(usize::MAX));
        let complete =
            move || parts.completed(known.as_ref().map(|kept| &kept.parts), &missing, fresh);
        match inline_or_offloaded(&self.core.runtime, queue, complete).await {
            Ok((parts, result)) => {
                asked.gathered.put(result);
                if asked.gathered.stats.unreadable_parts == 0 {
                    self.keep_window(key, KeptWindow { parts, stamp });
                }
            }
            Err(failed) => failed.into_iter().for_each(|result| asked.gathered.put(result)),
        }
        Ok(())
    }

    /// Keeps the parts of a window if they are not too large.
    fn keep_window(&self, key: WindowKey, kept: KeptWindow) {
        let own_bytes = kept.stamp.held_bytes() + size_of::<WindowKey>() + 2 * key.window.len();
        let bytes = kept.parts.held_bytes() + own_bytes as u64;
        if bytes <= self.shared.windows.budget().max_bytes() / LARGEST_PART {
            self.shared.windows.put(key, kept, bytes);
        }
    }
}
