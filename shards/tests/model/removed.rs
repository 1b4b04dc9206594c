//! Requests for deletion whose entries are removed from the disk. The answer to any query is the
//! answer of a store into which the hidden entries were never pushed: before the removal, while it
//! is under way, and when it has ended. Entries that come again after the end of their request are
//! visible.
//!
//! Meanwhile entries come late and twice, heads are sealed, segments are merged, the entries of
//! another tenant expire, the disk is full or fails, nodes are killed in the middle, and start with
//! another number of shards.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::QueryParams;
use logsvc_logql::engine::testing::TestEntry;
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_runtime::sim::Simulation;
use logsvc_runtime::{CoreId, Runtime};
use logsvc_segment::batch::BatchBuilder;
use logsvc_shards::deletion::DeleteId;
use logsvc_shards::messages::{AppendRequest, PurgeOutcome, PurgeTarget};
use logsvc_shards::retention::{RetentionPolicy, STEADY_AFTER, TenantPeriods};
use logsvc_shards::types::StreamDefinition;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, append_outcome, send_append};
use crate::data::{SECOND_NS, needle};
use crate::deletions::{Request, Requests, Tally, close_to_entries, compare, compare_now};
use crate::life::Life;
use crate::naive::Stream;
use crate::queries::{Query, QueryWriter, compare_some_labels};
use crate::removal::{Answer, begin, leaving};

const HOUR_NS: i64 = 3_600 * SECOND_NS;

/// Behind the times of most entries.
const CLOCK_NS: i64 = 1_767_225_600 * SECOND_NS + 48 * HOUR_NS;

/// How long the entries of one tenant stay.
const PERIOD_NS: i64 = 30 * HOUR_NS;

/// After so long files must be gone.
const PATIENCE: Duration = Duration::from_secs(600);

/// A part of a request that is being removed.
struct Part {
    request: Arc<Request>,
    start_ns: i64,
    end_ns: i64,
}

impl Part {
    fn takes(&self, stream: &StreamDefinition, entry: &TestEntry) -> bool {
        self.request.filter.tenant == stream.tenant
            && (self.start_ns..=self.end_ns).contains(&entry.timestamp_ns)
            && self.request.hides(&stream.labels, entry)
    }

    fn id(&self) -> DeleteId {
        self.request.filter.id
    }

    fn target(&self) -> PurgeTarget {
        let filter = Arc::clone(&self.request.filter);
        PurgeTarget { filter, start_ns: self.start_ns, end_ns: self.end_ns }
    }
}

/// How many parts a request has, and how many of them are done.
#[derive(Clone, Copy)]
struct Progress {
    parts: u32,
    done: u32,
}

/// Takes a stream, and the test that tells which of its entries go.
type StreamWork = fn(&mut Stream, &dyn Fn(&TestEntry) -> bool);

/// A removal under way.
struct Removal {
    parts: Vec<Part>,
    answers: Rc<RefCell<Option<Vec<Answer>>>>,
}

impl Removal {
    fn each_stream(&self, life: &mut Life<'_>, work: StreamWork) {
        for stream in &mut life.model.streams {
            let definition = stream.definition.clone();
            work(stream, &|entry| self.parts.iter().any(|part| part.takes(&definition, entry)));
        }
    }

    /// Notes the entries that have come.
    fn goes_on(&self, life: &mut Life<'_>) {
        self.each_stream(life, |stream, takes| stream.removal_goes_on(takes));
    }
}

/// Sums over all seeds.
#[derive(Debug, Default)]
struct Removed {
    ended: u64,
    failed: u64,
    /// Bundles of filters at the ends of rounds.
    bundles: u64,
    killed: u64,
    requests: u64,
    entries: u64,
    /// Shards that had to write segments anew for a removal.
    rewrote: u64,
    /// Shards that lost entries, and wrote nothing.
    dropped: u64,
    /// Questions while a removal was under way.
    questions_meanwhile: u64,
    /// Entries that came while they were removed.
    came_meanwhile: u64,
    /// Entries that came again when their request had ended.
    came_again: u64,
    merges: u64,
    expired: u64,
}

