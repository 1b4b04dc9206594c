//! Gathers the parts of a query that shards have computed, has all cores share long ones, and
//! merges the parts.
//!
//! Guarantees: all cores together read the blocks that a shard leaves unread, each block once,
//! before the answer is complete. If one part decides the answer alone, the shards stop. Large
//! parts are merged on a side thread: millions of samples take as long as hundreds of pushes.

use logsvc_logql::engine::{
    Allowance, Finished, LeafResult, LeafStats, MergeState, Place, Plan, QueryResult,
};
use logsvc_proto::error::ApiError;
use logsvc_runtime::mesh::{Disconnected, PendingReply};
use logsvc_runtime::{CoreId, Denied, Grant, Runtime, SideQueue};
use logsvc_shards::messages::{ShardReply, ShardRequest};
use logsvc_shards::scan::{LeafReply, PartAllowance, ScanError, ScanJob};
use logsvc_shards::types::{Cancellation, ScanStats};

use super::errors::failed;

/// Why an answer cannot be gathered.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LeafError {
    /// A shard's part failed.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// A lane is full.
    #[error("too many outstanding requests")]
    Busy,
    /// A shard has stopped answering: the node is going down.
    #[error("a shard of this node is not running")]
    Gone,
}

impl From<LeafError> for ApiError {
    fn from(error: LeafError) -> ApiError {
        let text = error.to_string();
        match error {
            LeafError::Scan(ScanError::Plan(_) | ScanError::Memory { .. }) => {
                ApiError::bad_request(text)
            }
            LeafError::Busy | LeafError::Scan(ScanError::Busy) => {
                ApiError::too_many_requests(text, 1)
            }
            LeafError::Scan(ScanError::Cancelled) | LeafError::Gone => ApiError::unavailable(text),
        }
    }
}

/// Parts of up to so many bytes together are merged on the core, which takes less than a
/// millisecond.
const SMALL_MAX_BYTES: usize = 64 << 10;

/// Parts of up to so many bytes together take some milliseconds, like other parts of a short query.
/// The newest hundred lines that each share of a scan has found are some hundred KiB.
const SHORT_MAX_BYTES: usize = 2 << 20;

/// The queue of side threads that merges parts of so many bytes together; `None` merges on the
/// core.
pub(crate) fn merge_queue(held_bytes: usize) -> Option<SideQueue> {
    if held_bytes <= SMALL_MAX_BYTES {
        None
    } else if held_bytes <= SHORT_MAX_BYTES {
        Some(SideQueue::Queries)
    } else {
        Some(SideQueue::LongQueries)
    }
}

/// The parts of a query.
#[derive(Debug)]
pub(crate) struct Gathered {
    parts: Vec<LeafResult>,
    /// Memory of the parts, out of the query's memory.
    memory: Grant,
    /// Blocks and bytes that the shards touched for the parts.
    pub(crate) stats: ScanStats,
}

/// An answer, its memory, and the work for it.
#[derive(Debug)]
pub(crate) struct Merged {
    /// The answer.
    pub(crate) result: QueryResult,
    /// Where a page of entries ended, if there may be more.
    pub(crate) last: Option<Place>,
    /// The memory of the answer.
    pub(crate) memory: Box<dyn Allowance>,
    /// The work of all parts.
    pub(crate) stats: LeafStats,
}

impl Gathered {
    /// Parts whose memory is reserved, and the work for them.
    pub(crate) fn of(parts: Vec<LeafResult>, memory: Grant, stats: ScanStats) -> Gathered {
        Gathered { parts, memory, stats }
    }

    /// The parts, their memory, and the work for them.
    pub(super) fn into_parts(self) -> (Vec<LeafResult>, Grant, ScanStats) {
        (self.parts, self.memory, self.stats)
    }

    fn new(memory: Grant) -> Gathered {
        Gathered { parts: Vec::new(), memory, stats: ScanStats::default() }
    }

    /// Takes the parts of a leaf out; none if one part decides the answer.
    pub(super) fn take(&mut self, leaf: usize) -> Vec<LeafResult> {
        if self.is_decided() {
            return Vec::new();
        }
        self.parts.extract_if(.., |part| part.leaf() == leaf).collect()
    }

    /// Adds a part whose memory is reserved.
    pub(super) fn put(&mut self, part: LeafResult) {
        self.parts.push(part);
    }

    /// Whether one part decides the answer.
    pub(super) fn is_decided(&self) -> bool {
        self.parts.iter().any(LeafResult::ends_query)
    }

