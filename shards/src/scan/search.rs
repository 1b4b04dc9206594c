//! Line filters over sealed blocks that are left in their parts.
//!
//! Where the texts of the line filters tell most lines apart, lines are not put together:
//! the block's distinct segments are searched, and each line is judged by those it has
//! (`segment/columns/templates`). A leaf that counts lines behind such filters needs
//! nothing else; others get a block of the few lines that may pass.
//!
//! Guarantees: the result, and the entries and bytes counted as looked at, are those of a
//! scan that reads all lines. Where the texts leave too many lines the block is given
//! back to be read as a whole.

use std::ops::Range;
use std::sync::Arc;

use logsvc_logql::engine::{EntryBlock, LeafExecutor, LeafPlan, MetadataColumn, Needs};

use super::columns::{OpenBlock, RunColumns, Unready};
use super::leaf::Leaf;
use crate::messages::ScanStats;
use crate::segment::{Decoder, LineParts, LineSearch, Malformed, RunInfo};

/// Lines of a block of which more than one in so many has to be put together are read as
/// a whole, which puts each together once for all queries.
const JOINED_ONE_IN: usize = 4;

/// The line filters of a leaf.
#[derive(Debug)]
pub(super) struct Searcher {
    search: LineSearch,
    /// Whether nothing but the line filters looks at lines, and all of them are part of
    /// the search.
    decides: bool,
}

impl Searcher {
    /// The searcher of a leaf, if its filters can be searched for.
    pub(super) fn new(plan: &LeafPlan, executor: &LeafExecutor) -> Option<Searcher> {
        let tests = plan.line_tests();
        let (search, has_all) = LineSearch::new(&tests.tests)?;
        let decides = has_all && tests.is_complete && executor.only_filters_lines();
        Some(Searcher { search, decides })
    }
}

/// The lines of a block that may pass the filters: all that do, and, if the searcher
/// decides, no others.
#[derive(Debug)]
pub(super) struct Found {
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
        stats.blocks_searched += u64::from(found.is_some());
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
        if !self.is_searched {
            return Ok(None);
        }
        let Some(parts) = self.parts(decoder, stats)? else { return Ok(None) };
        let joined_max = parts.line_count() / JOINED_ONE_IN;
        let verdicts = match self.judged.take() {
            Some(verdicts) => verdicts,
            None => searcher.search.judge(&parts),
        };
        // Before they are taken apart: they may be needed again.
        let is_joined = searcher.decides && (1..=joined_max).contains(&ones(&verdicts.doubtful));
        let timestamps = match is_joined && parts.has_times() {
            true => match self.timestamps(decoder, stats) {
                Err(Unready::Missing) => {
                    self.judged = Some(verdicts);
                    return Err(Unready::Missing);
                }
                timestamps => Some(timestamps?),
            },
            false => None,
        };
        let (mut lines, doubtful) = (verdicts.passing, verdicts.doubtful);
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
                let joined = parts.join(times, parts.line_count(), wants, keep);
                joined.map_err(|_| self.damaged_lines())?;
            }
        }
        Ok(Some(Found { parts, lines }))
    }
}

impl Leaf {
    /// Gives the executor a run of which the lines can be filtered in parts; false if
    /// they cannot.
    pub(super) fn searched_run(
        &mut self,
        opened: &mut OpenBlock,
        run: &RunInfo,
        stream: u32,
        number: u64,
    ) -> Result<bool, Unready> {
        let Some(searcher) = &self.searcher else { return Ok(false) };
        let Some(state) = &mut self.states[stream as usize] else { return Ok(false) };
        let (executor, decoder, stats) = (&mut self.executor, &mut self.decoder, &mut self.stats);
        if !state.needs().lines {
            return Ok(false);
        }
        let Some(found) = opened.found(searcher, executor, decoder, stats)? else {
            return Ok(false);
        };
        let entries = run.entries.start as usize..run.entries.end as usize;
        let (start_ns, end_ns) = self.bounds_ns;
        let is_whole = run.min_ns >= start_ns && run.max_ns < end_ns;
        if is_whole && !entries.clone().any(|line| found.has(line)) {
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
        let first = times.partition_point(|&time| time < start_ns);
        let seen = first..first + times[first..].partition_point(|&time| time < end_ns);
        let line_bytes = match &columns.ends {
            Some(ends) if !is_whole => length_of(&ends[entries.clone()], &seen),
            _ => run.summary().line_bytes,
        };
        if searcher.decides {
            let passes = |index: usize| found.has(entries.start + index);
            executor.filtered_block(state, &columns.block(number), line_bytes, passes);
            return Ok(true);
        }
        let lines = entries.start + seen.start..entries.start + seen.end;
        let picked = Picked::new(&columns, &found, lines).map_err(|_| opened.damaged_lines())?;
        let block = picked.block(&columns, number);
        let (few_entries, few_bytes) = (block.len(), block.lines.len() as u64);
        executor.left_out((seen.len() - few_entries) as u64, line_bytes.saturating_sub(few_bytes));
        executor.block(state, &block);
        Ok(true)
    }
}

/// The length of some lines that end at `ends`.
fn length_of(ends: &[u32], lines: &Range<usize>) -> u64 {
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
    /// The found ones among some lines of a block.
    fn new(columns: &RunColumns, found: &Found, lines: Range<usize>) -> Result<Picked, Malformed> {
        let picked: Vec<usize> = lines.clone().filter(|&line| found.has(line)).collect();
        let (mut ends, mut bytes) = (Vec::with_capacity(picked.len()), Vec::new());
        let wants = |line: usize| line >= lines.start && found.has(line);
        found.parts.join(&columns.timestamps, lines.end, wants, |_, line| {
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
