//! A server process: started on a free port, watched through its log, ended in an
//! orderly way or not at all orderly.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::{Client, Reply};

/// Longest time for a start or a stop, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder that is removed when the value is dropped.
pub(crate) struct DataDir(PathBuf);

impl DataDir {
    pub(crate) fn new() -> DataDir {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("logsvc-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a temporary folder");
        DataDir(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        // After a failure the folder stays as evidence.
        if thread::panicking() {
            eprintln!("the data folder is kept: {}", self.0.display());
        } else {
            // A folder that stays behind is no reason to fail.
            _ = std::fs::remove_dir_all(&self.0);
        }
    }
}

/// The process's standard error so far, and whether it has ended.
#[derive(Default)]
struct Log {
    state: Mutex<(String, bool)>,
    changed: Condvar,
}

/// A running server. Dropping it kills the process.
pub(crate) struct Server {
    child: Child,
    address: String,
    log: Arc<Log>,
}

impl Server {
    /// Starts a server and waits until it is ready.
    pub(crate) fn start(data_dir: &Path, args: &[&str]) -> Server {
        let mut server = Server::launch(data_dir, args);
        server.await_ready().unwrap_or_else(|| panic!("not ready: {}", server.log_text()));
        server
    }

    /// Starts a server and does not wait. It has no address until
    /// [`Server::await_ready`] returns one.
    pub(crate) fn launch(data_dir: &Path, args: &[&str]) -> Server {
        Server::launch_on("0", data_dir, args)
    }

    /// [`Server::launch`] with a port that is known before the server is ready.
    pub(crate) fn launch_on(port: &str, data_dir: &Path, args: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_logsvc"));
        command.stdin(Stdio::null());
        Server::launch_by(command, port, data_dir, args)
    }

