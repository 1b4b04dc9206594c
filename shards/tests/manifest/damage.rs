//! A small manifest whose every byte is damaged, one at a time: always noticed, and
//! nothing is lost.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use logsvc_runtime::sim::{Disk, DiskOperation, Simulation};
use logsvc_shards::check::{CheckReport, Severity, check_store};
use logsvc_shards::manifest::{CHECKPOINT_NAME, Day, SegmentName, read_manifest, survey_segments};
use logsvc_shards::node::{NodePlan, open_node};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use crate::store::{DATA_DIR, Live, SEGMENTS_DIR, SharedModel, Writer, encode_segment, live};

/// A store that was left without a stop, and its contents.
pub(crate) struct Store {
    files: Vec<(PathBuf, Vec<u8>)>,
    pub(crate) model: SharedModel,
    pub(crate) live: Live,
}

/// Starts a node on a disk.
pub(crate) fn start(simulation: &Simulation) -> NodePlan {
    simulation.block_on(|runtime| async move {
        open_node(&runtime, Path::new(DATA_DIR)).await.expect("a healthy disk").plan
    })
}

impl Store {
    pub(crate) fn write() -> Store {
        let simulation = Simulation::new(1);
        let disk = simulation.disk().clone();
        let model = SharedModel::default();
        for epoch in 0..3_u64 {
            let (model, disk) = (Rc::clone(&model), disk.clone());
            simulation.block_on(move |runtime| async move {
                let node = open_node(&runtime, Path::new(DATA_DIR)).await.expect("a healthy disk");
                let mut live = node.plan.segments.to_vec();
                let mut rng = Rng::new(epoch);
                let shards = if epoch == 0 { 1 } else { 2 };
                let writer = |shard| Writer::new(&runtime, &model, &node.plan, shards, shard);
                let mut writers: Vec<Writer> = (0..shards).map(writer).collect();
                for round in 0..4 {
                    for writer in &mut writers {
                        writer.push(&mut rng).await.expect("a healthy disk");
                        if round == 1 && writer.shard == 0 {
                            // A log that ends in an edit that does not count.
                            disk.fail_next(DiskOperation::Sync, writer.log_path(0), 1);
                            writer.seal(&mut rng, &mut live).await.expect_err("a failing sync");
                            writer.push(&mut rng).await.expect("a healthy disk");
                        }
                        writer.seal(&mut rng, &mut live).await.expect("a healthy disk");
                    }
                    if round == 2 {
                        writers[0].compact(&mut live).await.expect("a healthy disk");
                        // Of segments of the first start, one more in each.
                        for _ in 0..epoch {
                            writers[0].leave(&mut live).await.expect("a healthy disk");
                        }
                    }
                }
            });
        }
        let read = |path: PathBuf| (path.clone(), disk.read(&path).expect("it is there"));
        let files = disk.files("/srv").into_iter().map(read).collect();
        let live = model.borrow().known.live();
        Store { files, model, live }
    }

    pub(crate) fn on_disk(&self, seed: u64) -> (Simulation, Disk) {
        let simulation = Simulation::new(seed);
        let disk = simulation.disk().clone();
        self.files.iter().for_each(|(path, bytes)| disk.write(path, bytes));
        // Its folder is there even if it is empty.
        disk.write("/srv/data/wal/quarantine/other", b"");
        (simulation, disk)
    }

    /// Everything that was on the disk.
    pub(crate) fn all_files(&self) -> impl Iterator<Item = &(PathBuf, Vec<u8>)> {
        self.files.iter()
    }

    /// The files of the manifest.
    fn manifest(&self) -> impl Iterator<Item = &(PathBuf, Vec<u8>)> {
        self.files.iter().filter(|(path, _)| path.parent() == Some(Path::new(SEGMENTS_DIR)))
    }

