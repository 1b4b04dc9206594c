//! A server for checks from outside: an empty data folder, free ports, a start whose failure is
//! noticed, an orderly stop, and a log to show.
//!
//! Nothing stays behind: dropping a server kills it and removes its folder.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs::File;
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

/// Two ports without a listener. Both are held while they are chosen, so they differ. Another
/// process may take one before the server does; then the server fails.
pub(crate) fn free_ports() -> Result<(u16, u16)> {
    let bind = || TcpListener::bind("127.0.0.1:0").context("finding a free port");
    let (http, grpc) = (bind()?, bind()?);
    Ok((http.local_addr()?.port(), grpc.local_addr()?.port()))
}

/// A data folder that is removed at the end.
pub(crate) struct DataFolder(pub(crate) PathBuf);

impl DataFolder {
    pub(crate) fn create(name: &str) -> Result<DataFolder> {
        let name = format!("logsvc-{name}-{}", std::process::id());
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
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts `binary` with its data in `data/data` and its log in `data/server.log`.
    pub(crate) fn start(binary: &Path, arguments: &[&OsStr], data: &Path) -> Result<Server> {
        let log = data.join("server.log");
        let out = File::create(&log).context("creating the server's log")?;
        let child = Command::new(binary)
            .args(arguments)
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

    /// Waits until the server listens on `port`, so that a server that fails to start is noticed at
    /// once and not by a runner that waits for it.
    pub(crate) fn wait_until_listening(&mut self, port: u16) -> Result<()> {
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

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks the server to stop as a service manager does. An error if it does not,
    /// or had ended before, or ends with another status than 0.
    pub(crate) fn stop(&mut self) -> Result<()> {
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

    /// The whole log.
    pub(crate) fn log(&self) -> Result<String> {
        let bytes = std::fs::read(&self.log).context("reading the server's log")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Shows the end of the log.
    pub(crate) fn show_log(&self) {
        match self.log() {
            Ok(text) => {
                let lines: Vec<&str> = text.lines().collect();
                let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
                println!("--- end of the server's log\n{}\n---", last.join("\n"));
            }
            Err(error) => println!("ci: {error:#}"),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};

    #[test]
    fn ports_differ() {
        let (http, grpc) = free_ports().unwrap();
        assert_ne!(http, grpc);
    }

    #[test]
    fn a_server_that_fails_to_start_is_noticed_at_once() {
        let data = DataFolder::create("start").unwrap();
        let mut server = Server::start(Path::new("false"), &[], &data.0).unwrap();
        // Port 0 never has a listener, while another test may take any free port.
        let error = server.wait_until_listening(0).unwrap_err();
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
