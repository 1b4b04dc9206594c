//! A store without shards: a push is a token in a log file of its own, and a seal puts tokens into
//! a segment. The model knows which tokens each segment holds, so it can tell whether one has been
//! lost.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use logsvc_proto::{Labels, StreamId, TenantId};
use logsvc_runtime::sim::SimRuntime;
use logsvc_runtime::{File, OpenMode, Runtime, temporary_path};
use logsvc_segment::{
    Entries, EntriesMetadata, FOOTER_LEN, MergedPlace, SegmentIdentity, SegmentWriter,
};
use logsvc_shards::manifest::{
    Day, FooterRecord, LeftPart, LiveSegment, ManifestEdit, ManifestLog, ManifestLogName,
    SegmentName, make_day_folder,
};
use logsvc_shards::node::NodePlan;
use logsvc_shards::types::{Part, StreamPartitions};
use logsvc_shards::wal::SyncPolicy;
use logsvc_shards::wal::covers::{Cover, FileCovers};
use logsvc_shards::wal::files::LogFiles;
use logsvc_shards::wal::format::{FileHeader, Layout, WalName};
use logsvc_testkit::Rng;

pub(crate) const DATA_DIR: &str = "/srv/data";
pub(crate) const SEGMENTS_DIR: &str = "/srv/data/segments";

pub(crate) type Token = usize;

/// Something that was pushed and acknowledged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pushed {
    pub(crate) stream: StreamId,
    /// The log file that holds it and nothing else.
    pub(crate) wal: WalName,
}

/// The knowledge that outlives the nodes: the acknowledged tokens and edits, and the ones in doubt.
#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) tokens: Vec<Pushed>,
    /// The tokens of each segment that was ever written.
    pub(crate) contents: BTreeMap<SegmentName, BTreeSet<Token>>,
    /// The outcome of acknowledged edits.
    pub(crate) known: Known,
    /// Per start and shard: edits since the last successful one. At most one of each may
    /// be in force.
    pub(crate) in_doubt: BTreeMap<(u32, u16), Vec<ManifestEdit>>,
    /// Whether a start could not write its checkpoint: it gives segments their names on the
    /// strength of edits that may never have reached the disk.
    pub(crate) had_no_checkpoint: bool,
}

/// The outcome of some edits together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    pub(crate) added: BTreeSet<SegmentName>,
    pub(crate) removed: BTreeSet<SegmentName>,
    pub(crate) left: BTreeSet<LeftPart>,
}

/// Live segments, each with the streams that have left it.
pub(crate) type Live = BTreeMap<SegmentName, BTreeSet<Part>>;

impl Known {
    fn add(&mut self, edit: &ManifestEdit) {
        self.added.extend(edit.added.iter().map(|segment| segment.name));
        self.removed.extend(&edit.removed);
        self.left.extend(&edit.left);
    }

    /// Goes on from the findings of a start.
    pub(crate) fn of(live: &Live) -> Known {
        let left = live.iter().flat_map(|(&segment, parts)| {
            let part = move |&part| LeftPart { segment, part };
            parts.iter().map(part)
        });
        let (added, left) = (live.keys().copied().collect(), left.collect());
        Known { added, left, ..Known::default() }
    }

    pub(crate) fn live(&self) -> Live {
        let mut live = Live::new();
        for name in &self.added - &self.removed {
            let left = self.left.iter().filter(|part| part.segment == name);
            let left: BTreeSet<_> = left.map(|part| part.part).collect();
            let parts: StreamPartitions = left.iter().copied().collect();
            if !parts.contains_file(name.writer()) {
                live.insert(name, left);
            }
        }
        live
    }
}

pub(crate) type SharedModel = Rc<RefCell<Model>>;

impl Model {
    /// Whether this may be the live set after a start.
    pub(crate) fn allows(&self, live: &Live) -> bool {
        let mut candidates = vec![self.known.clone()];
        for edits in self.in_doubt.values() {
            for base in candidates.clone() {
                for edit in edits {
                    let mut candidate = base.clone();
                    candidate.add(edit);
                    candidates.push(candidate);
                }
            }
        }
        candidates.iter().any(|candidate| candidate.live() == *live)
    }

