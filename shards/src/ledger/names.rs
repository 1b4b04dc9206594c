//! The names of entries of logs in the bucket.

use std::time::Duration;

use logsvc_store::ObjectName;

/// Sweeps leave younger objects alone: what names them may be on its way.
pub(crate) const SWEPT_AGE: Duration = Duration::from_secs(24 * 3600);

/// The folder of the maps of the nodes that share a bucket.
pub(crate) const MAPS: &str = "own";

/// Where an entry of a log is: whose log, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogPlace {
    /// The epoch of the writer.
    pub(crate) epoch: u32,
    /// The number.
    pub(crate) number: u64,
}

impl LogPlace {
    /// Reads the name of an entry in the folder of such logs; `None` if it has another form.
    pub(crate) fn parse(folder: &str, name: &ObjectName) -> Option<LogPlace> {
        let rest = name.as_str().strip_prefix(folder)?.strip_prefix('/')?;
        let (epoch, number) = rest.split_once('/')?;
        Some(LogPlace { epoch: epoch_of(epoch)?, number: hex(number, 16)? })
    }
}

/// Reads an epoch as names have it.
pub(crate) fn epoch_of(text: &str) -> Option<u32> {
    hex(text, 8).and_then(|epoch| u32::try_from(epoch).ok())
}

fn hex(text: &str, len: usize) -> Option<u64> {
    let is_hex = text.len() == len && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_hex { u64::from_str_radix(text, 16).ok() } else { None }
}
