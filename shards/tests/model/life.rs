//! The life of a store: starts with changing numbers of shards, pushes, flushes,
//! merges, failing disks, stops, kills, power losses; and queries all the time.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::testing::{TestEntry, TestStore};
use logsvc_proto::TenantId;
use logsvc_runtime::CoreId;
use logsvc_runtime::mesh::PendingReply;
use logsvc_runtime::sim::{DiskOperation, FaultRates, Simulation};
use logsvc_segment::batch::BatchBuilder;
use logsvc_shards::compact::{CompactionPolicy, DraftPolicy};
use logsvc_shards::deletion::DeleteFilters;
use logsvc_shards::messages::{AppendError, AppendRequest, ShardReply, ShardRequest};
use logsvc_shards::retention::RetentionPolicy;
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::wal::SyncPolicy;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{
    Cluster, DATA_DIR, SEGMENTS_DIR, Upkeep, WAL_DIR, append_outcome, send_append,
};
use crate::data::Source;
use crate::naive::Model;
use crate::queries::{QueryWriter, Tally, compare, compare_labels};

const FULL: u64 = 1 << 40;

/// Entries of a push for one shard, each with the index of its stream in the model.
type Part = Vec<(usize, TestEntry)>;

pub(crate) struct Life<'s> {
    rng: Rng,
    simulation: &'s Simulation,
    source: Source,
    pub(crate) model: Model,
    /// The model's stores, until the model changes.
    stores: BTreeMap<TenantId, TestStore>,
    /// Whether segments are merged.
    pub(crate) merges: bool,
    /// The requests for deletion that the next start knows.
    pub(crate) deletions: DeleteFilters,
    /// When entries expire.
    pub(crate) retention: Arc<RetentionPolicy>,
    tally: Tally,
    refused_pushes: u64,
    sealed: u64,
    drafts: u64,
    merged: u64,
    /// Streams that left the memory.
    forgotten: u64,
}

impl<'s> Life<'s> {
    pub(crate) fn new(simulation: &'s Simulation, seed: u64) -> Life<'s> {
        let mut rng = Rng::new(seed);
        let mut source = Source::new(Rng::new(rng.next_u64()));
        let model = source.model();
        Life {
            rng,
            simulation,
            source,
            model,
            stores: BTreeMap::new(),
            merges: true,
            deletions: Arc::from([]),
            retention: Arc::default(),
            tally: Tally::default(),
            refused_pushes: 0,
            sealed: 0,
            drafts: 0,
            merged: 0,
            forgotten: 0,
        }
    }

    /// How many numbers went into lines.
    pub(crate) fn numbers(&self) -> u64 {
        self.source.numbers()
    }

    /// Streams get much at once from now on.
    pub(crate) fn burst(&mut self) {
        self.source.burst();
    }

    fn wal(&mut self) -> WalConfig {
        WalConfig {
            sync: SyncPolicy::Always,
            file_max_bytes: self.rng.between(500, 40_000),
            ..WalConfig::default()
        }
    }

    fn seal(&mut self) -> SealPolicy {
        let rng = &mut self.rng;
        SealPolicy {
            head_max_bytes: *rng.pick(&[300, 2_000, 20_000, 1 << 40]),
            wal_max_bytes: *rng.pick(&[2_000, 1 << 40]),
            max_age: *rng.pick(&[Duration::from_millis(2), Duration::MAX]),
            on_stop: rng.one_in(2),
        }
    }

    fn upkeep(&mut self) -> Upkeep {
        let deletions = Arc::clone(&self.deletions);
        let retention = Arc::clone(&self.retention);
        // Few of the streams fit, so that they leave the memory and come back.
        let streams_max_bytes = *self.rng.pick(&[1 << 30, 1 << 30, 8_000, 15_000]);
        let upkeep = Upkeep { deletions, retention, streams_max_bytes, ..self.seal().into() };
        let upkeep = upkeep.with_some_partitions(self.simulation);
        let rng = &mut self.rng;
        if rng.one_in(4) || !self.merges {
            return upkeep;
        }
        let compaction = CompactionPolicy {
            max_runs: 1 << 22,
            enabled: true,
            min_inputs: rng.between(2, 3) as usize,
            min_last_inputs: 2,
            max_inputs: rng.between(3, 8) as usize,
            target_line_bytes: rng.between(1 << 13, 1 << 20),
            small_line_bytes: rng.between(100, 100_000),
            min_bundled: rng.between(1, 4) as usize,
            max_bundled: rng.between(2, 6) as usize,
            max_bundled_blocks: rng.between(1, 100),
            drafts: rng.one_in(2).then(|| DraftPolicy {
                fast: *rng.pick(&[Duration::ZERO, Duration::from_millis(1), Duration::MAX]),
                fill_max: Duration::MAX,
                max_line_bytes: *rng.pick(&[5_000, 1 << 40]),
                quiet: Duration::from_micros(rng.between(10, 20_000)),
            }),
            retry_pause: Duration::from_micros(rng.between(100, 5_000)),
            check_interval: Duration::from_secs(1),
        };
        Upkeep { compaction, ..upkeep }
    }

    /// Lets a start be interrupted.
    fn stumble(&mut self) {
        while self.rng.one_in(6) {
            let (wal, upkeep) = (self.wal(), self.upkeep());
            let shards = self.rng.between(1, 4) as u16;
            let cluster = Cluster::launch(self.simulation, shards, wal, upkeep);
            for _ in 0..self.rng.below(500) {
                self.simulation.step();
            }
            if self.rng.one_in(2) {
                cluster.node.crash();
            } else {
                cluster.node.power_off();
            }
        }
    }

    pub(crate) fn start(&mut self, shards: u16) -> Cluster<'s> {
        self.stumble();
        let (wal, upkeep) = (self.wal(), self.upkeep());
        let cluster = Cluster::start_sealing(self.simulation, shards, wal, upkeep)
            .unwrap_or_else(|failure| panic!("the node does not start: {failure}"));
        let found = cluster.recovery();
        assert_eq!((found.damaged_places, found.unsynced_holes), (0, 0), "{found:?}");
        for status in cluster.statuses() {
            assert_eq!(status.seal.damaged_segments, 0, "{:?}", status.seal);
        }
        self.stores.clear();
        for tenant in self.model.tenants() {
            self.model.adopt(&tenant, &cluster.everything(&tenant));
        }
        cluster
    }

