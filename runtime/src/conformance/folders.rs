//! Names, folders, locks and space.

use std::io;
use std::path::{Path, PathBuf};

use super::in_millis;
use crate::{File, OpenMode, Runtime, temporary_path};

pub(super) async fn lists_sorted<R: Runtime>(runtime: R, dir: PathBuf) {
    for name in ["b", "a", "c.log", "B"] {
        let file = runtime.open(&dir.join(name), OpenMode::CreateNew).await.expect("a new file");
        file.write_all_at(vec![1; name.len()], 0).await.0.expect("write");
    }
    runtime.create_dir_all(&dir.join("folder/inner")).await.expect("folders");
    runtime.create_dir_all(&dir.join("folder/inner")).await.expect("existing folders are fine");
    let listed = runtime.read_dir(&dir).await.expect("list");
    let told: Vec<_> =
        listed.iter().map(|entry| (entry.name.as_str(), entry.is_dir, entry.len_bytes)).collect();
    let expected = [
        ("B", false, 1),
        ("a", false, 1),
        ("b", false, 1),
        ("c.log", false, 5),
        ("folder", true, 0),
    ];
    assert_eq!(told, expected);
    for entry in listed {
        assert_eq!(runtime.entry(&dir.join(&entry.name)).await.expect("it is there"), entry);
    }
    for missing in ["missing", "folder/missing"] {
        let error = runtime.entry(&dir.join(missing)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
    let error = runtime.read_dir(&dir.join("missing")).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    runtime.sync_dir(&dir).await.expect("sync");
}

pub(super) async fn rename_replaces<R: Runtime>(runtime: R, dir: PathBuf) {
    let (from, to) = (dir.join("from"), dir.join("to"));
    for (path, content) in [(&from, b"new"), (&to, b"old")] {
        runtime.replace_file(path, content.to_vec()).await.expect("write");
    }
    // A file that is open stays readable under its new name's former owner.
    let old = runtime.open(&to, OpenMode::Read).await.expect("open");
    runtime.rename(&from, &to).await.expect("rename");
    runtime.sync_dir(&dir).await.expect("sync");
    assert_eq!(runtime.read_file(&to, 100).await.expect("read"), b"new");
    let error = runtime.open(&from, OpenMode::Read).await.err().expect("it moved");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    let (result, buffer) = old.read_exact_at(Vec::new(), 0, 3).await;
    result.expect("read");
    assert_eq!(buffer, b"old");
    let error = runtime.rename(&from, &to).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

pub(super) async fn entries_tell_when_files_were_written<R: Runtime>(runtime: R, dir: PathBuf) {
    let (path, other, moved) = (dir.join("file"), dir.join("other"), dir.join("moved"));
    let age_ns =
        async |path: &Path| runtime.entry(path).await.map(|entry| entry.modified_ns).expect("told");
    let file = runtime.open(&path, OpenMode::CreateNew).await.expect("a new file");
    file.write_all_at(vec![1; 100], 0).await.0.expect("write");
    let first_ns = age_ns(&path).await;
    let off_ns = runtime.unix_nanos() - first_ns;
    // The clock of a file system goes in steps, and need not be that of this machine.
    assert!(off_ns.abs() < 60_000_000_000, "the file is {off_ns} ns old");
    runtime.sleep_until(in_millis(&runtime, 50)).await;
    file.write_all_at(vec![2; 100], 0).await.0.expect("write");
    let second_ns = age_ns(&path).await;
    assert!(second_ns > first_ns, "{second_ns} after {first_ns}");
    runtime.sleep_until(in_millis(&runtime, 50)).await;
    file.sync_data().await.expect("sync");
    let linked = runtime.hard_link(&path, &other).await;
    runtime.rename(&path, &moved).await.expect("rename");
    assert_eq!(age_ns(&moved).await, second_ns, "nothing was written");
    if linked.is_ok() {
        assert_eq!(age_ns(&other).await, second_ns, "nothing was written");
    }
    // To set the length counts, even to what it was.
    file.truncate(100).await.expect("as long as before");
    let third_ns = age_ns(&moved).await;
    assert!(third_ns > second_ns, "{third_ns} after {second_ns}");
}

pub(super) async fn links_and_empty_folders<R: Runtime>(runtime: R, dir: PathBuf) {
    let (one, other) = (dir.join("one"), dir.join("inner/other"));
    runtime.replace_file(&one, b"text".to_vec()).await.expect("write");
    runtime.create_dir_all(&dir.join("inner")).await.expect("a folder");
    match runtime.hard_link(&one, &other).await {
        Ok(()) => {
            let error = runtime.hard_link(&one, &other).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
            runtime.remove_file(&one).await.expect("remove");
            assert_eq!(runtime.read_file(&other, 100).await.expect("read"), b"text");
            let error = runtime.remove_dir(&dir.join("inner")).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
            runtime.remove_file(&other).await.expect("remove");
            let error = runtime.hard_link(&one, &other).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
        Err(error) => assert_eq!(error.kind(), io::ErrorKind::Unsupported),
    }
    runtime.remove_dir(&dir.join("inner")).await.expect("remove");
    let error = runtime.remove_dir(&dir.join("inner")).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    runtime.sync_dir(&dir).await.expect("sync");
}

pub(super) async fn remove_file_removes<R: Runtime>(runtime: R, dir: PathBuf) {
    let path = dir.join("file");
    runtime.replace_file(&path, b"x".to_vec()).await.expect("write");
    runtime.remove_file(&path).await.expect("remove");
    runtime.sync_dir(&dir).await.expect("sync");
    assert_eq!(runtime.read_dir(&dir).await.expect("list"), []);
    let error = runtime.remove_file(&path).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

pub(super) async fn replace_file_keeps_all_or_nothing<R: Runtime>(runtime: R, dir: PathBuf) {
    let path = dir.join("manifest");
    // A left-over of a crash is in the way of nothing.
    runtime.replace_file(&temporary_path(&path), b"left over".to_vec()).await.expect("write");
    for content in [b"first".to_vec(), b"2".to_vec(), Vec::new(), vec![7; 100_000]] {
        runtime.replace_file(&path, content.clone()).await.expect("replace");
        assert_eq!(runtime.read_file(&path, 100_000).await.expect("read"), content);
    }
    let names: Vec<String> =
        runtime.read_dir(&dir).await.expect("list").into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["manifest"]);
}

pub(super) async fn read_file_refuses_large_files<R: Runtime>(runtime: R, dir: PathBuf) {
    let path = dir.join("file");
    runtime.replace_file(&path, vec![1; 1000]).await.expect("write");
    assert_eq!(runtime.read_file(&path, 1000).await.expect("read").len(), 1000);
    let error = runtime.read_file(&path, 999).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
}

pub(super) async fn a_lock_excludes_a_second_one<R: Runtime>(runtime: R, dir: PathBuf) {
    let path = dir.join("lock");
    let lock = runtime.lock_file(&path).await.expect("the first lock");
    let error = runtime.lock_file(&path).await.err().expect("it is taken");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    drop(lock);
    // A ring closes the file with one of its next entries.
    let mut tries = 0;
    while let Err(error) = runtime.lock_file(&path).await {
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        tries += 1;
        assert!(tries < 1000, "the lock outlives its file");
        runtime.sleep_until(in_millis(&runtime, 1)).await;
    }
}

pub(super) async fn disk_space_adds_up<R: Runtime>(runtime: R, dir: PathBuf) {
    let space = runtime.disk_space(&dir).await.expect("space");
    assert!(space.total_bytes > 0);
    assert!(space.available_bytes <= space.total_bytes);
    assert!(runtime.disk_space(&dir.join("missing")).await.is_err());
}
