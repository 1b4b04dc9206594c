//! Compares merges with the segments that they must give, on the simulation.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use logsvc_logql::engine::MetadataSets;
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_runtime::Budget;
use logsvc_runtime::sim::{DiskOperation, SimRuntime, Simulation};
use logsvc_store::Store;

use super::input::Input;
use super::*;
use crate::manifest::{Day, read_manifest, survey_segments};
use crate::node::{Node, open_node};
use crate::retention::{EntryView, FilterDecision, RunView};
use crate::sealed::{Directories, SegmentFolder};
use crate::types::StreamDefinition;
use crate::wal::format::WalName;
use logsvc_segment::{Decoder, Entries, EntriesMetadata, SegmentWriter, stream_order};
use logsvc_testkit::{Rng, SeedGuard, seeds};

mod drafts;
mod purge;
mod steps;
mod stored;

/// Keeps everything.
#[derive(Debug)]
struct KeepAll;

impl CompactionFilter for KeepAll {
    fn begin(&mut self, _: &StreamDefinition) {}

    fn run(&self, _: RunView<'_>) -> FilterDecision {
        FilterDecision::Keep
    }

    fn entry(&self, _: RunView<'_>, _: usize, _: &EntryView<'_>) -> bool {
        true
    }
}

const SEGMENTS_DIR: &str = "/data/segments";

/// Room for one or two directories, so that merges have to read them again.
const DIRECTORIES_BYTES: u64 = 1500;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    timestamp_ns: i64,
    line: Vec<u8>,
    metadata: Vec<(String, String)>,
}

/// Streams by their number, each with its entries.
type Content = BTreeMap<usize, Vec<Entry>>;

fn streams() -> Vec<StreamDefinition> {
    let stream = |number: usize| {
        let tenant = TenantId::new(if number < 4 { "one" } else { "two" }).unwrap();
        let labels = Labels::from_pairs([("app", format!("app{number}"))]).unwrap();
        let id = StreamId::new(&tenant, &labels);
        StreamDefinition { id, tenant, labels: Arc::new(labels) }
    };
    let mut streams: Vec<_> = (0..8).map(stream).collect();
    streams
        .sort_by(|a, b| stream_order((&a.tenant, &a.labels, a.id), (&b.tenant, &b.labels, b.id)));
    streams
}

/// Writes a segment of entries that arrived in this order.
async fn write(
    folder: &SegmentFolder<SimRuntime>,
    content: &Content,
    level: u32,
) -> Arc<SealedSegment> {
    write_as(folder, content, level, false).await
}

/// The same, as a draft or not.
async fn write_as(
    folder: &SegmentFolder<SimRuntime>,
    content: &Content,
    level: u32,
    is_draft: bool,
) -> Arc<SealedSegment> {
    let begun = if is_draft { folder.begin_draft(Day(0)) } else { folder.begin(Day(0)) };
    let mut segment = begun.unwrap();
    let mut writer = SegmentWriter::new(folder.identity(&segment)).unwrap();
    if is_draft {
        writer.make_draft();
    }
    let streams = streams();
    for (&number, entries) in content {
        let StreamDefinition { id, tenant, labels } = &streams[number];
        writer.begin_stream(tenant, labels, *id).unwrap();
        for entry in entries {
            let mut sets = MetadataSets::new();
            let set = sets.intern(entry.metadata.iter().map(|(n, v)| (&**n, &**v))).unwrap();
            let one = Entries {
                timestamps_ns: &[entry.timestamp_ns],
                lines_start: 0,
                line_ends: &[entry.line.len() as u32],
                lines: &entry.line,
                metadata: EntriesMetadata::Sets { set_ids: &[set], sets: &sets },
            };
            while writer.append(&one).unwrap().entries == 0 {}
            folder.write_some(&mut segment, &mut writer).await.unwrap();
        }
    }
    let order = segment.name.sealed_order();
    let finished = writer.finish().unwrap();
    let opened = folder.publish(segment, finished, level, order).await.unwrap();
    folder.finalize(&opened.segment.live).await.unwrap();
    Arc::new(opened.segment)
}

