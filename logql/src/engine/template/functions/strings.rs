//! Functions that cut, pad, search and replace.

use super::{Function, Param, first_rune, int, last_rune, part, runes, text};
use crate::engine::template::execution::Execution;
use crate::engine::template::out::Out;
use crate::engine::template::print::rune_count;
use crate::engine::template::value::{Text, Value};

const TEXT: &[Param] = &[Param::Text];
const TEXT_TEXT: &[Param] = &[Param::Text, Param::Text];
const INT_TEXT: &[Param] = &[Param::Int, Param::Text];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("__line__", &[], |run, _| Ok(Value::text(run.input.line))),
    Function::new("Trim", TEXT_TEXT, |run, args| trim(run, args, (0, 1), true, true)),
    Function::new("TrimLeft", TEXT_TEXT, |run, args| trim(run, args, (0, 1), true, false)),
    Function::new("TrimRight", TEXT_TEXT, |run, args| trim(run, args, (0, 1), false, true)),
    Function::new("trimAll", TEXT_TEXT, |run, args| trim(run, args, (1, 0), true, true)),
    Function::new("TrimPrefix", TEXT_TEXT, |run, args| trim_prefix(run, args, 0, 1)),
    Function::new("trimPrefix", TEXT_TEXT, |run, args| trim_prefix(run, args, 1, 0)),
    Function::new("TrimSuffix", TEXT_TEXT, |run, args| trim_suffix(run, args, 0, 1)),
    Function::new("trimSuffix", TEXT_TEXT, |run, args| trim_suffix(run, args, 1, 0)),
    Function::new("TrimSpace", TEXT, |run, args| trim_space(run, text(args, 0)?)),
    Function::new("trim", TEXT, |run, args| trim_space(run, text(args, 0)?)),
    Function::new("Replace", &[Param::Text, Param::Text, Param::Text, Param::Int], |run, args| {
        let count = int(args, 3)?;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let (value, old, new) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
        replace(run, value, old.bytes(), new.bytes(), count)
    }),
    Function::new("replace", &[Param::Text, Param::Text, Param::Text], |run, args| {
        let (old, new, value) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
        replace(run, value, old.bytes(), new.bytes(), usize::MAX)
    }),
    Function::new("trunc", INT_TEXT, |run, args| {
        let (count, value) = (int(args, 0)?, text(args, 1)?);
        let len = value.bytes().len();
        let kept = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX).min(len);
        part(run, value, if count < 0 { len - kept..len } else { 0..kept })
    }),
    Function::new("substr", &[Param::Int, Param::Int, Param::Text], substr),
    Function::new("contains", TEXT_TEXT, |_, args| {
        let (needle, value) = (text(args, 0)?, text(args, 1)?);
        let found = memchr::memmem::find(value.bytes(), needle.bytes());
        Ok(Value::Bool(found.is_some()))
    }),
    Function::new("hasPrefix", TEXT_TEXT, |_, args| {
        let (prefix, value) = (text(args, 0)?, text(args, 1)?);
        Ok(Value::Bool(value.bytes().starts_with(prefix.bytes())))
    }),
    Function::new("hasSuffix", TEXT_TEXT, |_, args| {
        let (suffix, value) = (text(args, 0)?, text(args, 1)?);
        Ok(Value::Bool(value.bytes().ends_with(suffix.bytes())))
    }),
    Function::new("indent", INT_TEXT, |run, args| indent(run, args, b"")),
    Function::new("nindent", INT_TEXT, |run, args| indent(run, args, b"\n")),
    Function::new("repeat", INT_TEXT, |run, args| {
        let (count, value) = (repeat_count(int(args, 0)?)?, text(args, 1)?);
        if value.bytes().is_empty() {
            return Ok(Value::Text(value));
        }
        run.build(|out| out.repeat(value.bytes(), count)).map(Value::text)
    }),
    Function::new("alignLeft", INT_TEXT, |run, args| align(run, args, true)),
    Function::new("alignRight", INT_TEXT, |run, args| align(run, args, false)),
    Function::variadic("default", &[Param::Any], Param::Any, |_, args| {
        let is_empty = args.get(1).is_none_or(Value::is_zero);
        Ok(std::mem::take(&mut args[usize::from(!is_empty)]))
    }),
];

/// Go's range checks of a count.
fn repeat_count(count: i64) -> Result<usize, String> {
    usize::try_from(count).map_err(|_| "strings: negative Repeat count".to_owned())
}

/// Cuts the characters of a set; `indexes` are the indexes of the text and of the set.
fn trim<'v>(
    run: &Execution<'v>,
    args: &mut [Value<'v>],
    indexes: (usize, usize),
    left: bool,
    right: bool,
) -> Result<Value<'v>, String> {
    let (value, set) = (text(args, indexes.0)?, text(args, indexes.1)?);
    // It doubles while it grows.
    let _set = run.hold(3 * size_of::<char>() * set.bytes().len())?;
    let mut set: Vec<char> = runes(set.bytes()).collect();
    set.sort_unstable();
    set.dedup();
    trim_by(run, value, left, right, |c| set.binary_search(&c).is_ok())
}

fn trim_space<'v>(run: &Execution<'v>, value: Text<'v>) -> Result<Value<'v>, String> {
    trim_by(run, value, true, true, char::is_whitespace)
}

