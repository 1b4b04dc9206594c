//! `check`, `inspect` and `backup` where a bucket is the store.

use super::*;
use crate::support::{logsvc, text};

impl Place {
    /// Runs a tool on the bucket alone.
    fn tool(&self, args: &[&str]) -> (i32, String) {
        logsvc(&[args, &["--bucket", &self.bucket_flag("bucket")]].concat())
    }

    /// Checks a data folder and what of it is in the bucket.
    fn check_both(&self, data: &str) -> (i32, String) {
        let folder = self.folder(data);
        logsvc(&["check", "--data-dir", text(&folder), &self.bucket_flag("bucket")])
    }

    #[track_caller]
    fn insist_tool(&self, args: &[&str], code: i32, says: &[&str]) -> String {
        let (found, said) = self.tool(args);
        assert_eq!(found, code, "{said}");
        for text in says {
            assert!(said.contains(text), "{text} is not in\n{said}");
        }
        said
    }

    /// The names of objects that begin so.
    fn objects(&self, beginning: &str) -> Vec<String> {
        let root = self.folder("bucket");
        let mut found = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if let Ok(name) = path.strip_prefix(&root) {
                    found.push(text(name).to_owned());
                }
            }
        }
        found.retain(|name| name.starts_with(beginning));
        found.sort();
        found
    }

    fn flip(&self, object: &str, offset: usize) {
        flip(&self.folder("bucket").join(object), offset);
    }
}

fn flip(path: &Path, offset: usize) {
    let mut bytes = std::fs::read(path).expect("it is there");
    bytes[offset] ^= 0x10;
    std::fs::write(path, bytes).expect("it can be written");
}

const CHECK: &[&str] = &["check"];
const HEALTHY: &str = "nothing is damaged";

#[test]
fn a_bucket_is_checked_printed_and_searched_beside_its_server() {
    let place = Place::new();
    let base = base_ns();
    let server = place.start("data", &["--wal.durability=store"]);
    push(&mut server.client(), "a", base, 0..500);
    flush(&server);
    push(&mut server.client(), "b", base, 0..10);
    let data = place.folder("data");
    let (code, said) = logsvc(&["check", "--data-dir", text(&data)]);
    assert!(code == 2 && said.contains("in use") && said.contains("--bucket"), "{code}: {said}");
    let said = place.insist_tool(CHECK, 0, &[HEALTHY, "and 500 entries; ", "and 10 entries; "]);
    assert!(said.contains("checked in the bucket"), "{said}");
    let said = place.insist_tool(&["inspect"], 0, &["cluster ", "partitions 64", "  log ", "day "]);
    assert!(said.contains("  needs      wal/00000000 from"), "{said}");
    assert!(said.contains("500 entries and"), "{said}");

    for segment in place.objects("seg/") {
        let name = segment.rsplit('/').next().expect("a name");
        let says = [name, "  live       yes", "  footer     as in the log", "writer=\"a\""];
        place.insist_tool(&["inspect", &segment], 0, &says);
    }
    let edits = place.objects("log/");
    let said: String =
        edits.iter().map(|edit| place.insist_tool(&["inspect", edit], 0, &["payload"])).collect();
    assert!(said.contains("sum of all") && said.contains("adds seg/"), "{said}");
    let log = place.objects("wal/");
    place.insist_tool(&["inspect", log.last().expect("a log")], 0, &["piece ", " log files"]);
    place.insist_tool(&["inspect", "writers/00000000"], 0, &["writer logsvc "]);
    place.insist_tool(&["inspect", "cluster"], 0, &["object cluster"]);
    place.insist_tool(&["inspect", "seg/none"], 2, &["no such object"]);

    let find = |text: &str, code, says: &[&str]| {
        place.insist_tool(&["inspect", "--find", text], code, says)
    };
    find("a 499", 1, &["seg/", "1 in lines", "found: "]);
    find("b 9", 1, &["wal/", "in bytes"]);
    find("no line has this", 0, &["in no other file or object"]);
    let (code, said) = logsvc(&["inspect", "--find", "x", "--bucket"]);
    assert!(code == 2 && said.contains("no bucket is named"), "{code}: {said}");

    // The server has noticed nothing of all that.
    push(&mut server.client(), "b", base, 10..20);
    flush(&server);
    insist(&server, "b", base, 20);
    place.insist_tool(CHECK, 0, &[HEALTHY, "and 520 entries; "]);
    server.stop();
    place.insist_tool(CHECK, 0, &[HEALTHY]);
}

