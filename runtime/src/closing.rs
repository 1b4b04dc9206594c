//! Closes files on a side thread.
//!
//! Closing the last descriptor of a removed file frees its blocks, and the caller waits for
//! that. On `ext4` with online discard this kept a core for 160 to 280 ms at the end of merges.
//! The next commit of the file system's journal discards all blocks that were freed since the
//! commit before it. Where a host does the discard, durable writes wait for it: 47 to 72 ms
//! when 16 files of 24 MiB went at once, less than 15 ms when they went one by one. So this
//! thread closes removed files one by one, with pauses.
//!
//! Guarantee: a driver never closes the last descriptor of a file while an operation on the file
//! is under way. What can go wrong: the process has no descriptor left, or too many files wait
//! to be closed. Then the driver closes the file itself.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

/// How long the thread that closes files waits after a removed one.
const PAUSE: Duration = Duration::from_millis(25);

/// If more files than this wait to be closed, pauses become shorter. So many more files than this
/// never wait for long, however many are removed.
const UNHURRIED_FILES: usize = 16;

/// Closes a file. Pauses after a removed file, so that the device discards its blocks before the
/// next file's blocks come. `waiting` files are to be closed after it.
pub(crate) fn close(file: OwnedFd, waiting: impl FnOnce() -> usize) {
    let is_removed = is_removed(&file);
    drop(file);
    if is_removed {
        #[expect(clippy::disallowed_methods, reason = "the thread does nothing but close files")]
        thread::sleep(pause(waiting()));
    }
}

fn pause(waiting: usize) -> Duration {
    let hurry = waiting.max(UNHURRIED_FILES) as f64 / UNHURRIED_FILES as f64;
    PAUSE.div_f64(hurry)
}

/// Whether a file has no name. A file whose metadata cannot be read counts as one with a name.
fn is_removed(file: &OwnedFd) -> bool {
    // SAFETY: `stat` holds integers only, for which zero is valid.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is writable, and `file` keeps the descriptor open.
    let result = unsafe { libc::fstat(file.as_raw_fd(), &raw mut stat) };
    result == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFREG && stat.st_nlink == 0
}

/// Takes the file from a descriptor, whose number stands for nothing of use from now on.
///
/// # Errors
/// The process has no descriptor left; then the descriptor stays as it is.
pub(crate) fn take(descriptor: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let nothing = nothing()?;
    let file = descriptor.try_clone_to_owned()?;
    // SAFETY: both descriptors are open for the length of the call, which takes numbers only. The
    // owner of the second goes on to own an open descriptor.
    match unsafe { libc::dup3(nothing, descriptor.as_raw_fd(), libc::O_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(file),
    }
}

/// A file that is always there.
fn nothing() -> io::Result<libc::c_int> {
    static NOTHING: OnceLock<File> = OnceLock::new();
    if let Some(file) = NOTHING.get() {
        return Ok(file.as_raw_fd());
    }
    #[expect(clippy::disallowed_methods, reason = "once, and it is no file of a disk")]
    let opened = File::open("/dev/null")?;
    Ok(NOTHING.get_or_init(|| opened).as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn pauses_are_short_where_many_files_wait() {
        assert_eq!([0, 1, 16].map(pause), [PAUSE; 3]);
        assert_eq!(pause(32), PAUSE / 2);
        // However many there are, they are closed within moments.
        let until_empty: Duration = (0..10_000).map(pause).sum();
        assert!(until_empty < Duration::from_secs(4), "{until_empty:?}");
    }

    #[test]
    fn removed_files_are_told_from_others() {
        let path = std::env::temp_dir().join(format!("logsvc-closing-{}", std::process::id()));
        let open = || crate::file_ops::open(&path, crate::OpenMode::Read).unwrap();
        crate::file_ops::open(&path, crate::OpenMode::CreateNew).unwrap();
        let (first, second) = (OwnedFd::from(open()), OwnedFd::from(open()));
        assert!(!is_removed(&first));
        let removed = crate::file_ops::remove_file(&path).unwrap().unwrap();
        assert!(is_removed(&removed) && is_removed(&first) && is_removed(&second));
        let (reader, _writer) = io::pipe().unwrap();
        assert!(!is_removed(&OwnedFd::from(reader)));
    }

    #[test]
    fn what_is_taken_closes_with_the_new_owner() {
        let (mut reader, writer) = io::pipe().unwrap();
        let number = writer.as_raw_fd();
        let taken = take(writer.as_fd()).unwrap();
        assert_eq!(writer.as_raw_fd(), number);
        assert_ne!(taken.as_raw_fd(), number);
        drop(writer);
        // The other end has not closed: this one writes to it.
        let mut file = File::from(taken);
        io::Write::write_all(&mut file, b"still there").unwrap();
        drop(file);
        // The thread has ended, so it does not hold the other end.
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still there");
    }
}
