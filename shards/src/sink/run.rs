//! The sink: gathers pieces, writes objects, confirms.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use flume::r#async::RecvStream;
use flume::{Receiver, Sender};
use futures_util::future::LocalBoxFuture;
use futures_util::stream::{FuturesOrdered, Stream, StreamExt};
use logsvc_runtime::{Latch, Monotonic, Reservation, Runtime};
use logsvc_store::Store;
use logsvc_store::log::{Entry, IN_FLIGHT_MAX, LogError, LogName, LogWriter};
use logsvc_store::object::HEADER_LEN;

use super::pieces::{PIECE_HEADER_LEN, PieceRef, write_piece};
use super::{Confirmation, Piece, SPARE_OBJECTS, SinkConfig, SinkStatus, Spares, WalIndex};
use crate::wal::format::WalName;

/// How long one attempt to write an object has patience with the bucket.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// The first pause after a failure; pauses double up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How often failures are told.
const TOLD_INTERVAL: Duration = Duration::from_secs(60);
/// How long a node that stops has patience with the bucket.
const STOP_PATIENCE: Duration = Duration::from_secs(20);

type Timer = Pin<Box<dyn Future<Output = ()>>>;
type Writes = FuturesOrdered<LocalBoxFuture<'static, Result<(), LogError>>>;

/// See [`super`].
pub struct Sink<R: Runtime> {
    runtime: R,
    /// Gives objects their numbers.
    numbers: LogWriter<R>,
    /// Writes them. Only the object counts, so it need not be the one that gave the number.
    writer: Rc<LogWriter<R>>,
    ways: Ways,
    config: SinkConfig,
    status: Arc<SinkStatus>,
    index: WalIndex,
    /// The next object.
    gathered: Gathered,
    /// Room for its header, and the payload; without both if nothing was gathered.
    object: Vec<u8>,
    object_memory: Spares,
    /// The piece that was begun, and how many of its bytes are in objects.
    rest: Option<(Piece, usize)>,
    /// Objects that are on their way, in order.
    on_their_way: VecDeque<(Entry, Written)>,
    /// Objects that count, and that the bucket does not know of yet.
    counted: VecDeque<Written>,
    is_stopping: bool,
}

/// The sink's ends of the ways.
pub(super) struct Ways {
    pub(super) pieces: Receiver<Piece>,
    /// Where each core gets its confirmations.
    pub(super) cores: Vec<Sender<Confirmation>>,
    /// Where the memory of pieces goes.
    pub(super) spares: Spares,
}

/// What an object stands for.
#[derive(Debug, Default)]
struct Gathered {
    names: BTreeSet<WalName>,
    /// The last piece of each core that it makes whole.
    ends: BTreeMap<u16, u64>,
    since: Option<Monotonic>,
    memory: Vec<Reservation>,
}

/// An object that counts if all before it do.
#[derive(Debug)]
struct Written {
    number: u64,
    len_bytes: u64,
    /// When it was sent for the first time.
    begun: Monotonic,
    gathered: Gathered,
}

/// What the sink has waited for.
enum Event {
    Piece(Piece),
    /// Of the first object that is on its way.
    Written(Result<(), LogError>),
    Announced,
    /// Somebody asks for the end of the log.
    End,
    Due,
    Stop,
}

