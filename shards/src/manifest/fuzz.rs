//! The manifest's decoders over arbitrary bytes; see [`crate::fuzz::manifest`]. They are private to
//! the manifest, so the body is here.

use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use logsvc_runtime::{AlignedBuffer, File};

use super::content::read_content;
use super::edit::ManifestEdit;
use super::format::{ManifestHeader, encode_checkpoint, push_frame};
use super::names::{Day, ManifestLogName, SegmentName};

/// A file in memory, for reading.
struct Bytes(Vec<u8>);

impl File for Bytes {
    async fn read_at(&self, mut buffer: Vec<u8>, offset: u64) -> (io::Result<usize>, Vec<u8>) {
        let room = buffer.capacity() - buffer.len();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let end = start.saturating_add(room).min(self.0.len());
        buffer.extend_from_slice(&self.0[start..end]);
        (Ok(end - start), buffer)
    }

    async fn read_aligned_at(
        &self,
        buffer: AlignedBuffer,
        _: usize,
        _: u64,
    ) -> (io::Result<()>, AlignedBuffer) {
        (Err(io::ErrorKind::Unsupported.into()), buffer)
    }

    async fn write_all_at(&self, buffer: Vec<u8>, _: u64) -> (io::Result<()>, Vec<u8>) {
        (Err(io::ErrorKind::ReadOnlyFilesystem.into()), buffer)
    }

    async fn write_aligned_at(
        &self,
        buffer: AlignedBuffer,
        _: u64,
    ) -> (io::Result<()>, AlignedBuffer) {
        (Err(io::ErrorKind::ReadOnlyFilesystem.into()), buffer)
    }

    async fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    async fn write_back(&self, _: Range<u64>) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    async fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    async fn truncate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    async fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

fn edits_of(bytes: Vec<u8>) -> (usize, Vec<ManifestEdit>) {
    let file = Bytes(bytes);
    let read = pin!(read_content(&file));
    let Poll::Ready(content) = read.poll(&mut Context::from_waker(Waker::noop())) else {
        unreachable!("a file in memory makes nobody wait");
    };
    let content = content.expect("a file in memory can be read");
    assert!(content.edits.is_sorted_by(|(one, _), (next, _)| one < next));
    (content.faults.len(), content.edits.into_iter().map(|(_, edit)| edit).collect())
}

pub(crate) fn check(data: &[u8]) {
    if let Ok(name) = std::str::from_utf8(data) {
        if let Some(segment) = SegmentName::parse(name) {
            assert_eq!(segment.file_name(), name);
        }
        if let Some(log) = ManifestLogName::parse(name) {
            assert_eq!(log.file_name(), name);
        }
        if let Some(day) = Day::parse(name) {
            assert_eq!(day.folder_name(), name);
            assert_eq!((Day::of(day.first_ns()), Day::of(day.last_ns())), (day, day));
        }
    }
    if let Some(header) = ManifestHeader::decode(data) {
        assert_eq!(ManifestHeader::decode(&header.encode()), Some(header));
    }
    if let Ok(edit) = ManifestEdit::decode(data) {
        // Records of different kinds may be mixed; written anew they are not.
        let mut anew = Vec::new();
        edit.encode(&mut anew).expect("no larger than it was");
        assert_eq!(anew.len(), data.len());
        assert_eq!(ManifestEdit::decode(&anew), Ok(edit));
    }
    // The contents of a file read back from a file of their own, and from a checkpoint.
    let (_, edits) = edits_of(data.to_vec());
    let mut whole = ManifestEdit::default();
    let mut log = data.get(..64).unwrap_or(&[1; 64]).to_vec();
    for (number, edit) in edits.iter().enumerate() {
        push_frame(&mut log, 0, 7, number as u64, edit).expect("no larger than it was");
        whole.added.extend(&edit.added);
        whole.covers.extend(&edit.covers);
        whole.left.extend(&edit.left);
        whole.footers.extend(&edit.footers);
        for (record, live) in
            edit.footers.iter().flat_map(|r| edit.added.iter().map(move |l| (r, l)))
        {
            if let Ok(footer) = record.read(live) {
                assert_eq!((footer.file_len, record.segment), (live.file_len, live.name));
            }
        }
    }
    let has_other_nonce = ManifestHeader::decode(&log).is_some_and(|header| header.nonce != 7);
    assert!(has_other_nonce || edits_of(log).1 == edits);
    let (faults, frames) = edits_of(encode_checkpoint(1, 2, 3, &whole));
    assert_eq!(faults, 0);
    let mut read = ManifestEdit::default();
    for frame in frames {
        read.added.extend(frame.added);
        read.covers.extend(frame.covers);
        read.left.extend(frame.left);
        read.footers.extend(frame.footers);
    }
    assert_eq!(read, whole);
}

#[cfg(test)]
mod tests {
    use super::super::edit::tests::random_edit;
    use super::*;
    use crate::manifest::format::Role;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn decoders_keep_their_word_on_damaged_and_random_bytes() {
        for seed in seeds(3_000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let name = ManifestLogName { epoch: 1, shard: 0, n: 0 };
            let role = Role::Log { name, first_edit: 0 };
            let header = ManifestHeader { role, nonce: seed, created_ns: 5 };
            let mut bytes = header.encode().to_vec();
            let edits: Vec<ManifestEdit> =
                (0..rng.below(4)).map(|_| random_edit(&mut rng)).collect();
            for (number, edit) in edits.iter().enumerate() {
                push_frame(&mut bytes, 0, seed, number as u64, edit).expect("small");
            }
            assert_eq!(edits_of(bytes.clone()), (0, edits));
            check(&bytes);
            for _ in 0..rng.between(1, 4) {
                let at = rng.below(bytes.len() as u64) as usize;
                match rng.below(4) {
                    0 => bytes.truncate(at.max(1)),
                    1 => bytes.insert(at, rng.next_u64() as u8),
                    _ => bytes[at] ^= 1 << rng.below(8),
                }
            }
            check(&bytes);
            check(&(0..rng.below(700)).map(|_| rng.next_u64() as u8).collect::<Vec<_>>());
            let mut payload = Vec::new();
            random_edit(&mut rng).encode(&mut payload).expect("small");
            check(&payload);
            let at = rng.below(payload.len() as u64) as usize;
            payload[at] ^= 1 << rng.below(8);
            check(&payload);
        }
        for name in ["2024-02-29", "manifest-00000001-00000000-0000000a.log"] {
            check(name.as_bytes());
        }
    }
}
