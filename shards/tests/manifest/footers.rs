//! Footers of segments in the manifest: a start opens no segment, reads those that are missing, and
//! heeds none that is wrong.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use logsvc_runtime::sim::{Disk, DiskOperation, Simulation};
use logsvc_segment::{FOOTER_LEN, Footer};
use logsvc_shards::check::{Severity, inspect_segment};
use logsvc_shards::manifest::LiveSegment;
use logsvc_shards::node::NodePlan;

use crate::checkpoint::{CHECKPOINT, Checkpoint, seal};
use crate::damage::{Store, check, start};
use crate::store::{SEGMENTS_DIR, live};

fn path_of(segment: &LiveSegment) -> PathBuf {
    segment.name.path(Path::new(SEGMENTS_DIR), segment.day)
}

/// A store whose `MANIFEST` was written by a start that found nothing else to do.
fn store() -> (Store, Simulation, Disk, NodePlan) {
    let store = Store::write();
    let (simulation, disk) = store.on_disk(0);
    let plan = start(&simulation);
    assert!(plan.segments.len() > 4);
    (store, simulation, disk, plan)
}

/// Whoever opens a segment file or reads it fails from here on.
fn refuse_segments(disk: &Disk, plan: &NodePlan) {
    for segment in &*plan.segments {
        disk.fail_next(DiskOperation::Open, path_of(segment), u64::MAX);
        disk.fail_next(DiskOperation::Read, path_of(segment), u64::MAX);
    }
}

/// Whether the plan has the footer of each segment, as it is in the file.
fn assert_complete(disk: &Disk, plan: &NodePlan) {
    assert_eq!(plan.footers.len(), plan.segments.len());
    for segment in &*plan.segments {
        let bytes = disk.read(path_of(segment)).expect("it is there");
        let footer = Footer::parse(&bytes, bytes.len() as u64).expect("a segment");
        assert_eq!(plan.footers.get(&segment.name), Some(&footer));
    }
}

#[test]
fn a_start_opens_no_segment_whose_footer_the_manifest_has() {
    let (_, simulation, disk, first) = store();
    assert_complete(&disk, &first);
    // Edits of the store have most of them.
    let read = first.manifest.read_footers;
    assert!(read > 0 && read < first.segments.len() as u64, "{read}");
    refuse_segments(&disk, &first);
    for _ in 0..2 {
        let plan = start(&simulation);
        assert_eq!(plan.manifest.read_footers, 0);
        assert_eq!(live(&plan), live(&first));
        assert_complete(&disk, &plan);
    }
    assert_eq!(Checkpoint::read(&disk).footers().len(), first.segments.len());
}

#[test]
fn a_manifest_without_footers_has_them_after_a_start() {
    let (store, simulation, disk, first) = store();
    Checkpoint::read(&disk).without_footers().write(&disk);
    // What cannot be read is left to whoever opens the segment, and to the next start.
    disk.fail_next(DiskOperation::Open, path_of(&first.segments[1]), 1);
    disk.fail_next(DiskOperation::Read, path_of(&first.segments[2]), 1);
    let plan = start(&simulation);
    assert_eq!(plan.manifest.damage, []);
    assert_eq!(live(&plan), live(&first));
    assert_eq!(plan.manifest.read_footers, first.segments.len() as u64 - 2);
    assert_eq!(plan.footers.len(), first.segments.len() - 2);
    assert!(store.model.borrow().lost(&plan).is_empty());
    let plan = start(&simulation);
    assert_eq!(plan.manifest.read_footers, 2);
    assert_complete(&disk, &plan);
    refuse_segments(&disk, &plan);
    let plan = start(&simulation);
    assert_eq!(plan.manifest.read_footers, 0);
    assert_complete(&disk, &plan);
    assert_eq!(check_damage(&simulation).len(), plan.segments.len(), "none of them can be read");
}

/// The findings of a check that are damage.
fn check_damage(simulation: &Simulation) -> Vec<(PathBuf, String)> {
    let report = check(simulation);
    let damage = report.findings.into_iter().filter(|f| f.severity == Severity::Damage);
    damage.map(|finding| (finding.file, finding.what)).collect()
}

/// What a look at a segment says of its footer.
fn inspected_footer(simulation: &Simulation, segment: &LiveSegment) -> String {
    let path = path_of(segment);
    simulation.block_on(|runtime| async move {
        let mut lines = Vec::new();
        let inspected = inspect_segment(&runtime, &path, |line| lines.push(line)).await;
        inspected.expect("a segment");
        let line = lines.iter().find_map(|line| line.strip_prefix("  footer     "));
        line.expect("it is live").to_owned()
    })
}

