//! Collects why parts of a push were refused, says so in one answer, and hands them to the place
//! that all refusals pass ([`crate::refusals`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use logsvc_proto::Labels;
use logsvc_proto::error::ApiError;
use logsvc_proto::time::{write_go_time, write_rfc3339};
use logsvc_shards::messages::TooFarBehind;

use crate::metrics::{Amount, Reason};

/// Distinct texts that an answer lists; the rest is counted.
const TEXTS_MAX: usize = 100;

/// Streams of a push that are told apart in logs and lists; the others are told together.
const STREAMS_MAX: usize = 10;

/// Why an entry, or all of a stream, is refused.
#[derive(Clone, Debug)]
pub(super) struct Refusal {
    /// The reason that it is counted under.
    pub(super) reason: Reason,
    /// The text for the client.
    pub(super) text: String,
    /// The time of the entry, and the time that it had to keep to, if these are the reason.
    times_ns: (Option<i64>, Option<i64>),
}

impl Refusal {
    /// A refusal.
    pub(super) fn new(reason: Reason, text: impl Into<String>) -> Refusal {
        Refusal { reason, text: text.into(), times_ns: (None, None) }
    }

    /// A refusal by the time of an entry and a limit to it.
    pub(super) fn with_times(self, entry_ns: Option<i64>, limit_ns: Option<i64>) -> Refusal {
        Refusal { times_ns: (entry_ns, limit_ns), ..self }
    }
}

/// Refused entries of one stream, or of several, and why.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) reason: Reason,
    pub(super) amount: Amount,
    pub(super) stream: Option<Arc<Labels>>,
    /// Of the first of the entries.
    pub(super) entry_ns: Option<i64>,
    pub(super) limit_ns: Option<i64>,
    pub(super) text: String,
}

/// What was refused of a push, in a bounded number of pieces.
#[derive(Debug, Default)]
pub(super) struct Pieces(Vec<Piece>);

impl Pieces {
    /// Adds entries.
    pub(super) fn add(
        &mut self,
        amount: Amount,
        reason: Reason,
        stream: Option<&Arc<Labels>>,
        text: &str,
        (entry_ns, limit_ns): (Option<i64>, Option<i64>),
    ) {
        let is_same = |piece: &Piece, stream: Option<&Arc<Labels>>| {
            let same_stream = match (&piece.stream, stream) {
                (Some(known), Some(stream)) => Arc::ptr_eq(known, stream),
                (known, stream) => known.is_none() && stream.is_none(),
            };
            piece.reason == reason && same_stream
        };
        // Entries come stream by stream, so the last piece is the usual one.
        let pieces = &mut self.0;
        let stream = match pieces.iter().rposition(|piece| is_same(piece, stream)) {
            Some(place) => {
                return pieces[place].amount.add(amount.entries, amount.bytes);
            }
            None => stream.filter(|_| pieces.len() < STREAMS_MAX),
        };
        if let Some(place) = pieces.iter().rposition(|piece| is_same(piece, stream)) {
            return pieces[place].amount.add(amount.entries, amount.bytes);
        }
        let (stream, text) = (stream.cloned(), text.to_owned());
        pieces.push(Piece { reason, amount, stream, entry_ns, limit_ns, text });
    }

    /// All pieces.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Piece> {
        self.0.iter()
    }

    /// How many entries were refused.
    pub(super) fn entries(&self) -> u64 {
        self.0.iter().map(|piece| piece.amount.entries).sum()
    }
}

/// Refused entries and streams of one push.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    by_text: BTreeMap<String, u64>,
    total: u64,
    /// What was refused.
    pub(super) pieces: Pieces,
}

impl Refusals {
    /// Notes a refusal that concerns these entries of a stream.
    pub(super) fn add(&mut self, amount: Amount, stream: &Arc<Labels>, refusal: Refusal) {
        let Refusal { reason, text, times_ns } = refusal;
        self.total += 1;
        self.pieces.add(amount, reason, Some(stream), &text, times_ns);
        if let Some(count) = self.by_text.get_mut(&text) {
            *count += 1;
        } else if self.by_text.len() < TEXTS_MAX {
            self.by_text.insert(text, 1);
        }
    }

    /// The answer, if anything was refused.
    pub(super) fn into_error(self) -> Option<ApiError> {
        if self.total == 0 {
            return None;
        }
        let listed: u64 = self.by_text.values().sum();
        let text = if self.total == 1 {
            self.by_text.into_keys().collect::<String>()
        } else {
            let lines =
                self.by_text.iter().map(|(text, count)| format!("{count} errors like: {text}"));
            let mut texts: Vec<String> = lines.collect();
            if listed < self.total {
                texts.push(format!("{} errors of other kinds", self.total - listed));
            }
            texts.join("; ")
        };
        Some(ApiError::bad_request(text).with_newline())
    }
}

/// A time as validation errors print it.
pub(super) fn rfc3339(unix_ns: Option<i64>) -> String {
    let mut text = Vec::new();
    write_rfc3339(unix_ns, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The answer for entries that are too far behind the newest of their stream.
pub(super) fn too_far_behind(tenant: &str, streams: &[TooFarBehind]) -> ApiError {
    let mut texts = Vec::new();
    for stream in streams {
        let mut text = String::new();
        for &(timestamp_ns, oldest_ns) in &stream.entries {
            let mut go_time = Vec::new();
            write_go_time(Some(timestamp_ns), &mut go_time);
            text.push_str(&format!(
                "entry with timestamp {} ignored, reason: 'entry too far behind, entry timestamp is: {}, \
                 oldest acceptable timestamp is: {}',\n",
                String::from_utf8_lossy(&go_time),
                rfc3339(Some(timestamp_ns)),
                rfc3339(Some(oldest_ns)),
            ));
        }
        text.push_str(&format!(
            "user '{tenant}', total ignored: {} out of {} for stream: {}",
            stream.refused,
            stream.total,
            stream.labels.canonical(),
        ));
        texts.push(text);
    }
    ApiError::bad_request(texts.join("\n")).with_newline()
}
