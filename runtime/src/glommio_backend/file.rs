//! Files of the glommio backend.
//!
//! Reads, writes and syncs are buffered operations through the ring; all other operations go to
//! the side threads, as on monoio. So do reads and writes of aligned memory, because glommio's
//! own take only memory that glommio has allocated. Writes that are durable at once go to the
//! threads that wait for the device.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use glommio::io::BufferedFile;

use super::ring_file;
use crate::aligned::{AlignedBuffer, check_blocks, not_aligned};
use crate::poison::Poison;
use crate::{File, OpenMode, SideThreads, file_ops};

/// Most bytes that one operation moves. glommio allocates a buffer for each.
const LONGEST_TRANSFER: usize = 1 << 20;

/// A file of the glommio backend.
pub struct GlommioFile {
    file: BufferedFile,
    side: SideThreads,
    poison: Poison,
    mode: OpenMode,
}

impl GlommioFile {
    pub(super) fn new(file: fs::File, mode: OpenMode, side: SideThreads) -> GlommioFile {
        GlommioFile { file: ring_file(file), side, poison: Poison::default(), mode }
    }

    async fn on_side<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&fs::File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = self.for_side()?;
        self.side.file(move || operation(&file)).await
    }

    /// A file of its own for a side thread, in case this one closes while it works.
    fn for_side(&self) -> io::Result<fs::File> {
        // SAFETY: `self.file` owns the descriptor and outlives the borrow.
        let fd = unsafe { BorrowedFd::borrow_raw(self.file.as_raw_fd()) };
        Ok(fs::File::from(fd.try_clone_to_owned()?))
    }
}

impl Drop for GlommioFile {
    fn drop(&mut self) {
        // SAFETY: `self.file` owns the descriptor and outlives the borrow.
        let descriptor = unsafe { BorrowedFd::borrow_raw(self.file.as_raw_fd()) };
        self.side.close_file_of(descriptor);
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
        if self.mode.reads_blocks() {
            return (Err(not_aligned()), buffer);
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

    async fn read_aligned_at(
        &self,
        buffer: AlignedBuffer,
        count_bytes: usize,
        offset_bytes: u64,
    ) -> (io::Result<()>, AlignedBuffer) {
        let is_allowed = check_blocks(count_bytes, offset_bytes);
        let file = match is_allowed.and_then(|()| self.for_side()) {
            Ok(file) => file,
            Err(error) => return (Err(error), buffer),
        };
        let memory = buffer.into_room(count_bytes);
        let start = memory.len();
        let read = move || file_ops::read_blocks_at(&file, memory, count_bytes, offset_bytes);
        let (result, memory) = self.side.device(read).await;
        let content = start..memory.len();
        (result, AlignedBuffer::from_parts(memory, content))
    }

    async fn write_all_at(&self, buffer: Vec<u8>, offset_bytes: u64) -> (io::Result<()>, Vec<u8>) {
        if self.mode.writes_blocks() {
            return (Err(not_aligned()), buffer);
        }
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

    async fn write_aligned_at(
        &self,
        buffer: AlignedBuffer,
        offset_bytes: u64,
    ) -> (io::Result<()>, AlignedBuffer) {
        let mut is_allowed = self.poison.check();
        if self.mode.writes_blocks() {
            is_allowed = is_allowed.and_then(|()| check_blocks(buffer.len(), offset_bytes));
        }
        let file = match is_allowed.and_then(|()| self.for_side()) {
            Ok(file) => file,
            Err(error) => return (Err(error), buffer),
        };
        let guard = self.mode.is_durable().then(|| {
            self.side.note_commit();
            self.poison.begin_sync()
        });
        let (memory, range) = buffer.into_parts();
        let part = range.clone();
        let write = move || file_ops::write_range_at(&file, memory, part, offset_bytes);
        let (result, memory) = match self.mode {
            OpenMode::CreateNewDirect => self.side.device(write).await,
            _ => self.side.file(write).await,
        };
        let result = match guard {
            Some(guard) => guard.finish(result),
            None => result,
        };
        (result, AlignedBuffer::from_parts(memory, range))
    }

    async fn sync_data(&self) -> io::Result<()> {
        self.poison.check()?;
        self.side.note_commit();
        let guard = self.poison.begin_sync();
        guard.finish(self.file.fdatasync().await.map_err(plain))
    }

    async fn write_back(&self, range: Range<u64>) -> io::Result<()> {
        self.poison.check()?;
        file_ops::checked_offset(range.end)?;
        let file = self.for_side()?;
        let guard = self.poison.begin_sync();
        guard.finish(self.side.device(move || file_ops::write_back(&file, range)).await)
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
