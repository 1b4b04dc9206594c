//! The segments folder as one shard uses it: names, files, and the manifest that makes segments
//! live.
//!
//! Guarantees: no name is given twice. A complete segment has a pending name until the edit that
//! makes it live is in force, so a file with its final name has been live.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use logsvc_runtime::{AlignedBuffer, OpenMode, Runtime, temporary_path};

use super::bundles::bundle_path;
use super::output::Output;
use super::{Directories, OpenedSegment, Removals, SealedSegment};
use crate::manifest::{Day, LeftPart, LiveSegment, ManifestLog, SegmentName, make_day_folder};
use crate::node::NodePlan;
use crate::types::{OwnedPartitions, Part, StreamPartitions};
use crate::wal::format::WalName;
use logsvc_segment::{Directory, Finished, SegmentIdentity, SegmentWriter};

/// Bytes that are gathered before they are written to a segment's file.
pub(crate) const WRITE_BYTES: usize = 1 << 20;

/// See the module. The sealer and the compactor share it; both run on the shard's core.
#[derive(Debug)]
pub(crate) struct SegmentFolder<R: Runtime> {
    pub(crate) runtime: R,
    pub(crate) segments_dir: PathBuf,
    /// Directories of the core.
    pub(crate) directories: Rc<Directories<R>>,
    /// Edits of the live set.
    pub(crate) manifest: ManifestLog<R>,
    /// Files that nothing reads any more.
    pub(crate) removals: Rc<Removals<R>>,
    /// The shard's first name of this start.
    first: SegmentName,
    next_seq: Cell<u32>,
    /// By how much these numbers rise.
    seq_step: u32,
    /// The smallest order of the next segment.
    next_order: Cell<u64>,
    next_bundle: Cell<u32>,
    /// Whose streams the shard owns.
    owned: RefCell<OwnedPartitions>,
    /// Whether the node is one of many, so that the partitions of the shard change.
    is_member: bool,
    /// Segments that may have their pending names and that will never be live. Until an edit
    /// removes them, a start could take them for the entries of the log.
    orphans: RefCell<Vec<(SegmentName, Day)>>,
    /// Segments that nothing reads any more, for whoever follows the shard; `None` if nobody does.
    retired: Option<RefCell<Vec<SegmentName>>>,
}

/// A segment that is being written under a temporary name.
#[derive(Debug)]
pub(crate) struct NewSegment<R: Runtime> {
    pub(crate) name: SegmentName,
    day: Day,
    path: PathBuf,
    /// Its name until it is live.
    pending: PathBuf,
    temporary: PathBuf,
    /// Whether its file goes around the page cache.
    is_direct: bool,
    /// There from the first bytes on.
    output: Option<Output<R::File>>,
}

impl<R: Runtime> SegmentFolder<R> {
    /// The folder as the shard sees it whose first log file of this start is
    /// `first_wal`.
    pub(crate) fn new(
        runtime: R,
        plan: &NodePlan,
        first_wal: WalName,
        directories: Rc<Directories<R>>,
    ) -> SegmentFolder<R> {
        let segments_dir = plan.segments_dir.clone();
        let WalName { epoch, shards, shard, .. } = first_wal;
        let manifest = ManifestLog::new(runtime.clone(), &segments_dir, epoch, shard)
            .with_preface(plan.preface.clone());
        let manifest = match &plan.bucket {
            Some(bucket) => manifest.that_tells(Arc::clone(&bucket.edits)),
            None => manifest,
        };
        let retired = plan.bucket.is_some().then(RefCell::default);
        let first = SegmentName { epoch, shards, shard, seq: 0 };
        // The names of two shards of a member may say the same at different times.
        let is_member = plan.options.is_member;
        let (first_seq, seq_step) = if is_member {
            (u32::from(runtime.core().0), runtime.core_count().into())
        } else {
            (0, 1)
        };
        let next_order = Cell::new(first.sealed_order().max(is_member.into()));
        let (next_seq, next_bundle) = (Cell::new(first_seq), Cell::new(0));
        let orphans = RefCell::default();
        let removals = Rc::new(Removals::new(runtime.clone()));
        let owned = RefCell::new(plan.owned_by(runtime.core().0));
        SegmentFolder {
            runtime,
            segments_dir,
            directories,
            manifest,
            removals,
            first,
            next_seq,
            seq_step,
            next_order,
            next_bundle,
            owned,
            is_member,
            orphans,
            retired,
        }
    }

