//! Values of template expressions, with the Go types that messages and `printf`
//! show.

use std::rc::Rc;

use logsvc_proto::Labels;

use super::alert::AlertData;
use super::json::Json;
use super::labels::LabelMap;
use super::time::Time;
use crate::engine::meter::Meter;

/// Bytes that are part of the template or the entry, or that a function made.
#[derive(Clone, Debug)]
pub(super) enum Text<'v> {
    Borrowed(&'v [u8]),
    Shared(Rc<[u8]>),
    Owned(Rc<Owned<'v>>),
}

/// Bytes that a function made.
#[derive(Debug)]
pub(super) struct Owned<'v> {
    bytes: Vec<u8>,
    /// The reservation of their memory, unless they are few.
    meter: Option<&'v Meter>,
}

impl Drop for Owned<'_> {
    fn drop(&mut self) {
        if let Some(meter) = self.meter {
            meter.release(self.bytes.capacity());
        }
    }
}

impl Text<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Shared(bytes) => bytes,
            Self::Owned(owned) => &owned.bytes,
        }
    }
}

impl<'v> Text<'v> {
    /// Bytes whose capacity the meter has admitted, which has it back when they go.
    pub(super) fn counted(bytes: Vec<u8>, meter: &'v Meter) -> Self {
        Self::Owned(Rc::new(Owned { bytes, meter: Some(meter) }))
    }
}

impl<'v> From<&'v [u8]> for Text<'v> {
    fn from(bytes: &'v [u8]) -> Self {
        Self::Borrowed(bytes)
    }
}

/// For short texts, which are not worth counting.
impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self::Owned(Rc::new(Owned { bytes: text.into_bytes(), meter: None }))
    }
}

