//! Answers all streams of a segment that are alike to a query from their totals together.
//!
//! A query that counts the entries of many streams by one label, or by none, has to know which rows
//! of the segment have which value. The label index tells, in ranges of rows. So it looks at no
//! stream, learns none, and its cost follows from the ranges.
//!
//! Guarantees: a row is answered once, here or later. Rows that may repeat entries of another
//! segment, rows without the label, and rows whose page of the index is damaged are left.

use std::sync::Arc;

use logsvc_logql::engine::CountedBy;
use logsvc_proto::{Labels, TenantId};
use logsvc_runtime::Runtime;

use super::load::read;
use super::rows::rows_by_labels;
use super::run::Scan;
use crate::scan::ScanError;
use crate::scan::aside::Leaf;
use crate::scan::error::ReadError;
use crate::types::ScanStats;
use logsvc_segment::{Directory, LabelIndex, RowSet};

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
        let by = match leaf.executor.counts_by() {
            None => return Ok(None),
            Some(CountedBy::Nothing) => None,
            Some(CountedBy::Label(name)) => Some(name.to_owned()),
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
        let answered = match by {
            None => {
                let totals = directory.totals_of_streams(&countable);
                let is_answered =
                    !countable.is_empty() && leaf.is_group_answered(&Labels::default(), &totals);
                if is_answered { countable } else { RowSet::new() }
            }
            Some(name) => {
                self.count_values(leaf, index, directory, (root, tenant, &name), countable).await?
            }
        };
        self.stats.read_time_ns += stats.read_time_ns;
        leaf.check()?;
        Ok((!answered.is_empty()).then(|| selected.difference(&answered)))
    }

    /// Counts rows by the values of a label. Gives the rows that are answered.
    async fn count_values(
        &mut self,
        leaf: &mut Leaf,
        index: u32,
        directory: &Directory,
        (root, tenant, name): (&Arc<LabelIndex>, &TenantId, &str),
        countable: RowSet,
    ) -> Result<RowSet, ScanError> {
        let (env, segment) = (self.env, &self.job.segments[index as usize]);
        let mut answered = RowSet::new();
        let mut values = root.values(tenant.as_str(), name);
        let mut stats = ScanStats::default();
        while let Some(ranges) = values.next_reads() {
            let ranges = ranges.to_vec();
            let mut pieces = Vec::with_capacity(ranges.len());
            let mut decoder = env.decoders.take();
            let mut supplied = Ok(());
            for range in ranges {
                match read(env, segment, range, &mut stats).await {
                    Ok(piece) => pieces.push(piece),
                    Err(error) => supplied = Err(error),
                }
            }
            let mut done = Vec::new();
            if supplied.is_ok() {
                let counted = values.supply(&mut decoder, &pieces, |value, rows| {
                    let rows = rows.to_set().intersection(&countable);
                    let Ok(labels) = Labels::from_result_pairs([(name, value)]) else { return };
                    if rows.is_empty() {
                        return;
                    }
                    if leaf.is_group_answered(&labels, &directory.totals_of_streams(&rows)) {
                        done.extend(rows.ranges().iter().cloned());
                    }
                });
                supplied = counted.map_err(ReadError::from);
            }
            env.decoders.give_back(decoder);
            answered = answered.union(&RowSet::from_ranges(done));
            if let Err(error) = supplied {
                env.note_damage(segment, None, "label index", &error);
                break;
            }
            self.pause(leaf).await?;
        }
        self.stats.read_time_ns += stats.read_time_ns;
        Ok(answered)
    }
}
