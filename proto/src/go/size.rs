//! Byte sizes, in three notations: of settings and messages (`256KB` is 256 * 1024 bytes), of
//! queries (`5KB` and `5KiB`), and of label values, which people wrote (`1.5 KiB`, `1,024 kb`).

use std::fmt::Write;

use super::float::parse_float;

/// Units of a size in settings.
const UNITS: [(&str, u64); 6] = [
    ("EB", 1 << 60),
    ("PB", 1 << 50),
    ("TB", 1 << 40),
    ("GB", 1 << 30),
    ("MB", 1 << 20),
    ("KB", 1 << 10),
];

/// Prints a size in the largest unit that divides it: `600B`, `1KB`, `3MB`.
pub fn format_byte_size(size_bytes: u64) -> String {
    let unit =
        UNITS.iter().find(|(_, factor)| size_bytes > 0 && size_bytes.is_multiple_of(*factor));
    match unit {
        Some((name, factor)) => format!("{}{name}", size_bytes / factor),
        None => format!("{size_bytes}B"),
    }
}

/// Reads a whole number with an optional unit out of `B K KB KiB M MB MiB ...`,
/// in any letter case. `None` for anything else and for sizes beyond 64 bits.
pub fn parse_byte_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let unit = unit.trim_start().to_ascii_uppercase();
    let factor = match unit.as_str() {
        "" | "B" => 1,
        unit => {
            let prefix = unit.strip_suffix("IB").or(unit.strip_suffix('B')).unwrap_or(unit);
            UNITS.iter().find(|(name, _)| prefix.len() == 1 && name.starts_with(prefix))?.1
        }
    };
    number.checked_mul(factor)
}

