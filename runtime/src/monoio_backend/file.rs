//! Files of the monoio backend.
//!
//! On io_uring, reads, writes and syncs go through the ring. Operations that monoio lacks go to
//! the side threads. On epoll all operations go there, except reads that the page cache can
//! answer at once: two thread wake-ups would cost several times as much. Transfers that bypass
//! the page cache go to the threads that write back, because they wait for the device; writes
//! that are durable at once do not.

use std::fs;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

use monoio::buf::{IoBuf, IoBufMut};

use super::{ChosenDriver, MonoioRuntime};
use crate::aligned::{AlignedBuffer, check_blocks, not_aligned};
use crate::coop::CoopBudget;
use crate::file_ops::{self, LONGEST_TRANSFER};
use crate::poison::Poison;
use crate::{File, OpenMode, Runtime};

/// A file of the monoio backend.
pub struct MonoioFile {
    handle: Handle,
    runtime: MonoioRuntime,
    poison: Poison,
    coop: CoopBudget,
    mode: OpenMode,
}

enum Handle {
    Ring(monoio::fs::File),
    Side(Arc<fs::File>),
}

impl MonoioFile {
    pub(super) fn new(
        file: fs::File,
        mode: OpenMode,
        runtime: MonoioRuntime,
    ) -> io::Result<MonoioFile> {
        let handle = match runtime.shared.driver {
            ChosenDriver::Ring => Handle::Ring(monoio::fs::File::from_std(file)?),
            ChosenDriver::Epoll => Handle::Side(Arc::new(file)),
        };
        let (poison, coop) = (Poison::default(), CoopBudget::default());
        Ok(MonoioFile { handle, runtime, poison, coop, mode })
    }

    /// The file for a side thread. It stays open there even if this one closes
    /// meanwhile.
    fn for_side(&self) -> io::Result<Arc<fs::File>> {
        match &self.handle {
            Handle::Side(file) => Ok(Arc::clone(file)),
            Handle::Ring(file) => {
                // SAFETY: `file` owns the descriptor and outlives the borrow.
                let fd = unsafe { BorrowedFd::borrow_raw(file.as_raw_fd()) };
                Ok(Arc::new(fd.try_clone_to_owned()?.into()))
            }
        }
    }

    async fn on_side<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&fs::File) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let file = self.for_side()?;
        self.runtime.side().file(move || operation(&file)).await
    }
}

impl Drop for MonoioFile {
    fn drop(&mut self) {
        let side = self.runtime.side();
        match &mut self.handle {
            Handle::Ring(file) => {
                // SAFETY: `file` owns the descriptor and outlives the borrow.
                side.close_file_of(unsafe { BorrowedFd::borrow_raw(file.as_raw_fd()) });
            }
            Handle::Side(file) => {
                // A side thread that still works on the file closes it.
                if let Some(file) = Arc::get_mut(file) {
                    side.close_file_of(file.as_fd());
                }
            }
        }
    }
}

