//! The entrance for protocols that send one message at a time, with or without HTTP: records with
//! labels of their own go in, and the fate of each comes out.
//!
//! Guarantees: the same limits, metrics and refusals as of a push; records of a stream keep their
//! order. A record is [`Fate::Stored`] once it is durable. Whatever is refused has been counted,
//! listed and told when the fates are there. An error means that all records may be sent again,
//! unless its status says otherwise: those that are stored already are then dropped as duplicates.
//! Memory for the batches is reserved here; the arena of the records belongs to the caller.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use logsvc_proto::TenantId;
use logsvc_proto::error::ApiError;
use logsvc_proto::push::EntryRef;
use logsvc_proto::records::Records;
use logsvc_runtime::Runtime;
use logsvc_shards::messages::TooFarBehind;

use super::Ingest;
use super::batches::{Ages, BadEntry, EntryCursor, Ingested, PushKind, PushedStream};
use super::outcome::Gathered;
use super::push_memory::PushMemory;
use super::refusals::{Pieces, Refusal};
use super::stream_cache::CachedStream;
use super::streams::refuse_reserved;
use crate::metrics::{Amount, PushFormat, Reason};
use crate::refusals::Sender;

/// Bytes of texts that the refusals of one call keep; later ones get a short text.
const TEXTS_MAX_BYTES: usize = 1 << 20;

/// Bytes that a record takes in lists and in its batch, besides line and metadata.
const RECORD_OVERHEAD_BYTES: u64 = 96;

/// What became of a record.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    /// It is on stable storage.
    Stored,
    /// It will never be stored.
    Refused {
        /// What the sender is told.
        text: Rc<str>,
    },
    /// It may be stored when it is sent again.
    Later(Rc<ApiError>),
}

/// The fates of all records of a call, in their order.
#[derive(Debug)]
pub(crate) struct Fates(Vec<Fate>);

impl Fates {
    /// The fate of the record at this place.
    pub(crate) fn get(&self, place: usize) -> &Fate {
        &self.0[place]
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Fate> {
        self.0.iter()
    }
}

/// Fates while they are found.
struct Open {
    fates: Vec<Fate>,
    texts_bytes: usize,
}

impl Open {
    fn refuse(&mut self, place: usize, reason: Reason, text: &str) {
        let text = if self.texts_bytes < TEXTS_MAX_BYTES { text } else { reason.name() };
        self.texts_bytes += text.len();
        self.fates[place] = Fate::Refused { text: text.into() };
    }
}

/// The records of one stream.
struct Group {
    stream: Rc<CachedStream>,
    places: Vec<usize>,
}

/// The same as a stream of a push.
struct RecordStream<'a> {
    records: &'a Records,
    places: &'a [usize],
    fates: &'a RefCell<Open>,
}

/// A cursor over them.
struct RecordEntries<'a> {
    stream: RecordStream<'a>,
    next: usize,
    pairs: Vec<(&'a [u8], &'a [u8])>,
}

impl<'a> PushedStream for RecordStream<'a> {
    type Entries<'s>
        = RecordEntries<'a>
    where
        Self: 's;

    fn entries(&self) -> RecordEntries<'a> {
        let stream = RecordStream { ..*self };
        RecordEntries { stream, next: 0, pairs: Vec::new() }
    }
}

impl EntryCursor for RecordEntries<'_> {
    fn next_entry(&mut self) -> Option<Result<EntryRef<'_>, BadEntry>> {
        let place = *self.stream.places.get(self.next)?;
        self.next += 1;
        Some(Ok(self.stream.records.entry(place, &mut self.pairs)))
    }

    fn refused(&mut self, refusal: &Refusal) {
        let place = self.stream.places[self.next - 1];
        self.stream.fates.borrow_mut().refuse(place, refusal.reason, &refusal.text);
    }
}

impl<R: Runtime> Ingest<R> {
    /// Stores records, and returns when each of them has its fate.
    ///
    /// # Errors
    /// See the module.
    pub(crate) async fn take_records(
        &self,
        tenant: &TenantId,
        sender: Sender<'_>,
        format: PushFormat,
        records: &Records,
    ) -> Result<Fates, ApiError> {
        self.noted(Some(tenant), sender, self.check_running())?;
        self.take_received_records(tenant, sender, format, records).await
    }

