//! A bucket with patience: tries again, asks twice what is slow, and finds out what became of a
//! create.
//!
//! Guarantees:
//! - [`Store::create`] says `New` or `Retried` only if the object holds all of the caller's bytes, and
//!   `Existing` only if it was read and holds others. Whatever a store answers to a create is a
//!   hint; the object is the fact. So is its length: some stores keep what they have got when a
//!   connection breaks within a request.
//! - No request begins after its deadline, and none is given up before it, as long as another
//!   attempt may succeed.
//! - Two attempts lie apart by a pause that doubles, with chance in it, so that cores do not come
//!   back all at once.
//!
//! Failures: at the deadline a create may be neither known to have happened nor to have failed
//! ([`StoreError::Unknown`]). Its request may still be on the way.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use logsvc_runtime::{Monotonic, Runtime};

use crate::bucket::{
    Bucket, BucketError, ObjectInfo, Page, PartId, PartPlace, Reason, Span, UploadId,
};
use crate::counters::{Counters, Request};
use crate::name::{Folder, ObjectName};
use crate::pace::Slowest;

/// The first pause between two attempts; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How long an attempt may take, beside the time for its bytes.
const ATTEMPT_MAX: Duration = Duration::from_secs(30);

/// The slowest way to a store that is of use.
const MIN_RATE_BYTES_PER_S: u64 = 1 << 20;

/// Why something did not happen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It did not happen.
    #[error("{bucket}: {name}: {error}")]
    Failed {
        /// The bucket.
        bucket: String,
        /// The object or the folder.
        name: String,
        /// Why not.
        error: BucketError,
    },
    /// Nobody can tell whether it happened, or will.
    #[error("{bucket}: {name}: it is not known whether it was created: {error}")]
    Unknown {
        /// The bucket.
        bucket: String,
        /// The object.
        name: String,
        /// The last failure.
        error: BucketError,
    },
}

impl StoreError {
    /// Whether there is no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(self, StoreError::Failed { error: BucketError::NotFound, .. })
    }
}

/// What a create has found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The object is the caller's, made by the first attempt.
    New,
    /// The object is the caller's, and whole. There were attempts before that failed, or the only one
    /// had no answer.
    Retried,
    /// Another one has the name. These are its bytes in the range of the proof.
    Existing(Bytes),
    /// The name has the beginning of an object: the caller's, or one whose writer is not known.
    Torn,
}

impl Created {
    /// Whether the object is the caller's.
    pub fn is_own(&self) -> bool {
        matches!(self, Created::New | Created::Retried)
    }
}

/// See the module. Cheap to clone; stays on its core.
pub struct Store<R> {
    runtime: R,
    inner: Rc<Inner>,
}

struct Inner {
    bucket: Box<dyn Bucket>,
    counters: Arc<Counters>,
    /// The slowest of recent reads.
    reads: RefCell<Slowest>,
    /// Requests under way.
    open: Cell<u32>,
}

impl<R: Clone> Clone for Store<R> {
    fn clone(&self) -> Store<R> {
        Store { runtime: self.runtime.clone(), inner: Rc::clone(&self.inner) }
    }
}

impl<R: Runtime> Store<R> {
    /// A store that makes its attempts at `bucket`.
    pub fn new(runtime: R, bucket: Box<dyn Bucket>) -> Store<R> {
        Store::counting(runtime, bucket, Arc::default())
    }

    /// A store that counts its attempts where others see them.
    pub fn counting(runtime: R, bucket: Box<dyn Bucket>, counters: Arc<Counters>) -> Store<R> {
        let inner = Inner { bucket, counters, reads: RefCell::default(), open: Cell::new(0) };
        Store { runtime, inner: Rc::new(inner) }
    }

    /// What was asked of the bucket since the start.
    pub fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// What the bucket is called in messages, without secrets.
    pub fn address(&self) -> &str {
        self.inner.bucket.address()
    }

    /// Requests under way.
    pub fn open_requests(&self) -> u32 {
        self.inner.open.get()
    }

