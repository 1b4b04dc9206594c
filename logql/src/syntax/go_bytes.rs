//! Byte sizes as queries write them.

use std::fmt::Write;

use super::go_float::parse_float;

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
pub(crate) fn parse_query_bytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (_, factor) = BYTE_UNITS.iter().find(|(unit, _)| *unit == &text[end..])?;
    let value = parse_float(&text[..end]).ok()?;
    Some((value * *factor as f64) as u64)
}

/// Appends a byte size: SI with at most one decimal where that is exact, else
/// the largest binary unit that divides it, else plain bytes. Queries write sizes
/// up to `u64::MAX`, with a sign or without.
pub(crate) fn write_bytes(out: &mut String, value: i128) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_sizes() {
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
            write_bytes(&mut out, value.into());
            assert_eq!(out, printed);
            assert_eq!(parse_query_bytes(&out), Some(value), "{out}");
            let mut negative = String::new();
            write_bytes(&mut negative, -i128::from(value));
            let sign = if value == 0 { "" } else { "-" };
            assert_eq!(negative, format!("{sign}{printed}"));
        }
        for text in ["5kb", "5", "1.2.3B", "B", "5iB", ".B", "5E"] {
            assert_eq!(parse_query_bytes(text), None, "{text}");
        }
    }
}
