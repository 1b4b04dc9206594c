//! Notes what the front refuses, and tells what operators should hear of.

use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_runtime::Runtime;

use super::Core;
use crate::refusals::{Cause, Line, Moment, Refused, Sender};

impl<R: Runtime> Core<R> {
    /// Counts a refusal, keeps it for the list of its tenant, and tells it in the log.
    pub(crate) fn note(&self, refused: &Refused<'_>) {
        let moment = Moment::of(&self.runtime);
        self.node.refusals.note(&self.counters().pushes, moment, refused);
    }

    /// [`Core::note`] of a push that was refused as a whole with this answer.
    pub(crate) fn note_refused_push(
        &self,
        tenant: Option<&TenantId>,
        sender: Sender<'_>,
        error: &ApiError,
    ) {
        let cause = match self.is_serving() {
            true => Cause::Push(error.status),
            false => Cause::NotServing(error.status),
        };
        let (stream, entry_ns, limit_ns) = (None, None, None);
        let text = &error.message;
        self.note(&Refused { tenant, cause, sender, stream, entry_ns, limit_ns, text });
    }

    /// Writes a line, unless enough like it were written lately.
    pub(crate) fn tell(&self, line: &Line<'_>) {
        self.node.refusals.tell(self.runtime.now(), line);
    }

    /// False while the node starts or stops.
    pub(crate) fn is_serving(&self) -> bool {
        self.node.recovered.is_complete() && !self.node.stop.is_triggered()
    }
}
