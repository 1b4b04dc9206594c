//! Runs a plan on all shards and merges their answers.
//!
//! Guarantees: shards stop when the request for a plan is dropped; the memory of intermediate
//! results is reserved first. Failures are an [`ApiError`] that is ready for the client.

use std::sync::Arc;

use logsvc_logql::engine::{Allowance, LeafPlan, LeafStats, MergeState, Place, Plan, QueryResult};
use logsvc_peers::question::{Asked as PeerAsked, Question};
use logsvc_proto::encode::{CacheStats, IngesterStats, QueryStats, StoreStats};
use logsvc_proto::error::ApiError;
use logsvc_runtime::{Monotonic, Runtime};
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::messages::ShardRequest;
use logsvc_shards::scan::LeafRequest;
use logsvc_shards::scope::TenantScope;
use logsvc_shards::types::{Cancellation, ScanStats};

use super::Querier;
use super::errors::failed;
use super::leaves::{Gathered, Merged, gather_leaves};
use super::owners::{Bounds, FoundByAll, Lacking, warning_of};
use super::queue::{QueryContext, QueryPermit, QueueKind};
use crate::metrics::Metric;

/// The answer of a plan, and its costs.
pub(crate) struct Executed {
    /// The answer.
    pub(crate) result: QueryResult,
    /// Where a page of entries ended, if there may be more.
    pub(crate) last: Option<Place>,
    /// The work of the leaves.
    pub(crate) leaf: LeafStats,
    /// Blocks and bytes that the shards touched.
    pub(crate) scan: ScanStats,
    /// What it lacks of other nodes. Such an answer is never kept.
    pub(crate) lacking: Option<Lacking>,
    /// Shards that were asked.
    pub(crate) shards: u64,
    /// The time in the queue, in ns.
    pub(crate) queue_time_ns: u64,
    /// From the first message to the last answer, in ns.
    pub(crate) exec_time_ns: u64,
    /// The part of it that was spent waiting for shards, in ns.
    pub(crate) wait_time_ns: u64,
    /// The memory of the result; `None` if nothing was read for it.
    pub(crate) memory: Option<Box<dyn Allowance>>,
    /// The use of kept answers.
    pub(crate) result_cache: CacheStats,
}

impl Executed {
    /// The answer of a plan that reads nothing.
    pub(crate) fn nothing(plan: &Plan) -> Result<Executed, ApiError> {
        let result = MergeState::new(plan).finish().map_err(failed)?;
        let leaf = LeafStats::default();
        let scan = ScanStats::default();
        let (queue_time_ns, exec_time_ns, wait_time_ns) = (0, 0, 0);
        let (shards, memory, result_cache) = (0, None, CacheStats::default());
        Ok(Executed {
            result,
            last: None,
            leaf,
            scan,
            lacking: None,
            shards,
            queue_time_ns,
            exec_time_ns,
            wait_time_ns,
            memory,
            result_cache,
        })
    }

