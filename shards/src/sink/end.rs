//! A core's end of the ways to the sink.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::time::Duration;

use flume::{Receiver, Sender};
use logsvc_runtime::{Budget, CoreId, Monotonic, Runtime};

use super::{Confirmation, PATIENCE, Piece, SinkStatus, Spares};
use crate::wal::format::WalName;

/// How often a core that has found no room looks again.
const ROOM_PAUSE: Duration = Duration::from_millis(5);

/// See the module. Stays on its core.
#[derive(Debug)]
pub(crate) struct SinkEnd {
    core: u16,
    pieces: Sender<Piece>,
    confirmations: Receiver<Confirmation>,
    memory: Budget,
    status: Arc<SinkStatus>,
    spares: Spares,
    /// Pieces that were sent, the one that waits for room among them.
    sent: Cell<u64>,
    confirmed: Cell<u64>,
    /// Since when the first unconfirmed piece is the first one.
    since: Cell<Monotonic>,
    lost: OnceCell<Arc<str>>,
}

/// Why entries are not acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nothing was confirmed for so long.
    Slow(Duration),
    /// Nothing will be any more.
    Lost(Arc<str>),
}

impl SinkEnd {
    pub(super) fn new(
        core: CoreId,
        pieces: Sender<Piece>,
        confirmations: Receiver<Confirmation>,
        memory: Budget,
        status: Arc<SinkStatus>,
        spares: Spares,
    ) -> SinkEnd {
        let (sent, confirmed, since) = (Cell::new(0), Cell::new(0), Cell::new(Monotonic(0)));
        let (core, lost) = (core.0, OnceCell::new());
        SinkEnd {
            core,
            pieces,
            confirmations,
            memory,
            status,
            spares,
            sent,
            confirmed,
            since,
            lost,
        }
    }

    /// The confirmations of the core, to be given to [`SinkEnd::take`].
    pub(crate) fn confirmations(&self) -> &Receiver<Confirmation> {
        &self.confirmations
    }

    /// Sends bytes that are in a log file. Waits for room, but not longer than there is no
    /// [`SinkEnd::trouble`]. One call at a time.
    pub(crate) async fn send<R: Runtime>(
        &self,
        runtime: &R,
        name: WalName,
        offset: u64,
        bytes: &[u8],
    ) {
        if !self.is_waiting() {
            self.since.set(runtime.now());
        }
        let sequence = self.sent.get() + 1;
        self.sent.set(sequence);
        self.status.note_sent(self.core, sequence);
        // A frame may be longer than all that may wait.
        let room_bytes = (bytes.len() as u64).min(self.memory.max_bytes());
        let memory = loop {
            let memory = self.memory.try_reserve(room_bytes);
            if memory.is_some() || self.trouble(runtime.now()).is_some() {
                break memory;
            }
            runtime.sleep_until(runtime.now().after(ROOM_PAUSE)).await;
        };
        if self.lost.get().is_none() {
            let mut copy = self.spares.take(bytes.len());
            copy.extend_from_slice(bytes);
            let piece = Piece { core: self.core, sequence, name, offset, bytes: copy, memory };
            // Without a sink nobody confirms it, which is noticed.
            let _ = self.pieces.send(piece);
        }
    }

    /// The log file could not be made or written.
    pub(crate) fn note_log_failed(&self, now: Monotonic) {
        self.status.note_log_failed(self.core, now);
    }

    /// A commit is in the log file.
    pub(crate) fn note_log_written(&self) {
        self.status.note_log_written(self.core);
    }

    /// How many pieces were sent.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.get()
    }

    /// Whether the piece of this number, and all before it, count.
    pub(crate) fn is_confirmed(&self, sequence: u64) -> bool {
        self.confirmed.get() >= sequence
    }

    /// Takes what the sink has told.
    pub(crate) fn take(&self, confirmation: Confirmation, now: Monotonic) {
        match confirmation {
            Confirmation::UpTo(sequence) => {
                self.confirmed.set(sequence);
                self.since.set(now);
            }
            Confirmation::Lost(why) => drop(self.lost.set(why)),
        }
    }

    /// Why entries are not acknowledged at this moment, if they are not.
    pub(crate) fn trouble(&self, now: Monotonic) -> Option<Trouble> {
        if let Some(why) = self.lost.get() {
            return Some(Trouble::Lost(Arc::clone(why)));
        }
        let waited = now.since(self.since.get());
        (self.is_waiting() && waited >= PATIENCE).then_some(Trouble::Slow(waited))
    }

    /// When there is trouble if nothing is confirmed before.
    pub(crate) fn patient_until(&self) -> Option<Monotonic> {
        (self.is_waiting() && self.lost.get().is_none()).then(|| self.since.get().after(PATIENCE))
    }

    fn is_waiting(&self) -> bool {
        self.sent.get() > self.confirmed.get()
    }
}
