//! Why a scan ends early, and why a part of a segment cannot be read.

use std::io;

use logsvc_logql::engine::{PlanError, Stop};

use crate::sealed::DirectoryError;
use logsvc_segment::SegmentError;
use logsvc_segment::filter::FilterError;

/// Why a part of a query has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The part does not compile.
    #[error("{0}")]
    Plan(String),
    /// The query holds more memory than it may.
    #[error("the query holds more than {max_bytes} bytes of intermediate results")]
    Memory {
        /// The limit in bytes.
        max_bytes: u64,
    },
    /// There is no memory for the blocks that it has to read.
    #[error("there is no memory for the query now")]
    Busy,
    /// The query was cancelled: no client waits for it.
    #[error("the query was cancelled")]
    Cancelled,
}

impl From<Stop> for ScanError {
    fn from(stop: Stop) -> ScanError {
        match stop {
            Stop::TooLarge { max_bytes } => ScanError::Memory { max_bytes },
            Stop::Busy => ScanError::Busy,
            Stop::Ended => ScanError::Cancelled,
        }
    }
}

impl From<PlanError> for ScanError {
    fn from(error: PlanError) -> ScanError {
        match error {
            PlanError::Stopped(stop) => stop.into(),
            error => ScanError::Plan(error.to_string()),
        }
    }
}

/// Why a part of a segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// The disk refuses.
    #[error("cannot read: {error}")]
    Io {
        /// Where.
        offset: u64,
        /// Why.
        error: io::Error,
    },
    /// The bytes are damaged.
    #[error(transparent)]
    Damaged(#[from] SegmentError),
    /// The directory is not there.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// The bytes of a filter are damaged.
    #[error(transparent)]
    Filter(#[from] FilterError),
}