    /// Warnings beside the answer: a part of the data could not be read, or is missing.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let are_values = !matches!(self.result, QueryResult::Streams(_));
        warnings_of(self.scan.unreadable_parts, self.lacking.as_ref(), are_values)
    }

    /// The `stats` object of an answer.
    pub(crate) fn stats(&self) -> QueryStats {
        let entries_returned = match &self.result {
            QueryResult::Streams(streams) => streams.iter().map(|s| s.entries.len() as u64).sum(),
            QueryResult::Matrix(series) => series.iter().map(|s| s.points.len() as u64).sum(),
            QueryResult::Vector(samples) => samples.len() as u64,
            QueryResult::Scalar { .. } => 1,
        };
        let (leaf, scan) = (&self.leaf, &self.scan);
        let head_line_bytes = leaf.line_bytes.saturating_sub(scan.sealed_line_bytes);
        QueryStats {
            exec_time_ns: self.exec_time_ns,
            queue_time_ns: self.queue_time_ns,
            splits: 1,
            shards: self.shards,
            entries_returned,
            streams_matched: scan.streams,
            ingester: IngesterStats {
                reached: self.shards,
                heads_matched: scan.head_blocks,
                batches: self.shards,
                lines_sent: leaf.entries_kept,
                wait_time_ns: self.wait_time_ns,
                // The work of the leaves less the work on sealed blocks.
                store: StoreStats {
                    head_bytes: head_line_bytes + scan.head_metadata_bytes,
                    head_metadata_bytes: scan.head_metadata_bytes,
                    uses_structured_metadata: scan.head_metadata_bytes > 0,
                    head_lines: leaf.entries.saturating_sub(scan.sealed_entries),
                    lines_after_filter: leaf.entries_kept.saturating_sub(scan.sealed_entries_kept),
                    ..StoreStats::default()
                },
            },
            store: StoreStats {
                blocks_referenced: scan.sealed_blocks + scan.blocks_filtered,
                blocks_read: scan.sealed_blocks,
                block_read_time_ns: scan.read_time_ns,
                decompressed_bytes: scan.sealed_line_bytes + scan.sealed_metadata_bytes,
                decompressed_metadata_bytes: scan.sealed_metadata_bytes,
                uses_structured_metadata: scan.sealed_metadata_bytes > 0,
                decompressed_lines: scan.sealed_entries,
                compressed_bytes: scan.read_bytes,
                lines_after_filter: scan.sealed_entries_kept,
                ..StoreStats::default()
            },
            block_cache: CacheStats {
                lookups: scan.cache_lookups,
                hits: scan.cache_hits,
                // Decoded blocks are put into the cache.
                stored: scan.cache_lookups - scan.cache_hits,
                served_ns: 0,
            },
            result_cache: self.result_cache,
            ..QueryStats::default()
        }
    }
}

/// The parts of leaves that shards have computed.
pub(super) struct Asked {
    /// The parts.
    pub(super) gathered: Gathered,
    lacking: Option<Lacking>,
    cancellation: CancelOnDrop,
    begun: Monotonic,
    wait_time_ns: u64,
}

/// The warnings of an answer that lacks so many parts of the stored entries, and something of other nodes.
/// `are_values`: it has values, and not entries or names.
pub(crate) fn warnings_of(
    unreadable_parts: u64,
    lacking: Option<&Lacking>,
    are_values: bool,
) -> Vec<String> {
    let unreadable = (unreadable_parts > 0).then(|| {
        format!(
            "{unreadable_parts} parts of the stored entries could not be read; the answer lacks them"
        )
    });
    unreadable.into_iter().chain(lacking.map(|it| warning_of(it, are_values))).collect()
}

