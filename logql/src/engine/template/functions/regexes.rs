//! Functions with regular expressions in Go's syntax.
//!
//! A pattern is compiled when it is first used. Patterns may come from labels, so
//! few are kept, and large ones are refused. A template of an alert keeps the first
//! small ones for all executions, on all cores.

use std::sync::{Arc, OnceLock};

use regex::bytes::Captures;

use super::{Function, Param, first_rune, text};
use crate::engine::meter::Meter;
use crate::engine::regex as patterns;
use crate::engine::template::execution::Execution;
use crate::engine::template::out::{ENDED, Out};
use crate::engine::template::value::{Text, Value};
use crate::syntax::go_regex::{CapturingRegex, Purpose, compile_capturing, translate};
use crate::syntax::idents::is_ident_char;

/// Compiled patterns kept per template.
const MAX_CACHED: usize = 16;
/// Largest cost of a pattern; one this large takes milliseconds to compile.
const MAX_PATTERN_COST: u64 = 10_000;
/// How much slower a search is than copying the text.
const SEARCH_FACTOR: usize = 8;
/// Bytes that translating takes per byte of a pattern, and the longest pattern that is translated.
const TRANSLATION_FACTOR: usize = 16;
const TRANSLATED_MAX_BYTES: usize = 64 << 10;
/// The work of compiling per unit of cost, in bytes.
const WORK_PER_COST_BYTES: usize = 64;

const THREE_TEXTS: &[Param] = &[Param::Text, Param::Text, Param::Text];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("count", &[Param::Text, Param::Text], |run, args| {
        let (pattern, value) = (text(args, 0)?, text(args, 1)?);
        let regex = searching(run, pattern.bytes(), value.bytes())?;
        Ok(Value::Int(count(&regex, value.bytes(), run.meter())))
    }),
    Function::new("regexReplaceAll", THREE_TEXTS, |run, args| {
        let (pattern, value, template) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
        replaced(run, pattern.bytes(), value.bytes(), template.bytes()).map(Value::Text)
    }),
    Function::new("regexReplaceAllLiteral", THREE_TEXTS, |run, args| {
        let (pattern, value, literal) = (text(args, 0)?, text(args, 1)?, text(args, 2)?);
        let regex = searching(run, pattern.bytes(), value.bytes())?;
        let replaced = run.build(|out| {
            replace_all(out, &regex, value.bytes(), |out, _| out.push(literal.bytes()))
        })?;
        Ok(Value::Text(replaced))
    }),
];

/// Patterns that a template of an alert keeps, and the largest one of them in bytes.
const MAX_KEPT: usize = 4;
const KEPT_MAX_BYTES: usize = 64 << 10;

/// A compiled pattern, or why it is none.
type Compiled = Result<Arc<CapturingRegex>, String>;

/// Compiled patterns by their text, the last used at the end.
#[derive(Default, Debug)]
pub(in super::super) struct RegexCache {
    /// With the size of each in bytes, about.
    entries: Vec<(Box<[u8]>, Compiled, usize)>,
    /// Memory of the patterns and of the compiled patterns.
    bytes: usize,
}

impl RegexCache {
    /// Heap memory in bytes, about.
    pub(in super::super) fn held_bytes(&self) -> usize {
        self.bytes + self.entries.capacity() * size_of::<(Box<[u8]>, Compiled, usize)>()
    }
}

/// Compiled patterns of a template for all its executions. None is ever replaced, so no core waits
/// for another one.
#[derive(Default, Debug)]
pub(in super::super) struct KeptRegexes([OnceLock<Kept>; MAX_KEPT]);

#[derive(Debug)]
struct Kept {
    pattern: Box<[u8]>,
    regex: Arc<CapturingRegex>,
    cost: u64,
}

impl KeptRegexes {
    fn find(&self, pattern: &[u8]) -> Option<&Kept> {
        self.0.iter().map_while(OnceLock::get).find(|kept| *kept.pattern == *pattern)
    }

