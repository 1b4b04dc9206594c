//! Collects why parts of a push were refused, and says so in one answer.

use std::collections::BTreeMap;

use logsvc_proto::error::ApiError;
use logsvc_proto::time::{write_go_time, write_rfc3339};
use logsvc_shards::messages::TooFarBehind;

use crate::metrics::{Amount, Reason};

/// Distinct texts that an answer lists; the rest is counted.
const TEXTS_MAX: usize = 100;

/// Why an entry, or all of a stream, is refused.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The reason that it is counted under.
    pub(super) reason: Reason,
    /// The text for the client.
    pub(super) text: String,
}

impl Refusal {
    /// A refusal.
    pub(super) fn new(reason: Reason, text: impl Into<String>) -> Refusal {
        Refusal { reason, text: text.into() }
    }
}

/// Refused entries and streams of one push.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    by_text: BTreeMap<String, u64>,
    total: u64,
    /// Refused entries, for each reason that occurred.
    pub(super) discarded: Vec<(Reason, Amount)>,
}

impl Refusals {
    /// Notes a refusal that concerns these entries.
    pub(super) fn add(&mut self, amount: Amount, reason: Reason, text: String) {
        self.total += 1;
        match self.discarded.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, sum)) => sum.add(amount.entries, amount.bytes),
            None => self.discarded.push((reason, amount)),
        }
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
