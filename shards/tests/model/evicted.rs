//! Segments in a bucket, whose files are not there: the node answers as if they were, whether the
//! ends of the segments are on the disk or not, and whatever the bucket does. Requests are few.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::path::{Path, PathBuf};
use std::time::Duration;

use logsvc_logql::engine::testing::TestEntry;
use logsvc_logql::engine::{Direction, QueryParams, QueryResult};
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::Monotonic;
use logsvc_runtime::sim::Simulation;
use logsvc_segment::{FOOTER_LEN, Footer};
use logsvc_shards::compact::CompactionPolicy;
use logsvc_shards::manifest::{Day, SegmentName};
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::types::ScanStats;
use logsvc_shards::wal::writer::WalConfig;
use logsvc_store::double::{Faults, World};
use logsvc_store::{ObjectName, Store};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, SEGMENTS_DIR, TestBucket, Upkeep};
use crate::damage::Stopped;
use crate::data::{SECOND_NS, needle};
use crate::life::Life;
use crate::naive::Model;
use crate::queries::{Query, QueryWriter, ask, compare_labels};

const T0_NS: i64 = 1_767_225_600 * SECOND_NS;

/// The object of a segment file.
fn object_of(path: &Path) -> ObjectName {
    let name = |part: &Path| part.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let file = name(path).and_then(|name| SegmentName::parse(&name));
    let day = path.parent().and_then(name).and_then(|name| Day::parse(&name));
    file.expect("a segment").object_name(day.expect("a day"))
}

/// The tail of a segment, as `docs/format.md` has it.
fn tail_of(bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len() as u64;
    let footer = Footer::parse(&bytes[bytes.len() - FOOTER_LEN..], len).expect("an intact file");
    let end = &bytes[footer.filters_offset as usize..];
    let mut tail = [&b"LSVCTAIL"[..], &1u32.to_le_bytes(), &[0; 4], &bytes[16..32]].concat();
    for number in [footer.filters_offset, len, end.len() as u64] {
        tail.extend(number.to_le_bytes());
    }
    tail.extend(crc32c::crc32c(end).to_le_bytes());
    tail.extend([0; 4]);
    let crc = crc32c::crc32c(&tail);
    tail[12..16].copy_from_slice(&crc.to_le_bytes());
    tail.extend(end);
    tail
}

fn segments(simulation: &Simulation) -> Vec<PathBuf> {
    let files = simulation.disk().files(SEGMENTS_DIR).into_iter();
    files.filter(|path| path.extension().is_some_and(|ending| ending == "seg")).collect()
}

/// Puts all segments into a new bucket.
fn upload(simulation: &Simulation) -> World {
    let world = World::default();
    let disk = simulation.disk().clone();
    let (bucket, paths) = (world.clone(), segments(simulation));
    simulation.block_on(|runtime| async move {
        let store = Store::new(runtime.clone(), Box::new(bucket.bucket(runtime)));
        for path in paths {
            let body = disk.read(&path).expect("it is there");
            let (name, proof) = (object_of(&path), 0..body.len());
            let created = store.create(&name, body.into(), proof, Monotonic(u64::MAX)).await;
            created.expect("a healthy bucket");
        }
    });
    world
}

/// Takes the file of a segment away.
fn evict(simulation: &Simulation, path: &Path, leaves_tail: bool) {
    let disk = simulation.disk();
    if leaves_tail {
        let bytes = disk.read(path).expect("it is there");
        disk.write(path.with_extension("tail"), &tail_of(&bytes));
    }
    assert!(disk.remove(path));
}

fn start<'s>(simulation: &'s Simulation, shards: u16, upkeep: Upkeep) -> Cluster<'s> {
    Cluster::start_sealing(simulation, shards, WalConfig::default(), upkeep)
        .unwrap_or_else(|failure| panic!("the node does not start: {failure}"))
}

fn upkeep(world: &World) -> Upkeep {
    let bucket = Some(TestBucket(world.clone()));
    Upkeep { bucket, cache_max_bytes: 20_000, ..SealPolicy::ON_REQUEST.into() }
}

