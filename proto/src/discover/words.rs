//! Finds words in a line, letter case aside.
//!
//! Everything that is looked for begins with one of a few triples of letters. Chunks
//! of a line are compared with all triples at once: by table lookups in vectors
//! ([`avx2`]) where the CPU can, otherwise in a loop that the compiler turns into vector
//! instructions. Only places with a hit are read byte by byte.

#[cfg(target_arch = "x86_64")]
mod avx2;
mod triples;

use crate::discover::Level;
pub(super) use triples::Triples;

/// Bytes at which a triple may begin in one chunk.
const CHUNK_LEN: usize = 32;
/// Bytes that a chunk reads: the last triple reaches two bytes further.
const CHUNK_READ_LEN: usize = CHUNK_LEN + 2;

/// Beginnings of the level words.
static TRIPLES: Triples<7> =
    Triples::new([*b"tra", *b"deb", *b"fat", *b"cri", *b"err", *b"war", *b"inf"]);

/// The level of the first level word of a line. A word counts if it stands apart from
/// its neighbours by white space, brackets, quotes and the like.
pub(super) fn first_level(line: &[u8]) -> Option<Level> {
    let mut found = None;
    visit_triples(line, &TRIPLES, |at| {
        found = level_word(line, at);
        found.is_some()
    });
    found
}

/// Whether a line contains one of the triples, letter case aside.
pub(super) fn holds_any<const N: usize>(line: &[u8], triples: &Triples<N>) -> bool {
    let mut found = false;
    visit_triples(line, triples, |_| {
        found = true;
        true
    });
    found
}

/// Calls `visit` with every place at which a triple begins, in order, until it says
/// that it has enough. Bytes that differ from a letter in the case bit only, such as `[`
/// and `{`, count as equal here.
#[inline]
fn visit_triples<const N: usize>(
    line: &[u8],
    triples: &Triples<N>,
    visit: impl FnMut(usize) -> bool,
) {
    #[cfg(target_arch = "x86_64")]
    if avx2::is_supported() {
        avx2::visit(line, triples, visit);
        return;
    }
    visit_chunks(line, |chunk| chunk_hits(chunk, &triples.list), visit);
}

/// The walk over the chunks of a line. Bit n of the mask that `hits` returns says that a triple
/// begins at byte n of a chunk.
#[inline(always)]
fn visit_chunks(
    line: &[u8],
    hits: impl Fn(&[u8; CHUNK_READ_LEN]) -> u32,
    mut visit: impl FnMut(usize) -> bool,
) {
    let mut start = 0;
    // Places up to here have been read.
    let mut seen = 0;
    let mut padded = [0; CHUNK_READ_LEN];
    while seen + 2 < line.len() {
        let chunk: &[u8; CHUNK_READ_LEN] = match line[start..].first_chunk() {
            Some(chunk) => chunk,
            // The last chunk reaches back into the one before it.
            None => match line.last_chunk() {
                Some(chunk) => {
                    start = line.len() - CHUNK_READ_LEN;
                    chunk
                }
                None => {
                    padded[..line.len()].copy_from_slice(line);
                    &padded
                }
            },
        };
        let mut bits = hits(chunk);
        while bits != 0 {
            let at = start + bits.trailing_zeros() as usize;
            if at >= seen && visit(at) {
                return;
            }
            bits &= bits - 1;
        }
        start += CHUNK_LEN;
        seen = start;
    }
}

/// The places of a chunk at which a triple begins. Written so that the compiler vectorises
/// it: no branches, arrays of fixed length.
#[inline]
fn chunk_hits<const N: usize>(chunk: &[u8; CHUNK_READ_LEN], triples: &[[u8; 3]; N]) -> u32 {
    let mut hits = [0u8; CHUNK_LEN];
    for (offset, hit) in hits.iter_mut().enumerate() {
        let (a, b, c) = (chunk[offset] | 0x20, chunk[offset + 1] | 0x20, chunk[offset + 2] | 0x20);
        for [x, y, z] in triples {
            *hit |= u8::from((a == *x) & (b == *y) & (c == *z));
        }
    }
    hits.iter().zip(0..).fold(0, |bits, (&hit, place)| bits | u32::from(hit) << place)
}

/// The level of the word that begins at `at`, if there is one that stands apart.
fn level_word(line: &[u8], at: usize) -> Option<Level> {
    let apart = at.checked_sub(1).is_none_or(|before| {
        matches!(
            line[before],
            b' ' | b'\t' | b'\n' | b'[' | b'(' | b'{' | b'"' | b'\'' | b'=' | b'|'
        )
    });
    if !apart {
        return None;
    }
    let rest = &line[at..];
    let words: &[(&[u8], Level)] = match rest[0] | 0x20 {
        b't' => &[(b"trace", Level::Trace)],
        b'd' => &[(b"debug", Level::Debug)],
        b'f' => &[(b"fatal", Level::Fatal)],
        b'c' => &[(b"critical", Level::Critical)],
        b'e' => &[(b"error", Level::Error), (b"err", Level::Error)],
        b'w' => &[(b"warning", Level::Warn), (b"warn", Level::Warn)],
        b'i' => &[(b"info", Level::Info)],
        _ => &[],
    };
    let is_here = |word: &[u8]| {
        rest.get(..word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word))
            && rest.get(word.len()).is_none_or(|&next| ends_word(next))
    };
    words.iter().find(|(word, _)| is_here(word)).map(|&(_, level)| level)
}

fn ends_word(byte: u8) -> bool {
    matches!(
        byte,
        b' ' | b'\t'
            | b'\n'
            | b'['
            | b']'
            | b'('
            | b')'
            | b'{'
            | b'}'
            | b':'
            | b','
            | b'!'
            | b'"'
            | b'\''
            | b'='
            | b'|'
    )
}

#[cfg(test)]
mod tests;
