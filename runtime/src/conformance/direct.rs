//! Reads and writes around the page cache.

use std::io;
use std::path::PathBuf;

use futures_util::future::join_all;

use super::files::content;
use super::pattern;
use crate::{AlignedBuffer, DIRECT_BLOCK_BYTES, File, OpenMode, Runtime};

const BLOCK: usize = DIRECT_BLOCK_BYTES;

fn aligned(bytes: &[u8]) -> AlignedBuffer {
    AlignedBuffer::from(bytes)
}

pub(super) async fn files_take_whole_blocks<R: Runtime>(runtime: R, dir: PathBuf) {
    for mode in [OpenMode::CreateNewDurable, OpenMode::CreateNewDirect] {
        let path = dir.join(format!("{mode:?}"));
        let file = runtime.open(&path, mode).await.expect("a new file");
        let error = runtime.open(&path, mode).await.err().expect("it exists");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        let mut whole = Vec::new();
        for (number, blocks) in [1, 3, 700, 1].into_iter().enumerate() {
            let bytes = pattern(blocks * BLOCK + number)[number..].to_vec();
            let (result, buffer) = file.write_aligned_at(aligned(&bytes), whole.len() as u64).await;
            result.expect("write");
            assert!(buffer[..] == bytes[..], "the buffer comes back whole");
            whole.extend_from_slice(&bytes);
            let reader = runtime.open(&path, OpenMode::Read).await.expect("open");
            assert!(content(&reader).await == whole, "after {} bytes", whole.len());
            assert_eq!(file.len_bytes().await.expect("length"), whole.len() as u64);
        }
        // Neither half a block nor a place within one.
        for (len, offset) in [(BLOCK - 1, 0), (BLOCK, 1), (1, BLOCK), (BLOCK + 512, BLOCK)] {
            let bytes = aligned(&pattern(len));
            let (result, _) = file.write_aligned_at(bytes, offset as u64).await;
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        let (result, bytes) = file.write_all_at(vec![1; BLOCK], 0).await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput);
        // It is not for reading.
        assert!(file.read_at(Vec::with_capacity(BLOCK), 0).await.0.is_err());
        // A write in the middle, and none of the mistakes has done anything.
        let (result, _) = file.write_aligned_at(aligned(&bytes), BLOCK as u64).await;
        result.expect("write");
        whole[BLOCK..2 * BLOCK].copy_from_slice(&bytes);
        file.sync_data().await.expect("sync");
        let reader = runtime.open(&path, OpenMode::Read).await.expect("open");
        assert!(content(&reader).await == whole);
    }
}

pub(super) async fn files_may_end_within_a_block<R: Runtime>(runtime: R, dir: PathBuf) {
    for (number, len) in [1, BLOCK - 1, BLOCK, BLOCK + 1, 50 * BLOCK + 7].into_iter().enumerate() {
        let path = dir.join(format!("file-{number}"));
        let file = runtime.open(&path, OpenMode::CreateNewDirect).await.expect("a new file");
        let bytes = pattern(len);
        let mut buffer = aligned(&bytes);
        buffer.pad_to_block();
        file.write_aligned_at(buffer, 0).await.0.expect("write");
        file.truncate(len as u64).await.expect("cut");
        file.sync_data().await.expect("sync");
        assert_eq!(file.len_bytes().await.expect("length"), len as u64);
        drop(file);
        let reader = runtime.open(&path, OpenMode::Read).await.expect("open");
        assert!(content(&reader).await == bytes, "{len} bytes");
    }
}

pub(super) async fn operations_share_a_direct_file<R: Runtime>(runtime: R, dir: PathBuf) {
    let path = dir.join("file");
    let file = runtime.open(&path, OpenMode::CreateNewDirect).await.expect("a new file");
    let writes = (0..20_u8).map(|number| {
        let file = &file;
        async move {
            let offset = u64::from(number) * 3 * BLOCK as u64;
            file.write_aligned_at(aligned(&[number; 3 * BLOCK]), offset).await.0.expect("write");
            if number % 8 == 0 {
                file.sync_data().await.expect("sync");
            }
        }
    });
    join_all(writes).await;
    let reader = runtime.open(&path, OpenMode::Read).await.expect("open");
    let expected: Vec<u8> = (0..20_u8).flat_map(|number| [number; 3 * BLOCK]).collect();
    assert!(content(&reader).await == expected);
}

pub(super) async fn whole_blocks_are_read<R: Runtime>(runtime: R, dir: PathBuf) {
    let path = dir.join("file");
    let missing = runtime.open(&path, OpenMode::ReadDirect).await.err().expect("it is missing");
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    let whole = pattern(50 * BLOCK + 7);
    let writer = runtime.open(&path, OpenMode::CreateNew).await.expect("a new file");
    writer.write_all_at(whole.clone(), 0).await.0.expect("write");
    let file = runtime.open(&path, OpenMode::ReadDirect).await.expect("open");
    let mut buffer = AlignedBuffer::new();
    // In the middle, more than before, the end, around the end, and behind it; and nothing.
    for (count, offset) in [(1, 0), (3, 7), (40, 2), (1, 50), (9, 48), (2, 51), (0, 5)] {
        let result;
        let (count, offset) = (count * BLOCK, offset * BLOCK);
        (result, buffer) = file.read_aligned_at(buffer, count, offset as u64).await;
        result.expect("read");
        let range = offset.min(whole.len())..(offset + count).min(whole.len());
        assert!(buffer[..] == whole[range], "{count} bytes at {offset}");
    }
    // Neither half a block nor a place within one.
    for (count, offset) in [(BLOCK - 1, 0), (BLOCK, 1), (512, BLOCK)] {
        let (result, _) = file.read_aligned_at(AlignedBuffer::new(), count, offset as u64).await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
    // It is for nothing else.
    let (result, _) = file.read_at(Vec::with_capacity(BLOCK), 0).await;
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert!(file.write_aligned_at(aligned(&[1; BLOCK]), 0).await.0.is_err());
    assert!(file.write_all_at(vec![1; BLOCK], 0).await.0.is_err());
    // The reader sees concurrent writes, also in ranges that it has read before.
    writer.write_all_at(vec![7; 2 * BLOCK], BLOCK as u64 / 2).await.0.expect("write");
    let (result, buffer) = file.read_aligned_at(buffer, BLOCK, BLOCK as u64).await;
    result.expect("read");
    assert_eq!(buffer[..], [7; BLOCK]);
    drop(writer);
    // Other files that can be read give whole blocks, too.
    let file = runtime.open(&path, OpenMode::Read).await.expect("open");
    let (result, buffer) = file.read_aligned_at(buffer, 2 * BLOCK, 49 * BLOCK as u64).await;
    result.expect("read");
    assert!(buffer[..] == whole[49 * BLOCK..]);
}
