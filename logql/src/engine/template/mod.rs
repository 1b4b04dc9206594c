//! Templates of `line_format` and `label_format`: Go's `text/template` with LogQL's functions.
//!
//! A template is compiled once per query and executed over the labels of every entry. Text and
//! plain fields such as `{{.method}}` are copied from the label set to the output without any
//! allocation. All other actions are evaluated by walking the tree.
//!
//! Clients write templates, and any program may have written the values. So everything is bounded:
//! nesting when parsing and executing, steps, bytes read, written and kept, and the size of regular
//! expressions. A template that goes over a bound fails like any other execution error.
//!
//! Labels and annotations of alerts are templates with other functions and variables, those of
//! Prometheus: [`alert`] executes them with the same engine.
//!
//! Differences from Go: no methods of times that return several values, and the bounds.

pub(crate) mod alert;
mod ast;
mod exec;
mod execution;
mod functions;
mod json;
mod labels;
mod lexer;
mod number;
mod out;
mod parsed;
mod parser;
mod plain;
mod print;
mod reads;
mod size;
mod time;
mod token;
mod value;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::cell::RefCell;

use super::labels::EntryLabels;
use execution::Execution;
pub(crate) use execution::Input;
use functions::{RegexCache, find_for_logs};
use labels::LabelMap;
use out::ENDED;
use parsed::Parsed;
use value::Value;

/// The work of compiling a byte of a template, see [`super::meter`].
const COMPILE_FACTOR: usize = 64;

/// A compiled template.
#[derive(Debug)]
pub(crate) struct Template {
    /// Its name is `line` or `label`.
    parsed: Parsed,
    regexes: RefCell<RegexCache>,
    /// Heap memory of all but the regular expressions, in bytes.
    own_bytes: usize,
    /// It has nothing but text and labels, and few of them.
    is_plain: bool,
}

/// Most bytes of the tree of a template per byte of its text: arguments are of one byte and
/// the space before it.
const TREE_FACTOR: usize = 160;

/// Bytes that compiling a template may take.
pub(crate) fn compiling_bytes(text: &[u8]) -> usize {
    let has_actions = memchr::memmem::find(text, b"{{").is_some();
    text.len().saturating_mul(if has_actions { TREE_FACTOR } else { 4 })
}

impl Template {
    /// Compiles a template; names of labels are interned into `labels`, over which
    /// alone it may then be executed.
    ///
    /// # Errors
    /// Go's message: `template: line:1: unclosed action` for instance.
    pub(crate) fn compile(
        name: &'static str,
        text: &[u8],
        labels: &mut EntryLabels,
    ) -> Result<Self, String> {
        let compiling_bytes = compiling_bytes(text);
        if !labels.meter().work(text.len().saturating_mul(COMPILE_FACTOR))
            || !labels.meter().admit(compiling_bytes)
        {
            return Err(ENDED.to_owned());
        }
        let parsed =
            Parsed::parse(name.into(), text, find_for_logs, &mut |ident| labels.name_id(ident))?;
        let own_bytes = text.len() + size::of_trees(&parsed.trees);
        // The stage counts its memory.
        labels.meter().release(compiling_bytes);
        let is_plain = plain::is_plain(&parsed.trees[0].1);
        Ok(Self { parsed, regexes: RefCell::default(), own_bytes, is_plain })
    }

    /// Heap memory in bytes; of regular expressions about.
    pub(crate) fn held_bytes(&self) -> usize {
        self.own_bytes + self.regexes.borrow().held_bytes()
    }

    /// Calls `visit` with every name that may be that of a label the template reads.
    /// False when it may read any label, or is no template at all.
    pub(crate) fn for_each_name(text: &[u8], visit: &mut impl FnMut(&str)) -> bool {
        let mut labels = EntryLabels::new();
        parser::parse("", text, find_for_logs, &mut |ident| labels.name_id(ident))
            .is_ok_and(|trees| reads::for_each_name(&trees, visit))
    }

    /// True when the template may look at the line.
    pub(crate) fn reads_line(&self) -> bool {
        memchr::memmem::find(&self.parsed.text, b"__line__").is_some()
    }

    /// Appends the output for an entry.
    ///
    /// # Errors
    /// Go's message: `template: line:1:3: executing "line" at <div 1 0>: ...` for
    /// instance. The output until then is of no use.
    pub(crate) fn execute(&self, input: Input<'_>, out: &mut Vec<u8>) -> Result<(), String> {
        let labels = LabelMap::new(input.labels);
        if self.is_plain && plain::execute(&self.parsed.trees[0].1, &labels, &input, out)? {
            return Ok(());
        }
        let run = Execution::new(input, &self.regexes);
        exec::execute(&self.parsed, Value::Labels(&labels), &run, out)
    }
}

/// Text of the template as characters; its names and literals are UTF-8 unless
/// the query wrote escapes such as `\xff`.
fn lexed_text(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}