    /// The same also while the node stops: for protocols whose senders are told nothing, so that
    /// what was received is stored.
    ///
    /// # Errors
    /// See the module.
    pub(crate) async fn take_received_records(
        &self,
        tenant: &TenantId,
        sender: Sender<'_>,
        format: PushFormat,
        records: &Records,
    ) -> Result<Fates, ApiError> {
        self.take_records_of(tenant, sender, format, records, Ages::Recent).await
    }

    /// [`Ingest::take_records`] for the entries of another store: they may be of any age and in any
    /// order, and have the labels that only the server gives.
    ///
    /// # Errors
    /// See the module.
    pub(crate) async fn take_old_records(
        &self,
        tenant: &TenantId,
        sender: Sender<'_>,
        format: PushFormat,
        records: &Records,
    ) -> Result<Fates, ApiError> {
        self.noted(Some(tenant), sender, self.check_running())?;
        self.take_records_of(tenant, sender, format, records, Ages::Any).await
    }

    async fn take_records_of(
        &self,
        tenant: &TenantId,
        sender: Sender<'_>,
        format: PushFormat,
        records: &Records,
        ages: Ages,
    ) -> Result<Fates, ApiError> {
        let fates = vec![Fate::Stored; records.len()];
        if records.is_empty() {
            return Ok(Fates(fates));
        }
        let reserved = self.reserve(records).await;
        let _reserved = self.noted(Some(tenant), sender, reserved)?;
        let limits = self.core.limits(tenant);
        let fates = RefCell::new(Open { fates, texts_bytes: 0 });
        let groups = self.group(tenant, sender, records, ages, &fates);
        let mut kind = PushKind { entries: 0, bytes: 0, ages, sender, format };
        for &place in groups.iter().flat_map(|group| &group.places) {
            kind.entries += 1;
            kind.bytes += records.entry_len_bytes(place);
        }
        if kind.entries > 0 {
            let stream_of = |group: &'_ Group| Rc::clone(&group.stream);
            let streams = groups.iter().map(|group| {
                let places = &group.places;
                (RecordStream { records, places, fates: &fates }, stream_of(group))
            });
            match self.ingest(tenant, &limits, streams.collect(), kind).await {
                // The operator wants entries to vanish.
                Ingested::Answered(_) => {}
                Ingested::Refused(error) => return Err(error),
                Ingested::Sent(sent) => {
                    let mut gathered = self.gather(tenant, *sent).await;
                    if let Some(error) = gathered.stored.failure.take() {
                        return Err(error);
                    }
                    let fates = &mut *fates.borrow_mut();
                    let window_ns = self.core.config().out_of_order_window_ns;
                    judge_streams(tenant, &groups, records, &gathered, window_ns, fates);
                }
            }
        }
        Ok(Fates(fates.into_inner().fates))
    }

    /// Notes what was sent as entries and cannot be read as such.
    pub(crate) fn note_unreadable(
        &self,
        tenant: &TenantId,
        sender: Sender<'_>,
        reason: Reason,
        amount: Amount,
        text: &str,
    ) {
        let mut pieces = Pieces::default();
        pieces.add(amount, reason, None, text, (None, None));
        self.note_pieces(tenant, sender, &pieces);
    }

    /// Waits for the turn of the records, and reserves memory for their batches.
    async fn reserve(&self, records: &Records) -> Result<PushMemory, ApiError> {
        self.take_last_turn().await?;
        let mut memory = PushMemory::new(&self.core.budgets().bodies, 0, None)?;
        let overhead = RECORD_OVERHEAD_BYTES.saturating_mul(records.len() as u64);
        memory.grow(records.len_bytes().saturating_add(overhead))?;
        Ok(memory)
    }

