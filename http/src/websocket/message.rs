//! Messages out of frames (RFC 6455, sections 5.4 to 5.6 and 7).

use super::frame::{FrameHeader, MAX_CONTROL_BYTES, Opcode, parse_header, unmask};
use super::{CloseReason, Message, code};

/// A message or a control frame of a client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// A complete message.
    Message(Message),
    /// A ping, to be answered by a pong with the same payload.
    Ping(Vec<u8>),
    /// A pong.
    Pong(Vec<u8>),
    /// The client closes. Nothing that follows counts.
    Close(CloseReason),
}

struct Frame {
    header: FrameHeader,
    received_bytes: u64,
}

/// Puts a client's messages together from bytes in pieces of any size. Holds at
/// most one message and one control frame.
pub struct MessageDecoder {
    max_message_bytes: usize,
    /// Bytes of a frame header that is not complete; 14 at most.
    header: Vec<u8>,
    frame: Option<Frame>,
    /// Opcode and payload so far of a message under way.
    message: Option<(Opcode, Vec<u8>)>,
    control: Vec<u8>,
    closed: bool,
}

impl MessageDecoder {
    /// A decoder that refuses messages over `max_message_bytes`.
    pub fn new(max_message_bytes: usize) -> MessageDecoder {
        MessageDecoder {
            max_message_bytes,
            header: Vec::new(),
            frame: None,
            message: None,
            control: Vec::new(),
            closed: false,
        }
    }

    /// Consumes input up to the next event and gives the number of bytes. With no
    /// event all input was consumed. An error says how the connection must be
    /// closed; the decoder must not be used after it.
    pub fn decode(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), CloseReason> {
        let mut at = 0;
        loop {
            if self.closed {
                return Ok((input.len(), None));
            }
            let Some(frame) = &mut self.frame else {
                if at == input.len() {
                    return Ok((at, None));
                }
                self.header.push(input[at]);
                at += 1;
                if let Some((header, _)) = parse_header(&self.header)? {
                    self.header.clear();
                    self.begin_frame(header)?;
                }
                continue;
            };
            let left_bytes = frame.header.len_bytes - frame.received_bytes;
            let take_bytes = usize::try_from(left_bytes).unwrap_or(usize::MAX);
            let piece = &input[at..at.saturating_add(take_bytes).min(input.len())];
            let payload = match &mut self.message {
                _ if frame.header.opcode.is_control() => &mut self.control,
                Some((_, payload)) => payload,
                None => unreachable!("a data frame begins or continues a message"),
            };
            let start = payload.len();
            payload.extend_from_slice(piece);
            unmask(&mut payload[start..], frame.header.mask, frame.received_bytes);
            frame.received_bytes += piece.len() as u64;
            at += piece.len();
            if frame.received_bytes < frame.header.len_bytes {
                return Ok((at, None));
            }
            let header = frame.header;
            self.frame = None;
            if let Some(event) = self.end_frame(header)? {
                return Ok((at, Some(event)));
            }
        }
    }

    fn begin_frame(&mut self, header: FrameHeader) -> Result<(), CloseReason> {
        let broken = |reason: &str| Err(CloseReason::new(code::PROTOCOL_ERROR, reason));
        if !header.opcode.is_control() {
            let had_bytes = match (header.opcode, &self.message) {
                (Opcode::Continuation, Some((_, payload))) => payload.len() as u64,
                (Opcode::Continuation, None) => return broken("nothing to continue"),
                (_, Some(_)) => return broken("message within a message"),
                (_, None) => 0,
            };
            if had_bytes.saturating_add(header.len_bytes) > self.max_message_bytes as u64 {
                let reason = format!("message over {} bytes", self.max_message_bytes);
                return Err(CloseReason::new(code::TOO_BIG, reason));
            }
            if header.opcode != Opcode::Continuation {
                self.message = Some((header.opcode, Vec::new()));
            }
        }
        self.frame = Some(Frame { header, received_bytes: 0 });
        Ok(())
    }

    fn end_frame(&mut self, header: FrameHeader) -> Result<Option<Event>, CloseReason> {
        match header.opcode {
            Opcode::Ping => Ok(Some(Event::Ping(std::mem::take(&mut self.control)))),
            Opcode::Pong => Ok(Some(Event::Pong(std::mem::take(&mut self.control)))),
            Opcode::Close => {
                self.closed = true;
                let reason = parse_close(&self.control)?;
                Ok(Some(Event::Close(reason)))
            }
            _ if !header.fin => Ok(None),
            _ => match self.message.take() {
                Some((Opcode::Text, payload)) => match String::from_utf8(payload) {
                    Ok(text) => Ok(Some(Event::Message(Message::Text(text)))),
                    Err(_) => Err(CloseReason::new(code::INVALID_DATA, "text is not UTF-8")),
                },
                Some((_, payload)) => Ok(Some(Event::Message(Message::Binary(payload)))),
                None => unreachable!("a data frame belongs to a message"),
            },
        }
    }
}

/// Reads the payload of a close frame (RFC 6455, section 5.5.1).
fn parse_close(payload: &[u8]) -> Result<CloseReason, CloseReason> {
    if payload.is_empty() {
        return Ok(CloseReason::new(code::NO_STATUS, ""));
    }
    let Some((code_bytes, reason)) = payload.split_first_chunk() else {
        return Err(CloseReason::new(code::PROTOCOL_ERROR, "close frame with half a code"));
    };
    let close_code = u16::from_be_bytes(*code_bytes);
    if !matches!(close_code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return Err(CloseReason::new(code::PROTOCOL_ERROR, "close code that must not be sent"));
    }
    match std::str::from_utf8(reason) {
        Ok(reason) => Ok(CloseReason::new(close_code, reason)),
        Err(_) => Err(CloseReason::new(code::INVALID_DATA, "close reason is not UTF-8")),
    }
}

/// The payload of a close frame. Codes that must not be sent give an empty one;
/// a long reason is cut at a character.
pub(crate) fn close_payload(reason: &CloseReason) -> Vec<u8> {
    if matches!(reason.code, code::NO_STATUS | code::ABNORMAL) {
        return Vec::new();
    }
    let text = &reason.reason[..reason.reason.floor_char_boundary(MAX_CONTROL_BYTES - 2)];
    let mut payload = Vec::with_capacity(2 + text.len());
    payload.extend_from_slice(&reason.code.to_be_bytes());
    payload.extend_from_slice(text.as_bytes());
    payload
}
