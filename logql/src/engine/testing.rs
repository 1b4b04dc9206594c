//! A store in memory that runs queries end to end, for tests and fuzzers.
//!
//! It uses the engine as shards and server do, without any of their shortcuts. The caller
//! chooses how entries are spread over shards and cut into blocks; the choice must never
//! change an answer.

mod lines;
mod templates;

use std::fmt;

pub use lines::{LINE_PIPELINES, LineFeeder, check_lines};
use logsvc_proto::Labels;
pub use templates::check_template;

use super::{
    CompiledMatcher, EntryBlock, EvalError, LeafExecutor, LeafPlan, LeafResult, MergeState,
    MetadataColumn, MetadataSets, Place, Plan, PlanError, QueryParams, QueryResult,
};
use crate::syntax::{self, ParseError};

/// Why a query has no answer.
#[derive(Debug)]
pub enum QueryError {
    /// The text is not a query.
    Parse(ParseError),
    /// The query cannot be planned.
    Plan(PlanError),
    /// The query failed.
    Eval(EvalError),
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse(error) => error.fmt(f),
            Self::Plan(error) => error.fmt(f),
            Self::Eval(error) => error.fmt(f),
        }
    }
}

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestEntry {
    /// Time in nanoseconds.
    pub timestamp_ns: i64,
    /// The line.
    pub line: Vec<u8>,
    /// Structured metadata, sorted by name.
    pub metadata: Vec<(String, String)>,
}

/// One stream with its entries in order of arrival.
#[derive(Clone, Debug)]
pub struct TestStream {
    labels: Labels,
    entries: Vec<TestEntry>,
}

/// How a store is spread and cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Number of shards, at least 1.
    pub shards: usize,
    /// Largest block in entries, at least 1.
    pub block_entries: usize,
    /// Blocks hold entries in time order (as segments do) or as they arrived.
    pub sort_blocks: bool,
    /// Spread the blocks of a stream over shards instead of keeping them together.
    pub scatter_blocks: bool,
    /// Offer blocks by their directory entry first.
    pub use_summaries: bool,
    /// Skip blocks that the executor says it does not want.
    pub use_wants: bool,
    /// Let executors look at lines before the pipeline does.
    pub use_shortcuts: bool,
    /// Give each entry with metadata a set with texts of its own, as drafts of segments do.
    pub repeat_sets: bool,
}

impl Layout {
    /// Everything in one block of one shard, without any shortcut.
    pub const PLAIN: Layout = Layout {
        shards: 1,
        block_entries: 1_000_000,
        sort_blocks: false,
        scatter_blocks: false,
        use_summaries: false,
        use_wants: false,
        use_shortcuts: false,
        repeat_sets: false,
    };
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            shards: 1,
            block_entries: 1000,
            sort_blocks: true,
            scatter_blocks: false,
            use_summaries: true,
            use_wants: true,
            use_shortcuts: true,
            repeat_sets: false,
        }
    }
}

/// Streams in memory.
#[derive(Clone, Debug, Default)]
pub struct TestStore {
    streams: Vec<TestStream>,
}

impl TestStore {
    /// No streams.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry to a stream. As ingestion does, it stores an entry that equals
    /// one of the stream only once.
    pub fn push(&mut self, labels: &Labels, entry: TestEntry) {
        let stream = match self.streams.iter_mut().find(|stream| stream.labels == *labels) {
            Some(stream) => stream,
            None => {
                self.streams.push(TestStream { labels: labels.clone(), entries: Vec::new() });
                let last = self.streams.len() - 1;
                &mut self.streams[last]
            }
        };
        if !stream.entries.contains(&entry) {
            stream.entries.push(entry);
        }
    }

    /// Adds a line without structured metadata.
    pub fn push_line(&mut self, labels: &Labels, timestamp_ns: i64, line: &str) {
        let entry = TestEntry { timestamp_ns, line: line.into(), metadata: Vec::new() };
        self.push(labels, entry);
    }