    /// Creates an object, unless another one has the name. `proof` is a range of the body that no
    /// other object of this name has in common with it: a random number, or what only this writer
    /// knows.
    ///
    /// # Errors
    /// The store refuses, or the deadline has passed.
    pub async fn create(
        &self,
        name: &ObjectName,
        body: Bytes,
        proof: Range<usize>,
        until: Monotonic,
    ) -> Result<Created, StoreError> {
        let own = body.slice(proof.clone());
        let span = Span::Range(proof.start as u64..proof.end as u64);
        let mut pause = Pause::default();
        // Whether an attempt may have taken effect.
        let mut may_exist = false;
        loop {
            let len_bytes = body.len() as u64;
            let attempt =
                self.inner.bucket.create(name, body.clone(), self.until(len_bytes, until));
            let created = self.counted(Request::Create, len_bytes, attempt).await;
            let error = match created {
                Ok(()) if may_exist => return Ok(Created::Retried),
                Ok(()) => return Ok(Created::New),
                Err(
                    error
                    @ (BucketError::Exists(_) | BucketError::Busy(_) | BucketError::Failed(_)),
                ) => error,
                Err(error) if may_exist => return Err(self.unknown(name, error)),
                Err(error) => return Err(self.failed(name.as_str(), error)),
            };
            may_exist = true;
            // The object tells what the answer did not.
            match self.look_at(name, span.clone(), &own, len_bytes, until).await {
                Ok(created) => return Ok(created),
                Err(BucketError::NotFound) => {}
                Err(error) if error.may_pass() => {}
                Err(error) => return Err(self.unknown(name, error)),
            }
            if !pause.take(&self.runtime, until).await {
                return Err(self.unknown(name, error));
            }
        }
    }

    /// What an object is that has a name after all: `own` is what it has at `span` if it is one's own,
    /// of `len_bytes` bytes.
    async fn look_at(
        &self,
        name: &ObjectName,
        span: Span,
        own: &Bytes,
        len_bytes: u64,
        until: Monotonic,
    ) -> Result<Created, BucketError> {
        let found = self.read_once(name, span, until).await?;
        if found.len() < own.len() {
            return Ok(Created::Torn);
        }
        if found != own {
            return Ok(Created::Existing(found));
        }
        let info = self.inner.bucket.info(name, self.until(0, until));
        let info = self.counted(Request::Info, 0, info).await?;
        Ok(if info.len_bytes < len_bytes { Created::Torn } else { Created::Retried })
    }

    /// Reads a part of an object. If that takes longer than nearly all recent reads did, it is asked
    /// for once more, and the first answer counts.
    ///
    /// # Errors
    /// There is no such object, the store refuses, or the deadline has passed.
    pub async fn read(
        &self,
        name: &ObjectName,
        span: Span,
        until: Monotonic,
    ) -> Result<Bytes, StoreError> {
        let mut pause = Pause::default();
        loop {
            let error = match self.read_raced(name, &span, until).await {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            };
            if !error.may_pass() || !pause.take(&self.runtime, until).await {
                return Err(self.failed(name.as_str(), error));
            }
        }
    }

    async fn read_raced(
        &self,
        name: &ObjectName,
        span: &Span,
        until: Monotonic,
    ) -> Result<Bytes, BucketError> {
        let begun = self.runtime.now();
        let len_bytes = match span {
            // How long the object is, is not known.
            Span::Whole { .. } => 0,
            Span::Range(range) => range.end.saturating_sub(range.start),
        };
        let patience = self.inner.reads.borrow().patience(len_bytes);
        let first = pin!(self.read_once(name, span.clone(), until));
        let answer = match patience {
            None => first.await,
            Some(patience) => {
                let waited = pin!(self.runtime.sleep_until(begun.after(patience)));
                match select(first, waited).await {
                    Either::Left((answer, _)) => answer,
                    Either::Right(((), first)) if !self.inner.reads.borrow_mut().take_second() => {
                        first.await
                    }
                    Either::Right(((), first)) => {
                        self.inner.counters.note_second();
                        let second = pin!(self.read_once(name, span.clone(), until));
                        match select(first, second).await {
                            // One that failed says nothing about the other.
                            Either::Left((Err(error), second)) if error.may_pass() => second.await,
                            Either::Right((Err(error), first)) if error.may_pass() => first.await,
                            Either::Left((answer, _)) | Either::Right((answer, _)) => answer,
                        }
                    }
                }
            }
        };
        if let Ok(bytes) = &answer {
            let took = self.runtime.now().since(begun);
            self.inner.reads.borrow_mut().note(took, bytes.len() as u64);
        }
        answer
    }

    async fn read_once(
        &self,
        name: &ObjectName,
        span: Span,
        until: Monotonic,
    ) -> Result<Bytes, BucketError> {
        let len_bytes = match &span {
            Span::Whole { max_bytes } => *max_bytes,
            Span::Range(range) => range.end.saturating_sub(range.start),
        };
        let attempt = self.inner.bucket.read(name, span, self.until(len_bytes, until));
        let bytes = self.counted(Request::Read, 0, attempt).await?;
        self.inner.counters.note_read_bytes(bytes.len() as u64);
        Ok(bytes)
    }