fn trim_by<'v>(
    run: &Execution<'v>,
    value: Text<'v>,
    left: bool,
    right: bool,
    is_cut: impl Fn(char) -> bool,
) -> Result<Value<'v>, String> {
    let bytes = value.bytes();
    let (mut start, mut end) = (0, bytes.len());
    while left
        && let Some((c, len)) = first_rune(&bytes[start..])
        && is_cut(c)
    {
        start += len;
    }
    while right
        && let Some((c, len)) = last_rune(&bytes[start..end])
        && is_cut(c)
    {
        end -= len;
    }
    part(run, value, start..end)
}

fn trim_prefix<'v>(
    run: &Execution<'v>,
    args: &mut [Value<'v>],
    value: usize,
    prefix: usize,
) -> Result<Value<'v>, String> {
    let (value, prefix) = (text(args, value)?, text(args, prefix)?);
    let len = value.bytes().len();
    let cut = if value.bytes().starts_with(prefix.bytes()) { prefix.bytes().len() } else { 0 };
    part(run, value, cut..len)
}

fn trim_suffix<'v>(
    run: &Execution<'v>,
    args: &mut [Value<'v>],
    value: usize,
    suffix: usize,
) -> Result<Value<'v>, String> {
    let (value, suffix) = (text(args, value)?, text(args, suffix)?);
    let len = value.bytes().len();
    let cut = if value.bytes().ends_with(suffix.bytes()) { suffix.bytes().len() } else { 0 };
    part(run, value, 0..len - cut)
}

/// The first `count` occurrences; an empty `old` stands before every character
/// and at the end.
fn replace<'v>(
    run: &Execution<'v>,
    value: Text<'v>,
    old: &[u8],
    new: &[u8],
    count: usize,
) -> Result<Value<'v>, String> {
    let bytes = value.bytes();
    if old == new || (!old.is_empty() && memchr::memmem::find(bytes, old).is_none()) {
        return Ok(Value::Text(value));
    }
    let replaced = run.build(|out| {
        if old.is_empty() {
            insert_around(out, bytes, new, count)
        } else {
            replace_in(out, bytes, old, new, count)
        }
    })?;
    Ok(Value::Text(replaced))
}

fn insert_around(out: &mut Out<'_>, bytes: &[u8], new: &[u8], count: usize) -> Result<(), String> {
    let mut rest = bytes;
    for i in 0..count {
        if i > 0 {
            let Some((_, len)) = first_rune(rest) else { break };
            out.push(&rest[..len])?;
            rest = &rest[len..];
        }
        out.push(new)?;
    }
    out.push(rest)
}

fn replace_in(
    out: &mut Out<'_>,
    bytes: &[u8],
    old: &[u8],
    new: &[u8],
    count: usize,
) -> Result<(), String> {
    let mut copied = 0;
    for found in memchr::memmem::find_iter(bytes, old).take(count) {
        out.push(&bytes[copied..found])?;
        out.push(new)?;
        copied = found + old.len();
    }
    out.push(&bytes[copied..])
}

fn substr<'v>(run: &Execution<'v>, args: &mut [Value<'v>]) -> Result<Value<'v>, String> {
    let (start, end, value) = (int(args, 0)?, int(args, 1)?, text(args, 2)?);
    let len = value.bytes().len();
    let len_int = i64::try_from(len).expect("no text is that long");
    let failed = |what: String| Err(format!("runtime error: slice bounds out of range {what}"));
    let at = |index: i64| usize::try_from(index).expect("checked to lie within the text");
    if start < 0 {
        return match end {
            i64::MIN..0 => failed(format!("[:{end}]")),
            _ if end > len_int => failed(format!("[:{end}] with length {len}")),
            _ => part(run, value, 0..at(end)),
        };
    }
    if end < 0 || end > len_int {
        return if start > len_int {
            failed(format!("[{start}:{len}]"))
        } else {
            part(run, value, at(start)..len)
        };
    }
    if start > end {
        return failed(format!("[{start}:{end}]"));
    }
    part(run, value, at(start)..at(end))
}

fn indent<'v>(
    run: &Execution<'v>,
    args: &mut [Value<'v>],
    before: &[u8],
) -> Result<Value<'v>, String> {
    let (count, value) = (repeat_count(int(args, 0)?)?, text(args, 1)?);
    let indented = run.build(|out| {
        out.push(before)?;
        for (i, line) in value.bytes().split(|b| *b == b'\n').enumerate() {
            if i > 0 {
                out.push(b"\n")?;
            }
            out.fill(b' ', count)?;
            out.push(line)?;
        }
        Ok(())
    })?;
    Ok(Value::Text(indented))
}

/// Cuts or pads to a number of characters.
fn align<'v>(run: &Execution<'v>, args: &mut [Value<'v>], left: bool) -> Result<Value<'v>, String> {
    let (count, value) = (int(args, 0)?, text(args, 1)?);
    let bytes = value.bytes();
    let len = rune_count(bytes);
    let Ok(count) = usize::try_from(count) else { return Ok(Value::Text(value)) };
    if count == len {
        return Ok(Value::Text(value));
    }
    let aligned = run.build(|out| {
        if count < len {
            let skipped = if left { 0 } else { len - count };
            return runes(bytes).skip(skipped).take(count).try_for_each(|c| out.push_char(c));
        }
        if left {
            out.push(bytes)?;
        }
        out.fill(b' ', count - len)?;
        if left { Ok(()) } else { out.push(bytes) }
    })?;
    Ok(Value::Text(aligned))
}
