//! What a bucket can do, and how it fails.
//!
//! A [`Bucket`] makes one attempt at each request. [`crate::Store`] tries again, and finds out what
//! became of a create whose answer says nothing.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use futures_util::future::LocalBoxFuture;
use logsvc_runtime::Monotonic;

use crate::name::{Folder, ObjectName};

/// A good length of the parts of a large object.
pub const PART_BYTES: usize = 16 << 20;

/// The result of a request.
pub type Answer<'a, T> = LocalBoxFuture<'a, Result<T, BucketError>>;

/// A bucket as one core sees it: objects by name, below a prefix.
///
/// A request that is dropped may still take effect, as long after as the network likes.
pub trait Bucket {
    /// Creates an object unless one of that name exists.
    ///
    /// # Errors
    /// [`BucketError::Exists`] is a hint: stores say it for "try again", and for one's own object
    /// whose first answer was lost. After [`BucketError::Busy`] and [`BucketError::Failed`] the
    /// object may exist, now or later.
    fn create(&self, name: &ObjectName, body: Bytes, until: Monotonic) -> Answer<'_, ()>;

    /// Begins an object that comes in parts. Nothing shows before [`Bucket::complete`].
    fn begin(&self, name: &ObjectName, until: Monotonic) -> Answer<'_, UploadId>;

    /// Adds a part. All parts but the last have the same length, 5 MiB at least. A part that comes
    /// twice has the same bytes, and counts once.
    fn put_part(
        &self,
        name: &ObjectName,
        upload: &UploadId,
        place: PartPlace,
        body: Bytes,
        until: Monotonic,
    ) -> Answer<'_, PartId>;

    /// Makes an object of the parts. The caller is the only one who may ever create this name.
    ///
    /// # Errors
    /// As for [`Bucket::create`].
    fn complete(
        &self,
        name: &ObjectName,
        upload: &UploadId,
        parts: Vec<PartId>,
        until: Monotonic,
    ) -> Answer<'_, ()>;

    /// Gives an upload up.
    fn abort(&self, name: &ObjectName, upload: &UploadId, until: Monotonic) -> Answer<'_, ()>;

    /// Reads a part of an object. A range may end behind the object, and the answer is shorter
    /// then.
    fn read(&self, name: &ObjectName, span: Span, until: Monotonic) -> Answer<'_, Bytes>;

    /// The length of an object, and its age.
    fn info(&self, name: &ObjectName, until: Monotonic) -> Answer<'_, ObjectInfo>;

    /// Lists objects by name, those behind `after` only; some of them at a time.
    fn list(
        &self,
        folder: &Folder,
        after: Option<&ObjectName>,
        until: Monotonic,
    ) -> Answer<'_, Page>;

    /// Removes an object. One that is not there is removed.
    fn remove(&self, name: &ObjectName, until: Monotonic) -> Answer<'_, ()>;

    /// What the bucket is called in messages, without secrets.
    fn address(&self) -> &str;
}

/// Which bytes of an object are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Span {
    /// All, but it is an error if there are more than so many.
    Whole {
        /// The most bytes.
        max_bytes: u64,
    },
    /// These.
    Range(Range<u64>),
}

/// An object that comes in parts, by the store's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadId(pub String);

/// The place of a part in its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartPlace {
    /// Counts the parts from 0.
    pub number: usize,
    /// Where the part begins.
    pub offset_bytes: u64,
}

impl PartPlace {
    /// The place of a part, if parts have so many bytes.
    pub fn of(number: usize, part_bytes: u64) -> PartPlace {
        PartPlace { number, offset_bytes: (number as u64).saturating_mul(part_bytes) }
    }
}

/// A part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartId(pub String);

/// What a listing tells of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its name.
    pub name: ObjectName,
    /// Its length.
    pub len_bytes: u64,
    /// When it was created, by the clock of the store, in ns since the Unix epoch.
    pub created_ns: i64,
}

/// A piece of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Objects, sorted by name.
    pub objects: Vec<ObjectInfo>,
    /// Whether there are more behind the last one.
    pub has_more: bool,
}

/// Why a request has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BucketError {
    /// There is no such object.
    #[error("no such object")]
    NotFound,
    /// An object of that name seems to exist.
    #[error("the object exists: {0}")]
    Exists(Reason),
    /// The store does not let us, or does not understand us. Trying again is of no use until
    /// somebody changes something.
    #[error("refused: {0}")]
    Refused(Reason),
    /// The store wants fewer requests.
    #[error("the store is busy: {0}")]
    Busy(Reason),
    /// The store or the way to it failed.
    #[error("{0}")]
    Failed(Reason),
    /// The object is longer than the caller takes.
    #[error("the object has more than {max_bytes} bytes")]
    TooLarge {
        /// The most bytes.
        max_bytes: u64,
    },
}

/// The words of whoever failed, without secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Reason(pub String);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl BucketError {
    /// A failure of the store or of the way to it.
    pub fn failed(reason: impl fmt::Display) -> BucketError {
        BucketError::Failed(Reason(reason.to_string()))
    }

    /// Whether another attempt may succeed by itself.
    pub fn may_pass(&self) -> bool {
        matches!(self, BucketError::Busy(_) | BucketError::Failed(_))
    }
}
