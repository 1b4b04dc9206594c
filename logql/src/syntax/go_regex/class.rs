//! Escapes and character classes.

use super::failure::{Code, failure};
use super::translate::{Translator, UNICODE_CLASS_COST};

/// A pattern that matches no character.
const NOTHING: &str = r"[^\x00-\x{10FFFF}]";
const ANYTHING: &str = r"[\x00-\x{10FFFF}]";

const POSIX_NAMES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct",
    "space", "upper", "word", "xdigit",
];

/// The inside of a class for `\d`, `\s`, `\w`: ASCII in Go, and `\s` lacks `\v`.
fn perl_class(letter: u8) -> Option<(&'static str, bool)> {
    Some(match letter {
        b'd' => ("0-9", false),
        b'D' => ("0-9", true),
        b's' => (r"\t\n\x0C\r\x20", false),
        b'S' => (r"\t\n\x0C\r\x20", true),
        b'w' => ("0-9A-Za-z_", false),
        b'W' => ("0-9A-Za-z_", true),
        _ => return None,
    })
}

impl<'a> Translator<'a> {
    /// A perl class escape at the current position, as a class of its own.
    pub(super) fn perl_class_escape(&mut self) -> Option<String> {
        let letter = *self.rest().as_bytes().get(1)?;
        let (inside, negated) = perl_class(letter)?;
        self.pos += 2;
        Some(format!("[{}{inside}]", if negated { "^" } else { "" }))
    }

    /// `\pL`, `\p{Greek}`, `\P{^Greek}` at the current position.
    pub(super) fn unicode_class(&mut self) -> Result<String, String> {
        let start = self.pos;
        let mut negated = self.rest().as_bytes()[1] == b'P';
        self.pos += 2;
        let name = match self.next_char() {
            Some('{') => {
                let Some(len) = self.rest().find('}') else {
                    return Err(failure(Code::InvalidCharRange, &self.src[start..]));
                };
                let name = &self.rest()[..len];
                self.pos += len + 1;
                name
            }
            Some(c) => &self.src[self.pos - c.len_utf8()..self.pos],
            None => "",
        };
        let written = &self.src[start..self.pos];
        let name = match name.strip_prefix('^') {
            Some(name) => {
                negated = !negated;
                name
            }
            None => name,
        };
        if !self.is_unicode_class(name) {
            return Err(failure(Code::InvalidCharRange, written));
        }
        Ok(format!(r"\{}{{{name}}}", if negated { 'P' } else { 'p' }))
    }

    fn is_unicode_class(&mut self, name: &'a str) -> bool {
        if self.known_classes.contains(name) {
            return true;
        }
        let plain =
            !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !plain || regex::bytes::Regex::new(&format!(r"\p{{{name}}}")).is_err() {
            return false;
        }
        self.known_classes.insert(name);
        true
    }

    /// An escape that stands for one code point, at the current position. The
    /// value can be a surrogate, which no text contains.
    pub(super) fn escape(&mut self) -> Result<u32, String> {
        let start = self.pos;
        self.pos += 1;
        let Some(c) = self.next_char() else {
            return Err(failure(Code::TrailingBackslash, ""));
        };
        let invalid = |this: &Self| Err(failure(Code::InvalidEscape, &this.src[start..this.pos]));
        let is_octal = |this: &Self| matches!(this.rest().as_bytes().first(), Some(b'0'..=b'7'));
        match c {
            '1'..='7' if !is_octal(self) => invalid(self),
            '0'..='7' => {
                let mut value = c as u32 - '0' as u32;
                for _ in 0..2 {
                    if !is_octal(self) {
                        break;
                    }
                    value = value * 8 + u32::from(self.rest().as_bytes()[0] - b'0');
                    self.pos += 1;
                }
                Ok(value)
            }
            'x' => {
                let Some(first) = self.next_char() else { return invalid(self) };
                if first == '{' {
                    let mut value = 0;
                    let mut digits = 0;
                    loop {
                        let Some(c) = self.next_char() else { return invalid(self) };
                        if c == '}' {
                            break;
                        }
                        let Some(digit) = c.to_digit(16) else { return invalid(self) };
                        value = value * 16 + digit;
                        digits += 1;
                        if value > char::MAX as u32 {
                            return invalid(self);
                        }
                    }
                    return if digits == 0 { invalid(self) } else { Ok(value) };
                }
                let second = self.next_char();
                match (first.to_digit(16), second.and_then(|c| c.to_digit(16))) {
                    (Some(high), Some(low)) => Ok(high * 16 + low),
                    _ => invalid(self),
                }
            }
            'a' => Ok(7),
            'f' => Ok(12),
            'n' => Ok(10),
            'r' => Ok(13),
            't' => Ok(9),
            'v' => Ok(11),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() && c != '_' => Ok(c as u32),
            // Go takes an escaped underscore for itself as well.
            '_' => Ok('_' as u32),
            _ => invalid(self),
        }
    }

