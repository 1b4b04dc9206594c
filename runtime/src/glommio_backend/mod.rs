//! The glommio backend: io_uring only.
//!
//! Traps of glommio 0.9.0, and how this backend avoids them:
//!
//! - It sleeps through wake-ups from other threads, and beside ready tasks: other threads
//!   wake tasks by a notifier of our own, see `notifier.rs`, and its preemption timer never fires.
//! - Queues with `Latency::Matters` make that much more likely: everything runs in the
//!   default queue, which has none.
//! - `spawn_local` polls the new task at once, inside the caller: tasks are put
//!   into the queue instead, as on the other backends.
//! - Dropping a task cancels it: tasks are detached, see [`GlommioTask`].
//! - Its yield returns without entering the rings until the preemption timer
//!   fires: [`Runtime::yield_now`] reads a byte from /dev/zero through the ring.
//! - A read timeout whose read has ended expires the next read of the stream: no stream has one;
//!   deadlines are timers of our own.
//! - Its listener leaks the connection of an accept that is dropped: accepting
//!   is a readiness wait plus a plain `accept4`.
//! - It offers no readiness of UDP sockets, and a receive that is dropped loses a datagram: waiting
//!   is a peek, receiving is a plain `recvfrom`.
//! - Files swallow the buffers that they write: a write costs a copy, and so
//!   does a read.
//! - It refuses to start below 512 KiB of memlock.

mod datagrams;
mod driver;
mod file;
mod net;
mod notifier;

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{FromRawFd, IntoRawFd};
use std::path::Path;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use glommio::io::BufferedFile;

pub use datagrams::GlommioDatagrams;
pub use driver::launch;
pub use file::GlommioFile;
pub use net::{GlommioListener, GlommioReader, GlommioWriter};

use self::notifier::{Notified, Notifier};
use crate::entropy::Entropy;
use crate::launch::CoreContext;
use crate::race::race;
use crate::{CoreId, DirEntry, DiskSpace, Monotonic, OpenMode, Runtime, SideQueue, SideThreads};
use crate::{clock, file_ops, names};

/// One core of the glommio backend.
#[derive(Clone)]
pub struct GlommioRuntime {
    shared: Rc<Shared>,
}

struct Shared {
    context: CoreContext,
    entropy: Entropy,
    /// /dev/zero, for yields.
    zero: BufferedFile,
    notifier: Arc<Notifier>,
}

impl GlommioRuntime {
    /// Must be called within the executor, once.
    fn new(context: CoreContext) -> io::Result<GlommioRuntime> {
        let entropy = Entropy::from_system()?;
        let zero = ring_file(file_ops::open(Path::new("/dev/zero"), OpenMode::Read)?);
        let (notifier, listening) = Notifier::new()?;
        drop(spawn_as_it_is(listening));
        Ok(GlommioRuntime { shared: Rc::new(Shared { context, entropy, zero, notifier }) })
    }

    /// The future, made fit to be a task of this core.
    fn notified<F: Future>(&self, future: F) -> Notified<F> {
        Notified::new(&self.shared.notifier, future)
    }

    fn side(&self) -> &SideThreads {
        &self.shared.context.side
    }
}

/// Starts a task that no other thread must wake.
fn spawn_as_it_is<F: Future<Output: 'static> + 'static>(
    future: F,
) -> glommio::task::JoinHandle<F::Output> {
    let queue = glommio::TaskQueueHandle::default();
    glommio::spawn_local_into(future, queue).expect("the default queue stays").detach()
}

/// Gives an open file to the executor's ring.
fn ring_file(file: std::fs::File) -> BufferedFile {
    // SAFETY: the descriptor is open, and `into_raw_fd` gives up its ownership.
    unsafe { BufferedFile::from_raw_fd(file.into_raw_fd()) }
}

/// Sleeps at least until `deadline`, however far it is.
async fn sleep_until(deadline: Monotonic) {
    if deadline == Monotonic::NEVER {
        std::future::pending::<()>().await;
    }
    while clock::now() < deadline {
        glommio::timer::Timer::new(clock::time_until(deadline)).await;
    }
}

/// A spawned task; awaiting it gives its output, dropping it detaches it.
pub struct GlommioTask<T> {
    handle: glommio::task::JoinHandle<T>,
}

impl<T> Future for GlommioTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.handle)
            .poll(cx)
            .map(|output| output.expect("a task ends early only if it is cancelled, which none is"))
    }
}

impl Runtime for GlommioRuntime {
    type File = GlommioFile;
    type Listener = GlommioListener;
    type Reader = GlommioReader;
    type Writer = GlommioWriter;
    type Datagrams = GlommioDatagrams;
    type Task<T: 'static> = GlommioTask<T>;

    fn driver_name(&self) -> &'static str {
        "glommio/io_uring"
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
        GlommioTask { handle: spawn_as_it_is(self.notified(future)) }
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
        // Whatever the result of the read, it came through the ring.
        let _ = self.shared.zero.read_at(0, 1).await;
    }

    fn listen(&self, address: SocketAddr) -> io::Result<GlommioListener> {
        GlommioListener::bind(address, self.clone())
    }

    fn bind_datagrams(
        &self,
        address: SocketAddr,
        buffer_bytes: usize,
    ) -> io::Result<GlommioDatagrams> {
        GlommioDatagrams::bind(address, buffer_bytes, self.clone())
    }

    async fn connect(
        &self,
        address: SocketAddr,
        deadline: Monotonic,
    ) -> io::Result<(GlommioReader, GlommioWriter)> {
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

    async fn open(&self, path: &Path, mode: OpenMode) -> io::Result<GlommioFile> {
        let path = path.to_owned();
        let file = self.side().file(move || file_ops::open(&path, mode)).await?;
        Ok(GlommioFile::new(file, mode, self.side().clone()))
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

    async fn lock_file(&self, path: &Path) -> io::Result<GlommioFile> {
        let path = path.to_owned();
        let file = self.side().file(move || file_ops::lock(&path)).await?;
        Ok(GlommioFile::new(file, OpenMode::ReadWrite, self.side().clone()))
    }
}
