//! Frames (RFC 6455, section 5.2).

use super::{CloseReason, code};

/// The kind of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opcode {
    /// A later fragment of a message.
    Continuation,
    /// A text message or its first fragment.
    Text,
    /// A binary message or its first fragment.
    Binary,
    /// Start of the closing handshake, or the answer to it.
    Close,
    /// Asks for a pong.
    Ping,
    /// Answers a ping, or comes unasked.
    Pong,
}

impl Opcode {
    fn from_bits(bits: u8) -> Option<Opcode> {
        match bits {
            0x0 => Some(Opcode::Continuation),
            0x1 => Some(Opcode::Text),
            0x2 => Some(Opcode::Binary),
            0x8 => Some(Opcode::Close),
            0x9 => Some(Opcode::Ping),
            0xA => Some(Opcode::Pong),
            _ => None,
        }
    }

    fn bits(self) -> u8 {
        match self {
            Opcode::Continuation => 0x0,
            Opcode::Text => 0x1,
            Opcode::Binary => 0x2,
            Opcode::Close => 0x8,
            Opcode::Ping => 0x9,
            Opcode::Pong => 0xA,
        }
    }

    /// Whether it is a control frame: short, and never fragmented.
    pub fn is_control(self) -> bool {
        self.bits() >= 0x8
    }
}

/// Longest payload of a control frame.
pub(crate) const MAX_CONTROL_BYTES: usize = 125;

/// The start of a frame from a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Whether it ends its message.
    pub fin: bool,
    /// Its kind.
    pub opcode: Opcode,
    /// The masking key.
    pub mask: [u8; 4],
    /// Length of the payload that follows.
    pub len_bytes: u64,
}

/// Parses the header of a client's frame and gives it with its own length, or
/// `None` if more bytes are needed. Reserved bits, unknown opcodes, frames
/// without a mask, lengths that are not in their shortest form, and control
/// frames that are long or fragmented break the protocol.
pub fn parse_header(input: &[u8]) -> Result<Option<(FrameHeader, usize)>, CloseReason> {
    let broken = |reason: &str| Err(CloseReason::new(code::PROTOCOL_ERROR, reason));
    let Some(&first) = input.first() else { return Ok(None) };
    let fin = first & 0x80 != 0;
    if first & 0x70 != 0 {
        return broken("reserved bits are set");
    }
    let Some(opcode) = Opcode::from_bits(first & 0x0f) else {
        return broken("unknown opcode");
    };
    if opcode.is_control() && !fin {
        return broken("fragmented control frame");
    }
    let Some(&second) = input.get(1) else { return Ok(None) };
    if second & 0x80 == 0 {
        return broken("frame without a mask");
    }
    let short_len = second & 0x7f;
    if opcode.is_control() && usize::from(short_len) > MAX_CONTROL_BYTES {
        return broken("long control frame");
    }
    let (len_bytes, mask_start) = match short_len {
        126 => {
            let Some(field) = input.get(2..4) else { return Ok(None) };
            let len_bytes = field.iter().fold(0, |len, byte| len << 8 | u64::from(*byte));
            if len_bytes < 126 {
                return broken("length is not in its shortest form");
            }
            (len_bytes, 4)
        }
        127 => {
            let Some(field) = input.get(2..10) else { return Ok(None) };
            let len_bytes = field.iter().fold(0, |len, byte| len << 8 | u64::from(*byte));
            if len_bytes <= u64::from(u16::MAX) {
                return broken("length is not in its shortest form");
            }
            if len_bytes >> 63 != 0 {
                return broken("length has its highest bit set");
            }
            (len_bytes, 10)
        }
        _ => (u64::from(short_len), 2),
    };
    let Some(&mask) = input.get(mask_start..).and_then(<[u8]>::first_chunk) else {
        return Ok(None);
    };
    Ok(Some((FrameHeader { fin, opcode, mask, len_bytes }, mask_start + 4)))
}

/// Removes (or applies) the mask. `offset` is the place of `payload` within the
/// frame's payload.
pub fn unmask(payload: &mut [u8], mask: [u8; 4], offset: u64) {
    let mut mask = mask;
    mask.rotate_left((offset % 4) as usize);
    let wide_mask = u32::from_ne_bytes(mask);
    let (words, rest) = payload.as_chunks_mut::<4>();
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ wide_mask).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(mask) {
        *byte ^= key;
    }
}

/// Appends a server's frame, which has no mask.
pub fn encode_frame(out: &mut Vec<u8>, opcode: Opcode, fin: bool, payload: &[u8]) {
    encode_frame_of(out, opcode, fin, &[payload]);
}

/// [`encode_frame`] with the payload in pieces.
pub(crate) fn encode_frame_of(out: &mut Vec<u8>, opcode: Opcode, fin: bool, pieces: &[&[u8]]) {
    out.push(u8::from(fin) << 7 | opcode.bits());
    match pieces.iter().map(|piece| piece.len()).sum() {
        len @ 0..126 => out.push(len as u8),
        len @ 126..=0xffff => {
            out.push(126);
            out.extend_from_slice(&(len as u16).to_be_bytes());
        }
        len => {
            out.push(127);
            out.extend_from_slice(&(len as u64).to_be_bytes());
        }
    }
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 6455, section 5.7, that a server sends.
    #[test]
    fn encoded_frames_match_the_standard() {
        let mut out = Vec::new();
        encode_frame(&mut out, Opcode::Text, true, b"Hello");
        assert_eq!(out, b"\x81\x05Hello");
        out.clear();
        encode_frame(&mut out, Opcode::Text, false, b"Hel");
        encode_frame(&mut out, Opcode::Continuation, true, b"lo");
        assert_eq!(out, b"\x01\x03Hel\x80\x02lo");
        out.clear();
        encode_frame(&mut out, Opcode::Ping, true, b"Hello");
        assert_eq!(out, b"\x89\x05Hello");
        for (len_bytes, header) in [
            (125, &[0x82, 125][..]),
            (126, &[0x82, 126, 0, 126]),
            (256, &[0x82, 126, 1, 0]),
            (65_535, &[0x82, 126, 255, 255]),
            (65_536, &[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            out.clear();
            encode_frame(&mut out, Opcode::Binary, true, &vec![7; len_bytes]);
            assert_eq!(&out[..header.len()], header);
            assert_eq!(out.len(), header.len() + len_bytes);
        }
    }

    #[test]
    fn unmasking_in_pieces_equals_unmasking_at_once() {
        let mask = [1, 2, 3, 250];
        let plain: Vec<u8> = (0..40).collect();
        let mut whole = plain.clone();
        unmask(&mut whole, mask, 0);
        assert_eq!(whole[5], plain[5] ^ 2);
        for cut in 0..=plain.len() {
            let mut pieces = whole.clone();
            let (first, second) = pieces.split_at_mut(cut);
            unmask(first, mask, 0);
            unmask(second, mask, cut as u64);
            assert_eq!(pieces, plain);
        }
    }
}
