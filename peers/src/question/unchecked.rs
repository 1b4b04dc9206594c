//! A question whose bytes were read, and whose leaves and patterns are still to be compiled.
//!
//! A question may be as large as the largest query: its sender has had memory for it admitted, and
//! so does who answers. The bytes tell what it takes before anything is compiled.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logsvc_logql::engine::{
    Allowance, Estimate, LeafPlan, PlanError, Stop, Unlimited, decode_matchers, read_matchers,
};
use logsvc_proto::TenantId;
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::scope::TenantScope;
use logsvc_shards::types::TimeRange;

use super::{Asked, AskedHead, LeavesHead, Question, QuestionHead, Sent, Streams, StreamsHead};
use super::{ScopeHead, message};
use crate::frame::{self, Addressee, Damaged, Kind, Opened};

/// Most leaves of a question. The text of a query has less than 128 KiB, and no leaf takes fewer
/// than 18 bytes of it: `rate({a="b"}[1s])` and an operator.
const LEAVES_MAX: usize = 8_192;

/// Most memory of the matchers of a look-up in bytes, as they are estimated. Those of the largest
/// query take a part of it; a look-up may have several selectors.
const MATCHERS_MAX_BYTES: u64 = 512 << 20;

/// See the module.
#[derive(Debug)]
pub struct UncheckedSent {
    to: Addressee,
    timeout: Duration,
    tenants: TenantScope,
    asked: UncheckedAsked,
    deletions: DeletionVersion,
    entries_each: Option<NonZeroUsize>,
    estimate: Estimate,
}

#[derive(Debug)]
enum UncheckedAsked {
    Leaves(Vec<Bytes>),
    LabelNames(StreamsHead),
    LabelValues(StreamsHead, Box<str>),
    Series(StreamsHead),
}

/// Why a question that was read cannot be answered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NotChecked {
    /// No planner makes such leaves, or a pattern is bad.
    #[error(transparent)]
    Damaged(#[from] Damaged),
    /// The allowance has ended it.
    #[error("{0}")]
    Stopped(Stop),
}

impl Sent {
    /// Reads the bytes of [`Question::encode`]. Nothing is compiled.
    ///
    /// # Errors
    /// See [`Damaged`].
    pub fn read(bytes: &[u8]) -> Result<UncheckedSent, Damaged> {
        let Opened { head, .. } = frame::open::<QuestionHead>(Kind::Question, bytes)?;
        let QuestionHead { number, timeout_ms, scope, asked, deletions, writer, entries_each } =
            head;
        let deletions = DeletionVersion::of_number(deletions);
        let to = Addressee { writer, number };
        let tenants = tenants(&scope.ok_or_else(|| message("it is about no tenant"))?)?;
        let asked = match asked.ok_or_else(|| message("it asks nothing"))? {
            AskedHead::Leaves(LeavesHead { plans }) if plans.len() > LEAVES_MAX => {
                return Err(message("it has too many leaves"));
            }
            AskedHead::Leaves(LeavesHead { plans }) => UncheckedAsked::Leaves(plans),
            AskedHead::LabelNames(head) => UncheckedAsked::LabelNames(head),
            AskedHead::LabelValues(mut head) => {
                let name = head.label.take().ok_or_else(|| message("it names no label"))?;
                UncheckedAsked::LabelValues(head, name.into())
            }
            AskedHead::Series(head) => UncheckedAsked::Series(head),
        };
        let estimate = asked.estimate()?;
        let timeout = Duration::from_millis(timeout_ms);
        let entries_each = NonZeroUsize::new(entries_each as usize);
        Ok(UncheckedSent { to, timeout, tenants, asked, deletions, entries_each, estimate })
    }

    /// Reads such bytes and compiles what they have, without a limit of memory beside those that
    /// all questions have.
    ///
    /// # Errors
    /// See [`Damaged`].
    pub fn decode(bytes: &[u8]) -> Result<Sent, Damaged> {
        match Sent::read(bytes)?.checked(&Unlimited) {
            Ok(sent) => Ok(sent),
            Err(NotChecked::Damaged(damaged)) => Err(damaged),
            Err(NotChecked::Stopped(stop)) => Err(message(stop)),
        }
    }
}

