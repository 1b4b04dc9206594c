//! A request body of any length, as pieces of what has come.
//!
//! Guarantees: the same bytes as [`crate::BodyReader`] gives, wherever the input is cut, and the
//! same refusals, except that there is no longest body. Nothing is kept between two calls but the
//! place in the framing. Failure: malformed framing; then every later call fails, too.

use crate::chunked::{ChunkedDecoder, Decoded};
use crate::framing::Framing;
use crate::input::InputBuffer;
use crate::refusal::Refusal;

#[derive(Debug)]
enum Progress {
    /// So many bytes are still to come.
    Length(u64),
    Chunked(ChunkedDecoder),
}

/// Decodes one body.
#[derive(Debug)]
pub struct BodyPieces {
    progress: Progress,
    received_bytes: u64,
    refused: Option<Refusal>,
}

impl BodyPieces {
    /// Begins a body.
    pub fn new(framing: Framing) -> BodyPieces {
        let progress = match framing {
            Framing::None => Progress::Length(0),
            Framing::Length(len_bytes) => Progress::Length(len_bytes),
            Framing::Chunked => Progress::Chunked(ChunkedDecoder::new(u64::MAX)),
        };
        BodyPieces { progress, received_bytes: 0, refused: None }
    }

    /// Whether the body is complete.
    pub fn is_done(&self) -> bool {
        match &self.progress {
            Progress::Length(left_bytes) => *left_bytes == 0,
            Progress::Chunked(decoder) => decoder.is_done(),
        }
    }

    /// Bytes of the body that were decoded.
    pub fn received_bytes(&self) -> u64 {
        self.received_bytes
    }

    /// Moves the bytes of the body that are in `input` to the end of `piece`. Bytes behind the
    /// body stay.
    ///
    /// # Errors
    /// The framing is malformed. What `piece` has got is good.
    pub fn decode(&mut self, input: &mut InputBuffer, piece: &mut Vec<u8>) -> Result<(), Refusal> {
        if let Some(refusal) = self.refused {
            return Err(refusal);
        }
        while !input.unread().is_empty() && !self.is_done() {
            let unread = input.unread();
            let (consumed, data) = match &mut self.progress {
                Progress::Length(left_bytes) => {
                    let most_bytes = usize::try_from(*left_bytes).unwrap_or(usize::MAX);
                    let data = &unread[..unread.len().min(most_bytes)];
                    *left_bytes -= data.len() as u64;
                    (data.len(), data)
                }
                Progress::Chunked(decoder) => match decoder.decode(unread) {
                    Ok((consumed, Decoded::Data(data))) => (consumed, data),
                    Ok((consumed, Decoded::NeedMore | Decoded::Done)) => (consumed, &[][..]),
                    Err(refusal) => {
                        self.refused = Some(refusal);
                        return Err(refusal);
                    }
                },
            };
            piece.extend_from_slice(data);
            self.received_bytes += data.len() as u64;
            input.consume(consumed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_where_the_body_ends() {
        for (framing, sent) in [
            (Framing::Length(5), "helloGET"),
            (Framing::Chunked, "2\r\nhe\r\n3;x\r\nllo\r\n0\r\nT: 1\r\n\r\nGET"),
        ] {
            let mut body = BodyPieces::new(framing);
            let mut input = InputBuffer::new();
            let mut piece = Vec::new();
            for byte in sent.bytes() {
                input.extend(&[byte]);
                body.decode(&mut input, &mut piece).unwrap();
            }
            assert!(body.is_done());
            assert_eq!((piece.as_slice(), input.unread()), (&b"hello"[..], &b"GET"[..]));
            assert_eq!(body.received_bytes(), 5);
        }
        assert!(BodyPieces::new(Framing::None).is_done());
    }

    #[test]
    fn what_came_before_malformed_framing_counts() {
        let mut body = BodyPieces::new(Framing::Chunked);
        let mut input = InputBuffer::new();
        input.extend(b"2\r\nhe\r\nz\r\n");
        let mut piece = Vec::new();
        let refusal = body.decode(&mut input, &mut piece).unwrap_err();
        assert_eq!((piece.as_slice(), refusal.status().as_u16()), (&b"he"[..], 400));
        assert_eq!(body.decode(&mut input, &mut piece), Err(refusal));
    }
}
