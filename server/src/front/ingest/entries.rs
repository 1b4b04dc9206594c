//! Checks pushed entries against the limits of their tenant, and adds detected levels to the good
//! ones.
//!
//! Nothing is allocated for an entry that is accepted as it was sent.

use std::num::NonZeroU64;

use logsvc_proto::discover::{
    DETECTED_LEVEL, LevelFields, WithLevel, beside_level, is_known_level, line_level,
    normalize_level, severity_number_level,
};
use logsvc_proto::push::EntryRef;
use logsvc_proto::push::metadata::{MetadataNormalizer, NormalizedIter, NormalizedMetadata};
use logsvc_segment::batch::{BATCH_MAX_BYTES, BatchBuilder};

use super::batches::Ages;
use super::refusals::{Refusal, rfc3339};
use super::stream_cache::CachedStream;
use crate::config::Limits;
use crate::metrics::{Amount, Reason};

/// No entry may have more bytes in its line and metadata, whatever the limits say: it must fit
/// into a batch beside others.
const ENTRY_HARD_MAX_BYTES: usize = BATCH_MAX_BYTES - (8 << 20);

/// The largest entry is the memory for recent entries divided by this.
const LARGEST_ENTRY_SHARE: u64 = 2;

/// Most bytes of line and metadata that an entry may have, if the node has so much memory for
/// recent entries: one that is too large for it would be refused for ever, as if that passed.
pub(super) fn entry_max_bytes(heads_max_bytes: u64) -> usize {
    let share = heads_max_bytes / LARGEST_ENTRY_SHARE;
    usize::try_from(share).unwrap_or(usize::MAX).min(ENTRY_HARD_MAX_BYTES)
}

/// The newest time that an entry may have, in ns since the Unix epoch: the end of a range is
/// not in it.
const NEWEST_STORED_NS: i64 = i64::MAX - 1;

/// The metadata that holds the severity of OpenTelemetry records.
const SEVERITY_NUMBER: &[u8] = b"severity_number";

/// Checks the entries of one push, stream by stream.
pub(super) struct EntryCheck<'c> {
    limits: &'c Limits,
    oldest_ns: Option<i64>,
    newest_ns: Option<i64>,
    line_max_bytes: usize,
    entry_max_bytes: usize,
    discovers_level: bool,
    normalizer: MetadataNormalizer,
    /// The number that `normalizer` has for names none of which tells a level.
    silent_names: Option<NonZeroU64>,
    /// A line that was cut.
    cut: Vec<u8>,
    /// Lines that were cut, and the bytes that they lost.
    pub(super) shortened: Amount,
    /// Entries whose metadata had names that became one, and the bytes of the values that were
    /// dropped.
    pub(super) merged: Amount,
    previous: Previous,
}

/// The entry before, for moving entries of equal times apart.
#[derive(Default)]
struct Previous {
    /// Its time as sent and as stored.
    times_ns: Option<(i64, i64)>,
    line: Vec<u8>,
}

/// A name and a value.
type Pair = (&'static [u8], &'static [u8]);

/// An entry as it is stored.
pub(super) struct Accepted<'e> {
    /// When, in ns since the Unix epoch.
    pub(super) timestamp_ns: i64,
    line: &'e [u8],
    level: Option<&'e [u8]>,
    /// Its metadata as sent, in normal form, if it has any; a level takes the place of one
    /// that is there.
    pairs: Option<NormalizedIter<'e>>,
    /// Whether none of them is known to be a level.
    is_silent: bool,
}

impl Accepted<'_> {
    /// Bytes for the rate limits: the line and the metadata.
    pub(super) fn len_bytes(&self) -> u64 {
        let metadata_len: usize = match &self.pairs {
            None => self.level.map_or(0, |level| DETECTED_LEVEL.len() + level.len()),
            Some(pairs) => WithLevel::new(pairs.clone(), self.level)
                .map(|(name, value)| name.len() + value.len())
                .sum(),
        };
        (self.line.len() + metadata_len) as u64
    }

    /// Appends the entry to the open section of a batch. Entries share known levels, of which
    /// there are few; others could be as many as there are entries.
    #[inline]
    pub(super) fn write(self, builder: &mut BatchBuilder) {
        let Accepted { timestamp_ns, line, level, pairs, is_silent } = self;
        let pair = level.map(|level| (DETECTED_LEVEL.as_bytes(), level));
        if level.is_some_and(is_known_level) {
            let shared = pair.as_slice();
            match pairs {
                None => {
                    builder.push_sharing(timestamp_ns, line, shared, std::iter::empty::<Pair>())
                }
                Some(others) if is_silent => {
                    builder.push_sharing(timestamp_ns, line, shared, others)
                }
                Some(pairs) => {
                    builder.push_sharing(timestamp_ns, line, shared, beside_level(pairs))
                }
            }
        } else {
            match pairs {
                None => builder.push(timestamp_ns, line, pair.into_iter()),
                Some(pairs) => builder.push(timestamp_ns, line, WithLevel::new(pairs, level)),
            }
        }
    }
}