    /// Starts twice and checks that the first start has noticed the damage and the
    /// second finds none.
    fn check_damaged(&self, simulation: &Simulation, what: &str) {
        let plan = start(simulation);
        assert_ne!(plan.manifest.damage, [], "{what}: not noticed");
        let lost = self.model.borrow().lost(&plan);
        assert!(lost.is_empty(), "{what}: lost {lost:?}");
        assert_eq!(plan.manifest.unreadable_segments, 0, "{what}");
        let again = start(simulation);
        assert_eq!(again.manifest.damage, [], "{what}: not mended");
        assert_eq!(live(&again), live(&plan), "{what}");
        assert!(self.model.borrow().lost(&again).is_empty(), "{what}: lost after mending");
    }
}

#[test]
fn every_damaged_byte_is_noticed_and_loses_nothing() {
    let store = Store::write();
    let (simulation, _) = store.on_disk(0);
    let intact = start(&simulation);
    assert_eq!(intact.manifest.damage, []);
    assert_eq!(live(&intact), store.live);
    assert!(live(&intact).values().any(|left| !left.is_empty()));
    assert!(store.manifest().count() >= 4, "a checkpoint and a few logs");
    let mut places = 0;
    for (path, bytes) in store.manifest() {
        for offset in 0..bytes.len() {
            let (simulation, disk) = store.on_disk(offset as u64);
            let mask = [0xff, 0x01, 0x80][offset % 3];
            assert!(disk.corrupt(path, offset as u64, mask));
            store.check_damaged(&simulation, &format!("{} byte {offset}", path.display()));
            places += 1;
        }
    }
    assert!(places > 2_000, "{places}");
}

#[test]
fn a_checkpoint_that_is_cut_or_gone_loses_nothing() {
    let store = Store::write();
    let path = Path::new(SEGMENTS_DIR).join(CHECKPOINT_NAME);
    let (_, bytes) = store.manifest().find(|(file, _)| *file == path).expect("a checkpoint");
    for len in (0..bytes.len()).step_by(7) {
        let (simulation, disk) = store.on_disk(len as u64);
        disk.write(&path, &bytes[..len]);
        store.check_damaged(&simulation, &format!("cut to {len}"));
    }
    let (simulation, disk) = store.on_disk(0);
    assert!(disk.remove(&path));
    store.check_damaged(&simulation, "gone");
}

impl Store {
    /// Starts on a manifest that has lost something, twice. The segments that no edit names are
    /// read, and their entries are told; a check reports them first. Gives how many were read.
    fn check_lost(&self, simulation: &Simulation, what: &str) -> u64 {
        let report = check(simulation);
        let plan = start(simulation);
        let found = &plan.manifest;
        let lost = self.model.borrow().lost(&plan);
        assert!(lost.is_empty(), "{what}: lost {lost:?}");
        assert_eq!(found.unreadable_segments, 0, "{what}");
        assert_eq!(found.adopted_entries, found.adopted_segments, "{what}: one entry in each");
        if found.adopted_segments > 0 {
            assert_ne!(found.damage, [], "{what}");
            assert!(report.damaged_places() as u64 >= found.adopted_segments, "{what}");
        }
        // Nothing that can be read is gone: a segment is live, or another one has its tokens.
        let disk = simulation.disk();
        let of_segments = self.files.iter().filter(|(path, _)| segment_of(path).is_some());
        for (path, _) in of_segments {
            let name = segment_of(path).expect("a segment");
            let is_removed = self.model.borrow().known.removed.contains(&name);
            assert!(disk.read(path).is_some() || is_removed, "{what}: {}", path.display());
        }
        let again = start(simulation);
        assert_eq!(again.manifest.damage, [], "{what}: not mended");
        assert_eq!(again.manifest.adopted_segments, 0, "{what}: not mended");
        assert!(self.model.borrow().lost(&again).is_empty(), "{what}: lost after mending");
        found.adopted_segments
    }
}

fn segment_of(path: &Path) -> Option<SegmentName> {
    SegmentName::parse(path.file_name()?.to_str()?)
}

#[test]
fn a_log_that_is_cut_anywhere_loses_nothing() {
    let store = Store::write();
    let mut adopted = 0;
    for (path, bytes) in store.manifest().filter(|(path, _)| !path.ends_with(CHECKPOINT_NAME)) {
        for len in 0..bytes.len() {
            let (simulation, disk) = store.on_disk(len as u64);
            disk.write(path, &bytes[..len]);
            adopted += store.check_lost(&simulation, &format!("{} cut to {len}", path.display()));
        }
    }
    assert!(adopted > 1_000, "{adopted}");
}

