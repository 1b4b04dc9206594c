//! Blocking file operations, for the side threads.
//!
//! Every backend on a real machine uses them for the operations that its driver cannot do
//! through a ring or on the core's own thread.

#![expect(
    clippy::disallowed_methods,
    reason = "this is where the operations of Runtime end, on a thread that may block"
)]

use std::ffi::CString;
use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::aligned::DIRECT_BLOCK_BYTES;
use crate::{DirEntry, DiskSpace, OpenMode};

/// Most bytes that one read or write call is asked for; the kernel's own limit
/// is a little below 2 GiB, and a ring entry counts in 32 bits.
pub(crate) const LONGEST_TRANSFER: usize = 1 << 30;

pub(crate) fn open(path: &Path, mode: OpenMode) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    match mode {
        OpenMode::Read => {}
        OpenMode::ReadPieces => {
            let file = options.open(path)?;
            expect_pieces(&file);
            return Ok(file);
        }
        OpenMode::ReadDirect => return open_direct(path, &options),
        OpenMode::ReadWrite => {
            options.write(true);
        }
        OpenMode::CreateNew => {
            options.write(true).create_new(true);
        }
        OpenMode::CreateNewDurable => return create_direct(path, libc::O_DSYNC),
        OpenMode::CreateNewDirect => return create_direct(path, 0),
    }
    options.open(path)
}

/// Whether a file system has refused to go around the page cache; said once.
static REFUSAL_IS_LOGGED: AtomicBool = AtomicBool::new(false);

/// Creates a file for writes around the page cache, if the file system can do them. With
/// `O_DSYNC` as `flags` they are durable when they return.
fn create_direct(path: &Path, flags: libc::c_int) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let file = options.custom_flags(flags | libc::O_DIRECT).open(path);
    if !is_refusal(&file) {
        return file.and_then(|file| direct_if_it_may_be(file, path));
    }
    // Some file systems have made the file by now.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => log_refusal(path),
    }
    options.custom_flags(flags).open(path)
}

/// Opens a file for reads around the page cache, if the file system can do them.
fn open_direct(path: &Path, options: &OpenOptions) -> io::Result<File> {
    let file = options.clone().custom_flags(libc::O_DIRECT).open(path);
    if !is_refusal(&file) {
        return file.and_then(|file| direct_if_it_may_be(file, path));
    }
    log_refusal(path);
    options.open(path)
}

/// Whether a file could not be opened because it is not for direct transfers.
fn is_refusal(file: &io::Result<File>) -> bool {
    file.as_ref().is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL))
}

/// An open file as it is, if whole blocks are all that it wants.
fn direct_if_it_may_be(file: File, path: &Path) -> io::Result<File> {
    if !takes_blocks(&file) {
        set_buffered(&file)?;
        log_refusal(path);
    }
    Ok(file)
}

/// Says that a file system transfers nothing around the page cache, once.
fn log_refusal(path: &Path) {
    if !REFUSAL_IS_LOGGED.swap(true, Ordering::Relaxed) {
        tracing::info!(
            file = %path.display(),
            "the file system does not read or write around the page cache; logs and drafts cost \
             more CPU time"
        );
    }
}

/// Whether direct transfers of [`DIRECT_BLOCK_BYTES`] at multiples of them will be taken. A
/// kernel that cannot tell has taken the flag when the file was opened.
fn takes_blocks(file: &File) -> bool {
    // SAFETY: `statx` holds integers only, for which zero is valid.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    let (flags, wanted) = (libc::AT_EMPTY_PATH, libc::STATX_DIOALIGN);
    // SAFETY: the path is a string that ends in NUL, `stat` is writable, and `file` keeps
    // the descriptor open.
    let result =
        unsafe { libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, wanted, &raw mut stat) };
    if result != 0 || stat.stx_mask & wanted == 0 {
        return true;
    }
    let fits = |align: u32| align > 0 && DIRECT_BLOCK_BYTES.is_multiple_of(align as usize);
    fits(stat.stx_dio_mem_align) && fits(stat.stx_dio_offset_align)
}