impl<'c> EntryCheck<'c> {
    /// For a push that arrives at `now_ns`. No entry may have
    /// more than `entry_max_bytes`.
    pub(super) fn new(
        limits: &'c Limits,
        now_ns: i64,
        ages: Ages,
        entry_max_bytes: usize,
    ) -> EntryCheck<'c> {
        let line_max_bytes = match limits.max_line_size_bytes {
            0 => entry_max_bytes,
            limit => limit.min(entry_max_bytes),
        };
        EntryCheck {
            limits,
            oldest_ns: (limits.reject_old_samples && ages == Ages::Recent)
                .then(|| now_ns.saturating_sub(limits.reject_old_samples_max_age_ns)),
            newest_ns: (limits.creation_grace_period_ns > 0)
                .then(|| now_ns.saturating_add(limits.creation_grace_period_ns)),
            line_max_bytes,
            entry_max_bytes,
            discovers_level: limits.discover_log_levels && limits.allow_structured_metadata,
            normalizer: MetadataNormalizer::new(),
            silent_names: None,
            cut: Vec::new(),
            shortened: Amount::default(),
            merged: Amount::default(),
            previous: Previous::default(),
        }
    }

    /// Tells that the next entry is the first of a stream.
    pub(super) fn begin_stream(&mut self) {
        self.previous.times_ns = None;
    }

    /// Checks the next entry of a stream.
    ///
    /// # Errors
    /// Why the entry is refused.
    #[inline]
    pub(super) fn judge<'e>(
        &'e mut self,
        stream: &'e CachedStream,
        entry: EntryRef<'e>,
    ) -> Result<Accepted<'e>, Refusal> {
        let sent_ns = self.check_time(stream, entry.timestamp_ns)?;
        let mut line = entry.line;
        if line.len() > self.line_max_bytes {
            line = self.shorten(stream, line)?;
        } else {
            self.cut.clear();
        }
        if !entry.metadata.is_empty() {
            let room = self.entry_max_bytes - line.len().min(self.line_max_bytes);
            check_metadata(self.limits, room, stream, &entry)?;
        }
        let timestamp_ns = if self.limits.increment_duplicate_timestamp {
            self.previous.move_apart(sent_ns, line)
        } else {
            sent_ns
        };
        let line = if self.cut.is_empty() { line } else { &self.cut };
        let fields = self.discovers_level.then_some(&self.limits.log_level_fields);
        let told_by_line = |fields: &LevelFields| {
            let level = line_level(line, fields, self.limits.log_level_from_json_max_depth);
            level.as_str().as_bytes()
        };
        if entry.metadata.is_empty() {
            let level = fields
                .map(|fields| stream.level.as_deref().unwrap_or_else(|| told_by_line(fields)));
            return Ok(Accepted { timestamp_ns, line, level, pairs: None, is_silent: true });
        }
        let pairs = self
            .normalizer
            .normalize(entry.metadata)
            .map_err(|error| Refusal::new(Reason::InvalidLabels, error.to_string()))?;
        let lost = pairs.lost();
        if lost.count > 0 {
            self.merged.add(1, lost.len_bytes);
        }
        let names = pairs.names_number();
        // Most entries have the names of the one before.
        let mut is_silent = names.is_some() && names == self.silent_names;
        let level = fields.map(|fields| {
            let mut stated = stream.level.as_deref();
            if !is_silent {
                (stated, is_silent) = stated_level(stream, &pairs, fields);
                self.silent_names = names.filter(|_| is_silent);
            }
            stated.unwrap_or_else(|| told_by_line(fields))
        });
        Ok(Accepted { timestamp_ns, line, level, pairs: Some(pairs.iter()), is_silent })
    }

    fn check_time(&self, stream: &CachedStream, time: Option<i64>) -> Result<i64, Refusal> {
        let labels = || stream.labels.canonical();
        if self.oldest_ns.is_some_and(|oldest| time.is_none_or(|time| time < oldest)) {
            let text = format!(
                "entry for stream '{}' has timestamp too old: {}, oldest acceptable timestamp is: {}",
                labels(),
                rfc3339(time),
                rfc3339(self.oldest_ns)
            );
            return Err(Refusal::new(Reason::GreaterThanMaxSampleAge, text)
                .with_times(time, self.oldest_ns));
        }
        let Some(timestamp_ns) = time else {
            // Without one it would be of the oldest time there is.
            let text = format!("entry for stream '{}' has no timestamp", labels());
            return Err(Refusal::new(Reason::GreaterThanMaxSampleAge, text));
        };
        // Ranges do not reach behind the last nanosecond there is, so nothing would find it.
        let is_unreachable = timestamp_ns > NEWEST_STORED_NS;
        if is_unreachable || self.newest_ns.is_some_and(|newest| timestamp_ns > newest) {
            let text =
                format!("entry for stream '{}' has timestamp too new: {}", labels(), rfc3339(time));
            return Err(Refusal::new(Reason::TooFarInFuture, text).with_times(time, self.newest_ns));
        }
        Ok(timestamp_ns)
    }

    /// Cuts a line that is too long, or refuses it. The cut line is in `self.cut`.
    fn shorten<'e>(&mut self, stream: &CachedStream, line: &'e [u8]) -> Result<&'e [u8], Refusal> {
        if !self.limits.max_line_size_truncate {
            let text = format!(
                "max entry size '{}' bytes exceeded for stream '{}' while adding an entry with length '{}' bytes",
                self.line_max_bytes,
                stream.labels.canonical(),
                line.len()
            );
            return Err(Refusal::new(Reason::LineTooLong, text));
        }
        let identifier = self.limits.max_line_size_truncate_identifier.as_bytes();
        let kept_len = self.line_max_bytes.saturating_sub(identifier.len());
        self.cut.clear();
        self.cut.extend_from_slice(&line[..kept_len]);
        self.cut.extend_from_slice(identifier);
        self.shortened.add(1, line.len().saturating_sub(self.cut.len()) as u64);
        Ok(line)
    }
}

