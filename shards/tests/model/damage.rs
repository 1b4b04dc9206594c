//! Segments with damaged bytes, in every part of the file: the node starts, names the parts that it
//! could not read, and answers with the rest. No line is ever wrong.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::PathBuf;

use logsvc_logql::engine::testing::{TestEntry, TestStore};
use logsvc_logql::engine::{Direction, QueryParams, QueryResult, QueryTime};
use logsvc_proto::TenantId;
use logsvc_runtime::sim::Simulation;
use logsvc_segment::{FOOTER_LEN, Footer, HEADER_LEN};
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, SEGMENTS_DIR};
use crate::life::Life;
use crate::naive::entries_of;
use crate::queries::{Query, QueryWriter, Tally, ask, compare};

/// Damages per store.
const DAMAGES: usize = 12;

/// A part of a segment's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Region {
    Header,
    Columns,
    Filters,
    StreamTable,
    LabelIndex,
    Directory,
    Footer,
    /// The end is cut off, or the file is gone.
    Missing,
}

const REGIONS: [Region; 8] = [
    Region::Header,
    Region::Columns,
    Region::Filters,
    Region::StreamTable,
    Region::LabelIndex,
    Region::Directory,
    Region::Footer,
    Region::Missing,
];

/// Says which region was damaged when a test panics while it holds one.
struct Damaged(Region);

impl Drop for Damaged {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("damaged: {:?}", self.0);
        }
    }
}

fn range_of(region: Region, bytes: &[u8]) -> Range<u64> {
    let len = bytes.len() as u64;
    let footer = Footer::parse(&bytes[bytes.len() - FOOTER_LEN..], len).expect("an intact file");
    match region {
        Region::Header => 0..HEADER_LEN as u64,
        Region::Columns => footer.columns_range(),
        Region::Filters => footer.filters_range(),
        Region::StreamTable => footer.stream_table_range(),
        Region::LabelIndex => footer.label_index_range().unwrap_or(0..0),
        Region::Directory => footer.directory_range(),
        Region::Footer => len - FOOTER_LEN as u64..len,
        Region::Missing => 0..len,
    }
}

/// Segments that were sealed and merged have their footers in the edits that made them live.
fn assert_has_footers(cluster: &Cluster<'_>) {
    let plan = cluster.plan();
    assert_eq!((plan.manifest.read_footers, plan.footers.len()), (0, plan.segments.len()));
}

/// All files of a stopped store with several segments, and its contents.
pub(crate) struct Stopped<'s> {
    pub(crate) life: Life<'s>,
    pub(crate) files: Vec<(PathBuf, Vec<u8>)>,
    pub(crate) stores: Vec<(TenantId, TestStore)>,
}