    /// Tokens that are neither in a live segment nor in a file that is replayed for them.
    pub(crate) fn lost(&self, plan: &NodePlan) -> Vec<Token> {
        let in_segments: BTreeSet<Token> =
            plan.segments.iter().flat_map(|s| self.live_in(plan, s.name)).collect();
        let replayed = self.replayed(plan);
        (0..self.tokens.len())
            .filter(|token| !in_segments.contains(token) && !replayed.contains(token))
            .collect()
    }

    /// Tokens of a segment whose streams had not left it before the start.
    fn live_in(&self, plan: &NodePlan, name: SegmentName) -> BTreeSet<Token> {
        let left = plan.node_segments.left(name);
        let has_left = |token: Token| left.contains(self.tokens[token].stream);
        self.contents[&name].iter().copied().filter(|token| !has_left(*token)).collect()
    }

    /// Tokens that recovery brings back.
    pub(crate) fn replayed(&self, plan: &NodePlan) -> BTreeSet<Token> {
        let is_replayed = |token: &Token| {
            let Pushed { stream, wal } = self.tokens[*token];
            plan.files.iter().any(|file| file.name == wal)
                && !FileCovers::of(&plan.covers, wal).covers_stream(stream)
        };
        (0..self.tokens.len()).filter(is_replayed).collect()
    }
}

pub(crate) fn names(plan: &NodePlan) -> BTreeSet<SegmentName> {
    plan.segments.iter().map(|segment| segment.name).collect()
}

/// The live set of a start.
pub(crate) fn live(plan: &NodePlan) -> Live {
    let left = |name| plan.node_segments.left(name).iter().collect();
    plan.segments.iter().map(|segment| (segment.name, left(segment.name))).collect()
}

fn stream(number: u64) -> (TenantId, Labels) {
    let labels = Labels::from_pairs([("app", number.to_string().as_str())]).expect("labels");
    (TenantId::new("acme").expect("a tenant"), labels)
}

/// The stream of the one entry that a segment file really has.
pub(crate) fn stream_in(name: SegmentName) -> StreamId {
    let (tenant, labels) = stream(u64::from(name.seq));
    StreamId::new(&tenant, &labels)
}

/// A shard of one start.
pub(crate) struct Writer {
    runtime: SimRuntime,
    model: SharedModel,
    plan: NodePlan,
    shards: u16,
    pub(crate) shard: u16,
    log: ManifestLog<SimRuntime>,
    next_wal: WalName,
    first_wal: WalName,
    next_seq: u32,
    /// Footers for the edits to come. A program that does not know them writes none, so every third
    /// segment has none.
    footers: BTreeMap<SegmentName, FooterRecord>,
    /// Tokens that are in no segment.
    heads: BTreeSet<Token>,
    /// Segments that the shard's streams have left.
    left: BTreeSet<SegmentName>,
    /// An edit that failed, to be tried again.
    failed: Option<ManifestEdit>,
    /// Files that only failed edits name.
    orphans: Vec<LiveSegment>,
    /// Live segments that have not got their names. Nothing else is done before they have.
    unsettled: Vec<LiveSegment>,
}

impl Writer {
    pub(crate) fn new(
        runtime: &SimRuntime,
        model: &SharedModel,
        plan: &NodePlan,
        shards: u16,
        shard: u16,
    ) -> Writer {
        let wide = |number: u16| u32::from(number);
        let first_wal =
            WalName { epoch: plan.epoch, shards: wide(shards), shard: wide(shard), index: 0 };
        let heads = {
            let model = model.borrow();
            let is_mine = |token: &Token| model.tokens[*token].stream.shard(shards) == shard;
            model.replayed(plan).into_iter().filter(is_mine).collect()
        };
        Writer {
            log: ManifestLog::new(runtime.clone(), &plan.segments_dir, plan.epoch, wide(shard))
                .with_preface(plan.preface.clone()),
            runtime: runtime.clone(),
            model: Rc::clone(model),
            plan: plan.clone(),
            shards,
            shard,
            next_wal: first_wal,
            first_wal,
            next_seq: 0,
            footers: BTreeMap::new(),
            heads,
            left: BTreeSet::new(),
            failed: None,
            orphans: Vec::new(),
            unsettled: Vec::new(),
        }
    }

