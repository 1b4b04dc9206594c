//! Bodies of lines: text, or objects of JSON with line breaks between them.
//!
//! Guarantees: a line break at the end is not needed; a carriage return before it is not content;
//! empty lines are none. A line of JSON may have several objects: it is read as a whole, or refused
//! as a whole.

use crate::fields::FieldsError;
use crate::push::json::Cursor;

/// The lines of a body that are not empty, with their numbers from 1.
#[derive(Clone, Debug)]
pub struct Lines<'b> {
    rest: &'b [u8],
    number: u64,
}

impl<'b> Lines<'b> {
    /// The lines of a body.
    pub fn new(body: &'b [u8]) -> Lines<'b> {
        Lines { rest: body, number: 0 }
    }

    /// The next line, which may be empty.
    pub fn next_any(&mut self) -> Option<(u64, &'b [u8])> {
        if self.rest.is_empty() {
            return None;
        }
        let line = match memchr::memchr(b'\n', self.rest) {
            Some(end) => {
                let line = &self.rest[..end];
                self.rest = &self.rest[end + 1..];
                line
            }
            None => std::mem::take(&mut self.rest),
        };
        self.number += 1;
        Some((self.number, line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

impl<'b> Iterator for Lines<'b> {
    type Item = (u64, &'b [u8]);

    fn next(&mut self) -> Option<(u64, &'b [u8])> {
        loop {
            let (number, line) = self.next_any()?;
            if !line.is_empty() {
                return Some((number, line));
            }
        }
    }
}

/// How many objects a line has.
///
/// # Errors
/// It has something else.
pub fn count_objects(line: &[u8]) -> Result<usize, FieldsError> {
    let mut cursor = Cursor::new(line);
    let mut count = 0;
    while let Some(first) = cursor.peek() {
        if first != b'{' {
            cursor.error("expected an object")?;
        }
        cursor.skip_value()?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(body: &str) -> Vec<(u64, &str)> {
        let lines = Lines::new(body.as_bytes());
        lines.map(|(number, line)| (number, std::str::from_utf8(line).unwrap())).collect()
    }

    #[test]
    fn a_body_is_split_at_line_breaks() {
        assert_eq!(split(""), []);
        assert_eq!(split("\n\r\n"), []);
        assert_eq!(split("a"), [(1, "a")]);
        assert_eq!(split("a\r\n\n b \nc\rd\r"), [(1, "a"), (3, " b "), (4, "c\rd")]);
    }

    #[test]
    fn a_line_is_read_as_a_whole() {
        let count = |line: &str| count_objects(line.as_bytes()).ok();
        assert_eq!(count(r#"{"message":"a"}{"message":"b"}"#), Some(2));
        assert_eq!(count(r#" {"message":"a"} "#), Some(1));
        assert_eq!(count("  "), Some(0));
        for line in ["oops", "{}oops", "{},{}", "[{}]", "{}{", r#"{"a":{"b":}}"#] {
            assert_eq!(count(line), None, "{line}");
        }
    }
}
