//! Names of structured metadata that a query looks at, where it looks at few.
//!
//! A store that knows them may leave other metadata out of the blocks that it gives to the query
//! ([`super::LeafExecutor::listed_metadata`]), and need not decode it.

use std::sync::Arc;

/// The names of metadata that tell of errors. With one of them in a set, other names matter too:
/// they are part of the error.
const RESERVED: [&str; 3] = ["__error__", "__error_details__", "__preserve_error__"];

/// See the module. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListedNames(Arc<[Box<str>]>);

impl ListedNames {
    /// These names.
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> ListedNames {
        ListedNames(names.into_iter().map(Box::from).collect())
    }

    /// Whether the query looks at metadata of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|listed| **listed == *name)
    }

    /// Whether all metadata matters where this name is among it.
    #[must_use]
    pub fn needs_all(name: &str) -> bool {
        RESERVED.contains(&name)
    }

    /// The names.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    /// Heap memory in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.0.iter().map(|name| size_of::<Box<str>>() + name.len()).sum()
    }
}
