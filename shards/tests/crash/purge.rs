//! After a purge no file has a byte of a deleted line, and all other lines are there once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::syntax::{self, ast::Expr};
use logsvc_proto::TenantId;
use logsvc_runtime::sim::{DiskOperation, FaultRates, Simulation};
use logsvc_runtime::{CoreId, Runtime};
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::deletion::{DeleteFilter, DeleteId, DeletionVersion};
use logsvc_shards::messages::{PurgeOutcome, PurgeTarget, RemovedTotals};
use logsvc_shards::retention::{RetentionPolicy, TenantPeriods};
use logsvc_shards::types::TimeRange;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::bytes::assert_nowhere;
use crate::cluster::{Cluster, SEGMENTS_DIR, Upkeep, WAL_DIR};
use crate::ledger::Ledger;
use crate::removal::{Answer, begin, leaving};
use crate::upkeep::{NOON_NS, eager, flush, indexed, maintenance, push, upkeep, wait};

const HOUR_NS: i64 = 3_600_000_000_000;

/// Room for everything.
const UNBOUNDED: u64 = u64::MAX;

#[derive(Clone, Debug)]
struct Line {
    stream: usize,
    timestamp_ns: i64,
    text: String,
    id: Option<u64>,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stored,
    /// It came while a purge was under way that did not end, or that had to remove it.
    Unsure,
    Gone,
}

/// A request, and its naive form.
struct Request {
    target: PurgeTarget,
    tenant: TenantId,
    numbers: &'static [&'static str],
    word: Option<&'static str>,
    id: Option<u64>,
}

impl Request {
    fn hides(&self, ledger: &Ledger, line: &Line) -> bool {
        let stream = &ledger.streams[line.stream];
        let number = stream.labels.get("number").unwrap();
        stream.tenant == self.tenant
            && self.numbers.contains(&number)
            && self.word.is_none_or(|word| line.text.contains(word))
            && self.id.is_none_or(|id| line.id == Some(id))
            && (self.target.start_ns..=self.target.end_ns).contains(&line.timestamp_ns)
    }
}

struct Model<'s> {
    simulation: &'s Simulation,
    ledger: Ledger,
    rng: Rng,
    lines: Vec<Line>,
    next_id: u32,
    /// The words of all lines that are gone.
    gone: Vec<String>,
}

