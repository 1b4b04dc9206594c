//! Files are read back with another piece of code than wrote them: the reader of records.

use bytes::Bytes;
use futures_util::FutureExt;
use logsvc_logql::engine::{
    MatrixSeries, QueryResult, ResultEntry, ResultPoint, StreamResult, VectorSample,
};
use logsvc_proto::Labels;
use logsvc_runtime::Budget;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};

use super::file::{self, GROUP_ROWS_MAX, WARNINGS};
use super::sink::{Sink, refusal};

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied()).expect("valid names")
}

fn entry(timestamp_ns: i64, line: &[u8]) -> ResultEntry {
    ResultEntry { timestamp_ns, line: line.into(), categories: None }
}

fn point(timestamp_ms: i64, value: f64) -> ResultPoint {
    ResultPoint { timestamp_ms, value }
}

fn written(result: QueryResult, warnings: &[String]) -> SerializedFileReader<Bytes> {
    let budget = Budget::new("queries", 1 << 30);
    let sink = Sink::new(&budget).expect("there is room");
    let pauses = file::write(result, warnings, sink, async || {});
    let sink = pauses.now_or_never().expect("nothing waits").expect("a file");
    let (bytes, _) = sink.into_parts();
    SerializedFileReader::new(Bytes::from(bytes)).expect("a Parquet file")
}

/// Label names and values of a row, its time, and its value.
fn read(row: &Row) -> (Vec<(String, String)>, Field, Field) {
    let columns: Vec<(&String, &Field)> = row.get_column_iter().collect();
    let [(time_name, time), (labels_name, Field::MapInternal(map)), (_, value)] = columns[..]
    else {
        panic!("other columns: {columns:?}")
    };
    assert_eq!((time_name.as_str(), labels_name.as_str()), ("timestamp", "labels"));
    let text = |field: &Field| match field {
        Field::Str(text) => text.clone(),
        other => panic!("no text: {other:?}"),
    };
    let pairs = map.entries().iter().map(|(name, value)| (text(name), text(value))).collect();
    (pairs, time.clone(), value.clone())
}

fn schema_text(reader: &SerializedFileReader<Bytes>) -> String {
    let mut text = Vec::new();
    let schema = reader.metadata().file_metadata().schema();
    parquet::schema::printer::print_schema(&mut text, schema);
    String::from_utf8(text).expect("ASCII")
}

const LABELS_TEXT: &str = "  REQUIRED group labels (MAP) {
    REPEATED group key_value {
      REQUIRED BYTE_ARRAY key (STRING);
      REQUIRED BYTE_ARRAY value (STRING);
    }
  }
";

