//! Writes a result as a file: one row per entry or sample, in the order of the answer.
//!
//! Rows go into groups of bounded size, one column after the other; lines are handed to
//! the writer without a copy. Labels repeat from row to row and are stored by dictionary;
//! lines are compressed with Snappy, which every reader knows.

use std::sync::Arc;

use logsvc_logql::engine::{QueryResult, ResultPoint};
use logsvc_proto::Labels;
use logsvc_proto::encode::write_text_array;
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnPath;

use super::schema::{self, Row};
use super::sink::Sink;

/// Bounds of a group of rows: a reader and the writer hold a whole group in memory.
pub(super) const GROUP_ROWS_MAX: usize = 32 << 10;
pub(super) const GROUP_VALUE_BYTES_MAX: usize = 8 << 20;

/// Values that are handed to the writer at once, and their bytes. Between batches other
/// tasks of the core run.
const BATCH_VALUES_MAX: usize = 1024;
const BATCH_BYTES_MAX: usize = 256 << 10;

/// Key of the warnings in the metadata of a file.
pub(super) const WARNINGS: &str = "warnings";

/// Rows that have their labels in common.
struct Series<T> {
    labels: Labels,
    rows: Vec<T>,
}

/// Consecutive rows of one series.
struct SeriesRows<'a, T> {
    labels: &'a Labels,
    rows: &'a mut [T],
}

/// Writes the file of a result into `sink`; calls `pause` between batches.
///
/// # Errors
/// The sink has no room.
pub(super) async fn write(
    result: QueryResult,
    warnings: &[String],
    sink: Sink,
    pause: impl AsyncFn(),
) -> Result<Sink, ParquetError> {
    let one = |labels, point| Series { labels, rows: vec![point] };
    match result {
        QueryResult::Streams(streams) => {
            let series = streams.into_iter().map(|s| Series { labels: s.labels, rows: s.entries });
            write_rows(series.collect(), warnings, sink, pause).await
        }
        QueryResult::Matrix(series) => {
            let series = series.into_iter().map(|s| Series { labels: s.labels, rows: s.points });
            write_rows(series.collect(), warnings, sink, pause).await
        }
        QueryResult::Vector(samples) => {
            let series = samples.into_iter().map(|sample| one(sample.labels, sample.point));
            write_rows(series.collect(), warnings, sink, pause).await
        }
        QueryResult::Scalar { timestamp_ms, value } => {
            let series = vec![one(Labels::default(), ResultPoint { timestamp_ms, value })];
            write_rows(series, warnings, sink, pause).await
        }
    }
}

async fn write_rows<T: Row>(
    mut series: Vec<Series<T>>,
    warnings: &[String],
    sink: Sink,
    pause: impl AsyncFn(),
) -> Result<Sink, ParquetError> {
    let properties = Arc::new(properties::<T>(warnings));
    let mut file = SerializedFileWriter::new(sink, schema::message::<T>()?, properties)?;
    let mut group = Vec::new();
    let (mut rows, mut value_bytes) = (0, 0);
    for series in &mut series {
        let mut rest = series.rows.as_mut_slice();
        while !rest.is_empty() {
            let mut taken = 0;
            while taken < rest.len() && rows < GROUP_ROWS_MAX && value_bytes < GROUP_VALUE_BYTES_MAX
            {
                value_bytes += rest[taken].value_len_bytes();
                (taken, rows) = (taken + 1, rows + 1);
            }
            let (now, later) = rest.split_at_mut(taken);
            group.push(SeriesRows { labels: &series.labels, rows: now });
            rest = later;
            if rows >= GROUP_ROWS_MAX || value_bytes >= GROUP_VALUE_BYTES_MAX {
                write_group(file.next_row_group()?, &mut group, &pause).await?;
                group.clear();
                (rows, value_bytes) = (0, 0);
            }
        }
    }
    if rows > 0 {
        write_group(file.next_row_group()?, &mut group, &pause).await?;
    }
    file.into_inner()
}

