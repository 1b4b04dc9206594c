//! Closes files on a side thread.
//!
//! Whoever closes the last descriptor of a removed file frees its blocks, and waits for that. With
//! `ext4` that tells the device what is free, the system took a core for 160 to 280 milliseconds
//! that way, when merges had ended.
//!
//! Guarantees: what a driver closes is never the last descriptor of a file, as long as nothing
//! that was begun on it is under way. What can go wrong is that there are no more descriptors, or
//! too many files to be closed already; then it is.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

/// Takes the file from a descriptor, whose number stands for nothing of use from now on.
///
/// # Errors
/// There are no more descriptors; nothing has changed then.
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
        // It ends, so nobody else holds the other end.
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "still there");
    }
}