impl UncheckedAsked {
    fn estimate(&self) -> Result<Estimate, Damaged> {
        let of_lists = |head: &StreamsHead| {
            let groups = read_matchers(&head.matchers).map_err(message)?;
            let estimate: Estimate = groups.iter().map(|one| Estimate::of_matchers(one)).sum();
            if estimate.bytes > MATCHERS_MAX_BYTES {
                return Err(message("its matchers are too large"));
            }
            Ok(estimate)
        };
        match self {
            UncheckedAsked::Leaves(plans) => plans
                .iter()
                .map(|bytes| LeafPlan::read_estimate(bytes).map_err(message))
                .try_fold(Estimate::default(), |sum, one| Ok(sum + one?)),
            UncheckedAsked::LabelNames(head)
            | UncheckedAsked::LabelValues(head, _)
            | UncheckedAsked::Series(head) => of_lists(head),
        }
    }
}

impl UncheckedSent {
    /// The time to read the leaves and the matchers, and their memory, which is held as long as the
    /// question. [`UncheckedSent::checked`] takes memory and time besides, to compile leaves.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        self.estimate
    }

    /// Who is to answer.
    #[must_use]
    pub fn to(&self) -> Addressee {
        self.to
    }

    /// How long the sender waits for the answer.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whose streams it is about.
    #[must_use]
    pub fn tenants(&self) -> &TenantScope {
        &self.tenants
    }

    /// The question. Each leaf was compiled once with no more memory and work than is allowed; its
    /// own memory, the [estimate](UncheckedSent::estimate), the caller has reserved.
    ///
    /// # Errors
    /// See [`NotChecked`].
    pub fn checked(self, allowance: &dyn Allowance) -> Result<Sent, NotChecked> {
        let UncheckedSent { to, timeout, tenants, asked, deletions, entries_each, .. } = self;
        let asked = match asked {
            UncheckedAsked::Leaves(plans) => Asked::Leaves(leaves(&plans, allowance)?),
            UncheckedAsked::LabelNames(head) => Asked::LabelNames(streams(&head, allowance)?),
            UncheckedAsked::LabelValues(head, name) => {
                Asked::LabelValues(streams(&head, allowance)?, name)
            }
            UncheckedAsked::Series(head) => Asked::Series(streams(&head, allowance)?),
        };
        let question = Question { tenants, asked, deletions, entries_each };
        Ok(Sent { to, timeout, question })
    }
}

fn tenants(scope: &ScopeHead) -> Result<TenantScope, Damaged> {
    let tenants = scope.tenants.iter().map(|one| frame::tenant(one));
    let tenants: Arc<[TenantId]> = tenants.collect::<Result<Vec<_>, Damaged>>()?.into();
    // Streams of a tenant that is there twice would count twice.
    if !tenants.is_sorted_by(|one, next| one < next) {
        let mut sorted = tenants.to_vec();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(message("it is about a tenant twice"));
        }
    }
    if tenants.is_empty() {
        return Err(message("it is about no tenant"));
    }
    Ok(match scope.is_merged {
        true => TenantScope::merged(tenants),
        false => TenantScope::labelled(tenants),
    })
}

fn leaves(plans: &[Bytes], allowance: &dyn Allowance) -> Result<Vec<Arc<LeafPlan>>, NotChecked> {
    let mut watch = allowance.sibling();
    let mut leaves = Vec::with_capacity(plans.len());
    for bytes in plans {
        watch.check().map_err(NotChecked::Stopped)?;
        let leaf = LeafPlan::read(bytes).map_err(message)?;
        leaves.push(Arc::new(leaf.checked(allowance).map_err(|error| match error {
            PlanError::Stopped(stop) => NotChecked::Stopped(stop),
            error => message(error).into(),
        })?));
    }
    // Results name their leaf by its number.
    let mut numbers: Vec<usize> = leaves.iter().map(|leaf| leaf.index()).collect();
    numbers.sort_unstable();
    if numbers.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(message("two of its leaves have one number").into());
    }
    Ok(leaves)
}

fn streams(head: &StreamsHead, allowance: &dyn Allowance) -> Result<Streams, NotChecked> {
    allowance.sibling().check().map_err(NotChecked::Stopped)?;
    let matcher_groups = decode_matchers(&head.matchers).map_err(message)?.into();
    let range = TimeRange { start_ns: head.start_ns, end_ns: head.end_ns };
    Ok(Streams { matcher_groups, range })
}
