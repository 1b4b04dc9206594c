//! A bucket that is a folder: what failing disks and odd names do to it. `power.rs` has power losses.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use logsvc_runtime::sim::{Disk, DiskOperation, SimRuntime, Simulation};
use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::bucket::{Bucket, BucketError, PartId, PartPlace, Span, UploadId};
use logsvc_store::folder::FolderBucket;
use logsvc_store::{Created, Folder, ObjectName, PART_BYTES, Store, StoreError};
use logsvc_testkit::{Rng, SeedGuard, seeds};

use support::{ROOT, left_overs, objects_of, open_patiently, path};

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).expect("a name")
}

fn soon(runtime: &SimRuntime) -> Monotonic {
    runtime.now().after(Duration::from_secs(60))
}

#[test]
fn a_create_whose_folder_was_not_synced_does_not_pass_for_done() {
    for (failures, is_done) in [(1, true), (5, true), (u64::MAX, false)] {
        let simulation = Simulation::new(failures);
        let disk = simulation.disk().clone();
        let created = simulation.block_on(|runtime| async move {
            let store = Store::new(runtime.clone(), Box::new(open_patiently(&runtime).await));
            let first = Bytes::from_static(b"the first of all");
            let until = soon(&runtime);
            let created = store.create(&name("log/0"), first.clone(), 0..16, until).await;
            assert_eq!(created, Ok(Created::New));
            disk.fail_next(DiskOperation::SyncDir, Path::new(ROOT).join("log"), failures);
            let object = name("log/1");
            let body = Bytes::from_static(b"0123456789abcdef");
            let created = store.create(&object, body, 0..16, until).await;
            // What is known to be durable can be read.
            let until = soon(&runtime);
            let read = store.read(&name("log/0"), Span::Range(0..16), until).await;
            assert_eq!(read, Ok(first));
            assert_eq!(store.info(&object, until).await.is_ok(), is_done);
            let listed = store.list(&Folder::ALL, None, soon(&runtime)).await;
            assert_eq!(listed.is_ok(), is_done);
            created
        });
        match created {
            Ok(Created::New | Created::Retried) => assert!(is_done),
            Err(StoreError::Unknown { .. }) => assert!(!is_done),
            other => panic!("{other:?}"),
        }
        simulation.disk().power_loss();
        let objects = objects_of(simulation.disk());
        assert!(objects.contains_key(&name("log/0")));
        assert!(!is_done || objects.contains_key(&name("log/1")));
    }
}

#[test]
fn a_name_that_is_said_to_be_taken_is_durable() {
    for seed in seeds(20) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let disk = simulation.disk().clone();
        simulation.block_on(|runtime| async move {
            let (one, other) = (open_patiently(&runtime).await, open_patiently(&runtime).await);
            let (object, until) = (name("a"), soon(&runtime));
            disk.fail_next(DiskOperation::SyncDir, ROOT, 2);
            let first = one.create(&object, Bytes::from_static(b"one"), until).await;
            assert!(matches!(first, Err(BucketError::Failed(_))), "{first:?}");
            let create = || other.create(&object, Bytes::from_static(b"other"), until);
            let second = create().await;
            assert!(matches!(second, Err(BucketError::Failed(_))), "{second:?}");
            let third = create().await;
            assert!(matches!(third, Err(BucketError::Exists(_))), "{third:?}");
        });
        simulation.disk().power_loss();
        let objects: Vec<Bytes> = objects_of(simulation.disk()).into_values().collect();
        assert_eq!(objects, [Bytes::from_static(b"one")]);
    }
}

