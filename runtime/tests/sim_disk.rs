//! The promises of the simulated disk, seen through the runtime: synced data outlives everything,
//! unsynced data outlives a killed process, and each kind of failure can happen.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use logsvc_runtime::sim::{DiskOperation, FaultRates, SimRuntime, Simulation, for_each_seed};
use logsvc_runtime::{AlignedBuffer, DIRECT_BLOCK_BYTES, File, OpenMode, Runtime, temporary_path};

const LOG: &str = "/data/log";
const RECORD_BYTES: usize = 24;

/// A record that differs from zeros and from all other records.
fn record(number: u64) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&(number + 1).to_le_bytes());
    record[8..16].copy_from_slice(&(number + 1).wrapping_mul(0x9E37_79B9).to_le_bytes());
    record[16..].copy_from_slice(&(!number).to_le_bytes());
    record
}

/// Appends records, and notes in `acknowledged` how many are durable. Ends at
/// the first failure.
async fn append_records(runtime: SimRuntime, acknowledged: Rc<Cell<u64>>) {
    let path = Path::new(LOG);
    let folder = path.parent().expect("a folder");
    let set_up = async {
        runtime.create_dir_all(folder).await?;
        runtime.sync_dir(Path::new("/")).await?;
        let file = runtime.open(path, OpenMode::CreateNew).await?;
        runtime.sync_dir(folder).await?;
        Ok::<_, io::Error>(file)
    };
    let Ok(file) = set_up.await else { return };
    let mut written = 0;
    loop {
        for _ in 0..1 + runtime.random_u64() % 60 {
            let offset = written * RECORD_BYTES as u64;
            if file.write_all_at(record(written).to_vec(), offset).await.0.is_err() {
                return;
            }
            written += 1;
        }
        if file.sync_data().await.is_err() {
            assert!(file.sync_data().await.is_err(), "a failed sync poisons");
            return;
        }
        acknowledged.set(written);
    }
}

/// Number of whole records at the start of the log.
fn intact_records(log: &[u8]) -> u64 {
    let records = log.chunks_exact(RECORD_BYTES);
    let intact = records.zip(0..).take_while(|(bytes, number)| *bytes == record(*number));
    intact.count() as u64
}

/// Runs the appender for a while and returns the number of records that it believes to be durable.
fn run_appender(simulation: &Simulation, end: impl FnOnce(&logsvc_runtime::sim::Node)) -> u64 {
    let acknowledged = Rc::new(Cell::new(0));
    let counter = Rc::clone(&acknowledged);
    let node =
        simulation.start_node(1, move |runtime| append_records(runtime, Rc::clone(&counter)));
    let millis = simulation.block_on(|runtime| async move { runtime.random_u64() % 60 });
    simulation.run_for(Duration::from_millis(millis));
    end(&node);
    acknowledged.get()
}

#[test]
fn synced_records_survive_a_power_loss() {
    let (lost, kept, total) = (Cell::new(0), Cell::new(0), Cell::new(0));
    for_each_seed(0..300, |simulation| {
        let before = RefCell::new(0);
        let acknowledged = run_appender(simulation, |node| {
            node.crash();
            let log = simulation.disk().read(LOG).unwrap_or_default();
            *before.borrow_mut() = intact_records(&log);
            simulation.disk().power_loss();
        });
        let after = intact_records(&simulation.disk().read(LOG).unwrap_or_default());
        assert!(after >= acknowledged, "{after} of {acknowledged} survived");
        let (before, kept_all) = (*before.borrow(), kept.get());
        total.set(total.get() + acknowledged);
        lost.set(lost.get() + u32::from(after < before));
        kept.set(kept_all + u32::from(after == before && before > acknowledged));
    });
    if std::env::var(logsvc_runtime::sim::SEED_VARIABLE).is_err() {
        assert!(total.get() > 10_000, "{total:?}");
        assert!(lost.get() > 50 && kept.get() > 20, "lost {lost:?}, kept {kept:?}");
    }
}

#[test]
fn a_killed_process_loses_nothing_that_it_wrote() {
    for_each_seed(0..50, |simulation| {
        let file_len = Rc::new(Cell::new(0));
        let len = Rc::clone(&file_len);
        let node = simulation.start_node(1, move |runtime| {
            let len = Rc::clone(&len);
            async move {
                let file = runtime.open("/f".as_ref(), OpenMode::CreateNew).await.expect("new");
                for number in 0.. {
                    let offset = number * RECORD_BYTES as u64;
                    file.write_all_at(record(number).to_vec(), offset).await.0.expect("write");
                    len.set(number + 1);
                }
            }
        });
        simulation.run_for(Duration::from_millis(3));
        node.crash();
        let content = simulation.disk().read("/f").unwrap_or_default();
        assert!(intact_records(&content) >= file_len.get());
        // The write in flight may have happened, in part.
        assert!(content.len() <= (file_len.get() as usize + 1) * RECORD_BYTES);
    });
}

