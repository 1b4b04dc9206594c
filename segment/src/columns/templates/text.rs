//! The lines of a block for the encoder, which reads eight bytes before or after any position;
//! and reading numbers in that way.

use super::super::hex;
use super::Form;
use super::times::{self, DateCache, Layout};

/// Bytes before the first line, so that eight bytes before any position can be read.
pub(super) const PADDING: usize = 16;
/// Zeros after the last line, so that the bytes after any position can be read.
const SLACK: usize = 32;

/// The lines of a block. The buffer is kept for the next block.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// [`PADDING`] zeros, then the lines, then [`SLACK`] zeros. A zero byte, which is no part of a
    /// number, follows each line.
    bytes: Vec<u8>,
    /// The start of each line, and of one more line.
    starts: Vec<u32>,
    pub(super) dates: DateCache,
}

impl Text {
    /// Takes the lines that end at `ends`.
    pub(super) fn fill(&mut self, lines: &[u8], ends: &[u32]) {
        self.bytes.clear();
        self.starts.clear();
        self.bytes.reserve(PADDING + lines.len() + ends.len() + SLACK);
        self.bytes.resize(PADDING, 0);
        let mut start = 0;
        for &end in ends {
            self.starts.push(self.bytes.len() as u32);
            self.bytes.extend_from_slice(&lines[start..end as usize]);
            self.bytes.push(0);
            start = end as usize;
        }
        self.starts.push(self.bytes.len() as u32);
        self.bytes.resize(self.bytes.len() + SLACK, 0);
    }

    /// Number of lines.
    pub(super) fn lines(&self) -> usize {
        self.starts.len() - 1
    }

    /// Start and end of a line.
    pub(super) fn line(&self, line: usize) -> (usize, usize) {
        (self.starts[line] as usize, self.starts[line + 1] as usize - 1)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The eight bytes from `at` on, the first one in the lowest byte. `at` is in a line or at its
    /// end.
    #[inline]
    pub(super) fn word(&self, at: usize) -> u64 {
        word(&self.bytes, at)
    }

    /// The last eight of the `len` bytes from `at` on, or all if they are fewer; the first byte is
    /// the lowest.
    #[inline]
    pub(super) fn tail(&self, at: usize, len: usize) -> u64 {
        self.word(at + len.saturating_sub(8)) & first_bytes(len)
    }

    /// Whether two pieces of `len` bytes are equal, apart from their tails.
    #[inline]
    pub(super) fn are_equal(&self, a: usize, b: usize, len: usize) -> bool {
        let mut at = 0;
        while at + 8 < len {
            if self.word(a + at) != self.word(b + at) {
                return false;
            }
            at += 8;
        }
        true
    }

    /// Reads a number of a form: its value and its length in bytes.
    #[inline]
    pub(super) fn number(&self, at: usize, form: Form) -> Option<(u64, usize)> {
        match form {
            Form::Nothing => Some((0, 0)),
            Form::Time(layout, _) => self.time(at, layout),
            Form::FixedHex(digits) => self.fixed_hex(at, usize::from(digits)),
            Form::FixedDecimal(digits) => {
                let (value, len) = self.decimal(at)?;
                (len == usize::from(digits)).then_some((value, len))
            }
            Form::Decimal => {
                let (value, len) = self.decimal(at)?;
                (len == 1 || self.bytes[at] != b'0').then_some((value, len))
            }
        }
    }

    /// Reads a time. Not inlined, so that it takes no registers from reading numbers, which are
    /// more frequent.
    #[inline(never)]
    fn time(&self, at: usize, layout: Layout) -> Option<(u64, usize)> {
        let units = times::read(&self.bytes, at, layout, &self.dates)?;
        Some((units as u64, layout.len()))
    }

    /// Reads at most 18 decimal digits that no hexadecimal digit follows.
    #[inline]
    fn decimal(&self, at: usize) -> Option<(u64, usize)> {
        let word = self.word(at);
        let len = digits_at_start(word);
        if len == 8 {
            return self.long_decimal(at);
        }
        if len == 0 || matches!((word >> (8 * len)) as u8, b'a'..=b'f') {
            return None;
        }
        // A value alone does not tell leading zeros from missing digits.
        Some((decimal_eight((word & (0x0f * ONES)) << (64 - 8 * len)), len))
    }

    /// Reads at least eight decimal digits.
    #[cold]
    fn long_decimal(&self, at: usize) -> Option<(u64, usize)> {
        let digits = self.bytes[at..at + 19].iter().take_while(|byte| byte.is_ascii_digit());
        let len = digits.count();
        if len > 18 || matches!(self.bytes[at + len], b'a'..=b'f') {
            return None;
        }
        Some((decimal_value(&self.bytes, at + len, len), len))
    }

    /// Reads this number of hexadecimal digits. Another digit may follow only after 16 of them:
    /// longer sequences are cut there.
    #[inline]
    fn fixed_hex(&self, at: usize, len: usize) -> Option<(u64, usize)> {
        let zeros = u64::from_le_bytes([b'0'; 8]);
        let end = at + len;
        let low = upper(&self.bytes, end, len.min(8), zeros);
        let high = if len > 8 { upper(&self.bytes, end - 8, len - 8, zeros) } else { zeros };
        if !are_hex(low) || !are_hex(high) {
            return None;
        }
        if len < 16 && matches!(self.bytes[end], b'0'..=b'9' | b'a'..=b'f') {
            return None;
        }
        Some((u64::from(hex::value_of(high)) << 32 | u64::from(hex::value_of(low)), len))
    }

    /// Bytes that the buffers occupy.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.starts.capacity() * 4
    }
}

