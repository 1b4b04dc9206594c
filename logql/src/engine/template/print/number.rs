//! Integers and floats.

use logsvc_proto::go::float::format_float;

use super::{Printer, Value};

/// Bytes that printing a float takes, in lengths of its digits.
const FLOAT_FACTOR: usize = 8;

impl Printer<'_, '_> {
    pub(super) fn print_int(
        &mut self,
        value: &Value<'_>,
        number: i64,
        verb: char,
    ) -> Result<(), String> {
        match verb {
            'v' if self.spec.sharp_v && matches!(value, Value::Byte(_)) => {
                self.spec.sharp = true;
                let result = self.print_digits(number, 16, 'v');
                self.spec.sharp = false;
                result
            }
            'v' | 'd' => self.print_digits(number, 10, verb),
            'b' => self.print_digits(number, 2, verb),
            'o' | 'O' => self.print_digits(number, 8, verb),
            'x' | 'X' => self.print_digits(number, 16, verb),
            'c' => self.print_character(number),
            'q' => self.print_quoted_character(number),
            'U' => self.print_code_point(number as u64),
            _ => self.bad_verb(value, verb),
        }
    }

    fn print_digits(&mut self, number: i64, base: u32, verb: char) -> Result<(), String> {
        let magnitude = number.unsigned_abs();
        let sign = match number {
            i64::MIN..0 => "-",
            _ if self.spec.plus => "+",
            _ if self.spec.space => " ",
            _ => "",
        };
        let wanted = match (self.spec.precision, self.spec.width) {
            (Some(0), width) if number == 0 => {
                return self.without_zero(|printer| printer.fill(width.unwrap_or(0)));
            }
            (Some(precision), _) => precision,
            (None, Some(width)) if self.spec.zero && !self.spec.minus => {
                width.saturating_sub(sign.len())
            }
            _ => 0,
        };
        let digits = match base {
            2 => format!("{magnitude:b}"),
            8 => format!("{magnitude:o}"),
            16 if verb == 'X' => format!("{magnitude:X}"),
            16 => format!("{magnitude:x}"),
            _ => magnitude.to_string(),
        };
        let zeros = wanted.saturating_sub(digits.len());
        let prefix = match base {
            _ if verb == 'O' => "0o",
            2 if self.spec.sharp => "0b",
            8 if self.spec.sharp && zeros == 0 && !digits.starts_with('0') => "0",
            16 if self.spec.sharp && verb == 'X' => "0X",
            16 if self.spec.sharp => "0x",
            _ => "",
        };
        // Precision and width are at most a million each.
        let _held = self.out.hold(zeros + digits.len() + 3)?;
        let mut text = Vec::with_capacity(zeros + digits.len() + 3);
        text.extend_from_slice(sign.as_bytes());
        text.extend_from_slice(prefix.as_bytes());
        text.resize(text.len() + zeros, b'0');
        text.extend_from_slice(digits.as_bytes());
        self.without_zero(|printer| printer.pad(&text))
    }

    /// `(1+2i)`, each part under the same flags, width and precision.
    pub(super) fn print_complex(
        &mut self,
        value: &Value<'_>,
        (real, imaginary): (f64, f64),
        verb: char,
    ) -> Result<(), String> {
        if !matches!(verb, 'v' | 'b' | 'g' | 'G' | 'x' | 'X' | 'f' | 'F' | 'e' | 'E') {
            return self.bad_verb(value, verb);
        }
        self.out.push(b"(")?;
        self.print_float(value, real, verb)?;
        let plus = std::mem::replace(&mut self.spec.plus, true);
        let printed = self.print_float(value, imaginary, verb);
        self.spec.plus = plus;
        printed?;
        self.out.push(b"i)")
    }

    pub(super) fn print_float(
        &mut self,
        value: &Value<'_>,
        number: f64,
        verb: char,
    ) -> Result<(), String> {
        let (format, precision) = match verb {
            'v' => ('g', None),
            'g' | 'G' | 'b' | 'x' | 'X' => (verb, None),
            'f' | 'F' => ('f', Some(6)),
            'e' | 'E' => (verb, Some(6)),
            _ => return self.bad_verb(value, verb),
        };
        let precision = self.spec.precision.or(precision);
        // Put together from parts, each of them of about the whole length.
        let _held = self.out.hold(FLOAT_FACTOR * precision.unwrap_or(0))?;
        let mut text = format_float(number, format, precision);
        if self.spec.sharp && !matches!(verb, 'b' | 'v') && number.is_finite() {
            text = with_point(text, format, precision);
        }
        // The sign always comes first; it is left out at the end.
        if !text.starts_with(['-', '+']) {
            text.insert(0, '+');
        }
        if self.spec.space && text.starts_with('+') && !self.spec.plus {
            text.replace_range(..1, " ");
        }
        if !number.is_finite() {
            if number.is_nan() && !self.spec.space && !self.spec.plus {
                text.remove(0);
            }
            return self.without_zero(|printer| printer.pad(text.as_bytes()));
        }
        if !self.spec.plus && text.starts_with('+') {
            return self.pad(&text.as_bytes()[1..]);
        }
        match self.spec.width {
            // The sign stands in front of the zeros.
            Some(width) if self.spec.zero && !self.spec.minus && width > text.len() => {
                self.out.push(&text.as_bytes()[..1])?;
                self.fill(width - text.len())?;
                self.out.push(&text.as_bytes()[1..])
            }
            _ => self.pad(text.as_bytes()),
        }
    }
}

/// The effect of `#`: always a point, and `%g` keeps its trailing zeros.
fn with_point(text: String, format: char, precision: Option<usize>) -> String {
    let is_hex = matches!(format, 'x' | 'X');
    let at = text.find(if is_hex { ['p', 'P'] } else { ['e', 'E'] }).unwrap_or(text.len());
    let (mut mantissa, tail) = (text[..at].to_owned(), &text[at..]);
    let has_point = mantissa.contains('.');
    if !has_point {
        mantissa.push('.');
    }
    if matches!(format, 'g' | 'G') {
        let wanted = precision.unwrap_or(6).max(1);
        let digits = mantissa.chars().filter(char::is_ascii_digit);
        let significant = digits.skip_while(|c| *c == '0').count();
        mantissa.extend(std::iter::repeat_n('0', wanted.saturating_sub(significant.max(1))));
    }
    format!("{mantissa}{tail}")
}