#[test]
fn damage_in_a_bucket_is_named() {
    let place = Place::new();
    let base = base_ns();
    let server = place.start("data", &["--wal.durability=store"]);
    push(&mut server.client(), "a", base, 0..500);
    flush(&server);
    push(&mut server.client(), "b", base, 0..10);
    server.kill();
    place.insist_tool(CHECK, 0, &[HEALTHY]);
    let bucket = place.folder("bucket");
    let damaged = |object: &str, says: &str| {
        let place = format!("DAMAGE: file://{}/{object} at byte ", bucket.display());
        (place, says.to_owned())
    };
    let insist_damage = |object: &str, says: &str| {
        let (at, says) = damaged(object, says);
        place.insist_tool(CHECK, 1, &[&at, &says, "damaged places: "]);
    };
    let flipped = |object: &str, offset: usize| {
        place.flip(object, offset);
        insist_damage(object, "");
        place.flip(object, offset);
        place.insist_tool(CHECK, 0, &[HEALTHY]);
    };
    let segment = place.objects("seg/").pop().expect("a segment");
    let len = std::fs::metadata(bucket.join(&segment)).expect("it is there").len() as usize;
    for offset in [0, 100, len / 2, len - 100] {
        flipped(&segment, offset);
    }
    flipped(&place.objects("log/").pop().expect("a log"), 70);
    flipped("cluster", 70);
    let log = place.objects("wal/");
    flipped(log.last().expect("a log"), 40);
    let whole = std::fs::read(bucket.join(&segment)).expect("it is there");
    std::fs::write(bucket.join(&segment), &whole[..len - 1]).expect("it can be written");
    insist_damage(&segment, &format!("{} bytes instead of {len}", len - 1));
    std::fs::remove_file(bucket.join(&segment)).expect("it is there");
    insist_damage(&segment, "the object is missing");
    std::fs::write(bucket.join(&segment), &whole).expect("it can be written");
    let first = place.objects("log/").into_iter().next().expect("a log");
    let moved = std::fs::read(bucket.join(&first)).expect("it is there");
    std::fs::remove_file(bucket.join(&first)).expect("it is there");
    insist_damage(&first, "the entry is missing");
    std::fs::write(bucket.join(&first), &moved).expect("it can be written");

    // What nothing names is worth a word.
    std::fs::write(bucket.join("garbage"), "12345").expect("it can be written");
    let other = segment.replace(".seg", "").rsplit_once('-').expect("numbers").0.to_owned();
    std::fs::write(bucket.join(format!("{other}-00ffffff.seg")), "x").expect("it can be written");
    place.insist_tool(
        CHECK,
        0,
        &[
            "1 objects with 5 bytes that are none of this store",
            "the first is garbage",
            "1 objects with 1 bytes that nothing names",
            HEALTHY,
        ],
    );
    place.insist_tool(&["inspect"], 0, &["none of this store", "are named by nothing"]);
}

