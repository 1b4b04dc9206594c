//! What a group does because there are other nodes: it follows them, and asks for what it may have
//! missed when one of them has come or gone.
//!
//! What can go wrong: of more than [`MISSED_MAX`] entries that were missed, and of those that are older
//! than what the group remembers, it shows none.

use logsvc_runtime::Runtime;

use super::super::history::{self, Ask, Shown};
use super::{Entry, Group, shared};

/// Most entries that are shown of those that were missed: the newest.
const MISSED_MAX: u32 = 10_000;

impl<R: Runtime> Group<R> {
    /// Looks at the other nodes, and asks for what was missed if that is possible now.
    pub(super) fn follow_others(&mut self) {
        let Some(others) = &mut self.others else { return };
        if let Err(reason) = others.step() {
            self.end_all(&reason);
            return;
        }
        if self.joining.iter().any(|joining| joining.history.is_some()) {
            return;
        }
        self.seen.forget_before(others.settled_ns());
        let Some(missed_ns) = others.begin_catching_up() else { return };
        let ask = Ask {
            key: &self.key,
            log: &self.log,
            // What was forgotten might be shown twice.
            start_ns: missed_ns.max(self.seen.forgotten_ns()),
            limit: MISSED_MAX,
            subscription: self.id,
            epoch: self.epoch,
            queue_max_bytes: self.queue_max_bytes,
        };
        match history::ask_owners(&self.hub, &ask, Shown::Missed, &others.ready()) {
            Ok(missed) => self.missed_history = Some(missed),
            Err(reason) => self.take_missed(Err(reason)),
        }
    }

    /// What was missed has come, or has not.
    pub(super) fn take_missed(&mut self, result: Result<Vec<Entry>, String>) {
        self.missed_history = None;
        if let Some(others) = &mut self.others {
            others.end_catching_up(result.is_ok());
        }
        match result {
            Ok(entries) => {
                let now_ns = self.hub.core.runtime.unix_nanos();
                self.take_new(shared(entries), self.epoch, now_ns);
            }
            Err(reason) => tracing::debug!("a tail cannot ask for what it has missed: {reason}"),
        }
    }
}
