//! Parts that the integration tests of the real backends share.

// Every test binary uses a part of this.
#![allow(dead_code)]

use std::hint::spin_loop;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::num::NonZero;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use logsvc_runtime::conformance::cores::MultiCore;
use logsvc_runtime::conformance::{self, machine};
use logsvc_runtime::{LaunchOptions, Runtime};

/// A folder that is removed when the value is dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        use std::sync::atomic::AtomicU32;
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("runtime-test-{}-{number}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        #[expect(clippy::disallowed_methods, reason = "the test's own folder")]
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A left-over in the target folder does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An address that takes a connection and then never answers: its accept queue
/// is full.
pub(crate) struct Silent {
    listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl Silent {
    pub(crate) fn new() -> Silent {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        // A listening socket may be told to listen again, with a shorter queue.
        // SAFETY: a call with plain integers on a socket that `listener` keeps open.
        assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        loop {
            match TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
                Ok(stream) => queued.push(stream),
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
                    return Silent { listener, _queued: queued };
                }
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }
}

/// The checks of one core, with their input.
#[derive(Clone)]
pub(crate) struct SingleCore {
    dir: PathBuf,
    silent: SocketAddr,
}

impl SingleCore {
    pub(crate) async fn run<R: Runtime>(self, runtime: R) {
        conformance::run_all(runtime.clone(), self.dir).await;
        machine::connecting_times_out(runtime.clone(), self.silent).await;
        // Takes writes and has nothing to sync, which fdatasync says.
        machine::a_failed_sync_poisons(runtime, Path::new("/dev/null")).await;
    }
}

/// Launches the checks of one core.
pub(crate) fn run_single_core(launch: impl FnOnce(&LaunchOptions, SingleCore) -> io::Result<()>) {
    let scratch = Scratch::new();
    let silent = Silent::new();
    let checks = SingleCore { dir: scratch.path().to_owned(), silent: silent.address() };
    launch(&LaunchOptions::with_cores(1), checks).unwrap();
}

/// Sets the flag when it is dropped.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Launches the checks of several cores, on two cores, beside so many computing threads that every
/// core has to wait for its CPU at any point of its work. Wake-ups that can get lost get lost then.
pub(crate) fn run_two_busy_cores(launch: impl FnOnce(&LaunchOptions, MultiCore) -> io::Result<()>) {
    let is_over = AtomicBool::new(false);
    let neighbours = thread::available_parallelism().map_or(1, NonZero::get) + 1;
    thread::scope(|scope| {
        let _raised = Raised(&is_over);
        for _ in 0..neighbours {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    spin_loop()
                }
            });
        }
        run_two_cores(launch);
    });
}

/// Launches the checks of several cores, on two.
pub(crate) fn run_two_cores(launch: impl FnOnce(&LaunchOptions, MultiCore) -> io::Result<()>) {
    launch(&LaunchOptions::with_cores(2), MultiCore::new(2).with_even_listeners()).unwrap();
}
