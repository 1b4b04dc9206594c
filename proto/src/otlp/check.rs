//! The first walk over an export request: whether it decodes, and how much it holds.
//!
//! Values nested deeper than [`MAX_DEPTH`] are skipped; their records are refused when they are
//! assembled.

use crate::otlp::MAX_DEPTH;
use crate::otlp::message::{LogRecord, read_attribute};
use crate::otlp::value::{AnyValue, read_any};
use crate::push::protobuf::{Fields, ProtobufError};

/// Counts of a request.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Totals {
    pub(super) resources: u64,
    pub(super) records: u64,
    pub(super) text_bytes: u64,
}

pub(super) fn check_request(message: &[u8]) -> Result<Totals, ProtobufError> {
    let mut totals = Totals::default();
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        if number == 1 {
            totals.resources += 1;
            totals.check_resource_logs(value.bytes("ResourceLogs")?)?;
        }
    }
    Ok(totals)
}

impl Totals {
    fn check_resource_logs(&mut self, message: &[u8]) -> Result<(), ProtobufError> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => self.check_attributes(value.bytes("Resource")?, 1)?,
                2 => self.check_scope_logs(value.bytes("ScopeLogs")?)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn check_scope_logs(&mut self, message: &[u8]) -> Result<(), ProtobufError> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => self.check_scope(value.bytes("Scope")?)?,
                2 => {
                    let message = value.bytes("LogRecords")?;
                    let record = LogRecord::read(message)?;
                    self.check_value(record.body, 0)?;
                    self.check_attributes(message, 6)?;
                    self.records += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn check_scope(&mut self, message: &[u8]) -> Result<(), ProtobufError> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => drop(value.bytes("Name")?),
                2 => drop(value.bytes("Version")?),
                4 => drop(value.uint32("DroppedAttributesCount")?),
                _ => {}
            }
        }
        self.check_attributes(message, 3)
    }

    /// Checks the attributes that `message` has in one of its fields.
    fn check_attributes(&mut self, message: &[u8], field: u32) -> Result<(), ProtobufError> {
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            if number == field {
                self.check_attribute(value.bytes("Attributes")?, 0)?;
            }
        }
        Ok(())
    }

    fn check_attribute(&mut self, message: &[u8], depth: usize) -> Result<(), ProtobufError> {
        let (name, value) = read_attribute(message)?;
        self.text_bytes += name.len() as u64;
        self.check_value(value, depth)
    }

    fn check_value(&mut self, value: AnyValue<'_>, depth: usize) -> Result<(), ProtobufError> {
        if depth > MAX_DEPTH {
            return Ok(());
        }
        match value {
            AnyValue::Text(text) | AnyValue::Bytes(text) => self.text_bytes += text.len() as u64,
            AnyValue::Map(map) => {
                let mut fields = Fields::new(map);
                while let Some((number, pair)) = fields.next()? {
                    if number == 1 {
                        self.check_attribute(pair.bytes("Values")?, depth + 1)?;
                    }
                }
            }
            AnyValue::Array(array) => {
                let mut fields = Fields::new(array);
                while let Some((number, element)) = fields.next()? {
                    if number == 1 {
                        let element = read_any(element.bytes("Values")?)?;
                        self.check_value(element, depth + 1)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }
}
