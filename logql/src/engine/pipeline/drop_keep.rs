//! `| drop a, b="x"` and `| keep a, b=~"y"`, sections 8.3 and 8.4 of the language
//! reference.

use super::super::matcher::CompiledMatcher;
use super::labels::{ERROR, ERROR_DETAILS, EntryLabels, NameId, PRESERVE_ERROR};
use crate::syntax::ast::NameOrMatcher;

/// An item of the list.
#[derive(Debug)]
struct Item {
    name: NameId,
    /// `None` takes every value.
    matcher: Option<CompiledMatcher>,
}

impl Item {
    fn accepts(&self, value: &[u8]) -> bool {
        let Some(matcher) = &self.matcher else { return true };
        matcher.matches(&String::from_utf8_lossy(value))
    }
}

fn compile(list: &[NameOrMatcher], labels: &mut EntryLabels) -> Result<Vec<Item>, String> {
    list.iter()
        .map(|item| match item {
            NameOrMatcher::Name(name) => {
                Ok(Item { name: labels.name_id(name.as_bytes()), matcher: None })
            }
            NameOrMatcher::Matcher(matcher) => Ok(Item {
                name: labels.name_id(matcher.name.as_bytes()),
                matcher: Some(CompiledMatcher::new(matcher)?),
            }),
        })
        .collect()
}

/// A compiled `drop`.
#[derive(Debug)]
pub(crate) struct Drop {
    items: Vec<Item>,
}

impl Drop {
    /// Compiles the list.
    ///
    /// # Errors
    /// A bad pattern, which the parser has ruled out.
    pub(crate) fn compile(
        list: &[NameOrMatcher],
        labels: &mut EntryLabels,
    ) -> Result<Self, String> {
        Ok(Self { items: compile(list, labels)? })
    }

    pub(crate) fn process(&self, labels: &mut EntryLabels) {
        for item in &self.items {
            let value = match item.name {
                ERROR => labels.error(),
                ERROR_DETAILS => labels.error_details(),
                name => labels.get(name),
            };
            if item.accepts(value.unwrap_or_default()) {
                match item.name {
                    slot @ (ERROR | ERROR_DETAILS) => labels.clear_error(slot),
                    name => labels.delete(name),
                }
            }
        }
    }
}

/// A compiled `keep`.
#[derive(Debug)]
pub(crate) struct Keep {
    items: Vec<Item>,
}

impl Keep {
    /// Compiles the list.
    ///
    /// # Errors
    /// A bad pattern, which the parser has ruled out.
    pub(crate) fn compile(
        list: &[NameOrMatcher],
        labels: &mut EntryLabels,
    ) -> Result<Self, String> {
        Ok(Self { items: compile(list, labels)? })
    }

    pub(crate) fn process(&self, labels: &mut EntryLabels) {
        labels.retain(|name, value| {
            matches!(name, ERROR | ERROR_DETAILS | PRESERVE_ERROR)
                || self.items.iter().any(|item| item.name == name && item.accepts(value))
        });
    }
}
