//! A part of a query on its way to a node that owns partitions, and what its shards have found.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use logsvc_logql::engine::{CompiledMatcher, LeafPlan, encode_matchers};
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::scope::TenantScope;
use logsvc_shards::types::TimeRange;
use prost::Message;

use crate::frame::{self, Addressee, Damaged, Kind};

mod reply;
mod stats;
mod unchecked;

pub use reply::{Found, Reply};
pub use unchecked::{NotChecked, UncheckedSent};

/// What the shards of all owners are asked for one answer.
#[derive(Clone, Debug)]
pub struct Question {
    /// Whose streams.
    pub tenants: TenantScope,
    /// What about them.
    pub asked: Asked,
    /// The version of the requests for deletion whose entries are left out.
    pub deletions: DeletionVersion,
    /// How many entries of a log query a shard of many streams may look for in place of those that an
    /// answer has, see [`logsvc_shards::scan::LeafRequest::entries_each`].
    pub entries_each: Option<NonZeroUsize>,
}

/// See [`Question`].
#[derive(Clone, Debug)]
pub enum Asked {
    /// To run leaves of one plan, each once.
    Leaves(Vec<Arc<LeafPlan>>),
    /// Names of the labels of streams.
    LabelNames(Streams),
    /// Values of one of their labels.
    LabelValues(Streams, Box<str>),
    /// Their label sets.
    Series(Streams),
}

/// Which streams are listed.
#[derive(Clone, Debug)]
pub struct Streams {
    /// Alternatives, each a list of matchers that must all hold; none: all streams.
    pub matcher_groups: Arc<[Vec<CompiledMatcher>]>,
    /// Only streams that may have entries in this range.
    pub range: TimeRange,
}

/// A [`Question`] for one node.
#[derive(Debug)]
pub struct Sent {
    /// Who is to answer, for all partitions that it owns.
    pub to: Addressee,
    /// How long the sender waits for the answer.
    pub timeout: Duration,
    /// What it is asked.
    pub question: Question,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeHead {
    #[prost(string, repeated, tag = "1")]
    tenants: Vec<String>,
    /// Whether equal streams of several tenants are one.
    #[prost(bool, tag = "2")]
    is_merged: bool,
}

#[derive(Clone, PartialEq, Message)]
struct StreamsHead {
    #[prost(bytes = "bytes", tag = "1")]
    matchers: Bytes,
    #[prost(sfixed64, tag = "2")]
    start_ns: i64,
    #[prost(sfixed64, tag = "3")]
    end_ns: i64,
    /// Of values, the name of the label.
    #[prost(string, optional, tag = "4")]
    label: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct LeavesHead {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    plans: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum AskedHead {
    #[prost(message, tag = "4")]
    Leaves(LeavesHead),
    #[prost(message, tag = "5")]
    LabelNames(StreamsHead),
    #[prost(message, tag = "6")]
    LabelValues(StreamsHead),
    #[prost(message, tag = "7")]
    Series(StreamsHead),
}

#[derive(Clone, PartialEq, Message)]
struct QuestionHead {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(uint64, tag = "2")]
    timeout_ms: u64,
    #[prost(message, optional, tag = "3")]
    scope: Option<ScopeHead>,
    #[prost(oneof = "AskedHead", tags = "4, 5, 6, 7")]
    asked: Option<AskedHead>,
    #[prost(uint64, tag = "8")]
    deletions: u64,
    #[prost(uint32, tag = "9")]
    writer: u32,
    /// 0: as many as an answer has.
    #[prost(uint32, tag = "10")]
    entries_each: u32,
}

fn message(text: impl ToString) -> Damaged {
    Damaged::Message(text.to_string())
}

impl Question {
    /// The bytes of a message that asks a node, see [`Sent`].
    #[must_use]
    pub fn encode(&self, to: Addressee, timeout: Duration) -> Vec<u8> {
        let streams = |streams: &Streams, label: Option<String>| {
            let mut matchers = Vec::new();
            encode_matchers(&streams.matcher_groups, &mut matchers);
            let TimeRange { start_ns, end_ns } = streams.range;
            StreamsHead { matchers: matchers.into(), start_ns, end_ns, label }
        };
        let asked = match &self.asked {
            Asked::Leaves(leaves) => {
                let plan = |leaf: &Arc<LeafPlan>| {
                    let mut bytes = Vec::new();
                    leaf.encode(&mut bytes);
                    Bytes::from(bytes)
                };
                AskedHead::Leaves(LeavesHead { plans: leaves.iter().map(plan).collect() })
            }
            Asked::LabelNames(of) => AskedHead::LabelNames(streams(of, None)),
            Asked::LabelValues(of, name) => {
                AskedHead::LabelValues(streams(of, Some(name.to_string())))
            }
            Asked::Series(of) => AskedHead::Series(streams(of, None)),
        };
        let tenants = self.tenants.tenants().iter().map(|one| one.as_str().to_owned()).collect();
        let scope = ScopeHead { tenants, is_merged: self.tenants.is_merged() };
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let head = QuestionHead {
            number: to.number,
            writer: to.writer,
            timeout_ms,
            scope: Some(scope),
            asked: Some(asked),
            deletions: self.deletions.number(),
            entries_each: self
                .entries_each
                .map_or(0, |each| u32::try_from(each.get()).unwrap_or(0)),
        };
        frame::seal(Kind::Question, Vec::new(), &head)
    }
}