    /// Keeps a pattern if it is small and there is room.
    fn keep(&self, pattern: &[u8], regex: &Arc<CapturingRegex>, cost: u64) {
        if pattern.len() + patterns::held_bytes(cost) > KEPT_MAX_BYTES {
            return;
        }
        let mut kept = Kept { pattern: pattern.into(), regex: Arc::clone(regex), cost };
        for place in &self.0 {
            match place.set(kept) {
                Ok(()) => return,
                Err(other) => kept = other,
            }
            if place.get().is_some_and(|known| *known.pattern == *pattern) {
                return;
            }
        }
    }
}

/// Counts the work of compiling. A kept pattern costs the same, so that an execution ends at the
/// same step whether others were before it or not.
fn count_compiling(run: &Execution<'_>, cost: u64) -> Result<(), String> {
    run.work(usize::try_from(cost).unwrap_or(usize::MAX) * WORK_PER_COST_BYTES)
}

fn compiled(run: &Execution<'_>, pattern: &[u8]) -> Compiled {
    let cache = &mut *run.regexes.borrow_mut();
    let kept_regexes = run.alert.map(|alert| alert.regexes);
    let entries = &mut cache.entries;
    if let Some(index) = entries.iter().position(|(own, ..)| **own == *pattern) {
        entries[index..].rotate_left(1);
        return entries[entries.len() - 1].1.clone();
    }
    // Memory for the translation while it is compiled. Patterns of more than some thousand
    // bytes fail.
    let compiling_bytes = TRANSLATION_FACTOR * pattern.len().min(TRANSLATED_MAX_BYTES);
    let mut held = run.hold(compiling_bytes)?;
    let mut regex_bytes = 0;
    let kept = kept_regexes.and_then(|kept| kept.find(pattern));
    let found = kept.map(|kept| {
        count_compiling(run, kept.cost)?;
        regex_bytes = patterns::held_bytes(kept.cost);
        Ok(Arc::clone(&kept.regex))
    });
    let compile = || {
        translate(pattern, Purpose::Captures).and_then(|translation| {
            if translation.cost > MAX_PATTERN_COST {
                return Err("error parsing regexp: expression too large".to_owned());
            }
            count_compiling(run, translation.cost)?;
            regex_bytes = patterns::held_bytes(translation.cost);
            let compiling = run.hold(patterns::compiling_bytes(translation.cost))?;
            let compiled = compile_capturing(pattern).map(Arc::new)?;
            drop(compiling);
            if let Some(kept) = kept_regexes {
                kept.keep(pattern, &compiled, translation.cost);
            }
            Ok(compiled)
        })
    };
    let result = found.unwrap_or_else(compile);
    held.shrink_to(0);
    if run.meter().is_stopped() {
        return result;
    }
    if entries.len() >= MAX_CACHED {
        let (pattern, _, bytes) = entries.remove(0);
        cache.bytes -= pattern.len() + bytes;
        run.meter().release(pattern.len() + bytes);
    }
    let entry_bytes = pattern.len() + regex_bytes;
    if !run.meter().admit(entry_bytes) || !run.meter().make_room(entries, 1) {
        return Err(ENDED.to_owned());
    }
    cache.bytes += entry_bytes;
    entries.push((pattern.into(), result.clone(), regex_bytes));
    result
}

/// A compiled pattern, with the work of searching a text counted.
fn searching(run: &Execution<'_>, pattern: &[u8], text: &[u8]) -> Compiled {
    run.work(text.len().saturating_mul(SEARCH_FACTOR))?;
    compiled(run, pattern)
}

/// Whether a pattern matches somewhere in a text.
///
/// # Errors
/// It is no pattern, or the execution has to end.
pub(super) fn is_match(run: &Execution<'_>, pattern: &[u8], text: &[u8]) -> Result<bool, String> {
    let regex = searching(run, pattern, text)?;
    run.meter().work(search_work(text.len()));
    Ok(regex.regex.is_match(text))
}

