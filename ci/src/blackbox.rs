//! Runs the black-box corpus against the built server: an empty data folder, a
//! free port, the corpus's own configuration, its runner's `load` and `check`.
//!
//! The corpus does not belong to the repository; where it or Python is missing the
//! check says so and is skipped. Everything else that goes wrong is a failure, and
//! then the server's log is shown.

use crate::areas::{self, Corpus};
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a server may take until it listens.
const START_LIMIT: Duration = Duration::from_secs(30);
/// How long a server may take to stop.
const STOP_LIMIT: Duration = Duration::from_secs(20);
/// How much of the server's log is shown after a failure.
const LOG_LINES: usize = 60;
/// Lines of the configuration that switch off what the second corpus needs.
const DISCOVERY_OFF: [&str; 2] = ["discover_service_name: []", "discover_log_levels: false"];

/// Runs all areas that `areas_file` lists.
pub(crate) fn check(corpus: &Path, binary: &Path, areas_file: &Path) -> Result<()> {
    if !corpus.join("run.py").is_file() {
        println!("ci: black-box check skipped: there is no corpus in {}", corpus.display());
        return Ok(());
    }
    if !has_python() {
        println!("ci: black-box check skipped: python3 is not installed");
        return Ok(());
    }
    if !binary.is_file() {
        bail!("{} is missing: cargo build --release --bin logsvc", binary.display());
    }
    let list = std::fs::read_to_string(areas_file)
        .with_context(|| format!("reading {}", areas_file.display()))?;
    let corpora = areas::parse(&list).with_context(|| areas_file.display().to_string())?;
    let mut total = (0, 0);
    let mut broken = Vec::new();
    for part in &corpora {
        let run = run_corpus(corpus, binary, part)?;
        total = (total.0 + run.passed, total.1 + run.failed);
        broken.extend(run.complaint);
    }
    println!("blackbox: {} passed, {} failed", total.0, total.1);
    if !broken.is_empty() || total.1 > 0 {
        bail!("the black-box check failed {}", broken.join("; "));
    }
    if total.0 == 0 {
        bail!("the black-box check ran no case");
    }
    Ok(())
}

