//! Failures of the simulated disk, on demand and by chance.

use std::io;
use std::path::{Path, PathBuf};

use super::random::Random;

/// The operation for which a fault is armed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskOperation {
    /// Opening, creating and locking files.
    Open,
    /// Reads.
    Read,
    /// Writes; a part of the bytes may be written before the failure.
    Write,
    /// [`crate::File::sync_data`].
    Sync,
    /// [`crate::File::write_back`].
    WriteBack,
    /// [`crate::File::allocate`] and [`crate::File::truncate`].
    Resize,
    /// Renaming, judged by the new name.
    Rename,
    /// Removing files.
    Remove,
    /// Creating folders.
    CreateDir,
    /// Listing folders.
    ReadDir,
    /// [`crate::Runtime::sync_dir`].
    SyncDir,
}

/// How often operations fail with `EIO` by chance, in failures per million.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultRates {
    /// [`DiskOperation::Read`].
    pub reads_per_million: u32,
    /// [`DiskOperation::Write`].
    pub writes_per_million: u32,
    /// [`DiskOperation::Sync`] and [`DiskOperation::WriteBack`].
    pub syncs_per_million: u32,
    /// All other operations.
    pub others_per_million: u32,
}

/// One or more failures to come.
struct Armed {
    operation: DiskOperation,
    below: PathBuf,
    remaining_count: u64,
}

#[derive(Default)]
pub(super) struct Faults {
    armed: Vec<Armed>,
    rates: FaultRates,
}

impl Faults {
    pub(super) fn arm(&mut self, operation: DiskOperation, below: PathBuf, count: u64) {
        self.armed.push(Armed { operation, below, remaining_count: count });
    }

    pub(super) fn set_rates(&mut self, rates: FaultRates) {
        self.rates = rates;
    }

    pub(super) fn clear(&mut self) {
        *self = Faults::default();
    }

    /// Whether this operation fails.
    pub(super) fn strikes(
        &mut self,
        operation: DiskOperation,
        path: &Path,
        random: &Random,
    ) -> io::Result<()> {
        let meant = |armed: &&mut Armed| {
            armed.operation == operation
                && armed.remaining_count > 0
                && path.starts_with(&armed.below)
        };
        let rate = match operation {
            DiskOperation::Read => self.rates.reads_per_million,
            DiskOperation::Write => self.rates.writes_per_million,
            DiskOperation::Sync | DiskOperation::WriteBack => self.rates.syncs_per_million,
            _ => self.rates.others_per_million,
        };
        if let Some(armed) = self.armed.iter_mut().find(meant) {
            armed.remaining_count -= 1;
        } else if !random.per_million(rate) {
            return Ok(());
        }
        Err(io::Error::from_raw_os_error(libc::EIO))
    }
}
