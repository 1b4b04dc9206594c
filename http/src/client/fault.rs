//! Why a request has no answer.

use std::io;

/// A request without a complete answer.
#[derive(Debug, thiserror::Error)]
#[error("{destination}: {fault}")]
pub struct ClientError {
    /// Host and port that were asked, without credentials.
    pub destination: String,
    /// What went wrong.
    pub fault: Fault,
}

/// What went wrong with a request.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// There is no connection: the host is not known, refuses, or does not prove its name.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    /// The proxy cannot be reached, or gives no tunnel.
    #[error("proxy {proxy}: {reason}")]
    Proxy {
        /// Host and port of the proxy.
        proxy: String,
        /// Why not.
        reason: String,
    },
    /// The connection broke.
    #[error("the connection failed: {0}")]
    Connection(io::Error),
    /// The server closed the connection instead of answering.
    #[error("the server closed the connection without an answer")]
    Closed,
    /// A timeout passed; the text says in which phase.
    #[error("timed out while {0}")]
    TimedOut(&'static str),
    /// The answer cannot be taken.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// The body of the request could not be made, or has another length than it said.
    #[error("the body of the request cannot be made: {0}")]
    Body(String),
}

/// Why bytes are no answer that can be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AnswerError {
    /// The bytes are no valid HTTP/1.1 answer, or one that can be read in two ways.
    #[error("malformed answer: {0}")]
    Malformed(&'static str),
    /// The head is longer than the limit.
    #[error("the head of the answer is longer than {max_bytes} bytes")]
    HeadTooLarge {
        /// The limit.
        max_bytes: usize,
    },
    /// The body is longer than the limit.
    #[error("the body of the answer is longer than {max_bytes} bytes")]
    BodyTooLarge {
        /// The limit.
        max_bytes: u64,
    },
    /// The connection ended within the answer.
    #[error("the answer is cut off")]
    CutOff,
}

impl Fault {
    /// Whether a timeout passed.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Fault::TimedOut(_))
    }

    /// The fault of a failed read or write in this phase.
    pub(super) fn of_io(error: io::Error, phase: &'static str) -> Fault {
        match error.kind() {
            io::ErrorKind::TimedOut => Fault::TimedOut(phase),
            _ => Fault::Connection(error),
        }
    }
}
