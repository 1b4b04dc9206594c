//! The events that wake a shard, and the effects that it asks for.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use logsvc_runtime::mesh::{Incoming, ReplyTo};
use logsvc_runtime::{AlignedBuffer, Monotonic};

use crate::compact::{CompactError, MaintenanceJob, MaintenanceOutcome};
use crate::manifest::SegmentName;
use crate::messages::{ShardReply, ShardRequest};
use crate::scan::{ListJob, ScanJob};
use crate::sealed::{OpenedSegment, SealJob, SealedSegment};
use crate::types::OwnedPartitions;
use crate::wal::writer::WalOp;

/// The time and the random number that a step may use besides the state.
#[derive(Clone, Copy, Debug)]
pub struct StepContext {
    /// The monotonic clock.
    pub now: Monotonic,
    /// The wall clock, in ns since the Unix epoch.
    pub unix_ns: i64,
    /// A fresh random number.
    pub random: u64,
}

/// Everything that can wake a shard.
#[derive(Debug)]
pub enum Event {
    /// A request from a lane.
    Request(Incoming<ShardRequest, ShardReply>),
    /// A [`WalOp::Open`] has ended, with the error's text if it failed.
    WalOpened(Result<(), Arc<str>>),
    /// A [`WalOp::Commit`] has ended.
    WalCommitted {
        /// The error's text if it failed.
        result: Result<(), Arc<str>>,
        /// The operation's buffer.
        frame: AlignedBuffer,
        /// How long it took.
        latency: Duration,
    },
    /// An [`Effect::Seal`] has ended: with the segments that it made, or with the
    /// error's text.
    Sealed(Result<Vec<OpenedSegment>, Arc<str>>),
    /// An [`Effect::Maintain`] has ended.
    Maintained(Box<Result<MaintenanceOutcome, CompactError>>),
    /// An [`Effect::StopLogReuse`] has ended: no log file waits for its use.
    LogsGivenBack,
    /// The time of [`Shard::next_wakeup`](super::Shard::next_wakeup) has come.
    Timer,
}

/// An action that the driver performs after a step.
#[derive(Debug)]
pub enum Effect {
    /// Perform a log operation and report its end.
    Wal(WalOp),
    /// Send a reply.
    Reply(ReplyTo<ShardReply>, ShardReply),
    /// Run a scan beside the shard and send its reply.
    Scan(Box<ScanJob>, ReplyTo<ShardReply>),
    /// List streams beside the shard and send the reply.
    List(Box<ListJob>, ReplyTo<ShardReply>),
    /// Write a generation to segments beside the shard and report its end. One at
    /// a time.
    Seal(Box<SealJob>),
    /// Do something about segments beside the shard and report its end. One at a time.
    Maintain(Box<MaintenanceJob>),
    /// Close the file of a segment that no scan reads any more, and remove it.
    Retire {
        /// Which one.
        name: SegmentName,
        /// Where it is; `None`: it is not to be removed.
        path: Option<PathBuf>,
    },
    /// Keep only the ends of segments on the local disk, and send the reply.
    Evict(Vec<Arc<SealedSegment>>, ReplyTo<ShardReply>),
    /// Write segments for these partitions from now on, with orders from one on. No job that reads
    /// segments is under way.
    Own {
        /// The partitions.
        owned: OwnedPartitions,
        /// The smallest order.
        first_order: u64,
    },
    /// Use no log file again from this moment on, and remove the file that waits for its use.
    /// Report when it is gone.
    StopLogReuse,
    /// Use log files again.
    AllowLogReuse,
    /// Leave the wall clock's time for the next start: it is right.
    KeepClock {
        /// In ns since the Unix epoch.
        unix_ns: i64,
    },
}
