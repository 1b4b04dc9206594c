//! The state that a start rebuilds from the log.

use logsvc_proto::StreamId;

use super::recovery::RecoverySummary;
use crate::batch::Section;
use crate::types::StreamDefinition;

/// Takes over what recovery reads back. A shard implements it; recovery knows nothing else
/// of a shard.
pub(crate) trait Restored {
    /// Whether the id of a stream is known.
    fn knows(&self, id: StreamId) -> bool;

    /// Makes a stream known; one that is known already stays as it is.
    fn define(&mut self, definition: StreamDefinition);

    /// Appends a section of the log to its stream, which must be known. Returns whether it is.
    fn append(&mut self, section: &Section<'_>) -> bool;

    /// Keeps the totals of a recovery that has ended.
    fn finish_log(&mut self, summary: RecoverySummary);
}
