//! Byte sizes with 1024-based units, as configured and as printed in messages.

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
}
