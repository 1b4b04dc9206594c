//! Whether the limits on rates and on active streams let a push in, before anything of
//! it is stored.
//!
//! The limits count the entries that would be stored, so every entry is checked twice; without
//! limits, once.

use std::rc::Rc;
use std::time::Duration;

use ahash::RandomState;
use logsvc_proto::error::ApiError;
use logsvc_proto::time::{format_byte_size, write_go_time};
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::Runtime;

use super::Ingest;
use super::batches::{EntryCursor, PushKind, PushedStream};
use super::entries::EntryCheck;
use super::rate_limit::Rate;
use super::refusals::Pieces;
use super::stream_cache::CachedStream;
use crate::config::{Limits, RateStrategy};
use crate::metrics::{Amount, Reason};

/// Refused entries that an answer lists per stream.
const ENTRIES_LISTED_MAX: usize = 10;

/// Longest time that a client is told to wait.
const RETRY_AFTER_MAX_S: u64 = 60;

/// A stream that its own rate limit refuses.
struct RateLimited {
    labels: Rc<CachedStream>,
    /// Times and sizes of the first entries.
    entries: Vec<(i64, u64)>,
    total: u64,
    limit_bytes: u64,
    wait: Duration,
}

/// The streams that the limits refuse of a push.
#[derive(Default)]
pub(super) struct LimitCheck {
    /// Places in the push of streams that are refused, ascending.
    refused: Vec<usize>,
    too_fast: Vec<RateLimited>,
    /// Streams that are one too many.
    too_many: Vec<Rc<CachedStream>>,
    /// The entries of these streams.
    pub(super) pieces: Pieces,
}

impl LimitCheck {
    /// Notes a stream that is one too many.
    pub(super) fn refuse_one_too_many(&mut self, stream: &Rc<CachedStream>, amount: Amount) {
        let text = "the tenant has as many active streams as it may have";
        let labels = Some(&stream.labels);
        self.pieces.add(amount, Reason::StreamLimit, labels, text, (None, None));
        self.too_many.push(Rc::clone(stream));
    }

    /// Whether the stream at this place is refused.
    pub(super) fn refuses(&self, place: usize) -> bool {
        self.refused.binary_search(&place).is_ok()
    }

    /// The answer for one stream, if it is refused.
    pub(super) fn error_of(
        &self,
        tenant: &TenantId,
        stream: &Rc<CachedStream>,
    ) -> Option<ApiError> {
        let is_it = |other: &&Rc<CachedStream>| Rc::ptr_eq(other, stream);
        if self.too_many.iter().any(|other| is_it(&other)) {
            return Some(ApiError::too_many_requests(too_many_streams(tenant, stream), 1));
        }
        let limited = self.too_fast.iter().find(|limited| is_it(&&limited.labels))?;
        let wait_s = retry_after_s(limited.wait);
        Some(ApiError::too_many_requests(limited.text(tenant), wait_s))
    }

    /// The answer, if anything is refused.
    pub(super) fn into_error(self, tenant: &TenantId) -> Option<ApiError> {
        let streams = self.too_many.iter().map(|stream| too_many_streams(tenant, stream));
        let texts: Vec<String> =
            streams.chain(self.too_fast.iter().map(|stream| stream.text(tenant))).collect();
        if texts.is_empty() {
            return None;
        }
        let wait = self.too_fast.iter().map(|stream| stream.wait).max().unwrap_or_default();
        Some(ApiError::too_many_requests(texts.join("\n"), retry_after_s(wait)).with_newline())
    }
}

/// The rate at which one of so many nodes lets a tenant in.
fn tenant_rate(limits: &Limits, nodes: impl FnOnce() -> usize) -> Option<Rate> {
    const MB: f64 = (1 << 20) as f64;
    if limits.ingestion_rate_mb <= 0.0 {
        return None;
    }
    let share = match limits.ingestion_rate_strategy {
        RateStrategy::Global => nodes() as f64,
        RateStrategy::Local => 1.0,
    };
    Some(Rate {
        bytes_per_s: limits.ingestion_rate_mb * MB / share,
        burst_bytes: limits.ingestion_burst_size_mb * MB,
    })
}

