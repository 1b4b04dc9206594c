//! Directories of a few segments on the simulation.

use std::path::Path;
use std::rc::Rc;

use logsvc_logql::engine::MetadataSets;
use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_runtime::sim::{DiskOperation, SimRuntime, Simulation};

use super::*;
use crate::manifest::Day;
use crate::node::open_node;
use crate::sealed::SegmentFolder;
use crate::wal::format::WalName;
use logsvc_segment::{Entries, EntriesMetadata, SegmentWriter};

/// Segments of one stream each; their directories are equally long.
pub(in crate::sealed) async fn write(
    runtime: &SimRuntime,
    directories: &Rc<Directories<SimRuntime>>,
    count: usize,
) -> Vec<SealedSegment> {
    let node = open_node(runtime, Path::new("/data")).await.unwrap();
    let first = WalName { epoch: node.plan.epoch, shards: 1, shard: 0, index: 0 };
    let folder = SegmentFolder::new(runtime.clone(), &node.plan, first, Rc::clone(directories));
    let tenant = TenantId::new("acme").unwrap();
    let labels = Labels::from_pairs([("app", "web")]).unwrap();
    let id = StreamId::new(&tenant, &labels);
    let mut segments = Vec::new();
    for number in 0..count {
        let segment = folder.begin(Day(0)).unwrap();
        let mut writer = SegmentWriter::new(folder.identity(&segment)).unwrap();
        writer.begin_stream(&tenant, &labels, id).unwrap();
        let mut sets = MetadataSets::new();
        let set = sets.intern(std::iter::empty::<(&str, &str)>()).unwrap();
        let entry = Entries {
            timestamps_ns: &[number as i64],
            lines_start: 0,
            line_ends: &[4],
            lines: b"line",
            metadata: EntriesMetadata::Sets { set_ids: &[set], sets: &sets },
        };
        writer.append(&entry).unwrap();
        let order = segment.name.sealed_order();
        let finished = writer.finish().unwrap();
        let opened = folder.publish(segment, finished, 0, order).await.unwrap();
        folder.finalize(&opened.segment.live).await.unwrap();
        segments.push(opened.segment);
    }
    segments
}

/// The length of one directory of [`write`] in memory.
fn one_directory_bytes() -> u64 {
    Simulation::new(1).block_on(|runtime| async move {
        let directories =
            Rc::new(Directories::new(runtime.clone(), &Budget::new("directories", 1 << 20)));
        write(&runtime, &directories, 1).await;
        directories.counters().held_bytes
    })
}

#[test]
fn directories_beyond_the_budget_go_and_come_back() {
    let one_bytes = one_directory_bytes();
    Simulation::new(1).block_on(move |runtime| async move {
        let budget = Budget::new("directories", 3 * one_bytes);
        let directories = Rc::new(Directories::new(runtime.clone(), &budget));
        let segments = write(&runtime, &directories, 8).await;
        assert_eq!(directories.counters().held, 3);
        for round in 0..3 {
            for segment in &segments {
                let found = directories.get(segment).await.unwrap();
                assert_eq!(found.footer(), &segment.footer, "round {round}");
                assert!(!found.is_in_excess());
                assert!(budget.used_bytes() <= 3 * one_bytes);
            }
        }
        let counters = directories.counters();
        assert_eq!((counters.held, counters.held_bytes), (3, 3 * one_bytes));
        // Used in turns, so each is gone when it is needed again, of the first round too: the
        // last three are left of the writing, and the first of the round push them out.
        assert_eq!((counters.loads, counters.hits), (3 * 8, 0));
        assert_eq!(counters.evictions, 5 + 3 * 8);
        // A directory that is in use stays.
        let before = directories.counters();
        for segment in &segments[..7] {
            directories.get(segment).await.unwrap();
            directories.get(&segments[7]).await.unwrap();
        }
        let after = directories.counters();
        assert_eq!((after.loads - before.loads, after.hits - before.hits), (7, 7));
        directories.forget(segments[7].live.name);
        assert_eq!(directories.counters().held, 2);
        assert_eq!(budget.used_bytes(), 2 * one_bytes);
    });
}