/// Appends blocks whose bytes are their number, and notes in `acknowledged` how many are
/// durable. Ends at the first failure.
async fn append_blocks(runtime: SimRuntime, acknowledged: Rc<Cell<u64>>) {
    let folder = Path::new(LOG).parent().expect("a folder");
    let set_up = async {
        runtime.create_dir_all(folder).await?;
        runtime.sync_dir(Path::new("/")).await?;
        let file = runtime.open(LOG.as_ref(), OpenMode::CreateNewDurable).await?;
        runtime.sync_dir(folder).await?;
        Ok::<_, io::Error>(file)
    };
    let Ok(file) = set_up.await else { return };
    for number in 0..200_u64 {
        let mut block = AlignedBuffer::new();
        block.resize(DIRECT_BLOCK_BYTES, number as u8 + 1);
        let offset = number * DIRECT_BLOCK_BYTES as u64;
        let (result, block) = file.write_aligned_at(block, offset).await;
        if result.is_err() {
            let (again, _) = file.write_aligned_at(block, offset).await;
            assert!(again.is_err(), "a failed write to such a file poisons it");
            return;
        }
        acknowledged.set(number + 1);
    }
}

#[test]
fn durable_writes_survive_a_power_loss_without_a_sync() {
    let (total, failures) = (Cell::new(0), Cell::new(0));
    for_each_seed(0..200, |simulation| {
        simulation.disk().set_fault_rates(FaultRates {
            syncs_per_million: 5_000,
            writes_per_million: 5_000,
            ..FaultRates::default()
        });
        let acknowledged = Rc::new(Cell::new(0));
        let counter = Rc::clone(&acknowledged);
        let node =
            simulation.start_node(1, move |runtime| append_blocks(runtime, Rc::clone(&counter)));
        let millis = simulation.block_on(|runtime| async move { runtime.random_u64() % 60 });
        simulation.run_for(Duration::from_millis(millis));
        node.crash();
        simulation.disk().power_loss();
        let log = simulation.disk().read(LOG).unwrap_or_default();
        let blocks = log.chunks_exact(DIRECT_BLOCK_BYTES).zip(1_u64..);
        let is_whole = |(block, number): &(&[u8], u64)| block.iter().all(|&b| b == *number as u8);
        let intact = blocks.take_while(is_whole).count() as u64;
        assert!(intact >= acknowledged.get(), "{intact} of {acknowledged:?} survived");
        total.set(total.get() + acknowledged.get());
        failures.set(failures.get() + u32::from(intact > acknowledged.get()));
    });
    if std::env::var(logsvc_runtime::sim::SEED_VARIABLE).is_err() {
        assert!(total.get() > 2_000, "{total:?}");
        assert!(failures.get() > 5, "{failures:?} blocks arrived without an answer");
    }
}

#[test]
fn direct_writes_survive_from_a_sync_on() {
    const LEN: usize = 40 * DIRECT_BLOCK_BYTES + 77;
    let (lost, kept) = (Cell::new(0), Cell::new(0));
    for_each_seed(0..200, |simulation| {
        let is_synced = simulation.seed() % 2 == 0;
        simulation.run(1, move |runtime| async move {
            let file = runtime.open("/f".as_ref(), OpenMode::CreateNewDirect).await.expect("new");
            file.sync_data().await.expect("sync");
            runtime.sync_dir("/".as_ref()).await.expect("sync");
            let mut buffer = AlignedBuffer::from(&[7; LEN][..]);
            buffer.pad_to_block();
            file.write_aligned_at(buffer, 0).await.0.expect("write");
            file.truncate(LEN as u64).await.expect("cut");
            if is_synced {
                file.sync_data().await.expect("sync");
            }
        });
        simulation.disk().power_loss();
        let content = simulation.disk().read("/f").expect("the name is durable");
        let is_whole = content == [7; LEN];
        assert!(is_whole || !is_synced, "seed {}", simulation.seed());
        if !is_synced {
            let count = if is_whole { &kept } else { &lost };
            count.set(count.get() + 1);
        }
    });
    if std::env::var(logsvc_runtime::sim::SEED_VARIABLE).is_err() {
        assert!(lost.get() > 50 && kept.get() > 5, "lost {lost:?}, kept {kept:?}");
    }
}