/// Units of a byte size in a query and their factors. `E` and `EB` are missing:
/// the number scanner takes the letter for an exponent.
const BYTE_UNITS: [(&str, u64); 25] = [
    ("B", 1),
    ("k", 1_000),
    ("K", 1_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("M", 1_000_000),
    ("MB", 1_000_000),
    ("G", 1_000_000_000),
    ("GB", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("TB", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("ki", 1 << 10),
    ("Ki", 1 << 10),
    ("kiB", 1 << 10),
    ("KiB", 1 << 10),
    ("Mi", 1 << 20),
    ("MiB", 1 << 20),
    ("Gi", 1 << 30),
    ("GiB", 1 << 30),
    ("Ti", 1 << 40),
    ("TiB", 1 << 40),
    ("Pi", 1 << 50),
    ("PiB", 1 << 50),
];

/// Reads a byte size of a query: a decimal number and a unit, in bytes. The
/// product is truncated toward zero and ends at `u64::MAX`.
#[must_use]
pub fn parse_query_bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (_, factor) = BYTE_UNITS.iter().find(|(unit, _)| *unit == &text[end..])?;
    let value = parse_float(&text[..end]).ok()?;
    Some((value * *factor as f64) as u64)
}

/// Appends a byte size: SI with at most one decimal where that is exact, else
/// the largest binary unit that divides it, else plain bytes. Queries write sizes
/// up to `u64::MAX`, with a sign or without.
pub fn write_query_bytes(out: &mut String, value: i128) {
    if value < 0 {
        out.push('-');
    }
    let value = u64::try_from(value.unsigned_abs()).unwrap_or(u64::MAX);
    let mut text = String::new();
    if value < 10 {
        write!(text, "{value}B").expect("writing to a String succeeds");
    } else {
        let exponent = (value as f64).ln() / 1000f64.ln();
        let exponent = (exponent.floor() as usize).min(5);
        let unit = ["B", "kB", "MB", "GB", "TB", "PB"][exponent];
        let scaled = value as f64 / 1000f64.powi(exponent as i32);
        let scaled = (scaled * 10.0 + 0.5).floor() / 10.0;
        let decimals = usize::from(scaled < 10.0);
        write!(text, "{scaled:.decimals$}{unit}").expect("writing to a String succeeds");
    }
    if parse_query_bytes(&text) != Some(value) {
        text.clear();
        let units = [("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10), ("B", 0)];
        let (unit, shift) = units
            .into_iter()
            .find(|(_, shift)| value.is_multiple_of(1 << shift))
            .expect("every value is a multiple of one");
        write!(text, "{}{unit}", value >> shift).expect("writing to a String succeeds");
    }
    out.push_str(&text);
}

/// Units of a humanised byte size, lower case.
const HUMANIZED_UNITS: [(&[&str], u64); 13] = [
    (&["", "b"], 1),
    (&["k", "kb"], 1_000),
    (&["m", "mb"], 1_000_000),
    (&["g", "gb"], 1_000_000_000),
    (&["t", "tb"], 1_000_000_000_000),
    (&["p", "pb"], 1_000_000_000_000_000),
    (&["e", "eb"], 1_000_000_000_000_000_000),
    (&["ki", "kib"], 1 << 10),
    (&["mi", "mib"], 1 << 20),
    (&["gi", "gib"], 1 << 30),
    (&["ti", "tib"], 1 << 40),
    (&["pi", "pib"], 1 << 50),
    (&["ei", "eib"], 1 << 60),
];

/// Reads a humanised byte size such as `1.5 KiB`, in bytes.
///
/// # Errors
/// The message of the failed number, `unhandled size name: x`, or `too large: x`.
pub fn parse_humanized_bytes(text: &str) -> Result<u64, String> {
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ',')).unwrap_or(text.len());
    let number = match &text[..end] {
        digits if digits.contains(',') => parse_float(&digits.replace(',', ""))?,
        digits => parse_float(digits)?,
    };
    let unit = text[end..].trim();
    let is_unit = |name: &&str| name.eq_ignore_ascii_case(unit);
    let known = HUMANIZED_UNITS.iter().find(|(names, _)| names.iter().any(is_unit));
    let Some((_, factor)) = known else {
        return Err(format!("unhandled size name: {}", unit.to_lowercase()));
    };
    let size = number * *factor as f64;
    if size >= u64::MAX as f64 {
        return Err(format!("too large: {text}"));
    }
    Ok(size as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_in_the_largest_exact_unit() {
        let cases = [(0, "0B"), (600, "600B"), (1024, "1KB"), (1536, "1536B"), (3 << 20, "3MB")];
        for (size_bytes, text) in cases {
            assert_eq!(format_byte_size(size_bytes), text);
            assert_eq!(parse_byte_size(text), Some(size_bytes));
        }
        assert_eq!(format_byte_size(u64::MAX), "18446744073709551615B");
    }

    #[test]
    fn sizes_are_read_with_any_unit() {
        let cases = [
            ("100", Some(100)),
            ("256kb", Some(256 << 10)),
            ("4 MiB", Some(4 << 20)),
            ("2G", Some(2 << 30)),
            ("16EB", None),
            ("15EB", Some(15 << 60)),
            ("", None),
            ("MB", None),
            ("1.5MB", None),
            ("5XB", None),
            ("-1", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_byte_size(text), expected, "{text}");
        }
    }

    #[test]
    fn sizes_of_queries_are_printed_as_they_are_read() {
        for (text, value, printed) in [
            ("20B", 20, "20B"),
            ("0B", 0, "0B"),
            ("5000B", 5000, "5.0kB"),
            ("10KB", 10_000, "10kB"),
            ("1.9B", 1, "1B"),
            ("1.5KiB", 1536, "1536B"),
            ("5KiB", 5120, "5KiB"),
            ("5ki", 5120, "5KiB"),
            ("3GB", 3_000_000_000, "3.0GB"),
            ("1.5M", 1_500_000, "1.5MB"),
            ("1024PiB", 1 << 60, "1024PiB"),
            ("99999999PB", u64::MAX, "18447PB"),
        ] {
            assert_eq!(parse_query_bytes(text), Some(value), "{text}");
            let mut out = String::new();
            write_query_bytes(&mut out, value.into());
            assert_eq!(out, printed);
            assert_eq!(parse_query_bytes(&out), Some(value), "{out}");
            let mut negative = String::new();
            write_query_bytes(&mut negative, -i128::from(value));
            let sign = if value == 0 { "" } else { "-" };
            assert_eq!(negative, format!("{sign}{printed}"));
        }
        for text in ["5kb", "5", "1.2.3B", "B", "5iB", ".B", "5E"] {
            assert_eq!(parse_query_bytes(text), None, "{text}");
        }
    }
}
