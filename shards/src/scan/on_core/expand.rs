//! Expands a segment into the units that a scan has to visit.
//!
//! What costs least comes first: totals of streams where no filter is asked, a search for the
//! streams where they are few, and filters where the scan has many streams, so that a text which
//! the segment does not have costs no look at streams.
//!
//! Guarantees: each block with an entry that the query uses becomes one unit, unless the segment
//! cannot be read, which is counted.

use std::sync::Arc;

use logsvc_runtime::{Runtime, SideQueue};

use super::ahead::AskedFor;
use super::frontier::{self, HeldRow, LeftRows, Unit};
use super::prune;
use super::rows::{label_names, rows_by_labels};
use super::run::Scan;
use crate::scan::ScanError;
use crate::scan::aside::Leaf;
use crate::sealed::{Condition, Conditions, HeldDirectory};
use crate::types::ScanStats;
use logsvc_segment::filter::BlockSet;
use logsvc_segment::{Directory, RowSet};

/// Streams of a segment, or of a job, that are looked up on the core.
const STREAMS_MAX_ON_CORE: usize = 20_000;

/// The labels of the streams of so few blocks are read without a search for those that match: the
/// search is several reads, each of which waits for the one before.
const FEW_BLOCKS: usize = 8;

impl<R: Runtime> Scan<'_, R> {
    /// The units of a segment.
    pub(super) async fn expand(
        &mut self,
        leaf: &mut Leaf,
        index: u32,
    ) -> Result<Vec<Unit>, ScanError> {
        self.pause(leaf).await?;
        let job = self.job;
        let segment = &job.segments[index as usize];
        let bundled = match self.left_ahead(index) {
            Some(answer) => Some(answer),
            None => self.left_by_bundle(index).await.map(|left| (left, AskedFor::Certain)),
        };
        let (bundled, asked_before) = bundled.unzip();
        if bundled.as_ref().is_some_and(BlockSet::is_empty) {
            return Ok(Vec::new());
        }
        let mut rows = None;
        let few = |left: &BlockSet| left.count() <= FEW_BLOCKS;
        let selector = job.selector_for(index).filter(|_| !bundled.as_ref().is_some_and(few));
        if let Some(selector) = selector {
            // Labels are not what the query reads of its entries.
            let mut of_labels = ScanStats::default();
            rows = rows_by_labels(self.env, selector, segment, &mut of_labels).await;
            self.stats.add_waits(&of_labels);
            if rows.as_ref().is_some_and(RowSet::is_empty) {
                return Ok(Vec::new());
            }
        }
        let Some(directory) = self.directory(segment).await else { return Ok(Vec::new()) };
        // Filters, and totals of groups, cost less than a look at many streams, and than learning
        // these.
        let (mut blocks, mut left, mut sure) = (None, None, Vec::new());
        let reads_most = self.reads_most_of(index, &directory, rows.as_ref());
        if reads_most && self.conditions.is_empty() {
            left = self.without_groups(leaf, index, &directory, rows.as_ref()).await?;
            if left.as_ref().is_some_and(RowSet::is_empty) {
                return Ok(Vec::new());
            }
            rows = left.clone().or(rows);
        }
        if reads_most && !self.conditions.is_empty() {
            let all = frontier::blocks_of(job, index, &directory);
            let all = left_of(all, bundled.as_ref());
            sure = self.sure_conditions(index).await;
            let asked = self.asked_besides(asked_before);
            let left = self.filtered(index, &directory, all, |at| sure[at] && asked[at]).await;
            if left.is_empty() {
                return Ok(Vec::new());
            }
            if job.selector_for(index).is_some() {
                let of_blocks = directory.streams_of_blocks(&left);
                rows = Some(rows.map_or_else(|| of_blocks.clone(), |r| r.intersection(&of_blocks)));
            }
            blocks = Some(left);
        }
        self.learn(leaf, index, &directory, rows.as_ref()).await?;
        if let Some(blocks) = blocks {
            // Conditions that do not hold for streams which were found are gone.
            let has_all = sure.len() == self.conditions.len();
            let is_left = |at: usize| !(has_all && sure[at]);
            let blocks = self.filtered(index, &directory, blocks, is_left).await;
            self.pause(leaf).await?;
            return Ok(self.units_among(index, &directory, blocks).await);
        }
        let held = self.rows_of(index, &directory, rows).await;
        let left = self.without_counted(leaf, index, &directory, (held, left)).await?;
        let mut units = self.units_of(index, &directory, left).await;
        if units.is_empty() || self.conditions.is_empty() {
            return Ok(units);
        }
        let mut blocks = BlockSet::empty(directory.block_count() as usize);
        for block in units.iter().filter_map(Unit::block) {
            blocks.insert(block as usize);
        }
        let blocks = left_of(blocks, bundled.as_ref());
        let asked = self.asked_besides(asked_before);
        let blocks = self.filtered(index, &directory, blocks, |at| asked[at]).await;
        units.retain(|unit| unit.block().is_none_or(|block| blocks.contains(block as usize)));
        Ok(units)
    }

    /// Whether each of the conditions is still to be asked, if some were asked before.
    fn asked_besides(&self, before: Option<AskedFor>) -> Vec<bool> {
        let is_left = |condition: &Condition| match before {
            None => true,
            Some(AskedFor::Certain) => !condition.is_certain(),
            Some(AskedFor::All) => false,
        };
        self.conditions.iter().map(is_left).collect()
    }

    /// Whether the scan may read so many streams of a segment that these are not searched for one
    /// by one.
    fn reads_most_of(&self, index: u32, directory: &Directory, rows: Option<&RowSet>) -> bool {
        let streams = match (rows, self.job.selector_for(index)) {
            (Some(rows), _) => rows.len(),
            (None, Some(_)) => return true,
            (None, None) => self.known.streams.len(),
        };
        !frontier::searches_streams(streams, directory)
    }

    /// Whether each of the conditions holds for all streams of a segment, also for those that are
    /// not known.
    async fn sure_conditions(&mut self, index: u32) -> Vec<bool> {
        let Some(selector) = self.job.selector_for(index) else {
            return vec![true; self.conditions.len()];
        };
        let mut names = None;
        if !self.conditions.iter().all(Condition::is_certain) {
            let (mut of_labels, segment) =
                (ScanStats::default(), &self.job.segments[index as usize]);
            names = label_names(self.env, selector, segment, &mut of_labels).await;
            self.stats.add_waits(&of_labels);
        }
        let may_have = |name: &str| names.as_ref().is_none_or(|names| names.contains(name));
        self.conditions.iter().map(|condition| condition.holds(may_have)).collect()
    }

    /// The blocks of a segment that filters do not rule out by some of the conditions, which are
    /// given by their places.
    async fn filtered(
        &mut self,
        index: u32,
        directory: &HeldDirectory,
        blocks: BlockSet,
        is_asked: impl Fn(usize) -> bool,
    ) -> BlockSet {
        let asked = self.conditions.iter().enumerate().filter(|(at, _)| is_asked(*at));
        let needles: Conditions = asked.map(|(_, condition)| condition.needles.clone()).collect();
        if blocks.is_empty() || needles.is_empty() {
            return blocks;
        }
        let segment = &self.job.segments[index as usize];
        let (env, stats) = (self.env, &mut self.stats);
        match prune::candidates(env, segment, directory, &needles, blocks.clone(), stats).await {
            Ok(left) => {
                self.stats.blocks_filtered += (blocks.count() - left.count()) as u64;
                left
            }
            // Reading everything gives the right answer too.
            Err(error) => {
                self.env.note_damage(segment, Some(directory), "filters", &error);
                blocks
            }
        }
    }

    /// The streams of the scan that a segment holds.
    async fn rows_of(
        &mut self,
        index: u32,
        directory: &Arc<HeldDirectory>,
        rows: Option<RowSet>,
    ) -> Vec<HeldRow> {
        let segment = &self.job.segments[index as usize];
        let streams = self.known.streams.len().max(directory.stream_count() as usize);
        if streams <= STREAMS_MAX_ON_CORE {
            return frontier::rows_of(&mut self.known, segment, directory, rows.as_ref());
        }
        let (segment, directory) = (Arc::clone(segment), Arc::clone(directory));
        let mut known = std::mem::take(&mut self.known);
        let find = move || {
            let held = frontier::rows_of(&mut known, &segment, &directory, rows.as_ref());
            (held, known)
        };
        let queue = Some(self.aside.unwrap_or(SideQueue::Queries));
        let (held, known) = self.env.compute(queue, find).await;
        self.known = known;
        held
    }

    /// The units of some streams of a segment.
    async fn units_of(
        &mut self,
        index: u32,
        directory: &Arc<HeldDirectory>,
        left: LeftRows,
    ) -> Vec<Unit> {
        if left.held.len() <= STREAMS_MAX_ON_CORE {
            return frontier::units_of(self.job, index, directory, &left);
        }
        let (job, directory) = (self.job.without_work(), Arc::clone(directory));
        let queue = Some(self.aside.unwrap_or(SideQueue::Queries));
        let find = move || frontier::units_of(&job, index, &directory, &left);
        self.env.compute(queue, find).await
    }

    /// The units of all streams of the scan in some blocks of a segment.
    async fn units_among(
        &mut self,
        index: u32,
        directory: &Arc<HeldDirectory>,
        blocks: BlockSet,
    ) -> Vec<Unit> {
        let streams = self.known.streams.len();
        let runs: usize = blocks.iter().map(|one| directory.block(one as u32).runs.len()).sum();
        if runs == 0 {
            return Vec::new();
        }
        if streams.max(runs) <= STREAMS_MAX_ON_CORE {
            return frontier::units_among(self.job, &mut self.known, index, directory, &blocks);
        }
        let (job, directory) = (self.job.without_work(), Arc::clone(directory));
        let mut known = std::mem::take(&mut self.known);
        let find = move || {
            let units = frontier::units_among(&job, &mut known, index, &directory, &blocks);
            (units, known)
        };
        let queue = Some(self.aside.unwrap_or(SideQueue::Queries));
        let (units, known) = self.env.compute(queue, find).await;
        self.known = known;
        units
    }
}

/// The blocks that a bundle has left, if one was asked.
fn left_of(blocks: BlockSet, bundled: Option<&BlockSet>) -> BlockSet {
    match bundled {
        Some(left) => blocks.intersection(left),
        None => blocks,
    }
}