    /// Number of entries of all streams.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.streams.iter().map(|stream| stream.entries.len()).sum()
    }

    /// Evaluates a query on one shard.
    ///
    /// # Errors
    /// The query is invalid, or fails while it runs.
    pub fn query(&self, query: &str, params: &QueryParams) -> Result<QueryResult, QueryError> {
        self.query_with(query, params, &Layout::default())
    }

    /// Evaluates a query with a layout.
    ///
    /// # Errors
    /// The query is invalid, or fails while it runs.
    pub fn query_with(
        &self,
        query: &str,
        params: &QueryParams,
        layout: &Layout,
    ) -> Result<QueryResult, QueryError> {
        let expr = syntax::parse(query).map_err(QueryError::Parse)?;
        let plan = Plan::new(&expr, params).map_err(QueryError::Plan)?;
        self.run(&plan, layout)
    }

    /// Runs a plan with a layout.
    ///
    /// # Errors
    /// The query fails while it runs.
    pub fn run(&self, plan: &Plan, layout: &Layout) -> Result<QueryResult, QueryError> {
        self.page(plan, layout).map(|(result, _)| result)
    }

    /// The same, with the place of the last entry if there may be more.
    ///
    /// # Errors
    /// The query fails while it runs.
    pub fn page(
        &self,
        plan: &Plan,
        layout: &Layout,
    ) -> Result<(QueryResult, Option<Place>), QueryError> {
        let mut merge = MergeState::new(plan);
        for leaf in plan.leaves() {
            for shard in 0..layout.shards {
                merge.add(self.run_leaf(leaf, shard, layout).map_err(QueryError::Plan)?);
            }
        }
        let finished = merge.finish_held().map_err(QueryError::Eval)?;
        Ok((finished.result, finished.last))
    }

    /// The results of a leaf on all shards.
    ///
    /// # Errors
    /// The leaf cannot be compiled.
    pub fn run_leaf_on_all(
        &self,
        leaf: &LeafPlan,
        layout: &Layout,
    ) -> Result<Vec<LeafResult>, PlanError> {
        (0..layout.shards).map(|shard| self.run_leaf(leaf, shard, layout)).collect()
    }

    /// Runs a leaf on one shard.
    fn run_leaf(
        &self,
        leaf: &LeafPlan,
        shard: usize,
        layout: &Layout,
    ) -> Result<LeafResult, PlanError> {
        let matchers = leaf.compiled_matchers()?;
        let mut executor = LeafExecutor::new(leaf)?;
        if !layout.use_shortcuts {
            executor = executor.without_shortcuts();
        }
        for (number, stream) in self.streams.iter().enumerate() {
            if matches(&matchers, &stream.labels) && leaf.reads_stream(&stream.labels) {
                run_stream(&mut executor, stream, number, shard, layout);
            }
        }
        Ok(executor.finish())
    }
}

/// Whether all matchers hold.
fn matches(matchers: &[CompiledMatcher], labels: &Labels) -> bool {
    matchers.iter().all(|matcher| matcher.matches(labels.get(matcher.name()).unwrap_or("")))
}

fn run_stream(
    executor: &mut LeafExecutor,
    stream: &TestStream,
    number: usize,
    shard: usize,
    layout: &Layout,
) {
    let mut state = executor.stream(&stream.labels);
    let mut first_entry = 0u64;
    for (chunk_number, chunk) in stream.entries.chunks(layout.block_entries).enumerate() {
        let arrival = first_entry;
        first_entry += chunk.len() as u64;
        let home = if layout.scatter_blocks { number + chunk_number } else { number };
        if home % layout.shards != shard {
            continue;
        }
        let mut columns = Columns::new(chunk, layout.sort_blocks);
        if layout.repeat_sets {
            columns.repeat_sets();
        }
        let block = columns.block(arrival);
        let summary = columns.summary();
        if layout.use_wants && !executor.wants(summary.min_timestamp_ns, summary.max_timestamp_ns) {
            continue;
        }
        if layout.use_summaries && executor.summary(&state, &summary) {
            continue;
        }
        executor.block(&mut state, &block);
    }
}

/// For fuzzing: evaluates arbitrary text over a few entries, on one shard and on
/// three with small blocks, as an instant and as a range query. True when the text
/// is a query that has an answer.
///
/// # Panics
/// When the two layouts disagree.
#[must_use]
pub fn check_query(data: &[u8]) -> bool {
    let Ok(query) = std::str::from_utf8(data) else { return false };
    let store = small_store();
    let spread = Layout {
        shards: 3,
        block_entries: 3,
        scatter_blocks: true,
        use_shortcuts: false,
        ..Layout::default()
    };
    let mut has_answer = false;
    for params in
        [QueryParams::instant(20 * SECOND_NS), QueryParams::range(0, 30 * SECOND_NS, 700_000_000)]
    {
        let one = store.query(query, &params);
        let three = store.query_with(query, &params, &spread);
        has_answer |= one.is_ok();
        match (one, three) {
            (Ok(one), Ok(three)) => assert_eq!(format!("{one:?}"), format!("{three:?}")),
            // A leaf names the first erroneous series it meets.
            (Err(QueryError::Eval(EvalError::Pipeline { .. })), Err(QueryError::Eval(_))) => {}
            (Err(one), Err(three)) => assert_eq!(one.to_string(), three.to_string()),
            (one, three) => panic!("{query}: one shard {one:?}, three shards {three:?}"),
        }
    }
    has_answer
}