impl<R: Runtime> std::fmt::Debug for Sink<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sink").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<R: Runtime> Sink<R> {
    pub(super) fn new(
        runtime: R,
        store: Store<R>,
        log: LogName,
        ways: Ways,
        config: SinkConfig,
        status: Arc<SinkStatus>,
    ) -> Sink<R> {
        let writer = || LogWriter::new(runtime.clone(), store.clone(), log.clone());
        Sink {
            numbers: writer(),
            writer: Rc::new(writer()),
            ways,
            config,
            index: WalIndex::new(Arc::clone(&status)),
            gathered: Gathered::default(),
            object: Vec::new(),
            object_memory: Spares::new(SPARE_OBJECTS, HEADER_LEN + config.max_bytes),
            rest: None,
            on_their_way: VecDeque::new(),
            counted: VecDeque::new(),
            is_stopping: false,
            status,
            runtime,
        }
    }

    /// Which objects are needed; the follower has to know.
    pub fn index(&self) -> WalIndex {
        self.index.clone()
    }

    /// Brings pieces into the bucket until the latch is triggered, which is to be done when all
    /// shards have stopped. Brings what is left there then, if that can be done soon.
    ///
    /// # Errors
    /// Another process has taken the log over, or the log cannot be trusted. The cores know.
    pub async fn run(mut self, stop: Latch) -> Result<(), LogError> {
        let mut writes = Writes::new();
        let result = self.work(&mut writes, &stop).await;
        self.ways.spares.free();
        if let Err(error) = &result {
            self.status.note_lost();
            // The caller knows whether this is a failure.
            tracing::warn!("no entry is acknowledged any more: {error}");
            let why: Arc<str> = error.to_string().into();
            for core in &self.ways.cores {
                // A core that is gone asks nothing.
                let _ = core.send(Confirmation::Lost(Arc::clone(&why)));
            }
        }
        result
    }

    async fn work(&mut self, writes: &mut Writes, stop: &Latch) -> Result<(), LogError> {
        let mut pieces = self.ways.pieces.clone().into_stream();
        let (mut timer, mut deadline): (Option<Timer>, Option<Timer>) = (None, None);
        loop {
            self.gather();
            let can_write = writes.len() < self.config.in_flight.min(IN_FLIGHT_MAX as usize);
            if self.is_due() && can_write {
                writes.push_back(self.begin());
                timer = None;
                continue;
            }
            if self.is_stopping && writes.is_empty() && self.has_nothing() {
                return Ok(());
            }
            // An object that is due waits for the end of a write, and for no time.
            if let (None, true, Some(since)) = (&timer, can_write, self.gathered.since) {
                timer = Some(self.timer(since.after(self.config.max_delay)));
            }
            let timers = [&mut timer, &mut deadline];
            match self.wait(&mut pieces, writes, timers, stop).await {
                Event::Piece(piece) => self.rest = Some((piece, 0)),
                Event::Written(Err(LogError::Torn { number, .. })) => self.resume(number, writes),
                Event::Written(written) => {
                    written?;
                    if let Some((entry, written)) = self.on_their_way.pop_front() {
                        let memory = entry.into_memory();
                        memory.into_iter().for_each(|memory| self.object_memory.give(memory));
                        self.counted.push_back(written);
                    }
                    self.confirm();
                    if writes.is_empty() && self.has_nothing() {
                        self.object_memory.free();
                        self.ways.spares.free();
                    }
                }
                Event::Announced => self.confirm(),
                Event::End if self.has_nothing() && self.index.lacks_end() => {
                    writes.push_back(self.begin());
                }
                Event::End => {}
                Event::Due if self.is_stopping && deadline.is_none() => return Ok(()),
                Event::Due => {}
                Event::Stop => {
                    self.is_stopping = true;
                    deadline = Some(self.timer(self.runtime.now().after(STOP_PATIENCE)));
                }
            }
        }
    }

    fn timer(&self, deadline: Monotonic) -> Timer {
        let runtime = self.runtime.clone();
        Box::pin(async move { runtime.sleep_until(deadline).await })
    }

    async fn wait(
        &self,
        pieces: &mut RecvStream<'_, Piece>,
        writes: &mut Writes,
        mut timers: [&mut Option<Timer>; 2],
        stop: &Latch,
    ) -> Event {
        let takes = self.rest.is_none();
        let waits_for_announcement =
            !self.counted.is_empty() && !self.index.announced().is_triggered();
        let mut announced = pin!(self.index.announced().wait());
        let mut end_asked = pin!(self.index.end_asked().wait());
        let mut stopping = pin!(stop.wait());
        poll_fn(|context| {
            if !writes.is_empty()
                && let Poll::Ready(Some(written)) = writes.poll_next_unpin(context)
            {
                return Poll::Ready(Event::Written(written));
            }
            if waits_for_announcement && announced.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Announced);
            }
            if takes && let Poll::Ready(Some(piece)) = Pin::new(&mut *pieces).poll_next(context) {
                return Poll::Ready(Event::Piece(piece));
            }
            if end_asked.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::End);
            }
            for timer in &mut timers {
                if let Some(running) = timer
                    && running.as_mut().poll(context).is_ready()
                {
                    **timer = None;
                    return Poll::Ready(Event::Due);
                }
            }
            if !self.is_stopping && stopping.as_mut().poll(context).is_ready() {
                return Poll::Ready(Event::Stop);
            }
            Poll::Pending
        })
        .await
    }

    /// Brings as much of the piece that was begun into the object as there is room for.
    fn gather(&mut self) {
        let Some((piece, done)) = &mut self.rest else { return };
        if self.object.is_empty() {
            self.object = self.object_memory.take(HEADER_LEN);
            self.object.resize(HEADER_LEN, 0);
        }
        let room = (HEADER_LEN + self.config.max_bytes)
            .saturating_sub(self.object.len() + PIECE_HEADER_LEN);
        let len = room.min(piece.bytes.len() - *done);
        if len == 0 && !piece.bytes.is_empty() {
            return;
        }
        let (offset, bytes) = (piece.offset + *done as u64, &piece.bytes[*done..*done + len]);
        self.object_memory.reserve(&mut self.object, PIECE_HEADER_LEN + len);
        write_piece(&mut self.object, PieceRef { name: piece.name, offset, bytes });
        *done += len;
        self.gathered.names.insert(piece.name);
        self.gathered.since.get_or_insert(self.runtime.now());
        if *done == piece.bytes.len()
            && let Some((piece, _)) = self.rest.take()
        {
            self.gathered.ends.insert(piece.core, piece.sequence);
            self.gathered.memory.extend(piece.memory);
            self.ways.spares.give(piece.bytes);
        }
    }

    /// Whether the object has to go.
    fn is_due(&self) -> bool {
        let Some(since) = self.gathered.since else { return false };
        let is_full = self.rest.is_some()
            || self.object.len() + PIECE_HEADER_LEN >= HEADER_LEN + self.config.max_bytes;
        let is_old = self.runtime.now() >= since.after(self.config.max_delay);
        is_full || is_old || (self.is_stopping && self.ways.pieces.is_empty())
    }

    fn has_nothing(&self) -> bool {
        self.rest.is_none() && self.gathered.since.is_none() && self.ways.pieces.is_empty()
    }

    /// Begins to write what was gathered.
    fn begin(&mut self) -> LocalBoxFuture<'static, Result<(), LogError>> {
        let mut object = std::mem::take(&mut self.object);
        if object.is_empty() {
            object.resize(HEADER_LEN, 0);
        }
        let len_bytes = (object.len() - HEADER_LEN) as u64;
        let entry = self.numbers.begin_in_place(object);
        let gathered = std::mem::take(&mut self.gathered);
        self.index.note_begun(entry.number, gathered.names.clone(), gathered.ends.clone());
        let begun = self.runtime.now();
        let written = Written { number: entry.number, len_bytes, begun, gathered };
        let write = self.write(entry.clone());
        self.on_their_way.push_back((entry, written));
        write
    }

    fn write(&self, entry: Entry) -> LocalBoxFuture<'static, Result<(), LogError>> {
        let (writer, runtime) = (Rc::clone(&self.writer), self.runtime.clone());
        let status = Arc::clone(&self.status);
        Box::pin(async move { write(&writer, &runtime, &status, &entry).await })
    }

    /// Writes all objects that are on their way again, with other numbers.
    fn resume(&mut self, torn: u64, writes: &mut Writes) {
        // Their requests may still take effect: those numbers are void.
        writes.clear();
        let (mut entries, objects): (Vec<Entry>, Vec<Written>) =
            self.on_their_way.drain(..).unzip();
        self.numbers.resume(&mut entries);
        self.index.note_resumed(torn, entries.first().map_or(torn, |entry| entry.number));
        for (entry, object) in entries.into_iter().zip(objects) {
            writes.push_back(self.write(entry.clone()));
            let begun = self.runtime.now();
            let object = Written { number: entry.number, begun, ..object };
            self.on_their_way.push_back((entry, object));
        }
    }

    /// Confirms what counts, if the bucket knows of the log.
    fn confirm(&mut self) {
        if !self.index.announced().is_triggered() {
            return;
        }
        for Written { number, len_bytes, begun, gathered } in self.counted.drain(..) {
            self.index.note_confirmed(number);
            self.status.note_begun(begun);
            let delay = gathered.since.map(|since| self.runtime.now().since(since));
            self.status.note_confirmed(len_bytes, delay);
            for (core, sequence) in gathered.ends {
                self.status.note_core_confirmed(core, sequence);
                if let Some(core) = self.ways.cores.get(usize::from(core)) {
                    // A core that is gone asks nothing.
                    let _ = core.send(Confirmation::UpTo(sequence));
                }
            }
        }
    }
}

/// Writes an object, however long it takes, unless it needs another number.
async fn write<R: Runtime>(
    writer: &LogWriter<R>,
    runtime: &R,
    status: &SinkStatus,
    entry: &Entry,
) -> Result<(), LogError> {
    let (mut pause, mut told) = (PAUSE_MIN, None);
    loop {
        match writer.write(entry, runtime.now().after(WRITE_PATIENCE)).await {
            Err(LogError::Store(error)) => {
                status.note_failure();
                let now = runtime.now();
                if told.is_none_or(|told: Monotonic| now >= told.after(TOLD_INTERVAL)) {
                    told = Some(now);
                    tracing::error!(
                        "the bucket does not take the write-ahead log; no entry is acknowledged \
                         until it does, and this is tried again: {error}"
                    );
                }
                runtime.sleep_until(now.after(pause)).await;
                pause = (pause * 2).min(PAUSE_MAX);
            }
            Err(error @ LogError::Torn { .. }) => {
                status.note_failure();
                tracing::warn!("an object of the write-ahead log is sent again: {error}");
                runtime.sleep_until(runtime.now().after(PAUSE_MIN)).await;
                return Err(error);
            }
            other => return other,
        }
    }
}
