//! From Go's dialect to that of the `regex` crate, in one pass and without
//! recursion.

use std::collections::BTreeSet;

use super::class::literal;
use super::failure::{Code, failure};
use super::{MAX_COST, MAX_GROUP_DEPTH};

/// Cost of `\pL` and the like: some hundred ranges, each a few bytes long.
pub(super) const UNICODE_CLASS_COST: u64 = 1500;
/// Cost of a class that holds most of Unicode.
const ANY_CHAR_COST: u64 = 12;

/// A translated pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Translation {
    /// The pattern for the `regex` crate, in its default (Unicode) mode.
    pub pattern: String,
    /// Names of the groups 1, 2, ... as written. The groups of `pattern` have no
    /// names, since Go allows names to repeat and to start with a digit.
    pub group_names: Vec<Option<String>>,
    /// Roughly the number of automaton states, with repetitions multiplied out.
    pub cost: u64,
}

/// The use of a translated pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// To be searched for; groups capture nothing.
    Search,
    /// To be searched for; groups capture.
    Captures,
    /// To match a whole label value; groups capture nothing. Unless the pattern says
    /// `(?-s)`, its `.` includes `\n`: the translation is to be compiled with
    /// `dot_matches_new_line`.
    Matcher,
}

/// Translates a pattern.
///
/// # Errors
/// Go's message for a pattern that Go refuses, and the same form for one beyond
/// the bounds of this module.
pub fn translate(pattern: &[u8], purpose: Purpose) -> Result<Translation, String> {
    let Ok(src) = std::str::from_utf8(pattern) else {
        return Err(failure(Code::InvalidUtf8, &String::from_utf8_lossy(pattern)));
    };
    let mut translator = Translator {
        src,
        pos: 0,
        out: String::with_capacity(src.len() + 8),
        flags: Flags { dot_all: purpose == Purpose::Matcher, ..Flags::default() },
        group: Group::default(),
        outer: Vec::new(),
        group_names: Vec::new(),
        known_classes: BTreeSet::new(),
        captures: purpose == Purpose::Captures,
    };
    translator.run()?;
    let cost = translator.group.cost;
    Ok(Translation { pattern: translator.out, group_names: translator.group_names, cost })
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Flags {
    fold_case: bool,
    multi_line: bool,
    dot_all: bool,
    swap_greed: bool,
}

impl Flags {
    fn get(&mut self, letter: char) -> Option<&mut bool> {
        Some(match letter {
            'i' => &mut self.fold_case,
            'm' => &mut self.multi_line,
            's' => &mut self.dot_all,
            'U' => &mut self.swap_greed,
            _ => return None,
        })
    }

    /// The letters that lead from these flags to `target`: `i-s`.
    fn change_to(mut self, mut target: Self) -> String {
        let mut on = String::new();
        let mut off = String::from("-");
        for letter in ['i', 'm', 's', 'U'] {
            match (self.get(letter), target.get(letter)) {
                (Some(false), Some(true)) => on.push(letter),
                (Some(true), Some(false)) => off.push(letter),
                _ => {}
            }
        }
        if off.len() > 1 {
            on.push_str(&off);
        }
        on
    }
}

/// An open group, or the pattern itself.
#[derive(Clone, Default)]
pub(super) struct Group {
    /// Where its text begins in the output.
    out_start: usize,
    /// The flags to return to when it closes.
    outer_flags: Flags,
    /// Cost of its content.
    cost: u64,
    /// Largest product of nested repeat counts in its content.
    pub(super) factor: u32,
    /// The operand of a repetition operator.
    pub(super) last: Option<Atom>,
}

/// One repeatable piece of output.
#[derive(Clone)]
pub(super) struct Atom {
    pub(super) out_start: usize,
    pub(super) out_end: usize,
    pub(super) cost: u64,
    pub(super) factor: u32,
    /// It ends in a repetition, so another one needs a group around it.
    pub(super) repeated: bool,
}

pub(super) struct Translator<'a> {
    pub(super) src: &'a str,
    pub(super) pos: usize,
    pub(super) out: String,
    flags: Flags,
    pub(super) group: Group,
    outer: Vec<Group>,
    group_names: Vec<Option<String>>,
    pub(super) known_classes: BTreeSet<&'a str>,
    captures: bool,
}