    /// Begins a segment of a day; makes no file before it has bytes.
    pub(crate) fn begin(&self, day: Day) -> io::Result<NewSegment<R>> {
        let seq = self.next_seq.get();
        let next_seq = seq.checked_add(self.seq_step);
        let too_many = || io::Error::other("a start has made all segments it can");
        self.next_seq.set(next_seq.ok_or_else(too_many)?);
        let name = SegmentName { seq, ..self.writer() };
        let path = name.path(&self.segments_dir, day);
        let pending = name.pending_path(&self.segments_dir, day);
        let temporary = temporary_path(&path);
        Ok(NewSegment { name, day, path, pending, temporary, is_direct: false, output: None })
    }

    /// The same for a segment that is a draft from its first byte on: it goes around the page
    /// cache, since a merge reads it once, soon, and then it is removed.
    pub(crate) fn begin_draft(&self, day: Day) -> io::Result<NewSegment<R>> {
        let segment = self.begin(day)?;
        Ok(NewSegment { is_direct: true, ..segment })
    }

    /// The name of whose writer new segments have; a member's says which partitions the shard owns
    /// now.
    fn writer(&self) -> SegmentName {
        match self.owned.borrow().hull().filter(|_| self.is_member) {
            Some(hull) => {
                let (shards, shard) = hull.numbers();
                SegmentName { shards, shard, ..self.first }
            }
            None => self.first,
        }
    }

    /// The partitions that the shard owns.
    pub(crate) fn owned(&self) -> OwnedPartitions {
        self.owned.borrow().clone()
    }

    /// Goes on with other partitions, and with orders from one on. No job is under way.
    pub(crate) fn own(&self, owned: OwnedPartitions, first_order: u64) {
        self.owned.replace(owned);
        self.next_order.set(self.next_order.get().max(first_order));
    }

    /// The partitions whose entries are in segments when all are that files of the shard's log have.
    /// A member that gives up partitions has sealed them before.
    pub(crate) fn covered(&self) -> Part {
        match self.owned.borrow().hull() {
            Some(part) if !self.is_member => part,
            _ => Part::all(self.owned.borrow().of()),
        }
    }

    /// The order of a new segment: larger than all before.
    pub(crate) fn next_order(&self, name: SegmentName) -> u64 {
        let order = self.next_order.get().max(name.sealed_order());
        self.next_order.set(order + 1);
        order
    }

    /// The partitions that no stream of a new segment is in although its name says so.
    pub(crate) fn gaps(&self) -> StreamPartitions {
        if self.is_member { self.owned.borrow().gaps() } else { StreamPartitions::default() }
    }

