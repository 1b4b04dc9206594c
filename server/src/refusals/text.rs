//! Texts of clients, as they may be logged and kept.

use std::fmt::Write;

/// Most bytes of the text of a query.
pub(crate) const QUERY_MAX_BYTES: usize = 1024;

/// Most bytes of any other text.
pub(crate) const TEXT_MAX_BYTES: usize = 512;

/// The text, cut to at most `max_bytes` and a mark that says how long it is, and with control
/// characters and characters that change the direction of a line written as escapes.
pub(crate) fn shown(text: &str, max_bytes: usize) -> String {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut shown = String::with_capacity(end);
    for character in text[..end].chars() {
        if is_hidden(character) {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    if end < text.len() {
        // Writing to a string does not fail.
        let _ = write!(shown, "... ({} bytes)", text.len());
    }
    shown
}

fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_at_characters_and_made_visible() {
        for (text, max_bytes, expected) in [
            ("plain \"text\" \\ ä", 100, "plain \"text\" \\ ä"),
            ("a\nb\r\t\u{1b}[31m", 100, "a\\nb\\r\\t\\u{1b}[31m"),
            ("\u{9b}x\u{7f}\u{202e}y\u{2028}", 100, "\\u{9b}x\\u{7f}\\u{202e}y\\u{2028}"),
            ("äöü", 3, "ä... (6 bytes)"),
            ("abc", 3, "abc"),
            ("abcd", 0, "... (4 bytes)"),
        ] {
            assert_eq!(shown(text, max_bytes), expected, "{text:?}");
        }
    }
}