async fn read(folder: &SegmentFolder<SimRuntime>, segment: &Arc<SealedSegment>) -> Content {
    let mut decoder = Decoder::new();
    let mut input = Input::open(folder, Arc::clone(segment)).await.unwrap();
    let streams = streams();
    let mut content = Content::new();
    loop {
        input.load_stream(&folder.runtime).await.unwrap();
        let Some(stream) = input.stream() else { return content };
        let number = streams.iter().position(|other| other.id == stream.id).unwrap();
        let row = input.take_stream().unwrap();
        let runs: Vec<_> = input.directory.runs_of_stream(row).collect();
        for run in runs {
            let stored = input.stored(0, run.block).await.unwrap();
            let block = stored.decode(&mut decoder).unwrap();
            for index in run.entries.clone() {
                let entry = block.entry(&run, index as usize);
                let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
                content.entry(number).or_default().push(Entry {
                    timestamp_ns: entry.timestamp_ns,
                    line: entry.line.to_vec(),
                    metadata: entry.metadata().map(owned).collect(),
                });
            }
        }
    }
}

/// The entries that queries show of segments in this order.
fn shown(segments: &[Content]) -> Content {
    let mut all = Content::new();
    for content in segments {
        for (number, entries) in content {
            let stream = all.entry(*number).or_default();
            let new = entries.iter().filter(|entry| !stream.contains(entry)).cloned();
            let new: Vec<_> = new.collect();
            stream.extend(new);
        }
    }
    all.values_mut().for_each(|entries| entries.sort_by_key(|entry| entry.timestamp_ns));
    all
}

struct Bench {
    _node: Node<SimRuntime>,
    folder: Rc<SegmentFolder<SimRuntime>>,
    compactor: Compactor<SimRuntime>,
}

impl Bench {
    async fn new(runtime: SimRuntime) -> Bench {
        Bench::with_store(runtime, None).await
    }

    /// Segments without files are in this bucket.
    async fn with_store(runtime: SimRuntime, store: Option<Store<SimRuntime>>) -> Bench {
        let node = open_node(&runtime, "/data".as_ref()).await.unwrap();
        let first = WalName { epoch: node.plan.epoch, shards: 1, shard: 0, index: 0 };
        let directories =
            Directories::new(runtime.clone(), &Budget::new("directories", DIRECTORIES_BYTES));
        let directories = Rc::new(directories.with_store(store));
        let folder = SegmentFolder::new(runtime.clone(), &node.plan, first, directories);
        let folder = Rc::new(folder);
        let node_segments = Arc::clone(&node.plan.node_segments);
        let compactor = Compactor::new(Rc::clone(&folder), node_segments);
        Bench { _node: node, compactor, folder }
    }

    async fn merge(
        &mut self,
        inputs: &[Arc<SealedSegment>],
        keep: impl CompactionFilter + 'static,
    ) -> Result<MaintenanceOutcome, CompactError> {
        let job = MergeJob {
            inputs: inputs.to_vec(),
            earlier: Vec::new(),
            keep: Box::new(keep),
            throttle: Arc::default(),
        };
        self.compactor.run(MaintenanceJob::Merge(job)).await
    }
}

fn random_entry(rng: &mut Rng, spread: u64, long: bool) -> Entry {
    let mut line = format!("line {}", rng.below(6)).into_bytes();
    if long {
        let padding = rng.below(20_000) as usize;
        line.extend((0..padding).map(|_| rng.next_u64() as u8));
    }
    let mut metadata = Vec::new();
    if rng.one_in(3) {
        metadata.push(("id".to_owned(), rng.below(3).to_string()));
    }
    Entry { timestamp_ns: rng.below(spread) as i64, line, metadata }
}

fn random_content(rng: &mut Rng, base_ns: i64, spread: u64, before: &[Content]) -> Content {
    let mut content = Content::new();
    let long = rng.one_in(3);
    for number in 0..8 {
        if rng.one_in(3) {
            continue;
        }
        let mut entries: Vec<Entry> = Vec::new();
        let most = if rng.one_in(4) { 100 } else { 8 };
        for _ in 0..1 + rng.below(most) {
            let repeated = before.last().and_then(|content| content.get(&number));
            let mut entry = match repeated {
                Some(known) if rng.one_in(4) => rng.pick(known).clone(),
                _ => {
                    let mut entry = random_entry(rng, spread, long);
                    entry.timestamp_ns += base_ns;
                    entry
                }
            };
            if rng.one_in(8) {
                entry.metadata = vec![("id".to_owned(), "other".to_owned())];
            }
            // A head drops an entry that it has.
            if !entries.contains(&entry) {
                entries.push(entry);
            }
        }
        entries.sort_by_key(|entry| entry.timestamp_ns);
        content.insert(number, entries);
    }
    if content.is_empty() {
        content.insert(0, vec![random_entry(rng, spread, false)]);
    }
    content
}