/// The requests of a node, and the removal of their entries.
struct Keeping<'r> {
    requests: Requests,
    rng: Rng,
    progress: BTreeMap<DeleteId, Progress>,
    removal: Option<Removal>,
    /// Entries that were removed for requests, with the indices of their streams.
    gone: Vec<(usize, TestEntry)>,
    /// Whether the disk has failed since the start.
    had_trouble: bool,
    removed: &'r mut Removed,
}

impl Keeping<'_> {
    /// Begins to remove the next parts of some requests.
    fn begin(&mut self, cluster: &Cluster<'_>, life: &mut Life<'_>) {
        let rng = &mut self.rng;
        let (_, holding) = self.requests.in_force();
        let count = rng.between(1, 3).min(holding.len() as u64) as usize;
        let first = rng.below((holding.len() + 1 - count) as u64) as usize;
        let mut parts = Vec::new();
        for request in &holding[first..first + count] {
            let (start_ns, end_ns) = (request.filter.start_ns, request.filter.end_ns);
            let progress = self.progress.entry(request.filter.id);
            let Progress { parts: all, done } = *progress.or_insert_with(|| {
                let parts = if rng.one_in(3) { rng.between(2, 4) as u32 } else { 1 };
                Progress { parts, done: 0 }
            });
            let len_ns = (end_ns - start_ns) / i64::from(all) + 1;
            let start_ns = start_ns + i64::from(done) * len_ns;
            let end_ns = end_ns.min(start_ns + len_ns - 1);
            parts.push(Part { request: Arc::clone(request), start_ns, end_ns });
        }
        for part in &parts {
            self.requests.forget_before(part.id());
        }
        let work = begin(cluster, parts.iter().map(Part::target).collect());
        let removal = Removal { parts, answers: Rc::default() };
        let slot = Rc::clone(&removal.answers);
        drop(cluster.node.runtime(CoreId(0)).spawn(async move {
            if let Some(answers) = work.await {
                *slot.borrow_mut() = Some(answers);
            }
        }));
        removal.each_stream(life, |stream, takes| stream.removal_begins(takes));
        self.removal = Some(removal);
    }

    /// Ends a removal if the shards have answered.
    fn end_if_answered(&mut self, cluster: &Cluster<'_>, life: &mut Life<'_>) {
        let Some(removal) = &self.removal else { return };
        removal.goes_on(life);
        let Some(answers) = removal.answers.take() else { return };
        let Some(removal) = self.removal.take() else { return };
        let answers: Result<Vec<PurgeOutcome>, _> = answers.into_iter().collect();
        let outcomes = match answers {
            // A log file that could not be removed is tried again with the next generation.
            Ok(outcomes) if !self.all_have_left(cluster, &outcomes) => {
                self.removed.failed += 1;
                self.settle(cluster, life, false);
                return;
            }
            Ok(outcomes) => outcomes,
            Err(cause) => {
                assert!(self.had_trouble, "{cause}");
                self.removed.failed += 1;
                self.settle(cluster, life, false);
                return;
            }
        };
        for outcome in &outcomes {
            let entries: u64 = outcome.removed.iter().map(|totals| totals.entries).sum();
            self.removed.entries += entries;
            self.removed.rewrote += u64::from(outcome.rewritten_line_bytes > 0);
            self.removed.dropped += u64::from(entries > 0 && outcome.rewritten_line_bytes == 0);
        }
        self.removed.ended += 1;
        self.removed.came_meanwhile += life.model.streams.iter().map(Stream::may_go).sum::<u64>();
        self.settle(cluster, life, true);
        for part in &removal.parts {
            let Some(progress) = self.progress.get_mut(&part.id()) else { continue };
            progress.done += 1;
            if progress.done == progress.parts {
                self.removed.requests += 1;
                self.end_request(cluster, part.id());
            }
        }
    }

    /// Waits until the files have gone that are leaving. Returns false if the disk has failed, and
    /// they stay.
    fn all_have_left(&self, cluster: &Cluster<'_>, outcomes: &[PurgeOutcome]) -> bool {
        let simulation = cluster.simulation;
        let begun = simulation.now();
        while !leaving(simulation, outcomes).is_empty() {
            if simulation.now().since(begun) >= PATIENCE {
                assert!(self.had_trouble, "{:?} {outcomes:#?}", leaving(simulation, outcomes));
                return false;
            }
            simulation.run_for(Duration::from_millis(200));
        }
        true
    }

    fn end_request(&mut self, cluster: &Cluster<'_>, id: DeleteId) {
        let holding = self.requests.in_force().1;
        let index = holding.iter().position(|request| request.filter.id == id);
        self.requests.end(cluster, index.expect("it is pending"));
        self.progress.remove(&id);
    }

    /// Looks which entries are left.
    fn settle(&mut self, cluster: &Cluster<'_>, life: &mut Life<'_>, is_complete: bool) {
        for tenant in life.model.tenants() {
            let shown = cluster.everything(&tenant);
            self.gone.extend(life.model.removal_ends(&tenant, &shown, is_complete));
        }
        if is_complete {
            // A stream that lost its oldest entries may be shown for times of other segments.
            self.compare_labels(cluster, life, false);
        }
    }

    fn compare_labels(&mut self, cluster: &Cluster<'_>, life: &Life<'_>, are_exact: bool) {
        let Some(bounds_ns) = life.model.bounds_ns() else { return };
        let numbers = life.numbers();
        for tenant in life.model.tenants() {
            let mut writer = QueryWriter { rng: &mut self.rng, bounds_ns, numbers };
            compare_some_labels(cluster, &tenant, &life.model, &mut writer, are_exact);
        }
    }

    /// Whether an entry of a request is being removed.
    fn is_removing(&self, id: DeleteId) -> bool {
        self.removal.iter().flat_map(|removal| &removal.parts).any(|part| part.id() == id)
    }

    fn create(&mut self, cluster: &Cluster<'_>, life: &Life<'_>) -> bool {
        let Some(bounds_ns) = life.model.bounds_ns() else { return false };
        let tenant = self.rng.pick(&life.model.tenants()).clone();
        let numbers = life.numbers();
        let mut writer = QueryWriter { rng: &mut self.rng, bounds_ns, numbers };
        let (text, times_ns) = (writer.log(), writer.times_ns());
        let times_ns = close_to_entries(&mut self.rng, &life.model, &tenant, times_ns);
        self.requests.create(cluster, &tenant, &text, times_ns);
        true
    }

    /// Pushes entries that were removed.
    fn push_again(&mut self, cluster: &Cluster<'_>, life: &mut Life<'_>) {
        let count = self.gone.len().min(self.rng.between(1, 10) as usize);
        let mut part = Vec::new();
        for _ in 0..count {
            let index = self.rng.below(self.gone.len() as u64) as usize;
            part.push(self.gone.swap_remove(index));
        }
        let (_, holding) = self.requests.in_force();
        let is_hidden = |(stream, entry): &&(usize, TestEntry)| {
            let stream = &life.model.streams[*stream].definition;
            let mut own = holding.iter().filter(|request| request.filter.tenant == stream.tenant);
            own.any(|request| request.hides(&stream.labels, entry))
        };
        let visible = part.iter().filter(|entry| !is_hidden(entry)).count() as u64;
        if life.push_entries(cluster, part) {
            self.removed.came_again += visible;
        } else {
            assert!(self.had_trouble, "the disk is well");
        }
    }

    /// One step of a start.
    fn step(&mut self, cluster: &Cluster<'_>, life: &mut Life<'_>, tally: &mut Tally) {
        let pending = self.requests.in_force().1.len() as u64;
        match self.rng.below(18) {
            0 => {
                let waits = self.rng.one_in(2);
                assert!(life.flush(cluster, waits) || self.had_trouble, "the disk is well");
            }
            1 => cluster.simulation.run_for(Duration::from_millis(5)),
            2 | 3 if pending < 6 => {
                tally.requests += u64::from(self.create(cluster, life));
            }
            4 if pending > 0 && self.rng.one_in(2) => {
                let index = self.rng.below(pending) as usize;
                let id = self.requests.in_force().1[index].filter.id;
                if !self.is_removing(id) {
                    self.end_request(cluster, id);
                }
            }
            5..9 => {
                assert!(life.push(cluster) || self.had_trouble, "the disk is well");
            }
            9 if !self.gone.is_empty() => self.push_again(cluster, life),
            10 | 11 if pending > 0 && self.removal.is_none() => self.begin(cluster, life),
            12 if pending < 6 => self.hide_little(cluster, life, tally),
            13 if self.removal.is_some() && self.rng.one_in(2) => {
                self.work_in_trouble(cluster, life, tally);
            }
            _ => self.compare(cluster, life, tally),
        }
        self.end_if_answered(cluster, life);
    }

    /// A request that selects everything and hides next to nothing: directories go on to answer
    /// queries, and blocks are searched, because filters tell which ones have nothing hidden.
    fn hide_little(&mut self, cluster: &Cluster<'_>, life: &mut Life<'_>, tally: &mut Tally) {
        let Some((min_ns, max_ns)) = life.model.bounds_ns() else { return };
        let tenant = self.rng.pick(&life.model.tenants()).clone();
        let mut word = || needle(self.rng.below(life.numbers() + 3));
        let [hidden, found] = [word(), word()];
        let times_ns = (min_ns - 48 * HOUR_NS, max_ns + 48 * HOUR_NS);
        self.requests.create(cluster, &tenant, &format!(r#"{{app="m"}} |= "{hidden}""#), times_ns);
        assert!(life.flush(cluster, true) || self.had_trouble, "the disk is well");
        let (start_ns, end_ns) = (min_ns - SECOND_NS, max_ns + SECOND_NS);
        let span_s = (end_ns - start_ns) / SECOND_NS + 1;
        let count = format!(r#"sum(count_over_time({{app="m"}}[{span_s}s]))"#);
        let lines = QueryParams::range(start_ns, end_ns, SECOND_NS);
        for (text, params) in
            [(count, QueryParams::instant(end_ns)), (format!(r#"{{app="m"}} |= "{found}""#), lines)]
        {
            let query = Query { text, params };
            compare_now(cluster, life, &self.requests, &tenant, &query, tally);
        }
    }

    fn compare(&mut self, cluster: &Cluster<'_>, life: &Life<'_>, tally: &mut Tally) {
        let questions = tally.questions;
        compare(cluster, life, &mut self.requests, &mut self.rng, tally);
        if self.removal.is_some() {
            self.removed.questions_meanwhile += tally.questions - questions;
        }
    }

    /// Goes on while the disk is full or fails, and makes it good again.
    fn work_in_trouble(&mut self, cluster: &Cluster<'_>, life: &mut Life<'_>, tally: &mut Tally) {
        self.had_trouble = true;
        life.hurt_disk();
        for _ in 0..self.rng.between(1, 6) {
            match self.rng.below(4) {
                0 => {
                    let waits = self.rng.one_in(2);
                    life.flush(cluster, waits);
                }
                1 => self.compare(cluster, life, tally),
                2 => {
                    // A removal gives a segment up after some minutes.
                    let is_long = self.removal.is_some() && self.rng.one_in(2);
                    let most_s = if is_long { 1_000 } else { 3 };
                    cluster.simulation.run_for(Duration::from_secs(self.rng.below(most_s)));
                }
                _ => {
                    life.push(cluster);
                }
            }
            if let Some(removal) = &self.removal {
                removal.goes_on(life);
            }
        }
        life.heal_disk();
        if self.rng.one_in(2) {
            life.recover(cluster);
        }
    }

    /// Waits for the end of a removal.
    fn wait(&mut self, cluster: &Cluster<'_>, life: &mut Life<'_>) {
        if let Some(removal) = &self.removal {
            let answers = Rc::clone(&removal.answers);
            let run = cluster.simulation.run_until(|| answers.borrow().is_some());
            run.unwrap_or_else(|stuck| panic!("{stuck}"));
            self.end_if_answered(cluster, life);
        }
    }

    /// From one start to its end.
    fn round(&mut self, life: &mut Life<'_>, expiring: &mut Expiring, tally: &mut Tally) {
        life.deletions = self.requests.filters();
        // No query asks for the versions that the shards forgot with the former start.
        self.requests.forget(self.requests.ended.len());
        let cluster = life.start(self.rng.between(1, 4) as u16);
        self.had_trouble = false;
        self.compare_labels(&cluster, life, true);
        for _ in 0..self.rng.between(10, 50) {
            self.step(&cluster, life, tally);
            if !self.had_trouble && self.rng.one_in(6) {
                expiring.push(&cluster);
            }
        }
        if self.rng.one_in(4) {
            let hours = STEADY_AFTER * self.rng.between(1, 3) as u32;
            cluster.simulation.run_for(hours);
            self.end_if_answered(&cluster, life);
            self.compare(&cluster, life, tally);
        }
        for status in cluster.statuses() {
            self.removed.merges += status.seal.maintenance.merges;
            self.removed.expired += status.seal.maintenance.dropped_entries;
            self.removed.bundles += status.seal.bundles;
        }
        if self.rng.one_in(2) {
            self.wait(&cluster, life);
            self.compare(&cluster, life, tally);
        } else if self.removal.is_some() && self.rng.one_in(2) {
            let _ = (0..self.rng.below(4_000)).all(|_| cluster.simulation.step());
        }
        if let Some(removal) = self.removal.take() {
            removal.goes_on(life);
            self.removed.killed += 1;
        }
        expiring.check(&cluster);
        life.end(cluster, self.had_trouble);
    }
}

/// The entries of a tenant that expire.
struct Expiring {
    rng: Rng,
    stream: StreamDefinition,
    pushed: Vec<(i64, String)>,
}

impl Expiring {
    fn new(seed: u64) -> Expiring {
        let tenant = TenantId::new("brief").expect("a tenant");
        let labels = Arc::new(Labels::from_pairs([("app", "m"), ("s", "0")]).expect("labels"));
        let stream = StreamDefinition { id: StreamId::new(&tenant, &labels), tenant, labels };
        Expiring { rng: Rng::new(seed ^ 0xe0e0), stream, pushed: Vec::new() }
    }

    fn policy(&self) -> RetentionPolicy {
        let period_ns = Some(PERIOD_NS);
        let brief = TenantPeriods { period_ns, ..TenantPeriods::default() };
        RetentionPolicy {
            periods: Some(TenantPeriods::default()),
            tenants: BTreeMap::from([(self.stream.tenant.clone(), brief)]),
            ..RetentionPolicy::default()
        }
    }

    fn push(&mut self, cluster: &Cluster<'_>) {
        let mut builder = BatchBuilder::new(Vec::new());
        builder.begin(self.stream.id);
        for _ in 0..self.rng.between(1, 12) {
            let ago_ns = self.rng.below(2 * PERIOD_NS as u64) as i64;
            let line = format!("{:016x}", self.rng.next_u64());
            let timestamp_ns = cluster.node.runtime(CoreId(0)).unix_nanos() - ago_ns;
            builder.push(timestamp_ns, line.as_bytes(), std::iter::empty::<(&str, &str)>());
            self.pushed.push((timestamp_ns, line));
        }
        let definitions = vec![self.stream.clone()];
        let batch = builder.finish();
        let request =
            AppendRequest { batch, definitions, out_of_order_window_ns: None, is_replayed: false };
        let shard = cluster.layout.core_of(self.stream.id);
        let reply = send_append(&cluster.caller(0), shard, request).expect("the lanes have room");
        let outcome = cluster.run(append_outcome(reply)).expect("an answer");
        let refused = outcome.expect("the disk is well").refused_streams;
        if !refused.is_empty() {
            // The stream had to find memory, and there was none.
            let entries: u64 = refused.iter().map(|(_, entries)| entries).sum();
            self.pushed.truncate(self.pushed.len() - entries as usize);
        }
    }

    /// All entries are there that have not expired, and no others than were pushed.
    fn check(&self, cluster: &Cluster<'_>) {
        let shown = cluster.everything(&self.stream.tenant);
        let shown: Vec<(i64, &[u8])> = shown
            .iter()
            .flat_map(|stream| &stream.entries)
            .map(|entry| (entry.timestamp_ns, &*entry.line))
            .collect();
        let oldest_ns = cluster.node.runtime(CoreId(0)).unix_nanos() - PERIOD_NS;
        let is_shown = |(ts, line): &&(i64, String)| shown.contains(&(*ts, line.as_bytes()));
        let mut young = self.pushed.iter().filter(|(ts, _)| *ts >= oldest_ns);
        assert!(young.all(|entry| is_shown(&entry)), "an entry is gone before its time");
        assert!(shown.len() == self.pushed.iter().filter(is_shown).count());
    }
}

fn live(seed: u64, tally: &mut Tally, removed: &mut Removed) {
    let _guard = SeedGuard(seed);
    let simulation = Simulation::new(seed);
    simulation.set_unix_nanos(CLOCK_NS);
    let mut rng = Rng::new(seed ^ 0x9012_ed00);
    let mut life = Life::new(&simulation, seed);
    if rng.one_in(3) {
        life.burst();
    }
    let mut expiring = Expiring::new(seed);
    life.retention = Arc::new(expiring.policy());
    let rounds = rng.between(1, 4);
    let mut keeping = Keeping {
        requests: Requests::new(),
        rng,
        progress: BTreeMap::new(),
        removal: None,
        gone: Vec::new(),
        had_trouble: false,
        removed,
    };
    for _ in 0..rounds {
        keeping.round(&mut life, &mut expiring, tally);
    }
    // All that was asked for ends.
    life.deletions = keeping.requests.filters();
    keeping.requests.forget(keeping.requests.ended.len());
    keeping.had_trouble = false;
    let cluster = life.start(2);
    while !keeping.requests.in_force().1.is_empty() {
        keeping.begin(&cluster, &mut life);
        keeping.wait(&cluster, &mut life);
        keeping.compare(&cluster, &life, tally);
    }
    if !keeping.gone.is_empty() {
        keeping.push_again(&cluster, &mut life);
    }
    keeping.compare(&cluster, &life, tally);
    expiring.check(&cluster);
    cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn hidden_entries_stay_hidden_while_they_are_removed_and_come_back_only_when_pushed_again() {
    let seeds = seeds(150);
    let count = seeds.end - seeds.start;
    let (mut tally, mut removed) = (Tally::default(), Removed::default());
    for seed in seeds.clone() {
        live(seed, &mut tally, &mut removed);
    }
    println!("{seeds:?}: {tally:?} {removed:?}");
    // The test would prove nothing if one of the ways were not gone.
    if count >= 150 {
        let Removed { ended, failed, killed, requests, entries, rewrote, dropped, .. } = removed;
        assert!(ended > 2 * count && requests > count && entries > 20 * count);
        assert!(rewrote > count && dropped > count / 8 && killed > count / 8 && failed > 0);
        assert!(removed.questions_meanwhile > 5 * count && removed.came_meanwhile > count);
        assert!(removed.came_again > count && removed.merges > count && removed.expired > count);
        assert!(removed.bundles > count);
        assert!(tally.blind > 2 * count && tally.holes * 20 < tally.questions);
        assert!(tally.evaluated > count && tally.stats.blocks_filtered > count);
        assert!(tally.summaries > count / 4 && tally.searched > 0);
    }
}