#[test]
fn listings_have_the_order_of_whole_names() {
    for seed in seeds(2) {
        let _guard = SeedGuard(seed);
        let simulation = Simulation::new(seed);
        let (disk, mut rng) = (simulation.disk().clone(), Rng::new(seed));
        let mut names = BTreeSet::new();
        for _ in 0..1_000 {
            // The characters before and behind the slash.
            let parts = (0..rng.between(1, 3)).map(|_| {
                let part: String =
                    (0..rng.between(1, 2)).map(|_| *rng.pick(&['-', '=', '0', 'a'])).collect();
                part
            });
            let object = name(&parts.collect::<Vec<_>>().join("/"));
            // An object is no folder.
            let is_below = |above: &ObjectName, below: &ObjectName| {
                below.as_str().starts_with(&format!("{above}/"))
            };
            if !names.iter().any(|other| is_below(other, &object) || is_below(&object, other)) {
                names.insert(object);
            }
        }
        names.extend((0..20_500).map(|number| name(&format!("many/{number:05}"))));
        names.iter().for_each(|name| disk.write(path(name), &[1; 3]));
        for foreign in ["lost+found/file", "a b", "many/~"] {
            disk.write(Path::new(ROOT).join(foreign), b"not ours");
        }
        let folders = ["", "a", "a/a", "many", "none", "0-"];
        let folders = folders.map(|text| Folder::new(text).unwrap_or(Folder::ALL));
        let afters: Vec<ObjectName> =
            names.iter().filter(|_| rng.one_in(500)).cloned().chain([name("many")]).collect();
        let model = names.clone();
        simulation.block_on(|runtime| async move {
            let store = Store::new(runtime.clone(), Box::new(open_patiently(&runtime).await));
            for folder in &folders {
                for after in afters.iter().map(Some).chain([None]) {
                    let until = soon(&runtime);
                    let listed = store.list(folder, after, until).await.expect("a listing");
                    let told: Vec<_> = listed.iter().map(|info| &info.name).collect();
                    let is_behind = |name: &ObjectName| after.is_none_or(|after| name > after);
                    let expected = model.iter().filter(|name| folder.has(name) && is_behind(name));
                    assert_eq!(told, expected.collect::<Vec<_>>(), "{folder:?} {after:?}");
                    assert!(listed.iter().all(|info| info.len_bytes == 3));
                }
            }
            let page = store.list_page(&Folder::ALL, None, soon(&runtime)).await.expect("a page");
            assert!(page.has_more && page.objects.len() == 10_000, "{}", page.objects.len());
            let last = name("many/19999");
            let page = store.list_page(&Folder::ALL, Some(&last), soon(&runtime)).await;
            assert!(page.is_ok_and(|page| !page.has_more && page.objects.len() == 500));
        });
        // Folders before the name are not read.
        disk.fail_next(DiskOperation::ReadDir, Path::new(ROOT).join("a"), u64::MAX);
        disk.fail_next(DiskOperation::ReadDir, Path::new(ROOT).join("0-"), u64::MAX);
        let behind = simulation.block_on(|runtime| async move {
            let store = Store::new(runtime.clone(), Box::new(open_patiently(&runtime).await));
            store.list(&Folder::ALL, Some(&name("b")), soon(&runtime)).await
        });
        assert_eq!(behind.expect("a listing").len(), 20_500);
    }
}

#[test]
fn objects_and_folders_do_not_share_names() {
    Simulation::new(1).block_on(|runtime| async move {
        let bucket = open_patiently(&runtime).await;
        let (until, body) = (soon(&runtime), Bytes::from_static(b"x"));
        let is_refused =
            |result: Result<(), BucketError>| matches!(result, Err(BucketError::Refused(_)));
        bucket.create(&name("a"), body.clone(), until).await.expect("it is free");
        bucket.create(&name("b/c/d"), body.clone(), until).await.expect("it is free");
        for taken in ["a/b", "a/b/c", "b", "b/c"] {
            let created = bucket.create(&name(taken), body.clone(), until).await;
            assert!(is_refused(created), "{taken}");
            let (whole, range) = (Span::Whole { max_bytes: 0 }, Span::Range(0..9));
            for span in [whole, range] {
                let read = bucket.read(&name(taken), span, until).await;
                assert_eq!(read, Err(BucketError::NotFound), "{taken}");
            }
            assert_eq!(bucket.info(&name(taken), until).await, Err(BucketError::NotFound));
            bucket.remove(&name(taken), until).await.expect("no such object");
        }
        let all = bucket.list(&Folder::ALL, None, until).await.expect("a listing").objects;
        assert_eq!(all.len(), 2);
        let in_object = Folder::new("a").expect("a folder");
        let none = bucket.list(&in_object, None, until).await.expect("a listing").objects;
        assert_eq!(none, []);
    });
}

#[test]
fn uploads_want_all_their_parts() {
    let simulation = Simulation::new(2);
    let disk = simulation.disk().clone();
    simulation.block_on(|runtime| async move {
        let bucket = open_patiently(&runtime).await;
        let (object, until) = (name("seg/1"), soon(&runtime));
        let upload = bucket.begin(&object, until).await.expect("it begins");
        let part = async |number, len: usize| {
            bucket
                .put_part(
                    &object,
                    &upload,
                    PartPlace::of(number, PART_BYTES as u64),
                    vec![number as u8; len].into(),
                    until,
                )
                .await
        };
        // In any order, and twice.
        let last = part(1, 9).await.expect("a part");
        let first = part(0, PART_BYTES).await.expect("a part");
        assert_eq!(part(1, 9).await.as_ref(), Ok(&last));
        let complete = async |parts: &[&PartId]| {
            let parts = parts.iter().map(|part| (*part).clone()).collect();
            bucket.complete(&object, &upload, parts, until).await
        };
        for wrong in [&[&last][..], &[&last, &first], &[&first, &first]] {
            let refused = complete(wrong).await;
            assert!(matches!(refused, Err(BucketError::Refused(_))), "{refused:?}");
        }
        assert_eq!(bucket.info(&object, until).await, Err(BucketError::NotFound));
        let begun_ns = runtime.unix_nanos();
        complete(&[&first, &last]).await.expect("complete");
        let info = bucket.info(&object, until).await.expect("it is there");
        assert_eq!(info.len_bytes, PART_BYTES as u64 + 9);
        assert!(info.created_ns >= begun_ns, "its age counts from its end");
        assert_eq!(complete(&[&first, &last]).await, Err(BucketError::NotFound));
        for text in ["", "../../seg/1", "0123456789abcdef0123456789abcdef"] {
            let unknown = UploadId(text.to_owned());
            let put =
                bucket.put_part(&object, &unknown, PartPlace::of(0, 0), Bytes::new(), until).await;
            assert_eq!(put, Err(BucketError::NotFound), "{text}");
            bucket.abort(&object, &unknown, until).await.expect("no such upload");
        }
        // What a failed sync has lost is not found out by a later one.
        let spoiled = bucket.begin(&object, until).await.expect("it begins");
        disk.fail_next(DiskOperation::Sync, ROOT, 1);
        disk.fail_next(DiskOperation::Remove, ROOT, 1);
        let body = Bytes::from_static(b"x");
        let put =
            bucket.put_part(&object, &spoiled, PartPlace::of(0, 0), body.clone(), until).await;
        assert!(matches!(put, Err(BucketError::Failed(_))), "{put:?}");
        let put = bucket.put_part(&object, &spoiled, PartPlace::of(0, 0), body, until).await;
        assert_eq!(put, Err(BucketError::NotFound));
        bucket.abort(&object, &spoiled, until).await.expect("given up");
        let second = bucket.begin(&object, until).await.expect("it begins");
        let none = bucket.complete(&object, &second, Vec::new(), until).await;
        assert!(matches!(none, Err(BucketError::Exists(_))), "{none:?}");
    });
    assert_eq!(left_overs(simulation.disk()), 0);
}

