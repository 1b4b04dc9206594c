//! Lists names, values or label sets of streams, where segments have to be asked.
//!
//! A shard answers of the streams that have entries of the range in memory at once. What is left is
//! a [`ListJob`]: streams of the shard's memory whose entries are in segments, which the directories
//! of segments confirm, and streams that only segments know.
//!
//! Guarantees: a stream is listed if a part of it overlaps the range. The core's other tasks get
//! their turn after each segment, each chunk of labels and each step of a label index. What was found
//! counts as memory of the request. A segment that cannot be read is left out, counted and logged.

use std::collections::BTreeSet;
use std::sync::Arc;

use ahash::{AHashMap, AHashSet};
use logsvc_proto::{Labels, StreamId};
use logsvc_runtime::{Grant, Runtime};

use super::ScanEnv;
use super::learn::Question;
use super::load::read_all;
use super::rows::rows_by_labels;
use crate::scan::aside::stop_of;
use crate::scan::selector::StreamSelector;
use crate::scan::streams::FoundStream;
use crate::scan::{ReadError, ScanError};
use crate::sealed::{HeldDirectory, SealedSegment};
use crate::types::{Cancellation, ScanStats};
use logsvc_segment::RowSet;

/// Streams that are looked up before others get their turn.
const STREAMS_PER_TURN: usize = 4096;

/// What is listed.
#[derive(Clone, Debug)]
pub(crate) enum Listing {
    /// Names of labels.
    Names,
    /// Values of a label.
    Values(Box<str>),
    /// Label sets.
    Series,
}

/// See the module.
#[derive(Debug)]
pub struct ListJob {
    pub(crate) listing: Listing,
    pub(crate) selector: Arc<StreamSelector>,
    /// Texts, or label sets, of the streams that are known to have entries of the range.
    pub(crate) listed: Listed,
    /// The ids of these streams, if a segment is not known.
    pub(crate) known: AHashSet<StreamId>,
    /// The selected streams of the shard's memory without such entries there, as they are shown.
    pub(crate) idle: AHashMap<StreamId, Arc<Labels>>,
    /// Segments that overlap the range, newest first, and whether all of their streams are in the
    /// shard's memory.
    pub(crate) segments: Vec<(Arc<SealedSegment>, bool)>,
    /// Parts of segments that cannot be read.
    pub(crate) unreadable_parts: u64,
    pub(crate) memory: Grant,
    pub(crate) cancellation: Cancellation,
}

/// A list.
#[derive(Debug)]
pub enum Listed {
    /// Sorted, each once.
    Texts(Vec<Box<str>>),
    /// Each once.
    Series(Vec<Arc<Labels>>),
}

/// A list under construction.
#[derive(Debug)]
enum Collected {
    Texts(BTreeSet<Box<str>>),
    Series(Vec<Arc<Labels>>),
}

impl From<Listed> for Collected {
    fn from(listed: Listed) -> Collected {
        match listed {
            Listed::Texts(texts) => Collected::Texts(texts.into_iter().collect()),
            Listed::Series(series) => Collected::Series(series),
        }
    }
}

impl From<Collected> for Listed {
    fn from(collected: Collected) -> Listed {
        match collected {
            Collected::Texts(texts) => Listed::Texts(texts.into_iter().collect()),
            Collected::Series(series) => Listed::Series(series),
        }
    }
}

/// The memory of a listed text besides its bytes.
const TEXT_OVERHEAD_BYTES: usize = 32;

impl Collected {
    /// Adds a stream; returns the bytes that it takes.
    fn add(&mut self, listing: &Listing, labels: &Arc<Labels>) -> usize {
        let mut bytes = 0;
        match self {
            Collected::Series(series) => {
                series.push(Arc::clone(labels));
                bytes += size_of::<FoundStream>() + labels.as_bytes().len();
            }
            Collected::Texts(texts) => {
                let mut add = |text: &str| bytes += add_text(texts, text);
                match listing {
                    Listing::Values(name) => labels.get(name).into_iter().for_each(&mut add),
                    _ => labels.iter().for_each(|(name, _)| add(name)),
                }
            }
        }
        bytes
    }
}

/// Adds a text; returns the bytes that it takes.
fn add_text(texts: &mut BTreeSet<Box<str>>, text: &str) -> usize {
    if texts.contains(text) {
        return 0;
    }
    texts.insert(text.into());
    text.len() + TEXT_OVERHEAD_BYTES
}

/// Does a job. Gives the list, and how many parts of segments could not be read.
///
/// # Errors
/// The request has no memory for the list, or was cancelled.
pub async fn list<R: Runtime>(
    env: &ScanEnv<R>,
    mut job: ListJob,
) -> Result<(Listed, u64), ScanError> {
    let listed = std::mem::replace(&mut job.listed, Listed::Texts(Vec::new()));
    let mut list = List { collected: listed.into(), job };
    list.read_segments(env).await?;
    Ok((list.collected.into(), list.job.unreadable_parts))
}

/// A job under way.
struct List {
    job: ListJob,
    collected: Collected,
}

