//! One connection: bytes become messages, messages become records, and records are stored before
//! more bytes are read.
//!
//! Guarantees: a message that is too long, badly formed or refused never closes the connection.
//! Records that the node cannot take at the moment are tried again. A limit of the tenant that
//! lasts (429) gives them up after a while, so that it does not hold up the messages behind them.

use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures_util::future::{Either, select};
use http::StatusCode;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use logsvc_proto::records::Records;
use logsvc_proto::syslog::{Arrival, Frame, Framer, STEP_ROOM_BYTES, parse};
use logsvc_runtime::{Monotonic, Reader, Reservation, Runtime, Writer};

use super::{Intake, mapping};
use crate::front::ingest::records::Fate;
use crate::metrics::{Amount, Metric, PushFormat, Reason};
use crate::refusals::Sender;

/// The room for bytes that were read, at first.
const ROOM_MIN_BYTES: usize = 4 << 10;

/// The room of a connection on which more comes than fits, if its messages are short.
const ROOM_BUSY_BYTES: usize = 64 << 10;

/// Bytes that a byte of room may take: itself, its text, its record.
const BYTES_PER_ROOM: u64 = 4;

/// Waits between two tries, at first and at most.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// How long a stopping node tries to store what was received.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// How long a limit of the tenant holds up a connection.
const LIMIT_PATIENCE: Duration = Duration::from_secs(30);

/// See the module.
pub(super) struct Connection<R: Runtime> {
    intake: Rc<Intake<R>>,
    peer: SocketAddr,
    counted: Metric,
    framer: Framer,
    records: Records,
    times: mapping::Times,
}

impl<R: Runtime> Connection<R> {
    pub(super) fn new(intake: Rc<Intake<R>>, peer: SocketAddr, counted: Metric) -> Connection<R> {
        let framer = Framer::new(intake.core.config().syslog.message_max_bytes);
        let (records, times) = (Records::new(), mapping::Times::default());
        Connection { intake, peer, counted, framer, records, times }
    }

    /// Takes messages until the sender ends the stream, is silent for too long, or the node stops.
    pub(super) async fn run(mut self, reader: impl Reader, mut writer: impl Writer) {
        let intake = Rc::clone(&self.intake);
        let node = &intake.core.node;
        {
            let mut taking = pin!(self.take(reader));
            if let Either::Left(_) = select(taking.as_mut(), pin!(node.stop.wait())).await {
                writer.close().await;
                return;
            }
            // The reader goes on for a moment, and then reports the end of the stream.
            let runtime = &intake.core.runtime;
            let patience = intake.core.config().graceful_stop_timeout;
            let deadline = pin!(runtime.sleep_until(runtime.now().after(patience)));
            let ending = pin!(async {
                // Fails only if the sender has gone.
                let _ = writer.shutdown().await;
                taking.await;
            });
            if let Either::Left(_) = select(ending, deadline).await {
                return;
            }
        }
        self.given_up("the node stops");
    }

    async fn take(&mut self, mut reader: impl Reader) {
        let intake = Rc::clone(&self.intake);
        let (core, runtime) = (&intake.core, &intake.core.runtime);
        let settings = &core.config().syslog;
        let room_max = settings.message_max_bytes + STEP_ROOM_BYTES;
        let mut buffer: Vec<u8> = Vec::new();
        let mut memory = self.reserve(ROOM_MIN_BYTES).await;
        buffer.reserve_exact(ROOM_MIN_BYTES);
        loop {
            let deadline = match settings.idle_timeout {
                Duration::ZERO => Monotonic::NEVER,
                timeout => runtime.now().after(timeout),
            };
            let (outcome, returned) = reader.read(buffer, deadline).await;
            buffer = returned;
            let is_end = !matches!(outcome, Ok(count) if count > 0);
            let done = self.collect(&buffer, is_end);
            self.store().await;
            if is_end {
                return;
            }
            let capacity = buffer.capacity();
            let was_full = buffer.len() == capacity;
            buffer.drain(..done);
            let room = (capacity * 2).min(room_max);
            if buffer.len() == capacity {
                // Until there is memory for the whole message, the sender waits.
                memory = self.reserve(room).await;
                buffer.reserve_exact(room - buffer.len());
            } else if was_full && room <= ROOM_BUSY_BYTES {
                if memory.try_grow(BYTES_PER_ROOM * (room - capacity) as u64) {
                    buffer.reserve_exact(room - buffer.len());
                }
            } else if buffer.is_empty() && !was_full && capacity > ROOM_MIN_BYTES {
                (buffer, self.records) = (Vec::new(), Records::new());
                buffer.reserve_exact(ROOM_MIN_BYTES);
                memory.shrink_to(BYTES_PER_ROOM * ROOM_MIN_BYTES as u64);
            }
        }
    }

