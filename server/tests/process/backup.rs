//! Backups of a running server, and what becomes of them elsewhere.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::support::{
    Client, DataDir, Reply, Server, entry, logsvc, now_ns, page, query, stream, text,
};

const BACKUP: &str = "/loki/api/v1/backup";

fn restore(from: &str, to: &Path) -> (i32, String) {
    logsvc(&["restore", "--from", from, "--data-dir", text(to)])
}

fn ask(client: &mut Client, method: &str, target: &str) -> Reply {
    client.request(method, target, &[], (method != "GET").then_some(b""))
}

/// The lines that were pushed to an app, by their numbers.
fn numbers(client: &mut Client, app: u64, start_ns: i64) -> Vec<u64> {
    let selector = format!("{{app=\"{app}\"}}");
    let lines = query::all_lines(client, &selector, start_ns, now_ns() + 1);
    let number = |line: &(i64, String)| line.1.split(' ').nth(1).and_then(|n| n.parse().ok());
    lines.iter().map(|line| number(line).expect("a number")).collect()
}

#[test]
fn a_backup_under_load_has_every_line_once() {
    const WRITERS: u64 = 3;
    let folder = DataDir::new();
    let start_ns = now_ns();
    // Heads are so small that segments are written and merged all the time.
    let server = Server::start(
        &folder.path().join("data"),
        &["--cores", "2", "--storage.head-max-bytes", "8KB", "--wal.file-max-bytes", "1MB"],
    );
    let acknowledged: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    let is_over = AtomicBool::new(false);
    let mut backups = Vec::new();
    thread::scope(|scope| {
        for app in 0..WRITERS {
            let (server, is_over, acknowledged) = (&server, &is_over, &acknowledged);
            scope.spawn(move || {
                let (mut client, name) = (server.client(), app.to_string());
                let mut next = 0;
                while !is_over.load(Ordering::Acquire) {
                    let filler = "x".repeat(100);
                    let line = |number| entry(now_ns(), format!("line {number} {filler}"));
                    let entries = (next..next + 20).map(line).collect();
                    client.push(&[stream(&[("app", &name)], entries)]);
                    next += 20;
                    acknowledged[app as usize].store(next, Ordering::Release);
                }
            });
        }
        let mut client = server.client();
        let mut least = 2000;
        for _ in 0..4 {
            while acknowledged.iter().any(|count| count.load(Ordering::Acquire) < least) {
                thread::yield_now();
            }
            least += 1000;
            let before: Vec<u64> =
                acknowledged.iter().map(|count| count.load(Ordering::Acquire)).collect();
            let name = format!("n{least}");
            let made = ask(&mut client, "POST", &format!("{BACKUP}?name={name}")).json();
            assert_eq!(made["missing_segments"], 0, "{made}");
            backups.push((made["folder"].as_str().expect("a folder").to_owned(), before));
        }
        is_over.store(true, Ordering::Release);
    });
    assert!(server.metric("logsvc_segments") > 0.0);
    let listed = ask(&mut server.client(), "GET", BACKUP).json();
    assert_eq!(listed["backups"].as_array().map(Vec::len), Some(4), "{listed}");
    server.kill();
    // What the server does later means nothing to its backups.
    for (place, (backup, before)) in backups.iter().enumerate() {
        let to = folder.path().join(format!("restored-{place}"));
        let (code, said) = restore(backup, &to);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("restored ") && said.contains("nothing is damaged"), "{said}");
        let restored = Server::start(&to, &["--cores", "1"]);
        for app in 0..WRITERS {
            let found = numbers(&mut restored.client(), app, start_ns);
            let count = found.len() as u64;
            assert!(count >= before[app as usize], "{backup}: {count} of {before:?} of {app}");
            // In the order of their times: each of them once, and none is missing between.
            assert!(found.iter().copied().eq(0..count), "{backup}: {app}: {found:?}");
        }
        restored.stop();
    }
}