/// A value.
#[derive(Clone, Debug, Default)]
pub(super) enum Value<'v> {
    /// No value at all: Go's invalid `reflect.Value`, or an untyped nil.
    #[default]
    Nothing,
    Bool(bool),
    Int(i64),
    Int64(i64),
    /// A byte of a string.
    Byte(u8),
    Float(f64),
    /// The real and the imaginary part.
    Complex(f64, f64),
    Text(Text<'v>),
    Time(Time),
    Month(u8),
    /// 0 is Sunday.
    Weekday(u8),
    /// Nanoseconds.
    Duration(i64),
    /// The labels of the entry: a map from string to string.
    Labels(&'v LabelMap<'v>),
    /// An array of `fromJson`.
    Array(Rc<[Json]>),
    /// An object of `fromJson`, sorted by key.
    Object(Rc<[(Rc<[u8]>, Json)]>),
    /// An element of an array or object: an interface value in Go. At the end of a pipeline it
    /// becomes the value that it holds.
    Element(Json),
    /// Labels in templates of alerts.
    Map(&'v Labels),
    /// The arguments of `args`, which become a map with the keys `arg0`, `arg1` and so on.
    Arguments(Rc<Arguments<'v>>),
    /// What a template of an alert is executed over.
    Alert(&'v AlertData<'v>),
    /// A sample of a query's result.
    Sample(&'v (Labels, f64)),
    /// The result of a query.
    Samples(Rc<[&'v (Labels, f64)]>),
}

impl<'v> Value<'v> {
    /// The value of a label; empty text when there is none.
    pub(super) fn label(labels: &'v Labels, name: &str) -> Self {
        Self::text(labels.get(name).unwrap_or("").as_bytes())
    }

    /// One of the arguments of `args`, by its key.
    pub(super) fn argument(args: &Arguments<'v>, key: &str) -> Self {
        let digits = key.strip_prefix("arg").unwrap_or("");
        let index = digits.parse().ok().filter(|index: &usize| index.to_string() == digits);
        index.and_then(|index| args.values.get(index)).cloned().unwrap_or_default()
    }

    /// The arguments of `args` with their keys, sorted by key.
    pub(super) fn sorted_arguments(args: &Arguments<'v>) -> Vec<(String, Self)> {
        let named =
            args.values.iter().enumerate().map(|(i, value)| (format!("arg{i}"), value.clone()));
        let mut sorted: Vec<_> = named.collect();
        sorted.sort_by(|a, b| a.0.cmp(&b.0));
        sorted
    }

    /// True for maps and structs.
    pub(super) fn has_fields(&self) -> bool {
        matches!(
            self,
            Self::Labels(_)
                | Self::Object(_)
                | Self::Map(_)
                | Self::Arguments(_)
                | Self::Alert(_)
                | Self::Sample(_)
        )
    }

    pub(super) fn text(text: impl Into<Text<'v>>) -> Self {
        Self::Text(text.into())
    }

    /// The value within an interface value.
    pub(super) fn unwrapped(self) -> Self {
        match self {
            Self::Element(json) => match json {
                Json::Null => Self::Nothing,
                Json::Bool(value) => Self::Bool(value),
                Json::Number(value) => Self::Float(value),
                Json::Text(bytes) => Self::Text(Text::Shared(bytes)),
                Json::Array(items) => Self::Array(items),
                Json::Object(fields) => Self::Object(fields),
            },
            other => other,
        }
    }

    /// The Go type; that of an interface value is the interface.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Nothing => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Byte(_) => "uint8",
            Self::Float(_) => "float64",
            Self::Complex(..) => "complex128",
            Self::Text(_) => "string",
            Self::Time(_) => "time.Time",
            Self::Month(_) => "time.Month",
            Self::Weekday(_) => "time.Weekday",
            Self::Duration(_) => "time.Duration",
            Self::Labels(_) | Self::Map(_) => "map[string]string",
            Self::Array(_) => "[]interface {}",
            Self::Object(_) | Self::Arguments(_) => "map[string]interface {}",
            Self::Element(_) => "interface {}",
            Self::Alert(_) => {
                "struct { Labels map[string]string; ExternalLabels map[string]string; \
                 ExternalURL string; Value float64 }"
            }
            Self::Sample(_) => "*template.sample",
            Self::Samples(_) => "template.queryResult",
        }
    }

    /// Go templates' notion of truth.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Time(_) => true,
            Self::Element(Json::Null) => false,
            Self::Element(json) => Value::Element(json.clone()).unwrapped().is_true(),
            other => !other.is_zero(),
        }
    }

    /// True for zero, the empty string and empty collections.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::Bool(value) => !value,
            Self::Int(value) | Self::Int64(value) | Self::Duration(value) => *value == 0,
            Self::Byte(value) | Self::Month(value) | Self::Weekday(value) => *value == 0,
            Self::Float(value) => *value == 0.0,
            Self::Complex(real, imaginary) => *real == 0.0 && *imaginary == 0.0,
            Self::Text(text) => text.bytes().is_empty(),
            Self::Time(_) | Self::Alert(_) | Self::Sample(_) => false,
            Self::Map(labels) => labels.is_empty(),
            Self::Arguments(args) => args.values.is_empty(),
            Self::Samples(samples) => samples.is_empty(),
            Self::Labels(labels) => labels.len() == 0,
            Self::Array(items) => items.is_empty(),
            Self::Object(fields) => fields.is_empty(),
            Self::Element(json) => Value::Element(json.clone()).unwrapped().is_zero(),
        }
    }

    /// The value of the integer kinds.
    pub(super) fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) | Self::Int64(value) | Self::Duration(value) => Some(*value),
            Self::Byte(value) | Self::Month(value) | Self::Weekday(value) => {
                Some(i64::from(*value))
            }
            _ => None,
        }
    }

    /// The kind by which values are compared, without regard to the exact type.
    pub(super) fn basic_kind(&self) -> Option<BasicKind> {
        Some(match self {
            Self::Bool(_) => BasicKind::Bool,
            Self::Int(_)
            | Self::Int64(_)
            | Self::Duration(_)
            | Self::Month(_)
            | Self::Weekday(_) => BasicKind::Int,
            Self::Byte(_) => BasicKind::Uint,
            Self::Float(_) => BasicKind::Float,
            Self::Complex(..) => BasicKind::Complex,
            Self::Text(_) => BasicKind::Text,
            _ => return None,
        })
    }

    /// Bytes that a function may have to look at.
    pub(super) fn len_bytes(&self) -> usize {
        match self {
            Self::Text(text) => text.bytes().len(),
            _ => 0,
        }
    }
}

/// The arguments of `args`.
#[derive(Debug)]
pub(super) struct Arguments<'v> {
    pub(super) values: Vec<Value<'v>>,
    /// How deep such values hold one another, from 1.
    pub(super) depth: usize,
}

/// Kinds of comparable values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BasicKind {
    Bool,
    Int,
    Uint,
    Float,
    Complex,
    Text,
}