impl<'s> Model<'s> {
    fn new(simulation: &'s Simulation, seed: u64) -> Model<'s> {
        let ledger = Ledger::new(&["one", "two"], 3);
        let rng = Rng::new(seed);
        Model { simulation, ledger, rng, lines: Vec::new(), next_id: 1, gone: Vec::new() }
    }

    fn new_line(&mut self, stream: usize, timestamp_ns: i64) -> Line {
        let color = *self.rng.pick(&["red", "green", "blue"]);
        // Each line has a word that no other line has.
        let word = format!("w{:07x}z", self.rng.next_u64() >> 36);
        let padding = if self.rng.one_in(6) { 3_000 } else { 3 };
        let padding: String =
            (0..padding).map(|_| (b'a' + self.rng.below(26) as u8) as char).collect();
        let text = format!("{word} {color} {padding}");
        let id = self.rng.one_in(3).then(|| self.rng.below(4));
        Line { stream, timestamp_ns, text, id, fate: Fate::Stored }
    }

    fn any_time(&mut self) -> i64 {
        NOON_NS + self.rng.below(60) as i64 * HOUR_NS + self.rng.below(1_000) as i64
    }

    fn push(&mut self, cluster: &Cluster<'_>) {
        for stream in 0..self.ledger.streams.len() {
            if self.rng.one_in(3) {
                continue;
            }
            let lines: Vec<Line> = (0..1 + self.rng.below(20))
                .map(|_| {
                    let timestamp_ns = self.any_time();
                    self.new_line(stream, timestamp_ns)
                })
                .collect();
            self.push_lines(cluster, lines);
        }
    }

    fn push_lines(&mut self, cluster: &Cluster<'_>, lines: Vec<Line>) {
        let Some(stream) = lines.first().map(|line| line.stream) else { return };
        let pushed: Vec<_> =
            lines.iter().map(|line| (line.timestamp_ns, line.text.clone(), line.id)).collect();
        push(cluster, &self.ledger, stream, &pushed);
        self.lines.extend(lines);
    }

    fn request(&mut self) -> Request {
        let tenant = self.ledger.streams[self.rng.below(6) as usize].tenant.clone();
        let (selector, numbers): (&str, &'static [&'static str]) = *self.rng.pick(&[
            (r#"{app="crash"}"#, &["0", "1", "2"] as &[_]),
            (r#"{app="crash", number="1"}"#, &["1"]),
            (r#"{number=~"0|2"}"#, &["0", "2"]),
        ]);
        let (stages, word, id) = *self.rng.pick(&[
            ("", None, None),
            (r#" |= "red""#, Some("red"), None),
            (r#" |= "green" | id="2""#, Some("green"), Some(2)),
            (r#" | id="1""#, None, Some(1)),
            (r#" |~ "b[l]ue""#, Some("blue"), None),
            (r#" |= "nowhere""#, Some("nowhere"), None),
        ]);
        let start_ns = self.any_time();
        let end_ns = if self.rng.one_in(4) { i64::MAX - 1 } else { self.any_time() };
        let (start_ns, end_ns) = (start_ns.min(end_ns), start_ns.max(end_ns));
        let target =
            target(self.next_id, &tenant, &format!("{selector}{stages}"), start_ns, end_ns);
        self.next_id += 1;
        Request { target, tenant, numbers, word, id }
    }

    /// Lines that requests hide are gone for good.
    fn purged(&mut self, requests: &[Request]) {
        for line in &mut self.lines {
            let is_hidden = requests.iter().any(|request| request.hides(&self.ledger, line));
            if is_hidden && line.fate == Fate::Stored {
                line.fate = Fate::Gone;
                self.gone.push(line.text.split(' ').next().unwrap().to_owned());
            }
        }
    }

    /// The number of hidden lines of this fate.
    fn hidden(&self, requests: &[Request], fate: Fate) -> u64 {
        let is_hidden = |line: &&Line| {
            line.fate == fate && requests.iter().any(|r| r.hides(&self.ledger, line))
        };
        self.lines.iter().filter(is_hidden).count() as u64
    }

    /// Compares everything that is stored with the model.
    fn check(&self, cluster: &Cluster<'_>) {
        let mut shown: BTreeMap<String, u32> = BTreeMap::new();
        for tenant in ["one", "two"] {
            for stream in cluster.everything(&TenantId::new(tenant).unwrap()) {
                for entry in stream.entries {
                    let text = String::from_utf8(entry.line.to_vec()).unwrap();
                    *shown.entry(text).or_insert(0) += 1;
                }
            }
        }
        for line in &self.lines {
            let count = shown.remove(&line.text).unwrap_or(0);
            match line.fate {
                Fate::Stored => assert_eq!(count, 1, "{line:?}"),
                Fate::Gone => assert_eq!(count, 0, "{line:?}"),
                Fate::Unsure => assert!(count <= 1, "{line:?}"),
            }
        }
        assert!(shown.is_empty(), "{shown:?}");
    }

    fn check_files(&self) {
        assert_nowhere(self.simulation, self.gone.iter().map(String::as_str));
    }
}

pub(crate) fn target(
    id: u32,
    tenant: &TenantId,
    query: &str,
    start_ns: i64,
    end_ns: i64,
) -> PurgeTarget {
    let Ok(Expr::Log(log)) = syntax::parse(query) else { panic!("{query}") };
    let since = DeletionVersion::FIRST;
    let filter = DeleteFilter::new(DeleteId(id), tenant.clone(), &log, (start_ns, end_ns), since);
    PurgeTarget { filter: Arc::new(filter.expect("a query")), start_ns, end_ns }
}

pub(crate) fn purge(cluster: &Cluster<'_>, targets: Vec<PurgeTarget>) -> Vec<Answer> {
    cluster.run(begin(cluster, targets)).expect("the node lives")
}

/// Waits until the files are gone that answers name, as the keeper of the requests does.
fn wait_until_gone(cluster: &Cluster<'_>, outcomes: &[PurgeOutcome]) {
    for _ in 0..1_000 {
        if leaving(cluster.simulation, outcomes).is_empty() {
            let runtime = cluster.node.runtime(CoreId(0)).clone();
            let mut folders: Vec<PathBuf> = outcomes
                .iter()
                .flat_map(|outcome| &outcome.leaving)
                .filter_map(|path| path.parent().map(Path::to_owned))
                .collect();
            folders.push(WAL_DIR.into());
            cluster.run(async move {
                for folder in folders {
                    runtime.sync_dir(&folder).await.unwrap();
                }
            });
            return;
        }
        wait(cluster, Duration::from_secs(1));
    }
    panic!("these files stay: {:?}", leaving(cluster.simulation, outcomes));
}

fn sum(outcomes: &[PurgeOutcome]) -> RemovedTotals {
    let removed = || outcomes.iter().flat_map(|outcome| &outcome.removed);
    RemovedTotals {
        entries: removed().map(|totals| totals.entries).sum(),
        line_bytes: removed().map(|totals| totals.line_bytes).sum(),
    }
}

fn start<'s>(simulation: &'s Simulation, shards: u16, upkeep: Upkeep) -> Cluster<'s> {
    let started = Cluster::start_sealing(simulation, shards, WalConfig::default(), upkeep);
    started.expect("a healthy disk")
}

fn random_upkeep(rng: &mut Rng) -> Upkeep {
    let compaction = match rng.below(3) {
        0 => CompactionPolicy::OFF,
        1 => CompactionPolicy { max_inputs: rng.between(2, 6) as usize, ..eager() },
        _ => CompactionPolicy { min_inputs: 4, ..eager() },
    };
    upkeep(compaction, RetentionPolicy::default())
}

/// Things that happen to the disk while a purge is under way.
fn hurt_disk(model: &mut Model<'_>) {
    let disk = model.simulation.disk();
    match model.rng.below(4) {
        0 => disk.set_fault_rates(FaultRates {
            reads_per_million: 20_000,
            writes_per_million: 100_000,
            syncs_per_million: 100_000,
            others_per_million: 100_000,
        }),
        1 => disk.set_capacity_bytes(disk.used_bytes() + model.rng.below(20_000)),
        2 => {
            let operation = *model.rng.pick(&[
                DiskOperation::Remove,
                DiskOperation::Rename,
                DiskOperation::SyncDir,
                DiskOperation::Write,
                DiskOperation::Sync,
            ]);
            let folder = *model.rng.pick(&[WAL_DIR, SEGMENTS_DIR]);
            disk.fail_next(operation, folder, 1 + model.rng.below(4));
        }
        _ => {}
    }
}

fn heal_disk(simulation: &Simulation) {
    simulation.disk().clear_faults();
    simulation.disk().set_capacity_bytes(UNBOUNDED);
}

/// A purge that ends well, whatever happens; the node may start again meanwhile.
fn purge_to_the_end<'s>(
    model: &mut Model<'s>,
    mut cluster: Cluster<'s>,
    requests: &[Request],
    is_calm: bool,
) -> Cluster<'s> {
    let targets = || requests.iter().map(|request| request.target.clone()).collect::<Vec<_>>();
    let simulation = model.simulation;
    let expected = model.hidden(requests, Fate::Stored);
    let unsure = model.hidden(requests, Fate::Unsure);
    let mut is_undisturbed = true;
    while !is_calm && model.rng.one_in(2) {
        is_undisturbed = false;
        let pending = begin(&cluster, targets());
        hurt_disk(model);
        if model.rng.one_in(3) {
            // It waits for a disk that is full, and goes on when there is room.
            wait(&cluster, Duration::from_secs(model.rng.below(120)));
            heal_disk(simulation);
            let answers = cluster.run(pending).expect("the node lives");
            for error in answers.into_iter().filter_map(Result::err) {
                assert!(error.contains("segments"), "{error}");
            }
            continue;
        }
        for _ in 0..model.rng.below(6_000) {
            simulation.step();
        }
        if model.rng.one_in(2) {
            cluster.node.crash();
        } else {
            cluster.node.power_off();
        }
        heal_disk(simulation);
        let shards = model.rng.between(1, 4) as u16;
        cluster = start(
            simulation,
            shards,
            random_upkeep(&mut model.rng).with_some_partitions(model.simulation),
        );
        model.check_after(&cluster, requests);
    }
    let pending = begin(&cluster, targets());
    if model.rng.one_in(3) {
        // Lines that come meanwhile may be removed with the others.
        is_undisturbed = false;
        for _ in 0..model.rng.below(500) {
            simulation.step();
        }
        let known = model.lines.len();
        model.push(&cluster);
        for line in &mut model.lines[known..] {
            if requests.iter().any(|request| request.hides(&model.ledger, line)) {
                line.fate = Fate::Unsure;
            }
        }
    }
    let answers = cluster.run(pending).expect("the node lives");
    let outcomes: Vec<PurgeOutcome> =
        answers.into_iter().map(|answer| answer.expect("a healthy disk")).collect();
    wait_until_gone(&cluster, &outcomes);
    if is_undisturbed {
        let removed = sum(&outcomes).entries;
        assert!((expected..=expected + unsure).contains(&removed), "{removed}, not {expected}");
    }
    model.purged(requests);
    model.check_files();
    cluster
}

impl Model<'_> {
    /// Compares everything with the model while requests may have removed some of their lines.
    fn check_after(&self, cluster: &Cluster<'_>, requests: &[Request]) {
        let mut lines = self.lines.clone();
        for line in &mut lines {
            if line.fate == Fate::Stored && requests.iter().any(|r| r.hides(&self.ledger, line)) {
                line.fate = Fate::Unsure;
            }
        }
        let ledger = Ledger::new(&["one", "two"], 3);
        let rng = Rng::new(0);
        let simulation = self.simulation;
        Model { simulation, ledger, rng, lines, next_id: 0, gone: Vec::new() }.check(cluster);
    }
}

fn run(seed: u64, is_calm: bool) -> u64 {
    let simulation = Simulation::new(seed);
    let mut model = Model::new(&simulation, seed);
    let shards = model.rng.between(1, 4) as u16;
    let mut cluster = start(
        &simulation,
        shards,
        random_upkeep(&mut model.rng).with_some_partitions(model.simulation),
    );
    for _ in 0..model.rng.between(3, 8) {
        for _ in 0..model.rng.below(4) {
            model.push(&cluster);
            if model.rng.one_in(2) {
                flush(&cluster);
            }
        }
        if model.rng.one_in(3) {
            if model.rng.one_in(2) {
                cluster.stop().expect("a healthy disk");
            } else {
                cluster.node.crash();
            }
            let shards = model.rng.between(1, 4) as u16;
            cluster = start(
                &simulation,
                shards,
                random_upkeep(&mut model.rng).with_some_partitions(model.simulation),
            );
        }
        let requests: Vec<Request> = (0..1 + model.rng.below(3)).map(|_| model.request()).collect();
        cluster = purge_to_the_end(&mut model, cluster, &requests, is_calm);
        model.check(&cluster);
    }
    cluster.stop().expect("a healthy disk");
    let cluster = start(
        &simulation,
        shards,
        random_upkeep(&mut model.rng).with_some_partitions(model.simulation),
    );
    model.check(&cluster);
    model.gone.len() as u64
}

#[test]
fn no_file_has_a_byte_of_a_removed_line() {
    let mut gone = 0;
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        gone += run(seed, true);
    }
    assert!(gone > 0);
}

#[test]
fn a_purge_ends_whatever_fails_and_wherever_it_is_interrupted() {
    let mut gone = 0;
    for seed in seeds(30) {
        let _guard = SeedGuard(seed);
        gone += run(seed, false);
    }
    assert!(gone > 0);
}

/// Lines of one stream at these hours.
fn at_hours(model: &mut Model<'_>, stream: usize, hours: &[i64]) -> Vec<Line> {
    hours.iter().map(|hour| model.new_line(stream, NOON_NS + hour * HOUR_NS)).collect()
}

fn whole_stream(model: &Model<'_>, stream: usize, hours: (i64, i64)) -> PurgeTarget {
    let stream = &model.ledger.streams[stream];
    let number = stream.labels.get("number").unwrap();
    let (start_ns, end_ns) = (NOON_NS + hours.0 * HOUR_NS, NOON_NS + hours.1 * HOUR_NS);
    target(1, &stream.tenant, &format!("{{number={number:?}}}"), start_ns, end_ns)
}

#[test]
fn all_entries_of_a_stream_go_from_segments_and_the_log() {
    let simulation = Simulation::new(1);
    let mut model = Model::new(&simulation, 1);
    let cluster = start(&simulation, 1, upkeep(CompactionPolicy::OFF, RetentionPolicy::default()));
    for hours in [[0, 1], [2, 30]] {
        for stream in 0..2 {
            let lines = at_hours(&mut model, stream, &hours);
            model.push_lines(&cluster, lines);
        }
        flush(&cluster);
    }
    // Some of it is in the log only.
    let lines = at_hours(&mut model, 0, &[31]);
    model.push_lines(&cluster, lines);
    let answers = purge(&cluster, vec![whole_stream(&model, 0, (0, 40))]);
    let outcomes: Vec<PurgeOutcome> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(sum(&outcomes).entries, 5);
    assert_eq!(maintenance(&cluster).dropped_entries, 0, "nothing has expired");
    wait_until_gone(&cluster, &outcomes);
    let words = model.lines.iter().filter(|line| line.stream == 0);
    assert_nowhere(&simulation, words.map(|line| line.text.split(' ').next().unwrap()));
}

#[test]
fn streams_are_not_listed_for_times_that_lost_their_oldest_or_newest_entries() {
    let simulation = Simulation::new(4);
    let mut model = Model::new(&simulation, 4);
    let cluster = start(&simulation, 1, upkeep(CompactionPolicy::OFF, RetentionPolicy::default()));
    for hours in [[1, 2], [30, 31], [60, 61]] {
        for stream in 0..2 {
            let lines = at_hours(&mut model, stream, &hours);
            model.push_lines(&cluster, lines);
        }
        flush(&cluster);
    }
    let tenant = model.ledger.streams[0].tenant.clone();
    let listed = |hours: (i64, i64)| {
        let (start_ns, end_ns) = (NOON_NS + hours.0 * HOUR_NS, NOON_NS + hours.1 * HOUR_NS);
        indexed(&cluster, &tenant, TimeRange { start_ns, end_ns })
    };
    assert_eq!(listed((0, 2)), ["0", "1"]);
    for (purged, empty) in [((0, 1), (0, 2)), ((31, 61), (31, 70)), ((2, 2), (1, 30))] {
        let answers = purge(&cluster, vec![whole_stream(&model, 0, purged)]);
        answers[0].as_ref().unwrap();
        assert_eq!(listed(empty), ["1"], "{purged:?}");
        assert_eq!(listed((30, 31)), ["0", "1"]);
    }
    let answers = purge(&cluster, vec![whole_stream(&model, 0, (30, 30))]);
    answers[0].as_ref().unwrap();
    assert_eq!(listed((0, 70)), ["1"]);
}

#[test]
fn expired_entries_go_with_a_purge_and_are_not_counted_as_removed() {
    let simulation = Simulation::new(5);
    simulation.set_unix_nanos(NOON_NS + HOUR_NS);
    let mut model = Model::new(&simulation, 5);
    let period_ns = Some(12 * HOUR_NS);
    let periods = Some(TenantPeriods { period_ns, ..TenantPeriods::default() });
    let retention = RetentionPolicy { periods, ..RetentionPolicy::default() };
    let cluster = start(&simulation, 1, upkeep(CompactionPolicy::OFF, retention));
    let lines = at_hours(&mut model, 0, &[-11, -10, -3, -2, -1]);
    model.push_lines(&cluster, lines);
    flush(&cluster);
    // The clock goes on for two hours.
    wait(&cluster, Duration::from_secs(7_200));
    let answers = purge(&cluster, vec![whole_stream(&model, 0, (-2, -2))]);
    let outcomes: Vec<PurgeOutcome> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(sum(&outcomes).entries, 1);
    assert_eq!(maintenance(&cluster).dropped_entries, 2);
    let stored = cluster.everything(&model.ledger.streams[0].tenant);
    assert_eq!(stored[0].entries.len(), 2);
}

#[test]
fn what_is_alone_in_a_segment_goes_without_rewriting() {
    let simulation = Simulation::new(2);
    let mut model = Model::new(&simulation, 2);
    let cluster = start(&simulation, 1, upkeep(CompactionPolicy::OFF, RetentionPolicy::default()));
    for hours in [[0, 1], [2, 3]] {
        let lines = at_hours(&mut model, 0, &hours);
        model.push_lines(&cluster, lines);
        flush(&cluster);
    }
    let answers = purge(&cluster, vec![whole_stream(&model, 0, (0, 1))]);
    let outcomes: Vec<PurgeOutcome> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!((outcomes[0].rewritten_line_bytes, sum(&outcomes).entries), (0, 2));
    // A part of it.
    let answers = purge(&cluster, vec![whole_stream(&model, 0, (0, 2))]);
    let outcomes: Vec<PurgeOutcome> = answers.into_iter().map(Result::unwrap).collect();
    assert!(outcomes[0].rewritten_line_bytes > 0);
    assert_eq!(sum(&outcomes).entries, 1);
    // Nothing is left to do.
    let answers = purge(&cluster, vec![whole_stream(&model, 0, (0, 2))]);
    let outcomes: Vec<PurgeOutcome> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!((outcomes[0].rewritten_line_bytes, sum(&outcomes).entries), (0, 0));
    assert!(outcomes[0].leaving.is_empty());
}

#[test]
fn a_damaged_segment_is_named_and_the_others_are_purged() {
    let simulation = Simulation::new(3);
    let mut model = Model::new(&simulation, 3);
    let cluster = start(&simulation, 1, upkeep(CompactionPolicy::OFF, RetentionPolicy::default()));
    for hours in [[0, 1], [2, 3], [4, 5]] {
        let lines = at_hours(&mut model, 0, &hours);
        model.push_lines(&cluster, lines);
        flush(&cluster);
    }
    let files = simulation.disk().files(SEGMENTS_DIR);
    let mut segments = files.iter().filter(|path| path.extension().is_some_and(|e| e == "seg"));
    let damaged = segments.nth(1).unwrap();
    // The columns of the block begin behind the header.
    for offset in 64..200 {
        simulation.disk().corrupt(damaged, offset, 0xff);
    }
    let tenant = model.ledger.streams[0].tenant.clone();
    let request = target(1, &tenant, r#"{app="crash"} |~ "red|green|blue""#, 0, i64::MAX - 1);
    let answers = purge(&cluster, vec![request]);
    let error = answers[0].as_ref().expect_err("a segment is damaged");
    let name = damaged.file_name().unwrap().to_str().unwrap();
    assert!(error.contains(name), "{error}");
    wait(&cluster, Duration::from_secs(5));
    let files = simulation.disk().files(SEGMENTS_DIR);
    let left: Vec<_> =
        files.iter().filter(|path| path.extension().is_some_and(|e| e == "seg")).collect();
    assert_eq!(left, [damaged], "the others have lost everything");
    // Whoever wants all of the stream gone need not read it.
    let answers = purge(&cluster, vec![whole_stream(&model, 0, (0, 40))]);
    let outcomes: Vec<PurgeOutcome> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(sum(&outcomes).entries, 2);
    wait_until_gone(&cluster, &outcomes);
}
