//! Entries on their way to the node that owns their partitions, and what became of them.

use std::sync::Arc;

use bytes::Bytes;
use logsvc_proto::StreamId;
use logsvc_shards::messages::{AppendOutcome, AppendRequest, TooFarBehind};
use logsvc_shards::types::StreamDefinition;
use prost::Message;

use crate::frame::{self, Addressee, Damaged, Failure, FailureHead, Kind, Opened};

/// Entries for one node: its partitions may be of several cores.
#[derive(Debug)]
pub struct Push {
    /// Who is to store them.
    pub to: Addressee,
    /// The entries.
    pub append: AppendRequest,
}

/// What became of a [`Push`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushReply {
    /// It is durable, but for what the outcome says.
    Stored(AppendOutcome),
    /// The node does not know a stream that was not defined. Perhaps a part is stored.
    Unknown,
    /// The node does not take entries of one of the partitions now. Perhaps a part is stored.
    Elsewhere {
        /// The number of its map.
        newest: u64,
    },
    /// It has failed. Perhaps a part is stored.
    Failed(Failure),
}

#[derive(Clone, PartialEq, Message)]
struct DefinitionHead {
    #[prost(string, tag = "1")]
    tenant: String,
    #[prost(bytes = "bytes", tag = "2")]
    labels: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct PushHead {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(int64, optional, tag = "2")]
    out_of_order_window_ns: Option<i64>,
    #[prost(message, repeated, tag = "3")]
    definitions: Vec<DefinitionHead>,
    #[prost(uint32, tag = "4")]
    writer: u32,
}

impl Push {
    /// The bytes of a message that asks for this.
    #[must_use]
    pub fn encode(self) -> Vec<u8> {
        let Push { to, append } = self;
        let AppendRequest { batch, definitions, out_of_order_window_ns, is_replayed: _ } = append;
        let definition = |definition: &StreamDefinition| DefinitionHead {
            tenant: definition.tenant.as_str().to_owned(),
            labels: Bytes::copy_from_slice(definition.labels.as_bytes()),
        };
        let definitions = definitions.iter().map(definition).collect();
        let Addressee { writer, number } = to;
        let head = PushHead { number, out_of_order_window_ns, definitions, writer };
        frame::seal(Kind::Push, batch, &head)
    }

    /// Reads such a message. The batch takes the memory of the message over; it is checked by the
    /// shards.
    ///
    /// # Errors
    /// See [`Damaged`].
    pub fn decode(mut message: Vec<u8>) -> Result<Push, Damaged> {
        let Opened { head, blob_len } = frame::open::<PushHead>(Kind::Push, &message)?;
        message.truncate(blob_len);
        let PushHead { number, out_of_order_window_ns, definitions, writer } = head;
        let definition = |head: DefinitionHead| {
            let (tenant, labels) = (frame::tenant(&head.tenant)?, frame::labels(&head.labels)?);
            let id = StreamId::new(&tenant, &labels);
            Ok(StreamDefinition { id, tenant, labels: Arc::new(labels) })
        };
        let definitions: Result<Vec<_>, Damaged> =
            definitions.into_iter().map(definition).collect();
        let definitions = definitions?;
        let append = AppendRequest {
            batch: message,
            definitions,
            out_of_order_window_ns,
            is_replayed: false,
        };
        Ok(Push { to: Addressee { writer, number }, append })
    }
}

#[derive(Clone, PartialEq, Message)]
struct LateHead {
    #[prost(bytes = "bytes", tag = "1")]
    stream: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    labels: Bytes,
    /// Of each entry its time and the oldest one that would have been taken, one behind the other.
    #[prost(sint64, repeated, tag = "3")]
    times_ns: Vec<i64>,
    #[prost(uint64, tag = "4")]
    refused: u64,
    #[prost(uint64, tag = "5")]
    total: u64,
}

#[derive(Clone, PartialEq, Message)]
struct RefusedHead {
    #[prost(bytes = "bytes", tag = "1")]
    stream: Bytes,
    #[prost(uint64, tag = "2")]
    entries: u64,
}

