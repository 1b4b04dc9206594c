//! Messages that were received and are not stored yet: messages become records, and records are
//! stored.
//!
//! Guarantees: a message that is too long, badly formed or refused costs no other. Records that the
//! node cannot take at the moment are tried again. A limit of the tenant that lasts (429) gives
//! them up after a while, so that it does not hold up the messages behind them.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use logsvc_proto::records::Records;
use logsvc_proto::syslog::{Arrival, Frame, parse};
use logsvc_runtime::Runtime;

use super::{Intake, mapping};
use crate::front::ingest::records::Fate;
use crate::metrics::{Amount, Metric, PushFormat, Reason};
use crate::refusals::Sender;

/// Bytes that a byte of received text may take: itself, its text, its record.
pub(super) const BYTES_PER_ROOM: u64 = 4;

/// Waits between two tries, at first and at most.
pub(super) const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// How long a stopping node tries to store what was received.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// How long a limit of the tenant holds up the messages behind.
const LIMIT_PATIENCE: Duration = Duration::from_secs(30);

/// A message as it came.
pub(super) struct Came<'a> {
    pub(super) frame: Frame<'a>,
    pub(super) peer: SocketAddr,
    pub(super) unix_ns: i64,
}

/// See the module.
pub(super) struct Pending<R: Runtime> {
    intake: Rc<Intake<R>>,
    counted: Metric,
    records: Records,
}

impl<R: Runtime> Pending<R> {
    /// Nothing yet; each message adds 1 to the metric.
    pub(super) fn new(intake: Rc<Intake<R>>, counted: Metric) -> Pending<R> {
        Pending { intake, counted, records: Records::new() }
    }

    /// Adds a message. Its time is made distinct by `times`, which are those of its sender.
    pub(super) fn add(&mut self, came: &Came<'_>, times: &mut mapping::Times) {
        let Intake { core, ingest, tenant, zone, .. } = &*self.intake;
        let numbers = &core.counters().numbers;
        numbers.add(self.counted, 1);
        let Came { frame, peer, unix_ns } = *came;
        if frame.is_cut {
            if !core.limits(tenant).max_line_size_truncate {
                let max_bytes = core.config().syslog.message_max_bytes;
                let text = format!("the syslog message is longer than {max_bytes} bytes");
                let amount = Amount { entries: 1, bytes: frame.text.len() as u64 };
                ingest.note_unreadable(tenant, sender(peer), Reason::LineTooLong, amount, &text);
                return;
            }
            numbers.add(Metric::SyslogCut, 1);
        }
        let text = String::from_utf8_lossy(frame.text);
        if matches!(text, Cow::Owned(_)) {
            numbers.add(Metric::SyslogNotUtf8, 1);
        }
        let message = parse(&text, Arrival { unix_ns, zone: &|local| unix_seconds(zone, local) });
        if let Some(fault) = message.fault {
            numbers.add(Metric::SyslogNotParsed, 1);
            core.tell_connection("syslog_not_parsed", peer, fault.text());
        }
        let time_ns = times.give(message.timestamp_ns.unwrap_or(unix_ns));
        let labels = &core.config().syslog.labels;
        mapping::add(&mut self.records, &message, time_ns, peer.ip(), labels);
    }

    /// Stores the records, and leaves none. `peer` is named where one is refused.
    pub(super) async fn store(&mut self, peer: SocketAddr) {
        let intake = Rc::clone(&self.intake);
        let Intake { core, ingest, tenant, .. } = &*intake;
        let mut wait = RETRY_MIN;
        let mut stop_ends = None;
        let patience_ends = core.runtime.now().after(LIMIT_PATIENCE);
        while !self.records.is_empty() {
            let (sender, format) = (sender(peer), PushFormat::Syslog);
            let taken = ingest.take_received_records(tenant, sender, format, &self.records).await;
            let status = match taken {
                Ok(fates) => {
                    let later = |place| match fates.get(place) {
                        Fate::Later(error) => Some(error.status),
                        Fate::Stored | Fate::Refused { .. } => None,
                    };
                    let status = (0..self.records.len()).find_map(later);
                    self.records.retain(|place| later(place).is_some());
                    status
                }
                Err(error) => Some(error.status),
            };
            let Some(status) = status else { break };
            let now = core.runtime.now();
            if core.node.stop.is_triggered() {
                let ends = *stop_ends.get_or_insert(now.after(STOP_PATIENCE));
                if now >= ends {
                    self.give_up(peer, "the node stops, and the messages cannot be stored");
                    break;
                }
            }
            let is_limit = status == StatusCode::TOO_MANY_REQUESTS;
            let is_hopeless = !is_limit && !status.is_server_error();
            if is_hopeless || (is_limit && now >= patience_ends) {
                self.give_up(peer, "the messages are refused again and again");
                break;
            }
            core.counters().numbers.add(Metric::SyslogRetries, 1);
            core.runtime.sleep_until(now.after(wait)).await;
            wait = (wait * 2).min(RETRY_MAX);
        }
        self.records.clear();
    }

    /// Tells of records that are not stored and will not be.
    pub(super) fn give_up(&mut self, peer: SocketAddr, why: &str) {
        if self.records.is_empty() {
            return;
        }
        let core = &self.intake.core;
        core.counters().numbers.add(Metric::SyslogGivenUp, self.records.len() as u64);
        core.tell_connection("syslog_given_up", peer, why);
        self.records.clear();
    }

    /// Gives memory of records back that are stored.
    pub(super) fn release(&mut self) {
        self.records = Records::new();
    }
}

fn sender(peer: SocketAddr) -> Sender<'static> {
    Sender { peer, user_agent: "", route: "syslog" }
}

/// From the calendar and the clock on the wall of a zone to seconds since the Unix epoch. A time
/// that the clock skips or has twice is that of the offset before the change.
fn unix_seconds(zone: &TimeZone, local: i64) -> i64 {
    let Ok(as_utc) = Timestamp::from_second(local) else { return local };
    let wall = TimeZone::UTC.to_datetime(as_utc);
    let found = zone.to_ambiguous_timestamp(wall).compatible();
    found.map_or(local, Timestamp::as_second)
}