impl<'s> Stopped<'s> {
    pub(crate) fn write(simulation: &'s Simulation, seed: u64) -> Stopped<'s> {
        let mut life = Life::new(simulation, seed);
        for shards in [2, 1] {
            let cluster = life.start(shards);
            assert_has_footers(&cluster);
            for number in 1..=9 {
                assert!(life.push(&cluster), "a push on a healthy disk was refused");
                if number % 3 == 0 {
                    assert!(life.flush(&cluster, true), "a flush on a healthy disk failed");
                }
            }
            assert!(life.push(&cluster), "some entries stay in the log");
            cluster.stop().expect("a healthy disk");
        }
        // This start removes the files that merging has left over, so that all files are live.
        life.merges = false;
        let cluster = life.start(1);
        assert_has_footers(&cluster);
        cluster.stop().expect("a healthy disk");
        let disk = simulation.disk();
        let read = |path: PathBuf| (path.clone(), disk.read(path).expect("it is there"));
        let files = disk.files("/srv").into_iter().map(read).collect();
        let tenants = life.model.tenants().into_iter();
        let stores = tenants.map(|tenant| (tenant.clone(), life.model.store(&tenant))).collect();
        Stopped { life, files, stores }
    }

    pub(crate) fn segments(&self) -> Vec<usize> {
        let is_segment = |path: &PathBuf| {
            path.starts_with(SEGMENTS_DIR) && path.extension().is_some_and(|e| e == "seg")
        };
        (0..self.files.len()).filter(|&at| is_segment(&self.files[at].0)).collect()
    }

    /// Puts the store on a new disk, with another content of one file; `None`: without
    /// that file.
    pub(crate) fn copy(&self, seed: u64, changed: usize, content: Option<&[u8]>) -> Simulation {
        let simulation = Simulation::new(seed);
        for (at, (path, bytes)) in self.files.iter().enumerate() {
            match content {
                Some(content) if at == changed => simulation.disk().write(path, content),
                None if at == changed => {}
                _ => simulation.disk().write(path, bytes),
            }
        }
        simulation
    }

    /// Reads everything; returns how many blocks were damaged.
    pub(crate) fn read_all(&self, cluster: &Cluster<'_>, is_whole: bool) -> u64 {
        let mut unreadable_parts = 0;
        for (tenant, _) in &self.stores {
            let time = QueryTime::Range { start_ns: i64::MIN, end_ns: i64::MAX, step_ns: 1 };
            let params = QueryParams {
                limit: 1 << 20,
                direction: Direction::Forward,
                categorize_labels: true,
                ..QueryParams::new(time)
            };
            let query = Query { text: r#"{app="m"}"#.to_owned(), params };
            let (result, stats) = ask(cluster, tenant, &query);
            unreadable_parts += stats.unreadable_parts;
            let is_whole = is_whole && stats.unreadable_parts == 0;
            let Ok(QueryResult::Streams(shown)) = result else { panic!("{result:?}") };
            for stream in self.life.model.of(tenant) {
                let labels = &stream.definition.labels;
                let mut of_stream = shown.iter().filter(|r| r.labels == **labels);
                let entries = of_stream.next().map_or(Vec::new(), entries_of);
                let known: Vec<&TestEntry> = stream.entries().collect();
                assert!(entries.iter().all(|entry| known.contains(&entry)), "a wrong entry");
                assert!(entries.is_sorted_by_key(|entry| entry.timestamp_ns));
                assert!(
                    !is_whole || entries.iter().eq(known.iter().copied()),
                    "{labels:?}\n{known:?}\n{entries:?}"
                );
            }
            let is_known = |shown: &logsvc_logql::engine::StreamResult| {
                self.life.model.of(tenant).any(|s| *s.definition.labels == shown.labels)
            };
            assert!(shown.iter().all(is_known), "a stream that nobody has");
        }
        unreadable_parts
    }

    /// Asks random queries; every line must be one that was pushed.
    pub(crate) fn ask(&self, cluster: &Cluster<'_>, rng: &mut Rng, is_whole: bool) {
        let bounds_ns = self.life.model.bounds_ns().expect("there are entries");
        let mut writer = QueryWriter { rng, bounds_ns, numbers: self.life.numbers() };
        for (tenant, store) in &self.stores {
            let query = writer.query();
            if is_whole {
                compare(cluster, tenant, store, &query, &mut Tally::default());
                continue;
            }
            let (result, _) = ask(cluster, tenant, &query);
            let Ok(QueryResult::Streams(shown)) = result else { continue };
            if query.text.contains("line_format") {
                continue;
            }
            let streams = self.life.model.of(tenant);
            let lines: BTreeSet<&[u8]> =
                streams.flat_map(|s| s.entries()).map(|entry| entry.line.as_slice()).collect();
            for entry in shown.iter().flat_map(|stream| &stream.entries) {
                assert!(lines.contains(&*entry.line), "{query:?}: a wrong line {entry:?}");
            }
        }
    }
}

/// Damages one segment and looks at a node with it. Returns the damaged region, and whether the
/// damage was noticed.
fn damage(stopped: &Stopped<'_>, rng: &mut Rng) -> (Region, bool) {
    let (region, at, range) = loop {
        let region = *rng.pick(&REGIONS);
        let at = *rng.pick(&stopped.segments());
        let range = range_of(region, &stopped.files[at].1);
        // Lines of less than five bytes have no filters.
        if !range.is_empty() {
            break (region, at, range);
        }
    };
    let mut bytes = stopped.files[at].1.clone();
    let content = if region == Region::Missing {
        bytes.truncate(rng.below(bytes.len() as u64) as usize);
        rng.one_in(2).then_some(bytes)
    } else {
        let mut masks = Vec::new();
        for _ in 0..rng.between(1, 3) {
            let offset = rng.between(range.start, range.end - 1) as usize;
            // No two of one byte, which could undo each other.
            if !masks.contains(&offset) {
                bytes[offset] ^= rng.between(1, 255) as u8;
                masks.push(offset);
            }
        }
        Some(bytes)
    };
    let _region = Damaged(region);
    let simulation = stopped.copy(rng.next_u64(), at, content.as_deref());
    let shards = *rng.pick(&[1, 2, 3]);
    let wal = WalConfig::default();
    let cluster = Cluster::start_sealing(&simulation, shards, wal, SealPolicy::ON_REQUEST)
        .unwrap_or_else(|failure| panic!("{region:?}: the node does not start: {failure}"));
    let statuses = cluster.statuses();
    let missed: u64 = statuses.iter().map(|status| status.seal.damaged_segments).sum();
    let unreadable_parts = stopped.read_all(&cluster, missed == 0);
    stopped.ask(&cluster, rng, missed == 0);
    // The node goes on to work.
    assert!(cluster.stop().is_ok(), "{region:?}: the node does not stop");
    match region {
        // A start does not read them.
        Region::Columns | Region::Directory => {
            assert!(unreadable_parts > 0 && missed == 0, "{region:?} unnoticed");
        }
        // Read only where streams are not known otherwise.
        Region::StreamTable => assert_eq!(missed, 0),
        Region::Missing => {
            assert!(missed > 0 && unreadable_parts > 0, "{region:?} unnoticed");
        }
        // Header and manifest repeat the footer, without the others everything is read.
        Region::Header | Region::Footer | Region::Filters | Region::LabelIndex => {
            assert_eq!((missed, unreadable_parts), (0, 0));
        }
    }
    (region, missed + unreadable_parts > 0)
}

#[test]
fn damaged_segments_are_noticed_and_the_rest_is_served() {
    let seeds = seeds(40);
    let mut found = BTreeSet::new();
    for seed in seeds.clone() {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let stopped = Stopped::write(&simulation, seed);
        assert!(stopped.segments().len() > 2);
        let mut rng = Rng::new(seed);
        for _ in 0..DAMAGES {
            found.insert(damage(&stopped, &mut rng));
        }
    }
    println!("{seeds:?}: {found:?}");
    if seeds.end - seeds.start >= 20 {
        // A stream table matters to some shards and not to others.
        let table = Region::StreamTable;
        assert!(found.contains(&(table, true)) && found.contains(&(table, false)), "{found:?}");
    }
}
