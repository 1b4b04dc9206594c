//! The job that a shard gives to the task that writes its segments.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use logsvc_proto::{Labels, StreamId, TenantId};

use logsvc_segment::head::HeadBlock;

/// The entries of one stream in a generation.
#[derive(Clone, Debug)]
pub struct SealStream {
    /// The stream.
    pub id: StreamId,
    /// Whose it is.
    pub tenant: TenantId,
    /// Its labels.
    pub labels: Arc<Labels>,
    /// Whether it may repeat entries of earlier segments.
    pub is_late: bool,
    /// Its blocks in order of arrival, at least one, none empty.
    pub blocks: Vec<Arc<HeadBlock>>,
}

/// A generation to be written.
#[derive(Clone, Debug)]
pub struct SealJob {
    /// The streams to write; may be empty if only the log is to be given up.
    pub streams: Vec<SealStream>,
    /// Files of this shard and start up to this index hold nothing else that is not
    /// in segments already, and neither do the files that were replayed at the start.
    pub closed_wal_index: Option<u32>,
    /// Whether to write drafts, which takes little time. It may be asked for while the job is
    /// under way: then it holds for all blocks that are not encoded yet.
    pub draft: Arc<DraftFlag>,
}

/// Tells a sealing that its segments are to be drafts. The shard and its sealer share it.
#[derive(Debug, Default)]
pub struct DraftFlag(AtomicBool);

impl DraftFlag {
    /// Has a draft written from this moment on.
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether to write a draft from this moment on.
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