    /// The path of a log of this shard.
    pub(crate) fn log_path(&self, n: u32) -> PathBuf {
        let name = ManifestLogName { epoch: self.plan.epoch, shard: u32::from(self.shard), n };
        self.plan.segments_dir.join(name.file_name())
    }

    /// Pushes a token; it counts once it is durable.
    pub(crate) async fn push(&mut self, rng: &mut Rng) -> io::Result<()> {
        let stream = loop {
            let (tenant, labels) = stream(rng.below(12));
            let id = StreamId::new(&tenant, &labels);
            if id.shard(self.shards) == self.shard {
                break id;
            }
        };
        let wal = self.next_wal;
        self.next_wal = wal.successor();
        let header = FileHeader {
            name: wal,
            nonce: 1,
            created_ns: 0,
            layout: Layout::Packed,
            is_reused: false,
            previous: None,
        };
        let content = [&header.encode()[..], b"a token"].concat();
        let path = self.plan.wal_dir.join(wal.file_name());
        let file = self.runtime.open(&path, OpenMode::CreateNew).await?;
        file.write_all_at(content, 0).await.0?;
        file.sync_data().await?;
        self.runtime.sync_dir(&self.plan.wal_dir).await?;
        let mut model = self.model.borrow_mut();
        self.heads.insert(model.tokens.len());
        model.tokens.push(Pushed { stream, wal });
        Ok(())
    }

    /// Seals the tokens in the heads; or tries a seal that failed once more, with the same segment
    /// or another one.
    pub(crate) async fn seal(
        &mut self,
        rng: &mut Rng,
        live: &mut Vec<LiveSegment>,
    ) -> io::Result<()> {
        self.settle().await?;
        let edit = match self.failed.take() {
            Some(edit) if !edit.covers.is_empty() && rng.one_in(2) => edit,
            _ => {
                let last = self.next_wal.index.checked_sub(1);
                let own = last.map(|up_to_index| Cover {
                    wal_epoch: self.first_wal.epoch,
                    wal_shards: self.first_wal.shards,
                    wal_shard: self.first_wal.shard,
                    up_to_index,
                    part: Part::one(self.shards, self.shard),
                });
                let mut covers = self.plan.replayed.covers_of(self.shard);
                covers.extend(own);
                let tokens = self.heads.clone();
                let added = match tokens.is_empty() {
                    true => Vec::new(),
                    false => vec![self.write_segment(tokens, 0, None).await?],
                };
                let removed = self.orphaned(&added);
                ManifestEdit { added, removed, covers, ..ManifestEdit::default() }
            }
        };
        self.append(&edit).await?;
        live.extend(&edit.added);
        for segment in &edit.added {
            let model = self.model.borrow();
            self.heads.retain(|token| !model.contents[&segment.name].contains(token));
        }
        self.settle().await?;
        self.plan.replayed.release(&self.runtime, &self.plan.wal_dir, self.shard).await;
        let is_own = |cover: &&Cover| cover.wal_epoch == self.first_wal.epoch;
        if let Some(cover) = edit.covers.iter().find(is_own) {
            let last = cover.up_to_index;
            let wal_dir = self.plan.wal_dir.clone();
            let files = LogFiles::new(self.runtime.clone(), wal_dir, SyncPolicy::Never);
            Rc::new(files).release(self.first_wal, last).await;
        }
        Ok(())
    }