    /// Reserves memory for more parts.
    ///
    /// # Errors
    /// There is none.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<(), Denied> {
        self.memory.grow(bytes)
    }

    fn held_bytes(&self) -> usize {
        self.parts.iter().map(LeafResult::held_bytes).sum()
    }

    /// Adds the parts that come as replies. Returns the blocks that they left unread; none if one
    /// part decides the answer.
    async fn add<E: From<LeafError>>(
        &mut self,
        replies: impl IntoIterator<Item: Future<Output = Result<ShardReply, Disconnected>>>,
    ) -> Result<Vec<Box<ScanJob>>, E> {
        let (mut rests, mut is_stopped) = (Vec::new(), false);
        for reply in replies {
            let part = match part_of(reply.await) {
                // A part that decides the answer has stopped this one; that part is still to come.
                Err(LeafError::Scan(ScanError::Cancelled)) => {
                    is_stopped = true;
                    continue;
                }
                part => part?,
            };
            self.stats.add(&part.stats);
            if part.result.ends_query() {
                self.parts = vec![part.result];
                return Ok(Vec::new());
            }
            self.memory.merge(part.memory);
            self.parts.push(part.result);
            rests.extend(part.rest);
        }
        if is_stopped { Err(LeafError::Scan(ScanError::Cancelled).into()) } else { Ok(rests) }
    }

    /// Puts the parts together and makes the answer, see [`MergeState`], until `cancellation` says
    /// that nobody waits for it. The query's memory moves along, even if the caller goes away.
    ///
    /// # Errors
    /// There is no memory for it, or it has no answer.
    pub(crate) async fn merged<R: Runtime>(
        self,
        runtime: &R,
        plan: &Plan,
        cancellation: Cancellation,
    ) -> Result<Merged, ApiError> {
        let queue = merge_queue(plan.merge_bytes(self.held_bytes()));
        let Gathered { parts, memory, .. } = self;
        let taken_bytes = memory.bytes();
        let allowance = Box::new(PartAllowance { grant: memory, cancellation });
        let mut state = MergeState::with_allowance(plan, allowance, taken_bytes);
        let merge = move || {
            parts.into_iter().for_each(|part| state.add(part));
            let stats = state.stats();
            let Finished { result, last, memory } = state.finish_held()?;
            Ok(Merged { result, last, memory, stats })
        };
        inline_or_offloaded(runtime, queue, merge).await.map_err(failed)
    }
}

/// Runs a computation on this core, or in a queue of side threads.
pub(crate) async fn inline_or_offloaded<R: Runtime, T: Send + 'static>(
    runtime: &R,
    queue: Option<SideQueue>,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match queue {
        Some(queue) => runtime.offload_to(queue, work).await,
        None => work(),
    }
}

/// Waits for the shards' answers to a leaf. `ask` sends a request to a core; `memory` is an empty
/// grant of the query's account.
pub(crate) async fn gather_leaves<E: From<LeafError>>(
    ask: impl Fn(CoreId, ShardRequest) -> Result<PendingReply<ShardReply>, E>,
    cores: u16,
    replies: Vec<PendingReply<ShardReply>>,
    memory: Grant,
) -> Result<Gathered, E> {
    let mut gathered = Gathered::new(memory);
    let rests = gathered.add(replies).await?;
    // All cores share the rest of long scans, whichever shard owns the streams.
    let mut replies = Vec::new();
    for rest in rests {
        for (core, job) in (0..cores).map(CoreId).zip(rest.divide(cores)) {
            replies.push(ask(core, ShardRequest::Share(Box::new(job)))?);
        }
    }
    gathered.add(replies).await?;
    Ok(gathered)
}

