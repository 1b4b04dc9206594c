//! The contract between a core's code and the machine under it.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::aligned::AlignedBuffer;
use crate::owned_bytes::OwnedBytes;

/// Number of a core within this process, from zero. Not the kernel's CPU number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct CoreId(pub u16);

impl CoreId {
    /// The core's place in an array with one slot per core.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

impl fmt::Display for CoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A point on the monotonic clock of this process, in nanoseconds since an
/// arbitrary origin that all cores share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// A deadline that never passes.
    pub const NEVER: Monotonic = Monotonic(u64::MAX);

    /// This point moved `duration` later; saturates at [`Monotonic::NEVER`].
    pub fn after(self, duration: Duration) -> Monotonic {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Monotonic(self.0.saturating_add(nanos))
    }

    /// Time from `earlier` to this point; zero if `earlier` is the later one.
    pub fn since(self, earlier: Monotonic) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// How [`Runtime::open`] treats an existing or missing file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenMode {
    /// The file must exist; it is opened for reading only.
    Read,
    /// The same. Small pieces are read, far apart: the system should not read what stands between
    /// them, or behind them.
    ReadPieces,
    /// The file must exist; it is opened for [`File::read_aligned_at`] alone, which goes around the
    /// page cache where the file system can do that. This mode is for data that is read once. It
    /// costs no copy and no pages. A page may have to be cleared, or on a virtual machine to be
    /// given by the host, at many times the price of a copy.
    ReadDirect,
    /// The file must exist; it is opened for reading and writing.
    ReadWrite,
    /// The file must not exist; it is created for reading and writing.
    CreateNew,
    /// The file must not exist; it is created for [`File::write_aligned_at`] alone, which returns
    /// when its bytes are durable, together with the length of the file. Writes go around the page
    /// cache where the file system can do that: copying data that is synced at once into the cache
    /// and out again costs ten times the CPU time. Other writes and reads are refused.
    CreateNewDurable,
    /// Like `CreateNewDurable`, but bytes are durable after [`File::sync_data`], as in an ordinary
    /// file. A length that is no multiple of a block ends in a padded block, which
    /// [`File::truncate`] cuts off before the sync.
    CreateNewDirect,
}

impl OpenMode {
    /// Whether the file is written in whole blocks out of aligned memory only.
    pub(crate) fn writes_blocks(self) -> bool {
        matches!(self, OpenMode::CreateNewDurable | OpenMode::CreateNewDirect)
    }

    /// Whether the file is read in whole blocks into aligned memory only.
    pub(crate) fn reads_blocks(self) -> bool {
        self == OpenMode::ReadDirect
    }

    /// Whether written bytes are durable when the write returns.
    pub(crate) fn is_durable(self) -> bool {
        self == OpenMode::CreateNewDurable
    }
}

/// One entry of [`Runtime::read_dir`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirEntry {
    /// Name within the folder, without the folder's own path.
    pub name: String,
    /// Whether the entry is itself a folder.
    pub is_dir: bool,
    /// Size in bytes; zero for folders.
    pub len_bytes: u64,
    /// When the content was last written, or its length set, by the clock of the file system, in ns
    /// since the Unix epoch; zero for folders. That clock may stand still for some milliseconds. A
    /// further name and a new one change nothing.
    pub modified_ns: i64,
}

/// The side threads that run a computation. Jobs of one queue wait for each other. Jobs of
/// different queues share the CPU time that cores leave. Heavy and long queries leave it to the
/// other queues between their jobs, and where a long job calls [`crate::give_way`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SideQueue {
    /// Work that takes data out of memory, for which pushes wait in the end, and other work that is
    /// waited for but too long for a core.
    Upkeep,
    /// Work that puts stored data in order. Pushes wait for it only if it falls far behind.
    Merging,
    /// Parts of queries, of some milliseconds each: the next query waits for a few of them.
    Queries,
    /// Parts of queries that have taken long already.
    HeavyQueries,
    /// Parts of queries without a bound on their time.
    LongQueries,
}