#[test]
fn a_wrong_footer_does_not_count() {
    type Change = fn(&mut Vec<&mut [u8]>);
    let cases: [(&str, Change, u64, u64); 8] = [
        ("its checksum", |footers| footers[0][12] ^= 1, 1, 1),
        ("its magic", |footers| footers[0][0] ^= 1, 1, 1),
        ("zeros", |footers| footers[0].fill(0), 1, 1),
        (
            "entries",
            |footers| {
                footers[0][96] ^= 2;
                seal(footers[0]);
            },
            1,
            1,
        ),
        (
            "length and times",
            |footers| {
                footers[0][40] ^= 1;
                footers[1][112] ^= 1;
                footers.iter_mut().for_each(|footer| seal(footer));
            },
            2,
            2,
        ),
        (
            "its name",
            |footers| {
                footers[0][16] ^= 0x80;
                seal(footers[0]);
            },
            1,
            1,
        ),
        (
            "those of each other",
            |footers| {
                let first = footers[0].to_vec();
                let second = std::mem::take(&mut footers[1]);
                footers[0].copy_from_slice(second);
                second.copy_from_slice(&first);
            },
            2,
            2,
        ),
        (
            "another version",
            |footers| {
                footers[0][8] = 77;
                seal(footers[0]);
            },
            0,
            1,
        ),
    ];
    for (what, change, wrong, read) in cases {
        let (store, simulation, disk, first) = store();
        let mut checkpoint = Checkpoint::read(&disk);
        change(&mut checkpoint.footers());
        checkpoint.write(&disk);
        let found = check_damage(&simulation);
        assert_eq!(found.len() as u64, wrong, "{what}: {found:#?}");
        assert!(found.iter().all(|(file, _)| file == Path::new(SEGMENTS_DIR)), "{what}");
        // The checkpoint has them by name.
        let named = first.segments.iter().min_by_key(|live| live.name).expect("a segment");
        let says = inspected_footer(&simulation, named);
        let expected = if wrong > 0 { "the one in the manifest does not check" } else { "not in" };
        assert!(says.starts_with(expected), "{what}: {says}");
        let plan = start(&simulation);
        assert_eq!(plan.manifest.damage, [], "{what}");
        assert_eq!(plan.manifest.wrong_footers, wrong, "{what}");
        assert_eq!(plan.manifest.read_footers, read, "{what}");
        assert_complete(&disk, &plan);
        assert!(store.model.borrow().lost(&plan).is_empty(), "{what}");
        let again = start(&simulation);
        assert_eq!((again.manifest.wrong_footers, again.manifest.read_footers), (0, 0), "{what}");
        assert_eq!(check_damage(&simulation), [], "{what}");
        assert_eq!(inspected_footer(&simulation, named), "as in the manifest");
    }
}

#[test]
fn a_check_compares_the_footers_of_files_and_manifest() {
    let (_, simulation, disk, first) = store();
    let named = first.segments.iter().min_by_key(|live| live.name).expect("a segment");
    let mut checkpoint = Checkpoint::read(&disk);
    let footer = &mut checkpoint.footers()[0];
    // The checksum of the filters, which the segment's record does not have.
    footer[72] ^= 1;
    seal(footer);
    checkpoint.write(&disk);
    let expected = (path_of(named), "the footer is not the one in the manifest".to_owned());
    assert_eq!(check_damage(&simulation), [expected]);
    assert_eq!(inspected_footer(&simulation, named), "differs from the one in the manifest");
    // Nobody compares them at a start.
    let plan = start(&simulation);
    assert_eq!((plan.manifest.wrong_footers, plan.manifest.read_footers), (0, 0));
}

#[test]
fn damaged_footers_lose_nothing_and_are_read_anew() {
    let (store, _, disk, first) = store();
    let bytes = disk.read(CHECKPOINT).expect("a checkpoint");
    let footers = bytes.windows(8).enumerate().filter(|(_, window)| *window == b"LSVC-SGF");
    let footers: Vec<usize> = footers.map(|(at, _)| at).collect();
    assert_eq!(footers.len(), first.segments.len());
    let files: Vec<_> = disk.files("/srv").into_iter().map(|p| (disk.read(&p), p)).collect();
    for offset in footers.iter().flat_map(|start| (*start..start + FOOTER_LEN).step_by(13)) {
        let simulation = Simulation::new(offset as u64);
        let disk = simulation.disk();
        for (content, path) in &files {
            disk.write(path, content.as_ref().expect("it is there"));
        }
        assert!(disk.corrupt(CHECKPOINT, offset as u64, 0x10));
        let plan = start(&simulation);
        assert_ne!(plan.manifest.damage, [], "byte {offset}");
        assert!(store.model.borrow().lost(&plan).is_empty(), "byte {offset}");
        assert_eq!(plan.manifest.read_footers, plan.segments.len() as u64, "byte {offset}");
        assert_complete(disk, &plan);
        let again = start(&simulation);
        assert_eq!(again.manifest.damage, [], "byte {offset}");
        assert_eq!(again.manifest.read_footers, 0, "byte {offset}");
    }
}

#[test]
fn damage_behind_a_footer_in_the_manifest_is_left_to_readers() {
    let (_, simulation, disk, first) = store();
    let segment = first.segments[0];
    let length = disk.read(path_of(&segment)).expect("it is there").len() as u64;
    assert!(disk.corrupt(path_of(&segment), length - 1, 1));
    let plan = start(&simulation);
    assert_eq!(plan.segments, first.segments);
    assert_eq!(plan.footers, first.footers);
    let files: BTreeSet<PathBuf> =
        check_damage(&simulation).into_iter().map(|(file, _)| file).collect();
    assert_eq!(files, BTreeSet::from([path_of(&segment)]));
}
