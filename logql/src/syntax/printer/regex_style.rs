//! How the pattern of a label filter is quoted.
//!
//! Loki prints a pattern in back quotes when it runs it as a regular
//! expression, and in double quotes when it could replace it by substring
//! searches. That rule is followed for the simple shapes it is known for.

/// Beyond this length, in bytes, a pattern counts as a regular expression.
const MAX_ANALYSED_LEN: usize = 1000;

/// Whether the pattern is printed in back quotes.
pub(super) fn prefers_raw_string(pattern: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(pattern) else { return false };
    let fits = !text.contains(|c: char| c == '`' || c == '\u{feff}' || (c < ' ' && c != '\t'));
    fits && (text.len() > MAX_ANALYSED_LEN || !is_substring_search(text))
}

fn is_substring_search(pattern: &str) -> bool {
    if matches!(pattern, "" | ".*" | ".+") {
        return true;
    }
    if let Some(rest) = pattern.strip_prefix("(?i)") {
        return literal(rest).is_some();
    }
    let inner = pattern.strip_prefix(".*").unwrap_or(pattern);
    let inner = inner.strip_suffix(".*").unwrap_or(inner);
    if literal(inner).is_some() {
        return true;
    }
    let alternatives: Option<Vec<_>> = pattern.split('|').map(literal).collect();
    alternatives.is_some_and(|alternatives| !becomes_class(&alternatives))
}

/// The characters that a pattern without operators stands for.
fn literal(pattern: &str) -> Option<Vec<char>> {
    let mut chars = pattern.chars();
    let mut out = Vec::new();
    while let Some(c) = chars.next() {
        out.push(match c {
            '\\' => chars.next().filter(char::is_ascii_punctuation)?,
            '.' | '+' | '*' | '?' | '(' | ')' | '|' | '[' | ']' | '{' | '}' | '^' | '$' => {
                return None;
            }
            c => c,
        });
    }
    Some(out)
}

/// Whether factoring common prefixes out leaves single characters side by side,
/// which Loki's regex package then merges into a character class.
fn becomes_class(alternatives: &[Vec<char>]) -> bool {
    let mut start = 0;
    let mut previous_is_single = false;
    while start < alternatives.len() {
        let mut prefix_len = alternatives[start].len();
        let mut end = start + 1;
        while let Some(next) = alternatives.get(end) {
            let first = &alternatives[start][..prefix_len];
            let common = first.iter().zip(next).take_while(|(a, b)| a == b).count();
            if common == 0 {
                break;
            }
            prefix_len = common;
            end += 1;
        }
        if end - start > 1 {
            let rest: Vec<_> =
                alternatives[start..end].iter().map(|a| a[prefix_len..].to_vec()).collect();
            if becomes_class(&rest) {
                return true;
            }
            previous_is_single = false;
        } else {
            let is_single = alternatives[start].len() == 1;
            if is_single && previous_is_single {
                return true;
            }
            previous_is_single = is_single;
        }
        start = end;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simple_shapes_stay_in_double_quotes() {
        for pattern in [
            "",
            ".*",
            ".+",
            "h",
            r"a\.b",
            "(?i)err",
            "err.*",
            ".*err",
            ".*err.*",
            "error|warn",
            "warn|warning",
            "info|infra",
            "foo|foobar",
            "a|bc",
        ] {
            assert!(!prefers_raw_string(pattern.as_bytes()), "{pattern}");
        }
        for pattern in ["x|y", "ab|ac", "e.r", "[a-z]+", "foo(bar)?", "^x$", "a.c", r"\d"] {
            assert!(prefers_raw_string(pattern.as_bytes()), "{pattern}");
        }
        assert!(!prefers_raw_string(b"a.c`"));
        assert!(!prefers_raw_string(b"a.c\0"));
    }
}
