//! `logsvc check` and `logsvc inspect`, over the files of a stopped server.

use std::path::{Path, PathBuf};

use crate::support::{DataDir, Server, entry, logsvc, now_ns, stream, text};

/// Runs a tool; returns the exit code and the output.
fn tool(args: &[&str], path: &Path) -> (i32, String) {
    logsvc(&[args, &[text(path)]].concat())
}

fn check(data_dir: &Path) -> (i32, String) {
    tool(&["check", "--data-dir"], data_dir)
}

fn push(server: &Server) {
    let start_ns = now_ns() - 1_000_000;
    for app in ["one", "two"] {
        let line = |number: i64| entry(start_ns + number, format!("line {number} of {app}"));
        let metadata = |number| line(number).with_metadata(&[("trace_id", "0af7")]);
        let entries = (0..50).map(metadata).collect();
        server.client().push(&[stream(&[("app", app)], entries)]);
    }
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.extension().is_some_and(|have| have == ending) {
            found.push(path);
        }
    }
    found
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = std::fs::read(path).expect("it is there");
    bytes[offset] ^= 0x10;
    std::fs::write(path, bytes).expect("it can be written");
}

#[test]
fn a_log_is_checked() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    push(&server);
    let (code, said) = check(folder.path());
    assert!(code == 2 && said.contains("in use"), "{code}: {said}");
    server.kill();

    let (code, said) = check(folder.path());
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("and 100 entries; "), "{said}");
    assert!(said.contains("nothing is damaged"), "{said}");

    let log = files(folder.path(), "wal").pop().expect("a log file");
    flip(&log, 20);
    let (code, said) = check(folder.path());
    assert_eq!(code, 1, "{said}");
    let expected = format!("DAMAGE: {} at byte 0: the file's header", log.display());
    assert!(said.contains(&expected), "{said}");
    assert!(said.contains("damaged places: 1\n"), "{said}");
}

#[test]
fn segments_are_checked_and_printed() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    push(&server);
    server.stop();

    let segments = files(folder.path(), "seg");
    assert!(!segments.is_empty(), "a stop seals");
    let (code, said) = check(folder.path());
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("nothing is damaged"), "{said}");
    assert!(said.contains("100 entries; 0 log files"), "{said}");

    for segment in &segments {
        let (code, said) = tool(&["inspect"], segment);
        assert_eq!(code, 0, "{said}");
        let name = segment.file_name().expect("a name").to_str().expect("text");
        for text in [
            name,
            "  live       yes",
            "  footer     as in the manifest",
            "block 0: ",
            "timestamps",
            "app=\"one\"",
            "app=\"two\"",
        ] {
            assert!(said.contains(text), "{text} is not in\n{said}");
        }
    }

    let segment = &segments[0];
    flip(segment, 100);
    let (code, said) = check(folder.path());
    assert_eq!(code, 1, "{said}");
    assert!(said.contains(&format!("DAMAGE: {} at byte ", segment.display())), "{said}");
    // Other tests cover a start with a damaged segment. The flip back makes the segment whole.
    flip(segment, 100);
    assert_eq!(check(folder.path()).0, 0);
    std::fs::remove_file(segment).expect("it is there");
    let (code, said) = check(folder.path());
    assert!(code == 1 && said.contains("is missing"), "{code}: {said}");
}

#[test]
fn a_text_is_found_in_the_files_that_hold_it() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    push(&server);
    let find = |text: &str| tool(&["inspect", "--find", text], folder.path());
    let (code, said) = find("app");
    assert!(code == 1 && said.contains(".wal: "), "beside the server: {code}: {said}");
    let (code, said) = find("no line has this");
    assert!(code == 0 && said.contains("in no other file"), "{code}: {said}");
    server.stop();
    let (code, said) = find("app");
    assert!(code == 1 && said.contains(" in labels"), "{code}: {said}");
    let segment = files(folder.path(), "seg").pop().expect("a stop seals");
    flip(&segment, 100);
    let (code, said) = find("no line has this");
    assert!(code == 2 && said.contains("cannot be decoded"), "{code}: {said}");
    let (code, said) = tool(&["inspect", "--find", "x"], &folder.path().join("none"));
    assert_eq!(code, 2, "{said}");
    let (code, said) = find("");
    assert_eq!(code, 2, "{said}");
}

#[test]
fn what_is_no_store_and_no_segment_is_refused() {
    let folder = DataDir::new();
    let (code, said) = check(folder.path());
    assert!(code == 2 && said.contains("FORMAT"), "{code}: {said}");
    assert!(!folder.path().join("LOCK").exists(), "nothing is made in a foreign folder");
    let file = folder.path().join("notes.txt");
    for content in [&b""[..], &[b'x'; 5000]] {
        std::fs::write(&file, content).expect("it can be written");
        let (code, said) = tool(&["inspect"], &file);
        assert!(code == 1 && said.contains("is this a segment?"), "{code}: {said}");
    }
    let (code, _) = tool(&["inspect"], &folder.path().join("none.seg"));
    assert_eq!(code, 1);
}
