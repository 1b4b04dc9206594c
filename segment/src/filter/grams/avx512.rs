//! Grams by vectors of 64 bytes, for CPUs that have AVX-512 with byte permutations and 52-bit
//! multiplications (Ice Lake, Zen 4 and later).
//!
//! Guarantees: sets the bit of every gram and no other bit, as [`super::portable`]. Reads no
//! byte outside of the lines.
//!
//! A step takes 64 bytes and computes the bits of the 56 grams that begin in them: eight grams
//! by one permutation, one multiplication and one shift. Setting bits one by one is most of the
//! work. So grams are dropped first that one of two earlier lines has at the same position,
//! counted from the beginning or from the end of the line: their bits are set.

use std::arch::x86_64::{
    __m512i, _mm512_and_si512, _mm512_cmpeq_epi8_mask, _mm512_cmplt_epu8_mask,
    _mm512_i32gather_epi32, _mm512_loadu_epi8, _mm512_loadu_epi32, _mm512_madd52lo_epu64,
    _mm512_mask_add_epi8, _mm512_mask_blend_epi32, _mm512_mask_or_epi32,
    _mm512_mask_testn_epi32_mask, _mm512_maskz_compress_epi32, _mm512_maskz_loadu_epi8,
    _mm512_maskz_permutexvar_epi8, _mm512_movepi8_mask, _mm512_set1_epi8, _mm512_set1_epi32,
    _mm512_set1_epi64, _mm512_setzero_si512, _mm512_sllv_epi32, _mm512_srli_epi32,
    _mm512_srli_epi64, _mm512_storeu_epi32, _mm512_sub_epi8,
};

use super::super::keys::{GRAM_LEN, GRAM_MULTIPLIER};
use super::{Bits, MIXED_BIT};

/// Grams of a step.
const STEP: usize = 60;

/// Room for the numbers of bits that are to be set.
const WAITING: usize = 1024;

/// After three of four bits were not set yet, so many batches are set without a test.
const UNSEEN: u32 = 7;

/// The last line of each length below this is remembered.
const LENGTHS: usize = 512;

/// Adds grams by vectors of 64 bytes.
#[derive(Debug)]
pub(super) struct Vectors {
    waiting: Box<[u32; WAITING]>,
    /// Number of further batches that are set without a test.
    unseen: u32,
}

/// The range of a line within the lines.
#[derive(Clone, Copy)]
struct Place {
    start: usize,
    end: usize,
}

impl Vectors {
    /// `None` if the CPU lacks a feature.
    pub(super) fn new() -> Option<Vectors> {
        let has_all = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512ifma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt");
        has_all.then(|| Vectors { waiting: Box::new([0; WAITING]), unseen: 0 })
    }

