//! The one place that every refusal passes, whatever the protocol: it is counted, kept for the
//! list of its tenant, and told in the log.
//!
//! Guarantees: the three are done by one call ([`Refusals::note`]), so that metric, list and log
//! never disagree. The log gets about one line a minute for each reason and tenant, with a number
//! of those that were left out ([`gate`]); the list has the last refusals of a tenant ([`list`]).
//! Memory is bounded by bytes and by the number of tenants, which clients choose. Lines and bodies
//! are never kept or written; texts of clients are cut, and their control characters escaped
//! ([`text`]).
//!
//! An intake without HTTP calls the same: `Refusals::note(&node.metrics.core(core).pushes, moment,
//! &refused)`. Nothing here is called for an accepted push.
//!
//! Other things that operators must hear of go through [`Refusals::tell`]: queries that fail or are
//! slow, answers of 5xx, clients that are turned away. They have lines only.
//!
//! All cores share the state under a mutex (ARCHITECTURE.md, *Locks*). A core holds it for a few
//! operations on maps, and never while a line is written.

mod gate;
mod lines;
mod list;
pub(crate) mod text;

use std::net::SocketAddr;
#[expect(clippy::disallowed_types, reason = "see the module's header")]
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use http::StatusCode;
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::{Monotonic, Runtime};

use crate::metrics::{Amount, Pushes, Reason, RequestReason};
use gate::{Gate, Verdict};
pub(crate) use lines::{Level, Line, Subject};
use list::Lists;
pub(crate) use list::Record;

/// How often [`Refusals::tell_rest`] should be called.
pub(crate) const REST_INTERVAL: Duration = Duration::from_secs(5);

/// A time on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// For periods.
    pub(crate) monotonic: Monotonic,
    /// For people, in ns since the Unix epoch.
    pub(crate) unix_ns: i64,
}

impl Moment {
    /// The moment of the call.
    pub(crate) fn of(runtime: &impl Runtime) -> Moment {
        Moment { monotonic: runtime.now(), unix_ns: runtime.unix_nanos() }
    }
}

/// Who sent something, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender<'r> {
    /// The other end of the connection, or the source of a datagram.
    pub(crate) peer: SocketAddr,
    /// The client's name for itself; empty if it has none.
    pub(crate) user_agent: &'r str,
    /// The route or protocol.
    pub(crate) route: &'static str,
}

/// What was refused, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cause {
    /// Entries, for good or by a limit on rates.
    Entries(Reason, Amount),
    /// A push as a whole, whose entries are not known or may be sent again. The status says why.
    Push(StatusCode),
    /// The same by a node that starts or stops: nothing is wrong with it.
    NotServing(StatusCode),
}

impl Cause {
    fn reason(self) -> &'static str {
        match self {
            Cause::Entries(reason, _) => reason.name(),
            Cause::Push(status) | Cause::NotServing(status) => RequestReason::of(status).name(),
        }
    }

    fn status(self) -> Option<u16> {
        match self {
            Cause::Entries(..) => None,
            Cause::Push(status) | Cause::NotServing(status) => Some(status.as_u16()),
        }
    }

    fn amount(self) -> Amount {
        match self {
            Cause::Entries(_, amount) => amount,
            Cause::Push(_) | Cause::NotServing(_) => Amount::default(),
        }
    }
}

/// A refusal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refused<'r> {
    /// `None` if it is not known.
    pub(crate) tenant: Option<&'r TenantId>,
    pub(crate) cause: Cause,
    pub(crate) sender: Sender<'r>,
    /// The stream, if all entries are of one.
    pub(crate) stream: Option<&'r Labels>,
    /// The time of the first of the entries, in ns since the Unix epoch.
    pub(crate) entry_ns: Option<i64>,
    /// The time that it had to keep to.
    pub(crate) limit_ns: Option<i64>,
    /// What the client is told. Never a part of a line.
    pub(crate) text: &'r str,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Refusals {
    #[expect(clippy::disallowed_types, reason = "see the module's header")]
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    gate: Gate,
    lists: Lists,
}

impl Refusals {
    /// Lists take at most `max_bytes`.
    pub(crate) fn new(max_bytes: usize) -> Refusals {
        let state = State { gate: Gate::default(), lists: Lists::new(max_bytes) };
        Refusals { state: state.into() }
    }

    /// Counts a refusal in the counters of the calling core, keeps it, and tells it.
    pub(crate) fn note(&self, counters: &Pushes, now: Moment, refused: &Refused<'_>) {
        let cause = refused.cause;
        let of_tenant = counters.of_any(refused.tenant);
        match cause {
            Cause::Entries(reason, amount) => of_tenant.discarded(reason, amount),
            Cause::Push(status) | Cause::NotServing(status) => {
                of_tenant.refused_push(RequestReason::of(status));
            }
        }
        let stream = refused.stream.map(Labels::canonical);
        let line = Line {
            route: Some(refused.sender.route),
            status: cause.status(),
            peer: Some(refused.sender.peer),
            user_agent: refused.sender.user_agent,
            stream: stream.as_deref().unwrap_or_default(),
            error: refused.text,
            amount: cause.amount(),
            entry_ns: refused.entry_ns,
            limit_ns: refused.limit_ns,
            ..Line::new(
                match cause {
                    Cause::Entries(..) => Subject::Entries,
                    Cause::Push(_) | Cause::NotServing(_) => Subject::Push,
                },
                match cause {
                    Cause::Push(status) if status.is_server_error() => Level::Error,
                    _ => Level::Warn,
                },
                cause.reason(),
                refused.tenant.map_or("", TenantId::as_str),
            )
        };
        let verdict = self.with_state(|state| {
            if let Some(tenant) = refused.tenant {
                state.lists.add(tenant, Record::of(&line, now.unix_ns));
            }
            state.gate.admit(&line, now.monotonic)
        });
        if verdict == Verdict::Write {
            line.write();
        }
    }

    /// Tells something else, unless enough like it were told lately.
    pub(crate) fn tell(&self, now: Monotonic, line: &Line<'_>) {
        if self.with_state(|state| state.gate.admit(line, now)) == Verdict::Write {
            line.write();
        }
    }

    /// Tells how many lines were left out in periods that are over; in all of them if `is_end`.
    pub(crate) fn tell_rest(&self, now: Monotonic, is_end: bool) {
        let rests = self.with_state(|state| state.gate.take_rests(now, is_end));
        rests.iter().for_each(gate::Rest::write);
    }

    /// The last refusals of a tenant, the newest first.
    pub(crate) fn of(&self, tenant: &TenantId) -> Vec<Record> {
        self.with_state(|state| state.lists.of(tenant))
    }

    fn with_state<T>(&self, action: impl FnOnce(&mut State) -> T) -> T {
        // A panic in between leaves numbers that are a little off, which harm nobody.
        action(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests;
