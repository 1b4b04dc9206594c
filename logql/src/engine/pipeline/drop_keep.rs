//! `| drop a, b="x"` and `| keep a, b=~"y"`: labels go or stay by name or by value.

use super::super::labels::{ERROR, ERROR_DETAILS, EntryLabels, NameId, PRESERVE_ERROR};
use super::super::matcher::CompiledMatcher;
use super::{CompiledStage, Entry};
use crate::syntax::ast::NameOrMatcher;

/// An item of the list.
#[derive(Debug)]
struct Item {
    name: NameId,
    /// `None` takes every value.
    matcher: Option<CompiledMatcher>,
}

/// The work of comparing a label with an item, see [`super::super::meter`].
const ITEM_WORK: usize = 16;

fn items_bytes(items: &Vec<Item>) -> usize {
    let matchers = items.iter().filter_map(|item| item.matcher.as_ref());
    items.capacity() * size_of::<Item>() + matchers.map(CompiledMatcher::held_bytes).sum::<usize>()
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
}

impl CompiledStage for Drop {
    type Outcome = ();

    fn process(&mut self, entry: &mut Entry<'_>) {
        let labels = &mut *entry.labels;
        for item in &self.items {
            let value = match item.name {
                ERROR => labels.error(),
                ERROR_DETAILS => labels.error_details(),
                name => labels.get(name),
            };
            let value = value.unwrap_or_default();
            if !labels.meter().work(ITEM_WORK + value.len()) {
                return;
            }
            if item.accepts(value) {
                match item.name {
                    name @ (ERROR | ERROR_DETAILS) => labels.clear_error(name),
                    name => labels.delete(name),
                }
            }
        }
    }

    fn held_bytes(&self) -> usize {
        items_bytes(&self.items)
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
}

impl CompiledStage for Keep {
    type Outcome = ();

    fn process(&mut self, entry: &mut Entry<'_>) {
        entry.labels.retain(self.items.len() * ITEM_WORK, |name, value| {
            matches!(name, ERROR | ERROR_DETAILS | PRESERVE_ERROR)
                || self.items.iter().any(|item| item.name == name && item.accepts(value))
        });
    }

    fn held_bytes(&self) -> usize {
        items_bytes(&self.items)
    }
}