impl Previous {
    /// The time under which an entry is stored: 1 ns behind the entry before it if
    /// that has the same time and another line.
    fn move_apart(&mut self, sent_ns: i64, line: &[u8]) -> i64 {
        let stored_ns = match self.times_ns {
            Some((before_sent_ns, before_ns))
                if (sent_ns == before_sent_ns || sent_ns == before_ns) && self.line != line =>
            {
                before_ns.saturating_add(1).min(NEWEST_STORED_NS)
            }
            _ => sent_ns,
        };
        self.times_ns = Some((sent_ns, stored_ns));
        self.line.clear();
        self.line.extend_from_slice(line);
        stored_ns
    }
}

/// The level that the sender states, in the labels of the stream or in the metadata, and
/// whether no name in the metadata is one that could have told it.
fn stated_level<'e>(
    stream: &'e CachedStream,
    pairs: &NormalizedMetadata<'e>,
    fields: &LevelFields,
) -> (Option<&'e [u8]>, bool) {
    // Most metadata has none of the names, which one walk over it tells.
    let (mut has_field, mut severity_number) = (false, None);
    for (name, value) in pairs.iter() {
        if name == DETECTED_LEVEL.as_bytes() {
            return (Some(normalize_level(value)), false);
        }
        has_field |= fields.contains(name);
        if name == SEVERITY_NUMBER {
            severity_number = Some(value);
        }
    }
    let is_silent = !has_field && severity_number.is_none();
    if let Some(level) = stream.level.as_deref() {
        return (Some(level), is_silent);
    }
    let get =
        |wanted: &[u8]| pairs.iter().find(|&(name, _)| name == wanted).map(|(_, value)| value);
    if has_field && let Some(level) = fields.names().find_map(|name| get(name.as_bytes())) {
        return (Some(normalize_level(level)), is_silent);
    }
    let level = severity_number.map(|number| severity_number_level(number).as_str().as_bytes());
    (level, is_silent)
}

