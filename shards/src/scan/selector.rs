//! Which streams of segments belong to a question.

use std::sync::Arc;

use logsvc_logql::engine::CompiledMatcher;
use logsvc_proto::{Labels, StreamId, TenantId};

use crate::deletion::{DeleteFilter, DeleteFilters, StreamDeletions};
use crate::scope::TenantScope;
use crate::sealed::SealedSegment;
use crate::types::{OwnedPartitions, TimeRange};
use logsvc_segment::Directory;

/// Selects streams of segments that the shard need not have in memory.
#[derive(Clone, Debug)]
pub(crate) struct StreamSelector {
    /// Whose streams.
    pub(crate) tenants: TenantScope,
    /// Alternatives, each a list of matchers that must all hold; none: every stream of the tenants.
    pub(crate) groups: Arc<[Vec<CompiledMatcher>]>,
    /// Only streams that may have entries in this range.
    pub(crate) range: TimeRange,
    /// The shard that is asked: a segment may have streams of others.
    pub(crate) owner: OwnedPartitions,
    /// The filters of requests for deletion that hold for the question, by id.
    pub(crate) deletions: DeleteFilters,
}

impl StreamSelector {
    /// Whether a row of a directory may be of a selected stream, as far as its id and its times tell.
    pub(crate) fn may_have(
        &self,
        segment: &SealedSegment,
        directory: &Directory,
        row: u32,
    ) -> bool {
        self.owns(segment, directory.stream_id(row))
            && self.range.overlaps(directory.stream_bounds_ns(row))
    }

    /// Whether the entries of a stream in a segment are the shard's.
    pub(crate) fn owns(&self, segment: &SealedSegment, id: StreamId) -> bool {
        self.owner.has(id) && segment.has_live(id)
    }

    /// Whether all streams of a segment are the shard's, and are seen as they are.
    pub(crate) fn sees_all_of(&self, segment: &SealedSegment) -> bool {
        let name = segment.live.name;
        self.tenants.is_plain()
            && self.deletions.is_empty()
            && !segment.has_gone
            && self.owner.contain_file(name.writer(), &segment.left)
    }

    /// Whether matchers select a stream.
    pub(crate) fn accepts(&self, tenant: &TenantId, labels: &Labels) -> bool {
        match &*self.groups {
            [] => self.tenants.accepts(tenant, labels, &[]),
            groups => groups.iter().any(|group| self.tenants.accepts(tenant, labels, group)),
        }
    }

    /// The filters that may hide entries of a stream, if there are any.
    pub(crate) fn deletions_of(
        &self,
        tenant: &TenantId,
        labels: &Arc<Labels>,
    ) -> Option<Box<StreamDeletions>> {
        let selects = |filter: &&Arc<DeleteFilter>| filter.selects(tenant, labels);
        let filters: Vec<_> = self.deletions.iter().filter(selects).cloned().collect();
        let labels = Arc::clone(labels);
        (!filters.is_empty()).then(|| Box::new(StreamDeletions { labels, filters: filters.into() }))
    }
}
