//! Applies line filters to sealed blocks without putting all lines together.
//!
//! A block may store its lines as segments of text that lines share. If the texts of the line
//! filters tell most lines apart, the distinct segments are searched, and the segments of a line
//! decide about it. A leaf that only counts lines behind line filters needs nothing else. Other
//! leaves get a block of the few lines that may pass. A leaf that has found as many lines as its
//! limit needs only lines that are newer (or older) than the last one of them. If a block has few
//! of these lines, they are put together without searching the block, also if there is no line
//! filter.
//!
//! Guarantees: the result, and the numbers of entries and bytes that count as processed, are the
//! same as in a scan that reads all lines. If the texts leave too many lines, the block is read as
//! a whole.

use std::ops::Range;
use std::sync::Arc;

use logsvc_logql::engine::{
    EntryBlock, LeafExecutor, LeafPlan, MetadataColumn, Needs, rows_within,
};

use super::columns::{OpenBlock, RunColumns, Unready};
use super::leaf::Leaf;
use crate::types::ScanStats;
use logsvc_segment::{Decoder, LineParts, LineSearch, Malformed, RunInfo, SlotLines};

/// Lines of a block of which more than one in so many has to be put together are read as
/// a whole, which puts each together once for all queries.
const JOINED_ONE_IN: usize = 4;

/// One line of so many, and fewer, are put together without judging the others.
const FEW_ONE_IN: usize = 8;

/// The line filters of a leaf.
#[derive(Debug)]
pub(in crate::scan) struct Searcher {
    search: LineSearch,
    /// Whether nothing but the line filters looks at lines, and all of them are part of
    /// the search.
    decides: bool,
}

impl Searcher {
    /// The searcher of a leaf, if its filters can be searched for.
    pub(in crate::scan) fn new(plan: &LeafPlan, executor: &LeafExecutor) -> Option<Searcher> {
        let tests = plan.line_tests();
        let (search, has_all) = LineSearch::new(&tests.tests)?;
        let decides = has_all && tests.is_complete && executor.only_filters_lines();
        Some(Searcher { search, decides })
    }
}

/// The lines of a block that may pass the filters: all that do, and, if the searcher
/// decides, no others.
#[derive(Debug)]
pub(in crate::scan) struct Found {
    parts: Arc<LineParts>,
    lines: Vec<u64>,
}

impl Found {
    fn has(&self, line: usize) -> bool {
        bit(&self.lines, line)
    }
}

fn bit(words: &[u64], line: usize) -> bool {
    words[line / 64] >> (line % 64) & 1 == 1
}

fn ones(words: &[u64]) -> usize {
    words.iter().map(|word| word.count_ones() as usize).sum()
}

impl OpenBlock {
    /// Judges the block's lines, once. `None` if they had better be read.
    fn found(
        &mut self,
        searcher: &Searcher,
        executor: &LeafExecutor,
        decoder: &mut Decoder,
        stats: &mut ScanStats,
    ) -> Result<Option<Arc<Found>>, Unready> {
        if let Some(found) = &self.found {
            return Ok(found.clone());
        }
        let found = self.find(searcher, executor, decoder, stats)?.map(Arc::new);
        self.found = Some(found.clone());
        Ok(found)
    }

    fn find(
        &mut self,
        searcher: &Searcher,
        executor: &LeafExecutor,
        decoder: &mut Decoder,
        stats: &mut ScanStats,
    ) -> Result<Option<Found>, Unready> {
        let Some(parts) = self.parts(decoder, stats)? else { return Ok(None) };
        let joined_max = parts.line_count() / JOINED_ONE_IN;
        let outcomes = match self.outcomes.take() {
            Some(outcomes) => outcomes,
            None => {
                let outcomes = searcher.search.test(&parts, &mut self.slot_lines);
                outcomes.map_err(|_| self.damaged_lines())?
            }
        };
        // Before they are taken apart: they may be needed again.
        let is_joined = searcher.decides && (1..=joined_max).contains(&ones(&outcomes.doubtful));
        let timestamps = match is_joined && parts.has_times() {
            true => match self.timestamps(decoder, stats) {
                Err(Unready::Missing) => {
                    self.outcomes = Some(outcomes);
                    return Err(Unready::Missing);
                }
                timestamps => Some(timestamps?),
            },
            false => None,
        };
        let (mut lines, doubtful) = (outcomes.passing, outcomes.doubtful);
        if !searcher.decides {
            lines.iter_mut().zip(&doubtful).for_each(|(line, doubt)| *line |= doubt);
            return Ok((ones(&lines) <= joined_max).then_some(Found { parts, lines }));
        }
        match ones(&doubtful) {
            0 => {}
            count if count > joined_max => return Ok(None),
            _ => {
                let keep = |number: usize, line: &[u8]| {
                    lines[number / 64] |= u64::from(executor.keeps_line(line)) << (number % 64);
                };
                let times = timestamps.as_ref().map_or(&[][..], |column| column);
                let wants = |line| bit(&doubtful, line);
                let all = 0..parts.line_count();
                let joined = parts.join(&mut self.slot_lines, times, all, wants, keep);
                joined.map_err(|_| self.damaged_lines())?;
            }
        }
        Ok(Some(Found { parts, lines }))
    }
}

