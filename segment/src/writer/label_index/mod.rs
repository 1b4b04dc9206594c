//! Builds the label index while streams come, see `crate::label_index`.
//!
//! Guarantees: a stream with eight labels, of which the stream before has all but two, costs about
//! 150 ns, and [`LabelIndexBuilder::finish`] about as much again. Memory is in proportion to the
//! distinct pairs of a tenant and to the runs of successive streams that have them: about 40 bytes
//! and the value for a pair, and 12 for a run. Pages of finished tenants are compressed.
//!
//! What can go wrong: an index is larger than the format allows. Then the segment has none.

mod sort;
mod tenant;
mod texts;

use logsvc_proto::{Labels, TenantId};

use crate::columns::compress::Compressor;
use crate::error::WriteError;
use crate::label_index::page::{PageWriter, WrittenPages};
use crate::label_index::root::{self, TenantRows};
use crate::row_set::RowSet;
use tenant::TenantLabels;

/// The label index of the streams so far.
#[derive(Debug)]
pub(super) struct LabelIndexBuilder {
    /// All tenants, the last one without its rows.
    tenants: Vec<TenantRows>,
    /// Those of the last tenant.
    labels: TenantLabels,
    pages: PageWriter,
    rows: u32,
    late: RowSet,
    is_late_known: bool,
}

/// The label index of a segment.
#[derive(Debug)]
pub(super) struct WrittenIndex {
    pub(super) pages: WrittenPages,
    pub(super) root: Vec<u8>,
}

impl LabelIndexBuilder {
    pub(super) fn new() -> LabelIndexBuilder {
        LabelIndexBuilder {
            tenants: Vec::new(),
            labels: TenantLabels::new(),
            pages: PageWriter::default(),
            rows: 0,
            late: RowSet::new(),
            is_late_known: false,
        }
    }

    /// Adds the next stream.
    pub(super) fn push(
        &mut self,
        tenant: &TenantId,
        labels: &Labels,
        compressor: &mut Compressor,
    ) -> Result<(), WriteError> {
        if self.tenants.last().is_none_or(|last| last.name != tenant.as_str()) {
            self.end_tenant(compressor)?;
            self.tenants.push(TenantRows { name: tenant.as_str().to_owned(), rows: 0 });
        }
        self.labels.push(labels);
        self.rows += 1;
        Ok(())
    }

    fn end_tenant(&mut self, compressor: &mut Compressor) -> Result<(), WriteError> {
        let number = self.tenants.len().saturating_sub(1) as u32;
        if let Some(last) = self.tenants.last_mut() {
            last.rows = self.labels.rows();
            self.labels.write(number, &mut self.pages, compressor)?;
        }
        Ok(())
    }

    /// Notes that the last stream may repeat entries of earlier segments.
    pub(super) fn note_late(&mut self) {
        self.late.push(self.rows.saturating_sub(1)..self.rows);
    }

    /// Notes that no stream repeats entries of earlier segments, except those noted.
    pub(super) fn set_late_known(&mut self) {
        self.is_late_known = true;
    }

    /// The index of all streams; `None` if it is larger than the format allows.
    pub(super) fn finish(
        mut self,
        compressor: &mut Compressor,
    ) -> Result<Option<WrittenIndex>, WriteError> {
        self.end_tenant(compressor)?;
        let Some(pages) = self.pages.finish(compressor)? else { return Ok(None) };
        let late = self.is_late_known.then_some(&self.late);
        let root = root::encode(late, &self.tenants, &pages);
        Ok(root.map(|root| WrittenIndex { pages, root }))
    }

    /// Bytes that the index occupies.
    pub(super) fn held_bytes(&self) -> usize {
        self.labels.held_bytes() + self.pages.held_bytes() + self.late.held_bytes()
    }
}
