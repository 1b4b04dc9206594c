//! Finds triples by table lookups in vectors of 32 bytes, for CPUs that have AVX2.
//!
//! Guarantees: the same places as [`super::chunk_hits`]. A table tells, for one half of one
//! byte, which triples have it at one place, and a triple begins where its bit is in all six
//! lookups. A byte above 127 is in no letter; the lookup of its low half gives nothing.

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8,
    _mm256_loadu_si256, _mm256_movemask_epi8, _mm256_set1_epi8, _mm256_setzero_si256,
    _mm256_shuffle_epi8, _mm256_srli_epi16,
};

use super::{CHUNK_READ_LEN, Triples, visit_chunks};

/// Whether the CPU can.
#[inline]
pub(super) fn is_supported() -> bool {
    is_x86_feature_detected!("avx2")
}

/// See [`super::visit_triples`].
///
/// # Panics
/// If the CPU cannot.
#[inline]
pub(super) fn visit<const N: usize>(
    line: &[u8],
    triples: &Triples<N>,
    visit: impl FnMut(usize) -> bool,
) {
    assert!(is_supported(), "the caller has asked");
    // SAFETY: the CPU has AVX2.
    unsafe { visit_supported(line, triples, visit) }
}

#[target_feature(enable = "avx2")]
fn visit_supported<const N: usize>(
    line: &[u8],
    triples: &Triples<N>,
    visit: impl FnMut(usize) -> bool,
) {
    let low = triples.low.each_ref().map(|table| load_table(table));
    let high = triples.high.each_ref().map(|table| load_table(table));
    visit_chunks(line, |chunk| hits(chunk, &low, &high), visit);
}

/// A table in both halves of a vector, since lookups do not cross them.
#[inline]
#[target_feature(enable = "avx2")]
fn load_table(table: &[u8; 16]) -> __m256i {
    // SAFETY: 16 bytes are read of an array of 16.
    let half = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
    _mm256_broadcastsi128_si256(half)
}

/// The places of a chunk at which a triple begins.
#[inline]
#[target_feature(enable = "avx2")]
fn hits(chunk: &[u8; CHUNK_READ_LEN], low: &[__m256i; 3], high: &[__m256i; 3]) -> u32 {
    let half = _mm256_set1_epi8(15);
    let mut all = _mm256_set1_epi8(-1);
    for place in 0..3 {
        // SAFETY: 32 bytes are read from byte 0, 1 or 2 of an array of 34.
        let bytes = unsafe { _mm256_loadu_si256(chunk.as_ptr().add(place).cast()) };
        // A lookup goes by the low half and gives 0 if the highest bit is set.
        let by_low = _mm256_shuffle_epi8(low[place], bytes);
        let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), half);
        let by_high = _mm256_shuffle_epi8(high[place], upper);
        all = _mm256_and_si256(all, _mm256_and_si256(by_low, by_high));
    }
    let none = _mm256_cmpeq_epi8(all, _mm256_setzero_si256());
    !(_mm256_movemask_epi8(none) as u32)
}

const _: () = assert!(CHUNK_READ_LEN == 34, "three vectors, each a byte further");
