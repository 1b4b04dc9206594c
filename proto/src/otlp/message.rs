//! The parts of a checked export request.

use crate::otlp::check;
use crate::otlp::check::check_request;
use crate::otlp::value::{AnyValue, read_any};
use crate::push::protobuf::{Fields, ProtobufError, Value};

pub(super) const CHECKED: &str = "the message was checked";

/// An export request that was checked to the last byte.
#[derive(Clone, Copy, Debug)]
pub struct LogsRequest<'a> {
    message: &'a [u8],
    totals: check::Totals,
}

impl<'a> LogsRequest<'a> {
    /// Checks whether a message decodes.
    ///
    /// # Errors
    /// It does not, or a number in it is out of its range.
    pub fn protobuf(message: &'a [u8]) -> Result<LogsRequest<'a>, ProtobufError> {
        Ok(LogsRequest { message, totals: check_request(message)? })
    }

    /// How many records there are.
    pub fn record_count(&self) -> u64 {
        self.totals.records
    }

    /// How many resources there are.
    pub fn resource_count(&self) -> u64 {
        self.totals.resources
    }

    /// Bytes of the texts in bodies and attributes.
    pub fn text_len_bytes(&self) -> u64 {
        self.totals.text_bytes
    }

    /// The resources in the order sent.
    pub fn resources(&self) -> impl Iterator<Item = ResourceLogs<'a>> + use<'a> {
        Messages { fields: Fields::new(self.message), number: 1 }.map(ResourceLogs::read)
    }
}

/// The values of one repeated message field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages<'a> {
    pub(super) fields: Fields<'a>,
    pub(super) number: u32,
}

impl<'a> Iterator for Messages<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if let (number, Value::Bytes(message)) = self.fields.next().expect(CHECKED)?
                && number == self.number
            {
                return Some(message);
            }
        }
    }
}

/// The records of one resource.
#[derive(Clone, Copy, Debug)]
pub struct ResourceLogs<'a> {
    message: &'a [u8],
    resource: &'a [u8],
}

impl<'a> ResourceLogs<'a> {
    fn read(message: &'a [u8]) -> ResourceLogs<'a> {
        let resource = Messages { fields: Fields::new(message), number: 1 }.last();
        ResourceLogs { message, resource: resource.unwrap_or_default() }
    }

    /// Bytes of the resource without its records.
    pub(super) fn len_bytes(&self) -> usize {
        self.resource.len()
    }

    /// The attributes of the resource.
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes::new(self.resource, 1)
    }

    /// The scopes in the order sent.
    pub fn scopes(&self) -> Scopes<'a> {
        Scopes(Messages { fields: Fields::new(self.message), number: 2 })
    }
}

/// Iterator over the scopes of a resource.
#[derive(Clone, Copy, Debug)]
pub struct Scopes<'a>(Messages<'a>);

impl<'a> Iterator for Scopes<'a> {
    type Item = ScopeLogs<'a>;

    fn next(&mut self) -> Option<ScopeLogs<'a>> {
        self.0.next().map(ScopeLogs::read)
    }
}

/// The records of one scope.
#[derive(Clone, Copy, Debug)]
pub struct ScopeLogs<'a> {
    message: &'a [u8],
    scope: &'a [u8],
    /// Name of the scope; empty if there is none.
    pub name: &'a [u8],
    /// Version of the scope; empty if there is none.
    pub version: &'a [u8],
    /// Attributes that the sender left out.
    pub dropped_attributes_count: u32,
}

impl<'a> ScopeLogs<'a> {
    fn read(message: &'a [u8]) -> ScopeLogs<'a> {
        let scope = Messages { fields: Fields::new(message), number: 1 }.last().unwrap_or_default();
        let mut scope_logs =
            ScopeLogs { message, scope, name: b"", version: b"", dropped_attributes_count: 0 };
        let mut fields = Fields::new(scope);
        while let Some((number, value)) = fields.next().expect(CHECKED) {
            match (number, value) {
                (1, Value::Bytes(name)) => scope_logs.name = name,
                (2, Value::Bytes(version)) => scope_logs.version = version,
                (4, count) => {
                    let count = count.uint32("DroppedAttributesCount");
                    scope_logs.dropped_attributes_count = count.expect(CHECKED);
                }
                _ => {}
            }
        }
        scope_logs
    }

    /// Bytes of the scope without its records.
    pub(super) fn len_bytes(&self) -> usize {
        self.scope.len()
    }

    /// The attributes of the scope.
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes::new(self.scope, 3)
    }