    /// The length of an object, and its age.
    ///
    /// # Errors
    /// As for [`Store::read`].
    pub async fn info(
        &self,
        name: &ObjectName,
        until: Monotonic,
    ) -> Result<ObjectInfo, StoreError> {
        let attempt = || self.inner.bucket.info(name, self.until(0, until));
        self.patiently(name.as_str(), Request::Info, until, attempt).await
    }

    /// All objects of a folder behind `after`, sorted by name.
    ///
    /// # Errors
    /// The store refuses, or the deadline has passed.
    pub async fn list(
        &self,
        folder: &Folder,
        after: Option<&ObjectName>,
        until: Monotonic,
    ) -> Result<Vec<ObjectInfo>, StoreError> {
        let mut all: Vec<ObjectInfo> = Vec::new();
        loop {
            let after = all.last().map(|info| &info.name).or(after);
            let page = self.list_page(folder, after, until).await?;
            let (has_more, count) = (page.has_more, page.objects.len());
            all.extend(page.objects);
            if !has_more || count == 0 {
                return Ok(all);
            }
        }
    }

    /// Some objects of a folder behind `after`, sorted by name.
    ///
    /// # Errors
    /// As for [`Store::list`].
    pub async fn list_page(
        &self,
        folder: &Folder,
        after: Option<&ObjectName>,
        until: Monotonic,
    ) -> Result<Page, StoreError> {
        let attempt = || self.inner.bucket.list(folder, after, self.until(0, until));
        self.patiently(folder.as_str(), Request::List, until, attempt).await
    }

    /// Removes an object. One that is not there is removed.
    ///
    /// # Errors
    /// The store refuses, or the deadline has passed.
    pub async fn remove(&self, name: &ObjectName, until: Monotonic) -> Result<(), StoreError> {
        let attempt = || self.inner.bucket.remove(name, self.until(0, until));
        self.patiently(name.as_str(), Request::Remove, until, attempt).await
    }

    /// Begins an object that comes in parts of [`crate::PART_BYTES`], whose name nobody else may ever
    /// create.
    ///
    /// # Errors
    /// As for [`Store::remove`].
    pub async fn begin(&self, name: &ObjectName, until: Monotonic) -> Result<UploadId, StoreError> {
        let attempt = || self.inner.bucket.begin(name, self.until(0, until));
        self.patiently(name.as_str(), Request::Create, until, attempt).await
    }

    /// Adds a part.
    ///
    /// # Errors
    /// As for [`Store::remove`]. After [`BucketError::NotFound`] the store has forgotten the upload,
    /// and all of it has to be sent again.
    pub async fn put_part(
        &self,
        name: &ObjectName,
        upload: &UploadId,
        place: PartPlace,
        body: Bytes,
        until: Monotonic,
    ) -> Result<PartId, StoreError> {
        let len_bytes = body.len() as u64;
        let mut pause = Pause::default();
        loop {
            let deadline = self.until(len_bytes, until);
            let attempt = self.inner.bucket.put_part(name, upload, place, body.clone(), deadline);
            let error = match self.counted(Request::Create, len_bytes, attempt).await {
                Ok(part) => return Ok(part),
                Err(error) => error,
            };
            if !error.may_pass() || !pause.take(&self.runtime, until).await {
                return Err(self.failed(name.as_str(), error));
            }
        }
    }