    fn request(&mut self, part: &Part, define: bool) -> AppendRequest {
        let mut builder = BatchBuilder::new(Vec::new());
        let mut definitions = Vec::new();
        let mut open = None;
        let shares = part.len().is_multiple_of(2);
        for (stream, entry) in part {
            let definition = &self.model.streams[*stream].definition;
            if open != Some(*stream) {
                builder.end();
                builder.begin(definition.id);
                open = Some(*stream);
                if define {
                    definitions.push(definition.clone());
                }
            }
            // In either form, also when it is pushed again.
            let (shared, own): (Vec<_>, Vec<_>) = (entry.metadata.iter())
                .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
                .partition(|(name, _)| shares && *name == b"level");
            builder.push_sharing(entry.timestamp_ns, &entry.line, &shared, own.into_iter());
        }
        AppendRequest {
            batch: builder.finish(),
            definitions,
            out_of_order_window_ns: None,
            is_replayed: false,
        }
    }

    /// Sends a random push to all shards that it concerns.
    fn send(&mut self, cluster: &Cluster<'_>) -> Vec<(u16, Part, PendingReply<ShardReply>)> {
        let entries = self.source.push(&self.model);
        self.send_entries(cluster, entries)
    }

    fn send_entries(
        &mut self,
        cluster: &Cluster<'_>,
        entries: Part,
    ) -> Vec<(u16, Part, PendingReply<ShardReply>)> {
        let mut by_shard: BTreeMap<u16, Part> = BTreeMap::new();
        for (stream, entry) in entries {
            let shard = cluster.layout.core_of(self.model.streams[stream].definition.id);
            by_shard.entry(shard).or_default().push((stream, entry));
        }
        let caller = cluster.caller(self.rng.below(u64::from(cluster.shards)) as u16);
        let mut sent = Vec::new();
        for (shard, part) in by_shard {
            let define = self.rng.one_in(2);
            let request = self.request(&part, define);
            let reply = send_append(&caller, shard, request).expect("the lanes have room");
            sent.push((shard, part, reply));
        }
        sent
    }

    /// Pushes and waits for the outcome. Returns whether everything was stored.
    pub(crate) fn push(&mut self, cluster: &Cluster<'_>) -> bool {
        let entries = self.source.push(&self.model);
        self.push_entries(cluster, entries)
    }

