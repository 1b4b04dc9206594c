//! Runs one shard's part of a query over a snapshot, beside the shard.
//!
//! Guarantees: the snapshot does not change while it is read; the core's other
//! tasks get their turn at least once per [`SLICE`] plus the time of one block; a
//! cancelled query stops within one block. What can go wrong is in [`ScanError`].

use std::sync::Arc;
use std::time::Duration;

use logsvc_logql::engine::{
    BlockSummary, Direction, EntryBlock, LeafExecutor, MetadataColumn, MetadataSets, StreamState,
};
use logsvc_proto::Labels;
use logsvc_runtime::Runtime;

use crate::head::HeadBlock;
use crate::messages::{LeafReply, LeafRequest};

/// How long a scan keeps the core before it yields.
const SLICE: Duration = Duration::from_millis(1);

/// The blocks of one stream that a scan may have to read.
#[derive(Debug)]
pub struct StreamSnapshot {
    /// The stream's labels.
    pub labels: Arc<Labels>,
    /// Blocks with their place in the stream's order of arrival.
    pub blocks: Vec<(u64, Arc<HeadBlock>)>,
}

/// A part of a query and the snapshot that it reads.
#[derive(Debug)]
pub struct ScanJob {
    /// What to compute.
    pub request: LeafRequest,
    /// Streams that match.
    pub streams: Vec<StreamSnapshot>,
}

/// Why a part of a query has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The part does not compile.
    #[error("{0}")]
    Plan(String),
    /// It holds more memory than it may.
    #[error("the query holds more than {max_bytes} bytes of intermediate results")]
    Memory {
        /// The limit in bytes.
        max_bytes: usize,
    },
    /// Nobody waits for it any more.
    #[error("the query was cancelled")]
    Cancelled,
}

/// Runs a part of a query to its end.
///
/// # Errors
/// See [`ScanError`].
pub async fn run<R: Runtime>(runtime: &R, job: ScanJob) -> Result<LeafReply, ScanError> {
    let ScanJob { request, streams } = job;
    let mut executor =
        LeafExecutor::new(&request.plan).map_err(|error| ScanError::Plan(error.to_string()))?;
    let mut states: Vec<Option<StreamState>> = streams.iter().map(|_| None).collect();
    let mut states_bytes = 0;
    let mut blocks = 0;
    let mut slice_end = runtime.now().after(SLICE);
    for place in visiting_order(&streams, request.plan.direction()) {
        if executor.is_done() {
            break;
        }
        let stream = &streams[place.stream as usize];
        let (arrival, block) = &stream.blocks[place.block as usize];
        let (min_ns, max_ns) = block.time_bounds_ns();
        if executor.wants(min_ns, max_ns) {
            let state = states[place.stream as usize].get_or_insert_with(|| {
                let state = executor.stream(&stream.labels);
                states_bytes += state.held_bytes();
                state
            });
            scan_block(&mut executor, state, *arrival, block);
            blocks += 1;
        }
        if request.cancellation.is_cancelled() {
            return Err(ScanError::Cancelled);
        }
        if executor.held_bytes() + states_bytes > request.memory_max_bytes {
            return Err(ScanError::Memory { max_bytes: request.memory_max_bytes });
        }
        if runtime.now() >= slice_end {
            runtime.yield_now().await;
            slice_end = runtime.now().after(SLICE);
        }
    }
    Ok(LeafReply { result: executor.finish(), streams: streams.len() as u64, blocks })
}

/// A block of a snapshot.
struct Place {
    /// What the order goes by.
    key_ns: i64,
    stream: u32,
    block: u32,
}

/// All blocks, newest or oldest first, so that a limit ends the scan early.
fn visiting_order(streams: &[StreamSnapshot], direction: Direction) -> Vec<Place> {
    let mut places = Vec::with_capacity(streams.iter().map(|stream| stream.blocks.len()).sum());
    for (stream, snapshot) in streams.iter().enumerate() {
        for (block, (_, head)) in snapshot.blocks.iter().enumerate() {
            let (min_ns, max_ns) = head.time_bounds_ns();
            let key_ns = match direction {
                Direction::Backward => max_ns,
                Direction::Forward => min_ns,
            };
            places.push(Place { key_ns, stream: stream as u32, block: block as u32 });
        }
    }
    match direction {
        Direction::Backward => places.sort_by_key(|place| std::cmp::Reverse(place.key_ns)),
        Direction::Forward => places.sort_by_key(|place| place.key_ns),
    }
    places
}

fn scan_block(
    executor: &mut LeafExecutor,
    state: &mut StreamState,
    arrival: u64,
    block: &HeadBlock,
) {
    let (min_timestamp_ns, max_timestamp_ns) = block.time_bounds_ns();
    let summary = BlockSummary {
        min_timestamp_ns,
        max_timestamp_ns,
        entries: block.len() as u64,
        line_bytes: block.lines().len() as u64,
    };
    if !block.has_metadata() && executor.summary(state, &summary) {
        return;
    }
    let dictionary = (block.has_metadata() && state.needs().metadata).then(|| intern(block));
    let metadata = match &dictionary {
        Some((sets, set_ids)) => MetadataColumn::Sets { set_ids, sets },
        None => MetadataColumn::None,
    };
    let columns = EntryBlock {
        timestamps_ns: block.timestamps_ns(),
        line_ends: block.line_ends(),
        lines: block.lines(),
        metadata,
        arrival,
        sorted: block.is_sorted(),
    };
    executor.block(state, &columns);
}

/// The dictionary form of a block's metadata, as the engine takes it.
fn intern(block: &HeadBlock) -> (MetadataSets, Vec<u32>) {
    let mut sets = MetadataSets::new();
    let mut set_ids = Vec::with_capacity(block.len());
    for index in 0..block.len() {
        let id = sets.intern(block.metadata(index));
        // A block holds far less than the 4 GiB of text that fill a dictionary.
        set_ids.push(id.expect("a block's metadata fits a dictionary"));
    }
    (sets, set_ids)
}