#[test]
fn sectors_that_are_zero_lose_nothing() {
    let store = Store::write();
    let mut adopted = 0;
    for (path, bytes) in store.manifest() {
        for first in 0..bytes.len().div_ceil(512) {
            for last in first..bytes.len().div_ceil(512) {
                let (simulation, disk) = store.on_disk(first as u64);
                let mut zeroed = bytes.clone();
                let end = bytes.len().min((last + 1) * 512);
                zeroed[first * 512..end].fill(0);
                disk.write(path, &zeroed);
                let what = format!("{}: sectors {first} to {last}", path.display());
                adopted += store.check_lost(&simulation, &what);
            }
        }
    }
    assert!(adopted > 20, "{adopted}");
}

#[test]
fn files_of_the_manifest_that_are_gone_lose_nothing() {
    let store = Store::write();
    let paths: Vec<&PathBuf> = store.manifest().map(|(path, _)| path).collect();
    let mut adopted = 0;
    for gone in 1..1_u64 << paths.len() {
        let (simulation, disk) = store.on_disk(gone);
        for (bit, path) in paths.iter().enumerate() {
            if gone >> bit & 1 == 1 {
                assert!(disk.remove(path));
            }
        }
        adopted += store.check_lost(&simulation, &format!("without files {gone:b}"));
    }
    assert!(adopted > 20, "{adopted}");
}

#[test]
fn what_an_edit_removed_is_kept_if_what_took_its_place_is_gone() {
    let store = Store::write();
    let (simulation, _) = store.on_disk(0);
    // A merge that the manifest knows of.
    let state = simulation.block_on(|runtime| async move {
        let folder = Path::new(SEGMENTS_DIR);
        let survey = survey_segments(&runtime, folder).await.expect("a healthy disk");
        read_manifest(&runtime, folder, survey.logs, true).await.expect("a healthy disk")
    });
    let is_merged = |name: &SegmentName| state.live.get(name).is_some_and(|live| live.level > 0);
    let mut outputs = state.outputs.values().flatten().filter(|name| is_merged(name));
    let merged = state.live[outputs.next().expect("a merge")];
    let is_input = |name: &&SegmentName| {
        state.removed.contains(name) && state.outputs[*name].contains(&merged.name)
    };
    let inputs: Vec<SegmentName> = state.outputs.keys().filter(is_input).copied().collect();
    assert!(!inputs.is_empty());
    let path = merged.name.path(Path::new(SEGMENTS_DIR), merged.day);
    for is_gone in [false, true] {
        // The crash came before the inputs were removed; perhaps the output has got lost.
        let (simulation, disk) = store.on_disk(1);
        for name in &inputs {
            let bytes = encode_segment(*name, Day(0), None).expect("a segment").0;
            disk.write(name.path(Path::new(SEGMENTS_DIR), Day(0)), &bytes);
        }
        assert!(!is_gone || disk.remove(&path));
        let report = check(&simulation);
        let found = start(&simulation).manifest;
        let (removed, adopted) = if is_gone { (0, inputs.len()) } else { (inputs.len(), 0) };
        assert_eq!((found.removed_files, found.adopted_segments), (removed as u64, adopted as u64));
        assert_eq!(report.damaged_places(), if is_gone { 1 + adopted } else { 0 });
        assert_eq!(found.missing_segments, u64::from(is_gone));
    }
}

#[test]
fn a_damaged_file_is_kept() {
    let store = Store::write();
    for (path, bytes) in store.manifest() {
        let (simulation, disk) = store.on_disk(3);
        disk.corrupt(path, 20, 1);
        start(&simulation);
        let kept = disk.files(Path::new(SEGMENTS_DIR).join("quarantine"));
        let name = path.file_name().expect("a name").to_str().expect("text");
        let is_copy = |kept: &PathBuf| {
            kept.file_name().is_some_and(|n| n.to_string_lossy().starts_with(name))
        };
        let kept = kept.into_iter().find(is_copy).expect("a copy");
        let mut damaged = bytes.clone();
        damaged[20] ^= 1;
        assert_eq!(disk.read(kept), Some(damaged));
    }
}

