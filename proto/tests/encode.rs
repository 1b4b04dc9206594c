//! Whole answers, byte for byte, and read back as JSON.

use logsvc_proto::encode::*;
use serde_json::{Value, json};

fn stats_json() -> String {
    let mut out = Vec::new();
    QueryStats::default().write_json(&mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

/// The answer with its statistics cut to `STATS`, after checking that it is JSON.
fn shown(out: &[u8]) -> String {
    serde_json::from_slice::<Value>(out).expect("an answer is JSON");
    String::from_utf8(out.to_vec()).expect("JSON is UTF-8").replace(&stats_json(), "STATS")
}

const LABELS: [(&str, &str); 2] = [("app", "shop"), ("env", "prod")];

#[test]
fn streams_answers() {
    let stats = QueryStats::default();
    let mut out = Vec::new();
    let mut writer = StreamsWriter::new();
    writer.begin(&[], &mut out);
    writer.end(&stats, &[], &mut out);
    assert_eq!(
        shown(&out),
        "{\"status\":\"success\",\"data\":{\"resultType\":\"streams\",\"result\":[],\"stats\":STATS}}\n"
    );

    let mut out = Vec::new();
    let mut writer = StreamsWriter::new();
    writer.begin(&[], &mut out);
    writer.streams().stream(LABELS.into_iter(), &mut out);
    writer.streams().entry(-5, b"<one>", &mut out);
    writer.streams().entry(1_795_224_420_000_000_000, b"two", &mut out);
    writer.streams().stream([("a", "\"")].into_iter(), &mut out);
    writer.streams().entry(7, b"", &mut out);
    writer.end(&stats, &["partial"], &mut out);
    assert_eq!(
        shown(&out),
        concat!(
            r#"{"status":"success","data":{"resultType":"streams","result":["#,
            r#"{"stream":{"app":"shop","env":"prod"},"values":["#,
            r#"["-5","\u003cone\u003e"],["1795224420000000000","two"]]},"#,
            r#"{"stream":{"a":"\""},"values":[["7",""]]}],"stats":STATS},"warnings":["partial"]}"#,
            "\n"
        )
    );
}

#[test]
fn categorized_answers() {
    let mut out = Vec::new();
    let mut writer = StreamsWriter::new();
    let none = || std::iter::empty();
    writer.begin(&["categorize-labels"], &mut out);
    let streams = writer.streams();
    streams.stream([("app", "shop")].into_iter(), &mut out);
    streams.categorized_entry(1, b"a", LABELS.into_iter(), [("p", "q")].into_iter(), &mut out);
    streams.categorized_entry(2, b"b", none(), [("p", "q")].into_iter(), &mut out);
    streams.categorized_entry(3, b"c", none(), none(), &mut out);
    writer.end(&QueryStats::default(), &[], &mut out);
    assert_eq!(
        shown(&out),
        concat!(
            r#"{"status":"success","data":{"resultType":"streams","#,
            r#""encodingFlags":["categorize-labels"],"result":["#,
            r#"{"stream":{"app":"shop"},"values":["#,
            r#"["1","a",{"structuredMetadata":{"app":"shop","env":"prod"},"parsed":{"p":"q"}}],"#,
            r#"["2","b",{"parsed":{"p":"q"}}],["3","c",{}]]}],"stats":STATS}}"#,
            "\n"
        )
    );
}

#[test]
fn metric_answers_end_without_a_line_break() {
    let stats = QueryStats::default();
    let mut out = Vec::new();
    let mut matrix = MatrixWriter::new();
    matrix.begin(&mut out);
    matrix.series(LABELS.into_iter(), &mut out);
    matrix.sample(1_795_222_085_000, 1.0, &mut out);
    matrix.sample(1_795_222_085_250, f64::NAN, &mut out);
    matrix.series(std::iter::empty(), &mut out);
    matrix.sample(0, 0.5, &mut out);
    matrix.end(&stats, &[], &mut out);
    assert_eq!(
        shown(&out),
        concat!(
            r#"{"status":"success","data":{"resultType":"matrix","result":["#,
            r#"{"metric":{"app":"shop","env":"prod"},"#,
            r#""values":[[1795222085,"1"],[1795222085.25,"NaN"]]},"#,
            r#"{"metric":{},"values":[[0,"0.5"]]}],"stats":STATS}}"#
        )
    );

    let mut out = Vec::new();
    let mut vector = VectorWriter::new();
    vector.begin(&mut out);
    vector.sample(std::iter::empty(), 1_795_224_780_000, 2.0, &mut out);
    vector.sample(LABELS.into_iter(), 1_795_224_780_000, 3.0, &mut out);
    vector.end(&stats, &[], &mut out);
    assert_eq!(
        shown(&out),
        concat!(
            r#"{"status":"success","data":{"resultType":"vector","result":["#,
            r#"{"metric":{},"value":[1795224780,"2"]},"#,
            r#"{"metric":{"app":"shop","env":"prod"},"value":[1795224780,"3"]}],"stats":STATS}}"#
        )
    );

    let mut out = Vec::new();
    write_scalar(1_795_224_780_000, f64::INFINITY, &stats, &mut out);
    assert_eq!(
        shown(&out),
        r#"{"status":"success","data":{"resultType":"scalar","result":[1795224780,"+Inf"],"stats":STATS}}"#
    );
}

#[test]
fn list_answers() {
    let mut out = Vec::new();
    write_label_list(["app", "env"].into_iter(), &[], &mut out);
    write_label_list(std::iter::empty(), &["w"], &mut out);
    let mut series = SeriesWriter::new();
    series.begin(&mut out);
    series.series(LABELS.into_iter(), &mut out);
    series.series([("a", "b")].into_iter(), &mut out);
    series.end(&[], &mut out);
    let mut series = SeriesWriter::new();
    series.begin(&mut out);
    series.end(&[], &mut out);
    assert_eq!(
        String::from_utf8_lossy(&out),
        concat!(
            "{\"status\":\"success\",\"data\":[\"app\",\"env\"]}\n",
            "{\"status\":\"success\",\"warnings\":[\"w\"]}\n",
            "{\"status\":\"success\",\"data\":[{\"app\":\"shop\",\"env\":\"prod\"},{\"a\":\"b\"}]}\n",
            "{\"status\":\"success\",\"data\":[]}\n",
        )
    );
}

#[test]
fn legacy_answers() {
    let mut out = Vec::new();
    let mut writer = LegacyStreamsWriter::new();
    writer.begin(&mut out);
    writer.stream("{app=\"cart\"}", &mut out);
    writer.entry(1_795_224_360_500_000_000, b"x", &mut out);
    writer.entry(1_795_224_360_000_000_000, b"y", &mut out);
    let mut frame = out.clone();
    let mut frame_writer = writer;
    writer.end_query(&QueryStats::default(), &mut out);
    assert_eq!(
        shown(&out),
        concat!(
            r#"{"streams":[{"labels":"{app=\"cart\"}","entries":["#,
            r#"{"ts":"2026-11-21T01:26:00.5Z","line":"x"},{"ts":"2026-11-21T01:26:00Z","line":"y"}]}],"#,
            "\"stats\":STATS}\n"
        )
    );
    frame_writer.end_tail_frame(&mut frame);
    assert!(shown(&frame).ends_with("}]}],\"dropped_entries\":null}\n"));
}

#[test]
fn statistics_have_the_fields_of_both_shapes() {
    let part = QueryStats {
        splits: 1,
        shards: 2,
        entries_returned: 3,
        streams_matched: 4,
        ingester: IngesterStats {
            reached: 1,
            heads_matched: 2,
            batches: 3,
            lines_sent: 4,
            wait_time_ns: 1_016_000,
            store: StoreStats {
                head_bytes: 3131,
                head_lines: 28,
                head_metadata_bytes: 672,
                lines_after_filter: 28,
                ..StoreStats::default()
            },
        },
        store: StoreStats {
            blocks_referenced: 5,
            blocks_read: 4,
            block_read_time_ns: 1_500_000_000,
            index_time_ns: 158_039,
            decompressed_bytes: 1000,
            decompressed_lines: 10,
            decompressed_metadata_bytes: 100,
            compressed_bytes: 300,
            duplicates: 1,
            lines_after_filter: 9,
            uses_structured_metadata: true,
            ..StoreStats::default()
        },
        block_cache: CacheStats { lookups: 9, hits: 5, stored: 4, served_ns: 0 },
        result_cache: CacheStats { lookups: 1, hits: 1, stored: 1, served_ns: 3_000 },
        ..QueryStats::default()
    };
    let mut stats = QueryStats { exec_time_ns: 2_000_000_000, queue_time_ns: 158_000, ..part };
    stats.merge(&part);
    assert_eq!((stats.total_bytes(), stats.total_lines()), (8262, 76));
    let mut out = Vec::new();
    stats.write_json(&mut out);
    let value: Value = serde_json::from_slice(&out).expect("JSON");
    let expected = [
        ("/summary/bytesProcessedPerSecond", json!(4131)),
        ("/summary/linesProcessedPerSecond", json!(38)),
        ("/summary/totalBytesProcessed", json!(8262)),
        ("/summary/totalLinesProcessed", json!(76)),
        ("/summary/execTime", json!(2)),
        ("/summary/queueTime", json!(0.000158)),
        ("/summary/totalEntriesReturned", json!(6)),
        ("/summary/splits", json!(2)),
        ("/summary/shards", json!(4)),
        ("/summary/totalPostFilterLines", json!(74)),
        ("/summary/totalStructuredMetadataBytesProcessed", json!(1544)),
        ("/querier/store/chunk/decompressedLines", json!(20)),
        ("/querier/store/chunksDownloadTime", json!(3_000_000_000u64)),
        ("/querier/store/queryReferencedStructuredMetadata", json!(true)),
        ("/querier/store/dataobj/pagesScanned", json!(0)),
        ("/cache/chunk/entriesRequested", json!(18)),
        ("/cache/chunk/entriesFound", json!(10)),
        ("/cache/chunk/entriesStored", json!(8)),
        ("/cache/result/entriesFound", json!(2)),
        ("/cache/result/queryLengthServed", json!(6_000)),
        ("/ingester/totalReached", json!(2)),
        ("/ingester/headChunkBytes", json!(6262)),
        ("/ingester/compressedBytes", json!(0)),
        ("/ingester/totalDuplicates", json!(0)),
        ("/ingester/store/chunk/headChunkLines", json!(56)),
        ("/ingester/recvWaitTime", json!(0.002032)),
        ("/store/compressedBytes", json!(600)),
        ("/store/decompressedBytes", json!(2000)),
        ("/store/decompressedLines", json!(20)),
        ("/store/chunksDownloadTime", json!(3)),
        ("/store/totalChunksRef", json!(10)),
        ("/store/totalChunksDownloaded", json!(8)),
        ("/store/totalDuplicates", json!(2)),
        ("/cache/taskResult/requests", json!(0)),
        ("/index/totalStreams", json!(8)),
        ("/index/usedBloomFilters", json!(false)),
    ];
    for (pointer, expected) in expected {
        assert_eq!(value.pointer(pointer), Some(&expected), "{pointer}");
    }
    let empty: Value = serde_json::from_str(&stats_json()).expect("JSON");
    assert_eq!(empty.pointer("/ingester/recvWaitTime"), None);
}
