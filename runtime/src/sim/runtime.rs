//! One core of a simulated node.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use super::completion::{Completion, completion};
use super::costs;
use super::datagrams::SimDatagrams;
use super::disk::Disk;
use super::disk_faults::DiskOperation;
use super::file::SimFile;
use super::network::{Network, SimListener};
use super::stream::{SimReader, SimWriter};
use super::timer::Timer;
use super::world::{Fate, NodeId, World};
use crate::{CoreId, DirEntry, DiskSpace, Monotonic, OpenMode, Runtime, SideQueue};

/// How long offloaded work takes until its result is back, in nanoseconds.
const OFFLOAD_NANOS: std::ops::RangeInclusive<u64> = 10_000..=3_000_000;

/// The state that the cores of a node share.
pub(super) struct NodeState {
    pub(super) id: NodeId,
    pub(super) cores: u16,
    pub(super) disk: Disk,
    pub(super) is_alive: Cell<bool>,
    /// Cores whose `main` has not returned.
    pub(super) running_cores: Cell<u16>,
}

impl NodeState {
    /// Ends the process, be it by its own will or not.
    pub(super) fn end(&self, world: &World) {
        if self.is_alive.replace(false) {
            world.interrupt_actions(self.id);
            world.drop_tasks(self.id, None);
        }
    }
}

/// One core of the simulation.
#[derive(Clone)]
pub struct SimRuntime {
    pub(super) world: Rc<World>,
    pub(super) network: Rc<Network>,
    pub(super) node: Rc<NodeState>,
    pub(super) core: CoreId,
    /// Whether it tells the right time, whatever the clock of the node shows.
    pub(super) is_exact: bool,
}

impl SimRuntime {
    /// The same core with the right clock: for what is outside the node, and shares its thread.
    pub fn exact(&self) -> SimRuntime {
        SimRuntime { is_exact: true, ..self.clone() }
    }

    /// The time by the right clock of a time by this core's.
    pub(super) fn right(&self, own: Monotonic) -> Monotonic {
        if self.is_exact { own } else { self.world.clocks.right(self.node.id, own) }
    }

    /// Hands an operation to the kernel: it happens `delay_nanos` from now, whether or not a task
    /// waits for it, unless the node crashes before.
    pub(super) fn submit<T: 'static>(
        &self,
        delay_nanos: u64,
        action: impl FnOnce(Fate) -> T + 'static,
    ) -> Completion<T> {
        self.world.submit(Some(self.node.id), delay_nanos, action)
    }

    async fn on_disk<T: 'static>(
        &self,
        operation: DiskOperation,
        action: impl FnOnce(&Disk) -> io::Result<T> + 'static,
    ) -> io::Result<T> {
        let disk = self.node.disk.clone();
        let delay_nanos = disk.state.latency_nanos(operation);
        let world = Rc::clone(&self.world);
        self.submit(delay_nanos, move |_| {
            let result = action(&disk);
            world.note(u64::from(result.is_ok()));
            result
        })
        .await
    }
}

/// A spawned task of the simulation; gives its output when awaited.
pub struct SimTask<T> {
    output: Completion<T>,
}

impl<T> Future for SimTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.output).poll(cx)
    }
}

impl Runtime for SimRuntime {
    type File = SimFile;
    type Listener = SimListener;
    type Reader = SimReader;
    type Writer = SimWriter;
    type Datagrams = SimDatagrams;
    type Task<T: 'static> = SimTask<T>;

