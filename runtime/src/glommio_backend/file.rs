//! Files of the glommio backend.
//!
//! Reads, writes and syncs are buffered operations through the ring; the rest
//! goes to the side threads, as on monoio.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use glommio::io::BufferedFile;

use super::ring_file;
use crate::poison::Poison;
use crate::{File, SideThreads, file_ops};

/// Most bytes that one operation moves. glommio allocates a buffer for each.
const LONGEST_TRANSFER: usize = 1 << 20;

/// A file of the glommio backend.
pub struct GlommioFile {
    file: BufferedFile,
    side: SideThreads,
    poison: Poison,
}

impl GlommioFile {
    pub(super) fn new(file: fs::File, side: SideThreads) -> GlommioFile {
        GlommioFile { file: ring_file(file), side, poison: Poison::default() }
    }

    async fn on_side<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&fs::File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        // SAFETY: `self.file` owns the descriptor and outlives the borrow.
        let fd = unsafe { BorrowedFd::borrow_raw(self.file.as_raw_fd()) };
        // A copy of its own, in case this file closes while the thread works.
        let file = fs::File::from(fd.try_clone_to_owned()?);
        self.side.file(move || operation(&file)).await
    }
}

impl File for GlommioFile {
    async fn read_at(
        &self,
        mut buffer: Vec<u8>,
        offset_bytes: u64,
    ) -> (io::Result<usize>, Vec<u8>) {
        if let Err(error) = file_ops::checked_offset(offset_bytes) {
            return (Err(error), buffer);
        }
        let room = (buffer.capacity() - buffer.len()).min(LONGEST_TRANSFER);
        if room == 0 {
            return (Ok(0), buffer);
        }
        match self.file.read_at(offset_bytes, room).await {
            Ok(bytes) => {
                buffer.extend_from_slice(&bytes);
                (Ok(bytes.len()), buffer)
            }
            Err(error) => (Err(plain(error)), buffer),
        }
    }

    async fn write_all_at(&self, buffer: Vec<u8>, offset_bytes: u64) -> (io::Result<()>, Vec<u8>) {
        let checked =
            self.poison.check().and_then(|()| file_ops::checked_range(offset_bytes, buffer.len()));
        if let Err(error) = checked {
            return (Err(error), buffer);
        }
        let mut done = 0;
        while done < buffer.len() {
            let end = buffer.len().min(done + LONGEST_TRANSFER);
            let piece = buffer[done..end].to_vec();
            match self.file.write_at(piece, offset_bytes + done as u64).await {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buffer),
                Ok(count) => done += count,
                Err(error) => return (Err(plain(error)), buffer),
            }
        }
        (Ok(()), buffer)
    }

    async fn sync_data(&self) -> io::Result<()> {
        self.poison.check()?;
        let guard = self.poison.begin_sync();
        guard.finish(self.file.fdatasync().await.map_err(plain))
    }

    async fn allocate(&self, len_bytes: u64) -> io::Result<()> {
        self.poison.check()?;
        self.on_side(move |file| file_ops::allocate(file, len_bytes)).await
    }

    async fn truncate(&self, len_bytes: u64) -> io::Result<()> {
        self.poison.check()?;
        self.on_side(move |file| file_ops::truncate(file, len_bytes)).await
    }

    async fn len_bytes(&self) -> io::Result<u64> {
        self.on_side(file_ops::len_bytes).await
    }
}

/// The operating system's error, with its code, out of glommio's.
fn plain(error: glommio::GlommioError<()>) -> io::Error {
    match error {
        glommio::GlommioError::EnhancedIoError { source, .. } => source,
        other => other.into(),
    }
}