#[test]
fn requests_go_on_behind_their_deadlines() {
    let simulation = Simulation::new(3);
    let late = simulation.block_on(|runtime| async move {
        let bucket = open_patiently(&runtime).await;
        let until = runtime.now().after(Duration::from_micros(100));
        let late = bucket.create(&name("a/b"), Bytes::from_static(b"x"), until).await;
        runtime.sleep_until(soon(&runtime)).await;
        late
    });
    assert!(matches!(late, Err(BucketError::Failed(_))), "{late:?}");
    simulation.disk().power_loss();
    assert_eq!(objects_of(simulation.disk()).len(), 1);
}

#[test]
fn folders_that_cannot_be_buckets_say_why() {
    let open = |simulation: &Simulation| {
        let opened = simulation
            .block_on(|runtime| async move { FolderBucket::open(runtime, Path::new(ROOT)).await });
        opened.err().map(|error| error.to_string())
    };
    let reasons = [
        (DiskOperation::CreateDir, "it cannot be made"),
        (DiskOperation::SyncDir, "it cannot be synced"),
        (DiskOperation::Open, "it cannot be written"),
        (DiskOperation::Rename, "its file system makes no hard links"),
        (DiskOperation::ReadDir, "it cannot be listed"),
    ];
    let simulation = Simulation::new(4);
    for (operation, reason) in reasons {
        simulation.disk().fail_next(operation, ROOT, 1);
        let error = open(&simulation).expect("the disk fails");
        assert!(error.starts_with(&format!("{ROOT} cannot be a bucket: {reason}: ")), "{error}");
        assert_eq!(left_overs(simulation.disk()), 0);
    }
    assert_eq!(open(&simulation), None);
    let simulation = Simulation::new(5);
    simulation.disk().write(ROOT, b"a file");
    assert!(open(&simulation).is_some());
}

#[test]
fn a_folder_that_is_away_is_not_an_empty_one() {
    Simulation::new(6).block_on(|runtime| async move {
        let bucket = open_patiently(&runtime).await;
        let (until, object) = (soon(&runtime), name("a"));
        assert_eq!(bucket.info(&object, until).await, Err(BucketError::NotFound));
        // As when a file system is not mounted any more.
        runtime.remove_dir(&Path::new(ROOT).join(".tmp~")).await.expect("it is empty");
        runtime.remove_dir(Path::new(ROOT)).await.expect("it is empty");
        let span = Span::Range(0..1);
        let failed = [
            bucket.info(&object, until).await.err(),
            bucket.read(&object, span, until).await.err(),
            bucket.list(&Folder::ALL, None, until).await.err(),
            bucket.remove(&object, until).await.err(),
            bucket.create(&object, Bytes::from_static(b"x"), until).await.err(),
        ];
        for error in failed {
            assert!(matches!(error, Some(BucketError::Failed(_))), "{error:?}");
        }
    });
}

#[test]
fn young_left_overs_stay() {
    let simulation = Simulation::new(7);
    let disk: Disk = simulation.disk().clone();
    disk.write(Path::new(ROOT).join(".tmp~/0123"), b"an upload that is under way");
    let open = || {
        simulation.block_on(|runtime| async move {
            drop(open_patiently(&runtime).await);
            runtime.unix_nanos()
        })
    };
    let unix_ns = open();
    assert_eq!(left_overs(&disk), 1);
    simulation.set_unix_nanos(unix_ns + 25 * 3_600_000_000_000);
    open();
    assert_eq!(left_overs(&disk), 0);
}
