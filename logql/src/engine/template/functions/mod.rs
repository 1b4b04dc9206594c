//! The functions that templates can call, one file per group.
//!
//! A function states the types of its parameters; arguments are checked against
//! them before it runs, so that messages about wrong arguments are Go's.

mod alert;
mod arithmetic;
mod builtin;
mod compare;
mod convert;
mod dates;
mod decimal;
mod encoding;
mod letters;
mod methods;
mod regexes;
mod strings;

pub(super) use builtin::call_error;
pub(super) use methods::{Method, find as find_method};
pub(super) use regexes::{KeptRegexes, RegexCache};

use super::execution::Execution;
use super::value::{Text, Value};

/// Type of a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Param {
    Text,
    Int,
    Float,
    Time,
    Duration,
    /// A sample of a query's result.
    Sample,
    /// A query's result.
    Samples,
    /// Go's empty interface.
    Any,
    /// Go's `reflect.Value`: any value or none.
    Reflect,
}

impl Param {
    /// The Go type.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Text => "string",
            Self::Int => "int",
            Self::Float => "float64",
            Self::Time => "time.Time",
            Self::Duration => "time.Duration",
            Self::Sample => "*template.sample",
            Self::Samples => "template.queryResult",
            Self::Any => "interface {}",
            Self::Reflect => "reflect.Value",
        }
    }
}

/// Runs a function on checked arguments, which it may take.
pub(super) type Run1 = for<'v> fn(&Execution<'v>, &mut [Value<'v>]) -> Result<Value<'v>, String>;

/// How a function is evaluated.
#[derive(Clone, Copy)]
pub(super) enum Body {
    /// Arguments are evaluated until one decides.
    And,
    Or,
    /// `call`, which also wants the text of its first argument.
    Call,
    Plain(Run1),
}

/// A function.
pub(super) struct Function {
    pub(super) name: &'static str,
    pub(super) params: &'static [Param],
    /// Type of any number of further arguments.
    pub(super) variadic: Option<Param>,
    pub(super) body: Body,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Function {
    const fn new(name: &'static str, params: &'static [Param], run: Run1) -> Self {
        Self { name, params, variadic: None, body: Body::Plain(run) }
    }

    const fn variadic(
        name: &'static str,
        params: &'static [Param],
        more: Param,
        run: Run1,
    ) -> Self {
        Self { name, params, variadic: Some(more), body: Body::Plain(run) }
    }
}

/// Gives the function of a name.
pub(super) type Find = fn(&[u8]) -> Option<&'static Function>;

fn find_in(tables: &[&'static [Function]], name: &[u8]) -> Option<&'static Function> {
    tables.iter().copied().flatten().find(|function| function.name.as_bytes() == name)
}

/// The functions of alerts: those of Go and of Prometheus.
pub(super) fn find_for_alerts(name: &[u8]) -> Option<&'static Function> {
    let tables = [
        builtin::FUNCTIONS,
        compare::FUNCTIONS,
        encoding::GO_FUNCTIONS,
        alert::NUMBERS,
        alert::TEXTS,
        alert::SAMPLES,
        alert::PLACES,
    ];
    find_in(&tables, name)
}

/// The functions of queries: those of Go and of LogQL.
pub(super) fn find_for_logs(name: &[u8]) -> Option<&'static Function> {
    let tables = [
        builtin::FUNCTIONS,
        compare::FUNCTIONS,
        encoding::GO_FUNCTIONS,
        strings::FUNCTIONS,
        letters::FUNCTIONS,
        encoding::FUNCTIONS,
        regexes::FUNCTIONS,
        convert::FUNCTIONS,
        arithmetic::FUNCTIONS,
        dates::FUNCTIONS,
    ];
    find_in(&tables, name)
}

/// Arguments were checked before the call; this is never seen.
const MISMATCH: &str = "argument of an unexpected type";

fn text<'v>(args: &mut [Value<'v>], index: usize) -> Result<Text<'v>, String> {
    match args.get_mut(index).map(std::mem::take) {
        Some(Value::Text(text)) => Ok(text),
        _ => Err(MISMATCH.to_owned()),
    }
}

fn int(args: &[Value<'_>], index: usize) -> Result<i64, String> {
    args.get(index).and_then(Value::as_int).ok_or_else(|| MISMATCH.to_owned())
}

fn time(args: &mut [Value<'_>], index: usize) -> Result<super::time::Time, String> {
    match args.get_mut(index).map(std::mem::take) {
        Some(Value::Time(time)) => Ok(time),
        _ => Err(MISMATCH.to_owned()),
    }
}

/// A part of a text, shared where possible.
///
/// # Errors
/// There is no memory for it, and the leaf ends.
fn part<'v>(
    run: &Execution<'v>,
    text: Text<'v>,
    range: std::ops::Range<usize>,
) -> Result<Value<'v>, String> {
    Ok(match text {
        Text::Borrowed(bytes) => Value::text(&bytes[range]),
        text if range == (0..text.bytes().len()) => Value::Text(text),
        text => Value::Text(run.make(range.len(), || text.bytes()[range].to_vec())?),
    })
}

/// The characters of a text; every byte that is not UTF-8 reads as U+FFFD.
fn runes(text: &[u8]) -> impl Iterator<Item = char> {
    text.utf8_chunks().flat_map(|chunk| {
        let invalid = std::iter::repeat_n(char::REPLACEMENT_CHARACTER, chunk.invalid().len());
        chunk.valid().chars().chain(invalid)
    })
}

/// The first character and its length in bytes.
fn first_rune(text: &[u8]) -> Option<(char, usize)> {
    let chunk = text[..text.len().min(4)].utf8_chunks().next()?;
    let first = chunk.valid().chars().next();
    Some(first.map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, c.len_utf8())))
}

/// The last character and its length in bytes.
fn last_rune(text: &[u8]) -> Option<(char, usize)> {
    let last = text.len().checked_sub(1)?;
    (last.saturating_sub(3)..=last)
        .find_map(|start| {
            let c = std::str::from_utf8(&text[start..]).ok()?.chars().next()?;
            (start + c.len_utf8() == text.len()).then_some((c, c.len_utf8()))
        })
        .or(Some((char::REPLACEMENT_CHARACTER, 1)))
}
