//! An export as one Parquet file, which is sent while it is written.
//!
//! The columns are `timestamp` (ns), the maps `labels`, `metadata` and `parsed`, and `line`, whose
//! bytes that are no UTF-8 are replaced, as in the files of queries.
//!
//! A file that ends before the export does has the cursor of the rest in its metadata.
//!
//! Guarantees: each page is a group of rows, so that neither the server nor a reader holds more than
//! a page. Only the directory of the groups grows with the file, by some KB a page; it counts
//! against the memory for queries. Failure: there is no memory. A file that is cut off has no
//! directory, so no reader takes it for a whole one.

use std::io::{self, Write};
use std::sync::Arc;

use logsvc_logql::engine::{EntryCategories, QueryResult, ResultEntry};
use logsvc_proto::Labels;
use logsvc_proto::error::ApiError;
use logsvc_proto::transfer::PARQUET_CURSOR_KEY;
use logsvc_runtime::{Reservation, Runtime};
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::ColumnPath;

use super::super::Querier;
use super::super::answer::{AnswerBody, reserve_answer};
use super::super::leaves::{inline_or_offloaded, merge_queue};
use super::super::parquet::schema;
use super::encode::by_time;
use super::pages::Page;

/// Bytes of the directory for a group of rows, about.
const GROUP_BYTES: u64 = 8 << 10;
/// Room for a page besides its rows.
const PAGE_OVERHEAD_BYTES: u64 = 256 << 10;
/// Lines that are handed to the writer at once.
const BATCH_LINES: usize = 1024;

const COLUMNS: &str = "the schema has eight columns";

/// The bytes of the file that were not sent yet.
struct Unsent(Vec<u8>);

impl Write for Unsent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// See the module.
pub(super) struct File {
    /// None after a failure.
    writer: Option<SerializedFileWriter<Unsent>>,
    directory: Option<Reservation>,
}

impl File {
    /// An empty file.
    pub(super) fn new() -> Result<File, ApiError> {
        let writer = schema::entries().and_then(|schema| {
            SerializedFileWriter::new(Unsent(Vec::new()), schema, Arc::new(properties()))
        });
        Ok(File { writer: Some(writer.map_err(failed)?), directory: None })
    }

    /// The bytes of a page.
    pub(super) async fn page<R: Runtime>(
        &mut self,
        querier: &Querier<R>,
        page: Page,
    ) -> Result<AnswerBody, ApiError> {
        let budget = &querier.core.budgets().queries;
        if page.entries == 0 {
            return AnswerBody::new(Vec::new(), budget);
        }
        let result_bytes = page.result.held_bytes();
        // Encoded pages, and the file with them.
        let room = reserve_answer(2 * result_bytes as u64 + PAGE_OVERHEAD_BYTES, budget)?;
        let more = reserve_answer(GROUP_BYTES, budget)?;
        match &mut self.directory {
            Some(directory) => directory.merge(more),
            none => *none = Some(more),
        }
        let Some(mut writer) = self.writer.take() else { return Err(super::stopping()) };
        let write = move || {
            let written = write_page(&mut writer, &page.result);
            drop(page);
            (writer, written)
        };
        let queue = merge_queue(result_bytes.saturating_mul(2));
        let (mut writer, written) = inline_or_offloaded(&querier.core.runtime, queue, write).await;
        written.map_err(failed)?;
        let bytes = std::mem::take(&mut writer.inner_mut().0);
        self.writer = Some(writer);
        Ok(AnswerBody::held(bytes, room))
    }

    /// The end of the file, with the cursor of what is left out.
    pub(super) fn end(&mut self, rest: Option<String>) -> Result<Vec<u8>, ApiError> {
        let mut writer = self.writer.take().ok_or_else(super::stopping)?;
        if let Some(cursor) = rest {
            writer.append_key_value_metadata(KeyValue::new(PARQUET_CURSOR_KEY.to_owned(), cursor));
        }
        writer.into_inner().map(|unsent| unsent.0).map_err(failed)
    }
}

fn failed(error: ParquetError) -> ApiError {
    ApiError::internal(format!("could not write a Parquet file: {error}"))
}

fn properties() -> WriterProperties {
    let path = |names: &[&str]| {
        ColumnPath::new(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>())
    };
    WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by("logsvc".to_owned())
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_compression(Compression::SNAPPY)
        .set_column_dictionary_enabled(path(schema::TIMESTAMP), false)
        .set_column_encoding(path(schema::TIMESTAMP), Encoding::DELTA_BINARY_PACKED)
        .set_column_dictionary_enabled(path(&["line"]), false)
        .set_column_encoding(path(&["line"]), Encoding::DELTA_LENGTH_BYTE_ARRAY)
        .set_column_statistics_enabled(path(&["line"]), EnabledStatistics::None)
        .build()
}

/// Writes the rows of a page as a group.
fn write_page(
    writer: &mut SerializedFileWriter<Unsent>,
    result: &QueryResult,
) -> Result<(), ParquetError> {
    let QueryResult::Streams(streams) = result else {
        return Err(ParquetError::General("a log query has no streams".to_owned()));
    };
    let rows: Vec<(&Labels, &ResultEntry)> = by_time(streams).collect();
    let none = Labels::empty();
    let mut group = writer.next_row_group()?;
    let mut column = group.next_column()?.expect(COLUMNS);
    let times: Vec<i64> = rows.iter().map(|(_, entry)| entry.timestamp_ns).collect();
    column.typed::<Int64Type>().write_batch(&times, None, None)?;
    column.close()?;
    write_map(&mut group, rows.iter().map(|(labels, _)| *labels))?;
    write_map(
        &mut group,
        rows.iter().map(|(_, entry)| {
            categories(entry).map_or(&none, |categories| &categories.structured_metadata)
        }),
    )?;
    write_map(
        &mut group,
        rows.iter()
            .map(|(_, entry)| categories(entry).map_or(&none, |categories| &categories.parsed)),
    )?;
    let mut column = group.next_column()?.expect(COLUMNS);
    for rows in rows.chunks(BATCH_LINES) {
        let lines = rows.iter().map(|(_, entry)| ByteArray::from(schema::utf8(entry.line.clone())));
        let lines: Vec<ByteArray> = lines.collect();
        column.typed::<ByteArrayType>().write_batch(&lines, None, None)?;
    }
    column.close()?;
    group.close().map(drop)
}

fn categories(entry: &ResultEntry) -> Option<&EntryCategories> {
    entry.categories.as_deref()
}

/// Takes the name or the value of a label.
type Half = for<'p> fn((&'p str, &'p str)) -> &'p str;

/// Writes the two columns of a map.
fn write_map<'l>(
    group: &mut SerializedRowGroupWriter<'_, Unsent>,
    rows: impl Iterator<Item = &'l Labels> + Clone,
) -> Result<(), ParquetError> {
    let halves: [Half; 2] = [|(name, _)| name, |(_, value)| value];
    for half in halves {
        let (mut texts, mut definitions, mut repetitions) = (Vec::new(), Vec::new(), Vec::new());
        for labels in rows.clone() {
            let mut index = 0;
            for pair in labels.iter() {
                texts.push(ByteArray::from(half(pair)));
                definitions.push(1);
                repetitions.push(i16::from(index > 0));
                index += 1;
            }
            if index == 0 {
                definitions.push(0);
                repetitions.push(0);
            }
        }
        let mut column = group.next_column()?.expect(COLUMNS);
        let levels = (Some(definitions.as_slice()), Some(repetitions.as_slice()));
        column.typed::<ByteArrayType>().write_batch(&texts, levels.0, levels.1)?;
        column.close()?;
    }
    Ok(())
}
