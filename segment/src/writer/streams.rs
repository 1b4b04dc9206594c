//! The streams of a segment while it is written: their order, numbers and rows.
//!
//! Guarantees: streams come in one order, and a stream gets its number with its first entry.

use std::cmp::Ordering;

use logsvc_proto::{Labels, StreamId, TenantId};

use super::{BLOCK_TARGET_LINE_BYTES, OWN_BLOCK_LINE_BYTES, SegmentWriter};
use crate::directory::rows::{StreamRow, TenantRow};
use crate::error::WriteError;
use crate::format::MAX_STREAMS;

/// Most bytes of the labels of a stream.
const LABELS_MAX_BYTES: usize = 32 << 20;

/// By how much a block of one stream may exceed the size that makes all its blocks equal.
const OWN_BLOCK_SLACK_BYTES: usize = 4 << 10;

/// The stream whose entries come.
#[derive(Debug)]
pub(super) struct CurrentStream {
    pub(super) tenant: TenantId,
    pub(super) labels: Labels,
    pub(super) id: StreamId,
    /// Its number, if it has an entry.
    pub(super) number: Option<u32>,
    pub(super) is_late: bool,
    pub(super) last_ns: i64,
    /// The size of its blocks, if no other stream is in them.
    pub(super) own_line_bytes: Option<usize>,
}

/// The order of streams in a segment.
pub fn stream_order(
    (a_tenant, a_labels, a_id): (&TenantId, &Labels, StreamId),
    (b_tenant, b_labels, b_id): (&TenantId, &Labels, StreamId),
) -> Ordering {
    let by_name = a_tenant.as_str().cmp(b_tenant.as_str());
    by_name.then_with(|| a_labels.cmp_pairs(b_labels)).then_with(|| a_id.cmp(&b_id))
}

impl SegmentWriter {
    /// Begins a stream: the next entries belong to it. A stream without entries is left out. `id`
    /// is the hash of tenant and labels.
    ///
    /// # Errors
    /// If the stream does not follow the current stream in [`stream_order`].
    pub fn begin_stream(
        &mut self,
        tenant: &TenantId,
        labels: &Labels,
        id: StreamId,
    ) -> Result<(), WriteError> {
        if let Some(last) = &self.current
            && stream_order((&last.tenant, &last.labels, last.id), (tenant, labels, id)).is_ge()
        {
            return Err(WriteError::StreamOrder);
        }
        if labels.as_bytes().len() > LABELS_MAX_BYTES {
            return Err(WriteError::Malformed("the labels are too long"));
        }
        self.current = Some(CurrentStream {
            tenant: tenant.clone(),
            labels: labels.clone(),
            id,
            number: None,
            is_late: false,
            last_ns: i64::MIN,
            own_line_bytes: None,
        });
        Ok(())
    }

    /// Notes that it is known which streams are late: those for which [`Self::note_late`] is called,
    /// and no others. Without this call any stream may be late. In a draft this has no effect.
    pub fn set_late_known(&mut self) {
        if let Some(labels) = &mut self.labels {
            labels.set_late_known();
        }
    }

    /// Builds no label index, for measurements.
    #[doc(hidden)]
    pub fn without_label_index(&mut self) {
        self.labels = None;
    }

    /// Notes that the current stream is *late*: it may repeat entries of earlier segments. In a draft
    /// this has no effect.
    pub fn note_late(&mut self) {
        let Some(current) = &mut self.current else { return };
        current.is_late = true;
        if let Some(labels) = &mut self.labels
            && current.number.is_some()
        {
            labels.note_late();
        }
    }

    /// Announces that the current stream will have about so many line bytes. A large stream gets
    /// blocks of its own, all of about the same size, so that compaction can copy them. In a draft
    /// this has no effect.
    pub fn expect_line_bytes(&mut self, line_bytes: u64) {
        let Some(current) = &mut self.current else { return };
        if !self.is_draft && line_bytes >= OWN_BLOCK_LINE_BYTES as u64 {
            let target = BLOCK_TARGET_LINE_BYTES as u64;
            let blocks = ((line_bytes + target / 2) / target).max(1);
            let of_each = line_bytes.div_ceil(blocks) as usize;
            current.own_line_bytes = Some(of_each + OWN_BLOCK_SLACK_BYTES);
        }
    }

    /// The number of the current stream, which is assigned with its first entry.
    pub(super) fn current_number(&mut self) -> Result<u32, WriteError> {
        let current = self.current.as_mut().ok_or(WriteError::NoStream)?;
        if let Some(number) = current.number {
            return Ok(number);
        }
        if self.rows.streams.len() >= MAX_STREAMS {
            return Err(WriteError::Full);
        }
        let number = self.rows.streams.len() as u32;
        self.table.push(&current.labels, &mut self.compressor)?;
        if let Some(labels) = &mut self.labels {
            labels.push(&current.tenant, &current.labels, &mut self.compressor)?;
            if current.is_late {
                labels.note_late();
            }
        }
        if self.rows.tenants.last().is_none_or(|last| last.name != current.tenant.as_str()) {
            let name = current.tenant.as_str().to_owned();
            self.rows.tenants.push(TenantRow { name, first_stream: number });
        }
        let first_run = (self.rows.runs.len() + self.pending.runs.len()) as u32;
        self.rows.streams.push(StreamRow { id: current.id.to_bytes(), first_run });
        current.number = Some(number);
        Ok(number)
    }
}
