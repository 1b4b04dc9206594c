//! Where the bytes of a segment come from: its file, or an object of a bucket.
//!
//! A segment whose file is not kept is an object with the bytes of that file. The end of the file,
//! which answers all that is asked before columns, may be on the local disk ([`super::tail`]).
//!
//! Guarantees: a read gives as many bytes as were asked for, or an error. A read whose future is
//! dropped ends. A tail that cannot be read costs requests, and no answer. Reads of upkeep give way to
//! those of queries ([`Reads`]).
//!
//! Failures: an object that is not there is [`io::ErrorKind::NotFound`], as a file that is not
//! there. Other failures of the bucket are told in its words, which name the object, after
//! [`READ_MAX`] at the latest.

use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use logsvc_runtime::{File, Runtime};
use logsvc_store::bucket::Span;
use logsvc_store::{ObjectName, Store, StoreError};

use super::SealedSegment;
use super::reads::{Place, Reads};
use super::tail::Tail;

/// How long a request to the bucket may take, with all of its attempts.
const READ_MAX: Duration = Duration::from_secs(60);

/// The most bytes of a request. Longer ranges are several requests.
pub(crate) const REQUEST_MAX_BYTES: u64 = 8 << 20;

/// Requests for one range that are on their way at the same time.
const REQUESTS_AT_ONCE: usize = 4;

/// See the module. Cheap to clone.
pub enum SegmentSource<R: Runtime> {
    /// The segment's own file.
    File(LocalFile<R>),
    /// An object of a bucket.
    Stored(Rc<StoredSegment<R>>),
}

impl<R: Runtime> Clone for SegmentSource<R> {
    fn clone(&self) -> SegmentSource<R> {
        match self {
            SegmentSource::File(file) => SegmentSource::File(file.clone()),
            SegmentSource::Stored(stored) => SegmentSource::Stored(Rc::clone(stored)),
        }
    }
}

/// A file on the local disk, and where reads of it are counted, if they are.
pub struct LocalFile<R: Runtime> {
    pub(crate) file: Rc<R::File>,
    pub(super) reads: Option<Rc<Reads>>,
}

impl<R: Runtime> Clone for LocalFile<R> {
    fn clone(&self) -> LocalFile<R> {
        LocalFile { file: Rc::clone(&self.file), reads: self.reads.clone() }
    }
}

impl<R: Runtime> SegmentSource<R> {
    /// A file whose reads nobody counts.
    pub(crate) fn of_file(file: R::File) -> SegmentSource<R> {
        SegmentSource::File(LocalFile { file: Rc::new(file), reads: None })
    }

    /// Reads exactly `count_bytes` at `offset_bytes`, appended to `buffer`, see
    /// [`File::read_exact_at`].
    pub async fn read_exact_at(
        &self,
        buffer: Vec<u8>,
        offset_bytes: u64,
        count_bytes: usize,
    ) -> (io::Result<()>, Vec<u8>) {
        match self {
            SegmentSource::File(LocalFile { file, reads }) => {
                if let Some(reads) = reads {
                    reads.note(Place::File, count_bytes as u64);
                }
                file.read_exact_at(buffer, offset_bytes, count_bytes).await
            }
            SegmentSource::Stored(stored) => {
                let range = offset_bytes..offset_bytes + count_bytes as u64;
                // In a box, so that reads of files stay small.
                Box::pin(stored.read(buffer, range)).await
            }
        }
    }
}

/// Whom a segment is read for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Query,
    /// Nobody waits for it.
    Upkeep,
}

/// A segment that is an object of a bucket.
pub struct StoredSegment<R: Runtime> {
    runtime: R,
    store: Store<R>,
    object: ObjectName,
    tail: Option<Tail<R>>,
    reads: Rc<Reads>,
    purpose: Purpose,
    /// Whether the bucket has said that there is no such object.
    is_lost: Cell<bool>,
}

