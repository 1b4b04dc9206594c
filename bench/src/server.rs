//! The server under measurement: started by a command, or running already. A server that was
//! started is killed when its value is dropped. A start fails, with the end of the server's log, if
//! the server ends or is not ready in time.

use crate::target::TargetArgs;
use crate::tree;
use anyhow::{Context, Result, anyhow, bail};
use std::fs::File;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often a server that is not ready is asked again.
const ASK_AGAIN: Duration = Duration::from_millis(5);
/// Most bytes of a log's end in an error.
const LOG_END_BYTES: usize = 2000;

/// How to start a server.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    /// A shell command, in which `{data}` and `{port}` are replaced.
    pub(crate) command: String,
    pub(crate) data: PathBuf,
    pub(crate) port: u16,
    pub(crate) log: PathBuf,
}

impl Launch {
    fn command_line(&self) -> String {
        let data = shell_quoted(&self.data.to_string_lossy());
        let command = self.command.replace("{data}", &data);
        // The shell gives its place to the server, so that the process is the server.
        format!("exec {}", command.replace("{port}", &self.port.to_string()))
    }
}

/// `text` as one word of a shell command.
pub(crate) fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A port without a listener.
pub(crate) fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("looking for a free port")?;
    Ok(listener.local_addr()?.port())
}

/// A process that this tool has started; it is killed when the value is dropped.
pub(crate) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts a server and waits until `ready_path` answers with success.
    pub(crate) fn start(
        launch: &Launch,
        target: &TargetArgs,
        ready_path: &str,
        patience: Duration,
    ) -> Result<Server> {
        let log = File::options().create(true).append(true).open(&launch.log);
        let log = log.with_context(|| format!("opening the server's log {:?}", launch.log))?;
        let child = Command::new("sh")
            .args(["-c", &launch.command_line()])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting the server")?;
        let mut server = Server { child, log: launch.log.clone() };
        server.await_ready(target, ready_path, patience)?;
        Ok(server)
    }

    fn await_ready(&mut self, target: &TargetArgs, path: &str, patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        loop {
            if is_ready(target, path) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the server has ended with {status}; its log:\n{}", self.log_end());
            }
            if Instant::now() > deadline {
                bail!("the server is not ready; its log:\n{}", self.log_end());
            }
            std::thread::sleep(ASK_AGAIN);
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends the process and all that it has started, without any warning.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_none() {
            // The server shares this tool's process group, so that an interrupt from
            // the terminal ends both.
            let members = tree::members(self.child.id());
            let members = members.iter().map(u32::to_string);
            let killed = Command::new("kill").arg("-KILL").args(members).status()?;
            if !killed.success() {
                // A child may have ended by itself in between.
                self.child.kill().context("killing the server")?;
            }
            self.child.wait().context("waiting for the server's end")?;
        }
        Ok(())
    }

    fn log_end(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let end = log.len().saturating_sub(LOG_END_BYTES);
        String::from_utf8_lossy(&log[end..]).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("bench: the server may still run: {error:#}");
        }
    }
}

/// Whether the server says that it is ready.
pub(crate) fn is_ready(target: &TargetArgs, path: &str) -> bool {
    target.client().send(&target.get(path, "")).is_ok_and(|response| response.is_success())
}

/// Bytes that the files below a folder take on the disk.
pub(crate) fn disk_bytes(folder: &Path) -> Result<u64> {
    let mut total_bytes = 0;
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            // A running server removes folders and files as it likes.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(anyhow!(error).context(format!("reading {folder:?}"))),
        };
        for entry in entries {
            let entry = entry?;
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => open.push(entry.path()),
                // The system counts blocks of 512 bytes on every file system.
                Ok(metadata) => total_bytes += metadata.blocks() * 512,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(total_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        target: TargetArgs,
    }

    fn launch(folder: &TempDir, command: &str) -> Launch {
        Launch {
            command: command.to_owned(),
            data: folder.path().join("it's data"),
            port: 4711,
            log: folder.path().join("log"),
        }
    }

    #[test]
    fn a_command_line_names_data_and_port() {
        let folder = TempDir::new();
        let line = launch(&folder, "serve --to={data} :{port}").command_line();
        let data = format!("'{}/it'\\''s data'", folder.path().display());
        assert_eq!(line, format!("exec serve --to={data} :4711"));
    }

    #[test]
    fn a_server_that_ends_or_never_gets_ready_is_an_error_with_its_log() {
        let folder = TempDir::new();
        let target = Cli::parse_from(["test", "--url", "http://127.0.0.1:1"]).target;
        for (command, patience) in
            [("sh -c 'echo no luck; exit 3'", 30_000), ("sh -c 'echo no luck; sleep 60'", 3_000)]
        {
            let patience = Duration::from_millis(patience);
            let started = Server::start(&launch(&folder, command), &target, "/ready", patience);
            let error = started.err().expect("nobody listens there").to_string();
            assert!(error.contains("no luck"), "{error}");
        }
    }

    #[test]
    fn whatever_the_server_has_started_is_killed_with_it() {
        let folder = TempDir::new();
        // A shell that answers nothing, with a child: it never gets ready.
        let started = folder.path().join("child");
        let command = format!("sh -c 'sleep 600 & echo $! > \"{}\"; wait'", started.display());
        let target = Cli::parse_from(["test", "--url", "http://127.0.0.1:1"]).target;
        let patience = Duration::from_secs(3);
        assert!(Server::start(&launch(&folder, &command), &target, "/ready", patience).is_err());
        let child: u32 = std::fs::read_to_string(started).unwrap().trim().parse().unwrap();
        let is_gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
            // Its parent may not have waited for it yet.
            stat.is_empty() || stat.contains(") Z ")
        };
        // A signal that was sent takes effect when the kernel comes to it.
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_gone() {
            assert!(Instant::now() < deadline, "process {child} still runs");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_disk_bytes_of_a_folder_are_those_of_all_its_files() {
        let folder = TempDir::new();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        folder.write("a/x", &[1; 100_000]);
        folder.write("y", &[1; 5_000]);
        let bytes = disk_bytes(folder.path()).unwrap();
        assert!((105_000..200_000).contains(&bytes), "{bytes}");
        assert_eq!(disk_bytes(&folder.path().join("none")).unwrap(), 0);
    }
}