impl Leaf {
    /// Gives the executor a run of which the lines can be filtered in parts, or of which few count;
    /// false if that cannot be done, or is not worth it.
    pub(in crate::scan) fn searched_run(
        &mut self,
        opened: &mut OpenBlock,
        run: &RunInfo,
        stream: u32,
        number: u64,
    ) -> Result<bool, Unready> {
        let index = self.state_index(stream);
        let Some(state) = &mut self.states[index] else { return Ok(false) };
        let (executor, decoder, stats) = (&mut self.executor, &mut self.decoder, &mut self.stats);
        if !state.needs().lines || !opened.is_searched {
            return Ok(false);
        }
        let entries = run.entries.start as usize..run.entries.end as usize;
        let open_ns = executor.open_bounds_ns();
        let is_few = open_ns != self.bounds_ns && {
            let times = opened.timestamps(decoder, stats)?;
            rows_within(&times[entries.clone()], open_ns).len() * FEW_ONE_IN <= entries.len()
        };
        let (start_ns, end_ns) = self.bounds_ns;
        let is_whole = run.min_ns >= start_ns && run.max_ns < end_ns;
        let (parts, found) = match &self.searcher {
            _ if is_few => (opened.parts(decoder, stats)?, None),
            Some(searcher) => match opened.found(searcher, executor, decoder, stats)? {
                Some(found) => (Some(Arc::clone(&found.parts)), Some(found)),
                None => (None, None),
            },
            None => (None, None),
        };
        let Some(parts) = parts else { return Ok(false) };
        opened.count_as_searched(stats);
        let may_pass = |line| found.as_ref().is_none_or(|found| found.has(line));
        if is_whole && !entries.clone().any(may_pass) {
            executor.left_out(entries.len() as u64, run.summary().line_bytes);
            return Ok(true);
        }
        let needs = Needs {
            line_lengths: !is_whole || executor.adds_lengths(),
            lines: false,
            metadata: state.needs().metadata,
        };
        let columns = opened.run(run, needs, decoder, stats)?;
        // Runs of sealed blocks are in order of time.
        let times = &columns.timestamps[entries.clone()];
        let seen = rows_within(times, self.bounds_ns);
        let line_bytes = match &columns.ends {
            Some(ends) if !is_whole => length_of(&ends[entries.clone()], &seen),
            _ => run.summary().line_bytes,
        };
        if self.searcher.as_ref().is_some_and(|searcher| searcher.decides) {
            let passes = |index: usize| may_pass(entries.start + index);
            executor.filtered_block(state, &columns.block(number), line_bytes, passes);
            return Ok(true);
        }
        let open = rows_within(times, open_ns);
        let lines = entries.start + open.start..entries.start + open.end;
        let picked = Picked::new(&columns, &parts, &mut opened.slot_lines, lines, may_pass);
        let picked = picked.map_err(|_| opened.damaged_lines())?;
        let block = picked.block(&columns, number);
        let (few_entries, few_bytes) = (block.len(), block.lines.len() as u64);
        executor.left_out((seen.len() - few_entries) as u64, line_bytes.saturating_sub(few_bytes));
        executor.block(state, &block);
        Ok(true)
    }
}

/// The length of some lines that end at `ends`.
pub(super) fn length_of(ends: &[u32], lines: &Range<usize>) -> u64 {
    match lines.clone().next_back() {
        Some(last) => {
            let start = lines.start.checked_sub(1).map_or(0, |before| ends[before]);
            u64::from(ends[last] - start)
        }
        None => 0,
    }
}

/// Some of a block's entries.
struct Picked {
    timestamps_ns: Vec<i64>,
    ends: Vec<u32>,
    lines: Vec<u8>,
    set_ids: Vec<u32>,
}

impl Picked {
    /// The lines that may pass, among some lines of a block.
    fn new(
        columns: &RunColumns,
        parts: &LineParts,
        slot_lines: &mut SlotLines,
        lines: Range<usize>,
        may_pass: impl Fn(usize) -> bool,
    ) -> Result<Picked, Malformed> {
        let picked: Vec<usize> = lines.clone().filter(|&line| may_pass(line)).collect();
        let (mut ends, mut bytes) = (Vec::with_capacity(picked.len()), Vec::new());
        parts.join(slot_lines, &columns.timestamps, lines, may_pass, |_, line| {
            bytes.extend_from_slice(line);
            ends.push(bytes.len() as u32);
        })?;
        let set_ids = columns
            .metadata
            .as_ref()
            .map_or(Vec::new(), |column| picked.iter().map(|&line| column.set_ids[line]).collect());
        let timestamps_ns = picked.iter().map(|&line| columns.timestamps[line]).collect();
        Ok(Picked { timestamps_ns, ends, lines: bytes, set_ids })
    }

    fn block<'a>(&'a self, columns: &'a RunColumns, arrival: u64) -> EntryBlock<'a> {
        EntryBlock {
            timestamps_ns: &self.timestamps_ns,
            line_ends: &self.ends,
            lines: &self.lines,
            metadata: match &columns.metadata {
                Some(column) => MetadataColumn::Sets { set_ids: &self.set_ids, sets: &column.sets },
                None => MetadataColumn::None,
            },
            arrival,
            sorted: columns.sorted,
        }
    }
}
