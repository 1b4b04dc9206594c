//! The names of an entry's metadata, remembered for the entries behind it: most senders give all
//! entries the same names in the same order, so these are checked and sorted once.
//!
//! Guarantees: the remembered names are in normal form, all different, and known in their order.
//! Names of an entry with more than [`KNOWN_MAX`] pairs are not remembered.

use std::cmp::Ordering;
use std::num::NonZeroU64;

use super::is_normal_name;
use crate::bytes::equal;

/// Most pairs of an entry whose names are remembered.
const KNOWN_MAX: usize = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct KnownNames {
    /// The names as they were sent, one behind the other.
    text: Vec<u8>,
    /// Where they end.
    ends: [usize; KNOWN_MAX],
    /// Places of the pairs, by ascending name.
    positions: [u8; KNOWN_MAX],
    len: usize,
    /// How often names were remembered.
    number: NonZeroU64,
}

impl Default for KnownNames {
    fn default() -> KnownNames {
        let (ends, positions) = ([0; KNOWN_MAX], [0; KNOWN_MAX]);
        KnownNames { text: Vec::new(), ends, positions, len: 0, number: NonZeroU64::MIN }
    }
}

impl KnownNames {
    /// Remembers the names of these pairs, unless they are known already. False if
    /// they lack more than an order; the remembered names stay then.
    #[inline]
    pub(super) fn learn(&mut self, pairs: &[(&[u8], &[u8])]) -> bool {
        self.are_of(pairs) || self.learn_new(pairs)
    }

    #[inline]
    fn are_of(&self, pairs: &[(&[u8], &[u8])]) -> bool {
        if pairs.len() != self.len {
            return false;
        }
        let mut start = 0;
        pairs.iter().zip(self.ends).all(|((name, _), end)| {
            let known = &self.text[start..end];
            start = end;
            equal(name, known)
        })
    }

    fn learn_new(&mut self, pairs: &[(&[u8], &[u8])]) -> bool {
        if pairs.len() > KNOWN_MAX {
            return false;
        }
        let mut positions = [0; KNOWN_MAX];
        for (len, (&(name, _), position)) in pairs.iter().zip(0_u8..).enumerate() {
            if !is_normal_name(name) {
                return false;
            }
            let mut at = len;
            while at > 0 {
                match pairs[usize::from(positions[at - 1])].0.cmp(name) {
                    Ordering::Less => break,
                    Ordering::Equal => return false,
                    Ordering::Greater => positions[at] = positions[at - 1],
                }
                at -= 1;
            }
            positions[at] = position;
        }
        self.text.clear();
        for ((name, _), end) in pairs.iter().zip(&mut self.ends) {
            self.text.extend_from_slice(name);
            *end = self.text.len();
        }
        (self.positions, self.len) = (positions, pairs.len());
        self.number = self.number.saturating_add(1);
        true
    }

    /// Places of the pairs with these names, by ascending name.
    #[inline]
    pub(super) fn positions(&self) -> &[u8] {
        &self.positions[..self.len]
    }

    /// Another number for each time that names were remembered.
    #[inline]
    pub(super) fn number(&self) -> NonZeroU64 {
        self.number
    }
}