/// Space of the file system under a path, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskSpace {
    /// Size of the whole file system.
    pub total_bytes: u64,
    /// Bytes that this process may still allocate.
    pub available_bytes: u64,
}

/// The operations of the machine for a core. Cheap to clone; stays on its core.
#[allow(async_fn_in_trait)]
pub trait Runtime: Clone + 'static {
    /// An open file.
    type File: File;
    /// A listening TCP socket.
    type Listener: Listener<Reader = Self::Reader, Writer = Self::Writer>;
    /// The receiving half of a TCP connection.
    type Reader: Reader;
    /// The sending half of a TCP connection.
    type Writer: Writer;
    /// A bound UDP socket.
    type Datagrams: Datagrams;
    /// A handle to a spawned task; awaiting it gives the task's output,
    /// dropping it detaches the task.
    type Task<T: 'static>: Future<Output = T> + 'static;

    /// Name of the backend and of the driver in use, for the log and the
    /// metrics: `monoio/io_uring`, `monoio/epoll`, `glommio/io_uring`, `sim`.
    fn driver_name(&self) -> &'static str;

    /// The core this value belongs to.
    fn core(&self) -> CoreId;

    /// The number of cores that the process was launched on.
    fn core_count(&self) -> u16;

    /// The monotonic clock.
    fn now(&self) -> Monotonic;

    /// The wall clock, in nanoseconds since the Unix epoch.
    fn unix_nanos(&self) -> i64;

    /// A random number; from the seed in the simulation, from the operating
    /// system's generator (seeded once per core) elsewhere. Not for secrets.
    fn random_u64(&self) -> u64;

    /// Starts a task on this core.
    fn spawn<F>(&self, future: F) -> Self::Task<F::Output>
    where
        F: Future + 'static,
        F::Output: 'static;

    /// Runs a blocking or long computation on a side thread of a queue and gives its
    /// result. For work that would stall a core: it costs two thread wake-ups. Its threads
    /// have a lower priority than cores, which take the CPU from them at any time.
    async fn offload_to<T, F>(&self, queue: SideQueue, work: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static;

    /// [`Runtime::offload_to`] with [`SideQueue::Upkeep`].
    async fn offload<T, F>(&self, work: F) -> T
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.offload_to(SideQueue::Upkeep, work).await
    }

    /// Returns when the clock has reached `deadline`. Backends may be late by a
    /// timer tick (1 ms on monoio), never early.
    async fn sleep_until(&self, deadline: Monotonic);

    /// Lets every other ready task and the I/O driver make progress.
    async fn yield_now(&self);

    /// Listens on `address` with `SO_REUSEPORT`, so that every core may hold a
    /// listener on one port and the kernel spreads connections over them.
    fn listen(&self, address: SocketAddr) -> io::Result<Self::Listener>;

    /// Binds a UDP socket with `SO_REUSEPORT`, so that every core may hold one on one port and the
    /// kernel spreads senders over them. The kernel is asked to keep up to `buffer_bytes` of
    /// datagrams that nobody has received; it may grant less ([`Datagrams::buffer_bytes`]).
    fn bind_datagrams(
        &self,
        address: SocketAddr,
        buffer_bytes: usize,
    ) -> io::Result<Self::Datagrams>;

    /// Opens a TCP connection. On a real machine reads and writes fail when the other end has been
    /// silent for ten seconds, as if it were off: it has neither taken what was sent, nor said that it
    /// is there. One that only has nothing to say is not silent. The simulation holds what is sent over
    /// a link that is cut, and delivers it later.
    ///
    /// # Errors
    /// Nobody takes the connection. [`io::ErrorKind::TimedOut`] at the deadline.
    async fn connect(
        &self,
        address: SocketAddr,
        deadline: Monotonic,
    ) -> io::Result<(Self::Reader, Self::Writer)>;

    /// The addresses of a host, by the resolver of the system, in the order in which they are to
    /// be tried; at least one. A few names are asked for at a time, and further ones wait. The
    /// simulation has a table of hosts, and knows `localhost`.
    ///
    /// # Errors
    /// The host is not known, or the resolver does not answer. [`io::ErrorKind::TimedOut`] at the
    /// deadline; the resolver works on then, and its answer is dropped.
    async fn resolve(&self, host: &str, deadline: Monotonic) -> io::Result<Vec<IpAddr>>;

    /// Opens a file.
    async fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Self::File>;

    /// Creates a folder and its missing parents. Their durability needs
    /// [`Runtime::sync_dir`] on each parent.
    async fn create_dir_all(&self, path: &Path) -> io::Result<()>;

    /// What [`Runtime::read_dir`] of its folder tells of a file or a folder.
    async fn entry(&self, path: &Path) -> io::Result<DirEntry>;

    /// Lists a folder, sorted by name.
    async fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>>;

    /// Renames a file, replacing `to` if it exists. Durable after
    /// [`Runtime::sync_dir`] on the folder.
    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file a second name, which must not exist. Durable after [`Runtime::sync_dir`] on the
    /// folder of the new name.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`], [`io::ErrorKind::PermissionDenied`] or
    /// [`io::ErrorKind::CrossesDevices`] where the file system cannot do it.
    async fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes an empty folder. Durable after [`Runtime::sync_dir`] on its parent.
    async fn remove_dir(&self, path: &Path) -> io::Result<()>;

    /// Removes a file. Durable after [`Runtime::sync_dir`] on the folder.
    async fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// Makes creations, renames and removals in a folder durable.
    async fn sync_dir(&self, path: &Path) -> io::Result<()>;

    /// Space on the file system that holds `path`.
    async fn disk_space(&self, path: &Path) -> io::Result<DiskSpace>;

    /// Takes an exclusive lock on the file at `path`, creating it if needed, so
    /// that a second process cannot use the same data. The lock lives as long as
    /// the returned file. [`io::ErrorKind::WouldBlock`] if another holds it.
    async fn lock_file(&self, path: &Path) -> io::Result<Self::File>;

    /// Reads a whole small file (configuration, manifests). Fails with
    /// [`io::ErrorKind::FileTooLarge`] if it holds more than `max_bytes`.
    async fn read_file(&self, path: &Path, max_bytes: usize) -> io::Result<Vec<u8>> {
        let file = self.open(path, OpenMode::Read).await?;
        let len_bytes = file.len_bytes().await?;
        if len_bytes > max_bytes as u64 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let (result, buffer) =
            file.read_exact_at(Vec::with_capacity(len_bytes as usize), 0, len_bytes as usize).await;
        result.map(|()| buffer)
    }

    /// Writes a whole small file so that after a crash it holds either its old
    /// content or the new one: temporary file, sync, rename, folder sync.
    async fn replace_file(&self, path: &Path, content: Vec<u8>) -> io::Result<()> {
        let temporary = temporary_path(path);
        match self.remove_file(&temporary).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = self.open(&temporary, OpenMode::CreateNew).await?;
        let (result, _) = file.write_all_at(content, 0).await;
        result?;
        file.sync_data().await?;
        self.rename(&temporary, path).await?;
        self.sync_dir(path.parent().unwrap_or(Path::new("."))).await
    }
}