#[test]
fn a_merge_shows_what_its_inputs_have_shown() {
    for seed in seeds(30) {
        let _guard = SeedGuard(seed);
        Simulation::new(seed).block_on(move |runtime| async move {
            let mut rng = Rng::new(seed);
            let mut bench = Bench::new(runtime.clone()).await;
            let spread = *rng.pick(&[1, 10, 1000]);
            let step_ns = *rng.pick(&[0, 5, 1000]);
            let (mut contents, mut inputs) = (Vec::new(), Vec::new());
            for number in 0..rng.between(1, 5) as i64 {
                let content = random_content(&mut rng, number * step_ns, spread, &contents);
                let (level, is_draft) = (rng.below(2) as u32, rng.one_in(2));
                inputs.push(write_as(&bench.folder, &content, level, is_draft).await);
                contents.push(content);
            }
            let outcome = bench.merge(&inputs, KeepAll).await.unwrap();
            let added = Arc::new(outcome.added.unwrap().segment);
            let expected = shown(&contents);
            assert!(read(&bench.folder, &added).await == expected);
            assert_eq!(added.live.order, inputs.last().unwrap().live.order);
            assert_eq!(added.live.day, Day(0));
            assert!(
                added.live.level > 0
                    && !(0..added.footer.totals.streams).any(|row| added.is_late(row))
            );
            let count: usize = expected.values().map(Vec::len).sum();
            assert_eq!(outcome.entries_out, count as u64);
            // A merged segment may be merged again, and opened as a start does it.
            let open =
                crate::sealed::open_segment(&runtime, SEGMENTS_DIR.as_ref(), added.live, None);
            let opened = Arc::new(open.await.unwrap());
            let more = random_content(&mut rng, 0, spread, &[]);
            let behind = write(&bench.folder, &more, 0).await;
            let outcome = bench.merge(&[opened, behind], KeepAll).await.unwrap();
            let added = Arc::new(outcome.added.unwrap().segment);
            assert!(read(&bench.folder, &added).await == shown(&[expected, more]));
        });
    }
}

/// Drops lines with an even length of one tenant, and lines that name another id.
#[derive(Debug, Default)]
struct Picky {
    is_one: bool,
}

fn is_kept(is_one: bool, line: &[u8], metadata: &[(&str, &str)]) -> bool {
    let is_dropped = is_one && line.len().is_multiple_of(2);
    !is_dropped && !metadata.contains(&("id", "other"))
}

impl CompactionFilter for Picky {
    fn begin(&mut self, stream: &StreamDefinition) {
        self.is_one = stream.tenant.as_str() == "one";
    }

    fn run(&self, view: RunView<'_>) -> FilterDecision {
        if view.run.min_ns > 500 { FilterDecision::Drop } else { FilterDecision::Each }
    }

    fn entry(&self, _: RunView<'_>, _: usize, entry: &EntryView<'_>) -> bool {
        is_kept(self.is_one, entry.line, &entry.metadata().collect::<Vec<_>>())
            && entry.timestamp_ns <= 500
    }
}

