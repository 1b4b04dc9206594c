//! Looks at the metadata of a block before its other columns, where entries must have a pair of
//! name and value.
//!
//! The filters of blocks let one block in some hundred pass that has no such pair. Its metadata is
//! a fraction of its lines, and tells so.
//!
//! Guarantees: the result, and the numbers of entries and bytes that count as processed, are the
//! same as in a scan that reads all columns. Where most blocks have the pair, metadata is not
//! read by itself.

use logsvc_logql::engine::LeafPlan;
use logsvc_proto::Labels;
use logsvc_segment::RunInfo;

use super::columns::{OpenBlock, Unready};
use super::leaf::Leaf;

/// The pairs of name and value that the metadata of every entry must have.
#[derive(Debug)]
pub(in crate::scan) struct RequiredPairs {
    pairs: Vec<(String, String)>,
    /// Blocks whose metadata was looked at, and those that it has ruled out.
    asked: u32,
    ruled_out: u32,
}

/// So many blocks are asked before it is known whether that pays.
const TRIED_BLOCKS: u32 = 16;

impl RequiredPairs {
    pub(super) fn new(plan: &LeafPlan) -> RequiredPairs {
        RequiredPairs { pairs: plan.required_metadata(), asked: 0, ruled_out: 0 }
    }

    /// Whether there are pairs, and metadata rules blocks out.
    fn pay(&self) -> bool {
        !self.pairs.is_empty() && (self.asked < TRIED_BLOCKS || self.ruled_out * 2 > self.asked)
    }

    /// The pairs that count for a stream: a label of the stream takes the place of metadata of its
    /// name.
    fn of<'a>(&'a self, labels: &'a Labels) -> impl Iterator<Item = usize> + 'a {
        let counts = |index: &usize| labels.get(&self.pairs[*index].0).is_none();
        (0..self.pairs.len()).filter(counts)
    }
}

impl Leaf {
    /// Whether the metadata of a run is to be looked at before anything else.
    pub(in crate::scan) fn asks_metadata(&self, run: &RunInfo, stream: u32) -> bool {
        // Of a run that is seen in part it is not known how many lines count as processed.
        let (start_ns, end_ns) = self.bounds_ns;
        let is_whole = run.min_ns >= start_ns && run.max_ns < end_ns;
        is_whole && self.pairs.pay() && self.pairs.of(self.streams.labels(stream)).next().is_some()
    }

    /// Whether no entry of a run has the pairs that it must have; the run is done then.
    pub(super) fn lacks_pairs(
        &mut self,
        opened: &mut OpenBlock,
        run: &RunInfo,
        stream: u32,
    ) -> Result<bool, Unready> {
        // Listed names are not all names.
        if opened.listed.is_some() || !self.asks_metadata(run, stream) {
            return Ok(false);
        }
        if run.has_metadata {
            let lacking = match opened.lacking.take() {
                Some(lacking) => lacking,
                None => {
                    let metadata = opened.metadata(&mut self.decoder, &mut self.stats)?;
                    let lacks = |(name, value): &(String, String)| {
                        !metadata.as_ref().is_some_and(|metadata| {
                            metadata.sets.may_have_name(name) && metadata.sets.may_have_text(value)
                        })
                    };
                    let lacking: Vec<bool> = self.pairs.pairs.iter().map(lacks).collect();
                    self.pairs.asked += 1;
                    self.pairs.ruled_out += u32::from(lacking.contains(&true));
                    lacking
                }
            };
            let is_left = !self.pairs.of(self.streams.labels(stream)).any(|index| lacking[index]);
            opened.lacking = Some(lacking);
            if is_left {
                return Ok(false);
            }
        }
        self.executor.left_out(run.entries.len() as u64, run.summary().line_bytes);
        Ok(true)
    }
}
