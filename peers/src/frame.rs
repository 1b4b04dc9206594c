//! The frame: what all messages between nodes have in common.
//!
//! A frame is a *blob*, a *head* and a trailer. The blob is what a message has many bytes of; it
//! comes first, so that a batch becomes a frame without being copied. The head is a protobuf
//! message. The trailer tells where the head begins, and has the checksum.
//!
//! Guarantee: [`open`] takes the bytes of [`seal`] alone, but for a checksum that agrees by chance.

use bytes::Bytes;
use prost::Message;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a trailer.
const TRAILER_BYTES: usize = 20;

/// The first version, and the only one so far.
const VERSION: u16 = 1;

const MAGIC: u32 = u32::from_le_bytes(*b"LSPM");

/// What a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Entries for a node that owns their partitions.
    Push,
    /// The answer to it.
    PushReply,
    /// A part of a query.
    Question,
    /// The answer to it.
    Reply,
    /// New entries of a tail.
    TailWord,
    /// What a node has removed for requests for deletion.
    Removed,
    /// The answer to it.
    RemovedReply,
}

impl Kind {
    fn number(self) -> u16 {
        match self {
            Kind::Push => 1,
            Kind::PushReply => 2,
            Kind::Question => 3,
            Kind::Reply => 4,
            Kind::TailWord => 5,
            Kind::Removed => 6,
            Kind::RemovedReply => 7,
        }
    }
}

/// Why bytes are no message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Damaged {
    /// They are too few, or not those of a frame.
    #[error("the bytes are no frame")]
    NoFrame,
    /// They were changed on their way.
    #[error("the checksum of the frame is wrong")]
    Checksum,
    /// They are of a version that this program does not know.
    #[error("the frame has version {0}, which this program does not know")]
    Version(u16),
    /// They are another message than the one that was expected.
    #[error("the frame has kind {0}, which does not belong here")]
    Kind(u16),
    /// The message contradicts itself, or has what it must not have.
    #[error("the message is damaged: {0}")]
    Message(String),
}

impl From<prost::DecodeError> for Damaged {
    fn from(error: prost::DecodeError) -> Damaged {
        Damaged::Message(error.to_string())
    }
}

/// Makes a frame of a blob. The head has less than 4 GiB, as whatever fits into a message.
#[must_use]
pub fn seal(kind: Kind, mut blob: Vec<u8>, head: &impl Message) -> Vec<u8> {
    let blob_len = blob.len();
    blob.reserve(head.encoded_len() + TRAILER_BYTES);
    // A vector takes as much as there is.
    head.encode_raw(&mut blob);
    close(kind, blob, blob_len)
}

/// Puts the trailer behind a blob of so many bytes and the head that follows it.
#[must_use]
pub fn close(kind: Kind, mut blob_and_head: Vec<u8>, blob_len: usize) -> Vec<u8> {
    let head_len = (blob_and_head.len() - blob_len) as u32;
    let frame = &mut blob_and_head;
    frame.extend(head_len.to_le_bytes());
    frame.extend(VERSION.to_le_bytes());
    frame.extend(kind.number().to_le_bytes());
    frame.extend(MAGIC.to_le_bytes());
    let checksum = xxh3_64(frame);
    frame.extend(checksum.to_le_bytes());
    blob_and_head
}

/// A frame whose bytes are whole.
#[derive(Debug)]
pub struct Opened<H> {
    /// The head.
    pub head: H,
    /// The length of the blob, which is what the frame begins with.
    pub blob_len: usize,
}