    /// The records in the order sent.
    pub fn records(&self) -> Records<'a> {
        Records(Messages { fields: Fields::new(self.message), number: 2 })
    }
}

/// Iterator over the records of a scope.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a>(Messages<'a>);

impl<'a> Iterator for Records<'a> {
    type Item = LogRecord<'a>;

    fn next(&mut self) -> Option<LogRecord<'a>> {
        self.0.next().map(|message| LogRecord::read(message).expect(CHECKED))
    }
}

/// A record. Numbers are 0 and texts empty where the sender said nothing.
#[derive(Clone, Copy, Debug)]
pub struct LogRecord<'a> {
    message: &'a [u8],
    /// When it happened, in ns since the Unix epoch.
    pub time_unix_ns: u64,
    /// When it was seen, in ns since the Unix epoch.
    pub observed_time_unix_ns: u64,
    /// The severity: from 1 to 24, if the sender keeps to the protocol.
    pub severity_number: i32,
    /// The sender's own word for the severity.
    pub severity_text: &'a [u8],
    /// The message.
    pub body: AnyValue<'a>,
    /// Attributes that the sender left out.
    pub dropped_attributes_count: u32,
    /// Flags of the trace.
    pub flags: u32,
    /// Id of the trace.
    pub trace_id: &'a [u8],
    /// Id of the span.
    pub span_id: &'a [u8],
    /// The kind of the event.
    pub event_name: &'a [u8],
}

impl<'a> LogRecord<'a> {
    pub(super) fn read(message: &'a [u8]) -> Result<LogRecord<'a>, ProtobufError> {
        let mut record = LogRecord {
            message,
            time_unix_ns: 0,
            observed_time_unix_ns: 0,
            severity_number: 0,
            severity_text: b"",
            body: AnyValue::Empty,
            dropped_attributes_count: 0,
            flags: 0,
            trace_id: b"",
            span_id: b"",
            event_name: b"",
        };
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => record.time_unix_ns = value.fixed64("TimeUnixNano")?,
                2 => record.severity_number = value.int32("SeverityNumber")?,
                3 => record.severity_text = value.bytes("SeverityText")?,
                5 => record.body = read_any(value.bytes("Body")?)?,
                7 => {
                    record.dropped_attributes_count = value.uint32("DroppedAttributesCount")?;
                }
                8 => record.flags = value.fixed32("Flags")?,
                9 => record.trace_id = value.bytes("TraceId")?,
                10 => record.span_id = value.bytes("SpanId")?,
                11 => record.observed_time_unix_ns = value.fixed64("ObservedTimeUnixNano")?,
                12 => record.event_name = value.bytes("EventName")?,
                _ => {}
            }
        }
        Ok(record)
    }

    /// Bytes of the record as sent.
    pub fn len_bytes(&self) -> usize {
        self.message.len()
    }

    /// The attributes of the record.
    pub fn attributes(&self) -> Attributes<'a> {
        Attributes::new(self.message, 6)
    }
}

/// Iterator over attributes: names and values.
#[derive(Clone, Copy, Debug)]
pub struct Attributes<'a>(Messages<'a>);

impl<'a> Attributes<'a> {
    pub(super) fn new(message: &'a [u8], number: u32) -> Attributes<'a> {
        Attributes(Messages { fields: Fields::new(message), number })
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (&'a [u8], AnyValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|message| read_attribute(message).expect(CHECKED))
    }
}

/// Reads a `KeyValue`.
pub(super) fn read_attribute(message: &[u8]) -> Result<(&[u8], AnyValue<'_>), ProtobufError> {
    let (mut name, mut any): (&[u8], _) = (b"", AnyValue::Empty);
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => name = value.bytes("Key")?,
            2 => any = read_any(value.bytes("Value")?)?,
            _ => {}
        }
    }
    Ok((name, any))
}