#[test]
fn failing_syncs_lose_only_what_was_not_acknowledged() {
    let failures = Cell::new(0);
    for_each_seed(0..200, |simulation| {
        simulation.disk().set_fault_rates(FaultRates {
            syncs_per_million: 100_000,
            writes_per_million: 1_000,
            ..FaultRates::default()
        });
        let acknowledged = run_appender(simulation, |node| {
            failures.set(failures.get() + u32::from(!node.is_running()));
            node.power_off();
        });
        let after = intact_records(&simulation.disk().read(LOG).unwrap_or_default());
        assert!(after >= acknowledged, "{after} of {acknowledged} survived");
    });
    if std::env::var(logsvc_runtime::sim::SEED_VARIABLE).is_err() {
        assert!(failures.get() > 50, "{failures:?}");
    }
}

#[test]
fn what_was_written_back_is_not_durable() {
    let survived = Cell::new(0);
    for_each_seed(0..100, |simulation| {
        simulation.run(1, |runtime| async move {
            let file = runtime.open("/f".as_ref(), OpenMode::CreateNew).await.expect("a new file");
            file.sync_data().await.expect("sync");
            runtime.sync_dir("/".as_ref()).await.expect("sync");
            file.write_all_at(record(0).to_vec(), 0).await.0.expect("write");
            file.write_back(0..RECORD_BYTES as u64).await.expect("write back");
        });
        simulation.disk().power_loss();
        let log = simulation.disk().read("/f").expect("the name is durable");
        survived.set(survived.get() + intact_records(&log));
    });
    if std::env::var(logsvc_runtime::sim::SEED_VARIABLE).is_err() {
        assert!((5..95).contains(&survived.get()), "{survived:?}");
    }
}

#[test]
fn a_replaced_file_is_old_or_new_after_a_power_loss() {
    let outcomes = RefCell::new(BTreeSet::new());
    for_each_seed(0..300, |simulation| {
        let replaced = Rc::new(Cell::new(0_u8));
        let count = Rc::clone(&replaced);
        let node = simulation.start_node(1, move |runtime| {
            let count = Rc::clone(&count);
            async move {
                for version in 1..=200 {
                    let content = vec![version; 2000 + usize::from(version)];
                    runtime.replace_file("/manifest".as_ref(), content).await.expect("replace");
                    count.set(version);
                }
            }
        });
        simulation.run_for(Duration::from_micros(simulation.seed() * 37 % 20_000));
        node.power_off();
        let done = replaced.get();
        let found = match simulation.disk().read("/manifest") {
            None => 0,
            Some(content) => {
                let version = content.first().copied().expect("never empty");
                assert_eq!(content, vec![version; 2000 + usize::from(version)]);
                version
            }
        };
        assert!(found == done || found == done + 1, "{found} after {done}");
        let left_over = simulation.disk().read(temporary_path("/manifest".as_ref())).is_some();
        outcomes.borrow_mut().insert((found - done, left_over));
    });
    if std::env::var(logsvc_runtime::sim::SEED_VARIABLE).is_err() {
        assert!(outcomes.borrow().len() >= 3, "{outcomes:?}");
    }
}

#[test]
fn a_full_disk_takes_what_fits_and_recovers() {
    for_each_seed(0..20, |simulation| {
        let disk = simulation.disk().clone();
        disk.set_capacity_bytes(10_000);
        simulation.block_on(|runtime| async move {
            let file = runtime.open("/a".as_ref(), OpenMode::CreateNew).await.expect("new");
            file.allocate(6_000).await.expect("fits");
            let other = runtime.open("/b".as_ref(), OpenMode::CreateNew).await.expect("new");
            let error = other.allocate(4_001).await.expect_err("one too many");
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            let (result, buffer) = other.write_all_at(vec![1; 5_000], 0).await;
            assert_eq!(result.expect_err("too much").kind(), io::ErrorKind::StorageFull);
            assert_eq!((buffer.len(), disk.used_bytes()), (5_000, 10_000));
            let space = runtime.disk_space("/".as_ref()).await.expect("space");
            assert_eq!((space.total_bytes, space.available_bytes), (10_000, 0));
            // Allocated space is there for writes.
            file.write_all_at(vec![2; 6_000], 0).await.0.expect("allocated");
            runtime.remove_file("/a".as_ref()).await.expect("remove");
            assert_eq!(disk.used_bytes(), 10_000, "an open file keeps its space");
            drop(file);
            assert_eq!(disk.used_bytes(), 4_000);
            other.write_all_at(vec![3; 5_000], 0).await.0.expect("there is space again");
        });
    });
}

