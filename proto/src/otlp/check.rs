//! The first walk over an export request: everything that can be wrong with it.

use crate::otlp::message::{LogRecord, read_attribute};
use crate::otlp::value::{AnyValue, read_any};
use crate::otlp::{MAX_DEPTH, OtlpError};
use crate::push::metadata::write_name;
use crate::push::protobuf::Fields;

/// What a request holds.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Totals {
    pub(super) resources: u64,
    pub(super) records: u64,
    pub(super) text_bytes: u64,
}

pub(super) fn check_request(message: &[u8]) -> Result<Totals, OtlpError> {
    let mut check = Check { totals: Totals::default(), name: Vec::new(), names_len: 0 };
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            check.totals.resources += 1;
            check.resource_logs(value.bytes("ResourceLogs")?)?;
        }
    }
    Ok(check.totals)
}

struct Check {
    totals: Totals,
    /// Name of the value that is looked at, from the outermost map on.
    name: Vec<u8>,
    /// Bytes of all joined names of the attributes that are looked at.
    names_len: usize,
}

/// Joined names of nested values may be this many times as long as the message that
/// they are in, and a bit. So values in maps with long names cannot blow up.
const JOINED_NAMES_FACTOR: usize = 16;
const JOINED_NAMES_ALLOWANCE: usize = 64 << 10;

impl Check {
    fn resource_logs(&mut self, message: &[u8]) -> Result<(), OtlpError> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => self.attributes(value.bytes("Resource")?, 1)?,
                2 => self.scope_logs(value.bytes("ScopeLogs")?)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn scope_logs(&mut self, message: &[u8]) -> Result<(), OtlpError> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => self.scope(value.bytes("Scope")?)?,
                2 => {
                    let message = value.bytes("LogRecords")?;
                    let record = LogRecord::read(message)?;
                    self.value(record.body, 0, false)?;
                    self.attributes(message, 6)?;
                    self.totals.records += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn scope(&mut self, message: &[u8]) -> Result<(), OtlpError> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => drop(value.bytes("Name")?),
                2 => drop(value.bytes("Version")?),
                4 => drop(value.varint("DroppedAttributesCount")?),
                _ => {}
            }
        }
        self.attributes(message, 3)
    }

    /// Checks the attributes that `message` has in one of its fields.
    fn attributes(&mut self, message: &[u8], field: u32) -> Result<(), OtlpError> {
        self.names_len = 0;
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            if number == field {
                self.name.clear();
                self.attribute(value.bytes("Attributes")?, 0, true)?;
                if self.names_len > JOINED_NAMES_FACTOR * message.len() + JOINED_NAMES_ALLOWANCE {
                    return Err(OtlpError::NamesTooLong);
                }
            }
        }
        Ok(())
    }

    /// Checks an attribute of a record, resource or scope (`named`), or a pair of a map
    /// in a body.
    fn attribute(&mut self, message: &[u8], depth: usize, named: bool) -> Result<(), OtlpError> {
        let (name, value) = read_attribute(message)?;
        self.totals.text_bytes += name.len() as u64;
        let outer_len = self.name.len();
        if named {
            if depth > 0 {
                self.name.push(b'_');
            }
            self.name.extend_from_slice(name);
        }
        let checked = self.value(value, depth, named);
        self.name.truncate(outer_len);
        checked
    }

    fn value(&mut self, value: AnyValue<'_>, depth: usize, named: bool) -> Result<(), OtlpError> {
        if depth > MAX_DEPTH {
            return Err(OtlpError::TooDeep);
        }
        if let AnyValue::Map(map) = value {
            let mut fields = Fields::new(map);
            while let Some((number, pair)) = fields.next()? {
                if number == 1 {
                    self.attribute(pair.bytes("Values")?, depth + 1, named)?;
                }
            }
            return Ok(());
        }
        if named && depth > 0 {
            self.names_len = self.names_len.saturating_add(self.name.len());
        }
        if named && !value.is_empty() && !self.name.iter().any(u8::is_ascii_alphanumeric) {
            let mut normalized = Vec::new();
            write_name(&self.name, &mut normalized)?;
        }
        match value {
            AnyValue::Text(text) | AnyValue::Bytes(text) => {
                self.totals.text_bytes += text.len() as u64;
            }
            AnyValue::Array(array) => {
                let mut fields = Fields::new(array);
                while let Some((number, element)) = fields.next()? {
                    if number == 1 {
                        let element = read_any(element.bytes("Values")?)?;
                        // Arrays are printed as a whole, so what is in them has no name.
                        self.value(element, depth + 1, false)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
