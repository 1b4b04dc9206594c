//! Parquet files for `logsvc import`: rows become lines of JSON as an export has them.
//!
//! A row needs the columns `timestamp` (ns, µs or ms since the Unix epoch), `labels` (a map) and
//! `line`. Structured metadata is in `metadata` or `structured_metadata`. Other columns are not read.
//!
//! Guarantees: rows are read one by one, so a file may have any size; memory is that of the pages of
//! its columns. Failure: a column is missing or of another type, or the file is damaged.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use logsvc_proto::transfer::{EntryLabels, write_entry};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;

/// The four bytes at the beginning and at the end of a Parquet file.
const MAGIC: &[u8; 4] = b"PAR1";

/// Columns that are read, if they are there.
const COLUMNS: [&str; 5] = ["timestamp", "labels", "metadata", "structured_metadata", "line"];

/// Whether a file begins as one of Parquet does.
pub(super) fn is_parquet(file: &File) -> bool {
    let mut start = [0; MAGIC.len()];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut start, 0).is_ok() && start == *MAGIC
}

/// Gives each row from this number on, counted from 1, with its number, as a line.
///
/// # Errors
/// The file cannot be used, or `take` fails.
pub(super) fn read(
    file: impl ChunkReader + 'static,
    first: u64,
    mut take: impl FnMut(u64, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let reader = SerializedFileReader::new(file).map_err(bad)?;
    let projection = projection(reader.metadata().file_metadata().schema())?;
    let (mut number, mut line) = (0, Vec::new());
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(bad)?;
        let rows = u64::try_from(group.metadata().num_rows()).map_err(io::Error::other)?;
        if number + rows < first {
            number += rows;
            continue;
        }
        for row in group.get_row_iter(Some(projection.clone())).map_err(bad)? {
            number += 1;
            if number < first {
                continue;
            }
            line.clear();
            let row = row.map_err(bad)?;
            write_row(&row, &mut line).map_err(|text| {
                io::Error::new(io::ErrorKind::InvalidData, format!("row {number}: {text}"))
            })?;
            take(number, &line)?;
        }
    }
    Ok(())
}

fn bad(error: ParquetError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// The schema without the columns that are not read.
fn projection(schema: &Type) -> io::Result<Type> {
    for needed in ["timestamp", "labels", "line"] {
        if !schema.get_fields().iter().any(|field| field.name() == needed) {
            let text = format!("the file has no column {needed}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
    }
    let fields = schema.get_fields().iter().filter(|field| COLUMNS.contains(&field.name()));
    Type::group_type_builder(schema.name())
        .with_fields(fields.cloned().collect())
        .build()
        .map_err(bad)
}

fn write_row(row: &Row, out: &mut Vec<u8>) -> Result<(), String> {
    let (mut time, mut text) = (None, None);
    let (mut labels, mut metadata) = (BTreeMap::new(), BTreeMap::new());
    for (name, field) in row.get_column_iter() {
        match name.as_str() {
            "timestamp" => time = Some(time_ns(field)?),
            "labels" => labels = pairs(name, field)?,
            "line" => text = Some(bytes(name, field)?),
            _ => metadata.extend(pairs(name, field)?),
        }
    }
    let time_ns = time.ok_or("there is no time")?;
    let line = text.ok_or("there is no line")?;
    let of = EntryLabels {
        labels: labels.iter().map(|(name, value)| (name.as_str(), value.as_str())),
        metadata: metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())),
        parsed: std::iter::empty(),
    };
    write_entry(time_ns, of, line, out);
    Ok(())
}

fn time_ns(field: &Field) -> Result<i64, String> {
    let (count, unit_ns) = match *field {
        Field::Long(count) => (count, 1),
        Field::TimestampMicros(count) => (count, 1_000),
        Field::TimestampMillis(count) => (count, 1_000_000),
        _ => return Err("the timestamp is of another type than a time of 64 bits".to_owned()),
    };
    count.checked_mul(unit_ns).ok_or_else(|| "the timestamp is beyond the year 2262".to_owned())
}

fn bytes<'f>(name: &str, field: &'f Field) -> Result<&'f [u8], String> {
    match field {
        Field::Str(text) => Ok(text.as_bytes()),
        Field::Bytes(bytes) => Ok(bytes.data()),
        _ => Err(format!("{name} is no text")),
    }
}

fn pairs(name: &str, field: &Field) -> Result<BTreeMap<String, String>, String> {
    let map = match field {
        Field::Null => return Ok(BTreeMap::new()),
        Field::MapInternal(map) => map,
        _ => return Err(format!("{name} is no map")),
    };
    let text =
        |field: &Field| bytes(name, field).map(|it| String::from_utf8_lossy(it).into_owned());
    map.entries().iter().map(|(name, value)| Ok((text(name)?, text(value)?))).collect()
}
