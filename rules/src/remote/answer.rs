//! What an answer of a receiver means, and how long to wait before the next request.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use logsvc_runtime::Monotonic;

use super::wire::Version;
use crate::config::RemoteQueueConfig;
use crate::transport::{OutgoingAnswer, TransportError};

/// The longest pause that a receiver may ask for.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(300);

/// What becomes of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// The receiver has it.
    Taken,
    /// The receiver does not speak version 2 and has nothing: the same again in version 1.
    Downgrade,
    /// The same again, later.
    Retry {
        /// Why.
        reason: String,
        /// How long the receiver wants to be left alone.
        pause: Option<Duration>,
    },
    /// The receiver will never take it.
    Refused {
        /// The status.
        status: StatusCode,
        /// Status and the first line of the body.
        reason: String,
    },
}

/// The meaning of an answer. `unix_nanos` is the wall clock, for dates in `Retry-After`.
pub(super) fn judge(
    version: Version,
    answer: &Result<OutgoingAnswer, TransportError>,
    queue: &RemoteQueueConfig,
    unix_nanos: i64,
) -> Verdict {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return Verdict::Retry { reason: error.to_string(), pause: None },
    };
    let status = answer.status;
    if status.is_success() {
        let is_downgrade = version == Version::V2 && !answer.headers.contains_key(SAMPLES_WRITTEN);
        return if is_downgrade { Verdict::Downgrade } else { Verdict::Taken };
    }
    if version == Version::V2 && status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        return Verdict::Downgrade;
    }
    let reason = reason(answer);
    let is_retried = status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS && queue.retry_on_http_429;
    if is_retried {
        return Verdict::Retry { reason, pause: retry_after(&answer.headers, unix_nanos) };
    }
    Verdict::Refused { status, reason }
}

/// A receiver of version 2 says in it how many samples it has written.
const SAMPLES_WRITTEN: &str = "x-prometheus-remote-write-samples-written";

/// Longest text of a body in a log line.
const REASON_MAX_CHARS: usize = 256;

fn reason(answer: &OutgoingAnswer) -> String {
    let body = String::from_utf8_lossy(&answer.body);
    let line: String = body
        .lines()
        .next()
        .unwrap_or("")
        .chars()
        .filter(|letter| !letter.is_control())
        .take(REASON_MAX_CHARS)
        .collect();
    format!("server returned HTTP status {}: {line}", answer.status)
}

/// The pause of the header `Retry-After`, seconds or a date, at most [`RETRY_AFTER_MAX`].
fn retry_after(headers: &HeaderMap, unix_nanos: i64) -> Option<Duration> {
    let text = headers.get(http::header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX));
    }
    let at = httpdate::parse_http_date(text).ok()?;
    let at = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    let now = Duration::from_nanos(u64::try_from(unix_nanos).ok()?);
    Some(at.saturating_sub(now).min(RETRY_AFTER_MAX))
}

/// Pauses that double with each failure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    last: Option<Duration>,
}

impl Backoff {
    /// When to try again after one more failure.
    pub(super) fn next(
        &mut self,
        now: Monotonic,
        queue: &RemoteQueueConfig,
        asked: Option<Duration>,
    ) -> Monotonic {
        let first = queue.min_backoff.max(Duration::from_millis(1));
        let pause = self.last.map_or(first, |last| last.saturating_mul(2));
        let pause = pause.min(queue.max_backoff.max(first));
        self.last = Some(pause);
        now.after(asked.map_or(pause, |asked| asked.max(pause)))
    }

    /// A request has succeeded.
    pub(super) fn reset(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, headers: &[(&'static str, &str)]) -> OutgoingAnswer {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let status = StatusCode::from_u16(status).unwrap();
        OutgoingAnswer { status, headers: map, body: b"out of order\x07 sample\nmore".to_vec() }
    }

    fn verdict(version: Version, status: u16, headers: &[(&'static str, &str)]) -> Verdict {
        let queue = RemoteQueueConfig::default();
        judge(version, &Ok(answer(status, headers)), &queue, 1_440_938_160_000_000_000)
    }

    #[test]
    fn which_refusals_are_final() {
        use Version::{V1, V2};
        let written = [(SAMPLES_WRITTEN, "1")];
        assert_eq!(verdict(V1, 204, &[]), Verdict::Taken);
        assert_eq!(verdict(V2, 204, &written), Verdict::Taken);
        assert_eq!(verdict(V2, 204, &[]), Verdict::Downgrade);
        assert_eq!(verdict(V2, 415, &[]), Verdict::Downgrade);
        for status in [400, 401, 403, 404, 413, 415, 422, 301] {
            let Verdict::Refused { status: seen, reason } = verdict(V1, status, &[]) else {
                panic!("{status} is not final");
            };
            assert_eq!(seen.as_u16(), status);
            assert!(reason.starts_with("server returned HTTP status "), "{reason}");
            assert!(reason.ends_with(": out of order sample"), "{reason}");
        }
        for status in [429, 500, 502, 503, 504] {
            let Verdict::Retry { pause: None, .. } = verdict(V1, status, &[]) else {
                panic!("{status} is final");
            };
        }
        let drops = RemoteQueueConfig { retry_on_http_429: false, ..RemoteQueueConfig::default() };
        let dropped = judge(V1, &Ok(answer(429, &[])), &drops, 0);
        assert!(matches!(dropped, Verdict::Refused { .. }));
        let network = judge(V1, &Err(TransportError("no route".to_owned())), &drops, 0);
        assert_eq!(network, Verdict::Retry { reason: "no route".to_owned(), pause: None });
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_bounded() {
        let pause = |text: &str| match verdict(Version::V1, 429, &[("retry-after", text)]) {
            Verdict::Retry { pause, .. } => pause,
            other => panic!("{other:?}"),
        };
        assert_eq!(pause("5"), Some(Duration::from_secs(5)));
        assert_eq!(pause(" 0 "), Some(Duration::ZERO));
        assert_eq!(pause("Sun, 30 Aug 2015 12:36:07 GMT"), Some(Duration::from_secs(7)));
        assert_eq!(pause("Sun, 30 Aug 2015 12:35:00 GMT"), Some(Duration::ZERO));
        assert_eq!(pause("99999999999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(pause("Sun, 30 Aug 2099 12:36:07 GMT"), Some(RETRY_AFTER_MAX));
        for nonsense in ["", "soon", "-5", "1.5"] {
            assert_eq!(pause(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn pauses_double_between_their_bounds() {
        let queue = RemoteQueueConfig::default();
        let mut backoff = Backoff::default();
        let now = Monotonic(0);
        let mut pauses_ms = Vec::new();
        for _ in 0..10 {
            pauses_ms.push(backoff.next(now, &queue, None).0 / 1_000_000);
        }
        assert_eq!(pauses_ms, [30, 60, 120, 240, 480, 960, 1920, 3840, 5000, 5000]);
        let asked = backoff.next(now, &queue, Some(Duration::from_secs(60)));
        assert_eq!(asked, now.after(Duration::from_secs(60)));
        backoff.reset();
        assert_eq!(backoff.next(now, &queue, None).0, 30_000_000);
    }
}
