//! A server that runs in a root as a package or an image wants it.

use super::root::Root;
use crate::package::contents::CONFIG;
use crate::package::read;
use crate::server::free_ports;
use anyhow::{Context, Result, bail, ensure};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs a program whose calls of io_uring are refused.
const REFUSE: &str = "ci/package/refuse_io_uring.py";
const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// A running server; killed when dropped.
pub(super) struct Node<'r> {
    root: &'r Root,
    child: Child,
    port: u16,
}

impl<'r> Node<'r> {
    /// Starts what the installed unit starts, as its user, in its folder. The trial's port and
    /// address are in the variable for further flags.
    pub(super) fn of_unit(root: &'r Root) -> Result<Node<'r>> {
        let unit = String::from_utf8(read(&root.path("usr/lib/systemd/system/logsvc.service"))?)?;
        let value = |key: &str| {
            let line = unit.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
            line.with_context(|| format!("the unit has no {key}"))
        };
        let user = format!("{}:{}", value("User")?, value("Group")?);
        let (port, _) = free_ports()?;
        let words = value("ExecStart")?.split(' ').flat_map(|word| match word {
            "$LOGSVC_FLAGS" => flags(port),
            word => vec![word.to_owned()],
        });
        let args: Vec<String> = words.collect();
        let command = root.start(&user, value("WorkingDirectory")?, false, &args);
        Node::launch(root, command, port)
    }

    /// Starts the entry point of the image with its arguments. If `refusal` is a number of an error,
    /// the kernel answers calls of io_uring with it.
    pub(super) fn of_image(root: &'r Root, user: u64, refusal: Option<i32>) -> Result<Node<'r>> {
        let (port, _) = free_ports()?;
        let args = image_args(flags(port));
        let command = root.start(&format!("{user}:{user}"), "/", true, &args);
        Node::launch(
            root,
            match refusal {
                Some(refusal) => refusing(command, refusal)?,
                None => command,
            },
            port,
        )
    }

    /// What the image says when it is started with a backend that cannot do without io_uring, which
    /// the kernel refuses. An error if it goes on.
    pub(super) fn refused(root: &Root, user: u64, refusal: i32) -> Result<String> {
        let args = image_args(vec!["--runtime=glommio".to_owned()]);
        let mut command = Command::new("timeout");
        command.arg("10");
        let inner = refusing(root.start(&format!("{user}:{user}"), "/", true, &args), refusal)?;
        command.arg(inner.get_program()).args(inner.get_args());
        let output = command.output().context("starting the server")?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said).into_owned();
        ensure!(output.status.code() == Some(1), "{}: {said}", output.status);
        Ok(said)
    }

    fn launch(root: &'r Root, mut command: Command, port: u16) -> Result<Node<'r>> {
        let out = File::create(root.log()).context("creating the log")?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let child = command.spawn().context("starting the server")?;
        let mut node = Node { root, child, port };
        node.await_ready().with_context(|| node.log().unwrap_or_default())?;
        Ok(node)
    }

    fn await_ready(&mut self) -> Result<()> {
        let end = Instant::now() + START_LIMIT;
        while !self.get("/ready").is_ok_and(|text| text.contains("ready")) {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended while it started ({status})");
            }
            ensure!(Instant::now() < end, "the server is not ready");
            std::thread::sleep(PAUSE);
        }
        let address = format!("--address=127.0.0.1:{}", self.port);
        let health = ["/usr/bin/logsvc", "health", &address];
        ensure!(self.root.output(&health)?.contains("alive"), "the health check fails");
        let elsewhere = [health[0], health[1], "--address=127.0.0.1:1"];
        ensure!(self.root.output(&elsewhere).is_err(), "the health check finds what is not there");
        Ok(())
    }

    /// What it has written.
    pub(super) fn log(&self) -> Result<String> {
        Ok(String::from_utf8_lossy(&read(&self.root.log())?).into_owned())
    }

    /// The body of an answer; an error unless its status is 2xx.
    pub(super) fn get(&self, path: &str) -> Result<String> {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"))
    }

    /// Pushes a line.
    pub(super) fn push(&self, line: &str) -> Result<()> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_nanos();
        let body = format!(
            "{{\"streams\":[{{\"stream\":{{\"app\":\"trial\"}},\"values\":[[\"{now}\",\"{line}\"]]}}]}}"
        );
        self.ask(&format!(
            "POST /loki/api/v1/push HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))?;
        self.find(line)
    }

    /// Finds a line.
    pub(super) fn find(&self, line: &str) -> Result<()> {
        let found = self.get("/loki/api/v1/query_range?query=%7Bapp%3D%22trial%22%7D")?;
        ensure!(found.contains(line), "{line:?} is not in {found}");
        Ok(())
    }

    fn ask(&self, request: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.set_read_timeout(Some(START_LIMIT))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        ensure!(answer.starts_with("HTTP/1.1 2"), "{request}\n{answer}");
        Ok(answer)
    }

    /// Stops the server as a service manager does.
    pub(super) fn stop(mut self) -> Result<()> {
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().context("kill")?;
        let end = Instant::now() + STOP_LIMIT;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the server stopped with {status}"),
                None => ensure!(Instant::now() < end, "the server does not stop"),
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        // Both fail only when the process is gone already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The entry point of the image, its arguments, and more.
fn image_args(more: Vec<String>) -> Vec<String> {
    let own = ["/usr/bin/logsvc".to_owned(), format!("--config.file=/{CONFIG}")];
    own.into_iter().chain(more).collect()
}

/// The same command under a kernel that refuses io_uring with an error.
fn refusing(command: Command, refusal: i32) -> Result<Command> {
    let mut outer = Command::new("python3");
    outer.arg(std::path::absolute(REFUSE)?).arg(refusal.to_string());
    outer.arg(command.get_program()).args(command.get_args());
    Ok(outer)
}

fn flags(port: u16) -> Vec<String> {
    vec![
        "--server.http-listen-address=127.0.0.1".to_owned(),
        format!("--server.http-listen-port={port}"),
    ]
}