/// A bucket that is slow and fails now and then.
fn troubled() -> Faults {
    Faults {
        slow_factor: 40,
        failures_per_million: 30_000,
        lost_answers_per_million: 30_000,
        busy_per_million: 30_000,
        ..Faults::default()
    }
}

#[test]
fn a_node_answers_from_a_bucket_as_from_files() {
    let (mut reads, mut seconds, mut merges) = (0, 0, 0);
    let mut stats = ScanStats::default();
    for seed in seeds(40) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let stopped = Stopped::write(&simulation, seed);
        let mut rng = Rng::new(seed);
        let simulation = stopped.copy(rng.next_u64(), usize::MAX, None);
        let world = upload(&simulation);
        if rng.one_in(2) {
            world.set_faults(troubled());
        }
        let (shards, rewrites) = (*rng.pick(&[1, 2, 3]), rng.one_in(2));
        let mut upkeep = upkeep(&world);
        if seed % 3 > 0 {
            // Room to look at several segments at once.
            upkeep.directories_max_bytes = 1 << 20;
        }
        if rewrites {
            upkeep.compaction = CompactionPolicy {
                min_inputs: 2,
                min_last_inputs: 2,
                min_bundled: 1,
                check_interval: Duration::from_secs(1),
                drafts: None,
                ..CompactionPolicy::default()
            };
        }
        let cluster = start(&simulation, shards, upkeep);
        for path in segments(&simulation) {
            if !rng.one_in(4) {
                evict(&simulation, &path, rng.one_in(2));
            }
        }
        for round in 0..3 {
            assert_eq!(stopped.read_all(&cluster, true), 0, "round {round}");
            for _ in 0..6 {
                stopped.ask(&cluster, &mut rng, true);
                let bounds_ns = stopped.life.model.bounds_ns().expect("there are entries");
                let numbers = stopped.life.numbers();
                let mut writer = QueryWriter { rng: &mut rng, bounds_ns, numbers };
                for (tenant, _) in &stopped.stores {
                    compare_labels(&cluster, tenant, &stopped.life.model, &mut writer);
                    let (_, of_one) = ask(&cluster, tenant, &writer.query());
                    stats.add(&of_one);
                }
            }
            if rewrites {
                simulation.run_for(Duration::from_secs(100));
            }
        }
        for status in cluster.statuses() {
            merges += status.seal.maintenance.merges;
        }
        let counters = cluster.store_reads();
        reads += counters.requests;
        seconds += counters.seconds;
        cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
    }
    println!("{reads} requests, {seconds} of them for the second time, {merges} merges, {stats:?}");
    assert!(reads > 1_000 && seconds > 10 && merges > 5);
    assert!(stats.store.requests > 100 && stats.store.bytes > 10_000 && stats.store.time_ns > 0);
    assert!(stats.store.time_ns <= stats.read_time_ns);
}

fn tails(simulation: &Simulation) -> usize {
    let files = simulation.disk().files(SEGMENTS_DIR);
    files.iter().filter(|path| path.extension().is_some_and(|ending| ending == "tail")).count()
}

