//! What a node that is gone has left behind in its write-ahead log in the bucket, as its heirs read it:
//! all that was acknowledged and is in no segment, and nothing is missing unnoticed.
//!
//! `LOGSVC_SEED` replays one seed, `LOGSVC_SEEDS` sets their number.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use logsvc_proto::StreamId;
use logsvc_runtime::Runtime;
use logsvc_runtime::sim::Simulation;
use logsvc_segment::batch::sections;
use logsvc_shards::ledger::Logs;
use logsvc_shards::messages::AppendRequest;
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::sink::heritage::{Heritage, HeritageBatch, HeritageError, HeritageTotals, read};
use logsvc_shards::types::{Part, StreamPartitions};
use logsvc_shards::wal::covers::{Cover, FileCovers};
use logsvc_shards::wal::format::{
    FRAME_HEADER_LEN, FileHeader, FrameHeader, Record, WalName, records,
};
use logsvc_shards::wal::writer::WalConfig;
use logsvc_store::double::{Faults, World};
use logsvc_store::log::{LogName, fence, read_log};
use logsvc_store::object::Header;
use logsvc_store::{ObjectName, Store};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::cluster::{Cluster, Upkeep, append_outcome, send_append};
use crate::ledger::Ledger;
use crate::load::Load;
use crate::stored_log::{random_faults, random_upkeep};

const FOLDER: &str = "/srv/gone";
const PATIENCE: Duration = Duration::from_secs(3_600);
const PARTITIONS: u16 = 8;

/// What there is to know of a writer that has ended.
struct Left {
    heritage: Heritage,
    covers: Vec<Cover>,
    /// The payloads of its objects.
    payloads: Vec<Bytes>,
}

fn log(folder: &str, epoch: u32) -> LogName {
    LogName::new(&format!("{folder}/{epoch:08x}")).expect("a name")
}

/// Ends a writer as a node does that takes over from it. `None` if it has told nobody of its log.
fn end_writer(simulation: &Simulation, world: &World, epoch: u32) -> Option<Left> {
    let world = world.clone();
    simulation.block_on(|runtime| async move {
        let store = Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())));
        let until = runtime.now().after(PATIENCE);
        let edits =
            fence(&runtime, &store, &log("log", epoch), 0, 900, until).await.expect("edits");
        let mut logs = Logs::default();
        let positions = BTreeMap::from([(epoch, edits.next)]);
        logs.read_on(&store, &positions, until).await.expect("the same");
        let union = logs.union();
        let from = *union.wal.get(&epoch)?;
        let name = log("wal", epoch);
        let end = fence(&runtime, &store, &name, from, 900, until).await.expect("a log").next;
        let content = read_log(&store, &name, from, until).await.expect("it was read");
        let heritage = Heritage { epoch, from, end };
        Some(Left { heritage, covers: union.stored.covers, payloads: content.entries })
    })
}

type Outcome = Result<(Vec<HeritageBatch>, HeritageTotals), HeritageError>;

fn read_left(
    simulation: &Simulation,
    world: &World,
    left: &Left,
    covers: &[Cover],
    wanted: &StreamPartitions,
) -> Outcome {
    let (world, heritage) = (world.clone(), left.heritage);
    let (covers, wanted) = (covers.to_vec(), wanted.clone());
    simulation.block_on(|runtime| async move {
        let store = Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())));
        let mut batches = Vec::new();
        let take = async |batch| {
            batches.push(batch);
            Ok::<(), HeritageError>(())
        };
        let totals = read(&runtime, &store, heritage, &covers, &wanted, take).await?;
        Ok((batches, totals))
    })
}

/// The sections of each stream, in order.
type Sections = BTreeMap<StreamId, Vec<Vec<u8>>>;