/// Takes a frame apart.
///
/// # Errors
/// See [`Damaged`].
pub fn open<H: Message + Default>(kind: Kind, frame: &[u8]) -> Result<Opened<H>, Damaged> {
    let (rest, trailer) = frame.split_last_chunk::<TRAILER_BYTES>().ok_or(Damaged::NoFrame)?;
    let u16_at = |at: usize| u16::from_le_bytes([trailer[at], trailer[at + 1]]);
    let u32_at = |at: usize| {
        u32::from_le_bytes([trailer[at], trailer[at + 1], trailer[at + 2], trailer[at + 3]])
    };
    if u32_at(8) != MAGIC {
        return Err(Damaged::NoFrame);
    }
    let (checked, checksum) = frame.split_at(frame.len() - 8);
    if xxh3_64(checked).to_le_bytes() != checksum {
        return Err(Damaged::Checksum);
    }
    if u16_at(4) != VERSION {
        return Err(Damaged::Version(u16_at(4)));
    }
    if u16_at(6) != kind.number() {
        return Err(Damaged::Kind(u16_at(6)));
    }
    let blob_len = rest.len().checked_sub(u32_at(0) as usize).ok_or(Damaged::NoFrame)?;
    let head = H::decode(&rest[blob_len..])?;
    Ok(Opened { head, blob_len })
}

/// Whom a message is for. A node that was started at the address of one that has died is another
/// writer, and must not answer in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addressee {
    /// The epoch under which the node writes.
    pub writer: u32,
    /// The number of the map by which it owns partitions.
    pub number: u64,
}

/// Why a node has not done what it was asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The HTTP status that a client should see.
    pub status: u16,
    /// The text for it.
    pub text: String,
    /// After how many seconds another attempt makes sense, if it does.
    pub retry_after_s: Option<u32>,
}

/// A [`Failure`] in a message.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FailureHead {
    #[prost(uint32, tag = "1")]
    status: u32,
    #[prost(string, tag = "2")]
    text: String,
    #[prost(uint32, optional, tag = "3")]
    retry_after_s: Option<u32>,
}

impl From<&Failure> for FailureHead {
    fn from(failure: &Failure) -> FailureHead {
        let Failure { status, text, retry_after_s } = failure.clone();
        FailureHead { status: u32::from(status), text, retry_after_s }
    }
}

impl From<FailureHead> for Failure {
    fn from(head: FailureHead) -> Failure {
        let FailureHead { status, text, retry_after_s } = head;
        // Whatever else was sent is a failure of the sender.
        let status = u16::try_from(status).ok().filter(|status| (400..600).contains(status));
        Failure { status: status.unwrap_or(500), text, retry_after_s }
    }
}

/// Labels in a message.
pub(crate) fn labels(bytes: &Bytes) -> Result<logsvc_proto::Labels, Damaged> {
    logsvc_proto::Labels::from_bytes(bytes).map_err(|error| Damaged::Message(error.to_string()))
}

/// A tenant in a message.
pub(crate) fn tenant(text: &str) -> Result<logsvc_proto::TenantId, Damaged> {
    logsvc_proto::TenantId::new(text).map_err(|error| Damaged::Message(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_was_changed_is_refused() {
        let head = FailureHead { status: 503, text: "busy".into(), retry_after_s: Some(1) };
        let frame = seal(Kind::Push, b"entries".to_vec(), &head);
        let opened = open::<FailureHead>(Kind::Push, &frame).expect("a frame");
        assert_eq!((opened.head, &frame[..opened.blob_len]), (head, &b"entries"[..]));
        assert_eq!(open::<FailureHead>(Kind::Reply, &frame).err(), Some(Damaged::Kind(1)));
        for place in 0..frame.len() {
            assert!(open::<FailureHead>(Kind::Push, &frame[..place]).is_err(), "cut at {place}");
            let mut changed = frame.clone();
            changed[place] ^= 1 << (place % 8);
            assert!(open::<FailureHead>(Kind::Push, &changed).is_err(), "changed at {place}");
        }
    }

    #[test]
    fn lengths_that_are_claimed_are_checked() {
        let mut frame = seal(Kind::Push, Vec::new(), &FailureHead::default());
        frame.truncate(frame.len() - 8);
        let at = frame.len() - 12;
        frame[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        let checksum = xxh3_64(&frame);
        frame.extend(checksum.to_le_bytes());
        assert_eq!(open::<FailureHead>(Kind::Push, &frame).err(), Some(Damaged::NoFrame));
    }
}