    /// [`Server::launch_on`] by a command that becomes the server, given its arguments.
    pub(crate) fn launch_by(
        mut command: Command,
        port: &str,
        data_dir: &Path,
        args: &[&str],
    ) -> Server {
        let mut child = command
            .args(["--server.http-listen-address", "127.0.0.1", "--server.http-listen-port", port])
            .args(["--log.format", "json", "--data-dir"])
            .arg(data_dir)
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stderr = child.stderr.take().expect("standard error is piped");
        let log = Arc::new(Log::default());
        let sink = Arc::clone(&log);
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines() {
                let Ok(line) = line else { break };
                let mut state = sink.state.lock().expect("no holder panics");
                state.0.push_str(&line);
                state.0.push('\n');
                sink.changed.notify_all();
            }
            sink.state.lock().expect("no holder panics").1 = true;
            sink.changed.notify_all();
        });
        Server { child, address: String::new(), log }
    }

    /// Waits for the line that tells the address; `None` if the process ends
    /// before.
    pub(crate) fn await_ready(&mut self) -> Option<String> {
        let found = self.await_log(|log| {
            let line = log.lines().find(|line| line.contains("is ready"))?;
            let fields: serde_json::Value = serde_json::from_str(line).expect("a JSON line");
            Some(fields["address"].as_str().expect("the ready line has an address").to_owned())
        })?;
        self.address.clone_from(&found);
        Some(found)
    }

    /// Waits until `find` finds something in the log; `None` if the log ends.
    pub(crate) fn await_log<T>(&self, find: impl Fn(&str) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.log.state.lock().expect("no holder panics");
        loop {
            if let Some(found) = find(&state.0) {
                return Some(found);
            }
            if state.1 {
                return None;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the log does not say what it should:\n{}", state.0);
            state = self.log.changed.wait_timeout(state, left).expect("no holder panics").0;
        }
    }

    pub(crate) fn log_text(&self) -> String {
        // A failed wait panics while it holds the lock, and the log tells why it failed.
        self.log.state.lock().unwrap_or_else(PoisonError::into_inner).0.clone()
    }

    /// `127.0.0.1:port`
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.address)
    }

    /// One GET on a connection of its own.
    pub(crate) fn get(&self, target: &str) -> Reply {
        self.client().get(target)
    }

    /// Ends the process without any warning.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("the process can be killed");
        self.child.wait().expect("the process ends");
    }

    /// Asks the process to stop.
    pub(crate) fn terminate(&self) {
        self.signal(libc::SIGTERM);
    }

    /// Sends a signal to the process.
    pub(crate) fn signal(&self, signal: i32) {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a process id");
        // SAFETY: no memory is involved. The process has not been waited for, so
        // its id cannot belong to another one.
        let sent = unsafe { libc::kill(pid, signal) };
        assert_eq!(sent, 0, "the signal cannot be sent");
    }

    /// The thread of a name.
    pub(crate) fn thread(&self, name: &str) -> libc::pid_t {
        let tasks = format!("/proc/{}/task", self.child.id());
        let mut threads = std::fs::read_dir(tasks).expect("the process lives").flatten();
        let is_it = |thread: &std::fs::DirEntry| {
            std::fs::read_to_string(thread.path().join("comm"))
                .is_ok_and(|it| it.trim_end() == name)
        };
        let found = threads.find(is_it).unwrap_or_else(|| panic!("no thread is named {name}"));
        let text = found.file_name().into_string().expect("a number");
        text.parse().expect("a number")
    }

    /// Waits for the end; returns the status and the whole log.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let log = self.log_when_ended();
        let status = self.child.wait().expect("the process ends");
        (status, log)
    }

    fn log_when_ended(&self) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.log.state.lock().expect("no holder panics");
        while !state.1 {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "the process does not end:\n{}", state.0);
            state = self.log.changed.wait_timeout(state, left).expect("no holder panics").0;
        }
        state.0.clone()
    }

    /// Stops the process in an orderly way and insists on success.
    pub(crate) fn stop(self) -> String {
        self.terminate();
        let (status, log) = self.wait();
        assert_eq!(status.code(), Some(0), "an orderly stop: {log}");
        log
    }

    /// Lets the process have `more` files open beside the files that it has open already.
    pub(crate) fn limit_open_files(&self, more: u64) {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        let open = open.expect("the process runs").count() as u64;
        let limit = libc::rlimit { rlim_cur: open + more, rlim_max: open + more };
        let pid = libc::pid_t::try_from(self.child.id()).expect("a process id");
        // SAFETY: `limit` is readable and of the type that the call takes, which
        // writes nothing without a place for the old limit.
        let set = unsafe {
            libc::prlimit(pid, libc::RLIMIT_NOFILE, &raw const limit, std::ptr::null_mut())
        };
        assert_eq!(set, 0, "the limit of a child can be lowered");
    }

    /// CPU time that the process has taken, in ticks of 10 ms.
    pub(crate) fn cpu_ticks(&self) -> u64 {
        let path = format!("/proc/{}/stat", self.child.id());
        let text = std::fs::read_to_string(path).expect("the process runs");
        // The fields behind the name, which may have spaces.
        let (_, fields) = text.rsplit_once(')').expect("a name in parentheses");
        let fields: Vec<&str> = fields.split_whitespace().collect();
        fields[11..13].iter().map(|ticks| ticks.parse::<u64>().expect("ticks")).sum()
    }

    /// A value of `/proc/<pid>/status` in bytes, such as `VmHWM`.
    pub(crate) fn memory_bytes(&self, field: &str) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).expect("the process runs");
        let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        kibibytes.and_then(|text| text.parse::<u64>().ok()).expect("a size in kB") * 1024
    }

    /// A sample of `/metrics` by its name and labels. Adds up the samples of all shards if `name`
    /// ends before the labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").text();
        let values: Vec<f64> = text
            .lines()
            .filter_map(|line| line.strip_prefix(name))
            .filter(|rest| rest.starts_with([' ', '{']))
            .filter_map(|rest| rest.rsplit(' ').next()?.parse().ok())
            .collect();
        // A family whose labels clients choose may have no samples yet.
        let is_known = text.contains(&format!("# TYPE {name} "));
        assert!(!values.is_empty() || is_known, "{name} is missing in\n{text}");
        values.iter().sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        _ = self.child.kill();
        _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the server's log:\n{}", self.log_text());
        }
    }
}

/// Whether this machine runs the glommio backend. Tests that need it say that they
/// do without, if not.
pub(crate) fn glommio_works() -> bool {
    static WORKS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *WORKS.get_or_init(|| {
        let folder = DataDir::new();
        let mut server = Server::launch(folder.path(), &["--runtime", "glommio", "--cores", "1"]);
        let works = server.await_ready().is_some();
        if !works {
            let log = server.log_text();
            // Anything else would be a fault of the server.
            assert!(log.contains("cannot start the cores"), "{log}");
            eprintln!("glommio does not run on this machine: {log}");
        }
        works
    })
}