impl List {
    async fn read_segments<R: Runtime>(&mut self, env: &ScanEnv<R>) -> Result<(), ScanError> {
        let segments = std::mem::take(&mut self.job.segments);
        let mut stats = ScanStats::default();
        for (segment, is_known) in &segments {
            if *is_known && self.job.idle.is_empty() {
                continue;
            }
            self.check()?;
            let rows = match is_known {
                true => None,
                false => rows_by_labels(env, &self.job.selector, segment, &mut stats).await,
            };
            if rows.as_ref().is_some_and(RowSet::is_empty) {
                continue;
            }
            if let Some(rows) = &rows
                && self.find_in_index(env, segment, rows, &mut stats).await?
            {
                continue;
            }
            let directory = match env.directories.get(segment).await {
                Ok(directory) => directory,
                Err(error) => {
                    self.job.unreadable_parts += 1;
                    env.note_damage(segment, None, "directory", &ReadError::from(error));
                    continue;
                }
            };
            self.confirm(env, segment, &directory).await?;
            if !is_known {
                self.find(env, segment, &directory, rows.as_ref(), &mut stats).await?;
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), ScanError> {
        if self.job.cancellation.is_cancelled() { Err(ScanError::Cancelled) } else { Ok(()) }
    }

    fn add(&mut self, id: StreamId, labels: &Arc<Labels>) -> Result<(), ScanError> {
        let bytes = self.collected.add(&self.job.listing, labels) + size_of::<StreamId>() * 2;
        self.job.known.insert(id);
        self.job.memory.grow(bytes as u64).map_err(|denied| stop_of(denied).into())
    }

    /// Lists names or values of some rows of a segment from its label index alone. False if the
    /// streams have to be looked at: some need not have entries in the range, or not be the shard's.
    async fn find_in_index<R: Runtime>(
        &mut self,
        env: &ScanEnv<R>,
        segment: &Arc<SealedSegment>,
        rows: &RowSet,
        stats: &mut ScanStats,
    ) -> Result<bool, ScanError> {
        let List { job, collected } = self;
        let Collected::Texts(texts) = collected else { return Ok(false) };
        let (range, live) = (job.selector.range, &segment.live);
        let is_within = range.start_ns <= live.min_ns && live.max_ns < range.end_ns;
        let [tenant] = job.selector.tenants.tenants() else { return Ok(false) };
        if !is_within || !job.selector.sees_all_of(segment) {
            return Ok(false);
        }
        let root = env.label_roots.get(&env.runtime, &env.directories.files, segment).await;
        let Ok(Some(index)) = root else { return Ok(false) };
        let mut listed = match &job.listing {
            Listing::Names => index.names(tenant.as_str()),
            Listing::Values(name) => index.values(tenant.as_str(), name),
            Listing::Series => return Ok(false),
        };
        while let Some(ranges) = listed.next_reads() {
            let pieces = read_all(env, segment, ranges, stats).await;
            let mut decoder = env.decoders.take();
            let mut bytes = 0;
            let supplied = pieces.and_then(|pieces| {
                let visited = listed.supply(&mut decoder, &pieces, |text, of_text| {
                    if of_text.intersects(rows) {
                        bytes += add_text(texts, text);
                    }
                });
                visited.map_err(ReadError::from)
            });
            env.decoders.give_back(decoder);
            if let Err(error) = supplied {
                env.note_damage(segment, None, "label index", &error);
                return Ok(false);
            }
            job.memory.grow(bytes as u64).map_err(|denied| ScanError::from(stop_of(denied)))?;
            env.runtime.yield_now().await;
            if job.cancellation.is_cancelled() {
                return Err(ScanError::Cancelled);
            }
        }
        Ok(true)
    }

    /// Lists the idle streams that a segment has in the range.
    async fn confirm<R: Runtime>(
        &mut self,
        env: &ScanEnv<R>,
        segment: &Arc<SealedSegment>,
        directory: &Arc<HeldDirectory>,
    ) -> Result<(), ScanError> {
        let mut found = Vec::new();
        let selector = Arc::clone(&self.job.selector);
        let has = |row: u32| selector.may_have(segment, directory, row);
        if self.job.idle.len() < directory.stream_count() as usize / 8 {
            for (index, &id) in self.job.idle.keys().enumerate() {
                found.extend(directory.find_stream(id).filter(|&row| has(row)).map(|_| id));
                if index % STREAMS_PER_TURN == STREAMS_PER_TURN - 1 {
                    env.runtime.yield_now().await;
                }
            }
        } else {
            for row in 0..directory.stream_count() {
                let id = directory.stream_id(row);
                found.extend((self.job.idle.contains_key(&id) && has(row)).then_some(id));
                if row as usize % STREAMS_PER_TURN == STREAMS_PER_TURN - 1 {
                    env.runtime.yield_now().await;
                }
            }
        }
        for id in found {
            if let Some(labels) = self.job.idle.remove(&id) {
                self.add(id, &labels)?;
            }
        }
        env.runtime.yield_now().await;
        Ok(())
    }

    /// Lists the streams that only a segment knows.
    async fn find<R: Runtime>(
        &mut self,
        env: &ScanEnv<R>,
        segment: &Arc<SealedSegment>,
        directory: &Arc<HeldDirectory>,
        rows: Option<&RowSet>,
        stats: &mut ScanStats,
    ) -> Result<(), ScanError> {
        let selector = Arc::clone(&self.job.selector);
        let question = Question { selector: &selector, segment, directory, plan: None, rows };
        for chunk in 0..directory.label_chunk_count() {
            let is_known = |row: u32| self.job.known.contains(&directory.stream_id(row));
            match question.in_chunk(env, (chunk, None), is_known, None, stats).await {
                Ok(found) => {
                    for stream in found {
                        self.add(stream.id, &stream.labels)?;
                    }
                }
                Err(error) => {
                    self.job.unreadable_parts += 1;
                    env.note_damage(segment, Some(directory), "stream table", &error);
                }
            }
            env.runtime.yield_now().await;
            self.check()?;
        }
        Ok(())
    }
}