#[test]
fn tails_go_with_their_segments() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let stopped = Stopped::write(&simulation, seed);
        let simulation = stopped.copy(seed, usize::MAX, None);
        let world = upload(&simulation);
        let paths = segments(&simulation);
        let (all, disk) = (paths.len(), simulation.disk());
        // One of a segment that nobody knows, and one that is not needed.
        let unknown = paths[0].with_file_name("00000000-00000001-00000000-0000ffff.tail");
        disk.write(&unknown, b"");
        disk.write(paths[0].with_extension("tail"), b"");
        let compaction = CompactionPolicy {
            min_inputs: all,
            min_last_inputs: 2,
            drafts: None,
            ..CompactionPolicy::default()
        };
        let cluster = start(&simulation, 1, Upkeep { compaction, ..upkeep(&world) });
        assert!(disk.read(&unknown).is_none());
        let left: Vec<_> = paths.iter().filter(|path| disk.read(path).is_some()).collect();
        left.iter().for_each(|path| evict(&simulation, path, true));
        simulation.run_for(Duration::from_secs(100));
        let merges: u64 = cluster.statuses().iter().map(|s| s.seal.maintenance.merges).sum();
        assert!(merges > 0 && tails(&simulation) < left.len(), "{merges} merges");
        assert_eq!(stopped.read_all(&cluster, true), 0);
        cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn an_object_that_is_lost_is_a_part_that_cannot_be_read() {
    for seed in seeds(10) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let stopped = Stopped::write(&simulation, seed);
        let simulation = stopped.copy(seed, usize::MAX, None);
        let world = upload(&simulation);
        let cluster = start(&simulation, 1, upkeep(&world));
        let path = segments(&simulation).swap_remove(0);
        let bytes = simulation.disk().read(&path).expect("it is there");
        evict(&simulation, &path, seed % 2 == 0);
        assert!(world.lose(&object_of(&path)));
        assert!(stopped.read_all(&cluster, false) > 0, "unnoticed");
        // A file that is put back counts as soon as the object was not found again.
        simulation.disk().write(&path, &bytes);
        stopped.read_all(&cluster, false);
        assert_eq!(stopped.read_all(&cluster, true), 0);
        cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
    }
}

const STREAMS: usize = 12;
const LINES: usize = 24_000;

const WORDS: [&str; 32] = [
    "accept", "answer", "bridge", "broken", "closed", "commit", "create", "cursor", "deploy",
    "device", "disk", "driver", "failed", "filter", "folder", "gather", "hidden", "index",
    "lookup", "memory", "merged", "number", "object", "opened", "parser", "policy", "query",
    "reader", "remote", "sealed", "stream", "window",
];

/// A stopped node with some segments, of many blocks together. Each line has a needle, and so has the
/// metadata.
fn many_blocks(simulation: &Simulation, count: usize) -> TenantId {
    let tenant = TenantId::new("one").expect("a tenant");
    let mut life = Life::new(simulation, 1);
    life.model = Model::default();
    for number in 0..STREAMS {
        let labels = Labels::from_pairs([("app", "a"), ("s", &*number.to_string())]);
        life.model.add(&tenant, labels.expect("labels"));
    }
    let cluster = start(simulation, 1, SealPolicy::ON_REQUEST.into());
    let mut rng = Rng::new(1);
    let entries: Vec<(usize, TestEntry)> = (0..LINES)
        .map(|number| {
            // Words without digits, so that needles share nothing with them.
            let words = (0..110).map(|_| WORDS[rng.below(WORDS.len() as u64) as usize]);
            let words: Vec<&str> = words.collect();
            let line = format!("{} {}", needle(number as u64), words.join(" ")).into_bytes();
            let timestamp_ns = T0_NS + number as i64 * 1_000_000;
            let metadata = vec![("trace".to_owned(), needle(number as u64))];
            (number % STREAMS, TestEntry { timestamp_ns, line, metadata })
        })
        .collect();
    for of_segment in entries.chunks(LINES / count) {
        for part in of_segment.chunks(100) {
            assert!(life.push_entries(&cluster, part.to_vec()));
        }
        assert!(life.flush(&cluster, true));
    }
    cluster.stop().expect("a healthy disk");
    assert_eq!(segments(simulation).len(), count);
    tenant
}

