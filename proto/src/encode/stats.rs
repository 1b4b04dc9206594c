//! The `stats` object of query answers: the union of the interface's flat fields
//! and Loki's nested ones, which do not collide.
//!
//! A [`QueryStats`] holds only counters of a query; sums and rates are
//! derived here. Fields of Loki that have no counterpart (all but two of its
//! caches, its second engine) are written as zeros, because clients read them.

use std::io::Write;

use crate::encode::Commas;

/// The cost of reading data, on one side of the store.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StoreStats {
    /// Blocks that the index named for the query.
    pub blocks_referenced: u64,
    /// Blocks read.
    pub blocks_read: u64,
    /// Time spent reading blocks, in nanoseconds.
    pub block_read_time_ns: u64,
    /// Time spent finding blocks in the index, in nanoseconds.
    pub index_time_ns: u64,
    /// Line and metadata bytes scanned in memory that is not sealed yet.
    pub head_bytes: u64,
    /// Lines scanned there.
    pub head_lines: u64,
    /// The metadata part of `head_bytes`.
    pub head_metadata_bytes: u64,
    /// Line and metadata bytes decompressed from blocks.
    pub decompressed_bytes: u64,
    /// Lines decompressed from blocks.
    pub decompressed_lines: u64,
    /// The metadata part of `decompressed_bytes`.
    pub decompressed_metadata_bytes: u64,
    /// Compressed bytes of the blocks read.
    pub compressed_bytes: u64,
    /// Duplicate lines dropped.
    pub duplicates: u64,
    /// Lines that passed the pipeline.
    pub lines_after_filter: u64,
    /// Whether the query read structured metadata.
    pub uses_structured_metadata: bool,
}

impl StoreStats {
    /// Adds the counts of another part of the query.
    pub fn merge(&mut self, other: &StoreStats) {
        self.blocks_referenced += other.blocks_referenced;
        self.blocks_read += other.blocks_read;
        self.block_read_time_ns += other.block_read_time_ns;
        self.index_time_ns += other.index_time_ns;
        self.head_bytes += other.head_bytes;
        self.head_lines += other.head_lines;
        self.head_metadata_bytes += other.head_metadata_bytes;
        self.decompressed_bytes += other.decompressed_bytes;
        self.decompressed_lines += other.decompressed_lines;
        self.decompressed_metadata_bytes += other.decompressed_metadata_bytes;
        self.compressed_bytes += other.compressed_bytes;
        self.duplicates += other.duplicates;
        self.lines_after_filter += other.lines_after_filter;
        self.uses_structured_metadata |= other.uses_structured_metadata;
    }
}

/// Counters of the shards for data that is still in memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct IngesterStats {
    /// Shards asked.
    pub reached: u64,
    /// Heads that matched.
    pub heads_matched: u64,
    /// Batches of results sent.
    pub batches: u64,
    /// Lines sent.
    pub lines_sent: u64,
    /// Time spent waiting for their results, in nanoseconds.
    pub wait_time_ns: u64,
    /// The cost of reading.
    pub store: StoreStats,
}

/// The cost of a query.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QueryStats {
    /// Time from the start of execution to its end, in nanoseconds.
    pub exec_time_ns: u64,
    /// Time spent queued before, in nanoseconds.
    pub queue_time_ns: u64,
    /// Parts that the query was split into by time.
    pub splits: u64,
    /// Parts that the query was split into by stream.
    pub shards: u64,
    /// Entries or samples in the answer.
    pub entries_returned: u64,
    /// Streams that the index named.
    pub streams_matched: u64,
    /// The estimate of the bytes that the query reads, if it was made.
    pub estimated_bytes: Option<u64>,
    /// Data in memory.
    pub ingester: IngesterStats,
    /// Sealed data.
    pub store: StoreStats,
    /// The cache of decoded blocks.
    pub block_cache: CacheStats,
    /// The cache of answers.
    pub result_cache: CacheStats,
}

/// Counters of a cache for a query.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CacheStats {
    /// Lookups.
    pub lookups: u64,
    /// Lookups that found an entry.
    pub hits: u64,
    /// Entries that were inserted.
    pub stored: u64,
    /// The part of the query's time range that came from the cache, in nanoseconds. Only caches
    /// of answers count it.
    pub served_ns: u64,
}

impl CacheStats {
    /// Adds the counters of another part of the query.
    pub fn merge(&mut self, other: &CacheStats) {
        self.lookups += other.lookups;
        self.hits += other.hits;
        self.stored += other.stored;
        self.served_ns += other.served_ns;
    }
}

