//! An entry of the log of common files, with its bytes as `docs/format.md` describes them.
//!
//! Guarantees: decoding meets arbitrary bytes without panic, and gives paths of kept files only, each
//! once.

use std::collections::{BTreeMap, BTreeSet};

use logsvc_segment::batch::{u32_at, u64_at};

use crate::kept::{FileObject, KeptFile, KeptPath};
use crate::ledger::{FileRecord, decode_files, encode_files};

const FORMAT: u32 = 1;
const HEAD_LEN: usize = 24;

/// Which common files there are.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommonState {
    /// The number of the entry that says so; 0 before the first.
    pub(crate) number: u64,
    /// The writer that has made it.
    pub(crate) author: u32,
    /// The number of the entry from which on the same requests for deletion hide; 0 if none ever did.
    pub(crate) hiding_since: u64,
    pub(crate) files: BTreeMap<KeptPath, KeptFile>,
    /// Objects that no file has any more, and that may still be there.
    pub(crate) gone: BTreeSet<FileObject>,
}

/// Why bytes are no entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CommonEntryError {
    /// Its end is missing, or it has more.
    #[error("its length is wrong")]
    Length,
    /// It is of a version that this program does not know.
    #[error("it was written by another version of logsvc")]
    Version,
    /// It is another entry than its name says.
    #[error("it is the entry of another number")]
    Number,
    /// It has what must not be there.
    #[error("it names what is no common file, or one twice")]
    File,
}

impl CommonState {
    /// The payload of the object.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_LEN + self.files.len() * 96);
        out.extend(FORMAT.to_le_bytes());
        out.extend(self.author.to_le_bytes());
        out.extend(self.number.to_le_bytes());
        out.extend(self.hiding_since.to_le_bytes());
        let kept = self.files.iter().map(|(path, file)| FileRecord::Kept(path.clone(), *file));
        let gone = self.gone.iter().map(|object| FileRecord::Gone(*object));
        let records: Vec<FileRecord> = kept.chain(gone).collect();
        encode_files(&records, &mut out);
        out
    }

    /// Reads the payload of the object of a number.
    pub(super) fn decode(number: u64, bytes: &[u8]) -> Result<CommonState, CommonEntryError> {
        let (head, rest) = bytes.split_at_checked(HEAD_LEN).ok_or(CommonEntryError::Length)?;
        if u32_at(head, 0) != FORMAT {
            return Err(CommonEntryError::Version);
        }
        let mut state = CommonState {
            number: u64_at(head, 8),
            author: u32_at(head, 4),
            hiding_since: u64_at(head, 16),
            ..CommonState::default()
        };
        if state.number != number || state.hiding_since > number {
            return Err(CommonEntryError::Number);
        }
        let (records, rest) = decode_files(rest).map_err(|_| CommonEntryError::File)?;
        if !rest.is_empty() {
            return Err(CommonEntryError::Length);
        }
        for record in records {
            let is_new = match record {
                FileRecord::Kept(path, file) => state.files.insert(path, file).is_none(),
                FileRecord::Gone(object) => state.gone.insert(object),
                FileRecord::Removed(_) => false,
            };
            if !is_new {
                return Err(CommonEntryError::File);
            }
        }
        Ok(state)
    }

    /// The next state, with another content of a file, or without it.
    pub(super) fn next(
        &self,
        author: u32,
        path: &KeptPath,
        file: Option<KeptFile>,
        changes_hiding: bool,
    ) -> CommonState {
        let mut next = CommonState { number: self.number + 1, author, ..self.clone() };
        let before = match file {
            Some(file) => next.files.insert(path.clone(), file),
            None => next.files.remove(path),
        };
        next.gone.extend(before.map(|file| file.object));
        if changes_hiding {
            next.hiding_since = next.number;
        }
        next
    }
}

/// The body of a fuzz target.
///
/// # Panics
/// If an entry changes on the way.
pub(crate) fn check(data: &[u8]) {
    let number = data.get(8..16).map_or(0, |bytes| u64_at(bytes, 0));
    if let Ok(state) = CommonState::decode(number, data) {
        assert_eq!(CommonState::decode(number, &state.encode()), Ok(state));
    }
}

#[cfg(test)]
mod tests {
    use logsvc_testkit::Rng;

    use super::*;
    use crate::kept::Content;

    fn file(number: u32) -> KeptFile {
        let object = FileObject { epoch: 7, number };
        KeptFile { object, content: Content { len_bytes: 5, crc: 0x0102_0304 } }
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let state = CommonState::default().next(9, &KeptPath::requests(), Some(file(3)), true);
        let mut bytes = vec![1, 0, 0, 0, 9, 0, 0, 0];
        bytes.extend([1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend([1, 0, 0, 0, 1, 0, 16, 0, 7, 0, 0, 0, 3, 0, 0, 0, 4, 3, 2, 1]);
        bytes.extend([5, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend(b"deletes/REQUESTS");
        assert_eq!(state.encode(), bytes);
        assert_eq!(CommonState::decode(1, &bytes), Ok(state));
        assert_eq!(CommonState::decode(2, &bytes), Err(CommonEntryError::Number));
    }

    #[test]
    fn each_entry_says_everything() {
        let group = KeptPath::parse(&format!("rules/groups/t/{:032x}", 5)).expect("a path");
        let first = CommonState::default().next(9, &KeptPath::requests(), Some(file(3)), true);
        let second = first.next(9, &group, Some(file(4)), false);
        assert_eq!((second.number, second.hiding_since, second.files.len()), (2, 1, 2));
        let third = second.next(10, &KeptPath::requests(), Some(file(5)), true);
        assert_eq!((third.hiding_since, third.gone.clone()), (3, [file(3).object].into()));
        let fourth = third.next(10, &group, None, false);
        assert_eq!((fourth.files.len(), fourth.gone.len()), (1, 2));
        assert_eq!(CommonState::decode(4, &fourth.encode()), Ok(fourth));
    }

    #[test]
    fn other_bytes_are_errors() {
        let mut rng = Rng::new(5);
        let state = CommonState::default().next(9, &KeptPath::requests(), Some(file(3)), true);
        let bytes = state.encode();
        for len in 0..bytes.len() {
            assert!(CommonState::decode(1, &bytes[..len]).is_err(), "{len}");
        }
        for _ in 0..20_000 {
            let mut changed = bytes.clone();
            let at = rng.below(bytes.len() as u64) as usize;
            changed[at] = rng.next_u64() as u8;
            check(&changed);
        }
    }
}
