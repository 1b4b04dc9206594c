//! Brings the write-ahead logs of a node's shards into the bucket, so that an acknowledged entry
//! outlives the node's disk (`wal.durability = store`).
//!
//! Each core's host gives the [`Sink`] on core 0 what it has written to its log files, piece by piece
//! ([`SinkEnd::send`]). The sink makes objects of the pieces of all cores, entries of the log
//! `wal/<epoch>` in the bucket ([`logsvc_store::log`]), and confirms the pieces to the cores when the
//! objects count. A host answers a push when the piece with its entries is confirmed.
//!
//! Guarantees:
//! - Pieces of a core count in the order in which they were sent, and are confirmed in that order.
//!   A piece is sent after it is in the local file, so the bucket never has more than the disk has.
//! - Nothing is confirmed before the node's log of edits in the bucket says that `wal/<epoch>` is
//!   there. So whoever takes over knows of it, fences it and finds all that was acknowledged
//!   ([`restore`]), or its heirs do ([`heritage`]).
//! - Nothing is confirmed any more once the log was taken over.
//! - Bytes on their way stay below [`SinkConfig::waiting_max_bytes`]. A core whose piece has found
//!   no room for [`PATIENCE`] sends it nevertheless, and takes no further entries: so there may be two
//!   frames per core more.
//! - Memory of pieces and objects serves again while there are further ones, and is freed when the
//!   bucket has all ([`spare`]).
//! - An object stays until live segments hold all entries of its files ([`WalIndex`]). The newest one
//!   stays, too, until somebody asks for the end of the log: then an object without pieces follows.
//!
//! What has to hold besides: `wal.sync = always`. With other policies a loss of power may take
//! entries from the disk that the bucket has, and the folder goes on without them.
//!
//! Failures: a bucket that is slow or away leaves unconfirmed pieces ([`SinkEnd::trouble`]), which
//! are written again and again, and with other numbers if the store keeps the beginning of one. A log
//! that was taken over, or that another process writes, ends the sink ([`Sink::run`]).

mod end;
pub mod heritage;
mod index;
pub(crate) mod pieces;
mod restore;
mod run;
mod spare;
mod status;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use flume::{Receiver, Sender};
use logsvc_runtime::{Budget, CoreId, Reservation, Runtime};
use logsvc_store::log::{IN_FLIGHT_MAX, LogName};
use logsvc_store::{NameError, Store};

use crate::wal::format::WalName;

pub(crate) use self::end::{SinkEnd, Trouble};
pub use self::index::WalIndex;
pub use self::pieces::PieceError;
pub use self::restore::RestoreError;
pub(crate) use self::restore::restore;
pub use self::run::Sink;
use self::run::Ways;
use self::spare::Spares;
pub use self::status::{SentMark, SinkNumbers, SinkStatus};

/// How long nothing may be confirmed before pushes are refused.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Pieces whose memory waits for others, for each core.
const SPARE_PIECES_PER_CORE: usize = 2;
/// Longer pieces are rare, and their memory is freed.
const SPARE_PIECE_MAX_BYTES: usize = 2 << 20;
/// Objects whose memory waits for others.
const SPARE_OBJECTS: usize = 2;

/// Where the logs are, below the prefix of the bucket.
pub(crate) const FOLDER: &str = "wal";

/// Settings of a sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkConfig {
    /// How long an object waits for more pieces after its first one.
    pub max_delay: Duration,
    /// Payload of an object in bytes: above 4 KiB, and at most
    /// [`PAYLOAD_MAX_BYTES`](logsvc_store::object::PAYLOAD_MAX_BYTES). A start that takes over holds
    /// 16 of them in memory.
    pub max_bytes: usize,
    /// Objects that are on their way at once, at most [`IN_FLIGHT_MAX`].
    pub in_flight: usize,
    /// Pieces of the node that are not confirmed, in bytes.
    pub waiting_max_bytes: u64,
}

impl Default for SinkConfig {
    fn default() -> SinkConfig {
        SinkConfig {
            max_delay: Duration::from_millis(250),
            max_bytes: 4 << 20,
            in_flight: IN_FLIGHT_MAX as usize,
            waiting_max_bytes: 32 << 20,
        }
    }
}

/// A piece of a log file on its way to the sink.
#[derive(Debug)]
pub(crate) struct Piece {
    /// Whose.
    pub(crate) core: u16,
    /// Counts the pieces of the core from 1.
    pub(crate) sequence: u64,
    pub(crate) name: WalName,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// `None` if there was no room for too long.
    pub(crate) memory: Option<Reservation>,
}

/// What the sink tells a core.
#[derive(Clone, Debug)]
pub(crate) enum Confirmation {
    /// All pieces up to this one count.
    UpTo(u64),
    /// No further piece will ever count. Says why.
    Lost(Arc<str>),
}

/// The ways between the cores and the sink of a node. To be made before the cores start. Cheap to
/// clone.
#[derive(Clone, Debug)]
pub struct SinkMesh {
    config: SinkConfig,
    pieces: (Sender<Piece>, Receiver<Piece>),
    confirmations: Arc<[(Sender<Confirmation>, Receiver<Confirmation>)]>,
    memory: Budget,
    /// Memory of pieces.
    spares: Spares,
    status: Arc<SinkStatus>,
}

impl SinkMesh {
    /// Ways between `cores` cores and their sink.
    pub fn new(cores: u16, config: SinkConfig) -> SinkMesh {
        let memory = Budget::new("wal-sink", config.waiting_max_bytes);
        SinkMesh {
            config,
            // Bounded by the budget, and by what a core does without room.
            pieces: flume::unbounded(),
            // One message per object at most.
            confirmations: (0..cores).map(|_| flume::unbounded()).collect(),
            status: Arc::new(SinkStatus::new(cores, memory.clone())),
            memory,
            spares: Spares::new(usize::from(cores) * SPARE_PIECES_PER_CORE, SPARE_PIECE_MAX_BYTES),
        }
    }

    /// The end of a core. Each core's host takes its own, once.
    pub(crate) fn attach(&self, core: CoreId) -> SinkEnd {
        let confirmations = self.confirmations[core.index()].1.clone();
        let (pieces, memory) = (self.pieces.0.clone(), self.memory.clone());
        let (status, spares) = (Arc::clone(&self.status), self.spares.clone());
        SinkEnd::new(core, pieces, confirmations, memory, status, spares)
    }

    /// The sink, once. To be made on core 0, with the epoch of the node's plan.
    ///
    /// # Errors
    /// Never, since an epoch makes a name.
    pub fn sink<R: Runtime>(
        &self,
        runtime: R,
        store: Store<R>,
        epoch: u32,
    ) -> Result<Sink<R>, NameError> {
        let log = log_of(epoch)?;
        let cores = self.confirmations.iter().map(|(sender, _)| sender.clone()).collect();
        let ways = Ways { pieces: self.pieces.1.clone(), cores, spares: self.spares.clone() };
        Ok(Sink::new(runtime, store, log, ways, self.config, Arc::clone(&self.status)))
    }

    /// Numbers for metrics; for all cores.
    pub fn status(&self) -> &Arc<SinkStatus> {
        &self.status
    }
}

/// The write-ahead log of a node in the bucket.
pub(crate) fn log_of(epoch: u32) -> Result<LogName, NameError> {
    LogName::new(&format!("{FOLDER}/{epoch:08x}"))
}