fn add_sections(batch: &[u8], all: &mut Sections, is_wanted: impl Fn(StreamId) -> bool) -> u64 {
    let (mut rest, mut entries) = (sections(batch), 0);
    loop {
        let begin = rest.offset();
        let Some(section) = rest.next() else { return entries };
        let section = section.expect("a section");
        if is_wanted(section.stream) {
            entries += section.entry_count() as u64;
            let bytes = batch[begin..rest.offset()].to_vec();
            all.entry(section.stream).or_default().push(bytes);
        }
    }
}

fn given(batches: &[HeritageBatch], ledger: &Ledger) -> Sections {
    let mut all = Sections::new();
    for batch in batches {
        let mut streams = Sections::new();
        assert_eq!(add_sections(&batch.batch, &mut streams, |_| true), batch.entries);
        add_sections(&batch.batch, &mut all, |_| true);
        assert!(streams.keys().eq(batch.definitions.iter().map(|one| &one.id)));
        for definition in &batch.definitions {
            let known = ledger.streams.iter().find(|stream| stream.id == definition.id);
            let known = known.expect("a stream that was pushed");
            assert_eq!((&known.tenant, &known.labels), (&definition.tenant, &definition.labels));
        }
    }
    all
}

/// The log files, put together whole.
fn log_files(left: &Left) -> BTreeMap<WalName, Vec<u8>> {
    let mut files: BTreeMap<WalName, Vec<u8>> = BTreeMap::new();
    for payload in &left.payloads {
        let mut rest = payload.as_ref();
        while !rest.is_empty() {
            let u32_at =
                |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes"));
            let name = WalName {
                epoch: u32_at(0),
                shards: u32_at(4),
                shard: u32_at(8),
                index: u32_at(12),
            };
            let (offset, len) = (u32_at(16) as usize, u32_at(24) as usize);
            let file = files.entry(name).or_default();
            file.resize(file.len().max(offset + len), 0);
            file[offset..offset + len].copy_from_slice(&rest[32..32 + len]);
            rest = &rest[32 + len..];
        }
    }
    files
}

/// The sections that heirs should get.
fn expected(left: &Left, covers: &[Cover], wanted: &StreamPartitions) -> Sections {
    let mut all = Sections::new();
    for (name, file) in log_files(left) {
        let covers = FileCovers::of(covers, name);
        // A file that is covered may have begun before.
        let Some(header) = FileHeader::decode(&file) else { continue };
        let mut at = header.layout.first_frame() as usize;
        while let Some(frame) = file.get(at..).and_then(FrameHeader::decode_any) {
            let end = at + FRAME_HEADER_LEN + frame.payload_len as usize;
            let Some(payload) = file.get(at + FRAME_HEADER_LEN..end) else { break };
            for record in records(payload) {
                if let Record::Batch(batch) = record.expect("a record") {
                    let is_wanted = |id| wanted.contains(id) && !covers.covers_stream(id);
                    add_sections(batch, &mut all, is_wanted);
                }
            }
            at = header.layout.position_behind(end as u64) as usize;
        }
    }
    all
}

fn parts(first: u16, last: u16) -> StreamPartitions {
    [Part::new(PARTITIONS, first, last).expect("a part")].into_iter().collect()
}

/// Runs a node for some time in a bucket that fails, and kills it.
fn ended_node(
    simulation: &Simulation,
    world: &World,
    load: &Rc<Load>,
    rng: &mut Rng,
    upkeep: Upkeep,
) -> Option<Left> {
    world.set_faults(random_faults(rng));
    let wal = WalConfig { file_max_bytes: rng.between(5_000, 60_000), ..WalConfig::default() };
    let shards = rng.between(1, 4) as u16;
    let cluster = Cluster::launch_at(FOLDER, simulation, shards, wal, upkeep);
    cluster.await_start().unwrap_or_else(|failure| panic!("{failure}"));
    load.begin(&cluster, rng.between(1, 8));
    simulation.run_for(Duration::from_millis(rng.below(9_000)));
    let epoch = cluster.plan().epoch;
    cluster.node.crash();
    load.killed();
    load.ledger.borrow_mut().node_ended(|_| false);
    world.set_faults(Faults::default());
    // Requests on their way may still take effect.
    simulation.run_for(Duration::from_millis(rng.below(2_000)));
    end_writer(simulation, world, epoch)
}