impl QueryStats {
    /// Adds the counts of another part of the query. Times of the whole query
    /// (`exec_time_ns`, `queue_time_ns`) are set by the caller that runs the whole query.
    pub fn merge(&mut self, other: &QueryStats) {
        self.splits += other.splits;
        self.shards += other.shards;
        self.entries_returned += other.entries_returned;
        self.streams_matched += other.streams_matched;
        self.ingester.reached += other.ingester.reached;
        self.ingester.heads_matched += other.ingester.heads_matched;
        self.ingester.batches += other.ingester.batches;
        self.ingester.lines_sent += other.ingester.lines_sent;
        self.ingester.wait_time_ns += other.ingester.wait_time_ns;
        self.ingester.store.merge(&other.ingester.store);
        self.store.merge(&other.store);
        self.block_cache.merge(&other.block_cache);
        self.result_cache.merge(&other.result_cache);
    }

    /// Line and metadata bytes that were read.
    pub fn total_bytes(&self) -> u64 {
        let sides = [&self.ingester.store, &self.store];
        sides.iter().map(|side| side.head_bytes + side.decompressed_bytes).sum()
    }

    /// Lines that were read.
    pub fn total_lines(&self) -> u64 {
        let sides = [&self.ingester.store, &self.store];
        sides.iter().map(|side| side.head_lines + side.decompressed_lines).sum()
    }

    /// Appends the object.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let mut object = Object::open(out);
        object.nested("summary", |object| self.write_summary(object));
        object.nested("querier", |object| {
            object.nested("store", |object| write_nested_store(&self.store, object));
            object.seconds("querierExecTime", self.exec_time_ns);
        });
        object.nested("ingester", |object| write_ingester(&self.ingester, object));
        object.nested("store", |object| {
            write_flat_store(&self.store, object);
            object.seconds("chunksDownloadTime", self.store.block_read_time_ns);
            object.number("totalChunksRef", self.store.blocks_referenced);
            object.number("totalChunksDownloaded", self.store.blocks_read);
        });
        object.nested("cache", |object| {
            object.nested("chunk", |object| write_cache(&self.block_cache, object));
            object.raw("index", ZERO_CACHE);
            object.nested("result", |object| write_cache(&self.result_cache, object));
            for cache in OTHER_CACHES {
                object.raw(cache, ZERO_CACHE);
            }
        });
        object.nested("index", |object| {
            object.number("totalChunks", self.store.blocks_referenced);
            object.number("postFilterChunks", self.store.blocks_read);
            object.number("shardsDuration", 0);
            object.raw("usedBloomFilters", "false");
            object.number("totalStreams", self.streams_matched);
            object.seconds("chunkRefsLookupTime", self.store.index_time_ns);
            object.number("bloomFilterTime", 0);
        });
        object.close();
    }

    fn write_summary(&self, object: &mut Object<'_>) {
        let sides = [&self.ingester.store, &self.store];
        let sum = |field: fn(&StoreStats) -> u64| sides.iter().map(|side| field(side)).sum();
        let per_second = |count: u64| match self.exec_time_ns {
            0 => 0,
            ns => (u128::from(count) * 1_000_000_000 / u128::from(ns)).min(u64::MAX.into()) as u64,
        };
        object.number("bytesProcessedPerSecond", per_second(self.total_bytes()));
        object.number("linesProcessedPerSecond", per_second(self.total_lines()));
        object.number("totalBytesProcessed", self.total_bytes());
        object.number("totalLinesProcessed", self.total_lines());
        object.seconds("execTime", self.exec_time_ns);
        object.seconds("queueTime", self.queue_time_ns);
        object.number("subqueries", 0);
        object.number("totalEntriesReturned", self.entries_returned);
        object.number("splits", self.splits);
        object.number("shards", self.shards);
        object.number("totalPostFilterLines", sum(|side| side.lines_after_filter));
        object.number(
            "totalStructuredMetadataBytesProcessed",
            sum(|side| side.head_metadata_bytes + side.decompressed_metadata_bytes),
        );
        if let Some(estimated_bytes) = self.estimated_bytes {
            object.number("estimatedQueryBytes", estimated_bytes);
        }
    }
}

/// The fields that both of the interface's flat objects have.
fn write_flat_store(store: &StoreStats, object: &mut Object<'_>) {
    object.number("compressedBytes", store.compressed_bytes);
    object.number("decompressedBytes", store.decompressed_bytes);
    object.number("decompressedLines", store.decompressed_lines);
    object.number("totalDuplicates", store.duplicates);
}