/// The text with every match replaced, as `template` says.
///
/// # Errors
/// It is no pattern, the output is too long, or the execution has to end.
pub(super) fn replaced<'v>(
    run: &Execution<'v>,
    pattern: &[u8],
    text: &[u8],
    template: &[u8],
) -> Result<Text<'v>, String> {
    let regex = searching(run, pattern, text)?;
    run.build(|out| {
        replace_all(out, &regex, text, |out, captures| expand(out, &regex, captures, template))
    })
}

/// The work of a search that may go to the end of a text, see [`crate::engine::meter`]. Most
/// searches end sooner; a search that does not must not delay the checks of the leaf.
fn search_work(rest_bytes: usize) -> usize {
    64 + rest_bytes / 8
}

/// Length of the character at an offset; 0 at the end.
fn width_at(text: &[u8], offset: usize) -> usize {
    first_rune(&text[offset..]).map_or(0, |(_, len)| len)
}

/// Number of matches that do not overlap; an empty one right behind another match
/// does not count.
fn count(regex: &CapturingRegex, text: &[u8], meter: &Meter) -> i64 {
    let mut position = 0;
    let mut previous_end = None;
    let mut count = 0;
    while position <= text.len()
        && meter.work(search_work(text.len() - position))
        && let Some(found) = regex.regex.find_at(text, position)
    {
        let is_accepted = !(found.end() == position && Some(found.start()) == previous_end);
        position = if found.end() == position {
            position + width_at(text, position).max(1)
        } else {
            found.end()
        };
        previous_end = Some(found.end());
        count += i64::from(is_accepted);
    }
    count
}

