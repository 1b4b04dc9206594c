//! How many files and sockets the process may have open.

use std::io;

/// Raises the soft limit of open files to the hard one and returns it. Systems start
/// processes with a low soft limit for the sake of `select`, which nothing here uses.
pub fn raise_open_files_limit() -> io::Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable and of the type that the call fills.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < limit.rlim_max {
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is readable and of the type that the call takes.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(limit.rlim_cur)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_raised_once() {
        let limit = raise_open_files_limit().expect("any process may");
        assert!(limit >= 64);
        assert_eq!(raise_open_files_limit().expect("again"), limit);
    }
}
