//! One object, flattened into an arena that is used again for the next one.

use std::ops::Range;

use super::FieldsError;
use crate::push::json::{Cursor, JsonError, Value};

/// Most fields of an object.
pub const FIELDS_MAX: usize = 1000;

/// Longest name of a field, with the names of the objects around it.
pub const NAME_MAX_BYTES: usize = 1024;

/// Objects that are nested deeper than this are kept as JSON.
const DEPTH_MAX: usize = 16;

/// The fields of one object.
#[derive(Debug, Default)]
pub struct Flat {
    text: Vec<u8>,
    fields: Vec<Field>,
    /// The name of the field that is being read.
    path: Vec<u8>,
}

#[derive(Clone, Debug)]
struct Field {
    name: Range<usize>,
    value: Range<usize>,
}

impl Flat {
    /// Reads the only object of a text.
    ///
    /// # Errors
    /// There is none, there is more, or the object has too many fields or too long names.
    pub fn read<'a>(&mut self, text: &'a [u8]) -> Result<&'a [u8], FieldsError> {
        let mut cursor = Cursor::new(text);
        let object = self.read_next(&mut cursor)?;
        if cursor.peek().is_some() {
            cursor.error("there is something behind the object")?;
        }
        Ok(object)
    }

    /// Reads the next object, and gives its text.
    ///
    /// # Errors
    /// As [`Flat::read`]. The position is anywhere then.
    pub fn read_next<'a>(&mut self, cursor: &mut Cursor<'a>) -> Result<&'a [u8], FieldsError> {
        self.text.clear();
        self.fields.clear();
        self.path.clear();
        if cursor.peek().is_none() {
            return Err(FieldsError::Empty);
        }
        let start = *cursor;
        self.object(cursor, 1)?;
        Ok(start.text_until(cursor))
    }

    /// The fields, in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let text = |place: &Range<usize>| &self.text[place.clone()];
        self.fields.iter().map(move |field| (text(&field.name), text(&field.value)))
    }

    /// The value of a field; of equal names the last counts.
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        let is_it = |field: &&Field| &self.text[field.name.clone()] == name;
        let field = self.fields.iter().rev().find(is_it)?;
        Some(&self.text[field.value.clone()])
    }

    /// Bytes of memory that the arena holds.
    pub fn capacity_bytes(&self) -> usize {
        self.text.capacity() + self.path.capacity() + self.fields.capacity() * size_of::<Field>()
    }

    fn object(&mut self, cursor: &mut Cursor<'_>, depth: usize) -> Result<(), JsonError> {
        cursor.object(|cursor, name| {
            let outer = self.path.len();
            if depth > 1 {
                self.path.push(b'.');
            }
            name.unescape_into(&mut self.path);
            let read = if self.path.len() > NAME_MAX_BYTES {
                cursor.error("the name of a field is too long")
            } else if cursor.peek() == Some(b'{') && depth < DEPTH_MAX {
                self.object(cursor, depth + 1)
            } else {
                self.value(cursor)
            };
            self.path.truncate(outer);
            read
        })
    }

    fn value(&mut self, cursor: &mut Cursor<'_>) -> Result<(), JsonError> {
        let value = cursor.value()?;
        if matches!(value, Value::Other(b"null")) {
            return Ok(());
        }
        if self.fields.len() == FIELDS_MAX {
            return cursor.error("too many fields");
        }
        let start = self.text.len();
        self.text.extend_from_slice(&self.path);
        let name_end = self.text.len();
        match value {
            Value::Text(text) => text.unescape_into(&mut self.text),
            Value::Other(raw) => self.text.extend_from_slice(raw),
        }
        let (name, value) = (start..name_end, name_end..self.text.len());
        self.fields.push(Field { name, value });
        Ok(())
    }
}
