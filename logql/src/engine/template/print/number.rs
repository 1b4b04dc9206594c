//! Integers and floats.

use super::{Printer, Value};

/// Digits after which a float has nothing but zeros.
const MAX_FLOAT_DIGITS: usize = 1100;

/// What a float takes that is put together, in lengths of its digits.
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

/// Go's `strconv.FormatFloat` for 64 bits; `None` is the shortest precision.
fn format_float(value: f64, format: char, precision: Option<usize>) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let magnitude = value.abs();
    let text = match format {
        'f' => plain(magnitude, precision),
        'e' | 'E' => scientific(magnitude, precision, format),
        'b' => binary(magnitude),
        'x' | 'X' => hexadecimal(magnitude, precision, format),
        _ => general(magnitude, precision, format),
    };
    format!("{sign}{text}")
}

fn plain(value: f64, precision: Option<usize>) -> String {
    let Some(precision) = precision else { return format!("{value}") };
    let exact = precision.min(MAX_FLOAT_DIGITS);
    let mut text = format!("{value:.exact$}");
    text.extend(std::iter::repeat_n('0', precision - exact));
    text
}

/// Digits with one in front of the point, and the exponent.
fn digits_of(value: f64, precision: Option<usize>) -> (String, i32) {
    let text = match precision {
        None => format!("{value:e}"),
        Some(precision) => {
            let exact = precision.min(MAX_FLOAT_DIGITS);
            format!("{value:.exact$e}")
        }
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

fn with_exponent(digits: &str, exponent: i32, letter: char) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{rest}{letter}{sign}{:02}", exponent.abs())
}

fn scientific(value: f64, precision: Option<usize>, letter: char) -> String {
    let (mut digits, exponent) = digits_of(value, precision);
    if let Some(precision) = precision {
        let missing = (precision + 1).saturating_sub(digits.len());
        digits.extend(std::iter::repeat_n('0', missing));
    }
    with_exponent(&digits, exponent, letter)
}

/// `%g`: an exponent below 1e-4 and from 10^precision on (10^6 for the shortest
/// form, or as many digits as an integer has), without trailing zeros.
fn general(value: f64, precision: Option<usize>, format: char) -> String {
    let wanted = precision.map(|precision| precision.max(1));
    let (digits, exponent) = digits_of(value, wanted.map(|digits| digits - 1));
    let trimmed = digits.trim_end_matches('0');
    let digits = if trimmed.is_empty() { "0" } else { trimmed };
    let mut limit = wanted.map_or(6, |wanted| i32::try_from(wanted).unwrap_or(i32::MAX));
    let len = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    if wanted.is_some() && limit > len && len > exponent {
        limit = len;
    }
    if value != 0.0 && (exponent < -4 || exponent >= limit) {
        let letter = if format == 'G' { 'E' } else { 'e' };
        return with_exponent(digits, exponent, letter);
    }
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    if exponent < 0 {
        return format!("0.{}{digits}", zeros(-exponent - 1));
    }
    let whole = exponent + 1;
    if len <= whole {
        return format!("{digits}{}", zeros(whole - len));
    }
    let (whole, fraction) = digits.split_at(usize::try_from(whole).unwrap_or(0));
    format!("{whole}.{fraction}")
}

/// Mantissa and exponent of a float as integers: `value = mantissa * 2^exponent`.
fn parts(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let exponent = i32::try_from(bits >> 52 & 0x7ff).expect("11 bits");
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

/// `%b`: `4503599627370496p-52`
fn binary(value: f64) -> String {
    let (mantissa, exponent) = parts(value);
    format!("{mantissa}p{exponent:+}")
}

/// `%x`: `0x1.8p+01`
fn hexadecimal(value: f64, precision: Option<usize>, format: char) -> String {
    let (mut mantissa, mut exponent) = parts(value);
    if mantissa == 0 {
        exponent = 0;
    } else {
        // One bit in front of the point and 60 behind it.
        let shift = mantissa.leading_zeros() - 3;
        mantissa <<= shift;
        exponent += 60 - i32::try_from(shift).expect("less than 64");
    }
    if let Some(precision) = precision.filter(|precision| *precision < 15) {
        let dropped = 60 - 4 * precision;
        let half = 1u64 << (dropped - 1);
        let rest = mantissa & ((1 << dropped) - 1);
        mantissa >>= dropped;
        if rest > half || (rest == half && mantissa & 1 == 1) {
            mantissa += 1;
        }
        mantissa <<= dropped;
        if mantissa >> 61 != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let mut fraction = format!("{:015x}", mantissa & ((1 << 60) - 1));
    match precision {
        None => fraction.truncate(fraction.trim_end_matches('0').len()),
        Some(precision) => {
            fraction.truncate(precision);
            fraction.extend(std::iter::repeat_n('0', precision - fraction.len()));
        }
    }
    let point = if fraction.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    let text = format!("0x{}{point}{fraction}p{sign}{:02}", mantissa >> 60, exponent.abs());
    if format == 'X' { text.to_uppercase() } else { text }
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