const SECOND_NS: i64 = 1_000_000_000;

fn small_store() -> TestStore {
    let mut store = TestStore::new();
    for (stream, env) in [("1", "p"), ("2", "q"), ("3", "p")] {
        let labels = Labels::from_pairs([("app", "m"), ("env", env), ("s", stream)])
            .expect("the names are valid");
        for second in 0..12 {
            let metadata = match second % 3 {
                0 => vec![("n".to_owned(), format!("{second}.5"))],
                1 => vec![("d".to_owned(), format!("{second}ms"))],
                _ => Vec::new(),
            };
            let line = format!("GET /cart {} from 10.0.0.{second}", 200 + second % 2 * 300);
            let timestamp_ns = second * 2 * SECOND_NS;
            store.push(&labels, TestEntry { timestamp_ns, line: line.into(), metadata });
        }
    }
    store
}

/// Owned columns of one block.
#[derive(Debug)]
pub struct Columns {
    timestamps_ns: Vec<i64>,
    line_ends: Vec<u32>,
    lines: Vec<u8>,
    set_ids: Vec<u32>,
    sets: MetadataSets,
    sorted: bool,
}

impl Columns {
    /// The columns of some entries in order of arrival.
    ///
    /// # Panics
    /// When the lines together exceed 4 GiB.
    #[must_use]
    pub fn new(entries: &[TestEntry], sort: bool) -> Self {
        let mut order: Vec<&TestEntry> = entries.iter().collect();
        if sort {
            order.sort_by_key(|entry| entry.timestamp_ns);
        }
        let mut columns = Self {
            timestamps_ns: Vec::new(),
            line_ends: Vec::new(),
            lines: Vec::new(),
            set_ids: Vec::new(),
            sets: MetadataSets::new(),
            sorted: order.is_sorted_by_key(|entry| entry.timestamp_ns),
        };
        for entry in order {
            columns.timestamps_ns.push(entry.timestamp_ns);
            columns.lines.extend_from_slice(&entry.line);
            columns.line_ends.push(u32::try_from(columns.lines.len()).expect("less than 4 GiB"));
            let pairs = entry.metadata.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            columns.set_ids.push(columns.sets.intern(pairs).expect("less than 4 GiB"));
        }
        columns
    }

    /// Gives each entry with metadata a set with texts of its own.
    fn repeat_sets(&mut self) {
        const FITS: &str = "less than 4 GiB";
        let mut repeated = MetadataSets::new();
        for id in &mut self.set_ids {
            let mut text = |text| repeated.push_text(text).expect(FITS);
            let pairs = self.sets.get(*id).map(|(name, value)| (text(name), text(value)));
            let pairs: Vec<_> = pairs.collect();
            *id = repeated.push_set(pairs).expect(FITS);
        }
        self.sets = repeated;
    }

    /// The block over these columns.
    #[must_use]
    pub fn block(&self, arrival: u64) -> EntryBlock<'_> {
        EntryBlock {
            timestamps_ns: &self.timestamps_ns,
            line_ends: &self.line_ends,
            lines: &self.lines,
            metadata: MetadataColumn::Sets { set_ids: &self.set_ids, sets: &self.sets },
            arrival,
            sorted: self.sorted,
        }
    }

    /// The directory entry of the block.
    #[must_use]
    pub fn summary(&self) -> super::BlockSummary {
        super::BlockSummary {
            blocks: 1,
            min_timestamp_ns: self.timestamps_ns.iter().copied().min().unwrap_or(0),
            max_timestamp_ns: self.timestamps_ns.iter().copied().max().unwrap_or(0),
            entries: self.timestamps_ns.len() as u64,
            line_bytes: self.lines.len() as u64,
            metadata_bytes: None,
        }
    }
}