    /// Makes an object of `len_bytes` of the parts.
    ///
    /// # Errors
    /// As for [`Store::create`]. After [`BucketError::NotFound`] the store has forgotten the upload,
    /// and all of it has to be sent again.
    pub async fn complete(
        &self,
        name: &ObjectName,
        upload: &UploadId,
        parts: &[PartId],
        len_bytes: u64,
        until: Monotonic,
    ) -> Result<(), StoreError> {
        let mut pause = Pause::default();
        let mut may_exist = false;
        loop {
            let deadline = self.until(0, until);
            let attempt = self.inner.bucket.complete(name, upload, parts.to_vec(), deadline);
            let answer = self.counted(Request::Create, 0, attempt).await;
            // Nobody else creates the name, so an object of that length is this one. A success is not
            // believed either: a part whose connection broke may have come after its repetition.
            let look = self.inner.bucket.info(name, self.until(0, until));
            let error = match (answer, self.counted(Request::Info, 0, look).await) {
                (_, Ok(info)) if info.len_bytes == len_bytes => return Ok(()),
                (_, Ok(info)) => {
                    let what = format!("it has {} bytes instead of {len_bytes}", info.len_bytes);
                    return Err(self.failed(name.as_str(), BucketError::Exists(Reason(what))));
                }
                (Err(BucketError::NotFound), Err(BucketError::NotFound)) => {
                    return Err(self.failed(name.as_str(), BucketError::NotFound));
                }
                // The upload may be gone because it was completed.
                (Err(BucketError::NotFound), Err(error)) if may_exist => error,
                (Ok(()), Err(error)) => {
                    may_exist = true;
                    error
                }
                (Err(error), Err(_)) => {
                    may_exist |= error.may_pass();
                    error
                }
            };
            let is_over = !error.may_pass() && !matches!(error, BucketError::Exists(_));
            if is_over || !pause.take(&self.runtime, until).await {
                return Err(if may_exist {
                    self.unknown(name, error)
                } else {
                    self.failed(name.as_str(), error)
                });
            }
        }
    }

    /// Gives an upload up.
    ///
    /// # Errors
    /// As for [`Store::remove`].
    pub async fn abort(
        &self,
        name: &ObjectName,
        upload: &UploadId,
        until: Monotonic,
    ) -> Result<(), StoreError> {
        let attempt = || self.inner.bucket.abort(name, upload, self.until(0, until));
        self.patiently(name.as_str(), Request::Remove, until, attempt).await
    }

    /// Repeats what may be repeated.
    async fn patiently<T, F: Future<Output = Result<T, BucketError>>>(
        &self,
        name: &str,
        request: Request,
        until: Monotonic,
        mut attempt: impl FnMut() -> F,
    ) -> Result<T, StoreError> {
        let mut pause = Pause::default();
        loop {
            let error = match self.counted(request, 0, attempt()).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if !error.may_pass() || !pause.take(&self.runtime, until).await {
                return Err(self.failed(name, error));
            }
        }
    }

    /// Makes an attempt, and counts it, also if its caller does not wait for the answer.
    async fn counted<T>(
        &self,
        request: Request,
        sent_bytes: u64,
        attempt: impl Future<Output = Result<T, BucketError>>,
    ) -> Result<T, BucketError> {
        let _open = Open::new(&self.inner.open);
        let begun = self.runtime.now();
        self.inner.counters.note_begun(request, sent_bytes);
        let answer = attempt.await;
        let taken = self.runtime.now().since(begun);
        self.inner.counters.note_ended(request, answer.as_ref().err(), taken);
        answer
    }

    /// The deadline of an attempt that moves so many bytes.
    fn until(&self, len_bytes: u64, until: Monotonic) -> Monotonic {
        let moving = Duration::from_millis(len_bytes.saturating_mul(1_000) / MIN_RATE_BYTES_PER_S);
        self.runtime.now().after(ATTEMPT_MAX + moving).min(until)
    }

    fn failed(&self, name: &str, error: BucketError) -> StoreError {
        let (bucket, name) = (self.inner.bucket.address().to_owned(), name.to_owned());
        StoreError::Failed { bucket, name, error }
    }

    fn unknown(&self, name: &ObjectName, error: BucketError) -> StoreError {
        let (bucket, name) = (self.inner.bucket.address().to_owned(), name.to_string());
        StoreError::Unknown { bucket, name, error }
    }
}

/// Counts a request as long as it is under way.
struct Open<'a>(&'a Cell<u32>);

impl<'a> Open<'a> {
    fn new(count: &'a Cell<u32>) -> Open<'a> {
        count.set(count.get() + 1);
        Open(count)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// The pauses between attempts.
struct Pause(Duration);

impl Default for Pause {
    fn default() -> Pause {
        Pause(PAUSE_MIN)
    }
}

impl Pause {
    /// Waits for the next attempt; false if there is no time for one.
    async fn take<R: Runtime>(&mut self, runtime: &R, until: Monotonic) -> bool {
        let most_ns = self.0.as_nanos() as u64;
        let pause = Duration::from_nanos(most_ns / 2 + runtime.random_u64() % (most_ns / 2 + 1));
        self.0 = (self.0 * 2).min(PAUSE_MAX);
        let next = runtime.now().after(pause);
        if next >= until {
            return false;
        }
        runtime.sleep_until(next).await;
        true
    }
}