fn properties<T: Row>(warnings: &[String]) -> WriterProperties {
    let path = |names: &[&str]| {
        ColumnPath::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    };
    let mut properties = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by("logsvc".to_owned())
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_column_dictionary_enabled(path(schema::TIMESTAMP), false)
        .set_column_encoding(path(schema::TIMESTAMP), Encoding::DELTA_BINARY_PACKED)
        .set_column_dictionary_enabled(path(schema::LABEL_NAME), true)
        .set_column_dictionary_enabled(path(schema::LABEL_VALUE), true)
        .set_column_dictionary_enabled(path(&[T::VALUE]), false);
    properties = if T::Value::get_physical_type() == ByteArrayType::get_physical_type() {
        properties
            .set_column_encoding(path(&[T::VALUE]), Encoding::DELTA_LENGTH_BYTE_ARRAY)
            .set_column_compression(path(&[T::VALUE]), Compression::SNAPPY)
            .set_column_statistics_enabled(path(&[T::VALUE]), EnabledStatistics::None)
    } else {
        properties.set_column_encoding(path(&[T::VALUE]), Encoding::PLAIN)
    };
    if !warnings.is_empty() {
        let mut texts = Vec::new();
        write_text_array(warnings.iter().map(String::as_str), &mut texts);
        let texts = String::from_utf8_lossy(&texts).into_owned();
        let metadata = vec![KeyValue::new(WARNINGS.to_owned(), texts)];
        properties = properties.set_key_value_metadata(Some(metadata));
    }
    properties.build()
}

/// Writes the columns of a group, which takes the values out of its rows.
async fn write_group<T: Row>(
    mut group: SerializedRowGroupWriter<'_, Sink>,
    runs: &mut [SeriesRows<'_, T>],
    pause: &impl AsyncFn(),
) -> Result<(), ParquetError> {
    const COLUMNS: &str = "a schema has four columns";
    let mut column = group.next_column()?.expect(COLUMNS);
    let times = runs.iter().flat_map(|run| run.rows.iter()).map(|row| (row.timestamp(), 8));
    write_values::<Int64Type>(column.typed(), times, pause).await?;
    column.close()?;

    let mut column = group.next_column()?.expect(COLUMNS);
    write_labels(column.typed(), runs, |(name, _)| name, pause).await?;
    column.close()?;

    let mut column = group.next_column()?.expect(COLUMNS);
    write_labels(column.typed(), runs, |(_, value)| value, pause).await?;
    column.close()?;

    let mut column = group.next_column()?.expect(COLUMNS);
    let rows = runs.iter_mut().flat_map(|run| run.rows.iter_mut());
    let values = rows.map(|row| {
        let len_bytes = row.value_len_bytes();
        (row.take_value(), len_bytes)
    });
    write_values::<T::Value>(column.typed(), values, pause).await?;
    column.close()?;
    group.close().map(drop)
}

/// Writes a column with one value in each row; values come with their bytes.
async fn write_values<D: DataType>(
    column: &mut ColumnWriterImpl<'_, D>,
    values: impl Iterator<Item = (D::T, usize)>,
    pause: &impl AsyncFn(),
) -> Result<(), ParquetError> {
    let (mut batch, mut batch_bytes) = (Vec::with_capacity(BATCH_VALUES_MAX), 0);
    for (value, len_bytes) in values {
        batch.push(value);
        batch_bytes += len_bytes;
        if batch.len() >= BATCH_VALUES_MAX || batch_bytes >= BATCH_BYTES_MAX {
            column.write_batch(&batch, None, None)?;
            batch.clear();
            batch_bytes = 0;
            pause().await;
        }
    }
    column.write_batch(&batch, None, None).map(drop)
}

/// Writes one half of the labels of each row.
async fn write_labels<T>(
    column: &mut ColumnWriterImpl<'_, ByteArrayType>,
    runs: &[SeriesRows<'_, T>],
    half: for<'p> fn((&'p str, &'p str)) -> &'p str,
    pause: &impl AsyncFn(),
) -> Result<(), ParquetError> {
    let (mut texts, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
    for run in runs {
        // Rows share the bytes.
        let labels = run.labels.iter().map(|pair| ByteArray::from(half(pair)));
        let labels: Vec<ByteArray> = labels.collect();
        for _ in run.rows.iter() {
            if labels.is_empty() {
                definitions.push(0);
                repetitions.push(0);
            }
            for (index, text) in labels.iter().enumerate() {
                texts.push(text.clone());
                definitions.push(1);
                repetitions.push(i16::from(index > 0));
            }
            if definitions.len() >= BATCH_VALUES_MAX {
                column.write_batch(&texts, Some(&definitions), Some(&repetitions))?;
                texts.clear();
                definitions.clear();
                repetitions.clear();
                pause().await;
            }
        }
    }
    column.write_batch(&texts, Some(&definitions), Some(&repetitions)).map(drop)
}