#[test]
fn heirs_get_what_their_partitions_have_in_the_log_and_in_no_segment() {
    let (mut entries, mut covered, mut later, mut partly) = (0, 0, 0, 0);
    for seed in seeds(60) {
        let _guard = SeedGuard(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        let mut rng = Rng::new(seed);
        let load = Load::new(Ledger::new(&["a", "b"], 6), seed);
        let upkeep = random_upkeep(&world, &mut rng);
        let Some(left) = ended_node(&simulation, &world, &load, &mut rng, upkeep) else { continue };
        let ledger = load.ledger.borrow();
        let everything = parts(0, PARTITIONS - 1);
        let outcome = read_left(&simulation, &world, &left, &left.covers, &everything);
        let (batches, totals) = outcome.unwrap_or_else(|error| panic!("{error}"));
        let all = given(&batches, &ledger);
        assert_eq!(all, expected(&left, &left.covers, &everything));
        assert_eq!(totals.entries, batches.iter().map(|batch| batch.entries).sum::<u64>());
        assert_eq!(totals.objects, left.payloads.len() as u64);
        entries += totals.entries;
        later += u64::from(left.heritage.from > 0);
        // As if other heirs had brought some of it into segments.
        let mut covers = left.covers.clone();
        for name in log_files(&left).into_keys() {
            if !rng.one_in(3) {
                continue;
            }
            let WalName { epoch: wal_epoch, shards: wal_shards, shard: wal_shard, index } = name;
            let part = Part::one(PARTITIONS, rng.below(u64::from(PARTITIONS)) as u16);
            covers.push(Cover { wal_epoch, wal_shards, wal_shard, up_to_index: index, part });
        }
        let outcome = read_left(&simulation, &world, &left, &covers, &everything);
        let (batches, less) = outcome.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(given(&batches, &ledger), expected(&left, &covers, &everything));
        covered += less.covered_entries;
        assert!(less.entries + less.covered_entries <= totals.entries);
        if left.heritage.from == 0 {
            let outcome = read_left(&simulation, &world, &left, &[], &everything);
            let (batches, more) = outcome.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(given(&batches, &ledger), expected(&left, &[], &everything));
            assert!(more.covered_entries == 0 && more.entries >= totals.entries);
        }
        // Two heirs share the partitions.
        let border = rng.between(1, u64::from(PARTITIONS) - 1) as u16;
        let mut shares = Sections::new();
        for wanted in [parts(0, border - 1), parts(border, PARTITIONS - 1)] {
            let outcome = read_left(&simulation, &world, &left, &left.covers, &wanted);
            let (batches, share) = outcome.unwrap_or_else(|error| panic!("{error}"));
            let share_of = given(&batches, &ledger);
            assert_eq!(share_of, expected(&left, &left.covers, &wanted));
            assert!(share_of.keys().all(|stream| wanted.contains(*stream)));
            partly += u64::from(share.frames < totals.frames);
            shares.extend(share_of);
        }
        assert_eq!(shares, all);
    }
    println!(
        "{entries} entries, {covered} covered; {later} logs not from the beginning on, {partly} \
         shares without frames of others"
    );
    assert!(entries > 5_000 && covered > 500 && later > 2 && partly > 20);
}

#[test]
fn what_was_acknowledged_comes_back_as_pushes() {
    let mut pushed = 0;
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        let mut rng = Rng::new(seed);
        let load = Load::new(Ledger::new(&["a", "b"], 6), seed);
        let upkeep = Upkeep { seal: SealPolicy::ON_REQUEST, ..random_upkeep(&world, &mut rng) };
        let Some(left) = ended_node(&simulation, &world, &load, &mut rng, upkeep) else { continue };
        let outcome =
            read_left(&simulation, &world, &left, &left.covers, &parts(0, PARTITIONS - 1));
        let (batches, _) = outcome.unwrap_or_else(|error| panic!("{error}"));
        let heir = Cluster::start(&simulation, 1, WalConfig::default()).expect("it starts");
        let caller = heir.caller(0);
        pushed += batches.len();
        heir.run(async move {
            for HeritageBatch { batch, definitions, entries } in batches {
                let request = AppendRequest {
                    batch,
                    definitions,
                    out_of_order_window_ns: None,
                    is_replayed: false,
                };
                let reply = send_append(&caller, 0, request).expect("the lane has room");
                let outcome = append_outcome(reply).await.expect("it lives").expect("it is stored");
                assert_eq!(outcome.accepted, entries);
            }
        });
        load.check(&heir);
    }
    assert!(pushed > 15, "{pushed} batches");
}