/// Copies the text with every match replaced; an empty match right behind another
/// stays.
fn replace_all(
    out: &mut Out<'_>,
    regex: &CapturingRegex,
    text: &[u8],
    mut replacement: impl FnMut(&mut Out<'_>, &Captures<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let (mut copied, mut position) = (0, 0);
    while position <= text.len()
        && out.meter().work(search_work(text.len() - position))
        && let Some(captures) = regex.regex.captures_at(text, position)
    {
        let Some(found) = captures.get(0) else { break };
        out.push(&text[copied..found.start()])?;
        if found.end() > copied || found.start() == 0 {
            replacement(out, &captures)?;
        }
        copied = found.end();
        position = found.end().max(position + width_at(text, position).max(1));
    }
    out.push(&text[copied..])
}

/// Writes a replacement: `$1`, `${1}`, `$name`, `${name}` and `$$`.
fn expand(
    out: &mut Out<'_>,
    regex: &CapturingRegex,
    captures: &Captures<'_>,
    template: &[u8],
) -> Result<(), String> {
    let mut rest = template;
    while let Some(at) = memchr::memchr(b'$', rest) {
        out.push(&rest[..at])?;
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(b"$") {
            out.push(b"$")?;
            rest = after;
            continue;
        }
        match reference(rest) {
            Some((name, len)) => {
                if let Some(group) = group_of(regex, name).and_then(|group| captures.get(group)) {
                    out.push(group.as_bytes())?;
                }
                rest = &rest[len..];
            }
            // Not a reference: the sign stands for itself.
            None => out.push(b"$")?,
        }
    }
    out.push(rest)
}

/// The name behind a dollar sign, and the length of the reference.
fn reference(text: &[u8]) -> Option<(&[u8], usize)> {
    let in_braces = text.first() == Some(&b'{');
    let inside = &text[usize::from(in_braces)..];
    let mut len = 0;
    while let Some((c, width)) = first_rune(&inside[len..])
        && is_ident_char(c)
    {
        len += width;
    }
    if len == 0 || (in_braces && inside.get(len) != Some(&b'}')) {
        return None;
    }
    Some((&inside[..len], if in_braces { len + 2 } else { len }))
}

fn group_of(regex: &CapturingRegex, name: &[u8]) -> Option<usize> {
    let name = std::str::from_utf8(name).ok()?;
    let is_number =
        name.bytes().all(|b| b.is_ascii_digit()) && (name == "0" || !name.starts_with('0'));
    if is_number {
        return name.parse().ok();
    }
    let index = regex.group_names.iter().position(|own| own.as_deref() == Some(name))?;
    Some(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(pattern: &str, text: &str, template: &str) -> String {
        let regex = compile_capturing(pattern.as_bytes()).expect("a pattern");
        let mut bytes = Vec::new();
        let meter = Meter::default();
        replace_all(
            &mut Out::new(&mut bytes, 1000, &meter),
            &regex,
            text.as_bytes(),
            |out, captures| expand(out, &regex, captures, template.as_bytes()),
        )
        .expect("short output");
        String::from_utf8(bytes).expect("UTF-8")
    }

    /// From Go's documentation and tests of `regexp`.
    #[test]
    fn replacements_follow_go() {
        for (pattern, text, template, expected) in [
            ("a(x*)b", "-ab-axxb-", "T", "-T-T-"),
            ("a(x*)b", "-ab-axxb-", "$1", "--xx-"),
            ("a(x*)b", "-ab-axxb-", "$1W", "---"),
            ("a(x*)b", "-ab-axxb-", "${1}W", "-W-xxW-"),
            ("(?P<n>a)", "cab", "<$n>", "c<a>b"),
            ("a", "cab", "$$x", "c$xb"),
            ("a", "cab", "$", "c$b"),
            ("a", "cab", "${1", "c${1b"),
            ("a", "cab", "$-", "c$-b"),
            ("a", "cab", "[$7$x]", "c[]b"),
            ("", "abc", "-", "-a-b-c-"),
            ("", "日本", "-", "-日-本-"),
            ("x*", "axxb", "-", "-a-b-"),
            ("a*", "baaac", "x", "xbxcx"),
            ("[aeiou]", "education", "${0}${0}", "eeduucaatiioon"),
            ("^", "ab", ">", ">ab"),
            ("$", "ab", "<", "ab<"),
        ] {
            assert_eq!(replaced(pattern, text, template), expected, "{pattern} in {text}");
        }
    }

    #[test]
    fn a_template_keeps_its_first_small_patterns() {
        let kept = KeptRegexes::default();
        let compiled = |pattern: &str| {
            let regex = compile_capturing(pattern.as_bytes()).expect("a pattern");
            let cost = patterns::cost_of(pattern.as_bytes());
            (Arc::new(regex), cost)
        };
        let keep = |pattern: &str| {
            let (regex, cost) = compiled(pattern);
            kept.keep(pattern.as_bytes(), &regex, cost);
            kept.find(pattern.as_bytes()).map(|kept| Arc::ptr_eq(&kept.regex, &regex))
        };
        assert_eq!(keep("[a-z]{1000}"), None, "it is large");
        for pattern in ["^a", "b", "c|d", "^(.+)-[0-9]+$"] {
            assert_eq!(keep(pattern), Some(true), "{pattern}");
        }
        assert_eq!(keep("b"), Some(false), "the first stays");
        assert_eq!(keep("e"), None, "there is no room");
    }

    #[test]
    fn matches_are_counted() {
        for (pattern, text, expected) in [
            ("o", "foo boo", 4),
            ("", "abc", 4),
            ("", "日本", 3),
            ("x*", "axxb", 3),
            ("z", "abc", 0),
        ] {
            let regex = compile_capturing(pattern.as_bytes()).expect("a pattern");
            assert_eq!(
                count(&regex, text.as_bytes(), &Meter::default()),
                expected,
                "{pattern} in {text}"
            );
        }
    }
}
