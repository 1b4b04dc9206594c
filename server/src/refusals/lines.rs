//! What a log line has, and how it is written.

use std::net::SocketAddr;
use std::time::Duration;

use logsvc_proto::time::write_rfc3339_nano;

use super::text::{QUERY_MAX_BYTES, TEXT_MAX_BYTES, shown};
use crate::metrics::Amount;

/// What a line is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Subject {
    /// Entries were refused.
    Entries,
    /// A push was refused as a whole.
    Push,
    /// A query failed.
    Query,
    /// A query took long.
    SlowQuery,
    /// Another request was answered with an error that an operator should know.
    Request,
    /// A connection was turned away.
    Connection,
}

impl Subject {
    pub(super) fn text(self) -> &'static str {
        match self {
            Subject::Entries => "refused entries",
            Subject::Push => "refused a push",
            Subject::Query => "a query failed",
            Subject::SlowQuery => "a query was slow",
            Subject::Request => "refused a request",
            Subject::Connection => "turned a client away",
        }
    }

    pub(super) fn rest_text(self) -> &'static str {
        match self {
            Subject::Entries => "refused more entries",
            Subject::Push => "refused more pushes",
            Subject::Query => "more queries failed",
            Subject::SlowQuery => "more queries were slow",
            Subject::Request => "refused more requests",
            Subject::Connection => "turned more clients away",
        }
    }

    /// How many lines a period has for each reason and tenant.
    pub(super) fn lines_per_period(self) -> u32 {
        match self {
            Subject::Entries | Subject::Push | Subject::Request | Subject::Connection => 1,
            Subject::Query => 5,
            Subject::SlowQuery => 30,
        }
    }
}

/// The level of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    /// Nothing is lost.
    Info,
    /// A client loses something.
    Warn,
    /// The server itself fails.
    Error,
}

/// A line. Texts may come from clients as they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'l> {
    pub(crate) subject: Subject,
    pub(crate) level: Level,
    pub(crate) reason: &'static str,
    /// Empty if it is not known.
    pub(crate) tenant: &'l str,
    pub(crate) route: Option<&'static str>,
    pub(crate) status: Option<u16>,
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) user_agent: &'l str,
    pub(crate) stream: &'l str,
    pub(crate) query: &'l str,
    pub(crate) error: &'l str,
    /// Nothing if entries have nothing to do with it.
    pub(crate) amount: Amount,
    pub(crate) entry_ns: Option<i64>,
    pub(crate) limit_ns: Option<i64>,
    pub(crate) took: Option<Duration>,
    pub(crate) read_bytes: Option<u64>,
}

impl<'l> Line<'l> {
    /// A line with nothing else in it.
    pub(crate) fn new(
        subject: Subject,
        level: Level,
        reason: &'static str,
        tenant: &'l str,
    ) -> Line<'l> {
        Line {
            subject,
            level,
            reason,
            tenant,
            route: None,
            status: None,
            peer: None,
            user_agent: "",
            stream: "",
            query: "",
            error: "",
            amount: Amount::default(),
            entry_ns: None,
            limit_ns: None,
            took: None,
            read_bytes: None,
        }
    }

    /// Writes it, whatever was written before.
    pub(super) fn write(&self) {
        self.write_as(self.subject.text());
    }

    /// Writes the line of a query because all queries are wanted.
    pub(crate) fn write_statistics(&self) {
        self.write_as(match self.subject {
            Subject::SlowQuery => self.subject.text(),
            _ => "query",
        });
    }

    fn write_as(&self, title: &'static str) {
        let text = |text: &str, max_bytes| (!text.is_empty()).then(|| shown(text, max_bytes));
        let tenant = text(self.tenant, TEXT_MAX_BYTES);
        let peer = self.peer.map(|peer| peer.to_string());
        let user_agent = text(self.user_agent, TEXT_MAX_BYTES);
        let stream = text(self.stream, TEXT_MAX_BYTES);
        let query = text(self.query, QUERY_MAX_BYTES);
        let error = text(self.error, TEXT_MAX_BYTES);
        let has_entries = self.amount.entries > 0;
        let entry_time = self.entry_ns.map(printed_time);
        let limit_time = self.limit_ns.map(printed_time);
        // Fields without a value are left out.
        macro_rules! event {
            ($level:ident) => {
                tracing::$level!(
                    reason = self.reason,
                    tenant = tenant.as_deref(),
                    route = self.route,
                    status = self.status,
                    peer = peer.as_deref(),
                    user_agent = user_agent.as_deref(),
                    stream = stream.as_deref(),
                    entries = has_entries.then_some(self.amount.entries),
                    bytes = has_entries.then_some(self.amount.bytes),
                    entry_time = entry_time.as_deref(),
                    limit_time = limit_time.as_deref(),
                    query = query.as_deref(),
                    took_ms = self.took.map(|took| took.as_secs_f64() * 1e3),
                    read_bytes = self.read_bytes,
                    error = error.as_deref(),
                    "{title}"
                )
            };
        }
        match self.level {
            Level::Info => event!(info),
            Level::Warn => event!(warn),
            Level::Error => event!(error),
        }
    }
}

/// A time for people and programs.
pub(super) fn printed_time(unix_ns: i64) -> String {
    let mut text = Vec::new();
    write_rfc3339_nano(Some(unix_ns), &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
