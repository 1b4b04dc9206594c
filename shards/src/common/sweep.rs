//! Removes objects that no node needs any more: the keeper does it for all.
//!
//! Guarantees:
//! - Only objects that were in a listing go, and what decides was read behind the listing: a map of which
//!   was seen that no newer one is there, and the logs of all writers of that map. So an object whose
//!   writer is in no map, and that no log names, will never be named: its writer was ended before.
//! - A segment that is live no more goes [`SweepConfig::delay`] after the keeper has seen that: nodes may
//!   read it meanwhile. That it was removed stays in the logs, so whoever adopts an older log does not
//!   bring it back.
//! - Of the log of common files the newest [`KEPT_ENTRIES`] entries stay ([`super::newest`]).
//! - A write-ahead log goes when its writer has ended, owns nothing, and is in no heritage, since that
//!   stays so. What excludes its writer stays for ever.
//!
//! What can go wrong: a query that takes longer than the delay finds an object missing, and fails.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use logsvc_cluster::map::{Epoch, Map};
use logsvc_cluster::member::Input;
use logsvc_runtime::{Latch, Monotonic, Runtime};
use logsvc_store::bucket::ObjectInfo;
use logsvc_store::log::LogError;
use logsvc_store::{ObjectName, Store, StoreError};

use super::CommonFiles;
use super::newest::{KEPT_ENTRIES, entries};
use crate::follower::{list, remove_ended};
use crate::kept::{FileObject, OBJECTS};
use crate::ledger::{LogPlace, Logs, LogsError, SWEPT_AGE, Union};
use crate::manifest::SegmentName;
use crate::member::{MemberHandle, newest_is};

/// How long each request has patience.
const PATIENCE: Duration = Duration::from_secs(300);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(30);

/// Settings of a [`CommonSweep`].
#[derive(Clone, Copy, Debug)]
pub struct SweepConfig {
    /// How often objects are listed. Requests and memory grow with their number.
    pub interval: Duration,
    /// How long segments stay when they are live no more.
    pub delay: Duration,
    /// How long an entry of the log of common files stays at least when a newer one is there. Longer than
    /// the listings of any store are behind, and than requests are on their way.
    pub entry_age: Duration,
}

impl Default for SweepConfig {
    fn default() -> SweepConfig {
        let two_hours = Duration::from_secs(2 * 3600);
        let entry_age = Duration::from_secs(3600);
        SweepConfig { interval: two_hours, delay: two_hours, entry_age }
    }
}

/// Why a sweep has not come to its end. Whatever it has removed nobody needs.
#[derive(Debug, thiserror::Error)]
enum SweepError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error(transparent)]
    Logs(#[from] LogsError),
    /// Another node keeps the files by now.
    #[error("another node is to do it")]
    Elsewhere,
}

/// What a sweep has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Swept {
    /// Objects that were removed.
    removed: u64,
    /// Since when it is known of the oldest segment whose object waits to be removed.
    oldest: Option<Monotonic>,
    /// Writers that have ended, and whose write-ahead logs somebody needs, or may need.
    needed_logs: u64,
}

/// See the module. One per node, on core 0; it works while the node is the keeper.
pub struct CommonSweep<R: Runtime> {
    runtime: R,
    store: Store<R>,
    member: MemberHandle,
    files: CommonFiles<R>,
    config: SweepConfig,
    me: Epoch,
    logs: Logs,
    /// Since when segments are known to be live no more.
    gone_since: BTreeMap<SegmentName, Monotonic>,
    /// A sweep: when it has begun, and when it has looked. Once all that it has found is gone, the bucket
    /// has nothing that was of no need before it began.
    mark: Option<(Monotonic, Monotonic)>,
}

impl<R: Runtime> std::fmt::Debug for CommonSweep<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CommonSweep").field("config", &self.config).finish_non_exhaustive()
    }
}

/// The objects of a bucket that may go.
struct Listed {
    segments: Vec<ObjectInfo>,
    files: Vec<ObjectInfo>,
    /// Those of write-ahead logs, by their writers.
    logs: BTreeMap<u32, Vec<(LogPlace, ObjectInfo)>>,
    /// Writers that have begun long ago.
    old_writers: BTreeSet<u32>,
    /// The store's own time is at least this.
    now_ns: i64,
}

