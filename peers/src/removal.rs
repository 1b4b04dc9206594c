//! What a node has removed for requests for deletion: the question of the node that keeps them, and the
//! answer.

use std::collections::BTreeMap;

use logsvc_shards::deletion::{DeleteId, RemovalReport, RemovedTotals};
use prost::Message;

use crate::frame::{self, Damaged, Kind, Opened};

#[derive(Clone, PartialEq, Message)]
struct QuestionHead {
    /// The writer that is asked.
    #[prost(uint32, tag = "1")]
    writer: u32,
    /// The newest entry of the log of common files that the sender knows.
    #[prost(uint64, tag = "2")]
    common: u64,
}

/// The question of the node that keeps the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemovalQuestion {
    /// The writer that is asked.
    pub writer: u32,
    /// The newest entry of the log of common files that the sender knows.
    pub common: u64,
}

#[derive(Clone, PartialEq, Message)]
struct DoneHead {
    #[prost(fixed32, tag = "1")]
    id: u32,
    #[prost(uint64, tag = "2")]
    entries: u64,
    #[prost(uint64, tag = "3")]
    line_bytes: u64,
}

#[derive(Clone, PartialEq, Message)]
struct ReportHead {
    /// Whether the writer is the one that was asked.
    #[prost(bool, tag = "1")]
    is_writer: bool,
    #[prost(uint32, repeated, tag = "2")]
    owned: Vec<u32>,
    #[prost(message, repeated, tag = "3")]
    done: Vec<DoneHead>,
}

/// The bytes of a question.
#[must_use]
pub fn encode_question(question: RemovalQuestion) -> Vec<u8> {
    let RemovalQuestion { writer, common } = question;
    frame::seal(Kind::Removed, Vec::new(), &QuestionHead { writer, common })
}

/// Reads them.
///
/// # Errors
/// See [`Damaged`].
pub fn decode_question(bytes: &[u8]) -> Result<RemovalQuestion, Damaged> {
    let QuestionHead { writer, common } = frame::open(Kind::Removed, bytes)?.head;
    Ok(RemovalQuestion { writer, common })
}

/// The bytes of the answer; `None` says that another writer was asked.
#[must_use]
pub fn encode_report(report: Option<&RemovalReport>) -> Vec<u8> {
    let Some(report) = report else {
        return frame::seal(Kind::RemovedReply, Vec::new(), &ReportHead::default());
    };
    let done = report.done.iter().map(|(id, removed)| DoneHead {
        id: id.0,
        entries: removed.entries,
        line_bytes: removed.line_bytes,
    });
    let head = ReportHead {
        is_writer: true,
        owned: report.owned.iter().copied().map(u32::from).collect(),
        done: done.collect(),
    };
    frame::seal(Kind::RemovedReply, Vec::new(), &head)
}

/// Reads them.
///
/// # Errors
/// See [`Damaged`].
pub fn decode_report(bytes: &[u8]) -> Result<Option<RemovalReport>, Damaged> {
    let Opened { head, .. } = frame::open::<ReportHead>(Kind::RemovedReply, bytes)?;
    if !head.is_writer {
        return Ok(None);
    }
    let owned = head.owned.iter().map(|one| u16::try_from(*one));
    let owned = owned.collect::<Result<Vec<u16>, _>>();
    let owned = owned.map_err(|_| Damaged::Message("it has a partition too many".to_owned()))?;
    let mut done = BTreeMap::new();
    for DoneHead { id, entries, line_bytes } in head.done {
        done.insert(DeleteId(id), RemovedTotals { entries, line_bytes });
    }
    Ok(Some(RemovalReport { owned, done }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_comes_as_it_was_sent() {
        let question = RemovalQuestion { writer: 7, common: u64::MAX };
        assert_eq!(decode_question(&encode_question(question)), Ok(question));
        let totals = |entries| RemovedTotals { entries, line_bytes: entries * 9 };
        let done = [(DeleteId(0), totals(0)), (DeleteId(u32::MAX), totals(u64::MAX / 9))].into();
        let report = RemovalReport { owned: vec![0, 5, u16::MAX], done };
        for report in [None, Some(RemovalReport::default()), Some(report)] {
            let bytes = encode_report(report.as_ref());
            assert_eq!(decode_report(&bytes), Ok(report));
            assert!(decode_question(&bytes).is_err());
        }
        let head = ReportHead { is_writer: true, owned: vec![1 << 16], done: Vec::new() };
        let bytes = frame::seal(Kind::RemovedReply, Vec::new(), &head);
        assert!(matches!(decode_report(&bytes), Err(Damaged::Message(_))));
    }
}