    /// The same of these entries.
    pub(crate) fn push_entries(&mut self, cluster: &Cluster<'_>, entries: Part) -> bool {
        let mut all_stored = true;
        for (shard, part, reply) in self.send_entries(cluster, entries) {
            let mut outcome = cluster.run(append_outcome(reply)).expect("an answer");
            if let Err(AppendError::UnknownStream) = outcome {
                let request = self.request(&part, true);
                let reply = send_append(&cluster.caller(0), shard, request);
                let reply = reply.expect("the lanes have room");
                outcome = cluster.run(append_outcome(reply)).expect("an answer");
            }
            all_stored &= outcome.is_ok();
            match outcome {
                Ok(outcome) => {
                    // Streams that find no memory are refused, and the others are stored.
                    let refused = &outcome.refused_streams;
                    let refused_entries: u64 = refused.iter().map(|(_, entries)| entries).sum();
                    let stored = part.len() as u64 - refused_entries;
                    assert_eq!(outcome.accepted, stored, "{outcome:?}");
                    self.stores.clear();
                    for (at, entry) in &part {
                        let stream = &mut self.model.streams[*at];
                        if !refused.iter().any(|(id, _)| *id == stream.definition.id) {
                            stream.stored(entry);
                        }
                    }
                }
                Err(AppendError::Disk(_)) => self.doubt(&part),
                // Refused before anything was written.
                Err(AppendError::Log(_) | AppendError::HeadsFull) => {}
                Err(error) => panic!("{error}"),
            }
        }
        self.refused_pushes += u64::from(!all_stored);
        all_stored
    }

    fn doubt(&mut self, part: &Part) {
        part.iter().for_each(|(at, entry)| self.model.streams[*at].doubted(entry));
    }

    /// Asks all shards to seal, and waits or does not.
    pub(crate) fn flush(&mut self, cluster: &Cluster<'_>, waits: bool) -> bool {
        let caller = cluster.caller(0);
        let send = |shard| caller.call(CoreId(shard), ShardRequest::Flush);
        let replies: Vec<_> =
            (0..cluster.shards).map(|shard| send(shard).expect("the lanes have room")).collect();
        if !waits {
            for _ in 0..self.rng.below(60) {
                self.simulation.step();
            }
            return true;
        }
        let flushed = cluster.run(async move {
            let mut all = true;
            for reply in replies {
                match reply.await.expect("an answer") {
                    ShardReply::Flushed(result) => all &= result.is_ok(),
                    other => panic!("{other:?}"),
                }
            }
            all
        });
        self.sealed += u64::from(flushed);
        flushed
    }

    /// Queries and labels of random tenants.
    fn ask(&mut self, cluster: &Cluster<'_>, count: u64) {
        let Some(bounds_ns) = self.model.bounds_ns() else { return };
        let tenants = self.model.tenants();
        for _ in 0..count {
            let tenant = self.rng.pick(&tenants);
            let store = match self.stores.get(tenant) {
                Some(store) => store,
                None => self.stores.entry(tenant.clone()).or_insert(self.model.store(tenant)),
            };
            let numbers = self.source.numbers();
            let mut writer = QueryWriter { rng: &mut self.rng, bounds_ns, numbers };
            let query = writer.query();
            compare(cluster, tenant, store, &query, &mut self.tally);
            if writer.rng.one_in(3) {
                compare_labels(cluster, tenant, &self.model, &mut writer);
            }
        }
    }

    /// Lets the disk be full, or fail.
    pub(crate) fn hurt_disk(&mut self) {
        let disk = self.simulation.disk();
        let rng = &mut self.rng;
        match rng.below(4) {
            0 => disk.set_capacity_bytes(disk.used_bytes() + rng.below(6_000)),
            1 => disk.set_fault_rates(FaultRates {
                reads_per_million: 100_000,
                writes_per_million: 100_000,
                syncs_per_million: 100_000,
                others_per_million: 100_000,
            }),
            _ => {
                let operations = [
                    DiskOperation::Sync,
                    DiskOperation::WriteBack,
                    DiskOperation::Write,
                    DiskOperation::Open,
                    DiskOperation::SyncDir,
                    DiskOperation::Remove,
                    DiskOperation::Read,
                ];
                let folder = *rng.pick(&[WAL_DIR, DATA_DIR, SEGMENTS_DIR]);
                disk.fail_next(*rng.pick(&operations), folder, rng.between(1, 4));
            }
        }
    }

    /// Makes the disk good again.
    pub(crate) fn heal_disk(&self) {
        let disk = self.simulation.disk();
        disk.clear_faults();
        disk.set_capacity_bytes(FULL);
    }

    /// Works on a disk that fails, and makes it good again.
    fn trouble(&mut self, cluster: &Cluster<'_>) {
        self.hurt_disk();
        for _ in 0..self.rng.between(1, 6) {
            match self.rng.below(4) {
                0 => {
                    let waits = self.rng.one_in(2);
                    self.flush(cluster, waits);
                }
                1 => self.ask(cluster, 2),
                _ => {
                    self.push(cluster);
                }
            }
        }
        self.heal_disk();
        if self.rng.one_in(2) {
            self.recover(cluster);
        }
    }