    /// Finds the streams of records. Records of none have their fate then.
    fn group(
        &self,
        tenant: &TenantId,
        sender: Sender<'_>,
        records: &Records,
        ages: Ages,
        fates: &RefCell<Open>,
    ) -> Vec<Group> {
        let limits = self.core.limits(tenant);
        let mut groups: Vec<Group> = Vec::new();
        let mut by_id = BTreeMap::new();
        let mut refused = Pieces::default();
        let fates = &mut *fates.borrow_mut();
        let mut last = None;
        for place in 0..records.len() {
            let labels = records.labels(place);
            if let Some((known, group)) = last
                && known == labels
            {
                let group: &mut Group = &mut groups[group];
                group.note(place, fates);
                continue;
            }
            let resolved = self.resolve(tenant, &limits, &labels).and_then(|stream| match ages {
                Ages::Any => Ok(stream),
                Ages::Recent | Ages::Old => refuse_reserved(&stream.labels).map(|()| stream),
            });
            match resolved {
                Ok(stream) => {
                    let group = *by_id.entry(stream.id).or_insert_with(|| {
                        groups.push(Group { stream, places: Vec::new() });
                        groups.len() - 1
                    });
                    last = Some((labels, group));
                    groups[group].note(place, fates);
                }
                Err(error) => {
                    let text = error.message.trim_end();
                    let amount = Amount { entries: 1, bytes: records.entry_len_bytes(place) };
                    refused.add(amount, Reason::InvalidLabels, None, text, (None, None));
                    fates.refuse(place, Reason::InvalidLabels, text);
                }
            }
        }
        self.note_pieces(tenant, sender, &refused);
        groups
    }
}

impl Group {
    /// Adds a record. If the stream is refused, the record is so, too.
    fn note(&mut self, place: usize, fates: &mut Open) {
        self.places.push(place);
        if let Some(refusal) = &self.stream.refusal {
            fates.refuse(place, refusal.reason, &refusal.text);
        }
    }
}

/// The fates that streams and shards decide.
fn judge_streams(
    tenant: &TenantId,
    groups: &[Group],
    records: &Records,
    gathered: &Gathered,
    window_ns: i64,
    fates: &mut Open,
) {
    let refused_streams = &gathered.stored.refused_streams;
    let no_memory = Rc::new(refused_streams.error());
    for group in groups.iter().filter(|group| group.stream.refusal.is_none()) {
        let limited = gathered.limit_check.error_of(tenant, &group.stream);
        let later = match limited {
            Some(error) => Some(Rc::new(error)),
            None => refused_streams.ids.contains(&group.stream.id).then(|| Rc::clone(&no_memory)),
        };
        match later {
            Some(error) => {
                for &place in &group.places {
                    if matches!(fates.fates[place], Fate::Stored) {
                        fates.fates[place] = Fate::Later(Rc::clone(&error));
                    }
                }
            }
            None => {
                let late = gathered.stored.too_far_behind.iter();
                late.filter(|late| late.stream == group.stream.id)
                    .for_each(|late| judge_late(group, records, late, window_ns, fates));
            }
        }
    }
}

/// Finds the entries that a shard refused as too far behind. It names the first, with the time
/// that it had to keep to. From there on the rule of the shard is known: no entry may be further
/// than the window behind the newest before it.
fn judge_late(
    group: &Group,
    records: &Records,
    late: &TooFarBehind,
    window_ns: i64,
    fates: &mut Open,
) {
    let Some(&(first_ns, mut oldest_ns)) = late.entries.first() else { return };
    let mut left = late.refused;
    let mut pairs = Vec::new();
    for &place in &group.places {
        if left == 0 {
            return;
        }
        if !matches!(fates.fates[place], Fate::Stored) {
            continue;
        }
        let Some(timestamp_ns) = records.entry(place, &mut pairs).timestamp_ns else { continue };
        if left == late.refused && timestamp_ns != first_ns {
            continue;
        }
        if timestamp_ns < oldest_ns {
            let text = "the entry is too far behind the newest of its stream";
            fates.refuse(place, Reason::TooFarBehind, text);
            left -= 1;
        } else {
            oldest_ns = oldest_ns.max(timestamp_ns.saturating_sub(window_ns));
        }
    }
}
