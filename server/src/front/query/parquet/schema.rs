//! The two schemas, as the reference has them, and the row types of each.

use std::sync::Arc;

use logsvc_logql::engine::{ResultEntry, ResultPoint};
use parquet::basic::{ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type, TypePtr};

/// A row of a file: a time and a value; its series has the labels.
pub(super) trait Row {
    /// Name of the message type.
    const MESSAGE: &'static str;
    /// Name of the value's column.
    const VALUE: &'static str;
    /// How values are stored.
    type Value: DataType;

    /// The unit of times.
    fn time_unit() -> TimeUnit;
    /// The column of values.
    fn value_column() -> Result<Type, ParquetError>;
    /// Time since the epoch, in [`Self::time_unit`].
    fn timestamp(&self) -> i64;
    /// Bytes that the value takes.
    fn value_len_bytes(&self) -> usize;
    /// The value, which is gone afterwards.
    fn take_value(&mut self) -> <Self::Value as DataType>::T;
}

impl Row for ResultEntry {
    const MESSAGE: &'static str = "LogStreamRowType";
    const VALUE: &'static str = "line";
    type Value = ByteArrayType;

    fn time_unit() -> TimeUnit {
        TimeUnit::NANOS
    }

    fn value_column() -> Result<Type, ParquetError> {
        text_column(Self::VALUE)
    }

    fn timestamp(&self) -> i64 {
        self.timestamp_ns
    }

    fn value_len_bytes(&self) -> usize {
        self.line.len()
    }

    fn take_value(&mut self) -> ByteArray {
        ByteArray::from(utf8(std::mem::take(&mut self.line)))
    }
}

impl Row for ResultPoint {
    const MESSAGE: &'static str = "MetricRowType";
    const VALUE: &'static str = "value";
    type Value = DoubleType;

    fn time_unit() -> TimeUnit {
        TimeUnit::MILLIS
    }

    fn value_column() -> Result<Type, ParquetError> {
        let column = Type::primitive_type_builder(Self::VALUE, Physical::DOUBLE);
        column.with_repetition(Repetition::REQUIRED).build()
    }

    fn timestamp(&self) -> i64 {
        self.timestamp_ms
    }

    fn value_len_bytes(&self) -> usize {
        size_of::<f64>()
    }

    fn take_value(&mut self) -> f64 {
        self.value
    }
}

/// The bytes with one replacement character for each that is not UTF-8, as in JSON
/// answers: the column is declared as text, and readers may insist on that.
pub(in crate::front::query) fn utf8(line: Box<[u8]>) -> Vec<u8> {
    if std::str::from_utf8(&line).is_ok() {
        return line.into_vec();
    }
    let mut text = String::with_capacity(line.len() + 16);
    for chunk in line.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    text.into_bytes()
}

/// Columns by their place in the schema.
pub(in crate::front::query) const TIMESTAMP: &[&str] = &["timestamp"];
pub(super) const LABEL_NAME: &[&str] = &["labels", "key_value", "key"];
pub(super) const LABEL_VALUE: &[&str] = &["labels", "key_value", "value"];

/// The schema of files with rows of this type.
pub(super) fn message<T: Row>() -> Result<TypePtr, ParquetError> {
    let columns = [timestamp_column(T::time_unit())?, map_column("labels")?, T::value_column()?];
    let message = Type::group_type_builder(T::MESSAGE);
    Ok(Arc::new(message.with_fields(columns.into_iter().map(Arc::new).collect()).build()?))
}

/// The schema of an export: labels of each category have a column of their own.
pub(in crate::front::query) fn entries() -> Result<TypePtr, ParquetError> {
    let maps = ["labels", "metadata", "parsed"].map(map_column);
    let first = timestamp_column(TimeUnit::NANOS);
    let columns = [first].into_iter().chain(maps).chain([text_column("line")]);
    let columns: Result<Vec<_>, ParquetError> =
        columns.map(|column| column.map(Arc::new)).collect();
    let message = Type::group_type_builder("Entry");
    Ok(Arc::new(message.with_fields(columns?).build()?))
}

fn timestamp_column(unit: TimeUnit) -> Result<Type, ParquetError> {
    let is_adjusted_to_u_t_c = true;
    Type::primitive_type_builder("timestamp", Physical::INT64)
        .with_logical_type(Some(LogicalType::timestamp(is_adjusted_to_u_t_c, unit)))
        .with_repetition(Repetition::REQUIRED)
        .build()
}

fn map_column(name: &str) -> Result<Type, ParquetError> {
    let pair = Type::group_type_builder("key_value")
        .with_repetition(Repetition::REPEATED)
        .with_fields(vec![Arc::new(text_column("key")?), Arc::new(text_column("value")?)])
        .build()?;
    Type::group_type_builder(name)
        .with_logical_type(Some(LogicalType::Map))
        .with_converted_type(ConvertedType::MAP)
        .with_repetition(Repetition::REQUIRED)
        .with_fields(vec![Arc::new(pair)])
        .build()
}

fn text_column(name: &str) -> Result<Type, ParquetError> {
    Type::primitive_type_builder(name, Physical::BYTE_ARRAY)
        .with_logical_type(Some(LogicalType::String))
        .with_converted_type(ConvertedType::UTF8)
        .with_repetition(Repetition::REQUIRED)
        .build()
}
