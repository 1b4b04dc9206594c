//! A parsed template, whatever its functions are.

use std::borrow::Cow;

use super::functions::Find;
use super::parser;
use crate::engine::labels::NameId;

/// The trees of a template, with what error messages need.
#[derive(Debug)]
pub(super) struct Parsed {
    /// Error messages name it.
    pub(super) name: Cow<'static, str>,
    /// The source, in which error messages find lines and columns.
    pub(super) text: Box<[u8]>,
    /// The template itself, then the templates that it defines.
    pub(super) trees: parser::Trees,
}

impl Parsed {
    /// Parses a text that may call the functions which `find` finds.
    ///
    /// # Errors
    /// Go's message.
    pub(super) fn parse(
        name: Cow<'static, str>,
        text: &[u8],
        find: Find,
        intern: &mut dyn FnMut(&[u8]) -> NameId,
    ) -> Result<Self, String> {
        let trees = parser::parse(&name, text, find, intern)?;
        Ok(Self { name, text: text.into(), trees })
    }
}
