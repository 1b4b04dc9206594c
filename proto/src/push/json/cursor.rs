//! A position in a JSON document and the steps from it.

use crate::push::json::{JsonError, RawText};

/// Deepest nesting of a value that is skipped.
pub const MAX_DEPTH: usize = 512;

/// A position in a JSON document.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// Any value: a string, or the text of another value.
pub enum Value<'a> {
    /// A string.
    Text(RawText<'a>),
    /// Anything else, as written.
    Other(&'a [u8]),
}

impl<'a> Cursor<'a> {
    /// The start of a document.
    pub fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { bytes, position: 0 }
    }

    pub(crate) fn error<T>(&self, message: &'static str) -> Result<T, JsonError> {
        Err(JsonError::Invalid { offset_bytes: self.position, message })
    }

    /// The text from here to a later position of the same document.
    pub(crate) fn text_until(&self, end: &Cursor<'a>) -> &'a [u8] {
        &self.bytes[self.position..end.position]
    }

    /// The next byte that is not blank, without reading it.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        loop {
            match self.bytes.get(self.position) {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.position += 1,
                other => return other.copied(),
            }
        }
    }

    /// Reads `byte` if it is next.
    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.position += usize::from(found);
        found
    }

    /// Reads `null` if it is next.
    pub(crate) fn take_null(&mut self) -> Result<bool, JsonError> {
        if self.peek() != Some(b'n') {
            return Ok(false);
        }
        self.literal(b"null").map(|()| true)
    }

    fn literal(&mut self, word: &'static [u8]) -> Result<(), JsonError> {
        if !self.bytes[self.position..].starts_with(word) {
            return self.error("unknown word");
        }
        self.position += word.len();
        Ok(())
    }

    /// Reads a string; `expected` is the complaint about anything else.
    #[inline]
    pub(crate) fn text(&mut self, expected: &'static str) -> Result<RawText<'a>, JsonError> {
        if !self.take(b'"') {
            return self.error(expected);
        }
        let (text, len_bytes) = RawText::scan(&self.bytes[self.position..]).map_err(|error| {
            let offset_bytes = self.position + error.offset_bytes;
            JsonError::Invalid { offset_bytes, message: error.message }
        })?;
        self.position += len_bytes;
        Ok(text)
    }

    /// Reads an object; `each` must read the value that belongs to the name.
    pub fn object(
        &mut self,
        mut each: impl FnMut(&mut Self, RawText<'a>) -> Result<(), JsonError>,
    ) -> Result<(), JsonError> {
        if !self.take(b'{') {
            return self.error("expected an object");
        }
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            let name = self.name()?;
            each(self, name)?;
            if self.take(b'}') {
                return Ok(());
            }
            if !self.take(b',') {
                return self.error("expected ',' or '}' in an object");
            }
        }
    }

    fn name(&mut self) -> Result<RawText<'a>, JsonError> {
        let name = self.text("expected a name in an object")?;
        if !self.take(b':') {
            return self.error("expected ':' behind a name");
        }
        Ok(name)
    }

    /// Steps to the next element of an array, of which `[` is read with the
    /// first. `false` behind the last; the closing `]` is read then.
    #[inline]
    pub(crate) fn next_element(&mut self, started: &mut bool) -> Result<bool, JsonError> {
        if !*started {
            *started = true;
            if !self.take(b'[') {
                return self.error("expected an array");
            }
            return Ok(!self.take(b']'));
        }
        if self.take(b',') {
            return Ok(true);
        }
        if self.take(b']') {
            return Ok(false);
        }
        self.error("expected ',' or ']' in an array")
    }

    /// Reads any value.
    pub fn value(&mut self) -> Result<Value<'a>, JsonError> {
        if self.peek() == Some(b'"') {
            return self.text("expected a string").map(Value::Text);
        }
        self.skip_value().map(Value::Other)
    }

    /// Reads any value and gives its text.
    pub fn skip_value(&mut self) -> Result<&'a [u8], JsonError> {
        self.peek();
        let start = self.position;
        let mut open = OpenBrackets::default();
        loop {
            self.skip_head(&mut open)?;
            // Behind a value: close the arrays and objects that end, or go on to the next value.
            loop {
                let Some(in_object) = open.innermost() else {
                    return Ok(&self.bytes[start..self.position]);
                };
                if self.take(if in_object { b'}' } else { b']' }) {
                    open.pop();
                } else if open.just_opened || self.take(b',') {
                    if in_object {
                        self.name()?;
                    }
                    break;
                } else {
                    return self.error("expected ',' or a closing bracket");
                }
            }
            open.just_opened = false;
        }
    }

    /// Reads a value, or only the opening bracket of one.
    fn skip_head(&mut self, open: &mut OpenBrackets) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'"') => self.text("expected a string").map(|_| ()),
            Some(byte @ (b'{' | b'[')) => {
                if !open.push(byte == b'{') {
                    return self.error("nested too deeply");
                }
                self.position += 1;
                Ok(())
            }
            Some(b't') => self.literal(b"true"),
            Some(b'f') => self.literal(b"false"),
            Some(b'n') => self.literal(b"null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => self.error("expected a value"),
            None => self.error("unexpected end"),
        }
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let rest = &self.bytes[self.position..];
        let mut len_bytes = usize::from(rest.first() == Some(&b'-'));
        let digits = |from: usize| rest[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let whole = digits(len_bytes);
        let mut complete = whole == 1 || whole > 1 && rest[len_bytes] != b'0';
        len_bytes += whole;
        if rest.get(len_bytes) == Some(&b'.') {
            let fraction = digits(len_bytes + 1);
            complete &= fraction > 0;
            len_bytes += 1 + fraction;
        }
        if matches!(rest.get(len_bytes), Some(b'e' | b'E')) {
            let signed = matches!(rest.get(len_bytes + 1), Some(b'+' | b'-'));
            len_bytes += 1 + usize::from(signed);
            let exponent = digits(len_bytes);
            complete &= exponent > 0;
            len_bytes += exponent;
        }
        if !complete {
            return self.error("malformed number");
        }
        self.position += len_bytes;
        Ok(())
    }
}

/// The brackets that are open around a position, one bit each.
#[derive(Default)]
struct OpenBrackets {
    objects: [u64; MAX_DEPTH / 64],
    depth: usize,
    /// Nothing was read since the innermost bracket opened.
    just_opened: bool,
}

impl OpenBrackets {
    fn push(&mut self, object: bool) -> bool {
        if self.depth == MAX_DEPTH {
            return false;
        }
        let bit = 1 << (self.depth % 64);
        let word = &mut self.objects[self.depth / 64];
        *word = if object { *word | bit } else { *word & !bit };
        self.depth += 1;
        self.just_opened = true;
        true
    }

    fn pop(&mut self) {
        self.depth -= 1;
        self.just_opened = false;
    }

    fn innermost(&self) -> Option<bool> {
        let index = self.depth.checked_sub(1)?;
        Some(self.objects[index / 64] >> (index % 64) & 1 == 1)
    }
}