/// How many streams may be active on this node. Without others the stricter of two limits counts, which
/// mean the same; among others each node takes its share of the second one ([`OwnedStreams`]).
///
/// [`OwnedStreams`]: super::owned_streams::OwnedStreams
fn max_active_streams(limits: &Limits, has_others: bool) -> Option<u64> {
    let of_all = if has_others { 0 } else { limits.max_global_streams_per_user };
    let limits = [limits.max_streams_per_user, of_all];
    limits.into_iter().filter(|&limit| limit > 0).min().map(|limit| limit as u64)
}

fn stream_rate(limits: &Limits) -> Option<Rate> {
    (limits.per_stream_rate_limit_bytes > 0).then_some(Rate {
        bytes_per_s: limits.per_stream_rate_limit_bytes as f64,
        burst_bytes: limits.per_stream_rate_limit_burst_bytes as f64,
    })
}

pub(super) fn hash_of(tenant: &TenantId) -> u64 {
    RandomState::with_seeds(9, 10, 11, 12).hash_one(tenant)
}

impl<R: Runtime> Ingest<R> {
    /// How long it takes until the rate of a tenant lets so many bytes in; `None` if it does, or
    /// never will.
    pub(super) fn rate_wait(&self, tenant: &TenantId, bytes: u64) -> Option<Duration> {
        let rate = tenant_rate(&self.core.limits(tenant), || self.core.node_count())?;
        self.rates.tenants.wait(hash_of(tenant), bytes, &rate, self.core.runtime.now())
    }

    /// Asks the limits on rates and on active streams.
    ///
    /// # Errors
    /// The tenant pushes too much: nothing may be stored.
    pub(super) fn check_rate_limits<S: PushedStream>(
        &self,
        tenant: &TenantId,
        limits: &Limits,
        streams: &[(S, Rc<CachedStream>)],
        kind: PushKind<'_>,
    ) -> Result<LimitCheck, ApiError> {
        let (tenant_rate, stream_rate) =
            (tenant_rate(limits, || self.core.node_count()), stream_rate(limits));
        let max_active = max_active_streams(limits, self.core.cluster().is_some());
        let max_of_all = limits.max_global_streams_per_user as u64;
        let routes = if max_of_all > 0 { self.core.routes() } else { None };
        let is_unlimited = tenant_rate.is_none() && stream_rate.is_none();
        if is_unlimited && max_active.is_none() && routes.is_none() {
            return Ok(LimitCheck::default());
        }
        let mut check = EntryCheck::new(
            limits,
            self.core.runtime.unix_nanos(),
            kind.ages,
            self.entry_max_bytes(),
        );
        let sizes: Vec<(u64, u64)> = streams
            .iter()
            .map(|(stream, resolved)| measure(stream, resolved, &mut check))
            .collect();
        let now = self.core.runtime.now();
        let tenant_hash = hash_of(tenant);
        if let Some(rate) = tenant_rate {
            let (lines, bytes) =
                sizes.iter().fold((0, 0), |sum, size| (sum.0 + size.0, sum.1 + size.1));
            self.rates.tenants.take(tenant_hash, bytes, &rate, now).map_err(|wait| {
                ApiError::too_many_requests(
                    format!(
                        "ingestion rate limit exceeded for user {} (limit: {} bytes/sec) while \
                         attempting to ingest '{lines}' lines totaling '{bytes}' bytes, reduce log \
                         volume or contact your administrator to see if the limit can be increased",
                        tenant.as_str(),
                        rate.bytes_per_s as u64,
                    ),
                    retry_after_s(wait),
                )
            })?;
        }
        let mut limit_check = LimitCheck::default();
        for (place, ((stream, resolved), &(total, bytes))) in streams.iter().zip(&sizes).enumerate()
        {
            if total == 0 {
                continue;
            }
            let stream_hash = resolved.id.0 as u64;
            let is_one_too_many = max_active.is_some_and(|limit| {
                !self.rates.active_streams.admit(tenant_hash, stream_hash, limit, now)
            }) || routes.as_ref().is_some_and(|routes| {
                let owned = &self.rates.owned_streams;
                !owned.admit(routes, tenant_hash, resolved.id, max_of_all, now)
            });
            if is_one_too_many {
                limit_check.refused.push(place);
                let amount = Amount { entries: total, bytes };
                limit_check.refuse_one_too_many(resolved, amount);
                continue;
            }
            if let Some(rate) = &stream_rate
                && let Err(wait) = self.rates.streams.take(stream_hash, bytes, rate, now)
            {
                limit_check.refused.push(place);
                let (amount, reason) =
                    (Amount { entries: total, bytes }, Reason::PerStreamRateLimit);
                let text = "the stream is over its rate limit";
                let labels = Some(&resolved.labels);
                limit_check.pieces.add(amount, reason, labels, text, (None, None));
                limit_check.too_fast.push(RateLimited {
                    labels: Rc::clone(resolved),
                    entries: first_entries(stream, resolved, &mut check),
                    total,
                    limit_bytes: limits.per_stream_rate_limit_bytes,
                    wait,
                });
            }
        }
        Ok(limit_check)
    }
}