#[test]
fn a_place_without_a_store_is_told_and_left_alone() {
    let place = Place::new();
    let none = place.bucket_flag("none");
    for tool in [&["check", "--bucket", &none][..], &["inspect", "--bucket", &none]] {
        let (code, said) = logsvc(tool);
        assert!(code == 2 && said.contains("cannot use the bucket"), "{code}: {said}");
        assert!(!place.folder("none").exists());
    }
    std::fs::create_dir(place.folder("none")).expect("it can be made");
    let (code, said) = logsvc(&["check", "--bucket", &none]);
    assert!(code == 2 && said.contains("there is no store of logsvc in"), "{code}: {said}");
    let (code, said) = logsvc(&["inspect", "--bucket", &none]);
    assert!(code == 2 && said.contains("there is no store of logsvc in"), "{code}: {said}");
    let (code, said) = logsvc(&["check", "--bucket"]);
    assert!(code == 2 && said.contains("no bucket is named"), "{code}: {said}");
    let (code, said) = logsvc(&["check", "--bucket", "--storage.bucket=x://y"]);
    assert!(code == 2 && said.contains("storage.bucket"), "{code}: {said}");
}

#[test]
fn a_folder_is_checked_with_its_bucket() {
    let place = Place::new();
    let base = base_ns();
    let server = place.start("data", &["--storage.cache-max-bytes=1"]);
    push(&mut server.client(), "a", base, 0..500);
    flush(&server);
    let data = place.folder("data");
    let deadline = Instant::now() + PATIENCE;
    while files(&data, ".seg") > 0 {
        assert!(Instant::now() < deadline, "segments stay");
        thread::sleep(Duration::from_millis(50));
    }
    let address = format!("http://{}", server.address());
    let (code, said) = logsvc(&["backup", "--server", &address, "--name", "x"]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("\"segments\":0") && !said.contains("\"missing_segments\":0"), "{said}");
    assert!(said.contains("is no copy of everything"), "{said}");
    server.stop();

    let (code, said) = logsvc(&["check", "--data-dir", text(&data)]);
    assert!(code == 0 && said.contains("in the bucket only and were not checked"), "{said}");
    assert!(said.contains("ends of segments on the local disk: "), "{said}");
    let (code, said) = place.check_both("data");
    assert!(code == 0 && said.contains("were checked in the bucket"), "{said}");
    assert!(said.contains("and 500 entries; ") && !said.contains("not checked"), "{said}");
    let file = place.folder("settings.yaml");
    let yaml = format!(
        "data_dir: {}\nstorage: {{bucket: 'file://{}'}}\n",
        data.display(),
        place.folder("bucket").display()
    );
    std::fs::write(&file, yaml).expect("it can be written");
    let (code, said) = logsvc(&["check", "--config.file", text(&file)]);
    assert!(code == 0 && said.contains("and 500 entries; "), "{said}");

    let segment = place.objects("seg/").pop().expect("a segment");
    place.flip(&segment, 100);
    let (code, said) = place.check_both("data");
    assert!(code == 1 && said.contains(&segment), "{said}");
    place.flip(&segment, 100);
    let tail = data
        .join("segments")
        .join(segment.strip_prefix("seg/").expect("a segment").replace(".seg", ".tail"));
    flip(&tail, 200);
    let (code, said) = place.check_both("data");
    assert!(code == 1 && said.contains(".tail at byte 0: "), "{said}");
    std::fs::remove_file(&tail).expect("it is there");
    assert_eq!(place.check_both("data").0, 0);

    // Another server has a bucket of its own.
    let other = place.bucket_flag("other");
    let mut server = Server::launch(&place.folder("data-2"), &["--cores", "1", &other]);
    assert!(server.await_ready().is_some(), "{}", server.log_text());
    server.stop();
    let (code, said) = logsvc(&["check", "--data-dir", text(&data), &other]);
    assert!(code == 2 && said.contains("is of another bucket or prefix than"), "{code}: {said}");
    let empty = place.bucket_flag("empty");
    std::fs::create_dir(place.folder("empty")).expect("it can be made");
    let (code, said) = logsvc(&["check", "--data-dir", text(&data), &empty]);
    assert!(code == 2 && said.contains("there is no store of logsvc in"), "{code}: {said}");
}
