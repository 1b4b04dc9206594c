//! `printf`: Go's `fmt.Sprintf` with its complaints about bad formats.

use super::{Printer, Spec, Value};
use crate::engine::template::out::Out;

/// Widths and precisions beyond this are not numbers.
const MAX_NUMBER: i64 = 1_000_000;

/// Prints `values` as `format` says.
///
/// # Errors
/// When the output becomes too long. A bad format is no error: the output names
/// the fault.
pub(in super::super) fn sprintf(
    out: &mut Out<'_>,
    format: &[u8],
    values: &[Value<'_>],
) -> Result<(), String> {
    let mut state = Format { format, position: 0, values, next: 0, reordered: false, good: true };
    let mut printer = Printer::new(out);
    while state.position < format.len() {
        let rest = &format[state.position..];
        let plain = memchr::memchr(b'%', rest).unwrap_or(rest.len());
        printer.out.push(&rest[..plain])?;
        state.position += plain;
        if state.position < format.len() {
            state.position += 1;
            state.verb(&mut printer)?;
        }
    }
    if !state.reordered && state.next < values.len() {
        printer.spec = Spec::default();
        printer.out.push(b"%!(EXTRA ")?;
        for (i, value) in values[state.next..].iter().enumerate() {
            if i > 0 {
                printer.out.push(b", ")?;
            }
            let value = value.clone().unwrapped();
            if !matches!(value, Value::Nothing) {
                printer.out.push(value.type_name().as_bytes())?;
                printer.out.push(b"=")?;
            }
            printer.print_arg(&value, 'v')?;
        }
        printer.out.push(b")")?;
    }
    Ok(())
}

struct Format<'f, 'v> {
    format: &'f [u8],
    position: usize,
    values: &'f [Value<'v>],
    /// The operand whose turn it is.
    next: usize,
    /// True once an operand was chosen by its number.
    reordered: bool,
    /// False when such a number was bad.
    good: bool,
}

impl Format<'_, '_> {
    fn peek(&self) -> Option<u8> {
        self.format.get(self.position).copied()
    }

    fn verb(&mut self, printer: &mut Printer<'_, '_>) -> Result<(), String> {
        self.good = true;
        let mut spec = Spec::default();
        while let Some(byte) = self.peek() {
            match byte {
                b'#' => spec.sharp = true,
                b'0' => spec.zero = true,
                b'+' => spec.plus = true,
                b'-' => spec.minus = true,
                b' ' => spec.space = true,
                _ => break,
            }
            self.position += 1;
        }
        let mut after_index = self.argument_number();
        if self.peek() == Some(b'*') {
            self.position += 1;
            match self.int_argument() {
                Some(width) => {
                    if width < 0 {
                        spec.minus = true;
                        spec.zero = false;
                    }
                    spec.width = usize::try_from(width.unsigned_abs()).ok();
                }
                None => printer.out.push(b"%!(BADWIDTH)")?,
            }
            after_index = false;
        } else {
            spec.width = self.number();
            if after_index && spec.width.is_some() {
                self.good = false;
            }
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            if after_index {
                self.good = false;
            }
            after_index = self.argument_number();
            if self.peek() == Some(b'*') {
                self.position += 1;
                spec.precision = self.int_argument().and_then(|p| usize::try_from(p).ok());
                if spec.precision.is_none() {
                    printer.out.push(b"%!(BADPREC)")?;
                }
                after_index = false;
            } else {
                spec.precision = Some(self.number().unwrap_or(0));
            }
        }
        if !after_index {
            self.argument_number();
        }
        let Some(verb) = self.character() else { return printer.out.push(b"%!(NOVERB)") };
        let complain = |printer: &mut Printer<'_, '_>, what: &[u8]| {
            printer.out.push(b"%!")?;
            printer.out.push_char(verb)?;
            printer.out.push(what)
        };
        if verb == '%' {
            return printer.out.push(b"%");
        }
        if !self.good {
            return complain(printer, b"(BADINDEX)");
        }
        let Some(value) = self.values.get(self.next) else {
            return complain(printer, b"(MISSING)");
        };
        self.next += 1;
        if verb == 'v' {
            (spec.sharp_v, spec.sharp) = (spec.sharp, false);
            // The flag asks for the field names of structs, of which there are none.
            spec.plus = false;
        }
        printer.spec = spec;
        printer.print_arg(&value.clone().unwrapped(), verb)
    }

    fn character(&mut self) -> Option<char> {
        let rest = self.format.get(self.position..)?;
        let chunk = rest[..rest.len().min(4)].utf8_chunks().next()?;
        match chunk.valid().chars().next() {
            Some(c) => {
                self.position += c.len_utf8();
                Some(c)
            }
            None => {
                self.position += 1;
                Some(char::REPLACEMENT_CHARACTER)
            }
        }
    }

    /// A decimal number. One that is too large uses up the format.
    fn number(&mut self) -> Option<usize> {
        let mut number: Option<i64> = None;
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            let value = number.unwrap_or(0);
            if value > MAX_NUMBER {
                self.position = self.format.len();
                return None;
            }
            number = Some(value * 10 + i64::from(digit - b'0'));
            self.position += 1;
        }
        usize::try_from(number?).ok()
    }

    /// The operand at hand as a width or precision.
    fn int_argument(&mut self) -> Option<i64> {
        let value = self.values.get(self.next)?.clone().unwrapped();
        self.next += 1;
        value.as_int().filter(|number| (-MAX_NUMBER..=MAX_NUMBER).contains(number))
    }

    /// `[n]`: chooses the next operand. True when there was a number.
    fn argument_number(&mut self) -> bool {
        if self.peek() != Some(b'[') {
            return false;
        }
        self.reordered = true;
        let inside = &self.format[self.position + 1..];
        let Some(len) = memchr::memchr(b']', inside).filter(|_| inside.len() >= 2) else {
            self.position += 1;
            self.good = false;
            return false;
        };
        self.position += len + 2;
        let digits = &inside[..len];
        let number = std::str::from_utf8(digits)
            .ok()
            .filter(|_| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
            .and_then(|text| text.parse::<usize>().ok());
        match number {
            Some(number) if (1..=self.values.len()).contains(&number) => {
                self.next = number - 1;
                true
            }
            Some(_) => {
                self.good = false;
                true
            }
            None => {
                self.good = false;
                false
            }
        }
    }
}