/// Checks metadata of an entry that has room for so many bytes of it.
fn check_metadata(
    limits: &Limits,
    room_bytes: usize,
    stream: &CachedStream,
    entry: &EntryRef<'_>,
) -> Result<(), Refusal> {
    let (pairs, bytes) = (entry.metadata.count(), entry.metadata.len_bytes());
    let labels = || stream.labels.canonical();
    if !limits.allow_structured_metadata {
        let text = format!(
            "stream '{}' includes structured metadata, but this feature is disallowed. Please see \
             `limits_config.allow_structured_metadata` or contact your administrator to enable it",
            labels()
        );
        return Err(Refusal::new(Reason::DisallowedStructuredMetadata, text));
    }
    let max_bytes = match limits.max_structured_metadata_size_bytes {
        0 => room_bytes,
        limit => limit.min(room_bytes),
    };
    if bytes > max_bytes {
        let text = format!(
            "stream '{}' has structured metadata too large: '{bytes}' bytes, limit: '{max_bytes}' bytes. \
             Please see `limits_config.max_structured_metadata_size` or contact your administrator \
             to increase it",
            labels()
        );
        return Err(Refusal::new(Reason::StructuredMetadataTooLarge, text));
    }
    let max_pairs = limits.max_structured_metadata_entries_count;
    if max_pairs > 0 && pairs > max_pairs {
        let text = format!(
            "stream '{}' has too many structured metadata labels: '{pairs}', limit: '{max_pairs}'. \
             Please see `limits_config.max_structured_metadata_entries_count` or contact your \
             administrator to increase it",
            labels()
        );
        return Err(Refusal::new(Reason::StructuredMetadataTooMany, text));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_proto::push::MetadataRef;
    use logsvc_proto::{Labels, StreamId};
    use logsvc_segment::batch::sections;
    use std::cell::Cell;
    use std::sync::Arc;

    /// The metadata that is stored of an entry, and how many bytes it takes in its section.
    fn stored(limits: &Limits, line: &[u8], sent: &[(&[u8], &[u8])]) -> (String, usize) {
        let stream = CachedStream {
            id: StreamId(1),
            labels: Arc::new(Labels::from_pairs([("app", "x")]).expect("valid labels")),
            announced: Cell::new(true),
            level: None,
            refusal: None,
        };
        let mut check = EntryCheck::new(limits, 0, Ages::Any, usize::MAX);
        let metadata = MetadataRef::from_slice(sent);
        let entry = EntryRef { timestamp_ns: Some(1), line, metadata };
        let Ok(accepted) = check.judge(&stream, entry) else { panic!("it is refused") };
        let len = accepted.len_bytes() as usize;
        let mut builder = BatchBuilder::default();
        builder.begin(stream.id);
        accepted.write(&mut builder);
        let batch = builder.finish();
        let section = sections(&batch).next().expect("a section").expect("a good one");
        let entry = section.entries().next().expect("an entry");
        let pairs: Vec<String> =
            entry.metadata.map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(len, line.len() + pairs.iter().map(|pair| pair.len() - 1).sum::<usize>());
        (pairs.join(" "), section.metadata_len())
    }

    #[test]
    fn levels_are_stored_in_their_place() {
        let limits = Limits::default();
        // One number and the set that it stands for.
        let shared_len = |level: &str| 1 + 1 + 1 + DETECTED_LEVEL.len() + 1 + level.len();
        let level = |level: &str| (format!("detected_level={level}"), shared_len(level));
        assert_eq!(stored(&limits, b"an error", &[]), level("error"));
        assert_eq!(stored(&limits, b"x", &[(b"detected_level", b"WARN")]), level("warn"));
        let (pairs, len) = stored(&limits, b"x", &[(b"z", b"1"), (b"a", b"2")]);
        assert_eq!(pairs, "a=2 detected_level=unknown z=1");
        assert_eq!(len, shared_len("unknown") + 1 + 2 * 4);
        // The text of an unknown level is stored with its entry.
        let sent: &[(&[u8], &[u8])] = &[(b"detected_level", b"notice"), (b"a", b"2")];
        assert_eq!(stored(&limits, b"x", sent), ("a=2 detected_level=notice".into(), 27));
        let off = Limits { discover_log_levels: false, ..Limits::default() };
        assert_eq!(stored(&off, b"an error", &[]), (String::new(), 0));
        assert_eq!(stored(&off, b"x", sent), ("a=2 detected_level=notice".into(), 27));
    }
}
