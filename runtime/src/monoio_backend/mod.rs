//! The monoio backend: io_uring, or epoll where io_uring is refused.
//!
//! Traps of monoio 0.2.4, and how this backend avoids them:
//!
//! - Its own yield puts the task back to the front of the run queue, so that
//!   neither the ring nor timers run. [`Runtime::yield_now`] waits for a trivial
//!   event instead, see `yielding.rs`.
//! - Reads fill a buffer from its start: slices from `len` on are passed.
//! - A cancelled accept or open leaks the descriptor that it completes with:
//!   accepting is a readiness wait plus a plain `accept4`, opening is a blocking
//!   call on a side thread.
//! - A cancelled read loses bytes: deadlines end a read by shutting the socket
//!   down, never by dropping it, so that the buffer always comes back.
//! - The epoll driver does file operations on the core's thread: there they go
//!   to side threads.
//! - `DEFER_TASKRUN` is not among the ring's flags: while tasks are ready monoio
//!   enters the ring without `GETEVENTS`, and completions would wait.
//! - Timers tick at 1 ms.
//!
//! When `main` returns on a core, tasks that still wait for the driver are
//! forgotten together with the sockets they own; that is for the end of the
//! process.

mod datagrams;
mod driver;
mod file;
mod net;
mod yielding;

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;

pub use datagrams::MonoioDatagrams;
pub use driver::{MonoioDriver, launch};
pub use file::MonoioFile;
pub use net::{MonoioListener, MonoioReader, MonoioWriter};

use crate::entropy::Entropy;
use crate::launch::CoreContext;
use crate::race::race;
use crate::{CoreId, DirEntry, DiskSpace, Monotonic, OpenMode, Runtime, SideQueue, SideThreads};
use crate::{clock, file_ops, names};
use driver::ChosenDriver;
use yielding::Yielder;

/// One core of the monoio backend.
#[derive(Clone)]
pub struct MonoioRuntime {
    shared: Rc<Shared>,
}

struct Shared {
    context: CoreContext,
    driver: ChosenDriver,
    entropy: Entropy,
    yielder: Yielder,
}

impl MonoioRuntime {
    /// Must be called within the driver's context.
    fn new(context: CoreContext, driver: ChosenDriver) -> io::Result<MonoioRuntime> {
        let entropy = Entropy::from_system()?;
        let yielder = Yielder::new(driver)?;
        Ok(MonoioRuntime { shared: Rc::new(Shared { context, driver, entropy, yielder }) })
    }

    fn side(&self) -> &SideThreads {
        &self.shared.context.side
    }
}

/// Sleeps at least until `deadline`, however far it is.
async fn sleep_until(deadline: Monotonic) {
    if deadline == Monotonic::NEVER {
        std::future::pending::<()>().await;
    }
    while clock::now() < deadline {
        sleep_once(deadline).await;
    }
}

/// One timer; ends at `deadline` or after [`clock::LONGEST_TIMER`].
fn sleep_once(deadline: Monotonic) -> monoio::time::Sleep {
    monoio::time::sleep_until(monoio::time::Instant::from_std(clock::instant_of(deadline)))
}

impl Runtime for MonoioRuntime {
    type File = MonoioFile;
    type Listener = MonoioListener;
    type Reader = MonoioReader;
    type Writer = MonoioWriter;
    type Datagrams = MonoioDatagrams;
    type Task<T: 'static> = monoio::task::JoinHandle<T>;

    fn driver_name(&self) -> &'static str {
        match self.shared.driver {
            ChosenDriver::Ring => "monoio/io_uring",
            ChosenDriver::Epoll => "monoio/epoll",
        }
    }

    fn core(&self) -> CoreId {
        self.shared.context.core
    }

    fn core_count(&self) -> u16 {
        self.shared.context.core_count
    }

    fn now(&self) -> Monotonic {
        clock::now()
    }

    fn unix_nanos(&self) -> i64 {
        clock::unix_nanos()
    }

    fn random_u64(&self) -> u64 {
        self.shared.entropy.next()
    }

    fn spawn<F>(&self, future: F) -> Self::Task<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        monoio::spawn(future)
    }

    async fn offload_to<T, F>(&self, queue: SideQueue, work: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.side().work(queue, work).await
    }

    async fn sleep_until(&self, deadline: Monotonic) {
        sleep_until(deadline).await;
    }

    async fn yield_now(&self) {
        self.shared.yielder.yield_now().await;
    }

    fn listen(&self, address: SocketAddr) -> io::Result<MonoioListener> {
        MonoioListener::bind(address, self.clone())
    }

    fn bind_datagrams(
        &self,
        address: SocketAddr,
        buffer_bytes: usize,
    ) -> io::Result<MonoioDatagrams> {
        MonoioDatagrams::bind(address, buffer_bytes, self.clone())
    }

    async fn connect(
        &self,
        address: SocketAddr,
        deadline: Monotonic,
    ) -> io::Result<(MonoioReader, MonoioWriter)> {
        net::connect(self, address, deadline).await
    }

    async fn resolve(&self, host: &str, deadline: Monotonic) -> io::Result<Vec<IpAddr>> {
        let host = host.to_owned();
        let look_up = pin!(self.side().name(move || names::look_up(&host)));
        match race(look_up, || sleep_until(deadline)).await {
            Some(found) => found,
            None => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn open(&self, path: &Path, mode: OpenMode) -> io::Result<MonoioFile> {
        let path = path.to_owned();
        let file = self.side().file(move || file_ops::open(&path, mode)).await?;
        MonoioFile::new(file, mode, self.clone())
    }

    async fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.side().file(move || file_ops::create_dir_all(&path)).await
    }

    async fn entry(&self, path: &Path) -> io::Result<DirEntry> {
        let path = path.to_owned();
        self.side().file(move || file_ops::entry(&path)).await
    }

    async fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let path = path.to_owned();
        self.side().file(move || file_ops::read_dir(&path)).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.side().file(move || file_ops::rename(&from, &to)).await
    }

    async fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.side().file(move || file_ops::hard_link(&from, &to)).await
    }

    async fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.side().file(move || file_ops::remove_dir(&path)).await
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.side().remove_file(path.to_owned()).await
    }

    async fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.side().file(move || file_ops::sync_dir(&path)).await
    }

    async fn disk_space(&self, path: &Path) -> io::Result<DiskSpace> {
        let path = path.to_owned();
        self.side().file(move || file_ops::disk_space(&path)).await
    }

    async fn lock_file(&self, path: &Path) -> io::Result<MonoioFile> {
        let path = path.to_owned();
        let file = self.side().file(move || file_ops::lock(&path)).await?;
        MonoioFile::new(file, OpenMode::ReadWrite, self.clone())
    }
}