    fn driver_name(&self) -> &'static str {
        "sim"
    }

    fn core(&self) -> CoreId {
        self.core
    }

    fn core_count(&self) -> u16 {
        self.node.cores
    }

    fn now(&self) -> Monotonic {
        let right_nanos = self.world.now_nanos();
        if self.is_exact {
            return Monotonic(right_nanos);
        }
        self.world.clocks.own(self.node.id, right_nanos)
    }

    fn unix_nanos(&self) -> i64 {
        let ahead_nanos = self.world.clocks.ahead_nanos(self.node.id);
        let right_nanos = self.world.unix_nanos();
        if self.is_exact { right_nanos } else { right_nanos.saturating_add(ahead_nanos) }
    }

    fn random_u64(&self) -> u64 {
        self.world.application.next_u64()
    }

    fn spawn<F>(&self, future: F) -> SimTask<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static,
    {
        let (completer, output) = completion();
        // A destructor may spawn while its node crashes; nothing runs there.
        if self.node.is_alive.get() {
            let task = async move { completer.complete(future.await) };
            self.world.spawn(self.node.id, self.core, task);
        }
        SimTask { output }
    }

    async fn offload_to<T, F>(&self, _: SideQueue, work: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let delay_nanos = self.node.disk.state.random.within(&OFFLOAD_NANOS);
        let look_nanos = self.world.look_nanos();
        let done = self.submit(delay_nanos, move |_| costs::of(look_nanos, work));
        let (result, owed_nanos) = done.await;
        if owed_nanos > 0 {
            self.submit(owed_nanos, |_| ()).await;
        }
        result
    }

    async fn sleep_until(&self, deadline: Monotonic) {
        let mut timer = Timer::new(Rc::clone(&self.world));
        let deadline = self.right(deadline);
        poll_fn(|cx| timer.poll(deadline, cx)).await;
    }

    async fn yield_now(&self) {
        let mut round = None;
        poll_fn(|cx| {
            let round = *round.get_or_insert_with(|| self.world.begin_yield());
            if self.world.round() >= round {
                return Poll::Ready(());
            }
            self.world.wake_in_round(round, cx.waker().clone());
            Poll::Pending
        })
        .await;
    }

    fn listen(&self, address: SocketAddr) -> io::Result<SimListener> {
        self.network.listen(self, address)
    }

    fn bind_datagrams(&self, address: SocketAddr, buffer_bytes: usize) -> io::Result<SimDatagrams> {
        Ok(SimDatagrams::bind(self, address, buffer_bytes))
    }

    async fn connect(
        &self,
        address: SocketAddr,
        deadline: Monotonic,
    ) -> io::Result<(SimReader, SimWriter)> {
        Network::connect(self, address, deadline).await
    }

    async fn resolve(&self, host: &str, deadline: Monotonic) -> io::Result<Vec<IpAddr>> {
        let (answer, delay) = self.network.hosts.look_up(host);
        let arrival = self.now().after(Duration::from_nanos(self.network.delay_nanos()) + delay);
        self.sleep_until(arrival.min(deadline)).await;
        if self.now() >= deadline { Err(io::ErrorKind::TimedOut.into()) } else { answer }
    }

    async fn open(&self, path: &Path, mode: OpenMode) -> io::Result<SimFile> {
        let path = path.to_owned();
        let open = self.on_disk(DiskOperation::Open, move |disk| disk.open(&path, mode)).await?;
        Ok(SimFile::new(self.clone(), open, mode))
    }

    async fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.on_disk(DiskOperation::CreateDir, move |disk| disk.create_dir_all(&path)).await
    }

    async fn entry(&self, path: &Path) -> io::Result<DirEntry> {
        let path = path.to_owned();
        self.on_disk(DiskOperation::ReadDir, move |disk| disk.entry(&path)).await
    }

    async fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let path = path.to_owned();
        self.on_disk(DiskOperation::ReadDir, move |disk| disk.read_dir(&path)).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.on_disk(DiskOperation::Rename, move |disk| disk.rename(&from, &to)).await
    }

    async fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        let (from, to) = (from.to_owned(), to.to_owned());
        self.on_disk(DiskOperation::Rename, move |disk| disk.hard_link(&from, &to)).await
    }

    async fn remove_dir(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.on_disk(DiskOperation::Remove, move |disk| disk.remove_dir(&path)).await
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.on_disk(DiskOperation::Remove, move |disk| disk.remove_file(&path)).await
    }

    async fn sync_dir(&self, path: &Path) -> io::Result<()> {
        let path = path.to_owned();
        self.on_disk(DiskOperation::SyncDir, move |disk| disk.sync_dir(&path)).await
    }

    async fn disk_space(&self, path: &Path) -> io::Result<DiskSpace> {
        let path = path.to_owned();
        self.on_disk(DiskOperation::ReadDir, move |disk| disk.space(&path)).await
    }

    async fn lock_file(&self, path: &Path) -> io::Result<SimFile> {
        let path = path.to_owned();
        let open = self.on_disk(DiskOperation::Open, move |disk| disk.lock(&path)).await?;
        Ok(SimFile::new(self.clone(), open, OpenMode::ReadWrite))
    }
}
