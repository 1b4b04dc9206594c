//! Answers out of bytes: heads, bodies, interim answers.
//!
//! Guarantees: what comes out does not depend on where the bytes were cut, apart from the cuts of
//! the body's pieces. An answer has exactly one way to find its end: several lengths, lengths
//! beside chunks, lines that do not end in CR LF and folded lines are refused. Each byte of a head
//! is looked at once. Nothing is allocated by a length that the server claims.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode, Version};

use super::fault::AnswerError;
use crate::chunked::{ChunkedDecoder, Decoded};
use crate::framing::{keeps_alive, parse_length};
use crate::refusal::Refusal;

/// Most interim answers before one answer.
const MAX_INTERIM: u32 = 32;
/// What all status lines begin with.
const START: &[u8] = b"HTTP/1.";

/// Limits of answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResponseLimits {
    /// Longest head, in bytes with its empty line. An interim answer has the same limit.
    pub max_head_bytes: usize,
    /// Longest body, in bytes.
    pub max_body_bytes: u64,
}

impl Default for ResponseLimits {
    fn default() -> ResponseLimits {
        ResponseLimits { max_head_bytes: 64 << 10, max_body_bytes: 64 << 20 }
    }
}

/// The head of an answer.
#[derive(Debug)]
pub struct ResponseHead {
    /// The status, which is no interim one.
    pub status: StatusCode,
    /// HTTP/1.0 or HTTP/1.1.
    pub version: Version,
    /// The headers, in the order of their arrival.
    pub headers: HeaderMap,
}

/// What comes next in an answer.
#[derive(Debug)]
pub enum Piece {
    /// An interim answer, such as `100 Continue`.
    Interim(StatusCode),
    /// The head.
    Head(ResponseHead),
    /// A part of the body, not empty.
    Data(Bytes),
    /// The answer is complete.
    End,
}

enum State {
    Head,
    /// So many bytes are to come.
    Length(u64),
    Chunked(ChunkedDecoder),
    /// The body ends with the connection, and may have so many bytes more.
    UntilClose(u64),
    /// Complete; the end was not said yet.
    Ending,
    Done,
}

/// Reads one answer. A new request on the connection needs a new decoder.
pub struct ResponseDecoder {
    limits: ResponseLimits,
    /// Whether the answer has no body whatever its head says.
    is_bodyless: bool,
    /// Whether an answer with 2xx has no body, because the connection is a tunnel.
    is_tunnel: bool,
    state: State,
    /// The bytes of the head so far.
    head: Vec<u8>,
    /// Start of the line under examination.
    line_start: usize,
    lines: usize,
    interim: u32,
    has_begun: bool,
    keep_alive: bool,
}

impl ResponseDecoder {
    /// A decoder for the answer to a request with the method `HEAD`, or with another one.
    pub fn new(limits: ResponseLimits, is_head: bool) -> ResponseDecoder {
        ResponseDecoder {
            limits,
            is_bodyless: is_head,
            is_tunnel: false,
            state: State::Head,
            head: Vec::new(),
            line_start: 0,
            lines: 0,
            interim: 0,
            has_begun: false,
            keep_alive: false,
        }
    }

    /// A decoder for the answer to `CONNECT`.
    pub(super) fn for_tunnel(limits: ResponseLimits) -> ResponseDecoder {
        ResponseDecoder { is_tunnel: true, ..ResponseDecoder::new(limits, false) }
    }

    /// Takes the next piece off the front of `input`, or gives `None` if more bytes are needed.
    /// Then all input was taken.
    ///
    /// # Errors
    /// See [`AnswerError`]. The connection must be closed then.
    pub fn decode(&mut self, input: &mut Bytes) -> Result<Option<Piece>, AnswerError> {
        self.has_begun |= !input.is_empty();
        let max_bytes = self.limits.max_body_bytes;
        match &mut self.state {
            State::Head => self.decode_head(input),
            State::Length(left_bytes) => {
                let count = usize::try_from(*left_bytes).unwrap_or(usize::MAX).min(input.len());
                if count == 0 {
                    return Ok(None);
                }
                let data = input.split_to(count);
                self.note_body(count as u64);
                Ok(Some(Piece::Data(data)))
            }
            State::Chunked(decoder) => {
                let before = input.clone();
                let (taken, decoded) = decoder.decode(&before).map_err(of_refusal)?;
                let data = match decoded {
                    Decoded::Data(data) => Some(before.slice_ref(data)),
                    Decoded::NeedMore | Decoded::Done => None,
                };
                if decoder.is_done() {
                    self.state = State::Ending;
                }
                *input = before.slice(taken..);
                match (data, &self.state) {
                    (Some(data), _) => Ok(Some(Piece::Data(data))),
                    (None, State::Ending) => self.decode(input),
                    (None, _) => Ok(None),
                }
            }
            State::UntilClose(left_bytes) => {
                if input.is_empty() {
                    return Ok(None);
                }
                if *left_bytes == 0 {
                    return Err(AnswerError::BodyTooLarge { max_bytes });
                }
                let count = usize::try_from(*left_bytes).unwrap_or(usize::MAX).min(input.len());
                *left_bytes -= count as u64;
                Ok(Some(Piece::Data(input.split_to(count))))
            }
            State::Ending => {
                self.state = State::Done;
                Ok(Some(Piece::End))
            }
            State::Done => Ok(None),
        }
    }

