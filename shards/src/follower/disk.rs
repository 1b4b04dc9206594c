//! The local disk as a cache of the bucket: whose files go, and whose ends come.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use logsvc_runtime::{Monotonic, Runtime};

use super::Follower;
use super::cache::Cache;
use crate::ledger::Ledger;
use crate::manifest::SegmentName;
use crate::messages::{ShardReply, ShardRequest};

/// How often the space on the disk is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Files of segments that the bucket has leave one part in so many of the disk free, and no more than
/// so many bytes.
const DISK_RESERVE: u64 = 20;
const DISK_RESERVE_MAX_BYTES: u64 = 4 << 30;

/// What was chosen, and what has lost its file.
type Evicting = Pin<Box<dyn Future<Output = (Vec<SegmentName>, Vec<SegmentName>)>>>;

/// The files of segments that the bucket has.
pub(super) struct Disk {
    pub(super) cache: Cache,
    /// Segments that lose their files.
    pub(super) evicting: Option<Evicting>,
    next_eviction: Monotonic,
    /// When the space on the disk is looked at.
    next_look: Monotonic,
    /// Bytes that the disk lacks.
    lacking_bytes: u64,
}

impl Disk {
    pub(super) fn new(now: Monotonic) -> Disk {
        let cache = Cache::default();
        Disk { cache, evicting: None, next_eviction: now, next_look: now, lacking_bytes: 0 }
    }
}

impl<R: Runtime> Follower<R> {
    /// Notes which segments of the bucket have files here.
    pub(super) fn look_at_files(&mut self, ledger: &Ledger<R>) {
        let Some(bucket) = self.plan.bucket.clone() else { return };
        for live in self.plan.segments.iter() {
            if !ledger.state.live.contains_key(&live.name) {
                continue;
            }
            if !bucket.without_files.contains(&live.name) {
                self.disk.cache.add(live);
            } else if !bucket.with_tails.contains(&live.name) {
                self.disk.cache.add_absent(live.name);
            }
        }
    }

    /// Has segments lose their files if there are too many, and has the ends of others come.
    pub(super) async fn evict(&mut self) {
        let now = self.runtime.now();
        if self.disk.evicting.is_some() || now < self.disk.next_eviction {
            return;
        }
        if now >= self.disk.next_look {
            self.disk.next_look = now.after(LOOK_INTERVAL);
            let space = self.runtime.disk_space(&self.plan.segments_dir).await;
            self.disk.lacking_bytes = space.map_or(0, |space| {
                let reserve_bytes = (space.total_bytes / DISK_RESERVE).min(DISK_RESERVE_MAX_BYTES);
                let lacking_bytes = reserve_bytes.saturating_sub(space.available_bytes);
                let percent = self.config.cache_max_percent.map_or(100, u64::from);
                let share_bytes = space.total_bytes / 100 * percent.min(100);
                lacking_bytes.max(self.disk.cache.bytes().saturating_sub(share_bytes))
            });
        }
        let max_bytes = self.config.cache_max_bytes.unwrap_or(u64::MAX);
        let excess_bytes =
            self.disk.cache.bytes().saturating_sub(max_bytes).max(self.disk.lacking_bytes);
        let chosen = self.disk.cache.choose(excess_bytes);
        if chosen.is_empty() {
            return;
        }
        let (lanes, names): (_, Arc<[SegmentName]>) = (self.lanes.clone(), chosen.clone().into());
        self.disk.evicting = Some(Box::pin(async move {
            let replies = lanes.ask_all(|| ShardRequest::Evict(Arc::clone(&names))).await;
            let evicted = |reply| match reply {
                ShardReply::Evicted(names) => names,
                _ => Vec::new(),
            };
            (
                chosen,
                replies
                    .map_or_else(|_| Vec::new(), |all| all.into_iter().flat_map(evicted).collect()),
            )
        }));
    }

    /// A segment that no shard has is live no more.
    pub(super) fn end_eviction(&mut self, chosen: &[SegmentName], evicted: &[SegmentName]) {
        evicted.iter().for_each(|name| self.disk.cache.remove(*name));
        let now = self.runtime.now();
        if evicted.len() < chosen.len() {
            // What has failed is not tried again at once.
            self.disk.next_eviction = now.after(LOOK_INTERVAL);
        }
        self.disk.next_look = now;
    }
}