fn part_of(reply: Result<ShardReply, Disconnected>) -> Result<LeafReply, LeafError> {
    match reply {
        Ok(ShardReply::Leaf(Ok(part))) => Ok(*part),
        Ok(ShardReply::Leaf(Err(error))) => Err(error.into()),
        Ok(_) | Err(_) => Err(LeafError::Gone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_logql::engine::{
        EntryBlock, LeafExecutor, MetadataColumn, QueryParams, StreamResult,
    };
    use logsvc_logql::syntax;
    use logsvc_proto::Labels;
    use logsvc_runtime::sim::Simulation;
    use logsvc_runtime::{Account, Budget};

    /// The part of a shard that has a stream of each of `apps` with `count` lines.
    fn part(plan: &Plan, apps: &[&str], count: usize) -> LeafResult {
        let mut executor = LeafExecutor::new(&plan.leaves()[0]).expect("a leaf");
        let timestamps_ns: Vec<i64> = (0..count as i64).collect();
        let line_ends: Vec<u32> = (1..=count as u32).map(|line| line * 4).collect();
        let block = EntryBlock {
            timestamps_ns: &timestamps_ns,
            line_ends: &line_ends,
            lines: &b"line".repeat(count),
            metadata: MetadataColumn::None,
            arrival: 0,
            sorted: true,
        };
        for app in apps {
            let labels = Labels::from_pairs([("app", *app)]).expect("labels");
            let mut state = executor.stream(&labels);
            executor.block(&mut state, &block);
        }
        executor.finish()
    }

    #[test]
    fn who_finds_no_memory_may_try_again() {
        let error = ApiError::from(LeafError::Scan(ScanError::Busy));
        assert_eq!((error.status.as_u16(), error.retry_after_s), (429, Some(1)));
        let error = ApiError::from(LeafError::Scan(ScanError::Memory { max_bytes: 1 }));
        assert_eq!(error.status.as_u16(), 400);
    }

    #[test]
    fn one_part_may_decide_the_answer_and_have_the_others_stop() {
        let expr = syntax::parse("rate({app=~`.+`}[9s])").expect("a query");
        let mut params = QueryParams::instant(9);
        params.limits.max_series = 1;
        let plan = Plan::new(&expr, &params).expect("a plan");
        let account = Account::alone(1 << 20);
        let reply = |result| {
            let memory = account.grant();
            let reply = LeafReply { result, memory, stats: ScanStats::default(), rest: None };
            Ok(ShardReply::Leaf(Ok(Box::new(reply))))
        };
        let small = || reply(part(&plan, &["a"], 5));
        let decides = || reply(part(&plan, &["a", "b"], 5));
        let stopped = || Ok(ShardReply::Leaf(Err(ScanError::Cancelled)));
        let gather = |replies: Vec<Result<ShardReply, Disconnected>>| {
            let mut gathered = Gathered::new(account.grant());
            Simulation::new(1).block_on(|_| async move {
                let replies = replies.into_iter().map(std::future::ready);
                let rests = gathered.add::<LeafError>(replies).await?;
                Ok::<_, LeafError>((gathered.parts, rests.len()))
            })
        };
        for replies in [
            vec![decides(), small()],
            vec![small(), decides()],
            vec![stopped(), small(), decides(), stopped()],
        ] {
            let (parts, rests) = gather(replies).expect("an answer");
            assert!(parts.len() == 1 && parts[0].ends_query() && rests == 0);
        }
        let (parts, _) = gather(vec![small(), small()]).expect("two parts");
        assert!(parts.len() == 2 && !parts[0].ends_query());
        // Nobody but the client has stopped it.
        let error = gather(vec![stopped(), small()]).expect_err("a part is missing");
        assert!(matches!(error, LeafError::Scan(ScanError::Cancelled)), "{error}");
    }

    #[test]
    fn parts_are_merged_with_their_memory_however_large_they_are() {
        for (count, queue) in
            [(3, None), (2_000, Some(SideQueue::Queries)), (40_000, Some(SideQueue::LongQueries))]
        {
            let expr = syntax::parse("{app=~`.+`}").expect("a query");
            let params = QueryParams { limit: 100_000, ..QueryParams::range(0, 100_000, 1) };
            let plan = Plan::new(&expr, &params).expect("a plan");
            let parts = vec![part(&plan, &["a"], count), part(&plan, &["b"], count)];
            let budget = Budget::new("queries", 100 << 20);
            let account = Account::open(&budget, 0, 100 << 20).expect("there is room");
            let mut memory = account.grant();
            memory.grow(700).expect("there is room");
            let gathered = Gathered { parts, memory, stats: ScanStats::default() };
            assert_eq!(merge_queue(gathered.held_bytes()), queue);
            let Merged { result, memory, stats, .. } =
                Simulation::new(1).block_on(|runtime| async move {
                    let merged = gathered.merged(&runtime, &plan, Cancellation::default()).await;
                    merged.expect("there is room")
                });
            assert_eq!(stats.entries, 2 * count as u64);
            let QueryResult::Streams(streams) = result else { panic!("{result:?}") };
            let lens: Vec<usize> = streams.iter().map(|s: &StreamResult| s.entries.len()).collect();
            assert_eq!(lens, [count, count]);
            assert!(budget.used_bytes() > 700);
            drop((memory, account));
            assert_eq!(budget.used_bytes(), 0);
        }
    }
    #[test]
    fn a_merge_ends_without_memory_and_when_nobody_waits_for_it() {
        let merged = |max_bytes: u64, is_cancelled: bool| {
            let expr = syntax::parse("{app=~`.+`}").expect("a query");
            let params = QueryParams { limit: 100_000, ..QueryParams::range(0, 100_000, 1) };
            let plan = Plan::new(&expr, &params).expect("a plan");
            let parts = vec![part(&plan, &["a"], 40_000), part(&plan, &["b"], 40_000)];
            let account = Account::alone(max_bytes);
            let gathered = Gathered { parts, memory: account.grant(), stats: ScanStats::default() };
            let cancellation = Cancellation::default();
            if is_cancelled {
                cancellation.cancel();
            }
            let merged = Simulation::new(1).block_on(|runtime| async move {
                gathered.merged(&runtime, &plan, cancellation).await
            });
            assert!(merged.is_ok() || account.used_bytes() == 0);
            merged.map(|merged| merged.stats.entries).map_err(|error| error.status.as_u16())
        };
        assert_eq!(merged(100 << 20, false), Ok(80_000));
        assert_eq!(merged(1 << 20, false), Err(413));
        assert_eq!(merged(100 << 20, true), Err(503));
    }
}
