//! Asks bundles of filters which blocks of a scan's segments may have a match.
//!
//! The first segment of a bundle that a scan comes to is asked itself: the scan may end there. From
//! the second one on the bundle tells of all of them at once, before their directories are read.
//!
//! Guarantees: a block with an entry that the query uses is never ruled out. A bundle that cannot
//! be read rules out nothing.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use logsvc_runtime::{OpenMode, Runtime};

use super::load::read_pieces;
use super::run::Scan;
use crate::manifest::{BundleError, read_bundle_head};
use crate::scan::error::ReadError;
use crate::sealed::{Bundle, Condition, Conditions, SegmentSource};
use logsvc_segment::filter::{BlockSet, FilterError, Probe};

/// The bundles that a scan has met.
#[derive(Debug, Default)]
pub(super) struct MetBundles(Vec<Met>);

#[derive(Debug)]
struct Met {
    bundle: Arc<Bundle>,
    answer: Answer,
}

#[derive(Debug)]
enum Answer {
    /// It was not asked.
    None,
    /// The blocks that may have a match.
    Blocks(BlockSet),
    /// It cannot be read.
    Failed,
}

impl<R: Runtime> Scan<'_, R> {
    /// The blocks of a segment that its bundle does not rule out by the conditions that hold
    /// whatever the streams are; `None` if no bundle was asked.
    pub(super) async fn left_by_bundle(&mut self, index: u32) -> Option<BlockSet> {
        let segment = &self.job.segments[index as usize];
        let bundle = Arc::clone(self.job.bundles.get(segment.live.name)?);
        let own = bundle.blocks_of(segment.live.name)?;
        if bundle.is_unreadable() {
            return None;
        }
        if !self.conditions.iter().any(Condition::is_certain) {
            return None;
        }
        let met = &mut self.bundles.0;
        let Some(at) = met.iter().position(|met| Arc::ptr_eq(&met.bundle, &bundle)) else {
            met.push(Met { bundle, answer: Answer::None });
            return None;
        };
        if matches!(met[at].answer, Answer::None) {
            let certain = self.conditions.iter().filter(|condition| condition.is_certain());
            let needles: Conditions = certain.map(|condition| condition.needles.clone()).collect();
            let answer = match self.ask(&bundle, needles).await {
                Ok(Some(blocks)) => Answer::Blocks(blocks),
                Ok(None) => return None,
                // It is stale, and was removed.
                Err(ReadError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                    Answer::Failed
                }
                Err(error) => {
                    if bundle.note_unreadable() {
                        tracing::error!(
                            file = %bundle.path.display(), %error,
                            "a bundle of filters cannot be read; it is removed and made anew"
                        );
                    }
                    Answer::Failed
                }
            };
            self.bundles.0[at].answer = answer;
        }
        match &self.bundles.0[at].answer {
            Answer::Blocks(blocks) => {
                let left = part_of(blocks, own);
                self.stats.blocks_filtered += (left.capacity() - left.count()) as u64;
                Some(left)
            }
            Answer::None | Answer::Failed => None,
        }
    }

    /// The blocks of all segments of the scan in a bundle in which conditions may hold; `None` if
    /// there is no memory for the search.
    async fn ask(
        &mut self,
        bundle: &Bundle,
        conditions: Conditions,
    ) -> Result<Option<BlockSet>, ReadError> {
        let read;
        let head = match bundle.head() {
            Some(head) => head,
            None => {
                read = read_bundle_head(&self.env.runtime, &bundle.path).await.map_err(of_head)?;
                self.env.directories.keep_head(bundle, read.clone());
                &read
            }
        };
        let index = head.index();
        if index.block_count() != bundle.block_count() {
            return Err(FilterError::Index("its blocks are not those of its segments").into());
        }
        let bytes = Probe::memory_max_bytes(index, &conditions);
        let Some(_memory) = self.columns_budget(bytes).try_reserve(bytes) else {
            return Ok(None);
        };
        let mut blocks = BlockSet::empty(index.block_count());
        for segment in self.job.segments.iter() {
            let of_segment = bundle.blocks_of(segment.live.name);
            of_segment.into_iter().flatten().for_each(|block| blocks.insert(block));
        }
        let region = head.region();
        let file = self.env.runtime.open(&bundle.path, OpenMode::ReadPieces).await;
        let file = file.map_err(|error| ReadError::Io { offset: 0, error })?;
        let file = SegmentSource::of_file(file);
        let mut probe = index.probe(conditions, blocks);
        while let Some(ranges) = probe.next_reads() {
            let in_file = |range: &Range<u64>| region.start + range.start..region.start + range.end;
            let ranges: Vec<_> = ranges.iter().map(in_file).collect();
            probe.supply(&read_pieces(self.env, &file, &ranges, &mut self.stats).await?)?;
        }
        Ok(Some(probe.into_candidates()))
    }
}

fn of_head(error: BundleError) -> ReadError {
    match error {
        BundleError::Io(error) => ReadError::Io { offset: 0, error },
        BundleError::Damaged(error) => ReadError::Filter(error),
    }
}

/// Some successive blocks of a set, as a set of their own.
fn part_of(blocks: &BlockSet, range: Range<usize>) -> BlockSet {
    let mut part = BlockSet::empty(range.len());
    range.clone().filter(|&block| blocks.contains(block)).for_each(|block| {
        part.insert(block - range.start);
    });
    part
}