    /// Merges some live segments that hold streams of this shard only, and removes the
    /// inputs.
    pub(crate) async fn compact(&mut self, live: &mut Vec<LiveSegment>) -> io::Result<()> {
        self.settle().await?;
        let is_mine = |segment: &LiveSegment| self.is_mine(segment);
        let inputs: Vec<LiveSegment> = live.iter().filter(|s| is_mine(s)).copied().collect();
        if inputs.len() < 2 {
            return Ok(());
        }
        let inputs = &inputs[..2];
        let tokens = {
            let model = self.model.borrow();
            inputs.iter().flat_map(|s| model.live_in(&self.plan, s.name)).collect()
        };
        let added = self.write_segment(tokens, 1, Some(inputs[0].order)).await?;
        let removed = inputs.iter().map(|segment| segment.name);
        let removed = removed.chain(self.orphaned(&[])).collect();
        let edit = ManifestEdit { added: vec![added], removed, ..ManifestEdit::default() };
        self.append(&edit).await?;
        live.retain(|segment| !edit.removed.contains(&segment.name));
        live.push(added);
        self.settle().await?;
        for input in inputs {
            remove(&self.runtime, &input.name.path(&self.plan.segments_dir, input.day)).await;
        }
        Ok(())
    }

    fn is_mine(&self, segment: &LiveSegment) -> bool {
        let mine: StreamPartitions = [Part::one(self.shards, self.shard)].into_iter().collect();
        mine.contains_file(segment.name.writer())
    }

    /// Whether streams of this shard may be in a segment.
    fn may_be_in(&self, segment: &LiveSegment) -> bool {
        let part = Part::one(self.shards, self.shard);
        !StreamPartitions::default().contains_part_of_file(segment.name.writer(), part)
    }

    /// Takes the streams of this shard out of a live segment that others share, and puts
    /// them into another one.
    pub(crate) async fn leave(&mut self, live: &mut Vec<LiveSegment>) -> io::Result<()> {
        self.settle().await?;
        let of_others = live.iter().filter(|segment| {
            let has_left = self.left.contains(&segment.name);
            !has_left && !self.is_mine(segment) && self.may_be_in(segment)
        });
        let Some(input) = of_others.copied().next() else { return Ok(()) };
        let tokens: BTreeSet<Token> = {
            let model = self.model.borrow();
            let is_mine = |t: &Token| model.tokens[*t].stream.shard(self.shards) == self.shard;
            model.live_in(&self.plan, input.name).into_iter().filter(is_mine).collect()
        };
        let added = match tokens.is_empty() {
            true => Vec::new(),
            false => vec![self.write_segment(tokens, 1, Some(input.order)).await?],
        };
        let left = LeftPart { segment: input.name, part: Part::one(self.shards, self.shard) };
        let removed = self.orphaned(&[]);
        let edit = ManifestEdit { added, removed, left: vec![left], ..ManifestEdit::default() };
        self.append(&edit).await?;
        self.left.insert(input.name);
        live.extend(&edit.added);
        self.settle().await
    }

    /// Brings an edit into force. The segments that it adds have to be settled before anything that
    /// they replace goes.
    pub(crate) async fn append(&mut self, edit: &ManifestEdit) -> io::Result<()> {
        let footers = edit.added.iter().filter_map(|segment| self.footers.get(&segment.name));
        let edit = &ManifestEdit { footers: footers.copied().collect(), ..edit.clone() };
        // In doubt from this moment on, however this ends.
        let key = (self.plan.epoch, self.shard);
        self.model.borrow_mut().in_doubt.entry(key).or_default().push(edit.clone());
        if let Err(error) = self.log.append(edit).await {
            self.orphans.extend(&edit.added);
            self.failed = Some(edit.clone());
            return Err(error);
        }
        {
            let mut model = self.model.borrow_mut();
            model.in_doubt.remove(&key);
            model.known.add(edit);
        }
        self.failed = None;
        for orphan in std::mem::take(&mut self.orphans) {
            if !self.model.borrow().known.added.contains(&orphan.name) {
                let path = orphan.name.pending_path(&self.plan.segments_dir, orphan.day);
                remove(&self.runtime, &path).await;
            }
        }
        self.unsettled.extend(&edit.added);
        Ok(())
    }