#[derive(Clone, PartialEq, Message)]
struct StoredHead {
    #[prost(uint64, tag = "1")]
    accepted: u64,
    #[prost(message, repeated, tag = "2")]
    too_far_behind: Vec<LateHead>,
    #[prost(message, repeated, tag = "3")]
    refused_streams: Vec<RefusedHead>,
    #[prost(message, repeated, tag = "4")]
    over_limit: Vec<RefusedHead>,
}

#[derive(Clone, PartialEq, Message)]
struct Nothing {}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Outcome {
    #[prost(message, tag = "1")]
    Stored(StoredHead),
    #[prost(message, tag = "2")]
    Unknown(Nothing),
    #[prost(uint64, tag = "3")]
    Elsewhere(u64),
    #[prost(message, tag = "4")]
    Failed(FailureHead),
}

#[derive(Clone, PartialEq, Message)]
struct PushReplyHead {
    #[prost(oneof = "Outcome", tags = "1, 2, 3, 4")]
    outcome: Option<Outcome>,
}

fn id_bytes(stream: StreamId) -> Bytes {
    Bytes::copy_from_slice(&stream.to_bytes())
}

/// A number of entries, such that those of many replies can be added up.
fn counter(sent: u64) -> u64 {
    sent.min(u64::from(u32::MAX))
}

fn id(bytes: &Bytes) -> Result<StreamId, Damaged> {
    let bytes = <[u8; 16]>::try_from(&bytes[..]);
    let bytes = bytes.map_err(|_| Damaged::Message("a stream has another id".to_owned()))?;
    Ok(StreamId::from_bytes(bytes))
}

impl From<&AppendOutcome> for StoredHead {
    fn from(outcome: &AppendOutcome) -> StoredHead {
        let late = |late: &TooFarBehind| LateHead {
            stream: id_bytes(late.stream),
            labels: Bytes::copy_from_slice(late.labels.as_bytes()),
            times_ns: late.entries.iter().flat_map(|&(entry, oldest)| [entry, oldest]).collect(),
            refused: late.refused,
            total: late.total,
        };
        let refused = |&(stream, entries): &(StreamId, u64)| RefusedHead {
            stream: id_bytes(stream),
            entries,
        };
        StoredHead {
            accepted: outcome.accepted,
            too_far_behind: outcome.too_far_behind.iter().map(late).collect(),
            refused_streams: outcome.refused_streams.iter().map(refused).collect(),
            over_limit: outcome.over_limit.iter().map(refused).collect(),
        }
    }
}

impl TryFrom<StoredHead> for AppendOutcome {
    type Error = Damaged;

    fn try_from(head: StoredHead) -> Result<AppendOutcome, Damaged> {
        let late = |late: LateHead| {
            if !late.times_ns.len().is_multiple_of(2) {
                return Err(Damaged::Message("an entry that is refused has one time".to_owned()));
            }
            Ok(TooFarBehind {
                stream: id(&late.stream)?,
                labels: Arc::new(frame::labels(&late.labels)?),
                entries: late.times_ns.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
                refused: counter(late.refused),
                total: counter(late.total),
            })
        };
        let refused = |heads: Vec<RefusedHead>| -> Result<Vec<(StreamId, u64)>, Damaged> {
            let one = |head: RefusedHead| Ok((id(&head.stream)?, counter(head.entries)));
            let streams: Result<Vec<_>, Damaged> = heads.into_iter().map(one).collect();
            let mut streams = streams?;
            // Who reads it looks streams up.
            streams.sort_unstable_by_key(|(stream, _)| *stream);
            Ok(streams)
        };
        let too_far_behind: Result<Vec<_>, Damaged> =
            head.too_far_behind.into_iter().map(late).collect();
        Ok(AppendOutcome {
            accepted: counter(head.accepted),
            too_far_behind: too_far_behind?,
            refused_streams: refused(head.refused_streams)?,
            over_limit: refused(head.over_limit)?,
        })
    }
}

