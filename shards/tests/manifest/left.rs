//! Streams that have left segments: a check counts them and finds contradictions, and a look at a
//! segment shows them.

use std::path::{Path, PathBuf};

use logsvc_runtime::sim::Simulation;
use logsvc_shards::check::{Severity, inspect_segment};
use logsvc_shards::manifest::{CHECKPOINT_NAME, LeftPart, ManifestEdit, SegmentName};
use logsvc_shards::node::open_node;
use logsvc_shards::types::{Part, StreamPartitions};

use crate::damage::{Store, check, start};
use crate::store::{DATA_DIR, SEGMENTS_DIR, Writer, stream_in};

fn inspect(simulation: &Simulation, path: PathBuf) -> Vec<String> {
    simulation.block_on(|runtime| async move {
        let mut lines = Vec::new();
        let inspected = inspect_segment(&runtime, &path, |line| lines.push(line)).await;
        inspected.expect("a segment");
        lines
    })
}

/// Has a shard of a start of its own append an edit.
fn append(store: &Store, simulation: &Simulation, edit: ManifestEdit) {
    let model = store.model.clone();
    simulation.block_on(|runtime| async move {
        let node = open_node(&runtime, Path::new(DATA_DIR)).await.expect("a healthy disk");
        let mut writer = Writer::new(&runtime, &model, &node.plan, 2, 0);
        writer.append(&edit).await.expect("a healthy disk");
    });
}

#[test]
fn a_check_and_a_look_say_what_has_left() {
    let store = Store::write();
    let (simulation, disk) = store.on_disk(0);
    let days = start(&simulation).segments.to_vec();
    let report = check(&simulation);
    assert_eq!(report.damaged_places(), 0, "{:#?}", report.findings);
    let (mut segments, mut streams) = (0, 0);
    for segment in &days {
        let (name, left) = (segment.name, &store.live[&segment.name]);
        let path = name.path(Path::new(SEGMENTS_DIR), segment.day);
        let parts: StreamPartitions = left.iter().copied().collect();
        let has_left = parts.contains(stream_in(name));
        let lines = inspect(&simulation, path.clone());
        assert!(lines.contains(&"  live       yes".to_owned()), "{lines:#?}");
        let stream = lines.iter().find(|line| line.starts_with("stream 0")).expect("it has one");
        assert_eq!(stream.ends_with(", has left"), has_left, "{stream}");
        let of_left = lines.iter().find_map(|line| line.strip_prefix("  left       "));
        let note = report.findings.iter().find(|finding| finding.file == path);
        if left.is_empty() {
            assert_eq!((of_left, note), (None, None));
            continue;
        }
        segments += 1;
        streams += u64::from(has_left);
        let parts: Vec<String> = left.iter().map(|part| format!(" {part}")).collect();
        let count = u8::from(has_left);
        let expected = format!(
            "{count} of 1 streams with {count} of 1 entries have left it: all of{}",
            parts.join(",")
        );
        assert_eq!(of_left, Some(&*expected));
        let note = note.expect("it is worth a word");
        assert_eq!((note.severity, &note.what), (Severity::Note, &expected));
    }
    assert!(streams > 0 && streams < segments, "{streams} of {segments}");
    assert_eq!(
        (report.left_segments, report.left_streams, report.left_entries),
        (segments, streams, streams)
    );

    // A segment that lies elsewhere is shown, without the facts that only a manifest has.
    let path = days[0].name.path(Path::new(SEGMENTS_DIR), days[0].day);
    let bytes = disk.read(&path).expect("a segment");
    disk.write("/somewhere/else/a.seg", &bytes);
    let lines = inspect(&simulation, "/somewhere/else/a.seg".into());
    assert!(!lines.iter().any(|line| line.starts_with("  live")), "{lines:#?}");
    let checkpoint = Path::new(SEGMENTS_DIR).join(CHECKPOINT_NAME);
    assert!(disk.corrupt(&checkpoint, 20, 1));
    let lines = inspect(&simulation, path);
    assert!(lines.iter().any(|line| line.starts_with("  manifest   is damaged")), "{lines:#?}");
}

#[test]
fn a_check_finds_streams_that_have_left_what_never_held_them() {
    let store = Store::write();
    let (simulation, _) = store.on_disk(0);
    let find = |name: &SegmentName| (name.shards, name.shard) == (2, 0);
    let known = store.live.keys().copied().find(find).expect("a segment of one of two shards");
    let unknown = SegmentName { epoch: 1 << 20, ..known };
    let left = |segment, shards, shard| LeftPart { segment, part: Part::one(shards, shard) };
    let left = vec![
        left(known, 2, 1),
        left(known, 4, 3),
        // Some of its streams could be among these.
        left(known, 3, 1),
        left(unknown, 4, 0),
    ];
    append(&store, &simulation, ManifestEdit { left, ..ManifestEdit::default() });
    let report = check(&simulation);
    let damage = report.findings.iter().filter(|finding| finding.severity == Severity::Damage);
    let damage: Vec<(String, &str)> =
        damage.map(|finding| (finding.file.display().to_string(), finding.what.as_str())).collect();
    let [(folder, gone), (path, second), (_, fourth)] = &damage[..] else {
        panic!("{damage:#?}");
    };
    assert_eq!(folder, SEGMENTS_DIR);
    let expected =
        format!("streams are said to have left {}, which is not live", unknown.file_name());
    assert_eq!(*gone, expected);
    assert!(path.ends_with(&known.file_name()));
    for (what, shard) in [(second, "1 of 2"), (fourth, "3 of 4")] {
        let expected =
            format!("streams of shard {shard} are said to have left it, which it cannot have held");
        assert_eq!(**what, expected);
    }
}