    /// Says that the connection has ended. An answer whose end is the end of the connection is
    /// complete by that.
    ///
    /// # Errors
    /// [`AnswerError::CutOff`] if the answer is not complete.
    pub fn finish(&mut self) -> Result<(), AnswerError> {
        self.keep_alive = false;
        match self.state {
            State::Done => Ok(()),
            State::Ending | State::UntilClose(_) => {
                self.state = State::Done;
                Ok(())
            }
            _ => Err(AnswerError::CutOff),
        }
    }

    /// Whether a byte of an answer was seen.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether the whole answer was seen.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Ending | State::Done)
    }

    /// Whether the server lets the connection live after this answer, of which the head was seen.
    pub fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// How many bytes of the body are to come, where its head has said so.
    pub(super) fn left_bytes(&self) -> Option<u64> {
        match self.state {
            State::Length(left_bytes) => Some(left_bytes),
            State::Ending | State::Done => Some(0),
            _ => None,
        }
    }

    /// Says that bytes of the body were read past the decoder, no more than
    /// [`ResponseDecoder::left_bytes`].
    pub(super) fn note_body(&mut self, count_bytes: u64) {
        if let State::Length(left_bytes) = &mut self.state {
            *left_bytes = left_bytes.saturating_sub(count_bytes);
            if *left_bytes == 0 {
                self.state = State::Ending;
            }
        }
    }

    fn decode_head(&mut self, input: &mut Bytes) -> Result<Option<Piece>, AnswerError> {
        let max_bytes = self.limits.max_head_bytes;
        while !input.is_empty() {
            let found = memchr::memchr(b'\n', input);
            let part = input.split_to(found.map_or(input.len(), |at| at + 1));
            // One byte more than the limit is enough to see that it is passed.
            let room = (max_bytes + 1).saturating_sub(self.head.len());
            self.head.extend_from_slice(&part[..part.len().min(room)]);
            let start = &self.head[..self.head.len().min(START.len())];
            if !START.starts_with(start) {
                return Err(AnswerError::Malformed("this is no HTTP/1.1 answer"));
            }
            if self.head.len() > max_bytes {
                return Err(AnswerError::HeadTooLarge { max_bytes });
            }
            if found.is_none() {
                return Ok(None);
            }
            let line = &self.head[self.line_start..];
            if line.len() < 2 || memchr::memchr(b'\r', line) != Some(line.len() - 2) {
                return Err(AnswerError::Malformed("a line of the head does not end in CR LF"));
            }
            let is_empty = line.len() == 2;
            self.line_start = self.head.len();
            self.lines += 1;
            if is_empty {
                return self.end_head().map(Some);
            }
        }
        Ok(None)
    }

    /// Reads a complete head.
    fn end_head(&mut self) -> Result<Piece, AnswerError> {
        let bytes = Bytes::from(std::mem::take(&mut self.head));
        let head = parse_head(&bytes, std::mem::take(&mut self.lines))?;
        self.line_start = 0;
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(AnswerError::Malformed("nobody asked for another protocol"));
        }
        if head.status.is_informational() {
            self.interim += 1;
            if self.interim > MAX_INTERIM {
                return Err(AnswerError::Malformed("too many interim answers"));
            }
            return Ok(Piece::Interim(head.status));
        }
        self.keep_alive = keeps_alive(&head.headers, head.version);
        self.state = self.body_of(&head)?;
        Ok(Piece::Head(head))
    }

    /// Decides how the body's end is found (RFC 9112, section 6.3).
    fn body_of(&mut self, head: &ResponseHead) -> Result<State, AnswerError> {
        let max_bytes = self.limits.max_body_bytes;
        let length = declared_length(&head.headers)?;
        let is_chunked = declared_chunks(&head.headers, head.version)?;
        if length.is_some() && is_chunked {
            return Err(AnswerError::Malformed("both Content-Length and Transfer-Encoding"));
        }
        let has_none =
            head.status == StatusCode::NO_CONTENT || head.status == StatusCode::NOT_MODIFIED;
        if self.is_tunnel && head.status.is_success() {
            return Ok(State::Ending);
        }
        if self.is_bodyless || has_none {
            // Such an answer has no body. A server that sends one after all breaks the next answer.
            if head.status == StatusCode::NO_CONTENT && (is_chunked || length > Some(0)) {
                self.keep_alive = false;
            }
            return Ok(State::Ending);
        }
        match length {
            _ if is_chunked => Ok(State::Chunked(ChunkedDecoder::new(max_bytes))),
            Some(0) => Ok(State::Ending),
            Some(len_bytes) if len_bytes > max_bytes => {
                Err(AnswerError::BodyTooLarge { max_bytes })
            }
            Some(len_bytes) => Ok(State::Length(len_bytes)),
            None => {
                self.keep_alive = false;
                Ok(State::UntilClose(max_bytes))
            }
        }
    }
}

