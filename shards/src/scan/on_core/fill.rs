//! Fills batches: takes the next units, reads their columns, and hands them over as items.
//!
//! Guarantees: a unit is in one batch, whole, or in none. A run that the directory answers is
//! answered once. A block that cannot be read is left out and counted.

use std::sync::Arc;

use logsvc_logql::engine::Needs;
use logsvc_runtime::Runtime;

use super::frontier::{self, Frontier, Unit, UnitKind};
use super::hiding::Hides;
use super::late::{self, RunSource};
use super::load::{load_wanted, prefers_parts, want, want_missing, want_run};
use super::run::Scan;
use crate::deletion::FilterWeight;
use crate::scan::ScanError;
use crate::scan::aside::{Batch, BlockWork, Column, Item, Leaf, OpenBlock, RunColumns, RunWork};
use crate::scan::head_blocks::arrival;
use crate::sealed::{HeldDirectory, SealedSegment};
use logsvc_segment::RowSet;

/// The bytes that are read of any entry of a head: its time, and the end of its line.
const ENTRY_BYTES: usize = 16;

/// Runs of a block that are asked for before others get the core.
const RUNS_AT_ONCE: usize = 64;

impl<R: Runtime> Scan<'_, R> {
    /// Finds and reads the next units: none at the end of the scan.
    pub(super) async fn fill(
        &mut self,
        leaf: &mut Leaf,
        frontier: &mut Frontier,
    ) -> Result<Box<Batch>, ScanError> {
        let mut batch = Box::new(Batch::default());
        loop {
            while let Some(segment) = frontier.next_segment() {
                self.look_ahead(segment, frontier).await;
                let units = self.expand(leaf, segment).await?;
                self.note_expanded(units.is_empty());
                frontier.add(units);
            }
            let Some(unit) = frontier.next_unit() else { break };
            if !self.unit(leaf, &unit, &mut batch).await? {
                frontier.add(vec![unit]);
                break;
            }
            self.pause(leaf).await?;
            let is_full = self.batch_size.is_reached_by(&batch) || batch.memory.is_full();
            // Of a scan that may end early no more is read than it needs.
            if is_full || (self.aside.is_none() && !batch.items.is_empty()) {
                break;
            }
        }
        batch.memory.give_back_surplus();
        self.load_wanted(&mut batch).await;
        Ok(batch)
    }

    /// Reads the columns that a unit needs, and puts the unit into the batch. False if there is no
    /// memory for it beside the items of the batch; then nothing has been done.
    async fn unit(
        &mut self,
        leaf: &mut Leaf,
        unit: &Unit,
        batch: &mut Batch,
    ) -> Result<bool, ScanError> {
        match &unit.kind {
            UnitKind::Head { stream, block } => self.head_block(leaf, *stream, *block, batch).await,
            UnitKind::Sealed { segment, block, left } => {
                self.sealed_block(leaf, (*segment, *block), left.as_deref(), batch).await
            }
        }
    }

    async fn head_block(
        &mut self,
        leaf: &mut Leaf,
        stream: u32,
        block: u32,
        batch: &mut Batch,
    ) -> Result<bool, ScanError> {
        // Only streams of the shard's memory have heads.
        let streams = self.known.streams.clone();
        let Some(snapshot) = streams.snapshot(stream) else { return Ok(true) };
        let part = &snapshot.blocks[block as usize];
        let (min_ns, max_ns) = part.time_bounds_ns();
        if !leaf.executor.wants(min_ns, max_ns) {
            return Ok(true);
        }
        let hidden_by = match &snapshot.deletions {
            None => Box::default(),
            Some(deletions) if deletions.hides_all((min_ns, max_ns)) => {
                self.stats.entries_hidden += part.block.len() as u64;
                return Ok(true);
            }
            Some(deletions) => deletions.overlapping((min_ns, max_ns)).collect::<Box<[u32]>>(),
        };
        // Of a block that repeats entries, or hides some, only a part may count.
        let is_whole = !snapshot.head_is_late && hidden_by.is_empty();
        if is_whole && leaf.is_head_answered_by_summary(stream, part) {
            return Ok(true);
        }
        // The rest of it is a copy.
        let copy_bytes = if snapshot.head_is_late { part.block.held_bytes() as u64 } else { 0 };
        if copy_bytes > 0 && !self.memory_for(leaf, batch, copy_bytes).await? {
            return Ok(false);
        }
        let needs = leaf.needs_with(stream, &hidden_by);
        // Where lines are read nothing else is asked of the block here: it is mostly not in the
        // cache of the CPU.
        let columns_bytes = part.block.len() * ENTRY_BYTES;
        batch.bytes += columns_bytes + if needs.lines { part.block.lines().len() } else { 0 };
        batch.entries += part.block.len();
        let repeated = match snapshot.head_is_late {
            true => self.without_repeated(stream, RunSource::Head(part)).await,
            false => None,
        };
        let number = arrival(part.generation, part.within);
        batch.items.push(match repeated {
            Some(columns) => {
                batch.memory.hold(copy_bytes);
                Item::Kept { stream, number, columns, hidden_by }
            }
            None => Item::Head { stream, block, hidden_by },
        });
        Ok(true)
    }

    /// The directory of a segment; `None` if it cannot be read, which is counted.
    pub(super) async fn directory(
        &mut self,
        segment: &SealedSegment,
    ) -> Option<Arc<HeldDirectory>> {
        match self.env.directories.get(segment).await {
            Ok(directory) => Some(directory),
            Err(error) => {
                self.stats.unreadable_parts += 1;
                self.env.note_damage(segment, None, "directory", &error.into());
                None
            }
        }
    }

    async fn sealed_block(
        &mut self,
        leaf: &mut Leaf,
        (segment, block): (u32, u32),
        left: Option<&RowSet>,
        batch: &mut Batch,
    ) -> Result<bool, ScanError> {
        let sealed = &self.job.segments[segment as usize];
        let Some(directory) = self.directory(sealed).await else { return Ok(true) };
        let mut opened = OpenBlock::new(sealed, &directory, block);
        let is_limited = leaf.executor.open_bounds_ns() != leaf.bounds_ns;
        let abridges = leaf.abridger.is_some();
        opened.is_searched =
            (is_limited || leaf.searcher.is_some() || abridges) && prefers_parts(self.env, &opened);
        opened.is_tested =
            self.job.filters != FilterWeight::NOTHING && prefers_parts(self.env, &opened);
        // Requests for deletion may look at other metadata.
        if self.job.filters == FilterWeight::NOTHING {
            opened.listed = leaf.executor.listed_metadata().cloned();
        }
        let max_bytes = opened.max_bytes();
        // Later it would be too late, because some runs may have been answered; the first one
        // of a batch waits no earlier than it needs to.
        let mut has_memory = !batch.items.is_empty();
        if has_memory && !self.memory_for(leaf, batch, max_bytes).await? {
            return Ok(false);
        }
        let mut is_copied = false;
        let mut runs = Vec::new();
        let found = frontier::runs_of(self.job, &mut self.known, segment, &directory, block, left);
        for (number, stream_run) in found.into_iter().enumerate() {
            if number % RUNS_AT_ONCE == RUNS_AT_ONCE - 1 {
                self.pause(leaf).await?;
            }
            let (run, stream) = (&stream_run.run, stream_run.stream);
            if !leaf.executor.wants(run.min_ns, run.max_ns) {
                continue;
            }
            let hidden_by = match self.hides(stream, segment, &directory, run).await {
                Hides::By(requests) => requests,
                Hides::All => {
                    self.stats.entries_hidden += run.entries.len() as u64;
                    continue;
                }
            };
            if stream_run.is_late && !has_memory {
                has_memory = self.memory_for(leaf, batch, max_bytes).await?;
            }
            let kept = match stream_run.is_late {
                true => self.without_repeated(stream, RunSource::Run { segment, run }).await,
                false => None,
            };
            is_copied |= kept.is_some();
            if kept.is_none() {
                if hidden_by.is_empty() && leaf.is_answered_by_summary(run, stream) {
                    continue;
                }
                if !has_memory {
                    has_memory = self.memory_for(leaf, batch, max_bytes).await?;
                }
                let (env, stats) = (self.env, &mut self.stats);
                let needs = leaf.needs_with(stream, &hidden_by);
                let in_parts = needs.lines
                    && match hidden_by.is_empty() {
                        true => opened.is_searched,
                        false => opened.is_tested && leaf.can_test_parts(stream, &hidden_by),
                    };
                let asks_metadata = hidden_by.is_empty() && leaf.asks_metadata(run, stream);
                if asks_metadata && run.has_metadata {
                    batch.bytes += want(env, &mut opened, Column::Metadata, stats);
                } else if in_parts && !asks_metadata {
                    batch.bytes += want(env, &mut opened, Column::Parts, stats);
                }
                // A run that counts once a limit is reached has entries that count.
                // So has one whose lines are abridged, unless a search leaves it out.
                let is_needed = is_limited || (abridges && leaf.searcher.is_none());
                if !asks_metadata && (!in_parts || is_needed) {
                    let needs = Needs {
                        line_lengths: needs.line_lengths && !in_parts,
                        lines: needs.lines && !in_parts,
                        metadata: needs.metadata,
                    };
                    batch.bytes += want_run(env, &mut opened, run, needs, stats);
                }
            }
            batch.entries += run.entries.len();
            let number = arrival(segment, run.run);
            runs.push(RunWork { number, stream_run, kept, hidden_by });
        }
        if !runs.is_empty() {
            runs.reverse();
            // The copies are not larger than the columns of the block.
            let held_bytes = if is_copied { max_bytes } else { opened.stored_bytes() };
            batch.memory.hold(held_bytes);
            let work = BlockWork { segment, opened, runs, held_bytes };
            batch.items.push(Item::Block(Box::new(work)));
        }
        Ok(true)
    }

    /// Reads columns that turned out to be needed, for some items of a batch at least: the columns
    /// of the others are read when these items are done. The columns of one item are read even if
    /// there is no memory for them: a scan that waited while it holds a batch could wait for
    /// another scan that does the same.
    pub(super) async fn load_missing(&mut self, batch: &mut Batch) {
        let blocks = batch.items.iter().filter_map(Item::block);
        batch.memory.hold_only(blocks.map(|work| work.held_bytes).sum());
        let before_bytes = batch.memory.held_bytes();
        for item in &mut batch.items {
            let Item::Block(work) = item else { continue };
            let bytes = work.opened.missing_bytes();
            let is_first = batch.memory.held_bytes() == before_bytes;
            if is_first {
                batch.memory.reserve_if_possible(self.columns_budget(bytes), bytes);
            } else if batch.memory.is_full()
                || !batch.memory.reserve(self.columns_budget(bytes), bytes)
            {
                break;
            }
            want_missing(self.env, &mut work.opened, &mut self.stats);
            work.held_bytes += bytes;
            batch.memory.hold(bytes);
        }
        self.load_wanted(batch).await;
    }

    /// Reads the columns that the items of a batch want.
    async fn load_wanted(&mut self, batch: &mut Batch) {
        let segments = &self.job.segments;
        let blocks = batch.items.iter_mut().filter_map(|item| match item {
            Item::Block(work) => Some((&*segments[work.segment as usize], &mut work.opened)),
            Item::Head { .. } | Item::Kept { .. } => None,
        });
        load_wanted(self.env, blocks, &mut self.stats).await;
    }

    /// The part without the entries that an earlier one of the stream holds too;
    /// `None` if there are none.
    async fn without_repeated(&mut self, stream: u32, part: RunSource<'_>) -> Option<RunColumns> {
        let (env, late, stats) = (self.env, &mut self.late, &mut self.stats);
        let (snapshot, aside) = ((self.job, &self.known.streams), self.aside);
        match late::without_repeated(env, snapshot, late, stream, part, aside, stats).await {
            Ok(kept) => kept,
            Err((segment, error)) => {
                // Seen twice is better than not at all.
                self.stats.unreadable_parts += 1;
                let segment = &self.job.segments[segment as usize];
                let directory = self.env.directories.get(segment).await.ok();
                self.env.note_damage(segment, directory.as_deref().map(|d| &**d), "block", &error);
                None
            }
        }
    }
}
