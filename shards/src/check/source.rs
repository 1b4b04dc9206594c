//! Where the bytes come from that a check reads: a file, or an object of a bucket.
//!
//! Guarantees: nothing is written. Small ranges of an object that stand near each other are one
//! request: what is read around them is kept, [`WINDOWS`] times [`WINDOW_BYTES`] at most.
//!
//! Failures: an object that is not there is [`io::ErrorKind::NotFound`]. Other failures of the bucket
//! are a [`StoreError`] within the error, see [`bucket_failure`].

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use logsvc_runtime::{File, OpenMode, Runtime};
use logsvc_store::bucket::Span;
use logsvc_store::{ObjectName, Store, StoreError};

/// How long a request to the bucket may take, with all of its attempts.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Bytes of an object that are asked for at once.
const WINDOW_BYTES: u64 = 4 << 20;
/// Places of an object that are kept: one for each kind of columns, and one for labels.
const WINDOWS: usize = 5;

/// See the module.
pub(super) enum Source<R: Runtime> {
    /// A file.
    File(R::File),
    /// An object.
    Object(Object<R>),
}

impl<R: Runtime> Source<R> {
    /// Opens a file.
    pub(super) async fn file(runtime: &R, path: &Path) -> io::Result<Source<R>> {
        runtime.open(path, OpenMode::Read).await.map(Source::File)
    }

    /// Finds an object.
    pub(super) async fn object(
        runtime: &R,
        store: &Store<R>,
        name: &ObjectName,
    ) -> io::Result<Source<R>> {
        let info = store.info(name, runtime.now().after(PATIENCE)).await.map_err(refused)?;
        Ok(Source::Object(Object {
            runtime: runtime.clone(),
            store: store.clone(),
            name: name.clone(),
            len_bytes: info.len_bytes,
            windows: RefCell::default(),
        }))
    }

    pub(super) async fn len_bytes(&self) -> io::Result<u64> {
        match self {
            Source::File(file) => file.len_bytes().await,
            Source::Object(object) => Ok(object.len_bytes),
        }
    }

    /// Reads exactly this range.
    pub(super) async fn read(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        let (result, bytes) = self.read_exact_at(Vec::new(), range).await;
        result.map(|()| bytes)
    }

    /// Appends exactly this range to `buffer`, as [`File::read_exact_at`] does.
    pub(super) async fn read_exact_at(
        &self,
        buffer: Vec<u8>,
        range: Range<u64>,
    ) -> (io::Result<()>, Vec<u8>) {
        match self {
            Source::File(file) => match usize::try_from(range.end - range.start) {
                Ok(len) => file.read_exact_at(buffer, range.start, len).await,
                Err(error) => (Err(io::Error::other(error)), buffer),
            },
            Source::Object(object) => object.read_exact_at(buffer, range).await,
        }
    }
}

/// An object, and what was read of it lately.
pub(super) struct Object<R: Runtime> {
    runtime: R,
    store: Store<R>,
    name: ObjectName,
    len_bytes: u64,
    /// Where each begins, the one that was used last at the end.
    windows: RefCell<VecDeque<(u64, Bytes)>>,
}

impl<R: Runtime> Object<R> {
    async fn read_exact_at(
        &self,
        mut buffer: Vec<u8>,
        range: Range<u64>,
    ) -> (io::Result<()>, Vec<u8>) {
        let mut at = range.start;
        while at < range.end {
            let piece = at..range.end.min(at + WINDOW_BYTES);
            let bytes = match self.kept(&piece) {
                Some(bytes) => bytes,
                None => match self.request(&piece).await {
                    Ok(bytes) => bytes,
                    Err(error) => return (Err(error), buffer),
                },
            };
            at += bytes.len() as u64;
            buffer.extend_from_slice(&bytes);
            if at < piece.end {
                return (Err(io::ErrorKind::UnexpectedEof.into()), buffer);
            }
        }
        (Ok(()), buffer)
    }

    fn kept(&self, piece: &Range<u64>) -> Option<Bytes> {
        let mut windows = self.windows.borrow_mut();
        let has = |(start, bytes): &(u64, Bytes)| {
            *start <= piece.start && piece.end <= start + bytes.len() as u64
        };
        let (start, bytes) = windows.iter().position(has).and_then(|at| windows.remove(at))?;
        let of = |at: u64| (at - start) as usize;
        let found = bytes.slice(of(piece.start)..of(piece.end));
        windows.push_back((start, bytes));
        Some(found)
    }

    async fn request(&self, piece: &Range<u64>) -> io::Result<Bytes> {
        let wanted = (piece.end - piece.start) as usize;
        let window = piece.start..(piece.start + WINDOW_BYTES).min(self.len_bytes.max(piece.end));
        let until = self.runtime.now().after(PATIENCE);
        let bytes = self.store.read(&self.name, Span::Range(window), until).await;
        let bytes = bytes.map_err(refused)?;
        let found = bytes.slice(..wanted.min(bytes.len()));
        let mut windows = self.windows.borrow_mut();
        windows.push_back((piece.start, bytes));
        if windows.len() > WINDOWS {
            windows.pop_front();
        }
        Ok(found)
    }
}

fn refused(error: StoreError) -> io::Error {
    let kind = if error.is_not_found() { io::ErrorKind::NotFound } else { io::ErrorKind::Other };
    io::Error::new(kind, error)
}

/// Why the bucket did not answer, if that is the reason of an error; an object that is not there is
/// an answer.
pub(super) fn bucket_failure(error: &io::Error) -> Option<&StoreError> {
    error.get_ref()?.downcast_ref::<StoreError>().filter(|failure| !failure.is_not_found())
}
