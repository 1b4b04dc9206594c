//! What an entry of a writer's log says of kept files, with its bytes as `docs/format.md` describes
//! them.
//!
//! Guarantees: decoding meets arbitrary bytes without panic, and gives paths of kept files only, with
//! lengths that such files may have.

use logsvc_segment::batch::{u32_at, u64_at};

use super::entry::EntryError;
use crate::kept::{Content, FileObject, KeptFile, KeptPath};

const KIND_KEPT: u8 = 1;
const KIND_REMOVED: u8 = 2;
const KIND_GONE: u8 = 3;
const RECORD_LEN: usize = 24;
const COUNT_LEN: usize = 4;

/// A change of a kept file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FileRecord {
    /// The file has this content from here on.
    Kept(KeptPath, KeptFile),
    /// The file is gone from here on.
    Removed(KeptPath),
    /// No file has this object any more, and it may still be there.
    Gone(FileObject),
}

/// Appends records, with their number before them.
pub(crate) fn encode(records: &[FileRecord], out: &mut Vec<u8>) {
    out.extend_from_slice(&(records.len() as u32).to_le_bytes());
    let none = FileObject { epoch: 0, number: 0 };
    let empty = Content { len_bytes: 0, crc: 0 };
    for record in records {
        let (kind, path, object, content) = match record {
            FileRecord::Kept(path, file) => (KIND_KEPT, path.as_str(), file.object, file.content),
            FileRecord::Removed(path) => (KIND_REMOVED, path.as_str(), none, empty),
            FileRecord::Gone(object) => (KIND_GONE, "", *object, empty),
        };
        out.extend_from_slice(&[kind, 0]);
        out.extend_from_slice(&(path.len() as u16).to_le_bytes());
        out.extend_from_slice(&object.epoch.to_le_bytes());
        out.extend_from_slice(&object.number.to_le_bytes());
        out.extend_from_slice(&content.crc.to_le_bytes());
        out.extend_from_slice(&content.len_bytes.to_le_bytes());
        out.extend_from_slice(path.as_bytes());
    }
}

/// Reads records, and gives the bytes behind them.
pub(crate) fn decode(bytes: &[u8]) -> Result<(Vec<FileRecord>, &[u8]), EntryError> {
    let (count, mut rest) = bytes.split_at_checked(COUNT_LEN).ok_or(EntryError::Short)?;
    let count = u32_at(count, 0) as usize;
    // No memory by a number that is only claimed.
    if count > rest.len() / RECORD_LEN {
        return Err(EntryError::Short);
    }
    let mut records = Vec::with_capacity(count);
    for _ in 0..count {
        let (head, behind) = rest.split_at_checked(RECORD_LEN).ok_or(EntryError::Short)?;
        let path_len = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let (path, behind) = behind.split_at_checked(path_len).ok_or(EntryError::Short)?;
        records.push(decode_record(head, path).ok_or(EntryError::File)?);
        rest = behind;
    }
    Ok((records, rest))
}

fn decode_record(head: &[u8], path: &[u8]) -> Option<FileRecord> {
    let object = FileObject { epoch: u32_at(head, 4), number: u32_at(head, 8) };
    if head[0] == KIND_GONE {
        return path.is_empty().then_some(FileRecord::Gone(object));
    }
    let path = KeptPath::parse(std::str::from_utf8(path).ok()?)?;
    match head[0] {
        KIND_KEPT => {
            let content = Content { crc: u32_at(head, 12), len_bytes: u64_at(head, 16) };
            let fits = content.len_bytes <= path.max_bytes() as u64;
            fits.then_some(FileRecord::Kept(path, KeptFile { object, content }))
        }
        KIND_REMOVED => Some(FileRecord::Removed(path)),
        _ => None,
    }
}

#[cfg(test)]
pub(crate) fn random_records(rng: &mut logsvc_testkit::Rng) -> Vec<FileRecord> {
    let path = |rng: &mut logsvc_testkit::Rng| {
        let group = format!("rules/groups/t{}/{:032x}", rng.below(3), rng.below(4));
        let path = if rng.one_in(3) { "deletes/REQUESTS".to_owned() } else { group };
        KeptPath::parse(&path).expect("a path")
    };
    let object = |rng: &mut logsvc_testkit::Rng| FileObject {
        epoch: rng.next_u64() as u32,
        number: rng.next_u64() as u32,
    };
    let record = |rng: &mut logsvc_testkit::Rng| match rng.below(3) {
        0 => {
            let content = Content { len_bytes: rng.below(8 << 20), crc: rng.next_u64() as u32 };
            FileRecord::Kept(path(rng), KeptFile { object: object(rng), content })
        }
        1 => FileRecord::Removed(path(rng)),
        _ => FileRecord::Gone(object(rng)),
    };
    (0..rng.below(4)).map(|_| record(rng)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, len_bytes: u64, path: &str) -> Vec<u8> {
        let mut bytes = vec![1, 0, 0, 0, kind, 0];
        bytes.extend((path.len() as u16).to_le_bytes());
        bytes.extend([7, 0, 0, 0, 9, 0, 0, 0, 4, 3, 2, 1]);
        bytes.extend(len_bytes.to_le_bytes());
        bytes.extend(path.as_bytes());
        bytes
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let object = FileObject { epoch: 7, number: 9 };
        let content = Content { len_bytes: 5, crc: 0x0102_0304 };
        let kept = FileRecord::Kept(KeptPath::requests(), KeptFile { object, content });
        let mut bytes = Vec::new();
        encode(std::slice::from_ref(&kept), &mut bytes);
        assert_eq!(bytes, record(1, 5, "deletes/REQUESTS"));
        assert_eq!(decode(&bytes), Ok((vec![kept], &[][..])));
    }

    #[test]
    fn a_record_that_would_write_elsewhere_is_an_error() {
        let others = [
            record(1, 5, "deletes/../LOCK"),
            record(1, 5, "/deletes/REQUESTS"),
            record(1, 5, ""),
            record(2, 0, "BUCKET"),
            record(1, (16 << 20) + 1, "deletes/REQUESTS"),
            record(1, (8 << 20) + 1, "rules/groups/t/9bc5565e43a832094d18dc6ed55604ea"),
            record(3, 0, "deletes/REQUESTS"),
            record(4, 0, "deletes/REQUESTS"),
        ];
        for other in others {
            assert_eq!(decode(&other), Err(EntryError::File));
        }
        assert_eq!(decode(&u32::MAX.to_le_bytes()), Err(EntryError::Short), "no such memory");
    }
}