#[test]
fn deleted_entries_stay_away_and_backups_outlive_their_segments() {
    let folder = DataDir::new();
    let start_ns = now_ns();
    let data = folder.path().join("data");
    let server = Server::start(
        &data,
        &[
            "--cores",
            "1",
            "--compactor.retention-enabled=true",
            "--limits.deletion-mode=filter-only",
        ],
    );
    let mut client = server.client();
    for (app, count) in [("0", 10), ("1", 7)] {
        let entries = (0..count).map(|n| entry(now_ns(), format!("line {n}"))).collect();
        client.push(&[stream(&[("app", app)], entries)]);
    }
    let seconds = start_ns / 1_000_000_000 - 1;
    let delete = format!("/loki/api/v1/delete?query=%7Bapp%3D%221%22%7D&start={seconds}");
    ask(&mut client, "POST", &delete).expect(204);

    let (code, said) =
        logsvc(&["backup", "--server", &format!("http://{}", server.address()), "--name", "one"]);
    assert_eq!(code, 0, "{said}");
    let made: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(made["name"], "one", "{made}");
    assert_eq!(made["entries"], 17, "{made}");
    let backup = made["folder"].as_str().expect("a folder").to_owned();
    server.stop();
    // The links of the backup keep the bytes of segments that the node has no more.
    std::fs::remove_dir_all(data.join("segments")).expect("it is there");
    let to = folder.path().join("restored");
    let (code, said) = restore(&backup, &to);
    assert!(code == 0 && said.contains("1 delete requests are pending"), "{code}: {said}");
    let restored = Server::start(
        &to,
        &[
            "--cores",
            "2",
            "--compactor.retention-enabled=true",
            "--limits.deletion-mode=filter-only",
        ],
    );
    let mut client = restored.client();
    assert_eq!(numbers(&mut client, 0, start_ns), (0..10).collect::<Vec<_>>());
    assert_eq!(numbers(&mut client, 1, start_ns), [0; 0]);
}

#[test]
fn mistakes_are_told() {
    let folder = DataDir::new();
    let data = folder.path().join("data");
    let server = Server::start(&data, &["--cores", "1"]);
    let mut client = server.client();
    client.push(&[stream(&[("app", "0")], vec![entry(now_ns(), "line 0")])]);
    let mut answers = |method: &str, target: &str, status: u16, part: &str| {
        let said = ask(&mut client, method, &format!("{BACKUP}{target}")).expect(status);
        assert!(said.contains(part), "{method} {target}: {said}");
    };
    answers("POST", "?name=..%2Fx", 400, "the name of a backup has");
    answers("POST", "?name=one", 200, "\"name\":\"one\"");
    answers("POST", "?name=one", 409, "there is a backup named");
    answers("DELETE", "", 400, "the parameter name is missing");
    answers("DELETE", "?name=other", 404, "there is no backup named");
    answers("DELETE", "?name=.hidden", 400, "the name of a backup has");
    let backup = data.join("backups/one");

    let url = format!("http://{}", server.address());
    for (args, code, part) in [
        (&["backup", "--server", &url, "--name", "one"][..], 1, "answers 409"),
        (&["backup", "--server", "https://localhost:1"], 1, "https:// is not supported"),
        (&["backup", "--server", "http://127.0.0.1:1"], 1, "refused"),
        (&["restore", "--from", text(&data), "--data-dir", "/nowhere/x"], 2, "is in use"),
        (
            &["restore", "--from", text(folder.path()), "--data-dir", "/nowhere/x"],
            2,
            "is no complete",
        ),
        (&["restore", "--from", text(&backup), "--data-dir", text(&data)], 2, "is not empty"),
    ] {
        let (found, said) = logsvc(args);
        assert!(found == code && said.contains(part), "{args:?}: {found}: {said}");
    }
    let inside = backup.join("inside");
    let (code, said) = restore(text(&backup), &inside);
    assert!(code == 2 && said.contains("is inside of the backup"), "{code}: {said}");

    // A backup that was cut short is none, and the next one removes it.
    std::fs::remove_file(backup.join("FORMAT")).expect("it is there");
    answers("GET", "", 200, "{\"backups\":[]}");
    answers("POST", "?name=two", 200, "\"segments\":1");
    assert!(!backup.exists());
    answers("DELETE", "?name=two", 204, "");
    assert!(!data.join("backups/two").exists());
    let mut client = server.client();
    assert_eq!(numbers(&mut client, 0, now_ns() - 60_000_000_000), [0]);
}

#[test]
fn the_commands_of_the_page_about_data_do_what_it_says() {
    let folder = DataDir::new();
    let path_of = |name: &str| folder.path().join(name);
    let server = Server::start(&path_of("data"), &["--cores", "2"]);
    server.client().push(&[stream(&[("app", "0")], vec![entry(now_ns(), "line 0")])]);
    std::fs::create_dir(path_of("elsewhere")).expect("a folder");
    let (data, elsewhere) = (path_of("data"), path_of("elsewhere"));
    let replaced = [
        ("http://127.0.0.1:3100", &*format!("http://{}", server.address())),
        ("/var/lib/logsvc", text(&data)),
        ("/mnt/elsewhere", text(&elsewhere)),
    ];
    page::run("data.md", folder.path(), &replaced, 8);
    let exported = std::fs::read_to_string(elsewhere.join("all.ndjson")).expect("a file");
    assert!(exported.contains("line 0") && exported.contains("\"entries\":1"), "{exported}");
    let restored = Server::start(&path_of("data-restored"), &["--cores", "1"]);
    assert_eq!(numbers(&mut restored.client(), 0, now_ns() - 60_000_000_000), [0]);
}