fn of_refusal(refusal: Refusal) -> AnswerError {
    match refusal {
        Refusal::BodyTooLarge { max_bytes } => AnswerError::BodyTooLarge { max_bytes },
        Refusal::BadRequest(reason) => AnswerError::Malformed(reason),
        _ => AnswerError::Malformed("too long trailers"),
    }
}

fn declared_length(headers: &HeaderMap) -> Result<Option<u64>, AnswerError> {
    let mut values = headers.get_all(CONTENT_LENGTH).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => match parse_length(value.as_bytes()) {
            Some(len_bytes) => Ok(Some(len_bytes)),
            None => Err(AnswerError::Malformed("malformed Content-Length")),
        },
        (Some(_), Some(_)) => Err(AnswerError::Malformed("repeated Content-Length")),
    }
}

fn declared_chunks(headers: &HeaderMap, version: Version) -> Result<bool, AnswerError> {
    let mut values = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(value) = values.next() else { return Ok(false) };
    if version == Version::HTTP_10 {
        return Err(AnswerError::Malformed("Transfer-Encoding in an HTTP/1.0 answer"));
    }
    if values.next().is_some() || !value.as_bytes().eq_ignore_ascii_case(b"chunked") {
        return Err(AnswerError::Malformed("unsupported Transfer-Encoding"));
    }
    Ok(true)
}

/// Parses a complete head of so many lines.
fn parse_head(bytes: &Bytes, lines: usize) -> Result<ResponseHead, AnswerError> {
    let mut fields = vec![httparse::EMPTY_HEADER; lines];
    let mut parsed = httparse::Response::new(&mut fields);
    match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(len)) if len == bytes.len() => {}
        Ok(_) => return Err(AnswerError::Malformed("malformed head")),
        Err(httparse::Error::HeaderName) => {
            return Err(AnswerError::Malformed("malformed header name"));
        }
        Err(httparse::Error::HeaderValue) => {
            return Err(AnswerError::Malformed("malformed header value"));
        }
        Err(_) => return Err(AnswerError::Malformed("malformed status line")),
    }
    let (Some(code), Some(minor)) = (parsed.code, parsed.version) else {
        return Err(AnswerError::Malformed("malformed status line"));
    };
    let status =
        StatusCode::from_u16(code).map_err(|_| AnswerError::Malformed("malformed status"))?;
    let too_many = |_| AnswerError::Malformed("too many headers");
    let mut headers = HeaderMap::try_with_capacity(parsed.headers.len()).map_err(too_many)?;
    for field in parsed.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes())
            .map_err(|_| AnswerError::Malformed("malformed header name"))?;
        // An empty value may point outside of the shared copy.
        let value = if field.value.is_empty() {
            HeaderValue::from_static("")
        } else {
            HeaderValue::from_maybe_shared(bytes.slice_ref(field.value))
                .map_err(|_| AnswerError::Malformed("malformed header value"))?
        };
        headers.try_append(name, value).map_err(too_many)?;
    }
    let version = if minor == 1 { Version::HTTP_11 } else { Version::HTTP_10 };
    Ok(ResponseHead { status, version, headers })
}
