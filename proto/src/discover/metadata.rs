//! Puts a level between the metadata of an entry, or takes it out.

use std::cmp::Ordering;

use crate::push::metadata::NormalizedIter;

/// The name under which the level of an entry is stored.
pub const DETECTED_LEVEL: &str = "detected_level";

/// Metadata in normal form without `detected_level`.
pub fn beside_level<'m>(
    pairs: NormalizedIter<'m>,
) -> impl Iterator<Item = (&'m [u8], &'m [u8])> + Clone {
    pairs.filter(|(name, _)| *name != DETECTED_LEVEL.as_bytes())
}

type Pair<'m> = (&'m [u8], &'m [u8]);

/// Metadata in normal form with `detected_level` at its place, replacing one that is
/// there.
#[derive(Clone, Debug)]
pub struct WithLevel<'m> {
    pairs: NormalizedIter<'m>,
    level: Option<&'m [u8]>,
    /// A pair that comes behind the level.
    held: Option<Pair<'m>>,
}

impl<'m> WithLevel<'m> {
    /// Adds `level`, if there is one, to `pairs`.
    pub fn new(pairs: NormalizedIter<'m>, level: Option<&'m [u8]>) -> WithLevel<'m> {
        WithLevel { pairs, level, held: None }
    }
}

impl<'m> Iterator for WithLevel<'m> {
    type Item = Pair<'m>;

    #[inline]
    fn next(&mut self) -> Option<Pair<'m>> {
        if self.held.is_some() {
            return self.held.take();
        }
        let pair = self.pairs.next();
        let Some(level) = self.level else { return pair };
        let own = (DETECTED_LEVEL.as_bytes(), level);
        match pair.map(|(name, _)| name.cmp(DETECTED_LEVEL.as_bytes())) {
            Some(Ordering::Less) => return pair,
            Some(Ordering::Greater) => self.held = pair,
            Some(Ordering::Equal) | None => {}
        }
        self.level = None;
        Some(own)
    }
}
