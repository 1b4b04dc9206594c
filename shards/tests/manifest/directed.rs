//! Promises that random work rarely puts to the test.

use std::future::{Future, poll_fn};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use logsvc_runtime::Runtime;
use logsvc_runtime::sim::{DiskOperation, SimRuntime, Simulation};
use logsvc_shards::manifest::{Day, LeftPart, LiveSegment, ManifestEdit, ManifestLog, SegmentName};
use logsvc_shards::node::{NodePlan, open_node};
use logsvc_shards::types::Part;

use crate::store::{DATA_DIR, SEGMENTS_DIR, names};

const CONTENT: &[u8] = b"a segment";

fn segment(seq: u32) -> LiveSegment {
    let day = Day(-1);
    LiveSegment {
        name: SegmentName { epoch: 0, shards: 1, shard: 0, seq },
        day,
        file_len: CONTENT.len() as u64,
        min_ns: day.first_ns(),
        max_ns: day.last_ns(),
        entries: 1,
        line_bytes: 1,
        level: 0,
        // Not the order of names.
        order: u64::from(100 - seq),
    }
}

fn path(seq: u32) -> PathBuf {
    segment(seq).name.path(Path::new(SEGMENTS_DIR), segment(seq).day)
}

/// Where a segment is until it is live.
fn pending_path(seq: u32) -> PathBuf {
    segment(seq).name.pending_path(Path::new(SEGMENTS_DIR), segment(seq).day)
}

fn adds(seq: u32) -> ManifestEdit {
    ManifestEdit { added: vec![segment(seq)], ..ManifestEdit::default() }
}

fn log_path(n: u32) -> PathBuf {
    Path::new(SEGMENTS_DIR).join(format!("manifest-00000000-00000000-{n:08x}.log"))
}

/// The first start: does something with the log of its shard.
fn first_start<F: Future<Output = ()> + 'static>(
    work: impl FnOnce(SimRuntime, Rc<ManifestLog<SimRuntime>>) -> F,
) -> Simulation {
    let simulation = Simulation::new(7);
    let disk = simulation.disk().clone();
    simulation.block_on(|runtime| {
        let log = ManifestLog::new(runtime.clone(), Path::new(SEGMENTS_DIR), 0, 0);
        let work = work(runtime.clone(), Rc::new(log));
        async move {
            let node = open_node(&runtime, Path::new(DATA_DIR)).await.expect("a healthy disk");
            assert_eq!((node.plan.epoch, node.plan.segments.len()), (0, 0));
            (0..5).for_each(|seq| disk.write(pending_path(seq), CONTENT));
            work.await;
        }
    });
    simulation
}

fn with_segments(seqs: &'static [u32]) -> Simulation {
    first_start(move |runtime, log| async move {
        for seq in seqs {
            log.append(&adds(*seq)).await.expect("a healthy disk");
            let started = segment(*seq).name.finalize(&runtime, Path::new(SEGMENTS_DIR), Day(-1));
            started.await.expect("a healthy disk");
        }
    })
}

fn start(simulation: &Simulation) -> NodePlan {
    simulation.block_on(|runtime| async move {
        open_node(&runtime, Path::new(DATA_DIR)).await.expect("a healthy disk").plan
    })
}

fn seqs(plan: &NodePlan) -> Vec<u32> {
    plan.segments.iter().map(|segment| segment.name.seq).collect()
}

#[test]
fn segments_come_in_their_order_and_left_overs_go() {
    let simulation = with_segments(&[1, 3, 2]);
    let disk = simulation.disk();
    let stray = Path::new(SEGMENTS_DIR).join("1969-12-31").join("notes.txt");
    let temporary = path(9).with_extension("seg.tmp");
    let elsewhere = segment(1).name.path(Path::new(SEGMENTS_DIR), Day(5));
    for file in [&stray, &temporary, &elsewhere] {
        disk.write(file, b"?");
    }
    let plan = start(&simulation);
    assert_eq!(seqs(&plan), [3, 2, 1]);
    assert_eq!(plan.segments[0], segment(3));
    assert_eq!(plan.manifest.damage, []);
    // The contents of segments 0 and 4, and of the segment in the folder of another day, cannot be
    // told.
    assert_eq!((plan.manifest.removed_files, plan.manifest.quarantined_files), (1, 3));
    assert_eq!(disk.files(Path::new(SEGMENTS_DIR).join("quarantine")).len(), 3);
    assert!(disk.read(&stray).is_some());
    for gone in [pending_path(0), pending_path(4), temporary, elsewhere, log_path(0)] {
        assert_eq!(disk.read(&gone), None, "{}", gone.display());
    }
    let again = start(&simulation);
    assert_eq!((again.epoch, seqs(&again)), (2, vec![3, 2, 1]));
    assert_eq!((again.manifest.removed_files, again.manifest.quarantined_files), (0, 0));
    assert_eq!(disk.files(Path::new(SEGMENTS_DIR).join("quarantine")).len(), 3);
}