impl<'a> Translator<'a> {
    pub(super) fn rest(&self) -> &'a str {
        &self.src[self.pos..]
    }

    pub(super) fn next_char(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.pos += c.len_utf8();
        Some(c)
    }

    fn run(&mut self) -> Result<(), String> {
        // The text of the repetition that ended just here, if any: Go refuses to
        // stack repetition operators.
        let mut last_repeat = None;
        while let Some(&byte) = self.rest().as_bytes().first() {
            let start = self.pos;
            let mut repeat = None;
            match byte {
                b'(' => self.open()?,
                b')' => self.close()?,
                b'|' => {
                    self.pos += 1;
                    self.out.push('|');
                    self.group.last = None;
                }
                b'^' | b'$' => {
                    self.pos += 1;
                    self.push(if byte == b'^' { "^" } else { "$" }, 1)?;
                }
                b'.' => {
                    self.pos += 1;
                    self.push(".", ANY_CHAR_COST)?;
                }
                b'[' => {
                    let (class, parts) = self.class()?;
                    self.push(&class, ANY_CHAR_COST + 2 * parts)?;
                }
                b'*' | b'+' | b'?' => {
                    self.pos += 1;
                    self.repeat(start, last_repeat, None)?;
                    repeat = Some(start);
                }
                b'{' => match self.repeat_counts() {
                    Some((min, max)) => {
                        self.check_counts(start, min, max)?;
                        self.repeat(start, last_repeat, Some((min, max)))?;
                        repeat = Some(start);
                    }
                    None => {
                        self.pos += 1;
                        self.push_literal('{' as u32)?;
                    }
                },
                b'\\' => self.backslash()?,
                _ => {
                    let c = self.next_char().map_or(0, |c| c as u32);
                    self.push_literal(c)?;
                }
            }
            last_repeat = repeat;
        }
        if self.outer.is_empty() {
            Ok(())
        } else {
            Err(failure(Code::MissingParenthesis, self.src))
        }
    }

    fn push(&mut self, text: &str, cost: u64) -> Result<(), String> {
        let out_start = self.out.len();
        self.out.push_str(text);
        let out_end = self.out.len();
        self.group.last = Some(Atom { out_start, out_end, cost, factor: 1, repeated: false });
        self.group.factor = self.group.factor.max(1);
        self.charge(cost)
    }

    fn push_literal(&mut self, value: u32) -> Result<(), String> {
        let cost = if self.flags.fold_case { 3 } else { 1 };
        self.push(&literal(value), cost)
    }

    pub(super) fn charge(&mut self, cost: u64) -> Result<(), String> {
        self.group.cost = self.group.cost.saturating_add(cost);
        if self.group.cost > MAX_COST {
            return Err(failure(Code::TooLarge, self.src));
        }
        Ok(())
    }

    fn backslash(&mut self) -> Result<(), String> {
        let rest = self.rest();
        match rest.as_bytes().get(1) {
            Some(b'A') => self.push_escape(r"\A"),
            Some(b'z') => self.push_escape(r"\z"),
            // Word boundaries are ASCII in Go.
            Some(b'b') => self.push_escape(r"(?-u:\b)"),
            Some(b'B') => self.push_escape(r"(?-u:\B)"),
            Some(b'C') => Err(failure(Code::InvalidEscape, &rest[..2])),
            Some(b'Q') => {
                let quoted = &rest[2..];
                let (quoted, len) = match quoted.find(r"\E") {
                    Some(len) => (&quoted[..len], len + 4),
                    None => (quoted, rest.len()),
                };
                self.pos += len;
                quoted.chars().try_for_each(|c| self.push_literal(c as u32))
            }
            Some(b'p' | b'P') => {
                let class = self.unicode_class()?;
                self.push(&class, UNICODE_CLASS_COST)
            }
            _ => match self.perl_class_escape() {
                Some(class) => self.push(&class, ANY_CHAR_COST),
                None => {
                    let value = self.escape()?;
                    self.push_literal(value)
                }
            },
        }
    }

    fn push_escape(&mut self, text: &str) -> Result<(), String> {
        self.pos += 2;
        self.push(text, 1)
    }

    /// `(`, `(?flags:`, `(?flags)`, `(?P<name>` or `(?<name>`.
    fn open(&mut self) -> Result<(), String> {
        let rest = self.rest();
        if !rest.starts_with("(?") {
            self.pos += 1;
            self.group_names.push(None);
            return self.open_group(if self.captures { "(" } else { "(?:" }, self.flags);
        }
        let name_start = if rest.len() > 4 && rest.starts_with("(?P<") {
            4
        } else if rest.len() > 3 && rest.starts_with("(?<") {
            3
        } else {
            return self.open_flags();
        };
        let Some(end) = rest.find('>') else {
            return Err(failure(Code::InvalidNamedCapture, rest));
        };
        let name = &rest[name_start..end];
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(failure(Code::InvalidNamedCapture, &rest[..=end]));
        }
        self.pos += end + 1;
        self.group_names.push(Some(name.to_owned()));
        self.open_group(if self.captures { "(" } else { "(?:" }, self.flags)
    }

    fn open_flags(&mut self) -> Result<(), String> {
        let start = self.pos;
        self.pos += 2;
        let mut flags = self.flags;
        let mut value = true;
        let mut saw_flag = false;
        while let Some(c) = self.next_char() {
            if let Some(flag) = flags.get(c) {
                *flag = value;
                saw_flag = true;
                continue;
            }
            match c {
                '-' if value => {
                    value = false;
                    saw_flag = false;
                }
                ':' | ')' if value || saw_flag => {
                    let change = self.flags.change_to(flags);
                    if c == ':' {
                        return self.open_group(&format!("(?{change}:"), flags);
                    }
                    if !change.is_empty() {
                        self.out.push_str(&format!("(?{change})"));
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
        }
        Err(failure(Code::InvalidPerlOperator, &self.src[start..self.pos]))
    }

    fn open_group(&mut self, text: &str, flags: Flags) -> Result<(), String> {
        if self.outer.len() == MAX_GROUP_DEPTH {
            return Err(failure(Code::NestingDepth, self.src));
        }
        let group = Group {
            out_start: self.out.len(),
            outer_flags: self.flags,
            cost: 2,
            factor: 1,
            last: None,
        };
        self.out.push_str(text);
        self.flags = flags;
        self.outer.push(std::mem::replace(&mut self.group, group));
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        self.pos += 1;
        let Some(outer) = self.outer.pop() else {
            return Err(failure(Code::UnexpectedParenthesis, self.src));
        };
        self.out.push(')');
        let inner = std::mem::replace(&mut self.group, outer);
        self.flags = inner.outer_flags;
        self.group.factor = self.group.factor.max(inner.factor);
        self.group.last = Some(Atom {
            out_start: inner.out_start,
            out_end: self.out.len(),
            cost: inner.cost,
            factor: inner.factor,
            repeated: false,
        });
        self.charge(inner.cost)
    }
}