    /// Waits until there is memory for so much room.
    async fn reserve(&self, room_bytes: usize) -> Reservation {
        let core = &self.intake.core;
        loop {
            let bytes = BYTES_PER_ROOM * room_bytes as u64;
            if let Some(memory) = core.budgets().bodies.try_reserve(bytes) {
                return memory;
            }
            core.runtime.sleep_until(core.runtime.now().after(RETRY_MIN)).await;
        }
    }

    /// Makes records of all messages that are whole. Gives the number of bytes that are done.
    fn collect(&mut self, input: &[u8], is_end: bool) -> usize {
        let mut done = 0;
        loop {
            let (step, frame) = self.framer.step(&input[done..], is_end);
            done += step;
            if let Some(frame) = frame {
                self.message(frame);
            }
            if step == 0 {
                return done;
            }
        }
    }

    fn message(&mut self, frame: Frame<'_>) {
        let Intake { core, ingest, tenant, zone, .. } = &*self.intake;
        let numbers = &core.counters().numbers;
        numbers.add(self.counted, 1);
        if frame.is_cut {
            if !core.limits(tenant).max_line_size_truncate {
                let max_bytes = core.config().syslog.message_max_bytes;
                let text = format!("the syslog message is longer than {max_bytes} bytes");
                let amount = Amount { entries: 1, bytes: frame.text.len() as u64 };
                let sender = self.sender();
                ingest.note_unreadable(tenant, sender, Reason::LineTooLong, amount, &text);
                return;
            }
            numbers.add(Metric::SyslogCut, 1);
        }
        let text = String::from_utf8_lossy(frame.text);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            numbers.add(Metric::SyslogNotUtf8, 1);
        }
        let unix_ns = core.runtime.unix_nanos();
        let message = parse(&text, Arrival { unix_ns, zone: &|local| unix_seconds(zone, local) });
        if let Some(fault) = message.fault {
            numbers.add(Metric::SyslogNotParsed, 1);
            core.tell_connection("syslog_not_parsed", self.peer, fault.text());
        }
        let time_ns = self.times.give(message.timestamp_ns.unwrap_or(unix_ns));
        let labels = &core.config().syslog.labels;
        mapping::add(&mut self.records, &message, time_ns, self.peer.ip(), labels);
    }

    /// Stores the records, and leaves none.
    async fn store(&mut self) {
        let intake = Rc::clone(&self.intake);
        let Intake { core, ingest, tenant, .. } = &*intake;
        let mut wait = RETRY_MIN;
        let mut stop_ends = None;
        let patience_ends = core.runtime.now().after(LIMIT_PATIENCE);
        while !self.records.is_empty() {
            let (sender, format) = (self.sender(), PushFormat::Syslog);
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
                    self.given_up("the node stops, and the messages cannot be stored");
                    break;
                }
            }
            let is_limit = status == StatusCode::TOO_MANY_REQUESTS;
            let is_hopeless = !is_limit && !status.is_server_error();
            if is_hopeless || (is_limit && now >= patience_ends) {
                self.given_up("the messages are refused again and again");
                break;
            }
            core.counters().numbers.add(Metric::SyslogRetries, 1);
            core.runtime.sleep_until(now.after(wait)).await;
            wait = (wait * 2).min(RETRY_MAX);
        }
        self.records.clear();
    }

    /// Tells of records that are not stored and will not be.
    fn given_up(&mut self, why: &str) {
        if self.records.is_empty() {
            return;
        }
        let core = &self.intake.core;
        core.counters().numbers.add(Metric::SyslogGivenUp, self.records.len() as u64);
        core.tell_connection("syslog_given_up", self.peer, why);
        self.records.clear();
    }

    fn sender(&self) -> Sender<'static> {
        Sender { peer: self.peer, user_agent: "", route: "syslog" }
    }
}

/// From the calendar and the clock on the wall of a zone to seconds since the Unix epoch. A time
/// that the clock skips or has twice is that of the offset before the change.
fn unix_seconds(zone: &TimeZone, local: i64) -> i64 {
    let Ok(as_utc) = Timestamp::from_second(local) else { return local };
    let wall = TimeZone::UTC.to_datetime(as_utc);
    let found = zone.to_ambiguous_timestamp(wall).compatible();
    found.map_or(local, Timestamp::as_second)
}
