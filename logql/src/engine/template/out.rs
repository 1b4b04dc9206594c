//! Output up to a limit. Memory for its bytes is admitted before they are written.

use crate::engine::meter::{Meter, Reservation};

/// The work of a piece besides its bytes, see [`crate::engine::meter`].
const PIECE_WORK: usize = 8;

/// The work that is counted at once.
const COUNTED_WORK: usize = 8 << 10;

/// Bytes that are filled between two checks.
const FILL_BYTES: usize = 64 << 10;

/// The error of a leaf that has to end. It is never shown.
pub(super) const ENDED: &str = "the leaf has ended";

/// Collects output. Refuses output beyond the limit, or beyond the available memory.
#[derive(Debug)]
pub(super) struct Out<'o> {
    bytes: &'o mut Vec<u8>,
    /// Largest length of `bytes`.
    max_len_bytes: usize,
    meter: &'o Meter,
    /// Work that was not counted yet.
    uncounted: usize,
}

impl<'o> Out<'o> {
    pub(super) fn new(bytes: &'o mut Vec<u8>, max_len_bytes: usize, meter: &'o Meter) -> Self {
        Self { bytes, max_len_bytes, meter, uncounted: 0 }
    }

    #[inline]
    fn admit(&mut self, len_bytes: usize) -> Result<(), String> {
        if self.bytes.len().saturating_add(len_bytes) > self.max_len_bytes {
            return Err(format!("the output exceeds {} bytes", self.max_len_bytes));
        }
        if self.meter.make_room(self.bytes, len_bytes) { Ok(()) } else { Err(ENDED.to_owned()) }
    }

    #[inline]
    fn work(&mut self, bytes: usize) -> Result<(), String> {
        self.uncounted += PIECE_WORK + bytes;
        if self.uncounted < COUNTED_WORK || self.meter.work(std::mem::take(&mut self.uncounted)) {
            Ok(())
        } else {
            Err(ENDED.to_owned())
        }
    }

    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.admit(bytes.len())?;
        self.work(bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn push_char(&mut self, c: char) -> Result<(), String> {
        self.push(c.encode_utf8(&mut [0; 4]).as_bytes())
    }

    pub(super) fn fill(&mut self, byte: u8, count: usize) -> Result<(), String> {
        self.repeat(&[byte], count)
    }

    /// Writes `bytes` `count` times. Refuses output that does not fit before it writes any.
    pub(super) fn repeat(&mut self, bytes: &[u8], count: usize) -> Result<(), String> {
        let len_bytes = bytes.len().saturating_mul(count);
        self.admit(len_bytes)?;
        let (start, end) = (self.bytes.len(), self.bytes.len() + len_bytes);
        let first = len_bytes.min(bytes.len());
        self.work(first)?;
        self.bytes.extend_from_slice(&bytes[..first]);
        // The text is copied behind itself, in whole repetitions, until it is long.
        while self.bytes.len() < end {
            let written = self.bytes.len() - start;
            let whole = written.min(FILL_BYTES.max(bytes.len()) / bytes.len() * bytes.len());
            let next = whole.min(end - self.bytes.len());
            self.work(next)?;
            self.bytes.extend_from_within(start..start + next);
        }
        Ok(())
    }

    /// Asks for memory beside the output, for the lifetime of the reservation.
    pub(super) fn hold(&self, bytes: usize) -> Result<Reservation<'o>, String> {
        if !self.meter.work(bytes / 4) {
            return Err(ENDED.to_owned());
        }
        self.meter.hold(bytes).ok_or_else(|| ENDED.to_owned())
    }

    /// The meter of memory and work.
    pub(super) fn meter(&self) -> &'o Meter {
        self.meter
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_bytes_are_those_that_were_given() {
        let meter = Meter::default();
        for piece in [&b""[..], b"a", b"abc", &[b'x'; 1000], &[b'y'; FILL_BYTES + 7]] {
            for count in [0, 1, 2, 3, 100, 2 * FILL_BYTES / piece.len().max(1)] {
                let mut bytes = b"before ".to_vec();
                Out::new(&mut bytes, 8 << 20, &meter).repeat(piece, count).expect("it fits");
                assert_eq!(bytes, [&b"before "[..], &piece.repeat(count)].concat());
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_not_begun() {
        let meter = Meter::default();
        let mut bytes = b"ab".to_vec();
        let mut out = Out::new(&mut bytes, 10, &meter);
        for (piece, count) in [(&b"abc"[..], 3), (b"ab", usize::MAX), (b"a", 9)] {
            let refused = out.repeat(piece, count);
            assert_eq!(refused, Err("the output exceeds 10 bytes".to_owned()));
        }
        assert_eq!((bytes.as_slice(), bytes.capacity() < 10), (&b"ab"[..], true));
    }
}
