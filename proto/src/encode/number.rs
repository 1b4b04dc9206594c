//! Sample times and values.

use std::io::Write;

/// Appends a time as Unix seconds with up to three decimals and no trailing
/// zeros: `1795224780`, `1795224780.5`.
pub fn write_sample_time_ms(unix_ms: i64, out: &mut Vec<u8>) {
    if unix_ms < 0 {
        out.push(b'-');
    }
    let magnitude_ms = unix_ms.unsigned_abs();
    out.extend_from_slice(itoa::Buffer::new().format(magnitude_ms / 1000).as_bytes());
    let millis = (magnitude_ms % 1000) as u16;
    if millis > 0 {
        write!(out, ".{millis:03}").expect("a Vec takes all");
        while out.last() == Some(&b'0') {
            out.pop();
        }
    }
}

/// Appends a value as a JSON string: the shortest decimal that reads back to the
/// same float, never with an exponent; `NaN`, `+Inf`, `-Inf`. Negative zero loses
/// its sign, as it does on Loki's way to the client.
pub fn write_sample_value(value: f64, out: &mut Vec<u8>) {
    /// Floats up to 2^53 hold every integer exactly.
    const MAX_EXACT: f64 = 9_007_199_254_740_992.0;
    out.push(b'"');
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"+Inf" } else { b"-Inf" });
    } else if value.abs() <= MAX_EXACT && value.trunc() == value {
        out.extend_from_slice(itoa::Buffer::new().format(value as i64).as_bytes());
    } else {
        // Rust prints floats shortest and without exponents.
        write!(out, "{value}").expect("a Vec takes all");
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(value: f64) -> String {
        let mut out = Vec::new();
        write_sample_value(value, &mut out);
        String::from_utf8(out).expect("ASCII").trim_matches('"').to_owned()
    }

    fn time(unix_ms: i64) -> String {
        let mut out = Vec::new();
        write_sample_time_ms(unix_ms, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn values_have_no_exponent() {
        let cases = [
            (0.1 + 0.2, "0.30000000000000004"),
            (1e-7, "0.0000001"),
            (1e21, "1000000000000000000000"),
            (-2.0, "-2"),
            (0.0, "0"),
            (-0.0, "0"),
            (2.5, "2.5"),
            (9_007_199_254_740_992.0, "9007199254740992"),
            (9_007_199_254_740_994.0, "9007199254740994"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ];
        for (number, expected) in cases {
            assert_eq!(value(number), expected);
        }
    }

    #[test]
    fn times_have_up_to_three_decimals() {
        let cases = [
            (1_795_224_780_000, "1795224780"),
            (1_795_224_780_500, "1795224780.5"),
            (1_795_224_780_123, "1795224780.123"),
            (1_795_224_780_020, "1795224780.02"),
            (0, "0"),
            (-1, "-0.001"),
            (-1500, "-1.5"),
        ];
        for (unix_ms, expected) in cases {
            assert_eq!(time(unix_ms), expected);
        }
    }

    proptest! {
        #[test]
        fn values_read_back_exactly(bits: u64) {
            let number = f64::from_bits(bits);
            prop_assume!(number.is_finite() && bits != (-0.0_f64).to_bits());
            let text = value(number);
            prop_assert!(!text.contains(['e', 'E']));
            prop_assert_eq!(text.parse::<f64>().expect("a number").to_bits(), bits);
        }
    }
}
