//! Strings of bits, least significant bit of a byte first.

/// Reads bits, least significant first. Zeros follow the last bit.
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// In bits.
    at: usize,
}

impl<'a> BitReader<'a> {
    /// Reads from a bit on.
    pub(super) fn new(bytes: &'a [u8], at: usize) -> BitReader<'a> {
        BitReader { bytes, at }
    }

    /// The next `count` bits, at most 64.
    pub(super) fn read(&mut self, count: usize) -> u64 {
        let (byte, shift) = (self.at / 8, self.at % 8);
        self.at += count;
        let mut value = match self.bytes.get(byte..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(&eight) => u64::from_le_bytes(eight),
            None => self.last_bytes(byte),
        } >> shift;
        if shift + count > 64 {
            let next = self.bytes.get(byte + 8).copied().unwrap_or(0);
            value |= u64::from(next) << (64 - shift);
        }
        if count == 64 { value } else { value & ((1 << count) - 1) }
    }

    fn last_bytes(&self, byte: usize) -> u64 {
        let rest = self.bytes.get(byte..).unwrap_or(&[]);
        rest.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
    }
}

/// Writes bits, least significant first.
pub(super) struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    /// Below 64.
    pending_bits: usize,
}

impl<'a> BitWriter<'a> {
    /// Appends to `out`.
    pub(super) fn new(out: &'a mut Vec<u8>) -> BitWriter<'a> {
        BitWriter { out, pending: 0, pending_bits: 0 }
    }

    /// Writes `bits` bits, at most 64, of a number whose other bits are zero.
    pub(super) fn push(&mut self, value: u64, bits: usize) {
        self.pending |= value << self.pending_bits;
        self.pending_bits += bits;
        if self.pending_bits >= 64 {
            self.out.extend(self.pending.to_le_bytes());
            self.pending_bits -= 64;
            self.pending =
                if self.pending_bits == 0 { 0 } else { value >> (bits - self.pending_bits) };
        }
    }

    /// Fills the last byte with zeros.
    pub(super) fn finish(self) {
        self.out.extend(&self.pending.to_le_bytes()[..self.pending_bits.div_ceil(8)]);
    }
}