    /// The same of the segments that an edit adds.
    pub(crate) fn gaps_of<'a>(
        &self,
        added: impl IntoIterator<Item = &'a SealedSegment>,
    ) -> Vec<LeftPart> {
        let of_segment = |segment: &'a SealedSegment| {
            let segment_name = segment.live.name;
            segment.left.iter().map(move |part| LeftPart { segment: segment_name, part })
        };
        added.into_iter().flat_map(of_segment).collect()
    }

    /// The path of a new bundle.
    pub(crate) fn next_bundle_path(&self) -> PathBuf {
        let seq = self.next_bundle.get();
        self.next_bundle.set(seq + 1);
        bundle_path(&self.segments_dir, SegmentName { seq, ..self.first })
    }

    /// The identity that a new segment's header has.
    pub(crate) fn identity(&self, segment: &NewSegment<R>) -> SegmentIdentity {
        let SegmentName { epoch, shards, shard, seq } = segment.name;
        SegmentIdentity { epoch, shards, shard, seq, created_ns: self.runtime.unix_nanos() }
    }

    /// Writes the bytes that the writer has, if they are enough for a write.
    pub(crate) async fn write_some(
        &self,
        segment: &mut NewSegment<R>,
        writer: &mut SegmentWriter,
    ) -> io::Result<()> {
        if writer.output_len() >= WRITE_BYTES {
            let buffer = self.write(segment, writer.take_output()).await?;
            writer.reuse_output(buffer);
        }
        Ok(())
    }

    /// Appends bytes to a new segment; gives their memory back. Waits for the device now and
    /// then.
    pub(crate) async fn write(
        &self,
        segment: &mut NewSegment<R>,
        bytes: AlignedBuffer,
    ) -> io::Result<AlignedBuffer> {
        let output = match &mut segment.output {
            Some(output) => output,
            None => {
                make_day_folder(&self.runtime, &self.segments_dir, segment.day).await?;
                let open = |mode| self.runtime.open(&segment.temporary, mode);
                let output = if segment.is_direct {
                    Output::direct(open(OpenMode::CreateNewDirect).await?)
                } else {
                    Output::cached(open(OpenMode::CreateNew).await?)
                };
                segment.output.insert(output)
            }
        };
        output.append(bytes).await
    }

    /// Writes the end of a segment, unless that was done, and gives it its pending name, all
    /// of it durably. It is live when an edit says so, and then [`SegmentFolder::finalize`] has
    /// to give it its name. `level` and `order` are its place in the live set.
    pub(crate) async fn publish(
        &self,
        mut segment: NewSegment<R>,
        mut finished: Finished,
        level: u32,
        order: u64,
    ) -> io::Result<OpenedSegment> {
        if let Err(error) = self.finish_file(&mut segment, &mut finished).await {
            self.abandon(segment.name, segment.day);
            self.discard(segment).await;
            return Err(error);
        }
        let totals = finished.footer.totals;
        let live = LiveSegment {
            name: segment.name,
            day: segment.day,
            file_len: finished.footer.file_len,
            min_ns: totals.min_ns,
            max_ns: totals.max_ns,
            entries: totals.entries,
            line_bytes: totals.line_bytes,
            level,
            order,
        };
        let directory = Directory::open(finished.footer, finished.directory);
        let directory = directory.map_err(io::Error::other)?;
        let refused_blocks = finished.refused_blocks;
        debug_assert_eq!(refused_blocks, 0, "a block is not what it was taken apart into");
        if refused_blocks > 0 {
            tracing::error!(
                file = %segment.path.display(),
                refused_blocks,
                "encoded lines did not decode to what they were; the rest of the segment is \
                 stored without templates; please report this"
            );
        }
        let segment = SealedSegment::new(live, segment.path, finished.footer);
        let segment = SealedSegment { refused_blocks, left: self.gaps(), ..segment };
        let directory = self.directories.admit(&segment, directory);
        Ok(OpenedSegment { segment, directory })
    }

    async fn finish_file(
        &self,
        segment: &mut NewSegment<R>,
        finished: &mut Finished,
    ) -> io::Result<()> {
        if !finished.bytes.is_empty() {
            self.write(segment, std::mem::take(&mut finished.bytes)).await?;
        }
        if let Some(output) = &mut segment.output {
            output.finish().await?;
        }
        self.runtime.rename(&segment.temporary, &segment.pending).await?;
        let folder = segment.path.parent().unwrap_or(Path::new("."));
        self.runtime.sync_dir(folder).await?;
        self.runtime.sync_dir(&self.segments_dir).await
    }

    /// Gives a segment its name that an edit has made live. Until this has returned, the log files
    /// or the segments that it was made of must stay. May be repeated.
    pub(crate) async fn finalize(&self, live: &LiveSegment) -> io::Result<()> {
        live.name.finalize(&self.runtime, &self.segments_dir, live.day).await
    }

    /// Notes that a segment that may have its pending name will never be live. The next edit has to
    /// remove it, see [`SegmentFolder::orphans`].
    pub(crate) fn abandon(&self, name: SegmentName, day: Day) {
        self.orphans.borrow_mut().push((name, day));
    }

    /// Segments that the next edit has to remove.
    pub(crate) fn orphans(&self) -> Vec<SegmentName> {
        self.orphans.borrow().iter().map(|(name, _)| *name).collect()
    }

    /// Removes the files of orphans that an edit in force has removed.
    pub(crate) async fn remove_orphans(&self, removed: &[SegmentName]) {
        let is_removed = |(name, _): &mut (SegmentName, Day)| removed.contains(name);
        let gone: Vec<_> = self.orphans.borrow_mut().extract_if(.., is_removed).collect();
        for (name, day) in gone {
            self.removals.remove(name.pending_path(&self.segments_dir, day)).await;
        }
    }

    /// Notes a segment that has left the live set and that nothing reads any more.
    pub(crate) fn note_retired(&self, name: SegmentName) {
        if let Some(retired) = &self.retired {
            retired.borrow_mut().push(name);
        }
    }

    /// The segments that were noted since the last call.
    pub(crate) fn take_retired(&self) -> Vec<SegmentName> {
        self.retired.as_ref().map_or_else(Vec::new, RefCell::take)
    }

    /// Gives a segment up that was not published.
    pub(crate) async fn discard(&self, segment: NewSegment<R>) {
        if segment.output.is_some() {
            self.removals.remove(segment.temporary).await;
        }
    }
}
