//! Finds a level field in a line that is a JSON object.
//!
//! This is not a validating parser: it walks names and values as long as they look like JSON, and a
//! level field before a fault counts.

use crate::discover::{LevelFields, is_blank};

/// The value of the first level field, in the order of the text, that is a string, as
/// it is written between its quotes. Objects inside arrays are not searched.
pub(super) fn level_field<'l>(
    line: &'l [u8],
    fields: &LevelFields,
    max_depth: usize,
) -> Option<&'l [u8]> {
    let mut walk = Walk { line, at: 0 };
    walk.expect(b'{')?;
    let mut depth = 1usize;
    let mut behind_value = false;
    loop {
        match walk.visible()? {
            b'}' => {
                walk.at += 1;
                depth -= 1;
                if depth == 0 {
                    return None;
                }
                behind_value = true;
                continue;
            }
            b',' if behind_value => walk.at += 1,
            _ if behind_value => return None,
            _ => {}
        }
        let name = walk.string()?;
        walk.expect(b':')?;
        behind_value = true;
        match walk.visible()? {
            b'"' => {
                let value = walk.string()?;
                if fields.contains(name) {
                    return Some(value);
                }
            }
            b'{' if max_depth == 0 || depth < max_depth => {
                walk.at += 1;
                depth += 1;
                behind_value = false;
            }
            b'{' | b'[' => walk.skip_brackets()?,
            _ => walk.skip_plain(),
        }
    }
}

struct Walk<'l> {
    line: &'l [u8],
    at: usize,
}

impl<'l> Walk<'l> {
    /// The next byte that is not blank.
    fn visible(&mut self) -> Option<u8> {
        loop {
            let byte = *self.line.get(self.at)?;
            if !is_blank(byte) {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        let found = self.visible()? == byte;
        self.at += usize::from(found);
        found.then_some(())
    }

    /// Reads a string and gives the text between its quotes.
    fn string(&mut self) -> Option<&'l [u8]> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            // Most strings are short, where a vectorised search does not pay.
            let rest = &self.line[self.at..];
            let near = rest.iter().take(16).position(|&byte| matches!(byte, b'"' | b'\\'));
            let found = near.or_else(|| memchr::memchr2(b'"', b'\\', rest))?;
            self.at += found + 1;
            if rest[found] == b'"' {
                return Some(&self.line[start..self.at - 1]);
            }
            self.at += 1;
            if self.at > self.line.len() {
                return None;
            }
        }
    }

    /// Skips an object or an array.
    fn skip_brackets(&mut self) -> Option<()> {
        let mut open = 0usize;
        loop {
            match *self.line.get(self.at)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                return Some(());
            }
        }
    }

    /// Skips a number or a word.
    fn skip_plain(&mut self) {
        let rest = &self.line[self.at..];
        let end =
            rest.iter().position(|&byte| matches!(byte, b',' | b'}' | b']') || is_blank(byte));
        self.at += end.unwrap_or(rest.len());
    }
}
