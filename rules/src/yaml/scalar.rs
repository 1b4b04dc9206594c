//! How a text is written as a scalar: the choices of yaml.v3.
//!
//! A text with line breaks becomes a block. A text that would be read as another type (`yes`,
//! `1e3`, `~`, a date) is in double quotes. One whose characters stand for something else (`- a`,
//! `a: b`, ` #`) is in single quotes. One that holds control characters, tabs, or characters that
//! need four bytes is in double quotes, with escapes.

use std::sync::LazyLock;

use regex::Regex;

/// Ways to write a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    /// A block that starts with `|`.
    Literal,
}

/// The style of a value, or of a key.
pub(super) fn style_of(text: &str, is_key: bool) -> Style {
    let found = Traits::of(text);
    if text.contains('\n') {
        return if found.block_allowed && !is_key { Style::Literal } else { Style::DoubleQuoted };
    }
    if found.is_multiline || !is_string(text) || (is_key && text == "<<") {
        return Style::DoubleQuoted;
    }
    match (found.plain_allowed, found.single_quoted_allowed) {
        (true, _) => Style::Plain,
        (false, true) => Style::SingleQuoted,
        (false, false) => Style::DoubleQuoted,
    }
}

/// Whether a plain scalar of this text is read as a text by old and new readers of YAML.
fn is_string(text: &str) -> bool {
    const WORDS: [&str; 36] = [
        "", "~", "null", "Null", "NULL", "true", "True", "TRUE", "false", "False", "FALSE", ".nan",
        ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf",
        "-.INF", // Booleans of YAML 1.1.
        "y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "n", "N", "no", "No", "NO",
    ];
    const MORE_WORDS: [&str; 3] = ["off", "Off", "OFF"];
    if WORDS.contains(&text) || MORE_WORDS.contains(&text) {
        return false;
    }
    let first = text.as_bytes().first().copied().unwrap_or_default();
    if !matches!(first, b'+' | b'-' | b'.' | b'0'..=b'9') {
        return true;
    }
    !(is_number(text) || is_date(text) || BASE_60.is_match(text))
}

static DECIMAL: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$"));
static RADIX: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[-+]?0([xX][0-9a-fA-F]{1,16}|[oO]?[0-7]{1,22}|[bB][01]{1,64})$"));
static BASE_60: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$"));
static DATE: LazyLock<Regex> = LazyLock::new(|| {
    regex(concat!(
        r"^[0-9]{4}-(0?[1-9]|1[0-2])-(0?[1-9]|[12][0-9]|3[01])",
        r"([Tt][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})",
        r"| [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}([.,][0-9]+)?)?$"
    ))
});

fn regex(pattern: &str) -> Regex {
    match Regex::new(pattern) {
        Ok(regex) => regex,
        Err(error) => panic!("a pattern of this program is bad: {error}"),
    }
}

fn is_number(text: &str) -> bool {
    if text.starts_with('.') {
        return DECIMAL.is_match(text);
    }
    let plain = text.replace('_', "");
    DECIMAL.is_match(&plain) || RADIX.is_match(&plain)
}

fn is_date(text: &str) -> bool {
    text.len() > 4 && text.as_bytes()[4] == b'-' && DATE.is_match(text)
}

/// What decides about the style.
#[derive(Debug)]
struct Traits {
    plain_allowed: bool,
    single_quoted_allowed: bool,
    block_allowed: bool,
    is_multiline: bool,
}

impl Traits {
    fn of(text: &str) -> Traits {
        let mut has_indicators = text.starts_with("---") || text.starts_with("...");
        let (mut has_breaks, mut has_special, mut has_tabs) = (false, false, false);
        let (mut break_space, mut space_break) = (false, false);
        // What was before the current character.
        let (mut after_blank, mut after_space, mut after_break) = (true, false, false);
        let mut chars = text.chars().enumerate().peekable();
        while let Some((at, char)) = chars.next() {
            let before_blank = chars.peek().is_none_or(|(_, next)| matches!(next, ' ' | '\t'));
            has_indicators |= match char {
                ':' => before_blank,
                '?' | '-' => at == 0 && before_blank,
                '#' => after_blank,
                ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%'
                | '@' | '`' => at == 0,
                _ => false,
            };
            has_tabs |= char == '\t';
            has_special |= char != '\t' && !is_printable(char);
            let (is_space, is_break) = (char == ' ', is_line_break(char));
            break_space |= is_space && after_break;
            space_break |= is_break && after_space;
            has_breaks |= is_break;
            after_blank = is_space || is_break || matches!(char, '\t' | '\0');
            (after_space, after_break) = (is_space, is_break);
        }
        let is_blank = |char: char| char == ' ' || is_line_break(char);
        let at_edges = text.starts_with(is_blank) || text.ends_with(is_blank);
        let is_odd = space_break || has_tabs || has_special;
        Traits {
            plain_allowed: !(has_indicators || at_edges || is_odd || has_breaks),
            single_quoted_allowed: !(break_space || is_odd),
            block_allowed: !(text.ends_with(' ')
                || space_break
                || has_special
                || text.contains(['\u{2028}', '\u{2029}'])),
            is_multiline: has_breaks,
        }
    }
}

/// Whether a character may be written without an escape. yaml.v3 escapes all that take four bytes.
fn is_printable(char: char) -> bool {
    matches!(char, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && char != '\u{feff}'
}

fn is_line_break(char: char) -> bool {
    matches!(char, '\r' | '\n' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Writes a text in single quotes.
pub(super) fn write_single_quoted(text: &str, out: &mut String) {
    out.push('\'');
    out.push_str(&text.replace('\'', "''"));
    out.push('\'');
}

/// Writes a text in double quotes.
pub(super) fn write_double_quoted(text: &str, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        let short = match char {
            '\0' => '0',
            '\u{7}' => 'a',
            '\u{8}' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\u{b}' => 'v',
            '\u{c}' => 'f',
            '\r' => 'r',
            '\u{1b}' => 'e',
            '"' => '"',
            '\\' => '\\',
            '\u{85}' => 'N',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ if is_printable(char) => {
                out.push(char);
                continue;
            }
            _ => {
                out.push_str(&match u32::from(char) {
                    code @ ..=0xff => format!("\\x{code:02X}"),
                    code @ ..=0xffff => format!("\\u{code:04X}"),
                    code => format!("\\U{code:08X}"),
                });
                continue;
            }
        };
        out.push('\\');
        out.push(short);
    }
    out.push('"');
}

/// Writes a text as a block whose lines are indented by `indent`, below a node that is indented by
/// `parent`. Ends behind the last line break of the block, or behind the last line without one.
pub(super) fn write_literal(text: &str, parent: usize, indent: usize, out: &mut String) {
    out.push('|');
    if text.starts_with([' ', '\n']) {
        // Readers cannot tell the indentation from the first line.
        out.push_str(&(indent - parent).to_string());
    }
    if !text.ends_with('\n') {
        out.push('-');
    } else if text == "\n" || text.ends_with("\n\n") {
        out.push('+');
    }
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        out.push('\n');
        if !line.is_empty() {
            out.extend(std::iter::repeat_n(' ', indent));
            out.push_str(line);
        }
    }
}
