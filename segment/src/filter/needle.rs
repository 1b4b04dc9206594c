//! Needles: the texts and metadata that a probe searches.

use super::index::Part;
use super::keys::{GRAM_LEN, Key, hash_of_name, hash_of_pair, metadata_keys, word_flag};

/// Most grams of a needle that are tested. More would be read only for needles that exist.
const MAX_GRAMS: usize = 24;

/// Bytes of a long needle that are used.
const MAX_TEXT_LEN: usize = 1024;

/// A text or a pair of metadata, as the keys that a block must have to contain it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Needle {
    pub(super) part: Part,
    /// In the order in which they are tested.
    pub(super) keys: Box<[NeedleKey]>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NeedleKey {
    pub(super) key: Key,
    /// Whether filters with a quarter of the mixed grams prove nothing about it.
    pub(super) often_left_out: bool,
}

impl Needle {
    /// A text that a line must contain, in any ASCII case. `None` if it is shorter than
    /// [`GRAM_LEN`].
    #[must_use]
    pub fn substring(text: &[u8]) -> Option<Needle> {
        let mut lower = text[..text.len().min(MAX_TEXT_LEN)].to_ascii_lowercase();
        let gram_count = (lower.len() + 1).checked_sub(GRAM_LEN).filter(|&count| count > 0)?;
        lower.extend([0; 8]);
        let mut grams: Vec<(bool, usize, NeedleKey)> = (0..gram_count)
            .map(|at| {
                let gram = &lower[at..at + GRAM_LEN];
                let bytes = lower[at..at + 8].try_into().expect("eight bytes");
                let key = Key::of_gram(bytes);
                let mixed = gram.iter().any(|&byte| word_flag(byte) == 0);
                let often_left_out = mixed && !key.is_kept_when_mixed();
                let has_digit = gram.iter().any(u8::is_ascii_digit);
                (!has_digit || often_left_out, at, NeedleKey { key, often_left_out })
            })
            .collect();
        // Digits are rarer than words, and grams without overlap exclude more together.
        grams.sort_by_key(|&(common, at, _)| (common, at % GRAM_LEN, at));
        let mut keys: Vec<NeedleKey> = Vec::with_capacity(MAX_GRAMS.min(grams.len()));
        for (_, _, key) in grams {
            if !keys.contains(&key) {
                keys.push(key);
            }
            if keys.len() == MAX_GRAMS {
                break;
            }
        }
        Some(Needle { part: Part::Text, keys: keys.into() })
    }

    /// The alternatives of a condition: a line must contain at least one of the texts. `None` if
    /// a text is shorter than [`GRAM_LEN`], because then the condition proves nothing.
    #[must_use]
    pub fn any_substring<'a>(texts: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<Needle>> {
        texts.into_iter().map(Needle::substring).collect()
    }

    /// A pair of structured metadata that an entry must have, exactly.
    #[must_use]
    pub fn metadata(name: &[u8], value: &[u8]) -> Needle {
        Needle::of_metadata_hash(hash_of_pair(hash_of_name(name), value))
    }

    /// A name of structured metadata that an entry must have, with any value.
    #[must_use]
    pub fn metadata_name(name: &[u8]) -> Needle {
        Needle::of_metadata_hash(hash_of_name(name))
    }

    fn of_metadata_hash(hash: u64) -> Needle {
        let keys = metadata_keys(hash).map(|key| NeedleKey { key, often_left_out: false });
        Needle { part: Part::Metadata, keys: keys.collect() }
    }
}