fn has_python() -> bool {
    let mut command = Command::new("python3");
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// What became of one corpus.
struct Run {
    passed: u64,
    failed: u64,
    complaint: Option<String>,
}

fn run_corpus(corpus: &Path, binary: &Path, part: &Corpus) -> Result<Run> {
    let name = if part.folder.is_empty() { "main" } else { &part.folder };
    println!("ci: black-box corpus {name}: {}", part.areas.join(", "));
    let data = DataFolder::create(name)?;
    let ports = free_ports()?;
    let template = corpus.join("reference-config.yaml");
    let template = std::fs::read_to_string(&template)
        .with_context(|| format!("reading {}", template.display()))?;
    let config = fill_config(&template, &data.0, ports, !part.folder.is_empty());
    let config_file = data.0.join("config.yaml");
    std::fs::write(&config_file, config).context("writing the configuration")?;
    let mut run = Run { passed: 0, failed: 0, complaint: None };
    let mut server = Server::start(binary, &config_file, &data.0)?;
    if let Err(error) = server.wait_until_listening(ports.0) {
        server.show_log();
        run.complaint = Some(format!("({name}: {error:#})"));
        return Ok(run);
    }
    let base = format!("http://127.0.0.1:{}", ports.0);
    let runner = |verb: &str| {
        let mut command = Command::new("python3");
        command.arg(corpus.join("run.py")).args([verb, "--base", &base, "--corpus"]);
        command.arg(corpus.join(&part.folder));
        command
    };
    let loaded = pass_through(runner("load"))?;
    if loaded.success {
        let mut check = runner("check");
        check.args(["--area", &part.areas.join(",")]);
        let checked = pass_through(check)?;
        (run.passed, run.failed) = areas::sum_counts(&checked.output);
        if !checked.success {
            run.complaint = Some(format!("({name}: the runner reports failures)"));
        }
    } else {
        run.complaint = Some(format!("({name}: the data set could not be loaded)"));
    }
    if let Err(error) = server.stop() {
        run.complaint = Some(format!("({name}: {error:#})"));
    }
    if run.complaint.is_some() {
        server.show_log();
    }
    Ok(run)
}

/// The corpus's configuration for one server. With `discovery`, the lines that
/// switch the discovery of labels and levels off are left out.
fn fill_config(template: &str, data: &Path, ports: (u16, u16), discovery: bool) -> String {
    let kept = template
        .lines()
        .filter(|line| !discovery || !DISCOVERY_OFF.iter().any(|off| line.trim().starts_with(off)));
    let mut config: String = kept.flat_map(|line| [line, "\n"]).collect();
    for (name, value) in [
        ("{{DATA}}", data.display().to_string()),
        ("{{HTTP_PORT}}", ports.0.to_string()),
        ("{{GRPC_PORT}}", ports.1.to_string()),
    ] {
        config = config.replace(name, &value);
    }
    config
}

/// Two ports that nobody listens on. Both are held while they are chosen, so they
/// differ; somebody else may take one before the server does, which then fails.
fn free_ports() -> Result<(u16, u16)> {
    let bind = || TcpListener::bind("127.0.0.1:0").context("finding a free port");
    let (http, grpc) = (bind()?, bind()?);
    Ok((http.local_addr()?.port(), grpc.local_addr()?.port()))
}

/// A data folder that is removed at the end.
struct DataFolder(PathBuf);

impl DataFolder {
    fn create(name: &str) -> Result<DataFolder> {
        let name = format!("logsvc-blackbox-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        Ok(DataFolder(path))
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("ci: {} could not be removed: {error}", self.0.display());
        }
    }
}

/// The server under test; killed when dropped.
struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    fn start(binary: &Path, config: &Path, data: &Path) -> Result<Server> {
        let log = data.join("server.log");
        let out = File::create(&log).context("creating the server's log")?;
        let child = Command::new(binary)
            .arg("--config.file")
            .arg(config)
            .arg("--data-dir")
            .arg(data.join("data"))
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("starting {}", binary.display()))?;
        Ok(Server { child, log })
    }

    /// Waits until somebody listens on `port`, so that a server that fails to start
    /// is noticed at once and not by a runner that waits for it.
    fn wait_until_listening(&mut self, port: u16) -> Result<()> {
        let end = Instant::now() + START_LIMIT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the server ended while it started ({status})");
            }
            if Instant::now() > end {
                bail!("the server does not listen on port {port}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Asks the server to stop as a service manager does. An error if it does not,
    /// or had ended before, or ends with another status than 0.
    fn stop(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("the server ended before it was asked to ({status})");
        }
        let pid = self.child.id().to_string();
        Command::new("kill").args(["-TERM", &pid]).status().context("kill")?;
        let end = Instant::now() + STOP_LIMIT;
        loop {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("the server stopped with {status}"),
                None if Instant::now() > end => bail!("the server did not stop on SIGTERM"),
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn show_log(&self) {
        match std::fs::read(&self.log) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let lines: Vec<&str> = text.lines().collect();
                let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
                println!("--- end of the server's log\n{}\n---", last.join("\n"));
            }
            Err(error) => println!("ci: the server's log could not be read: {error}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only when the process is gone already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// How a program ended and what it printed.
struct Passed {
    success: bool,
    output: String,
}

/// Runs a program, shows its output as it comes, and keeps it.
fn pass_through(mut command: Command) -> Result<Passed> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("starting {command:?}"))?;
    let stdout = child.stdout.take().context("the program has no output")?;
    let mut output = String::new();
    for line in BufReader::new(stdout).lines() {
        let line = line?;
        println!("{line}");
        output.push_str(&line);
        output.push('\n');
    }
    Ok(Passed { success: child.wait()?.success(), output })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "server:\n  port: {{HTTP_PORT}}\n  grpc: {{GRPC_PORT}}\n\
                            path: {{DATA}}/chunks\n  discover_service_name: []   # off\n\
                            \x20 discover_log_levels: false\n";

    #[test]
    fn places_are_filled() {
        let config = fill_config(TEMPLATE, Path::new("/d"), (1, 2), false);
        assert_eq!(
            config,
            "server:\n  port: 1\n  grpc: 2\npath: /d/chunks\n  discover_service_name: []   # off\n\
             \x20 discover_log_levels: false\n"
        );
        let config = fill_config(TEMPLATE, Path::new("/d"), (1, 2), true);
        assert_eq!(config, "server:\n  port: 1\n  grpc: 2\npath: /d/chunks\n");
    }

    #[test]
    fn ports_differ() {
        let (http, grpc) = free_ports().unwrap();
        assert_ne!(http, grpc);
    }

    #[test]
    fn a_missing_corpus_is_skipped_and_a_missing_server_is_not() {
        let data = DataFolder::create("test").unwrap();
        check(&data.0, Path::new("/nowhere"), Path::new("/nowhere")).unwrap();
        std::fs::write(data.0.join("run.py"), "").unwrap();
        if has_python() {
            let error = check(&data.0, Path::new("/nowhere"), Path::new("/nowhere")).unwrap_err();
            assert!(error.to_string().contains("cargo build"), "{error}");
        }
    }

    #[test]
    fn output_is_shown_and_kept() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two; exit 3"]);
        let passed = pass_through(command).unwrap();
        assert_eq!((passed.success, passed.output.as_str()), (false, "one\ntwo\n"));
    }

    #[test]
    fn a_server_that_fails_to_start_is_noticed_at_once() {
        let data = DataFolder::create("start").unwrap();
        let mut server = Server::start(Path::new("false"), &data.0, &data.0).unwrap();
        let error = server.wait_until_listening(free_ports().unwrap().0).unwrap_err();
        assert!(error.to_string().contains("ended while it started"), "{error}");
    }

    #[test]
    fn a_server_that_ended_early_is_a_failure_and_one_that_stops_is_not() {
        let data = DataFolder::create("stop").unwrap();
        let server = |script: &str| {
            let log = data.0.join("log");
            let mut command = Command::new("sh");
            let child = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
            Server { child, log }
        };
        // Waits until the shell has printed, so that its trap is set.
        let ready = |server: &mut Server| {
            let stdout = server.child.stdout.as_mut().unwrap();
            BufReader::new(stdout).read_line(&mut String::new()).unwrap();
        };
        let mut ended = server("echo; exit 0");
        ended.child.wait().unwrap();
        assert!(ended.stop().unwrap_err().to_string().contains("before it was asked"));
        let trapped = |status: u8| {
            format!("trap 'kill $!; exit {status}' TERM; sleep 60 >/dev/null & echo; wait")
        };
        let mut polite = server(&trapped(0));
        ready(&mut polite);
        polite.stop().unwrap();
        let mut rude = server(&trapped(7));
        ready(&mut rude);
        assert!(rude.stop().unwrap_err().to_string().contains("stopped with"));
    }
}
