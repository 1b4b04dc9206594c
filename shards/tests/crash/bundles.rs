//! Bundles of filters: needles ask them before directories are read, and no answer depends on them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use logsvc_logql::engine::{QueryParams, QueryTime};
use logsvc_runtime::CoreId;
use logsvc_runtime::sim::Simulation;
use logsvc_shards::check::{CheckReport, check_store, inspect_file};
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::retention::RetentionPolicy;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, DATA_DIR};
use crate::ledger::Ledger;
use crate::purge::{purge, target};
use crate::upkeep::{NOON_NS, ask, eager, flush, push, segment_count, upkeep, wait};

const FILTERS_DIR: &str = "/srv/data/filters";
const SECOND_NS: i64 = 1_000_000_000;
const BUNDLED: usize = 4;

/// A node of one shard whose segments have a line with an id of its own for each of two streams.
struct Store<'s> {
    simulation: &'s Simulation,
    ledger: Ledger,
    cluster: Cluster<'s>,
    rng: Rng,
    /// By segment: the ids of its lines.
    ids: Vec<[String; 2]>,
}

fn start(simulation: &Simulation, shards: u16) -> Cluster<'_> {
    // Segments of every size are settled.
    let compaction = CompactionPolicy {
        target_line_bytes: 1,
        min_bundled: BUNDLED,
        max_bundled: BUNDLED,
        ..eager()
    };
    let upkeep = upkeep(compaction, RetentionPolicy::default());
    let started = Cluster::start_sealing(simulation, shards, WalConfig::default(), upkeep);
    started.expect("a healthy disk")
}

impl<'s> Store<'s> {
    fn new(simulation: &'s Simulation, seed: u64, segments: usize) -> Store<'s> {
        let (ledger, cluster) = (Ledger::new(&["acme"], 2), start(simulation, 1));
        let mut store = Store { simulation, ledger, cluster, rng: Rng::new(seed), ids: Vec::new() };
        (0..segments).for_each(|_| store.add_segment());
        assert_eq!(segment_count(&store.cluster), segments as u64, "none is merged");
        store
    }

    fn add_segment(&mut self) {
        let ids = [(); 2].map(|()| format!("{:016x}", self.rng.next_u64()));
        let at_ns = NOON_NS + self.ids.len() as i64 * SECOND_NS;
        for (stream, id) in ids.iter().enumerate() {
            push(&self.cluster, &self.ledger, stream, &[(at_ns, format!("id={id}"), None)]);
        }
        self.ids.push(ids);
        flush(&self.cluster);
        wait(&self.cluster, Duration::from_secs(1));
    }

    fn restart(self, shards: u16) -> Store<'s> {
        self.cluster.stop().expect("a stop in order");
        Store { cluster: start(self.simulation, shards), ..self }
    }

    fn bundles(&self) -> Vec<PathBuf> {
        self.simulation.disk().files(FILTERS_DIR)
    }

    /// Lines with a text.
    fn lines_with(&self, text: &str) -> usize {
        let query = format!("{{app=~\".+\"}} |= {text:?}");
        let time = QueryTime::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: 1 };
        let params = QueryParams { limit: 1000, ..QueryParams::new(time) };
        let answer = ask(&self.cluster, &self.ledger.streams[0].tenant, &query, &params);
        answer.matches("id=").count()
    }

    /// How many directories a search for a text reads.
    fn directories_for(&self, text: &str, lines: usize) -> u64 {
        let loads = || self.cluster.statuses().iter().map(|s| s.directories.loads).sum::<u64>();
        let before = loads();
        assert_eq!(self.lines_with(text), lines, "{text}");
        loads() - before
    }

    fn check_answers(&self) {
        for id in self.ids.iter().flatten() {
            assert_eq!(self.lines_with(id), 1, "{id}");
        }
        assert_eq!(self.lines_with("id="), 2 * self.ids.len());
        assert_eq!(self.lines_with("0123456789abcdef"), 0);
    }

    fn checked(&self) -> CheckReport {
        let runtime = self.cluster.node.runtime(CoreId(0)).clone();
        self.cluster
            .run(async move { check_store(&runtime, Path::new(DATA_DIR)).await.expect("a store") })
    }
}

#[test]
fn needles_ask_bundles_before_directories() {
    for seed in seeds(5) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let mut rng = Rng::new(seed);
        let segments = rng.between(2, 12) as usize;
        let store = Store::new(&simulation, seed, segments);
        assert_eq!(store.bundles().len(), segments / BUNDLED);
        let mut store = store.restart(1);
        let (bundles, alone) = ((segments / BUNDLED) as u64, (segments % BUNDLED) as u64);
        // The first segment of a bundle is asked itself.
        assert_eq!(store.directories_for("0123456789abcdef", 0), bundles + alone);
        store = store.restart(1);
        let id = store.ids[rng.below(segments as u64) as usize][0].clone();
        let read = store.directories_for(&id, 1);
        assert!(read <= bundles + alone + 1, "{read} of {segments}");
        let status = store.cluster.statuses()[0].seal;
        let files = store.bundles().into_iter().filter_map(|path| simulation.disk().read(path));
        let file_bytes: usize = files.map(|bytes| bytes.len()).sum();
        assert_eq!((status.bundles, status.bundle_bytes), (bundles, file_bytes as u64));
        store.check_answers();
    }
}

