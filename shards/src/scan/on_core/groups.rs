//! Answers all streams of a segment that are alike to a query from their totals together.
//!
//! A query that counts the entries of many streams by one label, or by none, has to know which rows
//! of the segment have which value. The label index tells, in ranges of rows. So it learns no
//! stream, and its cost follows from the ranges. Only a question for statistics looks at the ids of
//! streams, to count them.
//!
//! Guarantees: a row is answered once, here or later. Rows that may repeat entries of another
//! segment, rows whose page of the index is damaged, and rows without the label, if their metadata
//! may have it, are left.

use std::sync::Arc;

use logsvc_logql::engine::CountedBy;
use logsvc_proto::{StreamId, TenantId};
use logsvc_runtime::Runtime;

use super::load::read_all;
use super::rows::rows_by_labels;
use super::run::Scan;
use crate::scan::ScanError;
use crate::scan::aside::Leaf;
use crate::scan::error::ReadError;
use crate::types::ScanStats;
use logsvc_segment::{Directory, LabelIndex, RowSet};

/// Streams that are counted before others get the core.
const STREAMS_AT_ONCE: usize = 1024;

/// Values whose streams are counted before others get the core.
const VALUES_AT_ONCE: usize = 256;

/// The memory of a stream that was counted.
const COUNTED_STREAM_BYTES: usize = 2 * size_of::<StreamId>();

impl<R: Runtime> Scan<'_, R> {
    /// Answers streams of a segment together. `rows` are those that may be of selected streams,
    /// `None` if that is not known. Gives the rows that are left, or `None` if nothing was answered.
    ///
    /// # Errors
    /// The query ends.
    pub(super) async fn without_groups(
        &mut self,
        leaf: &mut Leaf,
        index: u32,
        directory: &Directory,
        rows: Option<&RowSet>,
    ) -> Result<Option<RowSet>, ScanError> {
        let (env, segment) = (self.env, &self.job.segments[index as usize]);
        // The label, and whether streams without it are alike.
        let by = match leaf.executor.counts_by() {
            None => return Ok(None),
            Some(CountedBy::Nothing) => (None, true),
            Some(CountedBy::Label(name)) => (Some(name.to_owned()), false),
            Some(CountedBy::StreamLabel(name)) => (Some(name.to_owned()), true),
        };
        let Some(selector) = self.job.selector() else { return Ok(None) };
        let (min_ns, max_ns) = (segment.live.min_ns, segment.live.max_ns);
        if !self.job.share.is_whole()
            || !selector.sees_all_of(segment)
            || !leaf.executor.sees_alike(min_ns, max_ns)
        {
            return Ok(None);
        }
        let root = match env.label_roots.get(&env.runtime, &env.directories.files, segment).await {
            Ok(root) => root,
            Err(error) => {
                env.note_damage(segment, None, "label index", &ReadError::from(error));
                None
            }
        };
        let [tenant] = selector.tenants.tenants() else { return Ok(None) };
        let Some((root, late)) = root.as_ref().and_then(|root| Some((root, root.late_rows()?)))
        else {
            return Ok(None);
        };
        let mut stats = ScanStats::default();
        let selected = match rows {
            Some(rows) => Some(rows.clone()),
            None => rows_by_labels(env, selector, segment, &mut stats).await,
        };
        let Some(selected) = selected else { return Ok(None) };
        let countable = selected.difference(late);
        let (name, rest_is_alike) = by;
        let (mut answered, mut rest) = (RowSet::new(), countable);
        if let Some(name) = name {
            let label = (root, tenant, &*name);
            let Valued { counted, refused, is_whole } =
                self.count_values(leaf, index, directory, label, &rest).await?;
            rest = match rest_is_alike && is_whole {
                true => rest.difference(&counted).difference(&refused),
                false => RowSet::new(),
            };
            answered = counted;
        }
        if !rest.is_empty() && leaf.is_group_answered(None, &directory.totals_of_streams(&rest)) {
            answered = answered.union(&rest);
        }
        self.stats.add_waits(&stats);
        leaf.check()?;
        if answered.is_empty() {
            return Ok(None);
        }
        if leaf.executor.counts_streams() && self.job.selector_for(index).is_some() {
            self.count_streams(leaf, directory, &answered).await?;
        }
        Ok(Some(selected.difference(&answered)))
    }

    /// Counts the streams of some rows, unless they are counted.
    async fn count_streams(
        &mut self,
        leaf: &mut Leaf,
        directory: &Directory,
        rows: &RowSet,
    ) -> Result<(), ScanError> {
        for (place, row) in rows.iter().enumerate() {
            if place % STREAMS_AT_ONCE == 0 {
                self.pause(leaf).await?;
            }
            let id = directory.stream_id(row);
            if self.known.is_counted(id) {
                continue;
            }
            if !leaf.executor.hold(COUNTED_STREAM_BYTES) {
                return leaf.check();
            }
            self.known.count(id);
            self.stats.streams += 1;
        }
        Ok(())
    }

    /// Counts rows by the values of a label.
    async fn count_values(
        &mut self,
        leaf: &mut Leaf,
        index: u32,
        directory: &Directory,
        (root, tenant, name): (&Arc<LabelIndex>, &TenantId, &str),
        countable: &RowSet,
    ) -> Result<Valued, ScanError> {
        let (env, segment) = (self.env, &self.job.segments[index as usize]);
        let mut valued = Valued { is_whole: true, ..Valued::default() };
        let mut values = root.values(tenant.as_str(), name);
        let mut stats = ScanStats::default();
        while let Some(ranges) = values.next_reads() {
            let pieces = read_all(env, segment, ranges, &mut stats).await;
            let mut decoder = env.decoders.take();
            let mut found: Vec<(Box<str>, RowSet)> = Vec::new();
            let supplied = pieces.and_then(|pieces| {
                let visited = values.supply(&mut decoder, &pieces, |value, rows| {
                    let rows = countable.among(rows.ranges());
                    if !rows.is_empty() {
                        found.push((value.into(), rows));
                    }
                });
                visited.map_err(ReadError::from)
            });
            env.decoders.give_back(decoder);
            let (mut counted, mut refused) = (Vec::new(), Vec::new());
            for (place, (value, rows)) in found.iter().enumerate() {
                if place % VALUES_AT_ONCE == 0 {
                    self.pause(leaf).await?;
                }
                let totals = directory.totals_of_streams(rows);
                let is_answered = leaf.is_group_answered(Some((name, value)), &totals);
                let into = if is_answered { &mut counted } else { &mut refused };
                into.extend_from_slice(rows.ranges());
            }
            valued.counted = valued.counted.union(&RowSet::from_ranges(counted));
            valued.refused = valued.refused.union(&RowSet::from_ranges(refused));
            if let Err(error) = supplied {
                env.note_damage(segment, None, "label index", &error);
                valued.is_whole = false;
                break;
            }
        }
        self.stats.add_waits(&stats);
        Ok(valued)
    }
}

/// The rows that have a label.
#[derive(Debug, Default)]
struct Valued {
    counted: RowSet,
    /// The totals of these do not tell what the query counts.
    refused: RowSet,
    /// Whether no other row has the label.
    is_whole: bool,
}