impl PushReply {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let outcome = match self {
            PushReply::Stored(outcome) => Outcome::Stored(outcome.into()),
            PushReply::Unknown => Outcome::Unknown(Nothing {}),
            PushReply::Elsewhere { newest } => Outcome::Elsewhere(*newest),
            PushReply::Failed(failure) => Outcome::Failed(failure.into()),
        };
        frame::seal(Kind::PushReply, Vec::new(), &PushReplyHead { outcome: Some(outcome) })
    }

    /// Reads them.
    ///
    /// # Errors
    /// See [`Damaged`].
    pub fn decode(message: &[u8]) -> Result<PushReply, Damaged> {
        let opened = frame::open::<PushReplyHead>(Kind::PushReply, message)?;
        let nothing = || Damaged::Message("it has no outcome".to_owned());
        Ok(match opened.head.outcome.ok_or_else(nothing)? {
            Outcome::Stored(head) => PushReply::Stored(head.try_into()?),
            Outcome::Unknown(Nothing {}) => PushReply::Unknown,
            Outcome::Elsewhere(newest) => PushReply::Elsewhere { newest },
            Outcome::Failed(failure) => PushReply::Failed(failure.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_proto::{Labels, TenantId};

    fn labels(app: &str) -> Arc<Labels> {
        Arc::new(Labels::from_pairs([("app", app)]).expect("labels"))
    }

    #[test]
    fn a_push_comes_as_it_was_sent() {
        let tenant = TenantId::new("acme").expect("a tenant");
        let definitions: Vec<StreamDefinition> = ["a", "b"]
            .map(|app| {
                let (tenant, labels) = (tenant.clone(), labels(app));
                StreamDefinition { id: StreamId::new(&tenant, &labels), tenant, labels }
            })
            .to_vec();
        for window in [None, Some(7)] {
            let append = AppendRequest {
                batch: b"a batch".to_vec(),
                definitions: definitions.clone(),
                out_of_order_window_ns: window,
                is_replayed: false,
            };
            let to = Addressee { writer: 3, number: 12 };
            let sent = Push { to, append }.encode();
            let Push { to: had, append } = Push::decode(sent).expect("a push");
            assert_eq!((had, &append.batch[..]), (to, &b"a batch"[..]));
            assert_eq!(append.out_of_order_window_ns, window);
            assert_eq!(format!("{:?}", append.definitions), format!("{definitions:?}"));
        }
    }

    #[test]
    fn replies_come_as_they_were_sent() {
        let late = TooFarBehind {
            stream: StreamId(1 << 90),
            labels: labels("late"),
            entries: vec![(5, 10), (-7, 10)],
            refused: 2,
            total: 3,
        };
        let outcome = AppendOutcome {
            accepted: 9,
            too_far_behind: vec![late],
            refused_streams: vec![(StreamId(3), 4), (StreamId(8), 1)],
            over_limit: vec![(StreamId(4), 2)],
        };
        let failure = Failure { status: 429, text: "busy".to_owned(), retry_after_s: Some(1) };
        for reply in [
            PushReply::Stored(outcome),
            PushReply::Unknown,
            PushReply::Elsewhere { newest: 77 },
            PushReply::Failed(failure),
        ] {
            let bytes = reply.encode();
            assert_eq!(PushReply::decode(&bytes), Ok(reply));
        }
    }

    #[test]
    fn names_and_labels_are_checked() {
        let head = |tenant: &str, labels: &[u8]| {
            let definition =
                DefinitionHead { tenant: tenant.into(), labels: Bytes::copy_from_slice(labels) };
            let head = PushHead { definitions: vec![definition], ..PushHead::default() };
            Push::decode(frame::seal(Kind::Push, Vec::new(), &head)).is_ok()
        };
        let none = Labels::from_pairs([("", ""); 0]).expect("labels");
        let none = none.as_bytes();
        assert!(head("acme", none) && !head("../acme", none) && !head("", none));
        assert!(!head("acme", b"") && !head("acme", b"\xff\xff"));
    }
}
