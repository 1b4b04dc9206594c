//! The chunked transfer coding (RFC 9112, section 7.1), decoded byte by byte for
//! its framing and in bulk for its data.
//!
//! Extensions are read and dropped, and so are trailers. Both are bounded per
//! body, because otherwise a client could send them for ever without sending a
//! byte of data. Lines end in CR LF and nothing else.

use crate::percent::hex_digit;
use crate::refusal::Refusal;

/// Most bytes of all extensions of one body.
pub const MAX_EXTENSION_BYTES: usize = 4096;
/// Most bytes of all trailer lines of one body.
pub const MAX_TRAILER_BYTES: usize = 8192;
/// Longest size: 15 hexadecimal digits, so that sums of sizes do not overflow.
const MAX_SIZE_DIGITS: usize = 15;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Size,
    Extension,
    SizeLineFeed,
    Data,
    DataReturn,
    DataLineFeed,
    TrailerStart,
    Trailer,
    TrailerLineFeed,
    EndLineFeed,
    Done,
}

/// The result of a decoder for its input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decoded<'i> {
    /// A piece of the body.
    Data(&'i [u8]),
    /// All input was consumed and the body goes on.
    NeedMore,
    /// The body is complete.
    Done,
}

/// Progress within one chunked body.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    size_digits: usize,
    /// While in `Size`: the value so far. While in `Data`: the bytes to come.
    left_bytes: u64,
    extension_bytes: usize,
    trailer_bytes: usize,
    /// Sum of the sizes of all chunks so far.
    total_bytes: u64,
    max_bytes: u64,
}

impl ChunkedDecoder {
    /// A decoder for a body of at most `max_bytes` of data.
    pub fn new(max_bytes: u64) -> ChunkedDecoder {
        ChunkedDecoder {
            state: State::Size,
            size_digits: 0,
            left_bytes: 0,
            extension_bytes: 0,
            trailer_bytes: 0,
            total_bytes: 0,
            max_bytes,
        }
    }

    /// Whether the body is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Consumes input up to and including the next piece of data, and gives how
    /// many bytes that were. Call again with what follows. A chunk that would
    /// pass the limit is refused when its size is read.
    pub fn decode<'i>(&mut self, input: &'i [u8]) -> Result<(usize, Decoded<'i>), Refusal> {
        let mut at = 0;
        while at < input.len() {
            if self.state == State::Done {
                return Ok((at, Decoded::Done));
            }
            if self.state == State::Data {
                let left_bytes = usize::try_from(self.left_bytes).unwrap_or(usize::MAX);
                let data = &input[at..at.saturating_add(left_bytes).min(input.len())];
                self.left_bytes -= data.len() as u64;
                if self.left_bytes == 0 {
                    self.state = State::DataReturn;
                }
                return Ok((at + data.len(), Decoded::Data(data)));
            }
            self.state = self.step(input[at])?;
            at += 1;
        }
        Ok((at, if self.is_done() { Decoded::Done } else { Decoded::NeedMore }))
    }

    /// Takes one byte that is not data.
    fn step(&mut self, byte: u8) -> Result<State, Refusal> {
        match (self.state, byte) {
            (State::Size, b'\r' | b';') => {
                if self.size_digits == 0 {
                    return Err(Refusal::BadRequest("a chunk has no size"));
                }
                Ok(if byte == b'\r' { State::SizeLineFeed } else { State::Extension })
            }
            (State::Size, _) => {
                let digit =
                    hex_digit(byte).ok_or(Refusal::BadRequest("malformed size of a chunk"))?;
                self.size_digits += 1;
                if self.size_digits > MAX_SIZE_DIGITS {
                    return Err(Refusal::BadRequest("too long size of a chunk"));
                }
                self.left_bytes = self.left_bytes << 4 | u64::from(digit);
                Ok(State::Size)
            }
            (State::Extension, b'\r') => Ok(State::SizeLineFeed),
            (State::Extension, _) => {
                self.extension_bytes += 1;
                if is_control(byte) {
                    Err(Refusal::BadRequest("malformed extension of a chunk"))
                } else if self.extension_bytes > MAX_EXTENSION_BYTES {
                    Err(Refusal::BadRequest("too long extensions of chunks"))
                } else {
                    Ok(State::Extension)
                }
            }
            (State::SizeLineFeed, b'\n') => self.begin_chunk(),
            (State::DataReturn, b'\r') => Ok(State::DataLineFeed),
            (State::DataLineFeed, b'\n') => {
                self.size_digits = 0;
                self.left_bytes = 0;
                Ok(State::Size)
            }
            (State::TrailerStart, b'\r') => Ok(State::EndLineFeed),
            (State::Trailer, b'\r') => Ok(State::TrailerLineFeed),
            (State::TrailerStart | State::Trailer, _) => {
                self.trailer_bytes += 1;
                if is_control(byte) {
                    Err(Refusal::BadRequest("malformed trailer"))
                } else if self.trailer_bytes > MAX_TRAILER_BYTES {
                    Err(Refusal::HeadTooLarge)
                } else {
                    Ok(State::Trailer)
                }
            }
            (State::TrailerLineFeed, b'\n') => Ok(State::TrailerStart),
            (State::EndLineFeed, b'\n') => Ok(State::Done),
            _ => Err(Refusal::BadRequest("a line of a chunked body does not end in CR LF")),
        }
    }

    fn begin_chunk(&mut self) -> Result<State, Refusal> {
        if self.left_bytes == 0 {
            return Ok(State::TrailerStart);
        }
        self.total_bytes = self.total_bytes.saturating_add(self.left_bytes);
        if self.total_bytes > self.max_bytes {
            return Err(Refusal::BodyTooLarge { max_bytes: self.max_bytes });
        }
        Ok(State::Data)
    }
}

/// Control characters other than the tab.
fn is_control(byte: u8) -> bool {
    byte < 0x20 && byte != b'\t' || byte == 0x7f
}
