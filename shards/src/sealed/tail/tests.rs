//! Tails of segments on the simulation, in a bucket and on the disk.

use std::rc::Rc;

use bytes::Bytes;
use logsvc_runtime::sim::{DiskOperation, SimRuntime, Simulation};
use logsvc_runtime::{Budget, Monotonic};
use logsvc_store::double::World;
use logsvc_store::{Request, Store};

use super::*;
use crate::sealed::Directories;
use crate::sealed::directories::tests::write;

/// A segment in a bucket, whose file is still there.
struct Rig {
    runtime: SimRuntime,
    world: World,
    store: Store<SimRuntime>,
    /// Keeps nothing.
    directories: Rc<Directories<SimRuntime>>,
    segment: SealedSegment,
    /// Of the file.
    bytes: Vec<u8>,
}

impl Rig {
    async fn new(runtime: SimRuntime) -> Rig {
        let world = World::default();
        let store = Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())));
        let directories = Directories::new(runtime.clone(), &Budget::new("directories", 1));
        let directories = Rc::new(directories.with_store(Some(store.clone())));
        let segment = write(&runtime, &directories, 1).await.remove(0);
        let bytes = runtime.read_file(&segment.path, 1 << 20).await.unwrap();
        let name = segment.live.name.object_name(segment.live.day);
        let (body, until) = (Bytes::from(bytes.clone()), Monotonic(u64::MAX));
        store.create(&name, body, 0..bytes.len(), until).await.unwrap();
        Rig { runtime, world, store, directories, segment, bytes }
    }

    async fn source(&self) -> SegmentSource<SimRuntime> {
        self.directories.files.get(&self.runtime, &self.segment).await.unwrap()
    }

    async fn remove_file(&self) {
        self.runtime.remove_file(&self.segment.path).await.unwrap();
        self.directories.files.close(&self.segment);
    }

    fn reads(&self) -> u64 {
        // A slow read is asked for twice.
        let counters = self.store.counters();
        counters.of(Request::Read).count - counters.second_reads()
    }

    async fn has_tail(&self) -> bool {
        self.runtime.open(&self.segment.tail_path(), OpenMode::Read).await.is_ok()
    }

    async fn directory_is_right(&self) -> bool {
        let directory = self.directories.get(&self.segment).await;
        directory.unwrap().footer() == &self.segment.footer
    }
}

fn simulate<F: Future<Output = ()> + 'static>(
    seed: u64,
    test: impl FnOnce(SimRuntime, logsvc_runtime::sim::Disk) -> F,
) {
    let simulation = Simulation::new(seed);
    let disk = simulation.disk().clone();
    simulation.block_on(|runtime| test(runtime, disk));
}

#[test]
fn a_tail_is_the_end_of_the_segment_wherever_that_comes_from() {
    simulate(1, |runtime, disk| async move {
        let rig = Rig::new(runtime).await;
        let (path, footer) = (rig.segment.tail_path(), rig.segment.footer);
        let source = rig.source().await;
        assert!(matches!(source, SegmentSource::File(_)));
        let len = write_tail(&rig.runtime, &rig.segment, &source).await.unwrap();
        let tail = disk.read(&path).unwrap();
        assert_eq!(len, tail.len() as u64);
        assert_eq!(tail[64..], rig.bytes[footer.filters_offset as usize..]);
        assert_eq!(tail[..12], *b"LSVCTAIL\x01\0\0\0");
        rig.remove_file().await;
        rig.runtime.remove_file(&rig.segment.tail_path()).await.unwrap();
        rig.directories.files.close(&rig.segment);
        assert_eq!(rig.reads(), 0);
        let source = rig.source().await;
        assert!(matches!(source, SegmentSource::Stored(_)));
        write_tail(&rig.runtime, &rig.segment, &source).await.unwrap();
        assert_eq!((disk.read(&path).unwrap(), rig.reads()), (tail, 1));
        // Nobody has told that there is one now.
        assert!(rig.directory_is_right().await);
        assert_eq!(rig.reads(), 2);
        rig.directories.files.close(&rig.segment);
        assert!(rig.directory_is_right().await);
        assert_eq!(rig.reads(), 2);
        rig.runtime.remove_file(&rig.segment.tail_path()).await.unwrap();
    });
}

#[test]
fn a_damaged_tail_counts_as_absent_and_is_removed() {
    simulate(2, |runtime, disk| async move {
        let rig = Rig::new(runtime).await;
        write_tail(&rig.runtime, &rig.segment, &rig.source().await).await.unwrap();
        rig.remove_file().await;
        let path = rig.segment.tail_path();
        let tail = disk.read(&path).unwrap();
        let directory = rig.segment.footer.directory_range();
        let offset = rig.segment.footer.filters_offset;
        let within = |at: u64| (at - offset) as usize + HEADER_LEN;
        let mut damaged: Vec<Vec<u8>> = (0..HEADER_LEN)
            .chain(within(directory.start)..within(directory.end))
            .map(|at| {
                let mut bytes = tail.clone();
                bytes[at] ^= 0x10;
                bytes
            })
            .collect();
        damaged.extend([0, 1, HEADER_LEN, tail.len() - 1].map(|len| tail[..len].to_vec()));
        damaged.push([&tail[..], &[0]].concat());
        for bytes in damaged {
            disk.write(&path, &bytes);
            rig.directories.files.close(&rig.segment);
            let before = rig.reads();
            assert!(rig.directory_is_right().await);
            assert_eq!(rig.reads(), before + 1);
            assert!(!rig.has_tail().await);
        }
        // A good one is used, also if the object is the one that is damaged.
        disk.write(&path, &tail);
        rig.directories.files.close(&rig.segment);
        let name = rig.segment.live.name.object_name(rig.segment.live.day);
        assert!(rig.world.corrupt(&name, directory.start as usize, 1));
        let before = rig.reads();
        assert!(rig.directory_is_right().await);
        assert_eq!(rig.reads(), before);
        // One that was suspected for nothing stays.
        assert!(rig.directories.files.suspect(&rig.segment));
        assert!(rig.directory_is_right().await);
        assert!(!rig.directories.files.suspect(&rig.segment), "all of it was checked");
        assert!(rig.has_tail().await && rig.reads() == before);
    });
}