/// Where [`Runtime::replace_file`] writes before it renames. Left-overs of a
/// crash carry this ending and may be removed at start.
pub fn temporary_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    PathBuf::from(name)
}

/// An open file. Operations may run at the same time through shared references;
/// the file closes when the value is dropped.
#[allow(async_fn_in_trait)]
pub trait File: 'static {
    /// Reads at `offset_bytes` into `buffer[len..capacity]` and extends `buffer` by the bytes read.
    /// `Ok(0)` means end of file (or no spare capacity).
    async fn read_at(&self, buffer: Vec<u8>, offset_bytes: u64) -> (io::Result<usize>, Vec<u8>);

    /// Reads exactly `count_bytes` at `offset_bytes`, appended to `buffer`, whose
    /// capacity grows if needed. [`io::ErrorKind::UnexpectedEof`] if the file
    /// ends before.
    async fn read_exact_at(
        &self,
        mut buffer: Vec<u8>,
        offset_bytes: u64,
        count_bytes: usize,
    ) -> (io::Result<()>, Vec<u8>) {
        let start = buffer.len();
        buffer.reserve_exact(count_bytes);
        while buffer.len() - start < count_bytes {
            let done = buffer.len() - start;
            let (result, returned) = self.read_at(buffer, offset_bytes + done as u64).await;
            buffer = returned;
            match result {
                Ok(0) => return (Err(io::ErrorKind::UnexpectedEof.into()), buffer),
                // A reused buffer may have more room than requested.
                Ok(_) => buffer.truncate(start + count_bytes),
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(()), buffer)
    }

    /// Replaces the buffer's content by the file's bytes from `offset_bytes` on: `count_bytes`, or
    /// as many as there are before the end of the file. Both numbers must be multiples of
    /// [`crate::DIRECT_BLOCK_BYTES`], else it is [`io::ErrorKind::InvalidInput`]. Memory that is
    /// large enough is used again.
    async fn read_aligned_at(
        &self,
        buffer: AlignedBuffer,
        count_bytes: usize,
        offset_bytes: u64,
    ) -> (io::Result<()>, AlignedBuffer);

    /// Writes the whole buffer at `offset_bytes`, extending the file if needed.
    /// After an error any part of the range may hold old or new bytes.
    async fn write_all_at(&self, buffer: Vec<u8>, offset_bytes: u64) -> (io::Result<()>, Vec<u8>);

    /// Like [`File::write_all_at`], from aligned memory. In a file of
    /// [`OpenMode::CreateNewDurable`] the bytes are durable when this succeeds, and a failure
    /// poisons the file. There and in one of [`OpenMode::CreateNewDirect`], a length or an
    /// offset that is not a multiple of [`crate::DIRECT_BLOCK_BYTES`] is
    /// [`io::ErrorKind::InvalidInput`].
    async fn write_aligned_at(
        &self,
        buffer: AlignedBuffer,
        offset_bytes: u64,
    ) -> (io::Result<()>, AlignedBuffer);

    /// Makes all completed writes durable (`fdatasync`). See the crate's contract
    /// about failures.
    async fn sync_data(&self) -> io::Result<()>;

    /// Brings written bytes of a range to the device, and waits for that (`sync_file_range`), so
    /// that a later sync finds little to do. Makes nothing durable, and does nothing where the file
    /// system cannot do it.
    ///
    /// # Errors
    /// A failure poisons the file like a failed sync: the system reports bytes that it could not
    /// write only once, so the later sync would not fail for them.
    async fn write_back(&self, range: Range<u64>) -> io::Result<()>;

    /// Reserves space for `0..len_bytes` and extends the file to that length;
    /// new bytes read as zero. [`io::ErrorKind::StorageFull`] without space.
    /// Never shrinks a file.
    async fn allocate(&self, len_bytes: u64) -> io::Result<()>;

    /// Cuts the file, or extends it with zeros, to `len_bytes`.
    async fn truncate(&self, len_bytes: u64) -> io::Result<()>;

    /// Current length in bytes.
    async fn len_bytes(&self) -> io::Result<u64>;
}