/// Tells the shards to stop when it is dropped.
pub(crate) struct CancelOnDrop(pub(crate) Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl<R: Runtime> Querier<R> {
    /// Runs a plan once the request has a place in the queue.
    ///
    /// # Errors
    /// As for [`Querier::permit`], [`Querier::execute`] and [`Querier::bounded`].
    pub(crate) async fn run(
        &self,
        context: &QueryContext<'_>,
        tenants: &TenantScope,
        plan: &Plan,
    ) -> Result<Executed, ApiError> {
        let version = || self.core.node.deletions.version();
        self.run_at(context, tenants, plan, version).await
    }

    /// The same for numbers of what is stored: entries that requests for deletion hide count.
    ///
    /// # Errors
    /// As for [`Querier::run`].
    pub(crate) async fn run_over_stored(
        &self,
        context: &QueryContext<'_>,
        tenants: &TenantScope,
        plan: &Plan,
    ) -> Result<Executed, ApiError> {
        self.run_at(context, tenants, plan, || DeletionVersion::NONE).await
    }

    async fn run_at(
        &self,
        context: &QueryContext<'_>,
        tenants: &TenantScope,
        plan: &Plan,
        version: impl FnOnce() -> DeletionVersion,
    ) -> Result<Executed, ApiError> {
        let work = async {
            let permit = self.permit(&context.tenants, &context.limits, QueueKind::Query).await?;
            let permit = permit.taking_part(context.takes_part);
            self.execute(tenants, plan, version(), &permit).await
        };
        self.bounded(context, work).await
    }

    /// Runs the leaves of a plan on all shards at once and merges their parts. All shards hide the
    /// entries of the requests for deletion of one version. When it is dropped before its end, the
    /// shards stop.
    ///
    /// # Errors
    /// A part of it failed, there is no memory for it now, or the node is too busy.
    pub(crate) async fn execute(
        &self,
        tenants: &TenantScope,
        plan: &Plan,
        deletions: DeletionVersion,
        permit: &QueryPermit,
    ) -> Result<Executed, ApiError> {
        let asked = self.ask_leaves(tenants, plan.leaves().to_vec(), deletions, permit).await?;
        self.merge(asked, plan, permit).await
    }

    /// Runs leaves on all shards at once: the first half of [`Querier::execute`].
    ///
    /// # Errors
    /// As for [`Querier::execute`].
    pub(super) async fn ask_leaves(
        &self,
        tenants: &TenantScope,
        leaves: Vec<LeafPlan>,
        deletions: DeletionVersion,
        permit: &QueryPermit,
    ) -> Result<Asked, ApiError> {
        let begun = self.core.runtime.now();
        let cancellation = CancelOnDrop(Cancellation::default());
        if self.core.cluster().is_some() {
            let leaves = leaves.into_iter().map(Arc::new).collect();
            let question = Question {
                tenants: tenants.clone(),
                asked: PeerAsked::Leaves(leaves),
                deletions,
                entries_each: None,
            };
            let bounds = Bounds {
                account: permit.account.clone(),
                cancellation: cancellation.0.clone(),
                deadline: permit.deadline,
                takes_part: permit.takes_part.clone(),
            };
            let FoundByAll { found, memory, lacking } = self.ask_owners(question, &bounds).await?;
            let gathered = Gathered::of(found.parts, memory, found.stats);
            let wait_time_ns = self.core.runtime.now().since(begun).as_nanos() as u64;
            return Ok(Asked { gathered, lacking, cancellation, begun, wait_time_ns });
        }
        let mut replies = Vec::new();
        for leaf in leaves {
            let leaf = Arc::new(leaf);
            replies.extend(self.core.ask_all(|| {
                ShardRequest::Leaf(LeafRequest {
                    tenants: tenants.clone(),
                    plan: Arc::clone(&leaf),
                    deletions,
                    cancellation: cancellation.0.clone(),
                    account: permit.account.clone(),
                    entries_each: None,
                })
            })?);
        }
        let waits_since = self.core.runtime.now();
        let cores = self.core.runtime.core_count();
        let ask = |core, request| self.core.ask(core, request);
        let gathered = gather_leaves(ask, cores, replies, permit.account.grant()).await?;
        let wait_time_ns = self.core.runtime.now().since(waits_since).as_nanos() as u64;
        Ok(Asked { gathered, lacking: None, cancellation, begun, wait_time_ns })
    }

    /// Merges the parts of a plan's leaves: the second half of [`Querier::execute`].
    ///
    /// # Errors
    /// As for [`Querier::execute`].
    pub(super) async fn merge(
        &self,
        asked: Asked,
        plan: &Plan,
        permit: &QueryPermit,
    ) -> Result<Executed, ApiError> {
        let Asked { gathered, lacking, cancellation, begun, wait_time_ns } = asked;
        let scan = gathered.stats;
        let merged = gathered.merged(&self.core.runtime, plan, cancellation.0.clone()).await?;
        let Merged { result, last, memory, stats: leaf } = merged;
        let exec_time_ns = self.core.runtime.now().since(begun).as_nanos() as u64;
        let queue_time_ns = permit.waited.as_nanos() as u64;
        // A query that needs no entries asks no shard.
        let cores = self.core.runtime.core_count();
        let shards = if plan.leaves().is_empty() { 0 } else { u64::from(cores) };
        let executed = Executed {
            result,
            last,
            leaf,
            scan,
            lacking,
            shards,
            queue_time_ns,
            exec_time_ns,
            wait_time_ns,
            memory: Some(memory),
            result_cache: CacheStats::default(),
        };
        self.core.counters().numbers.add(Metric::QueriedBytes, executed.leaf.line_bytes);
        self.core.counters().numbers.add(Metric::UnreadableParts, executed.scan.unreadable_parts);
        Ok(executed)
    }
}
