//! Upper and lower case as Go's `strings.ToUpper` and `strings.ToLower`: letter by letter, so that
//! the number of letters stays.

pub(super) fn lower(text: &str) -> String {
    let letter = |c: char| match c {
        '\u{130}' => 'i',
        c => single(c.to_lowercase()).unwrap_or(c),
    };
    text.chars().map(letter).collect()
}

pub(super) fn upper(text: &str) -> String {
    let letter = |c: char| {
        single(c.to_uppercase()).unwrap_or_else(|| match c as u32 {
            // Greek letters with an iota below, whose capitals have it beside.
            code @ (0x1f80..=0x1f87 | 0x1f90..=0x1f97 | 0x1fa0..=0x1fa7) => {
                char::from_u32(code + 8).unwrap_or(c)
            }
            code @ (0x1fb3 | 0x1fc3 | 0x1ff3) => char::from_u32(code + 9).unwrap_or(c),
            _ => c,
        })
    };
    text.chars().map(letter).collect()
}

/// The letter of a mapping that has one.
fn single(mut mapped: impl Iterator<Item = char>) -> Option<char> {
    mapped.next().filter(|_| mapped.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_map_one_to_one() {
        assert_eq!(lower("ÄẞZ9\u{130}ΑΣ"), "äßz9iασ");
        assert_eq!(upper("äßz9\u{1f80}"), "ÄßZ9\u{1f88}");
    }
}