/// A connection that was accepted in spite of a lack of descriptors.
pub struct SpareConnection<Rd, W> {
    /// Its receiving half.
    pub reader: Rd,
    /// Its sending half.
    pub writer: W,
    /// The other end.
    pub peer: SocketAddr,
    /// Whether there are descriptors again, so that it need not be one of the spare ones.
    pub has_descriptor: bool,
}

/// A listening socket of one core.
#[allow(async_fn_in_trait)]
pub trait Listener: 'static {
    /// Receiving half of accepted connections.
    type Reader: Reader;
    /// Sending half of accepted connections.
    type Writer: Writer;

    /// Waits for the next connection. Errors such as running out of file
    /// descriptors are passing: wait a little and accept again. The future may
    /// be dropped at any time; no connection is lost. One task at a time may
    /// accept from a listener.
    async fn accept(&self) -> io::Result<(Self::Reader, Self::Writer, SocketAddr)>;

    /// Waits for the next connection after [`Listener::accept`] has failed for lack of descriptors
    /// ([`crate::is_lack_of_descriptors`]), and takes it with a spare descriptor, of which the
    /// listener keeps a few. The caller has to refuse and close the connection soon, unless
    /// [`SpareConnection::has_descriptor`]. Fails in the same way if all spare descriptors are in
    /// use or the listener has none. May be dropped like `accept`.
    async fn accept_with_spare(&self) -> io::Result<SpareConnection<Self::Reader, Self::Writer>> {
        Err(io::Error::from_raw_os_error(libc::EMFILE))
    }

    /// The bound address, with the chosen port if port 0 was requested.
    fn local_address(&self) -> io::Result<SocketAddr>;
}

