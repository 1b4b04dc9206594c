//! Open files of the simulation.
//!
//! An operation goes to the disk when its future is first polled and takes
//! effect at one moment later on, whether or not the future is still there. A
//! sync covers the writes that had taken effect when it was submitted.

use std::io;
use std::ops::Range;
use std::rc::Rc;

use super::disk::OpenFile;
use super::disk_faults::DiskOperation;
use super::runtime::SimRuntime;
use super::world::Fate;
use crate::File;
use crate::OpenMode;
use crate::aligned::{AlignedBuffer, check_blocks, not_aligned};
use crate::poison::Poison;

/// One read in so many is short.
const SHORT_READ_ONE_IN: u64 = 4;

/// A file of the simulation.
pub struct SimFile {
    runtime: SimRuntime,
    open: Rc<OpenFile>,
    mode: OpenMode,
    poison: Poison,
}

impl SimFile {
    pub(super) fn new(runtime: SimRuntime, open: OpenFile, mode: OpenMode) -> SimFile {
        SimFile { runtime, open: Rc::new(open), mode, poison: Poison::default() }
    }

    async fn submit<T: 'static>(
        &self,
        operation: DiskOperation,
        action: impl FnOnce(&OpenFile, Fate) -> T + 'static,
    ) -> T {
        let open = Rc::clone(&self.open);
        let delay_nanos = open.disk.state.latency_nanos(operation);
        self.runtime.submit(delay_nanos, move |fate| action(&open, fate)).await
    }

    fn check_writable(&self) -> io::Result<()> {
        self.poison.check()?;
        if matches!(self.mode, OpenMode::Read | OpenMode::ReadPieces | OpenMode::ReadDirect) {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        Ok(())
    }

    async fn resize(&self, len_bytes: u64, may_shrink: bool) -> io::Result<()> {
        self.check_writable()?;
        check_range(len_bytes, 0)?;
        self.submit(DiskOperation::Resize, move |open, _| {
            open.check_alive()?;
            open.strike(DiskOperation::Resize)?;
            if !may_shrink && len_bytes <= open.node.inode.borrow().len_bytes() {
                return Ok(());
            }
            if open.room_until(len_bytes) < len_bytes {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            open.node.inode.borrow_mut().set_len(len_bytes);
            open.note_change();
            Ok(())
        })
        .await
    }
}

/// Files end where a signed 64-bit offset does, as in the kernel.
fn check_range(offset_bytes: u64, count: usize) -> io::Result<()> {
    match offset_bytes.checked_add(count as u64) {
        Some(end_bytes) if i64::try_from(end_bytes).is_ok() => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

fn write(open: &OpenFile, buffer: &[u8], offset_bytes: u64, fate: Fate) -> io::Result<()> {
    open.check_alive()?;
    let random = &open.disk.state.random;
    let struck = open.strike(DiskOperation::Write);
    let wanted = match struck {
        Ok(()) => open.disk.reached(fate, buffer.len()),
        Err(_) => random.below(buffer.len() as u64 + 1) as usize,
    };
    let end_bytes = offset_bytes + wanted as u64;
    let fitting = open.room_until(end_bytes).saturating_sub(offset_bytes) as usize;
    let written = wanted.min(fitting);
    if written > 0 {
        open.node.inode.borrow_mut().write(&buffer[..written], offset_bytes);
        open.note_change();
    }
    struck?;
    if written < wanted {
        return Err(io::Error::from_raw_os_error(libc::ENOSPC));
    }
    Ok(())
}

impl File for SimFile {
    async fn read_at(
        &self,
        mut buffer: Vec<u8>,
        offset_bytes: u64,
    ) -> (io::Result<usize>, Vec<u8>) {
        let room = buffer.capacity() - buffer.len();
        let mut allowed = check_range(offset_bytes, 0);
        if self.mode.writes_blocks() {
            allowed = Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        if self.mode.reads_blocks() {
            allowed = Err(not_aligned());
        }
        if let Err(error) = allowed {
            return (Err(error), buffer);
        }
        self.submit(DiskOperation::Read, move |open, _| {
            let allowed = open.check_alive().and_then(|()| open.strike(DiskOperation::Read));
            if let Err(error) = allowed {
                return (Err(error), buffer);
            }
            let random = &open.disk.state.random;
            let is_short = room > 1 && random.one_in(SHORT_READ_ONE_IN);
            let asked = if is_short { 1 + random.index(room) } else { room };
            let count = open.node.inode.borrow().read(&mut buffer, offset_bytes, asked);
            (Ok(count), buffer)
        })
        .await
    }

    async fn read_aligned_at(
        &self,
        buffer: AlignedBuffer,
        count_bytes: usize,
        offset_bytes: u64,
    ) -> (io::Result<()>, AlignedBuffer) {
        let mut allowed = check_blocks(count_bytes, offset_bytes);
        if self.mode.writes_blocks() {
            allowed = Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        if let Err(error) = allowed.and_then(|()| check_range(offset_bytes, count_bytes)) {
            return (Err(error), buffer);
        }
        let mut memory = buffer.into_room(count_bytes);
        let start = memory.len();
        let read = self.submit(DiskOperation::Read, move |open, _| {
            let allowed = open.check_alive().and_then(|()| open.strike(DiskOperation::Read));
            if allowed.is_ok() {
                open.node.inode.borrow().read(&mut memory, offset_bytes, count_bytes);
            }
            (allowed, memory)
        });
        let (result, memory) = read.await;
        let content = start..memory.len();
        (result, AlignedBuffer::from_parts(memory, content))
    }

    async fn write_all_at(&self, buffer: Vec<u8>, offset_bytes: u64) -> (io::Result<()>, Vec<u8>) {
        let mut allowed = self.check_writable();
        if self.mode.writes_blocks() {
            allowed = Err(not_aligned());
        }
        if let Err(error) = allowed.and_then(|()| check_range(offset_bytes, buffer.len())) {
            return (Err(error), buffer);
        }
        self.submit(DiskOperation::Write, move |open, fate| {
            (write(open, &buffer, offset_bytes, fate), buffer)
        })
        .await
    }

    async fn write_aligned_at(
        &self,
        buffer: AlignedBuffer,
        offset_bytes: u64,
    ) -> (io::Result<()>, AlignedBuffer) {
        let mut allowed = self.check_writable();
        if self.mode.writes_blocks() {
            allowed = allowed.and_then(|()| check_blocks(buffer.len(), offset_bytes));
        }
        if let Err(error) = allowed.and_then(|()| check_range(offset_bytes, buffer.len())) {
            return (Err(error), buffer);
        }
        let guard = self.mode.is_durable().then(|| self.poison.begin_sync());
        let written = self.submit(DiskOperation::Write, move |open, fate| {
            (write(open, &buffer, offset_bytes, fate), buffer)
        });
        let (mut result, buffer) = written.await;
        if let Some(guard) = guard {
            if result.is_ok() {
                // The written bytes are not durable yet, and may be torn until they are.
                result = self.sync_data().await;
            }
            result = guard.finish(result);
        }
        (result, buffer)
    }

    async fn sync_data(&self) -> io::Result<()> {
        self.poison.check()?;
        let guard = self.poison.begin_sync();
        let until = self.open.node.inode.borrow().change_count();
        let result = self
            .submit(DiskOperation::Sync, move |open, _| {
                open.check_alive()?;
                let struck = open.strike(DiskOperation::Sync);
                let mut inode = open.node.inode.borrow_mut();
                match struck {
                    Ok(()) => inode.sync(until),
                    Err(_) => inode.fail_sync(until, &open.disk.state.random),
                }
                drop(inode);
                open.charge();
                struck
            })
            .await;
        guard.finish(result)
    }

    async fn write_back(&self, range: Range<u64>) -> io::Result<()> {
        self.poison.check()?;
        check_range(range.end, 0)?;
        let guard = self.poison.begin_sync();
        let until = self.open.node.inode.borrow().change_count();
        // Any sector may survive a power loss before it is synced, so success changes nothing. A
        // failure may have lost dirty bytes, within the range or around it.
        let result = self
            .submit(DiskOperation::WriteBack, move |open, _| {
                open.check_alive()?;
                let struck = open.strike(DiskOperation::WriteBack);
                if struck.is_err() {
                    let random = &open.disk.state.random;
                    open.node.inode.borrow_mut().fail_sync(until, random);
                    open.charge();
                }
                struck
            })
            .await;
        guard.finish(result)
    }

    async fn allocate(&self, len_bytes: u64) -> io::Result<()> {
        self.resize(len_bytes, false).await
    }

    async fn truncate(&self, len_bytes: u64) -> io::Result<()> {
        self.resize(len_bytes, true).await
    }

    async fn len_bytes(&self) -> io::Result<u64> {
        self.submit(DiskOperation::Read, |open, _| {
            open.check_alive()?;
            Ok(open.node.inode.borrow().len_bytes())
        })
        .await
    }
}