/// A mask of the first `len` of eight bytes.
#[inline]
fn first_bytes(len: usize) -> u64 {
    static KEPT: [u64; 9] = {
        let mut kept = [u64::MAX; 9];
        let mut len = 0;
        while len < 8 {
            kept[len] = (1 << (8 * len)) - 1;
            len += 1;
        }
        kept
    };
    KEPT[len.min(8)]
}

/// The number of decimal digits at the beginning of eight bytes.
#[inline]
pub(super) fn digits_at_start(word: u64) -> usize {
    let values = word ^ (0x30 * ONES);
    // A carry changes only bytes after the first byte that is no digit.
    let others = (values | values.wrapping_add(0x06 * ONES)) & (0xf0 * ONES);
    others.trailing_zeros() as usize / 8
}

/// Whether all of eight bytes are lower-case hexadecimal digits.
fn are_hex(word: u64) -> bool {
    let high = 0x80 * ONES;
    let low = word & !high;
    // The high bit of each byte says whether the byte is at least so large.
    let from = |byte: u64| low + (0x80 - byte) * ONES;
    let digits = from(0x30) & !from(0x3a) | from(0x61) & !from(0x67);
    digits & !word & high == high
}

#[inline]
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The `len` bytes before `end`, at most eight, in the upper bytes, and `filler` in the others.
#[inline]
pub(super) fn upper(text: &[u8], end: usize, len: usize, filler: u64) -> u64 {
    let kept = u64::MAX.checked_shl(8 * (8 - len as u32)).unwrap_or(0);
    word(text, end - 8) & kept | filler & !kept
}

/// The number of the `len` decimal digits before `end`, at most 18.
#[inline]
pub(super) fn decimal_value(text: &[u8], end: usize, len: usize) -> u64 {
    let eight = |end, len| decimal_eight(upper(text, end, len, 0) & (0x0f * ONES));
    if len <= 8 {
        return eight(end, len);
    }
    let above = if len <= 16 {
        eight(end - 8, len - 8)
    } else {
        eight(end - 16, len - 16) * 100_000_000 + eight(end - 8, 8)
    };
    above * 100_000_000 + eight(end, 8)
}

/// The number of the `len` hexadecimal digits before `end`, at most 16.
#[inline]
pub(super) fn hex_value(text: &[u8], end: usize, len: usize) -> u64 {
    let zeros = u64::from_le_bytes([b'0'; 8]);
    let eight = |end, len| u64::from(hex::value_of(upper(text, end, len, zeros)));
    if len <= 8 { eight(end, len) } else { eight(end - 8, len - 8) << 32 | eight(end, 8) }
}

/// The number with these eight digits.
#[inline]
pub(super) fn decimal_eight(digits: u64) -> u64 {
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours * 10_000 + (fours >> 32)) & 0xffff_ffff
}

/// A one in every byte.
pub(super) const ONES: u64 = 0x0101_0101_0101_0101;

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn digits_are_read_eight_at_a_time() {
        for seed in seeds(2000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let value = rng.next_u64() >> rng.below(64);
            let mut text = vec![b'9'; PADDING];
            text.extend_from_slice(format!("{value:016x}").as_bytes());
            let shown = format!("{value:x}").len();
            for len in shown..=16 {
                assert_eq!(hex_value(&text, text.len(), len), value);
            }
            let value = value % 1_000_000_000_000_000_000;
            text.truncate(PADDING);
            text.extend_from_slice(format!("{value:018}").as_bytes());
            let shown = value.to_string().len();
            for len in shown..=18 {
                assert_eq!(decimal_value(&text, text.len(), len), value);
            }
        }
    }

    #[test]
    fn numbers_are_read_where_their_forms_allow() {
        for seed in seeds(3000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let letters = *rng.pick(&[&b"0"[..], b"09", b"0123456789", b"19af", b"0f g\xff"]);
            let line: Vec<u8> = (0..rng.below(30)).map(|_| *rng.pick(letters)).collect();
            let mut text = Text::default();
            // The bytes of another line follow.
            text.fill(&[&line[..], b"1234"].concat(), &[line.len() as u32, line.len() as u32 + 4]);
            let (at, _) = text.line(0);
            let run = |is_digit: fn(&&u8) -> bool| line.iter().take_while(is_digit).count();
            let digits = run(|byte| byte.is_ascii_digit());
            let hex = run(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            let shown = std::str::from_utf8(&line[..hex]).unwrap();
            let decimal = (1..=18).contains(&digits) && digits == hex;
            let value = || (shown.parse().unwrap(), digits);
            let plain = decimal && (digits == 1 || line[0] != b'0');
            assert_eq!(text.number(at, Form::Decimal), plain.then(value));
            for len in 1..=18 {
                let expected = (decimal && digits == usize::from(len)).then(value);
                assert_eq!(text.number(at, Form::FixedDecimal(len)), expected);
            }
            for len in 1..=16 {
                let is_so_long = hex == usize::from(len) || hex >= 16 && len == 16;
                let value = |len| u64::from_str_radix(&shown[..len], 16).unwrap();
                let expected = is_so_long.then(|| (value(usize::from(len)), usize::from(len)));
                assert_eq!(text.number(at, Form::FixedHex(len)), expected);
            }
        }
    }
}
