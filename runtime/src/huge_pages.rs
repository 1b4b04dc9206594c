//! Whether the system may back the process's memory with huge pages.

use std::io;

/// Tells the system to back the memory of this process with pages of the usual size
/// only. For a program that fills and releases buffers of some hundred kilobytes all
/// the time: the system clears 2 MiB when the first byte of them is touched, much of
/// which is released again unused.
///
/// # Errors
/// The system refuses; nothing has changed then.
pub fn refuse_huge_pages() -> io::Result<()> {
    let (on, unused): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: the call takes numbers only and changes a flag of the process.
    let result = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, on, unused, unused, unused) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_set() {
        refuse_huge_pages().expect("the system knows the flag");
        let unused: libc::c_ulong = 0;
        // SAFETY: the call takes numbers only and reads a flag of the process.
        let flag = unsafe { libc::prctl(libc::PR_GET_THP_DISABLE, unused, unused, unused, unused) };
        assert_eq!(flag, 1);
    }
}