#[test]
fn a_damaged_bundle_costs_no_answer_and_is_made_anew() {
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let mut rng = Rng::new(seed);
        let mut store = Store::new(&simulation, seed, BUNDLED);
        let [path] = store.bundles().try_into().expect("one bundle");
        let bytes = simulation.disk().read(&path).expect("it is there");
        let mut damaged = bytes.clone();
        let is_noticed = !rng.one_in(3);
        match rng.below(2) {
            _ if !is_noticed => {
                damaged[rng.below(bytes.len() as u64) as usize] ^= 1 << rng.below(8);
            }
            0 => damaged.truncate(rng.below(bytes.len() as u64) as usize),
            // All of its filters.
            _ => damaged[bytes.len() / 2..].fill(0x55),
        }
        simulation.disk().write(&path, &damaged);
        store.check_answers();
        if rng.one_in(2) {
            store = store.restart(1);
            store.check_answers();
        }
        store.add_segment();
        wait(&store.cluster, Duration::from_secs(1));
        store.check_answers();
        let [path] = store.bundles().try_into().expect("one bundle");
        let is_whole = simulation.disk().read(&path) == Some(bytes);
        assert!(is_whole || !is_noticed, "it was not made anew");
    }
}

#[test]
fn a_check_reads_bundles_and_inspect_tells_their_segments() {
    let simulation = Simulation::new(1);
    let store = Store::new(&simulation, 1, BUNDLED);
    let [path] = store.bundles().try_into().expect("one bundle");
    let Store { cluster, ids, ledger, rng, .. } = store;
    cluster.stop().expect("a stop in order");
    // A node that does nothing lends its runtime.
    let idle = Cluster::launch_at(
        "/srv/idle",
        &simulation,
        1,
        WalConfig::default(),
        upkeep(eager(), RetentionPolicy::default()),
    );
    let store = Store { simulation: &simulation, ledger, cluster: idle, rng, ids };
    let report = store.checked();
    assert_eq!((report.bundles, report.findings.len()), (1, 0), "{:?}", report.findings);
    let (runtime, file) = (store.cluster.node.runtime(CoreId(0)).clone(), path.clone());
    let lines = store.cluster.run(async move {
        let mut lines = Vec::new();
        inspect_file(&runtime, &file, |line| lines.push(line)).await.expect("a bundle");
        lines
    });
    assert_eq!(lines.iter().filter(|line| line.contains(".seg  1 blocks")).count(), BUNDLED);
    let len_bytes = simulation.disk().read(&path).expect("it is there").len() as u64;
    for offset in [0, 9, 40, len_bytes / 2, len_bytes - 1] {
        assert!(simulation.disk().corrupt(&path, offset, 4));
        assert_eq!(store.checked().damaged_places(), 1, "byte {offset}");
        assert!(simulation.disk().corrupt(&path, offset, 4));
    }
    assert_eq!(store.checked().findings, []);
}

#[test]
fn a_purge_leaves_no_bundle_of_what_it_removed() {
    let simulation = Simulation::new(2);
    let store = Store::new(&simulation, 2, 2 * BUNDLED);
    let bundles = store.bundles();
    let tenant = &store.ledger.streams[0].tenant;
    let last_ns = NOON_NS + (BUNDLED as i64 - 1) * SECOND_NS;
    let purged = target(1, tenant, r#"{number="0"}"#, last_ns, last_ns);
    let answers = purge(&store.cluster, vec![purged]);
    answers[0].as_ref().expect("it ends well");
    let left = store.bundles();
    assert!(!left.contains(&bundles[0]) && left.contains(&bundles[1]), "{left:?} of {bundles:?}");
    assert_eq!(store.lines_with(&store.ids[BUNDLED - 1][0]), 0);
    assert_eq!(store.lines_with(&store.ids[BUNDLED - 1][1]), 1);
    // The segments that are left get another one.
    wait(&store.cluster, Duration::from_secs(1));
    assert_eq!(store.bundles().len(), 2);
    assert_eq!(store.lines_with("id="), 4 * BUNDLED - 1);
}

#[test]
fn another_number_of_shards_does_without_the_bundles_of_before() {
    let simulation = Simulation::new(3);
    let mut store = Store::new(&simulation, 3, BUNDLED + 1);
    for shards in [2, 3, 1, 2] {
        store = store.restart(shards);
        store.check_answers();
        let names = store.bundles();
        let of_now = format!("-{shards:08x}-");
        let is_of_now = |path: &PathBuf| path.to_string_lossy().contains(&of_now);
        assert!(names.iter().all(is_of_now), "{names:?} with {shards}");
    }
}
