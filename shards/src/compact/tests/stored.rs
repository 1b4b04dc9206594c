//! Compares merges and purges of segments that are in a bucket with the same of files.

use bytes::Bytes;
use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::double::{Faults, World};
use logsvc_store::{Request, Store};

use super::*;
use crate::sealed::write_tail;

pub(super) fn store_of(runtime: &SimRuntime, world: &World) -> Store<SimRuntime> {
    Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())))
}

/// Puts a segment into the bucket, and takes its file away.
pub(super) async fn evict(
    bench: &Bench,
    store: &Store<SimRuntime>,
    segment: &Arc<SealedSegment>,
    leaves_tail: bool,
) {
    let runtime = &bench.folder.runtime;
    let body = runtime.read_file(&segment.path, 1 << 30).await.unwrap();
    let name = segment.live.name.object_name(segment.live.day);
    let proof = 0..body.len();
    store.create(&name, Bytes::from(body), proof, Monotonic(u64::MAX)).await.unwrap();
    let files = &bench.folder.directories.files;
    if leaves_tail {
        let source = files.get(runtime, segment).await.unwrap();
        write_tail(runtime, segment, &source).await.unwrap();
    }
    runtime.remove_file(&segment.path).await.unwrap();
    files.close(segment);
}

#[test]
fn a_merge_of_segments_in_a_bucket_shows_what_they_have_shown() {
    for seed in seeds(40) {
        let _guard = SeedGuard(seed);
        Simulation::new(seed).block_on(move |runtime| async move {
            let mut rng = Rng::new(seed);
            let world = World::default();
            let store = store_of(&runtime, &world);
            let mut bench = Bench::with_store(runtime.clone(), Some(store.clone())).await;
            let (mut contents, mut inputs) = (Vec::new(), Vec::new());
            for _ in 0..rng.between(1, 4) {
                let content = random_content(&mut rng, 0, 1000, &contents);
                let segment = write_as(&bench.folder, &content, 0, rng.one_in(3)).await;
                if rng.one_in(2) {
                    evict(&bench, &store, &segment, rng.one_in(2)).await;
                }
                inputs.push(segment);
                contents.push(content);
            }
            if rng.one_in(2) {
                world.set_faults(Faults {
                    slow_factor: 40,
                    failures_per_million: 50_000,
                    lost_answers_per_million: 50_000,
                    busy_per_million: 50_000,
                    ..Faults::default()
                });
            }
            let outcome = bench.merge(&inputs, KeepAll).await.unwrap();
            let added = Arc::new(outcome.added.unwrap().segment);
            assert!(read(&bench.folder, &added).await == shown(&contents));
            for (segment, content) in inputs.iter().zip(&contents) {
                assert!(read(&bench.folder, segment).await == *content);
            }
        });
    }
}

/// A segment of many blocks whose lines cannot be compressed.
fn many_blocks(rng: &mut Rng, count: i64) -> Content {
    let mut entry = |at: i64| {
        let line = (0..6_001).map(|_| rng.next_u64() as u8).collect();
        Entry { timestamp_ns: at, line, metadata: vec![("id".to_owned(), at.to_string())] }
    };
    (0..4).map(|stream| (stream, (0..count).map(&mut entry).collect())).collect()
}

#[test]
fn columns_of_many_blocks_are_one_request() {
    for leaves_tail in [false, true] {
        Simulation::new(1).block_on(move |runtime| async move {
            let (mut rng, world) = (Rng::new(1), World::default());
            let store = store_of(&runtime, &world);
            let mut bench = Bench::with_store(runtime.clone(), Some(store.clone())).await;
            let content = many_blocks(&mut rng, 800);
            let segment = write(&bench.folder, &content, 0).await;
            evict(&bench, &store, &segment, leaves_tail).await;
            let directory = bench.folder.directories.get(&segment).await.unwrap();
            assert!(directory.block_count() > 60 && segment.live.file_len > 18 << 20);
            let before = (store.counters().of(Request::Read).count, store.counters().read_bytes());
            let outcome = bench.merge(&[Arc::clone(&segment)], KeepAll).await.unwrap();
            assert_eq!(outcome.entries_out, 3_200);
            let requests = store.counters().of(Request::Read).count - before.0;
            let bytes = store.counters().read_bytes() - before.1;
            // Three windows of lines, one of each other kind, and the parts before the columns.
            let most = if leaves_tail { 6 } else { 10 };
            assert!(requests <= most, "{requests} requests");
            assert!(bytes <= segment.live.file_len, "{bytes} bytes");
        });
    }
}

#[test]
fn a_missing_object_is_told_as_a_missing_file_is() {
    Simulation::new(1).block_on(|runtime| async move {
        let world = World::default();
        let store = store_of(&runtime, &world);
        let mut bench = Bench::with_store(runtime.clone(), Some(store.clone())).await;
        for is_draft in [false, true] {
            let content = small(&[(1, "some text")]);
            let segment = write_as(&bench.folder, &content, 0, is_draft).await;
            evict(&bench, &store, &segment, true).await;
            bench.folder.directories.get(&segment).await.unwrap();
            let bytes = world.objects().last().unwrap().1.clone();
            assert!(world.lose(&segment.live.name.object_name(Day(0))));
            let error = bench.merge(&[Arc::clone(&segment)], KeepAll).await.unwrap_err();
            let CompactError::Io(error) = &error else { panic!("{error}") };
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            // The file comes back.
            let file = runtime.open(&segment.path, logsvc_runtime::OpenMode::CreateNew).await;
            let file = file.unwrap();
            logsvc_runtime::File::write_all_at(&file, bytes.to_vec(), 0).await.0.unwrap();
            assert!(read(&bench.folder, &segment).await == content);
            assert!(bench.merge(&[segment], KeepAll).await.is_ok());
        }
    });
}