    /// Sets the bits of the grams of all lines. The ends must be checked.
    pub(super) fn add_lines(&mut self, bits: &mut Bits, lines: &[u8], line_ends: &[u32]) {
        // SAFETY: a value exists only if the CPU has all these features.
        unsafe { add_lines(self, bits, lines, line_ends) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512ifma,bmi1,bmi2,popcnt")]
fn add_lines(vectors: &mut Vectors, bits: &mut Bits, lines: &[u8], line_ends: &[u32]) {
    let mut count = 0;
    let mut before = Place { start: 0, end: 0 };
    // The start of the last line of each length.
    let mut starts = [NONE; LENGTHS];
    let mut start = 0;
    for &end in line_ends {
        let line = Place { start, end: end as usize };
        let len = line.end - line.start;
        start = line.end;
        if len < GRAM_LEN {
            continue;
        }
        // The last line, aligned at the beginning and at the end, and the last one of the same
        // length.
        let mut others =
            [(before, before.start as isize), (before, before.end as isize), (before, 0)];
        others[1].1 -= len as isize;
        others[2] = others[0];
        if let Some(same_len) = starts.get_mut(len) {
            if *same_len != NONE {
                let start = *same_len as usize;
                others[2] = (Place { start, end: start + len }, start as isize);
            }
            *same_len = line.start as u32;
        }
        for at in (0..len - (GRAM_LEN - 1)).step_by(STEP) {
            let bytes = load(lines, (line.start + at) as isize, line);
            let equal = |(other, start)| equal_grams(lines, bytes, start + at as isize, other);
            let known = equal(others[0]) | equal(others[1]) | equal(others[2]);
            let grams = (len - at - (GRAM_LEN - 1)).min(STEP);
            let fresh = !known & (u64::MAX >> (64 - grams));
            if fresh != 0 {
                if count + 64 > WAITING {
                    set_all(vectors, bits, &mut count);
                }
                count += find(bytes, fresh, &mut vectors.waiting[count..]);
            }
        }
        before = line;
    }
    set_all(vectors, bits, &mut count);
}

/// The start of a line that does not exist.
const NONE: u32 = u32::MAX;

/// The 64 bytes from `at` on, with zeros for bytes outside of the line. `at` may be anywhere
/// before, in or after the line.
#[target_feature(enable = "avx512f,avx512bw")]
fn load(lines: &[u8], at: isize, line: Place) -> __m512i {
    debug_assert!(line.start <= line.end && line.end <= lines.len());
    let mask = lanes(at, line);
    // SAFETY: a masked load reads only bytes whose bit is set. These are bytes of the line,
    // which lies within `lines`.
    unsafe { _mm512_maskz_loadu_epi8(mask, lines.as_ptr().wrapping_offset(at).cast()) }
}

/// Bits of those of the 64 bytes from `at` on that are in the line.
fn lanes(at: isize, line: Place) -> u64 {
    let first = (line.start as isize - at).clamp(0, 64) as u32;
    let end = (line.end as isize - at).clamp(0, 64) as u32;
    let below = |lane: u32| u64::MAX.checked_shr(64 - lane).unwrap_or(0);
    below(end) & !below(first)
}

/// Bits of the grams that equal those of another line from `at` on.
#[target_feature(enable = "avx512f,avx512bw")]
fn equal_grams(lines: &[u8], bytes: __m512i, at: isize, other: Place) -> u64 {
    let equal = _mm512_cmpeq_epi8_mask(bytes, load(lines, at, other)) & lanes(at, other);
    let of_two = equal & equal >> 1;
    let of_four = of_two & of_two >> 2;
    of_four & equal >> 4
}

/// Writes the numbers of the bits of the selected grams; returns how many. A number is the
/// slice, followed by the bit in the slice.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512ifma,bmi1,bmi2,popcnt")]
fn find(bytes: __m512i, fresh: u64, waiting: &mut [u32]) -> usize {
    assert!(waiting.len() >= 64);
    let byte = |byte: u8| _mm512_set1_epi8(byte as i8);
    let is_from = |bytes: __m512i, first: u8, count: u8| {
        _mm512_cmplt_epu8_mask(_mm512_sub_epi8(bytes, byte(first)), byte(count))
    };
    let upper = is_from(bytes, b'A', 26);
    let lower = _mm512_mask_add_epi8(bytes, upper, bytes, byte(b'a' - b'A'));
    let words = is_from(lower, b'a', 26)
        | is_from(lower, b'0', 10)
        | _mm512_cmpeq_epi8_mask(lower, byte(b'-'))
        | _mm512_cmpeq_epi8_mask(lower, byte(b'_'))
        | _mm512_movepi8_mask(lower);
    let of_two = words & words >> 1;
    let mixed_bit = _mm512_set1_epi32(MIXED_BIT as i32);
    let mixed = !(of_two & of_two >> 2 & words >> 4);

    // Bits 0 to 39 of a gram's product with the lower 40 bits of the multiplier are bits 24
    // to 63 of its key; here they are bits 12 to 51, the highest that are computed.
    let multiplier = _mm512_set1_epi64(((GRAM_MULTIPLIER & ((1 << 40) - 1)) << 12) as i64);
    let product = |windows: &[u8; 64]| {
        // SAFETY: the array has 64 bytes.
        let windows = unsafe { _mm512_loadu_epi8(windows.as_ptr().cast()) };
        let grams = _mm512_maskz_permutexvar_epi8(GRAM_BYTES, windows, lower);
        _mm512_madd52lo_epu64(_mm512_setzero_si512(), grams, multiplier)
    };
    let mut count = 0;
    for (sixteen, [even, odd]) in WINDOWS.iter().enumerate() {
        // The numbers are bits 34 to 51 of the products.
        let even = _mm512_srli_epi64::<34>(product(even));
        let odd = _mm512_srli_epi64::<2>(product(odd));
        let number = _mm512_mask_blend_epi32(0xaaaa, even, odd);
        let is_mixed = (mixed >> (16 * sixteen)) as u16;
        let number = _mm512_mask_or_epi32(number, is_mixed, number, mixed_bit);
        let chosen = (fresh >> (16 * sixteen)) as u16;
        let squeezed = _mm512_maskz_compress_epi32(chosen, number);
        // SAFETY: each of the four vectors adds at most sixteen numbers, and there is room for
        // 64. So there is room for the sixteen numbers that the store writes.
        unsafe { _mm512_storeu_epi32(waiting.as_mut_ptr().add(count).cast(), squeezed) };
        count += chosen.count_ones() as usize;
    }
    count
}

/// The bytes of a gram among eight bytes.
const GRAM_BYTES: u64 = 0x1f1f_1f1f_1f1f_1f1f;

/// Indexes of the bytes of the grams that begin at eight even positions, and at the eight odd
/// positions next to them; eight bytes for each gram, of which the last three are unused. After
/// the last gram of a step, positions start again at 0.
const WINDOWS: [[[u8; 64]; 2]; 4] = {
    let mut windows = [[[0; 64]; 2]; 4];
    let mut at = 0;
    while at < 512 {
        let (sixteen, odd, gram, byte) = (at / 128, at / 64 % 2, at / 8 % 8, at % 8);
        windows[sixteen][odd][at % 64] = ((sixteen * 16 + gram * 2 + odd + byte) % 64) as u8;
        at += 1;
    }
    windows
};

/// Sets the bits with the gathered numbers.
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn set_all(vectors: &mut Vectors, bits: &mut Bits, count: &mut usize) {
    let Vectors { waiting, unseen } = vectors;
    let total = std::mem::take(count);
    let mut missing = total;
    if let Some(left) = unseen.checked_sub(1) {
        *unseen = left;
    } else {
        missing = squeeze_missing(waiting, bits, total);
        *unseen = if missing > total / 4 * 3 { UNSEEN } else { 0 };
    }
    for &number in &waiting[..missing] {
        bits[(number >> 6) as usize % bits.len()] |= 1 << (number & 63);
    }
}

/// Moves the numbers whose bits are not set to the front; returns how many. Mostly they are few,
/// and testing sixteen at a time costs less than setting bits again one by one.
#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,popcnt")]
fn squeeze_missing(waiting: &mut [u32; WAITING], bits: &Bits, total: usize) -> usize {
    const { assert!(size_of::<Bits>() == 4 << 14 && cfg!(target_endian = "little")) };
    let mut missing = 0;
    for at in (0..total).step_by(16) {
        let valid = u16::MAX >> (16 - (total - at).min(16));
        // SAFETY: the slice has sixteen numbers.
        let number = unsafe { _mm512_loadu_epi32(waiting[at..at + 16].as_ptr().cast()) };
        // Indexes of words of 32 bits.
        let word = _mm512_and_si512(_mm512_srli_epi32::<5>(number), _mm512_set1_epi32(0x3fff));
        // SAFETY: the bitmap has 2^14 words of 32 bits, and indexes are masked to 14 bits.
        let words = unsafe { _mm512_i32gather_epi32::<4>(word, bits.as_ptr().cast()) };
        let bit = _mm512_and_si512(number, _mm512_set1_epi32(31));
        let bit = _mm512_sllv_epi32(_mm512_set1_epi32(1), bit);
        let is_missing = _mm512_mask_testn_epi32_mask(valid, words, bit);
        let squeezed = _mm512_maskz_compress_epi32(is_missing, number);
        // SAFETY: at most as many numbers are kept as were read, so the store ends no later
        // than the sixteen numbers that were read.
        unsafe { _mm512_storeu_epi32(waiting.as_mut_ptr().add(missing).cast(), squeezed) };
        missing += is_missing.count_ones() as usize;
    }
    missing
}