#[test]
fn arbitrary_files_lose_nothing() {
    let store = Store::write();
    let paths: Vec<&PathBuf> = store.manifest().map(|(path, _)| path).collect();
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        let mut rng = Rng::new(seed);
        let (simulation, disk) = store.on_disk(seed);
        let path = *rng.pick(&paths);
        let mut bytes = disk.read(path).expect("it is there");
        for _ in 0..rng.between(1, 4) {
            let at = rng.below(bytes.len() as u64) as usize;
            let end = (at + rng.below(1500) as usize).min(bytes.len());
            match rng.below(4) {
                // Bytes of another place, from the same file or from another one.
                0 => {
                    let other = disk.read(*rng.pick(&paths)).expect("it is there");
                    let from = rng.below(other.len() as u64) as usize;
                    let len = (end - at).min(other.len() - from);
                    bytes[at..at + len].copy_from_slice(&other[from..from + len]);
                }
                1 => bytes[at..end].iter_mut().for_each(|byte| *byte = rng.next_u64() as u8 | 1),
                2 => {
                    bytes.splice(at..at, (0..rng.below(600)).map(|n| n as u8 | 1));
                }
                _ => bytes.extend((0..rng.between(64, 600)).map(|n| n as u8 | 1)),
            }
        }
        let is_changed = disk.read(path).is_some_and(|before| before != bytes);
        disk.write(path, &bytes);
        let plan = start(&simulation);
        // Zeros over the last edit of a log are an edit that was cut short.
        let is_noticed = !plan.manifest.damage.is_empty() || plan.manifest.torn_edits > 0;
        assert!(!is_changed || is_noticed, "not noticed");
        assert!(store.model.borrow().lost(&plan).is_empty());
    }
}

pub(crate) fn check(simulation: &Simulation) -> CheckReport {
    simulation.block_on(|runtime| async move {
        check_store(&runtime, Path::new(DATA_DIR)).await.expect("a store")
    })
}

#[test]
fn a_check_finds_every_damaged_byte_and_changes_nothing() {
    let store = Store::write();
    let (simulation, disk) = store.on_disk(0);
    let intact = check(&simulation);
    assert_eq!(intact.damaged_places(), 0, "{:#?}", intact.findings);
    assert_eq!(intact.segments, store.live.len() as u64);
    assert_eq!((intact.blocks, intact.segment_entries), (intact.segments, intact.segments));
    for (path, bytes) in &store.files {
        assert_eq!(disk.read(path).as_ref(), Some(bytes), "{}", path.display());
    }
    let is_live = |path: &&(PathBuf, Vec<u8>)| {
        let name = path.0.file_name().and_then(|name| SegmentName::parse(name.to_str()?));
        name.is_some_and(|name| store.live.contains_key(&name))
    };
    let segment = store.files.iter().find(is_live).expect("a live segment");
    for (path, bytes) in store.manifest().chain([segment]) {
        for offset in 0..bytes.len() {
            let mask = [0xff, 0x01, 0x80][offset % 3];
            assert!(disk.corrupt(path, offset as u64, mask));
            let report = check(&simulation);
            let is_told = |finding: &&logsvc_shards::check::Finding| {
                finding.severity == Severity::Damage && finding.file == *path
            };
            let what = format!("{} byte {offset}", path.display());
            assert!(report.findings.iter().any(|finding| is_told(&finding)), "{what}");
            assert!(disk.corrupt(path, offset as u64, mask));
        }
    }
    let (_, bytes) = segment;
    for len in [0, 1, bytes.len() - 1] {
        disk.write(&segment.0, &bytes[..len]);
        assert_eq!(check(&simulation).damaged_places(), 1, "cut to {len}");
    }
    assert!(disk.remove(&segment.0));
    assert_eq!(check(&simulation).damaged_places(), 1, "gone");
}