/// Asks the system to read no more of a file than it is asked for. It may do as it likes.
fn expect_pieces(file: &File) {
    // SAFETY: a call with plain integers on a descriptor that `file` keeps open.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
}

/// Lets an open file's reads and writes go through the page cache.
fn set_buffered(file: &File) -> io::Result<()> {
    // SAFETY: calls with plain integers on a descriptor that `file` keeps open.
    let result = unsafe {
        let flags = libc::fcntl(file.as_raw_fd(), libc::F_GETFL);
        if flags < 0 {
            return Err(io::Error::last_os_error());
        }
        libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags & !libc::O_DIRECT)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Opens for the lock alone; the content of an existing file stays.
pub(crate) fn lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

pub(crate) fn create_dir_all(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

fn entry_of(name: String, metadata: &Metadata) -> DirEntry {
    if metadata.is_dir() {
        return DirEntry { name, is_dir: true, len_bytes: 0, modified_ns: 0 };
    }
    let modified_ns = metadata.mtime().saturating_mul(1_000_000_000);
    let modified_ns = modified_ns.saturating_add(metadata.mtime_nsec());
    DirEntry { name, is_dir: false, len_bytes: metadata.len(), modified_ns }
}

pub(crate) fn entry(path: &Path) -> io::Result<DirEntry> {
    let metadata = fs::symlink_metadata(path)?;
    // The root and the working folder have no name.
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(entry_of(name, &metadata))
}

/// Entries sorted by name. One that vanishes meanwhile is left out; a name that
/// is not UTF-8 is an error, because this crate's names are strings.
pub(crate) fn read_dir(path: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        let name = entry.file_name().into_string().map_err(|name| {
            let text = format!("{} holds a name that is not UTF-8: {name:?}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        entries.push(entry_of(name, &metadata));
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)
}

pub(crate) fn hard_link(from: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(from, to)
}

pub(crate) fn remove_dir(path: &Path) -> io::Result<()> {
    fs::remove_dir(path)
}

/// Removes the name of a file. The file stays on the disk until the returned descriptor closes,
/// which may take long.
pub(crate) fn remove_file(path: &Path) -> io::Result<Option<OwnedFd>> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
    fs::remove_file(path)?;
    // Without a descriptor for it, it went at once.
    Ok(file.ok().map(OwnedFd::from))
}

pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    // The parent of a bare file name is the empty path.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path)?.sync_all()
}

pub(crate) fn disk_space(path: &Path) -> io::Result<DiskSpace> {
    let path = CString::new(path.as_os_str().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path with a NUL byte"))?;
    // SAFETY: `statvfs` holds integers only, for which zero is valid.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: `path` ends in NUL and `stat` is writable.
    if unsafe { libc::statvfs(path.as_ptr(), &raw mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // `f_bavail` counts the blocks that a process without privileges may take.
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok(DiskSpace { total_bytes: bytes(stat.f_blocks), available_bytes: bytes(stat.f_bavail) })
}

/// `posix_fallocate` without its fallback of writing zeros to every block: on a
/// file system without `fallocate` the file is extended, unreserved.
pub(crate) fn allocate(file: &File, len_bytes: u64) -> io::Result<()> {
    let current_bytes = file.metadata()?.len();
    if len_bytes <= current_bytes {
        return Ok(());
    }
    let length = checked_offset(len_bytes)?;
    loop {
        // SAFETY: a call with plain integers on a descriptor that `file` keeps open.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EOPNOTSUPP) => return file.set_len(len_bytes),
            _ => return Err(error),
        }
    }
}

pub(crate) fn truncate(file: &File, len_bytes: u64) -> io::Result<()> {
    file.set_len(len_bytes)
}

pub(crate) fn len_bytes(file: &File) -> io::Result<u64> {
    Ok(file.metadata()?.len())
}

pub(crate) fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// Writes the dirty pages of a range and waits for them; see [`crate::File::write_back`]. Writes
/// that were under way are waited for first, because their pages may have changed since.
pub(crate) fn write_back(file: &File, range: Range<u64>) -> io::Result<()> {
    let offset = checked_offset(range.start)?;
    // A length of zero would mean the whole rest of the file.
    let Some(len_bytes) = range.end.checked_sub(range.start).filter(|len| *len > 0) else {
        return Ok(());
    };
    let len = checked_offset(range.end).and(checked_offset(len_bytes))?;
    let flags = libc::SYNC_FILE_RANGE_WAIT_BEFORE
        | libc::SYNC_FILE_RANGE_WRITE
        | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: a call with plain integers on a descriptor that `file` keeps open.
    if unsafe { libc::sync_file_range(file.as_raw_fd(), offset, len, flags) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // There is nothing like it here, or a sandbox refuses the call, so nothing was tried and
        // nothing can be lost.
        Some(libc::ENOSYS | libc::EPERM | libc::EINVAL | libc::ESPIPE | libc::EOPNOTSUPP) => Ok(()),
        _ => Err(error),
    }
}

/// One `pread` into `buffer[len..capacity]`.
pub(crate) fn read_at(
    file: &File,
    mut buffer: Vec<u8>,
    offset_bytes: u64,
) -> (io::Result<usize>, Vec<u8>) {
    let offset = match checked_offset(offset_bytes) {
        Ok(offset) => offset,
        Err(error) => return (Err(error), buffer),
    };
    let result = read_into_spare(&mut buffer, |start, room| {
        // SAFETY: `start` and `room` describe writable spare capacity, and
        // `file` keeps the descriptor open.
        unsafe { libc::pread(file.as_raw_fd(), start.cast(), room, offset) }
    });
    (result, buffer)
}

/// Appends up to `count_bytes` to `memory`, which has room for them, fewer only at the end of
/// the file; see [`crate::File::read_aligned_at`].
pub(crate) fn read_blocks_at(
    file: &File,
    mut memory: Vec<u8>,
    count_bytes: usize,
    offset_bytes: u64,
) -> (io::Result<()>, Vec<u8>) {
    let (start, end) = (memory.len(), memory.len() + count_bytes);
    while memory.len() < end {
        let done = memory.len() - start;
        let result = checked_offset(offset_bytes + done as u64).and_then(|offset| {
            read_into_spare(&mut memory, |to, room| {
                let room = room.min(count_bytes - done);
                // SAFETY: `to` and `room` describe writable spare capacity, and `file` keeps
                // the descriptor open.
                unsafe { libc::pread(file.as_raw_fd(), to.cast(), room, offset) }
            })
        });
        match result {
            Ok(count) if is_last_read(count) => break,
            Ok(_) => {}
            Err(error) => return (Err(error), memory),
        }
    }
    (Ok(()), memory)
}

/// Whether a read of whole blocks that returned `count` bytes has reached the end of the file.
pub(crate) fn is_last_read(count: usize) -> bool {
    count == 0 || !count.is_multiple_of(DIRECT_BLOCK_BYTES)
}

/// Most bytes that [`read_cached_at`] copies, so that it takes a core no longer
/// than handing the read to a side thread would.
const LONGEST_CACHED_READ: usize = 512 << 10;

/// Reads from the page cache without waiting for a disk: `None` if the start of the range is not in
/// the cache, or the file system cannot tell. Otherwise like [`read_at`], but possibly shorter.
pub(crate) fn read_cached_at(
    file: &File,
    buffer: &mut Vec<u8>,
    offset_bytes: u64,
) -> io::Result<Option<usize>> {
    let offset = checked_offset(offset_bytes)?;
    let result = read_into_spare(buffer, |start, room| {
        let part = libc::iovec { iov_base: start.cast(), iov_len: room.min(LONGEST_CACHED_READ) };
        // SAFETY: `part` describes writable spare capacity, and `file` keeps
        // the descriptor open.
        unsafe { libc::preadv2(file.as_raw_fd(), &raw const part, 1, offset, libc::RWF_NOWAIT) }
    });
    match result {
        Ok(count) => Ok(Some(count)),
        Err(error) => match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EOPNOTSUPP | libc::ENOSYS) => Ok(None),
            _ => Err(error),
        },
    }
}

/// Lets `read` fill spare capacity like `read(2)`, and extends `buffer` by the bytes read; an
/// interrupted call is made again.
///
/// `read` gets the start of the spare capacity and its length, and must return
/// how many bytes it has initialised from there, or -1 and `errno`.
pub(crate) fn read_into_spare(
    buffer: &mut Vec<u8>,
    read: impl Fn(*mut u8, usize) -> isize,
) -> io::Result<usize> {
    loop {
        let spare = buffer.spare_capacity_mut();
        let room = spare.len().min(LONGEST_TRANSFER);
        if room == 0 {
            return Ok(0);
        }
        let count = read(spare.as_mut_ptr().cast(), room);
        let Ok(count) = usize::try_from(count) else {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        };
        assert!(count <= room, "a read gives at most what was asked for");
        // SAFETY: `read` has initialised `count` bytes after `len`, and they
        // lie within the capacity, as just checked.
        unsafe { buffer.set_len(buffer.len() + count) };
        return Ok(count);
    }
}

/// Writes a part of a buffer. A file that takes whole blocks only gets whole blocks, and the part
/// of a write that it takes is whole blocks, too.
pub(crate) fn write_range_at(
    file: &File,
    buffer: Vec<u8>,
    range: Range<usize>,
    offset_bytes: u64,
) -> (io::Result<()>, Vec<u8>) {
    let bytes = &buffer[range];
    let result = checked_range(offset_bytes, bytes.len())
        .and_then(|()| file.write_all_at(bytes, offset_bytes));
    (result, buffer)
}

/// A file offset as the kernel takes it. -1 would mean the current position to
/// a ring, and other negative ones are errors anyway.
pub(crate) fn checked_offset(offset_bytes: u64) -> io::Result<i64> {
    i64::try_from(offset_bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a file offset beyond 2^63"))
}

/// Whether `len_bytes` from `offset_bytes` on stay within offsets that exist.
pub(crate) fn checked_range(offset_bytes: u64, len_bytes: usize) -> io::Result<()> {
    checked_offset(offset_bytes.saturating_add(len_bytes as u64)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn what_cannot_be_written_back_is_left_alone() {
        // The system refuses a device.
        let no_file = OpenOptions::new().write(true).open("/dev/null").unwrap();
        write_back(&no_file, 0..1).unwrap();
        let error = write_back(&no_file, 0..u64::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn files_made_for_direct_writes_can_be_told_otherwise() {
        let path = std::env::temp_dir().join(format!("logsvc-direct-{}", std::process::id()));
        let file = open(&path, OpenMode::CreateNewDirect).unwrap();
        set_buffered(&file).unwrap();
        // Neither whole blocks nor aligned memory.
        file.write_all_at(b"0123456789", 3).unwrap();
        let length = len_bytes(&file);
        fs::remove_file(&path).unwrap();
        assert_eq!(length.unwrap(), 13);
    }

    #[test]
    fn cached_bytes_are_read_without_waiting() {
        let path = std::env::temp_dir().join(format!("logsvc-cached-{}", std::process::id()));
        let mut file =
            OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.write_all(b"0123456789").unwrap();
        let mut buffer = Vec::with_capacity(64);
        buffer.push(b'x');
        // The bytes were just written. Only a file system that cannot answer
        // gives `None`.
        let read = read_cached_at(&file, &mut buffer, 4);
        let end = read_cached_at(&file, &mut Vec::with_capacity(4), 10);
        let beyond = read_cached_at(&file, &mut Vec::with_capacity(4), u64::MAX);
        fs::remove_file(&path).unwrap();
        if let Some(count) = read.unwrap() {
            assert_eq!((count, buffer.as_slice()), (6, b"x456789".as_slice()));
            assert_eq!(end.unwrap(), Some(0));
        }
        assert_eq!(beyond.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
