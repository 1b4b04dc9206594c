//! Checks pushed entries against the limits of their tenant, and completes the good
//! ones with what is found out about them.
//!
//! Nothing is allocated for an entry that is accepted as it was sent.

use logsvc_proto::discover::{
    DETECTED_LEVEL, LevelFields, WithLevel, line_level, normalize_level, severity_number_level,
};
use logsvc_proto::push::EntryRef;
use logsvc_proto::push::metadata::{MetadataNormalizer, NormalizedMetadata};
use logsvc_shards::batch::BatchBuilder;

use super::refusals::{Refusal, rfc3339};
use super::stream_cache::CachedStream;
use crate::config::Limits;
use crate::metrics::{Amount, Reason};

/// No line may be longer, whatever the limits say.
const LINE_HARD_MAX_BYTES: usize = 16 << 20;

/// The metadata that holds the severity of OpenTelemetry records.
const SEVERITY_NUMBER: &[u8] = b"severity_number";

/// Checks the entries of one push, stream by stream.
pub(super) struct EntryCheck<'c> {
    limits: &'c Limits,
    oldest_ns: Option<i64>,
    newest_ns: Option<i64>,
    line_max_bytes: usize,
    discovers_level: bool,
    normalizer: MetadataNormalizer,
    /// A line that was cut.
    cut: Vec<u8>,
    /// Lines that were cut, and the bytes that they lost.
    pub(super) shortened: Amount,
    previous: Previous,
}

/// The entry before, for moving entries of equal times apart.
#[derive(Default)]
struct Previous {
    /// Its time as sent and as stored.
    times_ns: Option<(i64, i64)>,
    line: Vec<u8>,
}

/// An entry as it is stored.
pub(super) struct Accepted<'e> {
    /// When, in ns since the Unix epoch.
    pub(super) timestamp_ns: i64,
    line: &'e [u8],
    metadata: Metadata<'e>,
}

enum Metadata<'e> {
    /// None but the level, if there is one.
    Level(Option<&'e [u8]>),
    Pairs(WithLevel<'e>),
}

impl Accepted<'_> {
    /// What counts against the rate limits: the bytes of the line and the metadata.
    pub(super) fn len_bytes(&self) -> u64 {
        let metadata_len: usize = match &self.metadata {
            Metadata::Level(level) => level.map_or(0, |level| DETECTED_LEVEL.len() + level.len()),
            Metadata::Pairs(pairs) => {
                pairs.clone().map(|(name, value)| name.len() + value.len()).sum()
            }
        };
        (self.line.len() + metadata_len) as u64
    }

    /// Appends the entry to the open section of a batch.
    #[inline]
    pub(super) fn write(self, builder: &mut BatchBuilder) {
        match self.metadata {
            Metadata::Level(level) => {
                let pair = level.map(|level| (DETECTED_LEVEL.as_bytes(), level));
                builder.push(self.timestamp_ns, self.line, pair.into_iter());
            }
            Metadata::Pairs(pairs) => builder.push(self.timestamp_ns, self.line, pairs),
        }
    }
}

impl<'c> EntryCheck<'c> {
    /// For a push that arrives at `now_ns`. Those of a backfill may be of any age.
    pub(super) fn new(limits: &'c Limits, now_ns: i64, is_backfill: bool) -> EntryCheck<'c> {
        let line_max_bytes = match limits.max_line_size_bytes {
            0 => LINE_HARD_MAX_BYTES,
            limit => limit.min(LINE_HARD_MAX_BYTES),
        };
        EntryCheck {
            limits,
            oldest_ns: (limits.reject_old_samples && !is_backfill)
                .then(|| now_ns.saturating_sub(limits.reject_old_samples_max_age_ns)),
            newest_ns: (limits.creation_grace_period_ns > 0)
                .then(|| now_ns.saturating_add(limits.creation_grace_period_ns)),
            line_max_bytes,
            discovers_level: limits.discover_log_levels && limits.allow_structured_metadata,
            normalizer: MetadataNormalizer::new(),
            cut: Vec::new(),
            shortened: Amount::default(),
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
            check_metadata(self.limits, stream, &entry)?;
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
        let metadata = if entry.metadata.is_empty() {
            Metadata::Level(
                fields
                    .map(|fields| stream.level.as_deref().unwrap_or_else(|| told_by_line(fields))),
            )
        } else {
            let pairs = self
                .normalizer
                .normalize(entry.metadata)
                .map_err(|error| Refusal::new(Reason::InvalidLabels, error.to_string()))?;
            let level = fields.map(|fields| {
                stated_level(stream, &pairs, fields).unwrap_or_else(|| told_by_line(fields))
            });
            Metadata::Pairs(WithLevel::new(pairs.iter(), level))
        };
        Ok(Accepted { timestamp_ns, line, metadata })
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
            return Err(Refusal::new(Reason::GreaterThanMaxSampleAge, text));
        }
        let Some(timestamp_ns) = time else {
            // Without one it would be of the oldest time there is.
            let text = format!("entry for stream '{}' has no timestamp", labels());
            return Err(Refusal::new(Reason::GreaterThanMaxSampleAge, text));
        };
        if self.newest_ns.is_some_and(|newest| timestamp_ns > newest) {
            let text =
                format!("entry for stream '{}' has timestamp too new: {}", labels(), rfc3339(time));
            return Err(Refusal::new(Reason::TooFarInFuture, text));
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
                before_ns.saturating_add(1)
            }
            _ => sent_ns,
        };
        self.times_ns = Some((sent_ns, stored_ns));
        self.line.clear();
        self.line.extend_from_slice(line);
        stored_ns
    }
}

/// The level that the sender states, in the labels of the stream or in the metadata.
fn stated_level<'e>(
    stream: &'e CachedStream,
    pairs: &NormalizedMetadata<'e>,
    fields: &LevelFields,
) -> Option<&'e [u8]> {
    // Most metadata has none of the names, which one walk over it tells.
    let (mut has_field, mut severity_number) = (false, None);
    for (name, value) in pairs.iter() {
        if name == DETECTED_LEVEL.as_bytes() {
            return Some(normalize_level(value));
        }
        has_field |= fields.contains(name);
        if name == SEVERITY_NUMBER {
            severity_number = Some(value);
        }
    }
    if let Some(level) = stream.level.as_deref() {
        return Some(level);
    }
    let get =
        |wanted: &[u8]| pairs.iter().find(|&(name, _)| name == wanted).map(|(_, value)| value);
    if has_field && let Some(level) = fields.names().find_map(|name| get(name.as_bytes())) {
        return Some(normalize_level(level));
    }
    severity_number.map(|number| severity_number_level(number).as_str().as_bytes())
}

fn check_metadata(
    limits: &Limits,
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
    let max_bytes = limits.max_structured_metadata_size_bytes;
    if max_bytes > 0 && bytes > max_bytes {
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