/// Entries of a stream that would be stored, and their bytes.
fn measure<S: PushedStream>(
    stream: &S,
    resolved: &CachedStream,
    check: &mut EntryCheck<'_>,
) -> (u64, u64) {
    let (mut lines, mut bytes) = (0, 0);
    visit_good(stream, resolved, check, |_, len_bytes| {
        lines += 1;
        bytes += len_bytes;
        true
    });
    (lines, bytes)
}

fn first_entries<S: PushedStream>(
    stream: &S,
    resolved: &CachedStream,
    check: &mut EntryCheck<'_>,
) -> Vec<(i64, u64)> {
    let mut entries = Vec::new();
    visit_good(stream, resolved, check, |timestamp_ns, len_bytes| {
        entries.push((timestamp_ns, len_bytes));
        entries.len() < ENTRIES_LISTED_MAX
    });
    entries
}

/// Visits time and size of the entries that would be stored, as long as `visit` wants
/// more.
fn visit_good<S: PushedStream>(
    stream: &S,
    resolved: &CachedStream,
    check: &mut EntryCheck<'_>,
    mut visit: impl FnMut(i64, u64) -> bool,
) {
    if resolved.refusal.is_some() {
        return;
    }
    check.begin_stream();
    let mut entries = stream.entries();
    while let Some(entry) = entries.next_entry() {
        if let Ok(entry) = entry
            && let Ok(good) = check.judge(resolved, entry)
            && !visit(good.timestamp_ns, good.len_bytes())
        {
            return;
        }
    }
}

fn retry_after_s(wait: Duration) -> u32 {
    let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
    seconds.clamp(1, RETRY_AFTER_MAX_S) as u32
}

fn too_many_streams(tenant: &TenantId, stream: &CachedStream) -> String {
    format!(
        "maximum active stream limit exceeded when trying to create stream {}, reduce the number of \
         active streams (reduce labels or reduce label values), or contact your administrator to see \
         if the limit can be increased, user: '{}'",
        stream.labels.canonical(),
        tenant.as_str(),
    )
}

impl RateLimited {
    fn text(&self, tenant: &TenantId) -> String {
        let labels: &Labels = &self.labels.labels;
        let stream = labels.canonical();
        let mut text = String::new();
        for &(timestamp_ns, len_bytes) in &self.entries {
            let mut time = Vec::new();
            write_go_time(Some(timestamp_ns), &mut time);
            text.push_str(&format!(
                "entry with timestamp {} ignored, reason: 'Per stream rate limit exceeded (limit: {}/sec) \
                 while attempting to ingest for stream '{stream}' totaling {}, consider splitting a stream \
                 via additional labels or contact your administrator to see if the limit can be \
                 increased',\n",
                String::from_utf8_lossy(&time),
                format_byte_size(self.limit_bytes),
                format_byte_size(len_bytes),
            ));
        }
        text.push_str(&format!(
            "user '{}', total ignored: {} out of {} for stream: {stream}",
            tenant.as_str(),
            self.total,
            self.total,
        ));
        text
    }
}
