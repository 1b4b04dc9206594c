//! Strings, quotes, hexadecimal and characters.

use super::{Printer, Value};
use crate::engine::meter::Meter;
use logsvc_proto::go::quote::{is_printable, quoted_bytes, write_quoted_char};

impl Printer<'_, '_> {
    pub(super) fn print_text(
        &mut self,
        value: &Value<'_>,
        text: &[u8],
        verb: char,
    ) -> Result<(), String> {
        match verb {
            'v' if self.spec.sharp_v => self.print_quoted(text),
            'v' | 's' => {
                let text = self.truncated(text);
                self.pad_text(text)
            }
            'q' => self.print_quoted(text),
            'x' => self.print_hex(text, b"0123456789abcdef", b'x'),
            'X' => self.print_hex(text, b"0123456789ABCDEF", b'X'),
            _ => self.bad_verb(value, verb),
        }
    }

    /// The first characters, as many as the precision says.
    fn truncated<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let Some(precision) = self.spec.precision else { return text };
        &text[..rune_offset(text, precision)]
    }

    fn print_quoted(&mut self, text: &[u8]) -> Result<(), String> {
        let text = self.truncated(text);
        let _held = self.out.hold(quoting_bytes(text, self.spec.plus))?;
        if self.spec.sharp && can_backquote(text) {
            return self.pad(&[b"`", text, b"`"].concat());
        }
        let quoted = if self.spec.plus { quote_ascii(text, '"') } else { quoted_bytes(text) };
        self.pad(quoted.as_bytes())
    }

    fn print_hex(&mut self, text: &[u8], digits: &[u8; 16], x: u8) -> Result<(), String> {
        let text = &text[..self.spec.precision.unwrap_or(text.len()).min(text.len())];
        let wanted = self.spec.width.unwrap_or(0);
        if text.is_empty() {
            return self.fill(wanted);
        }
        let prefixes = match (self.spec.sharp, self.spec.space) {
            (true, true) => text.len(),
            (true, false) => 1,
            (false, _) => 0,
        };
        let spaces = if self.spec.space { text.len() - 1 } else { 0 };
        let missing = wanted.saturating_sub(2 * text.len() + 2 * prefixes + spaces);
        if !self.spec.minus {
            self.fill(missing)?;
        }
        for (i, byte) in text.iter().enumerate() {
            if i > 0 && self.spec.space {
                self.out.push(b" ")?;
            }
            if i < prefixes {
                self.out.push(&[b'0', x])?;
            }
            self.out.push(&[digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]])?;
        }
        if self.spec.minus { self.fill(missing) } else { Ok(()) }
    }

    /// `%c`
    pub(super) fn print_character(&mut self, code: i64) -> Result<(), String> {
        let c = character(code);
        self.pad(c.encode_utf8(&mut [0; 4]).as_bytes())
    }

    /// `%q` of a number.
    pub(super) fn print_quoted_character(&mut self, code: i64) -> Result<(), String> {
        let c = character(code);
        let mut buffer = [0; 4];
        let text = c.encode_utf8(&mut buffer).as_bytes();
        let quoted = match c {
            '"' => "'\"'".to_owned(),
            _ if self.spec.plus && c != '\'' => quote_ascii(text, '\''),
            _ => {
                let mut quoted = String::new();
                write_quoted_char(c, &mut quoted);
                quoted
            }
        };
        self.pad(quoted.as_bytes())
    }

    /// `%U`
    pub(super) fn print_code_point(&mut self, code: u64) -> Result<(), String> {
        let digits = self.spec.precision.filter(|p| *p > 4).unwrap_or(4);
        let number = format!("{code:X}");
        let mut text = Vec::from(&b"U+"[..]);
        // Few bytes, but for the zeros.
        let _held = self.out.hold(2 * digits)?;
        let unlimited = Meter::default();
        let mut out = super::Out::new(&mut text, 1 << 20, &unlimited);
        out.fill(b'0', digits.saturating_sub(number.len()))?;
        out.push(number.as_bytes())?;
        let c = u32::try_from(code).ok().and_then(char::from_u32);
        if self.spec.sharp
            && let Some(c) = c
            && is_printable(c)
        {
            text.extend_from_slice(format!(" '{c}'").as_bytes());
        }
        self.without_zero(|printer| printer.pad(&text))
    }
}

/// Bytes that quoting a text may take: in a list that doubles if there is something to escape,
/// and once more in ASCII.
fn quoting_bytes(text: &[u8], is_ascii: bool) -> usize {
    let quoted_len = |byte: &u8| match byte {
        b'"' | b'\\' => 2,
        b' '..=b'~' => 1,
        _ => 4,
    };
    let len_bytes = 2 + text.iter().map(quoted_len).sum::<usize>();
    let grows = len_bytes > text.len() + 2;
    len_bytes * if grows { 3 } else { 1 } + len_bytes * if is_ascii { 3 } else { 0 }
}

fn character(code: i64) -> char {
    u32::try_from(code).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Offset in bytes behind the first `count` characters.
pub(in super::super) fn rune_offset(text: &[u8], count: usize) -> usize {
    let mut left = count;
    let mut offset = 0;
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            if left == 0 {
                return offset;
            }
            left -= 1;
            offset += c.len_utf8();
        }
        let passed = left.min(chunk.invalid().len());
        offset += passed;
        left -= passed;
        if passed < chunk.invalid().len() {
            return offset;
        }
    }
    offset
}

fn can_backquote(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| {
        !text
            .chars()
            .any(|c| c == '`' || c == '\u{feff}' || c == '\u{7f}' || (c < ' ' && c != '\t'))
    })
}

/// Go's `strconv.QuoteToASCII`.
fn quote_ascii(text: &[u8], delimiter: char) -> String {
    let quoted = quoted_bytes(text);
    let mut out = String::from(delimiter);
    for c in quoted[1..quoted.len() - 1].chars() {
        let code = c as u32;
        match code {
            0..=0x7f => out.push(c),
            0x80..=0xffff => out.push_str(&format!("\\u{code:04x}")),
            _ => out.push_str(&format!("\\U{code:08x}")),
        }
    }
    out.push(delimiter);
    out
}