#[test]
fn a_tail_that_cannot_be_read_is_left_and_the_bucket_is_asked() {
    simulate(3, |runtime, disk| async move {
        let rig = Rig::new(runtime).await;
        write_tail(&rig.runtime, &rig.segment, &rig.source().await).await.unwrap();
        rig.remove_file().await;
        let path = rig.segment.tail_path();
        for operation in [DiskOperation::Open, DiskOperation::Read] {
            rig.directories.files.close(&rig.segment);
            for _ in 0..2 {
                disk.fail_next(operation, &path, 1);
                let before = rig.reads();
                assert!(rig.directory_is_right().await);
                assert_eq!(rig.reads(), before + 1, "{operation:?}");
            }
            disk.clear_faults();
        }
        assert!(rig.has_tail().await);
    });
}

#[test]
fn a_write_that_fails_leaves_no_tail() {
    simulate(4, |runtime, disk| async move {
        let rig = Rig::new(runtime).await;
        let (path, source) = (rig.segment.tail_path(), rig.source().await);
        for operation in
            [DiskOperation::Open, DiskOperation::Write, DiskOperation::Sync, DiskOperation::Rename]
        {
            disk.fail_next(operation, path.parent().unwrap(), 1);
            assert!(
                write_tail(&rig.runtime, &rig.segment, &source).await.is_err(),
                "{operation:?}"
            );
            let left = disk.files(path.parent().unwrap());
            assert_eq!(left, std::slice::from_ref(&rig.segment.path), "{operation:?}");
        }
        // A left-over that could not be removed.
        disk.write(temporary_path(&path), b"half");
        write_tail(&rig.runtime, &rig.segment, &source).await.unwrap();
        assert!(disk.read(temporary_path(&path)).is_none());
        // A source that is damaged makes none.
        rig.runtime.remove_file(&rig.segment.tail_path()).await.unwrap();
        rig.remove_file().await;
        let name = rig.segment.live.name.object_name(rig.segment.live.day);
        let (footer, source) = (rig.segment.footer, rig.source().await);
        for at in [footer.directory_offset, footer.file_len - 1] {
            assert!(rig.world.corrupt(&name, at as usize, 1));
            let error = write_tail(&rig.runtime, &rig.segment, &source).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(rig.world.corrupt(&name, at as usize, 1));
        }
        assert!(rig.world.lose(&name));
        let error = write_tail(&rig.runtime, &rig.segment, &source).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(disk.files(path.parent().unwrap()).is_empty());
    });
}

#[test]
fn who_has_a_file_open_keeps_it_and_the_next_one_asks_anew() {
    simulate(5, |runtime, _| async move {
        let rig = Rig::new(runtime).await;
        let other = Directories::new(rig.runtime.clone(), &Budget::new("directories", 1));
        let other = other.with_store(Some(rig.store.clone()));
        let old = rig.source().await;
        let of_other = other.files.get(&rig.runtime, &rig.segment).await.unwrap();
        assert!(matches!(of_other, SegmentSource::File(_)));
        rig.remove_file().await;
        let SegmentSource::File(file) = &old else { panic!("it was a file") };
        let of_file = size_of_val(&file.file.read_exact_at(Vec::new(), 0, 1));
        let of_any = size_of_val(&old.read_exact_at(Vec::new(), 0, 1));
        assert!(of_any <= of_file + 128, "{of_any} bytes for a read, {of_file} for that of a file");
        let (result, bytes) = old.read_exact_at(vec![7], 0, rig.bytes.len()).await;
        result.unwrap();
        assert_eq!(bytes[1..], rig.bytes);
        for files in [&rig.directories.files, &other.files] {
            let source = files.get(&rig.runtime, &rig.segment).await.unwrap();
            assert!(matches!(source, SegmentSource::Stored(_)), "another core learns of it, too");
            let (result, bytes) = source.read_exact_at(vec![7], 3, rig.bytes.len() - 3).await;
            result.unwrap();
            assert_eq!(bytes, [&[7], &rig.bytes[3..]].concat());
            let (result, _) = source.read_exact_at(Vec::new(), 3, rig.bytes.len()).await;
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
        // Without a bucket it is a file that is not there.
        let alone = Directories::new(rig.runtime.clone(), &Budget::new("directories", 1));
        let missing = alone.files.get(&rig.runtime, &rig.segment).await;
        assert_eq!(missing.err().map(|error| error.kind()), Some(io::ErrorKind::NotFound));
    });
}