impl<R: Runtime> CommonSweep<R> {
    /// The sweep of a member.
    pub fn new(
        runtime: R,
        store: Store<R>,
        member: MemberHandle,
        files: CommonFiles<R>,
        config: SweepConfig,
    ) -> CommonSweep<R> {
        let me = member.routes().get().me;
        CommonSweep {
            runtime,
            store,
            member,
            files,
            config,
            me,
            logs: Logs::default(),
            gone_since: BTreeMap::new(),
            mark: None,
        }
    }

    /// Sweeps again and again while the node is the keeper, until the latch is triggered.
    pub async fn run(mut self, stop: Latch) {
        let mut stopped = pin!(stop.wait());
        loop {
            let step = async {
                let view = self.files.view();
                if view.keeper_since == 0 {
                    // What was read takes memory, and is read again by the next keeper.
                    (self.logs, self.gone_since) = (Logs::default(), BTreeMap::new());
                    self.mark = None;
                    self.files.shared.clean_until.set(None);
                    self.files.changed(&view).await;
                    return;
                }
                let pause = match self.sweep().await {
                    Ok(Swept { removed, oldest, needed_logs }) => {
                        let waits = oldest.is_some();
                        tracing::debug!(removed, waits, needed_logs, "swept the bucket");
                        self.config.interval
                    }
                    Err(error) => {
                        tracing::warn!("cannot look for objects to be removed: {error}");
                        PAUSE
                    }
                };
                self.runtime.sleep_until(self.runtime.now().after(pause)).await;
            };
            if let Either::Left(_) = select(&mut stopped, pin!(step)).await {
                return;
            }
        }
    }

    fn until(&self) -> Monotonic {
        self.runtime.now().after(PATIENCE)
    }

    async fn sweep(&mut self) -> Result<Swept, SweepError> {
        let begun = self.runtime.now();
        let listed = self.list().await?;
        // Behind the listing. See the module.
        let map = self.newest_map().await?;
        let positions = map.positions().into_iter().map(|(epoch, at)| (epoch.0, at)).collect();
        let until = self.until();
        self.logs.read_on(&self.store, &positions, until).await?;
        let union = self.logs.union();
        let seen = self.runtime.now();
        let mut swept = self.sweep_segments(&listed.segments, &map, &union, seen).await?;
        swept.removed += self.sweep_files(&listed.files, &map).await?;
        self.sweep_logs(&listed, &map, &mut swept).await?;
        swept.removed += self.sweep_entries(listed.now_ns).await?;
        let (mark_begun, mark_seen) = *self.mark.get_or_insert((begun, seen));
        if swept.needed_logs == 0 && swept.oldest.is_none_or(|oldest| oldest > mark_seen) {
            self.files.shared.clean_until.set(Some(mark_begun));
            self.mark = Some((begun, seen));
        }
        Ok(swept)
    }

    async fn list(&self) -> Result<Listed, SweepError> {
        let writers = self.list_folder("writers").await?;
        let segments = self.list_folder("seg").await?;
        let files = self.list_folder(OBJECTS).await?;
        let in_logs = self.list_folder("wal").await?;
        let all = writers.iter().chain(&segments).chain(&files).chain(&in_logs);
        // The store's own time is at least this.
        let now_ns = all.map(|info| info.created_ns).max().unwrap_or(i64::MIN);
        let min_age_ns = i64::try_from(SWEPT_AGE.as_nanos()).unwrap_or(i64::MAX);
        let is_old = |info: &&ObjectInfo| now_ns.saturating_sub(info.created_ns) > min_age_ns;
        let old_writers = writers.iter().filter(is_old).filter_map(|info| writer_of(&info.name));
        let old_writers = old_writers.collect();
        let mut logs: BTreeMap<u32, Vec<(LogPlace, ObjectInfo)>> = BTreeMap::new();
        for info in in_logs {
            let Some(place) = LogPlace::parse("wal", &info.name) else { continue };
            logs.entry(place.epoch).or_default().push((place, info));
        }
        Ok(Listed { segments, files, logs, old_writers, now_ns })
    }

    async fn list_folder(&self, folder: &str) -> Result<Vec<ObjectInfo>, SweepError> {
        Ok(list(&self.store, folder, self.until()).await?)
    }