    /// Segments that only failed edits have added.
    fn orphaned(&self, added: &[LiveSegment]) -> Vec<SegmentName> {
        let is_added = |name: &SegmentName| added.iter().any(|segment| segment.name == *name);
        self.orphans.iter().map(|orphan| orphan.name).filter(|name| !is_added(name)).collect()
    }

    /// Gives segments that are live their names.
    async fn settle(&mut self) -> io::Result<()> {
        while let Some(live) = self.unsettled.last() {
            live.name.finalize(&self.runtime, &self.plan.segments_dir, live.day).await?;
            self.unsettled.pop();
        }
        Ok(())
    }

    async fn write_segment(
        &mut self,
        tokens: BTreeSet<Token>,
        level: u32,
        order: Option<u64>,
    ) -> io::Result<LiveSegment> {
        let name = SegmentName {
            epoch: self.plan.epoch,
            shards: u32::from(self.shards),
            shard: u32::from(self.shard),
            seq: self.next_seq,
        };
        self.next_seq += 1;
        let day = Day(i32::try_from(tokens.len() % 3).expect("small"));
        let place = order.filter(|_| level > 0).map(|order| MergedPlace { level, order });
        let (bytes, timestamp_ns) = encode_segment(name, day, place)?;
        self.model.borrow_mut().contents.insert(name, tokens);
        if name.seq % 3 != 2 {
            let mut footer = [0; FOOTER_LEN];
            footer.copy_from_slice(&bytes[bytes.len() - FOOTER_LEN..]);
            self.footers.insert(name, FooterRecord { segment: name, bytes: footer });
        }
        let segment = LiveSegment {
            name,
            day,
            file_len: bytes.len() as u64,
            min_ns: timestamp_ns,
            max_ns: timestamp_ns,
            entries: 1,
            line_bytes: 5,
            level,
            order: order.unwrap_or(name.sealed_order()),
        };
        let folder = make_day_folder(&self.runtime, &self.plan.segments_dir, day).await?;
        let path = folder.join(name.file_name());
        let temporary = temporary_path(&path);
        let file = self.runtime.open(&temporary, OpenMode::CreateNew).await?;
        file.write_all_at(bytes, 0).await.0?;
        file.sync_data().await?;
        let pending = name.pending_path(&self.plan.segments_dir, day);
        let named = async {
            self.runtime.rename(&temporary, &pending).await?;
            self.runtime.sync_dir(&folder).await
        };
        if let Err(error) = named.await {
            // It may have its pending name, so that a start could take it for what the log had.
            self.orphans.push(segment);
            return Err(error);
        }
        Ok(segment)
    }
}

/// The bytes of a segment of one entry, and the entry's time.
pub(crate) fn encode_segment(
    name: SegmentName,
    day: Day,
    merged: Option<MergedPlace>,
) -> io::Result<(Vec<u8>, i64)> {
    let timestamp_ns = day.first_ns() + 7;
    let identity = SegmentIdentity {
        epoch: name.epoch,
        shards: name.shards,
        shard: name.shard,
        seq: name.seq,
        created_ns: 1,
    };
    let mut writer = SegmentWriter::new(identity).map_err(io::Error::other)?;
    if let Some(place) = merged {
        writer.set_merged(place);
    }
    let (tenant, labels) = stream(u64::from(name.seq));
    let id = StreamId::new(&tenant, &labels);
    writer.begin_stream(&tenant, &labels, id).map_err(io::Error::other)?;
    let entries = Entries {
        timestamps_ns: &[timestamp_ns],
        lines_start: 0,
        line_ends: &[5],
        lines: b"a log",
        metadata: EntriesMetadata::None,
    };
    writer.append(&entries).map_err(io::Error::other)?;
    let mut bytes = writer.take_output().to_vec();
    bytes.extend_from_slice(&writer.finish().map_err(io::Error::other)?.bytes);
    Ok((bytes, timestamp_ns))
}

async fn remove(runtime: &SimRuntime, path: &Path) {
    // A failure leaves a left-over for the next start.
    let _ = runtime.remove_file(path).await;
}