#[test]
fn streams_have_a_row_for_each_entry() {
    let streams = vec![
        StreamResult::new(
            labels(&[("app", "shop"), ("env", "prod")]),
            vec![entry(1_795_224_420_000_000_001, b"one"), entry(-5, b"\xff\xfe two")],
        ),
        StreamResult::new(Labels::default(), vec![entry(i64::MAX, b"")]),
    ];
    let reader = written(QueryResult::Streams(streams), &["a \"part\" is missing".to_owned()]);
    let expected = format!(
        "message LogStreamRowType {{\n  REQUIRED INT64 timestamp (TIMESTAMP(NANOS,true));\n\
         {LABELS_TEXT}  REQUIRED BYTE_ARRAY line (STRING);\n}}\n"
    );
    assert_eq!(schema_text(&reader), expected);
    let metadata = reader.metadata().file_metadata();
    assert_eq!(metadata.version(), 2);
    let warnings = metadata.key_value_metadata().and_then(|pairs| pairs.first());
    let warnings = warnings.expect("the warnings");
    assert_eq!(warnings.key, WARNINGS);
    assert_eq!(warnings.value.as_deref(), Some(r#"["a \"part\" is missing"]"#));

    let rows: Vec<_> = reader.get_row_iter(None).expect("rows").map(Result::unwrap).collect();
    let rows: Vec<_> = rows.iter().map(read).collect();
    let shop = vec![("app".into(), "shop".into()), ("env".into(), "prod".into())];
    let line = |text: &str| Field::Str(text.to_owned());
    // The reader of records gives nanoseconds as plain numbers.
    assert_eq!(rows[0], (shop.clone(), Field::Long(1_795_224_420_000_000_001), line("one")));
    assert_eq!(rows[1], (shop, Field::Long(-5), line("\u{fffd}\u{fffd} two")));
    assert_eq!(rows[2], (vec![], Field::Long(i64::MAX), line("")));
    assert_eq!(rows.len(), 3);
}

#[test]
fn metrics_have_a_row_for_each_sample() {
    let series = [
        MatrixSeries {
            labels: labels(&[("app", "shop")]),
            points: vec![point(1_795_224_780_500, 0.25), point(1_795_224_781_500, f64::INFINITY)],
        },
        MatrixSeries { labels: Labels::default(), points: vec![point(0, -1.0)] },
    ];
    let samples = series.iter().flat_map(|series| {
        let labels = &series.labels;
        series.points.iter().map(|&point| VectorSample { labels: labels.clone(), point })
    });
    let vector = QueryResult::Vector(samples.collect());
    for result in [QueryResult::Matrix(series.to_vec()), vector] {
        let reader = written(result, &[]);
        let expected = format!(
            "message MetricRowType {{\n  REQUIRED INT64 timestamp (TIMESTAMP(MILLIS,true));\n\
             {LABELS_TEXT}  REQUIRED DOUBLE value;\n}}\n"
        );
        assert_eq!(schema_text(&reader), expected);
        assert!(reader.metadata().file_metadata().key_value_metadata().is_none());
        let rows: Vec<_> = reader.get_row_iter(None).expect("rows").map(Result::unwrap).collect();
        let rows: Vec<_> = rows.iter().map(read).collect();
        let shop = vec![("app".to_owned(), "shop".to_owned())];
        let time = Field::TimestampMillis;
        assert_eq!(rows[0], (shop.clone(), time(1_795_224_780_500), Field::Double(0.25)));
        assert_eq!(rows[1], (shop, time(1_795_224_781_500), Field::Double(f64::INFINITY)));
        assert_eq!(rows[2], (vec![], time(0), Field::Double(-1.0)));
        assert_eq!(rows.len(), 3);
    }
    let scalar = written(QueryResult::Scalar { timestamp_ms: 7, value: 2.0 }, &[]);
    let rows: Vec<_> = scalar.get_row_iter(None).expect("rows").map(Result::unwrap).collect();
    let only = (vec![], Field::TimestampMillis(7), Field::Double(2.0));
    assert_eq!(rows.iter().map(read).collect::<Vec<_>>(), [only]);
}

#[test]
fn nothing_is_a_file_without_groups() {
    for result in [QueryResult::Streams(vec![]), QueryResult::Matrix(vec![])] {
        let reader = written(result, &[]);
        assert_eq!(reader.num_row_groups(), 0);
        assert_eq!(reader.get_row_iter(None).expect("rows").count(), 0);
    }
}

#[test]
fn groups_are_bounded_by_rows_and_by_bytes() {
    let points = |count: usize| (0..count).map(|n| point(n as i64, n as f64)).collect();
    let series: Vec<MatrixSeries> = (0..5)
        .map(|n| MatrixSeries {
            labels: labels(&[("series", &n.to_string())]),
            points: points(GROUP_ROWS_MAX / 2 - 1),
        })
        .collect();
    let rows = series.iter().map(|series| series.points.len()).sum::<usize>();
    let reader = written(QueryResult::Matrix(series), &[]);
    let groups = reader.metadata().row_groups();
    assert_eq!(groups.iter().map(|g| g.num_rows()).sum::<i64>(), rows as i64);
    assert!(groups.iter().rev().skip(1).all(|g| g.num_rows() == GROUP_ROWS_MAX as i64));
    for (index, row) in reader.get_row_iter(None).expect("rows").enumerate() {
        let (pairs, time, value) = read(&row.expect("a row"));
        let (series, sample) = (index / (GROUP_ROWS_MAX / 2 - 1), index % (GROUP_ROWS_MAX / 2 - 1));
        assert_eq!(pairs, [("series".to_owned(), series.to_string())]);
        assert_eq!(time, Field::TimestampMillis(sample as i64));
        assert_eq!(value, Field::Double(sample as f64));
    }

    let lines = (0..40u8).map(|n| entry(i64::from(n), &vec![b'a' + n % 26; 1 << 20])).collect();
    let stream = StreamResult::new(labels(&[("app", "long")]), lines);
    let reader = written(QueryResult::Streams(vec![stream]), &[]);
    assert_eq!(reader.num_row_groups(), 5);
    for (index, row) in reader.get_row_iter(None).expect("rows").enumerate() {
        let (_, time, line) = read(&row.expect("a row"));
        assert_eq!(time, Field::Long(index as i64));
        let letter = char::from(b'a' + index as u8 % 26);
        assert_eq!(line, Field::Str(letter.to_string().repeat(1 << 20)));
    }
}

#[test]
fn a_file_without_memory_is_refused() {
    let budget = Budget::new("queries", 100_000);
    // Lines that do not compress.
    let mut state = 1u64;
    let entries = (0..1000).map(|n| {
        let words = (0..25).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(n as u64 + 1);
            format!("{:08x}", state >> 32)
        });
        entry(n, words.collect::<String>().as_bytes())
    });
    let stream = StreamResult::new(labels(&[("app", "x")]), entries.collect());
    let sink = Sink::new(&budget).expect("there is room");
    let file = file::write(QueryResult::Streams(vec![stream]), &[], sink, async || {});
    let error = file.now_or_never().expect("nothing waits").expect_err("too large");
    assert_eq!(refusal(&error, &budget).status.as_u16(), 413, "{error}");
    assert_eq!(budget.used_bytes(), 0);
}