impl File for MonoioFile {
    async fn read_at(
        &self,
        mut buffer: Vec<u8>,
        offset_bytes: u64,
    ) -> (io::Result<usize>, Vec<u8>) {
        if self.mode.reads_blocks() {
            return (Err(not_aligned()), buffer);
        }
        let file = match &self.handle {
            Handle::Ring(file) => file,
            Handle::Side(file) => {
                if self.coop.is_spent() {
                    self.runtime.yield_now().await;
                }
                self.coop.add();
                match file_ops::read_cached_at(file, &mut buffer, offset_bytes) {
                    Ok(None) => {}
                    Ok(Some(count)) => return (Ok(count), buffer),
                    Err(error) => return (Err(error), buffer),
                }
                let file = Arc::clone(file);
                let read = move || file_ops::read_at(&file, buffer, offset_bytes);
                return self.runtime.side().file(read).await;
            }
        };
        if let Err(error) = file_ops::checked_offset(offset_bytes) {
            return (Err(error), buffer);
        }
        let start = buffer.len();
        let end = buffer.capacity().min(start.saturating_add(LONGEST_TRANSFER));
        if start == end {
            return (Ok(0), buffer);
        }
        let mut slice = buffer.slice_mut(start..end);
        loop {
            let (result, returned) = file.read_at(slice, offset_bytes).await;
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => slice = returned,
                other => return (other, returned.into_inner()),
            }
        }
    }

    async fn read_aligned_at(
        &self,
        buffer: AlignedBuffer,
        count_bytes: usize,
        offset_bytes: u64,
    ) -> (io::Result<()>, AlignedBuffer) {
        let is_allowed = check_blocks(count_bytes, offset_bytes)
            .and_then(|()| file_ops::checked_range(offset_bytes, count_bytes));
        if let Err(error) = is_allowed {
            return (Err(error), buffer);
        }
        let memory = buffer.into_room(count_bytes);
        let start = memory.len();
        let (result, memory) = match &self.handle {
            Handle::Ring(file) => read_blocks(file, memory, count_bytes, offset_bytes).await,
            Handle::Side(file) => {
                let file = Arc::clone(file);
                let read =
                    move || file_ops::read_blocks_at(&file, memory, count_bytes, offset_bytes);
                self.runtime.side().device(read).await
            }
        };
        let content = start..memory.len();
        (result, AlignedBuffer::from_parts(memory, content))
    }

    async fn write_all_at(&self, buffer: Vec<u8>, offset_bytes: u64) -> (io::Result<()>, Vec<u8>) {
        let is_allowed =
            if self.mode.writes_blocks() { Err(not_aligned()) } else { self.poison.check() };
        if let Err(error) = is_allowed {
            return (Err(error), buffer);
        }
        let all = 0..buffer.len();
        self.write_range(buffer, all, offset_bytes).await
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
        if let Err(error) = is_allowed {
            return (Err(error), buffer);
        }
        let guard = self.mode.is_durable().then(|| {
            self.runtime.side().note_commit();
            self.poison.begin_sync()
        });
        let (memory, range) = buffer.into_parts();
        let (result, memory) = self.write_range(memory, range.clone(), offset_bytes).await;
        let result = match guard {
            Some(guard) => guard.finish(result),
            None => result,
        };
        (result, AlignedBuffer::from_parts(memory, range))
    }

    async fn sync_data(&self) -> io::Result<()> {
        self.poison.check()?;
        self.runtime.side().note_commit();
        let guard = self.poison.begin_sync();
        let result = match &self.handle {
            Handle::Ring(file) => file.sync_data().await,
            Handle::Side(_) => self.on_side(file_ops::sync_data).await,
        };
        guard.finish(result)
    }

    async fn write_back(&self, range: Range<u64>) -> io::Result<()> {
        self.poison.check()?;
        file_ops::checked_offset(range.end)?;
        let file = self.for_side()?;
        let guard = self.poison.begin_sync();
        guard.finish(self.runtime.side().device(move || file_ops::write_back(&file, range)).await)
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

/// [`file_ops::read_blocks_at`] through the ring.
async fn read_blocks(
    file: &monoio::fs::File,
    mut memory: Vec<u8>,
    count_bytes: usize,
    offset_bytes: u64,
) -> (io::Result<()>, Vec<u8>) {
    let (start, end) = (memory.len(), memory.len() + count_bytes);
    while memory.len() < end {
        let at = memory.len();
        let slice = memory.slice_mut(at..end.min(at + LONGEST_TRANSFER));
        let (result, returned) = file.read_at(slice, offset_bytes + (at - start) as u64).await;
        memory = returned.into_inner();
        match result {
            Ok(count) if file_ops::is_last_read(count) => break,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (Err(error), memory),
        }
    }
    (Ok(()), memory)
}

impl MonoioFile {
    /// Writes a part of the buffer.
    async fn write_range(
        &self,
        mut buffer: Vec<u8>,
        range: Range<usize>,
        offset_bytes: u64,
    ) -> (io::Result<()>, Vec<u8>) {
        let file = match &self.handle {
            Handle::Ring(file) => file,
            Handle::Side(file) => {
                let file = Arc::clone(file);
                let write = move || file_ops::write_range_at(&file, buffer, range, offset_bytes);
                let side = self.runtime.side();
                return match self.mode {
                    OpenMode::CreateNewDirect => side.device(write).await,
                    _ => side.file(write).await,
                };
            }
        };
        if let Err(error) = file_ops::checked_range(offset_bytes, range.len()) {
            return (Err(error), buffer);
        }
        let mut done = range.start;
        while done < range.end {
            let end = range.end.min(done + LONGEST_TRANSFER);
            let slice = buffer.slice(done..end);
            let offset = offset_bytes + (done - range.start) as u64;
            let (result, returned) = file.write_at(slice, offset).await;
            buffer = returned.into_inner();
            match result {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buffer),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(()), buffer)
    }
}