impl<R: Runtime> StoredSegment<R> {
    /// The object of a segment, and its tail if there is one.
    pub(super) async fn open(
        runtime: &R,
        store: &Store<R>,
        segment: &SealedSegment,
        (reads, purpose): (Rc<Reads>, Purpose),
    ) -> StoredSegment<R> {
        StoredSegment {
            runtime: runtime.clone(),
            store: store.clone(),
            object: segment.live.name.object_name(segment.live.day),
            tail: Tail::open(runtime, segment).await,
            reads,
            purpose,
            is_lost: Cell::new(false),
        }
    }

    /// Whether the bucket has said that there is no such object.
    pub(super) fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    /// Whether the end of the segment is on the local disk.
    pub(crate) fn has_tail(&self) -> bool {
        self.tail.is_some()
    }

    /// How many requests to the bucket a range takes: none if it is on the local disk.
    pub(crate) fn requests_for(&self, range: &Range<u64>) -> u64 {
        match &self.tail {
            Some(tail) if tail.has(range) => 0,
            _ => (range.end - range.start).div_ceil(REQUEST_MAX_BYTES),
        }
    }

    /// Whether the bucket is asked for a range.
    pub(crate) fn asks_for(&self, range: &Range<u64>) -> bool {
        self.requests_for(range) > 0
    }

    /// Appends the bytes of a range to `buffer`.
    pub(crate) async fn read(
        &self,
        mut buffer: Vec<u8>,
        range: Range<u64>,
    ) -> (io::Result<()>, Vec<u8>) {
        let before = buffer.len();
        if let Some(tail) = self.tail.as_ref().filter(|tail| tail.has(&range)) {
            let (result, read) = tail.read_exact_at(buffer, range.clone()).await;
            buffer = read;
            match result {
                Ok(()) => {
                    self.note(Place::Tail, &range);
                    return (Ok(()), buffer);
                }
                Err(error) => {
                    tracing::warn!(
                        %error, object = %self.object, offset = range.start,
                        "the end of a segment is read from the bucket: its local copy fails"
                    );
                }
            }
            buffer.truncate(before);
        }
        self.note(Place::Bucket, &range);
        if range.end - range.start <= REQUEST_MAX_BYTES {
            return match self.request(range).await {
                Ok(bytes) if before == 0 => (Ok(()), bytes),
                Ok(bytes) => {
                    buffer.extend(bytes);
                    (Ok(()), buffer)
                }
                Err(error) => (Err(error), buffer),
            };
        }
        buffer.reserve_exact((range.end - range.start) as usize);
        let starts = (range.start..range.end).step_by(REQUEST_MAX_BYTES as usize);
        let pieces =
            starts.map(|start| self.request(start..range.end.min(start + REQUEST_MAX_BYTES)));
        let mut pieces = stream::iter(pieces).buffered(REQUESTS_AT_ONCE);
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) => buffer.extend(piece),
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(()), buffer)
    }

    fn note(&self, place: Place, range: &Range<u64>) {
        if self.purpose == Purpose::Query {
            self.reads.note(place, range.end - range.start);
        }
    }

    /// One request.
    async fn request(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let len = range.end - range.start;
        match self.purpose {
            Purpose::Query => self.reads.note_busy(self.runtime.now()),
            Purpose::Upkeep => self.reads.give_way(&self.runtime).await,
        }
        let until = self.runtime.now().after(READ_MAX);
        let read = self.store.read(&self.object, Span::Range(range), until).await;
        if self.purpose == Purpose::Query {
            self.reads.note_busy(self.runtime.now());
        }
        let bytes = read.map_err(|error| self.refused(error))?;
        if bytes.len() as u64 != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // No copy, as long as nobody else has the bytes.
        Ok(Vec::from(bytes))
    }

    fn refused(&self, error: StoreError) -> io::Error {
        if error.is_not_found() {
            self.is_lost.set(true);
            return io::Error::new(io::ErrorKind::NotFound, error);
        }
        io::Error::other(error)
    }
}