/// Gives an object another payload, as a writer would have made it.
fn remake(world: &World, name: &ObjectName, at: usize, mask: u8) -> bool {
    let objects = world.objects();
    let found = objects.iter().find(|(object, _)| object == name);
    let Some((_, before)) = found else { return false };
    let Ok((header, payload)) = Header::decode(before) else { return false };
    let mut payload = payload.to_vec();
    let Some(byte) = payload.get_mut(at) else { return false };
    *byte ^= mask;
    let after = header.encode(&payload);
    for (at, (before, after)) in before.iter().zip(&after).enumerate() {
        assert!(before == after || world.corrupt(name, at, before ^ after));
    }
    true
}

#[test]
fn damage_is_an_error_and_nothing_is_missing_unnoticed() {
    let (mut damaged, mut remade, mut lost, mut same) = (0, 0, 0, 0);
    for seed in seeds(30) {
        let _guard = SeedGuard(seed);
        let (simulation, world) = (Simulation::new(seed), World::default());
        let mut rng = Rng::new(seed);
        let load = Load::new(Ledger::new(&["a", "b"], 6), seed);
        let upkeep = random_upkeep(&world, &mut rng);
        let Some(left) = ended_node(&simulation, &world, &load, &mut rng, upkeep) else { continue };
        let ledger = load.ledger.borrow();
        let wanted = parts(0, PARTITIONS - 1);
        let whole = expected(&left, &left.covers, &wanted);
        let prefix = format!("wal/{:08x}/", left.heritage.epoch);
        let of_log = |name: &ObjectName| {
            let number = name.as_str().strip_prefix(&prefix);
            let number = number.and_then(|number| u64::from_str_radix(number, 16).ok());
            number.is_some_and(|number| number >= left.heritage.from)
        };
        let objects: Vec<_> =
            world.objects().into_iter().filter(|(name, _)| of_log(name)).collect();
        let mut judge =
            |what: &mut u64| match read_left(&simulation, &world, &left, &left.covers, &wanted) {
                Ok((batches, _)) => {
                    assert_eq!(given(&batches, &ledger), whole);
                    same += 1;
                }
                Err(error) => {
                    assert!(error.to_string().contains(prefix.trim_end_matches('/')), "{error}");
                    *what += 1;
                }
            };
        for _ in 0..10 {
            let (name, bytes) = rng.pick(&objects);
            let (at, mask) = (rng.index(bytes.len()), 1 << rng.below(8));
            assert!(world.corrupt(name, at, mask));
            judge(&mut damaged);
            assert!(world.corrupt(name, at, mask));
            if remake(&world, name, at, mask) {
                judge(&mut remade);
                assert!(remake(&world, name, at, mask));
            }
        }
        assert!(world.lose(&rng.pick(&objects).0));
        judge(&mut lost);
    }
    println!("{damaged} damaged, {remade} remade, {lost} lost, {same} of no consequence");
    assert!(damaged > 150 && remade > 50 && lost > 15);
}
