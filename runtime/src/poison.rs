//! Remembers a failed sync of a file.
//!
//! After a failed `fdatasync` the kernel may mark the dirty pages clean, so a second sync would
//! report success for lost bytes. A file that failed once therefore refuses every further write and
//! sync. A sync whose future was dropped before its end counts as failed: its result is lost. A
//! write-back counts as a sync, although it makes nothing durable: it consumes the error that the
//! kernel would report to the next sync.

use std::cell::Cell;
use std::io;

#[derive(Default)]
pub(crate) struct Poison {
    failed: Cell<bool>,
}

impl Poison {
    /// An error if an earlier sync of this file failed.
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.failed.get() {
            return Err(io::Error::other(
                "an earlier sync of this file failed, so its content can no longer be made durable",
            ));
        }
        Ok(())
    }

    /// Starts a sync; the file is poisoned unless the guard hears of success.
    pub(crate) fn begin_sync(&self) -> SyncGuard<'_> {
        SyncGuard { poison: self, succeeded: false }
    }
}

pub(crate) struct SyncGuard<'a> {
    poison: &'a Poison,
    succeeded: bool,
}

impl SyncGuard<'_> {
    /// Takes the sync's result and passes it on.
    pub(crate) fn finish(mut self, result: io::Result<()>) -> io::Result<()> {
        self.succeeded = result.is_ok();
        result
    }
}

impl Drop for SyncGuard<'_> {
    fn drop(&mut self) {
        if !self.succeeded {
            self.poison.failed.set(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_success_keeps_a_file_clean() {
        let poison = Poison::default();
        assert!(poison.begin_sync().finish(Ok(())).is_ok());
        assert!(poison.check().is_ok());
        let failure = poison.begin_sync().finish(Err(io::Error::from_raw_os_error(libc::EIO)));
        assert_eq!(failure.unwrap_err().raw_os_error(), Some(libc::EIO));
        assert!(poison.check().is_err());
        // A later success on the same pages proves nothing.
        assert!(poison.begin_sync().finish(Ok(())).is_ok());
        assert!(poison.check().is_err());
    }

    #[test]
    fn an_abandoned_sync_poisons() {
        let poison = Poison::default();
        drop(poison.begin_sync());
        assert!(poison.check().is_err());
    }
}