/// What [`Datagrams::receive`] has received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// The address that it came from. Anybody can write any address on a datagram.
    pub sender: SocketAddr,
    /// Its length as it was sent, of which the buffer got what it had room for.
    pub len_bytes: usize,
}

/// A bound UDP socket of one core. Datagrams may get lost, and may overtake each other.
#[allow(async_fn_in_trait)]
pub trait Datagrams: 'static {
    /// Waits for the next datagram, and appends it at `len..capacity` of the buffer. What the
    /// buffer has no room for is lost. An empty datagram is one, too. A buffer without spare
    /// capacity is [`io::ErrorKind::InvalidInput`], and takes no datagram.
    ///
    /// The future may be dropped at any time; no datagram is lost then, but the buffer is. One task
    /// at a time may receive from a socket. Errors are passing.
    async fn receive(&self, buffer: Vec<u8>) -> (io::Result<Datagram>, Vec<u8>);

    /// Sends a datagram without waiting: [`io::ErrorKind::WouldBlock`] if the system has no room
    /// for it. Success does not mean that it arrives.
    fn send(&self, bytes: &[u8], receiver: SocketAddr) -> io::Result<()>;

    /// How many datagrams have come to this socket and were dropped since it was bound, because
    /// there was no room for them.
    fn dropped(&self) -> io::Result<u64>;

    /// Memory that the system grants for datagrams that nobody has received, with its own
    /// accounting of each.
    fn buffer_bytes(&self) -> io::Result<usize>;

    /// The bound address, with the chosen port if port 0 was requested.
    fn local_address(&self) -> io::Result<SocketAddr>;
}

/// The receiving half of a connection.
#[allow(async_fn_in_trait)]
pub trait Reader: 'static {
    /// Reads into `buffer[len..capacity]` and extends `buffer` by the bytes read. `Ok(0)` means
    /// that the peer closed its side (or no spare capacity).
    ///
    /// After a read that timed out every later one fails with
    /// [`io::ErrorKind::TimedOut`], because bytes may be missing between. The
    /// sending half goes on working. The future must be driven to its end:
    /// dropping it midway may lose bytes.
    async fn read(&mut self, buffer: Vec<u8>, deadline: Monotonic) -> (io::Result<usize>, Vec<u8>);
}

/// The sending half of a connection. The connection closes when both halves are
/// dropped.
#[allow(async_fn_in_trait)]
pub trait Writer: 'static {
    /// Writes the whole buffer and gives it back. A write that times out ends
    /// the connection in both directions.
    async fn write_all<B: OwnedBytes>(
        &mut self,
        buffer: B,
        deadline: Monotonic,
    ) -> (io::Result<()>, B);

    /// Sends everything written and then the end-of-stream mark. The reader of
    /// this connection goes on receiving for about a second, so that a peer that
    /// still sends gets no reset; then its reads, the pending one included, end
    /// with an error or end of stream.
    async fn shutdown(&mut self) -> io::Result<()>;

    /// Says goodbye before both halves are dropped, where the protocol has a word for
    /// it. TCP has none, so by default there is nothing to do.
    async fn close(&mut self) {}
}
