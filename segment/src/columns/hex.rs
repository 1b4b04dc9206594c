//! Lower-case hexadecimal digits, eight at a time.
//!
//! Guarantees: for digits, each function is the inverse of the other. Other bytes give an
//! arbitrary number.

/// A one in every byte.
const ONES: u64 = 0x0101_0101_0101_0101;

/// The number of eight digits; the first digit is in the lowest byte.
#[inline]
pub(super) fn value_of(digits: u64) -> u32 {
    // Letters have bit 6.
    let nibbles = (digits & (0x0f * ONES)) + 9 * (digits >> 6 & ONES);
    let pairs = (nibbles << 4 | nibbles >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs << 8 | pairs >> 16) & 0x0000_ffff_0000_ffff;
    (fours << 16 | fours >> 32) as u32
}

/// The eight digits of a number.
#[inline]
pub(super) fn digits_of(value: u32) -> [u8; 8] {
    let halves = (u64::from(value) & 0xffff) | ((u64::from(value) & 0xffff_0000) << 16);
    let bytes = (halves | halves << 8) & 0x00ff_00ff_00ff_00ff;
    let nibbles = (bytes | bytes << 4) & (0x0f * ONES);
    let letters = ((nibbles + 0x06 * ONES) >> 4) & ONES;
    (nibbles + 0x30 * ONES + letters * 0x27).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn eight_digits_are_a_number_and_back() {
        for seed in seeds(2000) {
            let _guard = SeedGuard(seed);
            let value = Rng::new(seed).next_u64() as u32;
            let digits = digits_of(value);
            assert_eq!(digits, format!("{value:08x}").as_bytes());
            assert_eq!(value_of(u64::from_le_bytes(digits)), value);
        }
    }
}