    /// A map behind which there is none at a moment of this call.
    async fn newest_map(&self) -> Result<Map, SweepError> {
        let until = self.until();
        while self.runtime.now() < until && self.files.view().keeper_since > 0 {
            let (number, map) = self.member.map();
            match newest_is(&self.runtime, &self.store, number).await {
                Some(true) => return Ok(map),
                Some(false) => self.member.tell(Input::Heard(number + 1)),
                None => {}
            }
            self.runtime.sleep_until(self.runtime.now().after(Duration::from_millis(100))).await;
        }
        Err(SweepError::Elsewhere)
    }

    async fn sweep_segments(
        &mut self,
        objects: &[ObjectInfo],
        map: &Map,
        union: &Union,
        now: Monotonic,
    ) -> Result<Swept, SweepError> {
        self.gone_since.retain(|name, _| union.gone.contains_key(name));
        let mut swept = Swept::default();
        for info in objects {
            let Some(name) = SegmentName::of_object(&info.name) else { continue };
            if union.stored.live.contains_key(&name) {
                continue;
            }
            if union.gone.contains_key(&name) {
                let since = *self.gone_since.entry(name).or_insert(now);
                if now.since(since) < self.config.delay {
                    swept.oldest = Some(swept.oldest.map_or(since, |oldest| oldest.min(since)));
                    continue;
                }
            } else if map.members.contains_key(&Epoch(name.epoch)) {
                // Its writer knows whether it is on its way.
                continue;
            }
            self.store.remove(&info.name, self.until()).await?;
            swept.removed += 1;
        }
        Ok(swept)
    }

    /// Contents of common files that were never named, because their keeper was ended.
    async fn sweep_files(&self, objects: &[ObjectInfo], map: &Map) -> Result<u64, SweepError> {
        let view = self.files.view();
        let is_named = |object: &FileObject| {
            view.state.files.values().any(|file| file.object == *object)
                || view.state.gone.contains(object)
        };
        let mut removed = 0;
        for info in objects {
            let Some(object) = FileObject::parse(&info.name) else { continue };
            if is_named(&object) || map.members.contains_key(&Epoch(object.epoch)) {
                continue;
            }
            self.store.remove(&info.name, self.until()).await?;
            removed += 1;
        }
        Ok(removed)
    }

    async fn sweep_logs(
        &self,
        listed: &Listed,
        map: &Map,
        swept: &mut Swept,
    ) -> Result<(), SweepError> {
        let slots = || map.slots.iter();
        let heirs_of: BTreeSet<Epoch> = slots().flat_map(|slot| slot.heritage.clone()).collect();
        let owners: BTreeSet<Epoch> = slots().filter_map(|slot| slot.owner).collect();
        for (&writer, objects) in &listed.logs {
            let epoch = Epoch(writer);
            if map.members.contains_key(&epoch) {
                continue;
            }
            let is_needed = heirs_of.contains(&epoch) || owners.contains(&epoch);
            // One that no map knows may be about to join.
            let has_ended = map.ended.contains_key(&epoch) || listed.old_writers.contains(&writer);
            if is_needed || !has_ended {
                swept.needed_logs += 1;
                continue;
            }
            let until = self.until();
            swept.removed +=
                remove_ended(&self.runtime, &self.store, self.me.0, objects, until).await?;
        }
        Ok(())
    }

    /// Old entries of the log of common files: each says everything. The newest one that this node knows
    /// was created, so it stays, and whoever lists finds it or a newer one.
    async fn sweep_entries(&self, now_ns: i64) -> Result<u64, SweepError> {
        let newest = self.files.view().number();
        let entries = entries(&self.store, self.until()).await?;
        let min_age_ns = i64::try_from(self.config.entry_age.as_nanos()).unwrap_or(i64::MAX);
        let mut removed = 0;
        for (at, (number, info)) in entries.iter().enumerate() {
            let behind = entries[at..].iter().find(|(other, _)| other > number);
            let is_replaced = behind
                .is_some_and(|(_, behind)| now_ns.saturating_sub(behind.created_ns) >= min_age_ns);
            // The oldest first: whatever stands behind one that is there was never removed.
            if number.saturating_add(KEPT_ENTRIES) >= newest || !is_replaced {
                break;
            }
            self.store.remove(&info.name, self.until()).await?;
            removed += 1;
        }
        Ok(removed)
    }
}

/// The epoch of a writer's object.
fn writer_of(name: &ObjectName) -> Option<u32> {
    let text = name.as_str().strip_prefix("writers/")?;
    u32::from_str_radix(text, 16).ok().filter(|_| text.len() == 8)
}