#[test]
fn a_rewrite_drops_what_it_is_told_to_and_nothing_else() {
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        Simulation::new(seed).block_on(move |runtime| async move {
            let mut rng = Rng::new(seed);
            let mut bench = Bench::new(runtime.clone()).await;
            let (mut contents, mut inputs) = (Vec::new(), Vec::new());
            for _ in 0..rng.between(1, 3) {
                let content = random_content(&mut rng, 0, 1000, &contents);
                inputs.push(write_as(&bench.folder, &content, 1, rng.one_in(2)).await);
                contents.push(content);
            }
            let mut expected = shown(&contents);
            for (&number, entries) in &mut expected {
                let is_one = streams()[number].tenant.as_str() == "one";
                entries.retain(|entry| {
                    let pairs = entry.metadata.iter().map(|(n, v)| (&**n, &**v));
                    let pairs: Vec<_> = pairs.collect();
                    entry.timestamp_ns <= 500 && is_kept(is_one, &entry.line, &pairs)
                });
            }
            expected.retain(|_, entries| !entries.is_empty());
            let outcome = bench.merge(&inputs, Picky::default()).await.unwrap();
            let found = match outcome.added {
                Some(added) => read(&bench.folder, &Arc::new(added.segment)).await,
                None => Content::new(),
            };
            assert!(found == expected);
        });
    }
}

#[derive(Debug)]
struct DropAll;

impl CompactionFilter for DropAll {
    fn begin(&mut self, _: &StreamDefinition) {}

    fn run(&self, _: RunView<'_>) -> FilterDecision {
        FilterDecision::Each
    }

    fn entry(&self, _: RunView<'_>, _: usize, _: &EntryView<'_>) -> bool {
        false
    }
}

fn small(lines: &[(i64, &str)]) -> Content {
    let entry = |(timestamp_ns, line): &(i64, &str)| Entry {
        timestamp_ns: *timestamp_ns,
        line: line.as_bytes().to_vec(),
        metadata: Vec::new(),
    };
    Content::from([(1, lines.iter().map(entry).collect())])
}

/// Names of the live segments as the next start sees them.
async fn live(runtime: &SimRuntime) -> Vec<SegmentName> {
    let survey = survey_segments(runtime, SEGMENTS_DIR.as_ref()).await.unwrap();
    let state = read_manifest(runtime, SEGMENTS_DIR.as_ref(), survey.logs, false).await.unwrap();
    assert!(state.damage.is_empty(), "{:?}", state.damage);
    state.live.keys().copied().collect()
}

#[test]
fn a_rewrite_that_leaves_nothing_removes_the_segment() {
    Simulation::new(1).block_on(|runtime| async move {
        let mut bench = Bench::new(runtime.clone()).await;
        let input = write(&bench.folder, &small(&[(1, "a"), (2, "b")]), 0).await;
        let edit = crate::manifest::ManifestEdit { added: vec![input.live], ..Default::default() };
        bench.folder.manifest.append(&edit).await.unwrap();
        assert_eq!(live(&runtime).await, [input.live.name]);
        let outcome = bench.merge(&[Arc::clone(&input)], DropAll).await.unwrap();
        assert!(outcome.added.is_none());
        assert!(outcome.removed.len() == 1 && outcome.removed[0] == input.live.name);
        assert_eq!((outcome.entries_in, outcome.entries_out), (2, 0));
        assert!(live(&runtime).await.is_empty());
        let survey = survey_segments(&runtime, SEGMENTS_DIR.as_ref()).await.unwrap();
        assert!(survey.temporary.is_empty());
    });
}

#[test]
fn an_edit_that_fails_is_tried_again_and_the_merge_is_not_repeated() {
    let simulation = Rc::new(Simulation::new(1));
    let inner = Rc::clone(&simulation);
    simulation.block_on(move |runtime| async move {
        let disk = inner.disk();
        let mut bench = Bench::new(runtime.clone()).await;
        let inputs = [
            write(&bench.folder, &small(&[(1, "a")]), 0).await,
            write(&bench.folder, &small(&[(1, "b"), (1, "a")]), 0).await,
        ];
        // The first edit makes the log, whose name the folder has to learn durably.
        let edit =
            crate::manifest::ManifestEdit { added: vec![inputs[0].live], ..Default::default() };
        bench.folder.manifest.append(&edit).await.unwrap();
        let log = format!("{SEGMENTS_DIR}/manifest-00000000-00000000-00000000.log");
        disk.fail_next(DiskOperation::Sync, log, 1);
        let error = bench.merge(&inputs, KeepAll).await.unwrap_err();
        assert!(matches!(error, CompactError::Io(_)), "{error}");
        let before = disk.files(SEGMENTS_DIR).len();
        let outcome = bench.compactor.run(MaintenanceJob::Resume).await.unwrap();
        assert_eq!(disk.files(SEGMENTS_DIR).len(), before + 1, "another log, and no other segment");
        let added = Arc::new(outcome.added.unwrap().segment);
        assert_eq!(live(&runtime).await, [added.live.name]);
        assert!(read(&bench.folder, &added).await == small(&[(1, "a"), (1, "b")]));
        let nothing = bench.compactor.run(MaintenanceJob::Resume).await.unwrap();
        assert!(nothing.added.is_none() && nothing.removed.is_empty());
    });
}

