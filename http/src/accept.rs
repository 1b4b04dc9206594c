//! The content codings that a client takes (RFC 9110, section 12.5.3).

use http::HeaderMap;
use http::header::ACCEPT_ENCODING;

/// Whether the client takes gzip, also by its old name `x-gzip`; see [`accepts_coding`].
pub fn accepts_gzip(headers: &HeaderMap) -> bool {
    accepts_any(headers, &["gzip", "x-gzip"])
}

/// Whether the client takes a content coding. The most specific member decides: the name
/// before `*`. A weight of zero means "not that one", and a member with a malformed weight is
/// ignored.
pub fn accepts_coding(headers: &HeaderMap, name: &str) -> bool {
    accepts_any(headers, &[name])
}

fn accepts_any(headers: &HeaderMap, names: &[&str]) -> bool {
    let mut by_name = None;
    let mut by_star = None;
    for value in headers.get_all(ACCEPT_ENCODING) {
        for member in value.as_bytes().split(|byte| *byte == b',') {
            let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let coding = parts.next().unwrap_or_default();
            let wanted = match parts.next() {
                None => Some(true),
                Some(weight) => is_positive_weight(weight),
            };
            let Some(wanted) = wanted else { continue };
            if names.iter().any(|name| coding.eq_ignore_ascii_case(name.as_bytes())) {
                by_name = Some(wanted);
            } else if coding == b"*" {
                by_star = Some(wanted);
            }
        }
    }
    by_name.or(by_star).unwrap_or(false)
}

/// Reads `q=0.5`; `None` if it is malformed: at most one digit, 0 or 1, before
/// the point and three after it.
fn is_positive_weight(weight: &[u8]) -> Option<bool> {
    let (name, value) = weight.split_at_checked(2)?;
    if !name.eq_ignore_ascii_case(b"q=") {
        return None;
    }
    let (whole, fraction) = value.split_first()?;
    let digits = match fraction.split_first() {
        None => fraction,
        Some((b'.', digits)) if digits.len() <= 3 => digits,
        Some(_) => return None,
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let fraction_is_zero = digits.iter().all(|digit| *digit == b'0');
    match whole {
        b'0' => Some(!fraction_is_zero),
        b'1' if fraction_is_zero => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn weights_and_stars() {
        for (value, accepts) in [
            ("gzip", true),
            ("GZip, deflate, br", true),
            ("deflate", false),
            ("", false),
            ("identity", false),
            ("gzip;q=0", false),
            ("gzip;q=0.000", false),
            ("gzip ; q=0.001", true),
            ("gzip;q=1.0", true),
            ("gzip;q=2", false),
            ("gzip;q=", false),
            ("gzip;level=3", false),
            ("*", true),
            ("*;q=0, gzip", true),
            ("gzip;q=0, *", false),
            ("br, *;q=0.1", true),
            ("x-gzip", true),
            ("gzipped", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.append(ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&headers), accepts, "{value:?}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
        for (value, accepts) in [("gzip, deflate, br", true), ("gzip", false), ("br;q=0, *", false)]
        {
            let headers =
                HeaderMap::from_iter([(ACCEPT_ENCODING, HeaderValue::from_static(value))]);
            assert_eq!(accepts_coding(&headers, "br"), accepts, "{value:?}");
        }
    }
}