fn write_ingester(ingester: &IngesterStats, object: &mut Object<'_>) {
    object.number("totalReached", ingester.reached);
    object.number("totalChunksMatched", ingester.heads_matched);
    object.number("totalBatches", ingester.batches);
    object.number("totalLinesSent", ingester.lines_sent);
    write_flat_store(&ingester.store, object);
    object.number("headChunkBytes", ingester.store.head_bytes);
    object.number("headChunkLines", ingester.store.head_lines);
    object.nested("store", |object| write_nested_store(&ingester.store, object));
    if ingester.wait_time_ns > 0 {
        object.seconds("recvWaitTime", ingester.wait_time_ns);
    }
}

fn write_nested_store(store: &StoreStats, object: &mut Object<'_>) {
    object.number("totalChunksRef", store.blocks_referenced);
    object.number("totalChunksDownloaded", store.blocks_read);
    object.number("chunksDownloadTime", store.block_read_time_ns);
    let uses_metadata = if store.uses_structured_metadata { "true" } else { "false" };
    object.raw("queryReferencedStructuredMetadata", uses_metadata);
    object.raw("queryUsedV2Engine", "false");
    object.nested("chunk", |object| {
        object.number("headChunkBytes", store.head_bytes);
        object.number("headChunkLines", store.head_lines);
        object.number("decompressedBytes", store.decompressed_bytes);
        object.number("decompressedLines", store.decompressed_lines);
        object.number("compressedBytes", store.compressed_bytes);
        object.number("totalDuplicates", store.duplicates);
        object.number("postFilterLines", store.lines_after_filter);
        object.number("headChunkStructuredMetadataBytes", store.head_metadata_bytes);
        object.number("decompressedStructuredMetadataBytes", store.decompressed_metadata_bytes);
    });
    object.number("chunkRefsFetchTime", store.index_time_ns);
    object.number("congestionControlLatency", 0);
    object.number("pipelineWrapperFilteredLines", 0);
    object.raw("dataobj", ZERO_DATAOBJ);
}

/// The numbers of a cache. It is in memory, so nothing is sent.
fn write_cache(cache: &CacheStats, object: &mut Object<'_>) {
    object.number("entriesFound", cache.hits);
    object.number("entriesRequested", cache.lookups);
    object.number("entriesStored", cache.stored);
    object.number("bytesReceived", 0);
    object.number("bytesSent", 0);
    object.number("requests", cache.lookups);
    object.number("downloadTime", 0);
    object.number("queryLengthServed", cache.served_ns);
}

const OTHER_CACHES: [&str; 7] = [
    "statsResult",
    "volumeResult",
    "seriesResult",
    "labelResult",
    "instantMetricResult",
    "logResult",
    "taskResult",
];
const ZERO_CACHE: &str = r#"{"entriesFound":0,"entriesRequested":0,"entriesStored":0,"bytesReceived":0,"bytesSent":0,"requests":0,"downloadTime":0,"queryLengthServed":0}"#;
const ZERO_DATAOBJ: &str = r#"{"prePredicateDecompressedRows":0,"prePredicateDecompressedBytes":0,"prePredicateDecompressedStructuredMetadataBytes":0,"postPredicateRows":0,"postPredicateDecompressedBytes":0,"postPredicateStructuredMetadataBytes":0,"postFilterRows":0,"pagesScanned":0,"pagesDownloaded":0,"pagesDownloadedBytes":0,"pageBatches":0,"totalRowsAvailable":0,"totalPageDownloadTime":0,"wireBytesTransferred":0}"#;

/// An open JSON object with names that need no escaping.
struct Object<'o> {
    out: &'o mut Vec<u8>,
    commas: Commas,
}

impl<'o> Object<'o> {
    fn open(out: &'o mut Vec<u8>) -> Object<'o> {
        out.push(b'{');
        Object { out, commas: Commas::default() }
    }

    fn name(&mut self, name: &str) {
        self.commas.next(self.out);
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
    }

    fn raw(&mut self, name: &str, json: &str) {
        self.name(name);
        self.out.extend_from_slice(json.as_bytes());
    }

    fn number(&mut self, name: &str, value: u64) {
        self.raw(name, itoa::Buffer::new().format(value));
    }

    /// Writes nanoseconds as seconds.
    fn seconds(&mut self, name: &str, duration_ns: u64) {
        self.name(name);
        write!(self.out, "{}", duration_ns as f64 / 1e9).expect("a Vec takes all");
    }

    fn nested(&mut self, name: &str, fill: impl FnOnce(&mut Object<'_>)) {
        self.name(name);
        let mut object = Object::open(self.out);
        fill(&mut object);
        object.close();
    }

    fn close(self) {
        self.out.push(b'}');
    }
}