#[test]
fn damage_is_told_apart_and_changes_nothing() {
    let simulation = Rc::new(Simulation::new(1));
    let inner = Rc::clone(&simulation);
    simulation.block_on(move |runtime| async move {
        let disk = inner.disk();
        let mut bench = Bench::new(runtime.clone()).await;
        for is_draft in [false, true] {
            let good = write_as(&bench.folder, &small(&[(1, "a")]), 0, is_draft).await;
            let content = small(&[(2, "some more text")]);
            let bad = write_as(&bench.folder, &content, 0, is_draft).await;
            let bytes = disk.read(&bad.path).unwrap();
            let directory = bench.folder.directories.get(&bad).await.unwrap();
            for kind in logsvc_segment::ColumnKind::ALL {
                let place = directory.block(0).column(kind);
                if place.stored_len == 0 {
                    continue;
                }
                let mut damaged = bytes.clone();
                damaged[place.offset as usize] ^= 1;
                disk.write(&bad.path, &damaged);
                let inputs = [Arc::clone(&good), Arc::clone(&bad)];
                let error = bench.merge(&inputs, KeepAll).await.unwrap_err();
                let CompactError::Damaged { segment, error } = &error else { panic!("{error}") };
                assert_eq!(*segment, bad.live.name);
                let expected = format!("{} of block 0", kind.name());
                assert!(error.to_string().contains(&expected), "{error}");
                assert!(live(&runtime).await.is_empty(), "no edit was written");
                // A file that ends before is a failure of the disk.
                disk.write(&bad.path, &bytes[..place.offset as usize]);
                let error = bench.merge(&inputs, KeepAll).await.unwrap_err();
                let CompactError::Io(error) = &error else { panic!("{error}") };
                assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
            }
            let survey = survey_segments(&runtime, SEGMENTS_DIR.as_ref()).await.unwrap();
            assert!(survey.temporary.is_empty(), "and nothing is left over");
        }
    });
}

#[test]
fn a_merge_gives_up_when_the_shard_stops() {
    Simulation::new(1).block_on(|runtime| async move {
        let mut bench = Bench::new(runtime.clone()).await;
        let input = write(&bench.folder, &small(&[(1, "a"), (2, "b")]), 0).await;
        let throttle = Arc::new(Throttle::default());
        throttle.set(Activity::Stopping);
        let job = MergeJob {
            inputs: vec![input],
            earlier: Vec::new(),
            keep: Box::new(KeepAll),
            throttle,
        };
        let error = bench.compactor.run(MaintenanceJob::Merge(job)).await.unwrap_err();
        assert!(matches!(error, CompactError::Stopped), "{error}");
    });
}

#[test]
fn streams_are_late_only_where_earlier_segments_remain() {
    Simulation::new(1).block_on(|runtime| async move {
        let mut bench = Bench::new(runtime.clone()).await;
        let first = write(&bench.folder, &small(&[(1, "a"), (9, "b")]), 0).await;
        let second = write(&bench.folder, &small(&[(5, "c")]), 0).await;
        let third = write(&bench.folder, &small(&[(6, "d"), (7, "e")]), 0).await;
        for segment in [&first, &second, &third] {
            // As long as nothing is known, it may be late.
            assert!(segment.is_late(0));
        }
        for (earlier, is_late) in [(vec![Arc::clone(&first)], true), (Vec::new(), false)] {
            let job = MergeJob {
                inputs: vec![Arc::clone(&second), Arc::clone(&third)],
                earlier,
                keep: Box::new(KeepAll),
                throttle: Arc::default(),
            };
            let outcome = bench.compactor.run(MaintenanceJob::Merge(job)).await.unwrap();
            assert_eq!(outcome.added.unwrap().segment.is_late(0), is_late);
        }
    });
}