#[test]
fn armed_faults_hit_what_they_are_meant_for() {
    let simulation = Simulation::new(4);
    let disk = simulation.disk().clone();
    disk.write("/a/f", &[1; 100]);
    disk.write("/b/f", &[1; 100]);
    disk.fail_next(DiskOperation::Read, "/a", 1);
    disk.fail_next(DiskOperation::Write, "/a/f", 1);
    disk.fail_next(DiskOperation::SyncDir, "/b", u64::MAX);
    simulation.block_on(|runtime| async move {
        let open = |path: &'static str| runtime.open(path.as_ref(), OpenMode::ReadWrite);
        let (a, b) = (open("/a/f").await.expect("open"), open("/b/f").await.expect("open"));
        b.read_at(Vec::with_capacity(9), 0).await.0.expect("not meant");
        let error = a.read_at(Vec::with_capacity(9), 0).await.0.expect_err("meant");
        assert_eq!(error.raw_os_error(), Some(5));
        a.read_at(Vec::with_capacity(9), 0).await.0.expect("only once");
        b.write_all_at(vec![2; 10], 0).await.0.expect("not meant");
        assert!(a.write_all_at(vec![2; 10], 0).await.0.is_err());
        runtime.sync_dir("/a".as_ref()).await.expect("not meant");
        for _ in 0..3 {
            assert!(runtime.sync_dir("/b".as_ref()).await.is_err());
        }
        disk.clear_faults();
        runtime.sync_dir("/b".as_ref()).await.expect("cleared");
    });
}

#[test]
fn tests_can_look_at_and_change_files() {
    let simulation = Simulation::new(9);
    let disk = simulation.disk();
    disk.write("/x/y/file", b"content");
    disk.write("/x/other", b"");
    assert_eq!(disk.files("/"), [PathBuf::from("/x/other"), PathBuf::from("/x/y/file")]);
    assert_eq!(disk.files("/x/y"), [PathBuf::from("/x/y/file")]);
    assert!(disk.corrupt("/x/y/file", 0, 0x20));
    assert!(!disk.corrupt("/x/y/file", 7, 1));
    disk.power_loss();
    assert_eq!(disk.read("/x/y/file").as_deref(), Some(b"Content".as_slice()));
    assert!(disk.remove("/x/y/file"));
    assert!(!disk.remove("/x/y/file"));
    disk.power_loss();
    assert_eq!(disk.files("/"), [PathBuf::from("/x/other")]);
    let other = simulation.new_disk();
    assert!(other.files("/").is_empty());
}

#[test]
fn files_opened_before_a_power_loss_are_dead() {
    let simulation = Simulation::new(2);
    let disk = simulation.disk().clone();
    disk.write("/f", b"old");
    simulation.block_on(|runtime| async move {
        let file = runtime.open("/f".as_ref(), OpenMode::ReadWrite).await.expect("open");
        disk.power_loss();
        assert!(file.write_all_at(b"new".to_vec(), 0).await.0.is_err());
        assert!(file.sync_data().await.is_err());
        assert_eq!(disk.read("/f").as_deref(), Some(b"old".as_slice()));
    });
}

#[test]
fn a_second_name_is_as_durable_as_its_folder_and_costs_no_room() {
    let (kept, lost) = (Cell::new(0), Cell::new(0));
    for_each_seed(0..40, |simulation| {
        simulation.block_on(|runtime: SimRuntime| async move {
            runtime.create_dir_all(Path::new("/data/inner")).await.expect("a folder");
            runtime.sync_dir(Path::new("/data")).await.expect("sync");
            runtime.sync_dir(Path::new("/")).await.expect("sync");
            runtime.replace_file(Path::new("/data/one"), vec![7; 1000]).await.expect("write");
            let to = ["/data/inner/synced", "/data/inner/late"].map(Path::new);
            runtime.hard_link(Path::new("/data/one"), to[0]).await.expect("link");
            runtime.sync_dir(Path::new("/data/inner")).await.expect("sync");
            runtime.remove_file(Path::new("/data/one")).await.expect("remove");
            runtime.sync_dir(Path::new("/data")).await.expect("sync");
            runtime.hard_link(to[0], to[1]).await.expect("link");
        });
        let disk = simulation.disk();
        assert_eq!(disk.used_bytes(), 1000, "two names of one file");
        disk.power_loss();
        assert_eq!(disk.read("/data/inner/synced"), Some(vec![7; 1000]));
        assert_eq!(disk.read("/data/one"), None);
        match disk.read("/data/inner/late") {
            Some(content) => {
                assert_eq!(content, vec![7; 1000]);
                kept.set(kept.get() + 1);
            }
            None => lost.set(lost.get() + 1),
        }
        disk.remove("/data/inner/synced");
        assert_eq!(disk.used_bytes(), if disk.files("/data").is_empty() { 0 } else { 1000 });
        disk.remove("/data/inner/late");
        assert_eq!(disk.used_bytes(), 0);
    });
    assert!(kept.get() > 0 && lost.get() > 0, "{kept:?} kept, {lost:?} lost");
}