    /// A bracketed class at the current position; returns it with the number of
    /// its parts.
    pub(super) fn class(&mut self) -> Result<(String, u64), String> {
        let start = self.pos;
        let whole = self.rest();
        self.pos += 1;
        let negated = self.rest().starts_with('^');
        if negated {
            self.pos += 1;
        }
        let mut items = String::new();
        let mut parts = 0;
        let mut first = true;
        while first || !self.rest().starts_with(']') {
            first = false;
            parts += 1;
            if self.rest().starts_with("[:")
                && let Some(len) = self.rest()[2..].find(":]")
            {
                let written = &self.rest()[..len + 4];
                let name = &written[2..len + 2];
                if !POSIX_NAMES.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    return Err(failure(Code::InvalidCharRange, written));
                }
                items.push_str(written);
                self.pos += written.len();
                continue;
            }
            if self.rest().starts_with(r"\p") || self.rest().starts_with(r"\P") {
                items.push_str(&self.unicode_class()?);
                parts += UNICODE_CLASS_COST / 2;
                continue;
            }
            if self.rest().starts_with('\\')
                && let Some(class) = self.perl_class_escape()
            {
                items.push_str(&class);
                continue;
            }
            let range_start = self.pos;
            let low = self.class_char(whole)?;
            let mut high = low;
            let rest = self.rest().as_bytes();
            if rest.len() >= 2 && rest[0] == b'-' && rest[1] != b']' {
                self.pos += 1;
                high = self.class_char(whole)?;
                if high < low {
                    let written = &self.src[range_start..self.pos];
                    return Err(failure(Code::InvalidCharRange, written));
                }
            }
            push_range(&mut items, low, high);
        }
        self.pos += 1;
        debug_assert!(self.pos > start);
        Ok(match (items.is_empty(), negated) {
            (true, false) => (NOTHING.to_owned(), parts),
            (true, true) => (ANYTHING.to_owned(), parts),
            (false, false) => (format!("[{items}]"), parts),
            (false, true) => (format!("[^{items}]"), parts),
        })
    }

    fn class_char(&mut self, whole: &str) -> Result<u32, String> {
        if self.rest().is_empty() {
            return Err(failure(Code::MissingBracket, whole));
        }
        if self.rest().starts_with('\\') {
            return self.escape();
        }
        Ok(self.next_char().map_or(0, |c| c as u32))
    }
}

/// Appends the code points `low..=high` except surrogates, which no text holds.
fn push_range(items: &mut String, low: u32, high: u32) {
    let low = if (0xD800..=0xDFFF).contains(&low) { 0xE000 } else { low };
    let high = if (0xD800..=0xDFFF).contains(&high) { 0xD7FF } else { high };
    if low > high {
        return;
    }
    items.push_str(&code_point(low));
    if high > low {
        items.push('-');
        items.push_str(&code_point(high));
    }
}

/// A code point that no dialect can misread, inside a class or outside.
fn code_point(value: u32) -> String {
    match char::from_u32(value) {
        Some(c) if c.is_ascii_alphanumeric() => c.to_string(),
        _ => format!(r"\x{{{value:X}}}"),
    }
}

/// The pattern for one literal code point.
pub(super) fn literal(value: u32) -> String {
    if (0xD800..=0xDFFF).contains(&value) { NOTHING.to_owned() } else { code_point(value) }
}