#[test]
fn missing_and_misfit_segments_are_told_at_every_start_until_they_are_back() {
    let simulation = with_segments(&[0, 1, 2]);
    let disk = simulation.disk();
    assert!(disk.remove(path(0)));
    disk.write(path(1), b"a segmen");
    for _ in 0..2 {
        let plan = start(&simulation);
        assert_eq!(seqs(&plan), [2]);
        assert_eq!(plan.manifest.missing_segments, 1);
        assert_eq!(plan.manifest.misfit_segments, 1);
        let unusable: Vec<u32> = plan.unusable_segments.iter().map(|s| s.name.seq).collect();
        assert_eq!(unusable, [0, 1]);
        assert_eq!(plan.manifest.damage, []);
    }
    disk.write(path(0), CONTENT);
    disk.write(path(1), CONTENT);
    assert_eq!(seqs(&start(&simulation)), [2, 1, 0]);
}

fn leaves(seq: u32, by_shards: u16, by_shard: u16) -> ManifestEdit {
    let left = LeftPart { segment: segment(seq).name, part: Part::one(by_shards, by_shard) };
    ManifestEdit { left: vec![left], ..ManifestEdit::default() }
}

/// The streams that have left a segment.
fn left(plan: &NodePlan, seq: u32) -> Vec<(u32, u32)> {
    plan.node_segments.left(segment(seq).name).iter().map(Part::numbers).collect()
}

#[test]
fn a_segment_that_all_streams_have_left_is_not_live() {
    let simulation = first_start(move |_, log| async move {
        for edit in [adds(1), leaves(2, 2, 0), adds(2), leaves(1, 2, 1), leaves(2, 3, 2)] {
            log.append(&edit).await.expect("a healthy disk");
        }
        // A part of a segment that is not live yet, of a segment that never was live, and a
        // repetition.
        for edit in [leaves(3, 2, 1), leaves(1, 2, 1), leaves(4, 1, 0)] {
            log.append(&edit).await.expect("a healthy disk");
        }
    });
    let disk = simulation.disk();
    for epoch in 1..3 {
        let plan = start(&simulation);
        assert_eq!((plan.epoch, seqs(&plan)), (epoch, vec![2, 1]));
        assert_eq!(left(&plan, 1), [(2, 1)], "it outlives the checkpoint");
        assert_eq!(left(&plan, 2), [(2, 0), (3, 2)]);
        assert_eq!(left(&plan, 3), [], "it is not live");
        assert!(disk.read(path(1)).is_some());
    }
    // Shard 1 of three has the streams that the others have left, and more.
    simulation.block_on(|runtime| async move {
        let node = open_node(&runtime, Path::new(DATA_DIR)).await.expect("a healthy disk");
        let log = ManifestLog::new(runtime, Path::new(SEGMENTS_DIR), node.plan.epoch, 0);
        log.append(&leaves(2, 3, 1)).await.expect("a healthy disk");
    });
    for removed_files in [1, 0] {
        let plan = start(&simulation);
        assert_eq!((seqs(&plan), plan.manifest.removed_files), (vec![1], removed_files));
        assert_eq!(left(&plan, 2), []);
        assert_eq!(disk.read(path(2)), None);
    }
}

#[test]
fn a_start_without_a_checkpoint_passes_on_what_has_left() {
    let simulation = first_start(move |_, log| async move {
        for edit in [adds(0), adds(1), leaves(0, 2, 0), leaves(1, 1, 0)] {
            log.append(&edit).await.expect("a healthy disk");
        }
    });
    let disk = simulation.disk().clone();
    disk.set_capacity_bytes(disk.used_bytes());
    let inner = disk.clone();
    simulation.block_on(|runtime| async move {
        let node = open_node(&runtime, Path::new(DATA_DIR)).await.expect("it can be read");
        assert!(node.plan.manifest.checkpoint_error.is_some());
        assert!(inner.read(pending_path(1)).is_some(), "removed before the checkpoint");
        // The first log never reached the disk, for all that the start knows.
        inner.set_capacity_bytes(1 << 40);
        assert!(inner.remove(log_path(0)));
        let NodePlan { epoch, preface, .. } = node.plan;
        let log = ManifestLog::new(runtime, Path::new(SEGMENTS_DIR), epoch, 0);
        let log = log.with_preface(preface);
        log.append(&adds(2)).await.expect("a healthy disk");
    });
    let plan = start(&simulation);
    assert_eq!((seqs(&plan), left(&plan, 0)), (vec![2, 0], vec![(2, 0)]));
    assert_eq!(disk.read(pending_path(1)), None);
    assert_eq!(disk.read(path(1)), None);
}