    /// Everything must go again on a good disk without a restart.
    pub(crate) fn recover(&mut self, cluster: &Cluster<'_>) {
        let mut tries = 0;
        while !self.push(cluster) {
            tries += 1;
            assert!(tries < 40, "pushes are refused for good");
            self.simulation.run_for(Duration::from_millis(100));
        }
        while !self.flush(cluster, true) {
            tries += 1;
            assert!(tries < 80, "nothing can be sealed any more");
            self.simulation.run_for(Duration::from_millis(500));
        }
    }

    /// One start of the node, from recovery to its end.
    fn round(&mut self, shards: u16) {
        let cluster = self.start(shards);
        self.ask(&cluster, 3);
        let mut had_trouble = false;
        for _ in 0..self.rng.between(2, 14) {
            match self.rng.below(12) {
                0 => {
                    let waits = self.rng.one_in(2);
                    let flushed = self.flush(&cluster, waits);
                    assert!(flushed || had_trouble, "a flush on a healthy disk failed");
                }
                1 | 2 => self.ask(&cluster, 3),
                3 => self.simulation.run_for(Duration::from_millis(5)),
                4 if self.rng.one_in(2) => {
                    self.trouble(&cluster);
                    had_trouble = true;
                }
                _ => {
                    let stored = self.push(&cluster);
                    assert!(stored || had_trouble, "a push on a healthy disk was refused");
                }
            }
        }
        self.ask(&cluster, 4);
        for status in cluster.statuses() {
            self.sealed += status.seal.sealed;
            self.drafts += status.seal.drafts;
            self.merged += status.seal.maintenance.merges;
            self.forgotten += status.seal.maintenance.forgotten_streams;
        }
        self.end(cluster, had_trouble);
    }

    /// Stops the node, or kills it in the middle of pushes and sealing.
    pub(crate) fn end(&mut self, cluster: Cluster<'_>, had_trouble: bool) {
        let end = self.rng.below(4);
        if end == 0 {
            let stopped = cluster.stop();
            assert!(stopped.is_ok() || had_trouble, "{stopped:?}");
            if self.rng.one_in(2) {
                self.simulation.disk().power_loss();
            }
            return;
        }
        if self.rng.one_in(2) {
            self.flush(&cluster, false);
        }
        let mut under_way = Vec::new();
        for _ in 0..self.rng.below(4) {
            under_way.extend(self.send(&cluster));
            for _ in 0..self.rng.below(40) {
                self.simulation.step();
            }
        }
        if end == 1 {
            cluster.node.crash();
        } else {
            cluster.node.power_off();
        }
        for (_, part, _) in under_way {
            self.doubt(&part);
        }
    }
}

/// The counts of a seed, to be added up.
#[derive(Debug, Default)]
struct Totals {
    entries: u64,
    sealed: u64,
    drafts: u64,
    merged: u64,
    forgotten: u64,
    refused_pushes: u64,
    tally: Tally,
}

fn live(seed: u64, totals: &mut Totals) {
    let _guard = SeedGuard(seed);
    let simulation = Simulation::new(seed);
    let mut life = Life::new(&simulation, seed);
    let path = if life.rng.one_in(3) {
        vec![1, 2, 4, 2]
    } else {
        (0..life.rng.between(1, 4)).map(|_| *life.rng.pick(&[1, 2, 2, 3, 4])).collect()
    };
    for shards in path {
        life.round(shards);
    }
    let cluster = life.start(2);
    life.ask(&cluster, 6);
    cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
    totals.entries += life.model.len() as u64;
    totals.sealed += life.sealed;
    totals.drafts += life.drafts;
    totals.merged += life.merged;
    totals.forgotten += life.forgotten;
    totals.refused_pushes += life.refused_pushes;
    let (sum, one) = (&mut totals.tally, &life.tally);
    sum.queries += one.queries;
    sum.empty += one.empty;
    sum.holes += one.holes;
    sum.stats.add(&one.stats);
}

#[test]
fn queries_see_what_a_naive_model_sees() {
    let seeds = seeds(300);
    let count = seeds.end - seeds.start;
    let mut totals = Totals::default();
    for seed in seeds.clone() {
        live(seed, &mut totals);
    }
    println!("{seeds:?}: {totals:?}");
    // The test would prove nothing if nothing were there, sealed, pruned, or refused.
    if count >= 100 {
        let Totals { entries, sealed, drafts, merged, forgotten, refused_pushes, tally } = totals;
        assert!(entries > 50 * count && sealed > 2 * count && refused_pushes > 0);
        assert!(merged > count / 2 && drafts > count / 4 && forgotten > count);
        assert!(tally.empty * 3 < tally.queries * 2 && tally.holes * 20 < tally.queries);
        assert!(tally.stats.sealed_blocks > count && tally.stats.blocks_filtered > count);
        assert!(tally.stats.head_blocks > count && tally.stats.blocks_searched > 0);
    }
}
