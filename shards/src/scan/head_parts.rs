//! The blocks of one head in a snapshot.

use std::ops::Deref;

use super::HeadPart;

/// Blocks of a head, in order. Most streams have one at most, which takes no memory of its
/// own: a snapshot may be of very many streams.
#[derive(Debug, Default)]
pub enum HeadParts {
    /// No block.
    #[default]
    None,
    /// One.
    One(HeadPart),
    /// Any number.
    Many(Vec<HeadPart>),
}

impl Deref for HeadParts {
    type Target = [HeadPart];

    fn deref(&self) -> &[HeadPart] {
        match self {
            HeadParts::None => &[],
            HeadParts::One(part) => std::slice::from_ref(part),
            HeadParts::Many(parts) => parts,
        }
    }
}

impl FromIterator<HeadPart> for HeadParts {
    fn from_iter<I: IntoIterator<Item = HeadPart>>(parts: I) -> HeadParts {
        let mut parts = parts.into_iter();
        let Some(first) = parts.next() else { return HeadParts::None };
        let Some(second) = parts.next() else { return HeadParts::One(first) };
        HeadParts::Many([first, second].into_iter().chain(parts).collect())
    }
}