#[test]
fn without_room_they_are_handed_out_and_counted_apart() {
    let one_bytes = one_directory_bytes();
    Simulation::new(1).block_on(move |runtime| async move {
        let budget = Budget::new("directories", one_bytes + one_bytes / 2);
        let directories = Rc::new(Directories::new(runtime.clone(), &budget));
        let segments = write(&runtime, &directories, 3).await;
        let first = directories.get(&segments[0]).await.unwrap();
        let second = directories.get(&segments[1]).await.unwrap();
        let again = directories.get(&segments[1]).await.unwrap();
        assert!(!first.is_in_excess() && second.is_in_excess());
        assert!(Arc::ptr_eq(&second, &again), "in memory once");
        assert_eq!(directories.counters().excess_bytes, one_bytes);
        assert_eq!(budget.used_bytes(), one_bytes);
        drop((first, second, again));
        assert_eq!((directories.counters().excess_bytes, budget.used_bytes()), (0, 0));
        assert!(!directories.get(&segments[2]).await.unwrap().is_in_excess());
    });
}

#[test]
fn of_what_nobody_has_asked_for_little_is_kept() {
    let one_bytes = one_directory_bytes();
    Simulation::new(1).block_on(move |runtime| async move {
        let budget = Budget::new("directories", 20 * one_bytes);
        let mut directories = Directories::new(runtime.clone(), &budget);
        directories.unasked_max_bytes = 3 * one_bytes;
        let directories = Rc::new(directories);
        let segments = write(&runtime, &directories, 12).await;
        let counters = directories.counters();
        assert_eq!((counters.held, counters.evictions), (3, 9));
        assert_eq!(budget.used_bytes(), 3 * one_bytes);
        for segment in &segments {
            directories.get(segment).await.unwrap();
        }
        let counters = directories.counters();
        assert_eq!((counters.held, counters.loads, counters.hits), (12, 9, 3));
        write(&runtime, &directories, 1).await;
        assert_eq!(
            (directories.counters().held, directories.state.borrow().unasked.len()),
            (13, 1)
        );
        for segment in &segments {
            directories.forget(segment.live.name);
        }
        assert_eq!(directories.counters().held_bytes, directories.state.borrow().unasked_bytes);
    });
}

#[test]
fn many_that_ask_at_once_read_it_once() {
    let simulation = Simulation::new(1);
    simulation.block_on(|runtime| async move {
        let budget = Budget::new("directories", 1 << 20);
        let directories = Rc::new(Directories::new(runtime.clone(), &budget));
        let segment = Rc::new(write(&runtime, &directories, 1).await.remove(0));
        directories.forget(segment.live.name);
        let ask = |_| {
            let (directories, segment) = (Rc::clone(&directories), Rc::clone(&segment));
            runtime.spawn(async move { directories.get(&segment).await.unwrap() })
        };
        let tasks: Vec<_> = (0..50).map(ask).collect();
        for task in tasks {
            task.await;
        }
        assert_eq!(directories.counters().loads, 1);
    });
}

#[test]
fn damage_and_a_refusing_disk_are_told_and_do_not_stay() {
    let simulation = Rc::new(Simulation::new(1));
    let inner = Rc::clone(&simulation);
    simulation.block_on(move |runtime| async move {
        let disk = inner.disk();
        let budget = Budget::new("directories", 1 << 20);
        let directories = Rc::new(Directories::new(runtime.clone(), &budget));
        let segment = write(&runtime, &directories, 1).await.remove(0);
        directories.forget(segment.live.name);
        let good = disk.read(&segment.path).unwrap();
        // A file that is open would be the old one.
        let fresh = || Directories::new(runtime.clone(), &budget);
        for at in segment.footer.directory_range() {
            let mut bytes = good.clone();
            bytes[at as usize] ^= 0x10;
            disk.write(&segment.path, &bytes);
            let error = fresh().get(&segment).await.unwrap_err();
            assert!(matches!(error, DirectoryError::Damaged(_)), "{at}: {error}");
        }
        disk.write(&segment.path, &good);
        disk.fail_next(DiskOperation::Read, &segment.path, 1);
        let directories = fresh();
        let error = directories.get(&segment).await.unwrap_err();
        assert!(matches!(error, DirectoryError::Io(_)), "{error}");
        directories.get(&segment).await.unwrap();
    });
}