#[test]
fn a_full_disk_keeps_no_start_from_reading() {
    let simulation = with_segments(&[0, 1]);
    let disk = simulation.disk();
    disk.set_capacity_bytes(disk.used_bytes());
    for _ in 0..2 {
        let plan = start(&simulation);
        assert_eq!(seqs(&plan), [1, 0]);
        assert!(plan.manifest.checkpoint_error.is_some());
        assert_eq!(plan.epoch, 1, "nothing was written");
        assert!(disk.read(pending_path(2)).is_some(), "moved before the checkpoint");
    }
    disk.set_capacity_bytes(1 << 40);
    let plan = start(&simulation);
    assert_eq!(plan.manifest.checkpoint_error, None);
    // The checkpoint that could not be written, and segments 2 to 4.
    assert_eq!((seqs(&plan), plan.manifest.removed_files), (vec![1, 0], 1));
    assert_eq!(plan.manifest.quarantined_files, 3);
}

#[test]
fn a_new_folder_needs_its_first_checkpoint() {
    let simulation = Simulation::new(7);
    let disk = simulation.disk();
    disk.fail_next(DiskOperation::Rename, Path::new(SEGMENTS_DIR), 1);
    let error = simulation.block_on(|runtime| async move {
        open_node(&runtime, Path::new(DATA_DIR)).await.expect_err("a failing disk").to_string()
    });
    assert!(error.contains("manifest"), "{error}");
    assert_eq!(start(&simulation).manifest.damage, []);
}

#[test]
fn a_failed_edit_is_void_once_another_has_succeeded() {
    for operation in [DiskOperation::Sync, DiskOperation::Write] {
        let simulation = failing_start(operation);
        let plan = start(&simulation);
        assert_eq!(seqs(&plan), [2, 0], "{operation:?}");
        assert_eq!(plan.manifest.damage, []);
    }
}

/// A start whose second edit fails twice, before another one succeeds.
fn failing_start(operation: DiskOperation) -> Simulation {
    let simulation = Simulation::new(7);
    let disk = simulation.disk().clone();
    simulation.block_on(|runtime| async move {
        open_node(&runtime, Path::new(DATA_DIR)).await.expect("a healthy disk");
        (0..3).for_each(|seq| disk.write(pending_path(seq), CONTENT));
        let log = ManifestLog::new(runtime, Path::new(SEGMENTS_DIR), 0, 0);
        log.append(&adds(0)).await.expect("a healthy disk");
        disk.fail_next(operation, log_path(0), 1);
        log.append(&adds(1)).await.expect_err("a failing disk");
        // Not even one that cannot make its log brings the failed one back.
        disk.fail_next(DiskOperation::Sync, log_path(1), 1);
        log.append(&adds(1)).await.expect_err("a failing disk");
        log.append(&adds(2)).await.expect("a healthy disk");
        assert_eq!(log.edits(), 2);
    });
    let files = simulation.disk().files(SEGMENTS_DIR);
    assert!(files.contains(&log_path(2)), "{files:?}");
    simulation
}

#[test]
fn tasks_take_turns() {
    let simulation = first_start(|runtime, log| async move {
        let append = |seq| {
            let log = Rc::clone(&log);
            runtime.spawn(async move { log.append(&adds(seq)).await.expect("a healthy disk") })
        };
        for task in [append(3), append(1), append(4), append(0)] {
            task.await;
        }
        assert_eq!(log.edits(), 4);
    });
    assert_eq!(seqs(&start(&simulation)), [4, 3, 1, 0]);
    assert_eq!(simulation.disk().files(SEGMENTS_DIR).iter().filter(|f| is_log(f)).count(), 0);
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "log")
}

#[test]
fn an_append_that_is_dropped_counts_as_failed_and_lets_others_go_on() {
    // However far it gets before it is dropped.
    for polls in 1..8 {
        let simulation = first_start(|runtime, log| async move {
            log.append(&adds(0)).await.expect("a healthy disk");
            {
                let edit = adds(1);
                let mut append = pin!(log.append(&edit));
                for _ in 0..polls {
                    let step = poll_fn(|context| Poll::Ready(append.as_mut().poll(context)));
                    if step.await.is_ready() {
                        break;
                    }
                    runtime
                        .sleep_until(runtime.now().after(std::time::Duration::from_millis(20)))
                        .await;
                }
            }
            log.append(&adds(2)).await.expect("a healthy disk");
        });
        let found = names(&start(&simulation));
        let found: Vec<u32> = found.iter().map(|name| name.seq).collect();
        assert!(found == [0, 2] || found == [0, 1, 2], "{polls} polls: {found:?}");
    }
}
