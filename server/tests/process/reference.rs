//! Pages with examples, executed: every request in `docs/api.md` and in the introduction to LogQL is
//! sent to a real server, and the server's answer must equal the documented answer.
//!
//! The notation is explained in the reference, under *How to read the examples*. All examples are tried before the test fails, and each that differs is
//! printed with the answer that came.

mod compare;
mod document;

use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

use crate::queue::{await_metric, fill, quick, send, send_form, slow};
use crate::support::websocket::{Frame, WebSocket};
use crate::support::{Client, DataDir, Reply, SECOND_NS, Server, now_ns, query};
use compare::{Clock, differs};
use document::{Answer, Example, Step};

/// How much of an answer is shown when it differs.
const SHOWN_CHARS: usize = 3000;

/// A running server and its data.
struct Setting {
    server: Server,
    /// Clients whose queries take all places and fill the queue.
    busy: Vec<TcpStream>,
    /// Removed after the server has been killed.
    _folder: DataDir,
}

impl Setting {
    fn new(flags: &[String], files: &[(String, String)]) -> Setting {
        let folder = DataDir::new();
        let mut flags = flags.to_vec();
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("the folder can be written");
            for flag in &mut flags {
                *flag = flag.replace(&format!("={name}"), &format!("={}", path.display()));
            }
        }
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let data = folder.path().join("data");
        let server = Server::start(&data, &[&["--cores", "2"], &flags[..]].concat());
        Setting { server, busy: Vec::new(), _folder: folder }
    }

    /// Fills the queue of a server that runs one query and lets one wait.
    fn occupy(&mut self) {
        let now_ns = now_ns();
        fill(&mut self.server.client(), "any", now_ns);
        let form = slow("first", now_ns);
        self.busy.push(send_form(&self.server, "/loki/api/v1/query", &form, "any"));
        await_metric(&self.server, "logsvc_queries_running{work=\"query\"}", 1.0);
        self.busy.push(send(&self.server, &quick("second", now_ns), "any"));
        await_metric(&self.server, "logsvc_queries_waiting{work=\"query\"}", 1.0);
    }
}

#[test]
fn every_example_of_the_reference_is_true() {
    let count = execute("docs/api.md");
    assert!(count >= 60, "only {count} examples were found");
}

#[test]
fn every_example_of_the_introduction_to_logql_is_true() {
    let count = execute("docs/learn-logql.md");
    assert!(count >= 15, "only {count} examples were found");
}

/// Sends all requests of a page, and insists on the answers. Tells how many there are.
fn execute(page: &str) -> usize {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page);
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let steps = document::parse(&text).unwrap_or_else(|fault| panic!("{page}: {fault}"));
    let clock = Clock::at(now_ns() / SECOND_NS);
    let (mut setting, mut faults, mut count) = (Setting::new(&[], &[]), Vec::new(), 0);
    let mut files = Vec::new();
    for step in &steps {
        match step {
            Step::File(name, text) => files.push((name.clone(), text.clone())),
            Step::Server(flags) => setting = Setting::new(flags, &files),
            Step::Busy => setting.occupy(),
            Step::Example(example) => {
                count += 1;
                let fault = check(&setting.server, example, &clock);
                faults.extend(fault.map(|fault| format!("{page}:{}: {fault}", example.line)));
            }
        }
    }
    let text = faults.join("\n\n");
    assert!(faults.is_empty(), "{} of {count} examples differ:\n\n{text}", faults.len());
    count
}

/// The first line of files for logsvc; other files are for agents.
const FILE_MARK: &str = "# logsvc.yaml\n";

#[test]
fn files_of_settings_in_the_migration_page_are_valid() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/migration.md");
    let text = std::fs::read_to_string(page).expect("the page is there");
    let blocks = text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let blocks: Vec<&str> = blocks.filter(|block| block.starts_with(FILE_MARK)).collect();
    assert!(blocks.len() >= 2, "{blocks:?}");
    let folder = DataDir::new();
    let file = folder.path().join("logsvc.yaml");
    for block in blocks {
        std::fs::write(&file, block).expect("it can be written");
        let output = Command::new(env!("CARGO_BIN_EXE_logsvc"))
            .args(["--verify-config", "--config.file"])
            .arg(&file)
            .output()
            .expect("the binary starts");
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(output.status.success() && !said.contains("WARN"), "{block}\n{said}");
    }
}

/// Sends a request; returns the fault of the answer.
fn check(server: &Server, example: &Example, clock: &Clock) -> Option<String> {
    let request = &example.request;
    let params: Vec<(String, String)> =
        request.params.iter().map(|(name, value)| (name.clone(), clock.shift(value))).collect();
    let params: Vec<(&str, &str)> = params.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let headers: Vec<(&str, &str)> =
        request.headers.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let is_form = request.is_form();
    let target = match params.as_slice() {
        [] => request.path.clone(),
        _ if is_form => request.path.clone(),
        params => query::target(&request.path, params),
    };
    let body = if is_form { Some(query::form(&params)) } else { clock.body(request) };
    let body = body.as_ref().map(String::as_bytes);
    let wrong = if example.answer.is_upgrade() {
        check_tail(server, &target, &headers, &example.answer, clock)
    } else {
        let mut client: Client = server.client();
        let reply = client.request(&request.method, &target, &headers, body);
        check_reply(&reply, &example.answer, clock)
    };
    wrong.map(|wrong| format!("{} {}\n{wrong}", request.method, request.path))
}

fn check_reply(reply: &Reply, answer: &Answer, clock: &Clock) -> Option<String> {
    let content_type = reply.header("content-type").unwrap_or_default();
    let came = || {
        let start: String = reply.text().chars().take(SHOWN_CHARS).collect();
        format!("{} {content_type}\n{start}", reply.status)
    };
    if reply.status != answer.status {
        return Some(format!("another status came:\n{}", came()));
    }
    if differs(&answer.content_type, content_type).is_some() {
        return Some(format!("another content type came:\n{}", came()));
    }
    for (name, value) in &answer.headers {
        let found = reply.header(&name.to_ascii_lowercase());
        if found != Some(value) {
            return Some(format!("{name} is {found:?}"));
        }
    }
    let what = differs(&clock.shift(&answer.body), &reply.text())?;
    Some(format!("{what} in what came:\n{}", came()))
}

/// Opens a WebSocket and compares its frames with the lines of the answer.
fn check_tail(
    server: &Server,
    target: &str,
    headers: &[(&str, &str)],
    answer: &Answer,
    clock: &Clock,
) -> Option<String> {
    let mut tail = match WebSocket::open(server.address(), target, headers) {
        Ok(tail) => tail,
        Err(reply) => return Some(format!("no upgrade: {} {}", reply.status, reply.text())),
    };
    answer.body.lines().find_map(|line| {
        let (what, came) = match (tail.next_told(), line.strip_prefix("close ")) {
            (Frame::Close(code, reason), Some(expected)) => {
                let came = format!("{code} {reason}");
                (differs(&clock.shift(expected), &came), came)
            }
            (Frame::Json(frame), None) => {
                let came = frame.to_string();
                (differs(&clock.shift(line), &came), came)
            }
            (frame, _) => (Some("another frame".to_owned()), format!("{frame:?}")),
        };
        what.map(|what| format!("{what} in the frame that came:\n{came}"))
    })
}