#[test]
fn segments_whose_ends_are_away_are_asked_side_by_side() {
    const LATENCY_NS: u64 = 30_000_000;
    let simulation = Simulation::new(8);
    let tenant = many_blocks(&simulation, 24);
    let world = upload(&simulation);
    world.set_faults(Faults { latency_ns: LATENCY_NS..=LATENCY_NS, ..Faults::default() });
    let (directories_max_bytes, queries_max_bytes) = (1 << 20, 64 << 20);
    let upkeep = Upkeep { directories_max_bytes, queries_max_bytes, ..upkeep(&world) };
    let cluster = start(&simulation, 1, upkeep);
    segments(&simulation).iter().for_each(|path| evict(&simulation, path, false));
    let mut asked = 0;
    let (line, trace) = (|text| format!(r#"|= "{text}""#), |text| format!(r#"| trace="{text}""#));
    for (filter, found) in [
        (line("nowhere to be found"), 0),
        (line(&needle(3)), 1),
        (trace("nowhere to be found"), 0),
        (trace(&needle(4)), 1),
    ] {
        let mut params = QueryParams::range(T0_NS, T0_NS + 3_600 * SECOND_NS, SECOND_NS);
        (params.limit, params.direction) = (100, Direction::Backward);
        let text = format!(r#"{{app="a"}} {filter}"#);
        let begun = simulation.now();
        let (result, stats) = ask(&cluster, &tenant, &Query { text, params });
        let took_ns = simulation.now().since(begun).as_nanos() as u64;
        let Ok(QueryResult::Streams(streams)) = result else { panic!("{result:?}") };
        let lines: usize = streams.iter().map(|stream| stream.entries.len()).sum();
        assert_eq!((lines, stats.unreadable_parts), (found, 0));
        let requests = cluster.store_reads().requests - asked;
        asked += requests;
        println!("{filter}: {found} found by {requests} requests in {took_ns} ns");
        assert!(requests > 24 && took_ns * 2 < requests * LATENCY_NS, "{requests} in {took_ns} ns");
    }
    cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_query_makes_few_requests() {
    let needle = format!(r#"{{app="a"}} |= "{}""#, needle(1_234));
    let first = Simulation::new(7);
    let tenant = many_blocks(&first, 1);
    let files = first.disk().files("/srv").into_iter();
    let files: Vec<_> = files.filter_map(|path| Some((first.disk().read(&path)?, path))).collect();
    for leaves_tail in [true, false] {
        // Requests of a query, and those for columns among them.
        for (text, limit, found, most, most_columns) in [
            (&*needle, 100, 1, 10, 3),
            (r#"{app="a", s="3"}"#, 100, 100, 9, 2),
            (r#"{app="a", s="3"}"#, 5_000, LINES / STREAMS, 10, 4),
            (r#"{app="a", s="nobody"}"#, 100, 0, 3, 0),
            (r#"{app="a"} |= "nowhere to be found""#, 100, 0, 9, 0),
        ] {
            let simulation = Simulation::new(7);
            files.iter().for_each(|(bytes, path)| simulation.disk().write(path, bytes));
            let world = upload(&simulation);
            let upkeep = Upkeep { queries_max_bytes: 64 << 20, ..upkeep(&world) };
            let cluster = start(&simulation, 1, upkeep);
            evict(&simulation, &segments(&simulation)[0], leaves_tail);
            let mut params = QueryParams::range(T0_NS, T0_NS + 3_600 * SECOND_NS, SECOND_NS);
            (params.limit, params.direction) = (limit, Direction::Backward);
            let query = Query { text: text.to_owned(), params };
            let (result, stats) = ask(&cluster, &tenant, &query);
            let Ok(QueryResult::Streams(streams)) = result else { panic!("{result:?}") };
            let lines: usize = streams.iter().map(|stream| stream.entries.len()).sum();
            assert_eq!((lines, stats.unreadable_parts), (found, 0), "{text}");
            let requests = cluster.store_reads().requests;
            let what = format!("{text}, tail: {leaves_tail}: {requests} requests, {stats:?}");
            println!("{what}");
            assert!(stats.unreadable_parts == 0 && stats.store.bytes < 2 << 20, "{what}");
            if leaves_tail {
                assert_eq!(requests, stats.store.requests, "{what}");
                assert!(requests <= most_columns, "{what}");
            } else {
                assert!(requests <= most, "{what}");
            }
            cluster.stop().unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
}
