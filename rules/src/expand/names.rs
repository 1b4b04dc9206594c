//! Sets of label names, finite or with a finite complement.

use std::collections::BTreeSet;

/// A set of label names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Names<'e> {
    /// These alone.
    Only(BTreeSet<&'e str>),
    /// All but these.
    Except(BTreeSet<&'e str>),
}

impl<'e> Names<'e> {
    pub(super) fn all() -> Self {
        Self::Except(BTreeSet::new())
    }

    pub(super) fn none() -> Self {
        Self::Only(BTreeSet::new())
    }

    pub(super) fn only(names: &'e [String]) -> Self {
        Self::Only(names.iter().map(String::as_str).collect())
    }

    pub(super) fn except(names: &'e [String]) -> Self {
        Self::Except(names.iter().map(String::as_str).collect())
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        match self {
            Self::Only(names) => names.contains(name),
            Self::Except(names) => !names.contains(name),
        }
    }

    /// Names of both sets.
    pub(super) fn and(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Only(names), set) | (set, Self::Only(names)) => {
                Self::Only(names.iter().copied().filter(|name| set.contains(name)).collect())
            }
            (Self::Except(a), Self::Except(b)) => Self::Except(a | b),
        }
    }

    /// Names of either set.
    pub(super) fn or(&self, other: &Self) -> Self {
        self.opposite().and(&other.opposite()).opposite()
    }

    /// All other names.
    pub(super) fn opposite(&self) -> Self {
        match self.clone() {
            Self::Only(names) => Self::Except(names),
            Self::Except(names) => Self::Only(names),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_those_of_their_members() {
        let universe = ["a", "b", "c", "other"];
        let lists: Vec<Vec<String>> = (0..8_u8)
            .map(|bits| {
                (0..3).filter(move |i| bits & (1 << i) != 0).map(|i| universe[i].to_owned())
            })
            .map(Iterator::collect)
            .collect();
        let sets: Vec<Names<'_>> = lists
            .iter()
            .flat_map(|list| [Names::only(list), Names::except(list)])
            .chain([Names::all(), Names::none()])
            .collect();
        for a in &sets {
            for b in &sets {
                for name in universe {
                    let (in_a, in_b) = (a.contains(name), b.contains(name));
                    assert_eq!(a.and(b).contains(name), in_a && in_b, "{a:?} {b:?} {name}");
                    assert_eq!(a.or(b).contains(name), in_a || in_b, "{a:?} {b:?} {name}");
                    assert_eq!(a.opposite().contains(name), !in_a, "{a:?} {name}");
                }
            }
        }
    }
}
