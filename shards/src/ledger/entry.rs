//! An entry of a writer's log, with its bytes as `docs/format.md` describes them.
//!
//! Guarantees: decoding meets arbitrary bytes without panic, and its memory is proportional to
//! them.

use std::collections::BTreeMap;

use logsvc_segment::batch::{u32_at, u64_at};
use logsvc_store::object::PAYLOAD_MAX_BYTES;

use super::files::{self, FileRecord};
use crate::manifest::{EditError, ManifestEdit};

const KIND_EDIT: u32 = 1;
const KIND_SUM: u32 = 2;
/// The same with records of kept files.
const KIND_EDIT_OF_FILES: u32 = 3;
const KIND_SUM_OF_FILES: u32 = 4;
const HEADER_LEN: usize = 8;
const LOG_LEN: usize = 16;

/// An entry of a writer's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogEntry {
    /// Whether it stands for everything before it.
    pub(crate) is_sum: bool,
    /// The write-ahead logs in the bucket that are needed, by the epoch of their writer, and the
    /// first needed number of each.
    pub(crate) wal: BTreeMap<u32, u64>,
    /// Changes of kept files, in order, or all that the bucket has.
    pub(crate) files: Vec<FileRecord>,
    /// The change, or all that is live.
    pub(crate) edit: ManifestEdit,
}

/// Bytes that are no entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// They are too few.
    #[error("it is cut short")]
    Short,
    /// Another version has written it.
    #[error("an entry of kind {0}, which another version of logsvc has written")]
    Unknown(u32),
    /// A record of a file is malformed.
    #[error("it has a file that is none of those that a bucket keeps")]
    File,
    /// The edit is malformed.
    #[error(transparent)]
    Edit(#[from] EditError),
}

impl LogEntry {
    /// The payload of the entry; `None` if it has too many segments or files for one object.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let kind = match (self.is_sum, self.files.is_empty()) {
            (false, true) => KIND_EDIT,
            (true, true) => KIND_SUM,
            (false, false) => KIND_EDIT_OF_FILES,
            (true, false) => KIND_SUM_OF_FILES,
        };
        let mut out = Vec::new();
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&(self.wal.len() as u32).to_le_bytes());
        for (epoch, from) in &self.wal {
            out.extend_from_slice(&epoch.to_le_bytes());
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&from.to_le_bytes());
        }
        if !self.files.is_empty() {
            files::encode(&self.files, &mut out);
        }
        self.edit.encode(&mut out)?;
        (out.len() as u64 <= PAYLOAD_MAX_BYTES).then_some(out)
    }

    /// Whether a payload is that of a sum, by its kind.
    pub(crate) fn is_sum(payload: &[u8]) -> bool {
        let kind = payload.get(..HEADER_LEN).map(|header| u32_at(header, 0));
        matches!(kind, Some(KIND_SUM | KIND_SUM_OF_FILES))
    }

    /// Reads a payload.
    ///
    /// # Errors
    /// [`LogEntry::encode`] cannot have made it.
    pub(crate) fn decode(payload: &[u8]) -> Result<LogEntry, EntryError> {
        let header = payload.get(..HEADER_LEN).ok_or(EntryError::Short)?;
        let (is_sum, has_files) = match u32_at(header, 0) {
            KIND_EDIT => (false, false),
            KIND_SUM => (true, false),
            KIND_EDIT_OF_FILES => (false, true),
            KIND_SUM_OF_FILES => (true, true),
            kind => return Err(EntryError::Unknown(kind)),
        };
        let logs = u32_at(header, 4) as usize;
        let end = logs.checked_mul(LOG_LEN).and_then(|len| len.checked_add(HEADER_LEN));
        let end = end.filter(|&end| end <= payload.len()).ok_or(EntryError::Short)?;
        let logs = payload[HEADER_LEN..end].chunks_exact(LOG_LEN);
        let wal = logs.map(|log| (u32_at(log, 0), u64_at(log, 8))).collect();
        let rest = &payload[end..];
        let (files, rest) = if has_files { files::decode(rest)? } else { (Vec::new(), rest) };
        Ok(LogEntry { is_sum, wal, files, edit: ManifestEdit::decode(rest)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::random_edit;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn entries_read_back_and_cuts_are_errors() {
        for seed in seeds(200) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let wal = (0..rng.below(3)).map(|_| (rng.next_u64() as u32, rng.next_u64()));
            let wal = wal.collect();
            let entry = LogEntry {
                is_sum: rng.below(2) == 0,
                wal,
                files: files::random_records(&mut rng),
                edit: random_edit(&mut rng),
            };
            let payload = entry.encode().expect("it is small");
            assert_eq!(LogEntry::decode(&payload).as_ref(), Ok(&entry));
            for len in 0..payload.len() {
                LogEntry::decode(&payload[..len]).expect_err("cut short");
            }
            let mut damaged = payload.clone();
            rng.damage(&mut damaged);
            // It may decode, and must not panic.
            let _ = LogEntry::decode(&damaged);
            let mut other = payload.clone();
            other[0] = 9;
            assert_eq!(LogEntry::decode(&other), Err(EntryError::Unknown(9)));
        }
    }
}
