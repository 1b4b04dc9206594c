//! Everything that a core gets from outside itself: tasks, time, randomness,
//! files, sockets, other cores and side threads.
//!
//! One trait, [`Runtime`], has three backends: `monoio` (io_uring, or epoll where
//! io_uring is refused), `glommio`, and `sim`, a deterministic simulation with a
//! disk that fails in every way a disk may. Code above this crate names no
//! backend; it takes `R: Runtime` and obtains everything through that value, so
//! that a simulation seed replays exactly. One conformance suite
//! ([`conformance`]) runs over all backends.
//!
//! What must be absent: this crate knows nothing of logs, tenants or HTTP.
//!
//! # Contract shared by all backends
//!
//! - Buffers are owned: an operation takes a `Vec<u8>` and gives it back with the
//!   result. Reads append at `len..capacity`; they never grow a buffer.
//! - Deadlines are arguments. An operation that passes its deadline fails with
//!   [`std::io::ErrorKind::TimedOut`]; bytes may have been consumed by then, so
//!   the stream must be closed, never used again.
//! - Dropping a task handle detaches the task.
//! - A failed [`File::sync_data`] poisons the file: every later write or sync on
//!   it fails. The kernel may have dropped the dirty pages, so trying again on
//!   the same pages would report success for lost bytes. So do a failed
//!   [`File::write_back`], for the same reason, and a failed write to a file whose writes
//!   are durable at once ([`OpenMode::CreateNewDurable`]).
//! - Files are read and written through the page cache, or in whole blocks around it
//!   ([`OpenMode::ReadDirect`], [`OpenMode::CreateNewDurable`],
//!   [`OpenMode::CreateNewDirect`]). Where a file system cannot
//!   do the latter, the same operations use the cache.
//! - [`Runtime::yield_now`] lets every other ready task and the I/O driver run.

mod account;
mod aligned;
mod balance;
mod bell;
mod budget;
mod clock;
mod closing;
mod commits;
pub mod conformance;
mod coop;
mod dial;
mod entropy;
mod fair_queue;
mod file_ops;
pub mod fuzz;
pub mod glommio_backend;
mod huge_pages;
mod interfaces;
mod latch;
mod launch;
mod leaving;
pub mod mesh;
pub mod monoio_backend;
mod names;
mod open_files;
mod owned_bytes;
mod owners;
mod pacer;
mod panics;
mod poison;
mod pool;
mod pressure;
mod priority;
mod published;
mod race;
mod ring_probe;
mod service_manager;
mod shared_cache;
mod shared_run;
mod side_thread;
mod signals;
pub mod sim;
mod socket;
mod spare;
mod srv;
#[cfg(test)]
mod testing;
mod traits;
mod turns;
mod udp;

pub use account::{Account, Denied, Grant};
pub use aligned::{AlignedBuffer, DIRECT_BLOCK_BYTES};
pub use bell::Bell;
pub use budget::{Budget, Reservation};
pub use dial::{Dial, PlainDialer, connect_host};
pub use fair_queue::{FairQueue, KeyBounds, Permit, QueueFull, Ticket};
pub use huge_pages::refuse_huge_pages;
pub use interfaces::{InterfaceAddress, interface_addresses};
pub use latch::{Latch, LatchWait};
pub use launch::LaunchOptions;
pub use leaving::{LEAVING_INTERVAL, LEAVING_PATIENCE, await_free_address, lock_holder_is_leaving};
pub use open_files::raise_open_files_limit;
pub use owned_bytes::OwnedBytes;
pub use owners::{OWNER_KINDS, Owner};
pub use pacer::give_way;
pub use pool::BufferPool;
pub use published::Published;
pub use service_manager::{ServiceManager, take_listener};
pub use shared_cache::SharedCache;
pub use shared_run::{Follower, Joined, Leader, SharedRuns};
pub(crate) use side_thread::SideThreads;
pub use signals::{FORCED_EXIT_CODE, handle_signals};
pub use spare::is_lack_of_descriptors;
pub use srv::{LOOK_UP_TIMEOUT, SrvError, SrvRecord, look_up_srv};
pub use traits::*;
pub use turns::{TURN_BYTES, Turns};
