//! The characters of identifiers, as Go's package `text/scanner` has them.

use std::sync::LazyLock;

use regex::Regex;

static LETTER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\pL$").expect("the pattern is valid"));
static DIGIT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\p{Nd}$").expect("the pattern is valid"));

fn is_in(class: &Regex, c: char) -> bool {
    class.is_match(c.encode_utf8(&mut [0; 4]))
}

/// Whether the character can start an identifier.
pub(crate) fn is_ident_start(c: char) -> bool {
    c == '_' || if c.is_ascii() { c.is_ascii_alphabetic() } else { is_in(&LETTER, c) }
}

/// Whether the character can continue an identifier.
pub(crate) fn is_ident_char(c: char) -> bool {
    is_ident_start(c) || if c.is_ascii() { c.is_ascii_digit() } else { is_in(&DIGIT, c) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_letters_and_decimal_digits() {
        assert!(is_ident_start('é') && is_ident_start('_') && is_ident_start('字'));
        assert!(!is_ident_start('1') && !is_ident_start('\u{a0}') && !is_ident_start('Ⅷ'));
        assert!(is_ident_char('٣') && !is_ident_char('-') && !is_ident_char('½'));
    }
}
