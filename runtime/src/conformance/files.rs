//! Content of files.

use std::io;
use std::path::{Path, PathBuf};

use futures_util::future::{join, join_all};

use super::pattern;
use crate::{AlignedBuffer, DIRECT_BLOCK_BYTES, File, OpenMode, Runtime};

async fn new_file<R: Runtime>(runtime: &R, path: &Path, content: &[u8]) -> R::File {
    let file = runtime.open(path, OpenMode::CreateNew).await.expect("a new file");
    let (result, buffer) = file.write_all_at(content.to_vec(), 0).await;
    result.expect("write");
    assert_eq!(buffer, content, "the buffer comes back whole");
    file
}

pub(super) async fn content<F: File>(file: &F) -> Vec<u8> {
    let len_bytes = file.len_bytes().await.expect("length");
    let (result, buffer) = file.read_exact_at(Vec::new(), 0, len_bytes as usize).await;
    result.expect("read");
    buffer
}

pub(super) async fn create_new_wants_no_file<R: Runtime>(runtime: R, dir: PathBuf) {
    let path = dir.join("file");
    drop(new_file(&runtime, &path, b"first").await);
    let error = runtime.open(&path, OpenMode::CreateNew).await.err().expect("it exists");
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    let file = runtime.open(&path, OpenMode::ReadWrite).await.expect("open");
    assert_eq!(content(&file).await, b"first");
}

pub(super) async fn missing_files_are_not_found<R: Runtime>(runtime: R, dir: PathBuf) {
    let path = dir.join("missing");
    for mode in [OpenMode::Read, OpenMode::ReadPieces, OpenMode::ReadWrite] {
        let error = runtime.open(&path, mode).await.err().expect("it is missing");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
    let error = runtime.read_file(&path, 10).await.unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

pub(super) async fn reads_and_writes_at_positions<R: Runtime>(runtime: R, dir: PathBuf) {
    let file = new_file(&runtime, &dir.join("file"), b"0123456789").await;
    file.write_all_at(b"abc".to_vec(), 4).await.0.expect("write");
    assert_eq!(content(&file).await, b"0123abc789");
    // Beyond the end: the gap reads as zeros.
    file.write_all_at(b"Z".to_vec(), 12).await.0.expect("write");
    assert_eq!(content(&file).await, b"0123abc789\0\0Z");
    file.write_all_at(Vec::new(), 100).await.0.expect("an empty write");
    assert_eq!(file.len_bytes().await.expect("length"), 13);
    file.sync_data().await.expect("sync");
    let (result, buffer) = file.read_exact_at(Vec::new(), 3, 5).await;
    result.expect("read");
    assert_eq!(buffer, b"3abc7");
    let pieces = runtime.open(&dir.join("file"), OpenMode::ReadPieces).await.expect("open");
    let (result, buffer) = pieces.read_exact_at(Vec::new(), 3, 5).await;
    result.expect("read");
    assert_eq!(buffer, b"3abc7");
    pieces.write_all_at(b"x".to_vec(), 0).await.0.expect_err("it is for reading only");
    let large = pattern(3 << 20);
    file.write_all_at(large.clone(), 1).await.0.expect("write");
    file.sync_data().await.expect("sync");
    let (result, buffer) = file.read_exact_at(Vec::new(), 1, large.len()).await;
    result.expect("read");
    assert!(buffer == large, "a large write reads back changed");
}

pub(super) async fn reads_append_and_keep_the_prefix<R: Runtime>(runtime: R, dir: PathBuf) {
    let file = new_file(&runtime, &dir.join("file"), b"0123456789").await;
    let mut buffer = Vec::with_capacity(8);
    buffer.extend_from_slice(b"pre:");
    let capacity = buffer.capacity();
    while buffer.len() < capacity.min(14) {
        let done = buffer.len() - 4;
        let (result, returned) = file.read_at(buffer, done as u64).await;
        let count = result.expect("read");
        assert!(count > 0);
        assert_eq!(returned.capacity(), capacity, "a read grows no buffer");
        assert_eq!(returned.len(), 4 + done + count);
        buffer = returned;
    }
    assert_eq!(buffer[..4], *b"pre:");
    assert_eq!(buffer[4..], b"0123456789"[..buffer.len() - 4]);
    let full = buffer.clone();
    let mut full_buffer = buffer;
    full_buffer.shrink_to_fit();
    if full_buffer.capacity() == full_buffer.len() {
        let (result, returned) = file.read_at(full_buffer, 0).await;
        assert_eq!((result.expect("no room is no error"), returned), (0, full));
    }
    let (result, buffer) = file.read_exact_at(b"x".to_vec(), 7, 3).await;
    result.expect("read");
    assert_eq!(buffer, b"x789");
}

pub(super) async fn the_end_of_the_file<R: Runtime>(runtime: R, dir: PathBuf) {
    let file = new_file(&runtime, &dir.join("file"), b"0123456789").await;
    for offset in [10, 11, 1 << 40] {
        let (result, buffer) = file.read_at(Vec::with_capacity(4), offset).await;
        assert_eq!((result.expect("the end is no error"), buffer), (0, Vec::new()));
    }
    let (result, _) = file.read_exact_at(Vec::new(), 8, 3).await;
    assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    let (result, buffer) = file.read_exact_at(Vec::new(), 8, 2).await;
    result.expect("just enough");
    assert_eq!(buffer, b"89");
}

pub(super) async fn allocate_extends_with_zeros<R: Runtime>(runtime: R, dir: PathBuf) {
    let file = new_file(&runtime, &dir.join("file"), b"abc").await;
    file.allocate(10_000).await.expect("allocate");
    assert_eq!(file.len_bytes().await.expect("length"), 10_000);
    let bytes = content(&file).await;
    assert_eq!(bytes[..3], *b"abc");
    assert!(bytes[3..].iter().all(|byte| *byte == 0));
    file.allocate(5).await.expect("a shorter length changes nothing");
    assert_eq!(file.len_bytes().await.expect("length"), 10_000);
    file.sync_data().await.expect("sync");
}

pub(super) async fn truncate_cuts_and_extends<R: Runtime>(runtime: R, dir: PathBuf) {
    let file = new_file(&runtime, &dir.join("file"), b"0123456789").await;
    file.truncate(4).await.expect("cut");
    assert_eq!(content(&file).await, b"0123");
    file.truncate(6).await.expect("extend");
    assert_eq!(content(&file).await, b"0123\0\0");
    file.truncate(0).await.expect("cut");
    assert_eq!(file.len_bytes().await.expect("length"), 0);
    file.sync_data().await.expect("sync");
}

pub(super) async fn operations_share_a_file<R: Runtime>(runtime: R, dir: PathBuf) {
    let file = new_file(&runtime, &dir.join("file"), b"").await;
    let writes = (0..40_u8).map(|number| {
        let file = &file;
        async move {
            let offset = u64::from(number) * 100;
            file.write_all_at(vec![number; 100], offset).await.0.expect("write");
            if number % 8 == 0 {
                file.sync_data().await.expect("sync");
            }
            let (result, buffer) = file.read_exact_at(Vec::new(), offset, 100).await;
            result.expect("read");
            assert_eq!(buffer, [number; 100]);
        }
    });
    join_all(writes).await;
    let expected: Vec<u8> = (0..40_u8).flat_map(|number| [number; 100]).collect();
    assert_eq!(content(&file).await, expected);
}

pub(super) async fn aligned_memory_goes_to_any_file<R: Runtime>(runtime: R, dir: PathBuf) {
    let file = new_file(&runtime, &dir.join("file"), b"0123456789").await;
    let (result, buffer) = file.write_aligned_at(AlignedBuffer::from(&b"abc"[..]), 4).await;
    result.expect("write");
    assert_eq!(buffer[..], *b"abc");
    assert_eq!(content(&file).await, b"0123abc789");
    let (result, _) = file.write_aligned_at(buffer, u64::MAX).await;
    assert!(result.is_err());
}

pub(super) async fn writing_back_changes_nothing<R: Runtime>(runtime: R, dir: PathBuf) {
    let bytes = pattern(300_000);
    let file = new_file(&runtime, &dir.join("file"), &bytes).await;
    // The whole, a part within pages, an empty range, and ranges at and behind the end.
    let (len, end) = (bytes.len() as u64, i64::MAX as u64);
    for range in [0..len, 5000..5001, 100_000..250_000, 7..7, len..len, len..end, end..end] {
        file.write_back(range.clone()).await.unwrap_or_else(|error| panic!("{range:?}: {error}"));
    }
    assert!(content(&file).await == bytes, "the same content and length");
    // It goes on beside writes, and is no end of them.
    let (first, second) =
        join(file.write_back(0..len), file.write_all_at(b"changed".to_vec(), 4090)).await;
    first.expect("write back");
    second.0.expect("write");
    file.sync_data().await.expect("sync");
    let mut expected = bytes;
    expected[4090..4097].copy_from_slice(b"changed");
    assert!(content(&file).await == expected);
    // A file without pages has nothing to be brought anywhere.
    let direct = runtime.open(&dir.join("direct"), OpenMode::CreateNewDurable).await.expect("new");
    let block = AlignedBuffer::from(&pattern(DIRECT_BLOCK_BYTES)[..]);
    direct.write_aligned_at(block, 0).await.0.expect("write");
    direct.write_back(0..DIRECT_BLOCK_BYTES as u64).await.expect("nothing to do");
    // Offsets that do not exist say so, and lose nothing.
    assert!(file.write_back(0..u64::MAX).await.is_err());
    file.sync_data().await.expect("sync");
}

pub(super) async fn read_only_files_refuse_writes<R: Runtime>(runtime: R, dir: PathBuf) {
    let path = dir.join("file");
    drop(new_file(&runtime, &path, b"fixed").await);
    let file = runtime.open(&path, OpenMode::Read).await.expect("open");
    let (result, buffer) = file.write_all_at(b"changed".to_vec(), 0).await;
    assert!(result.is_err());
    assert_eq!(buffer, b"changed");
    assert_eq!(content(&file).await, b"fixed");
}

pub(super) async fn impossible_offsets_are_errors<R: Runtime>(runtime: R, dir: PathBuf) {
    // A ring takes an offset of -1 for the file's own position.
    let file = new_file(&runtime, &dir.join("file"), b"0123456789").await;
    for offset in [u64::MAX, 1 << 63] {
        let (result, buffer) = file.read_at(Vec::with_capacity(4), offset).await;
        assert!(result.is_err() && buffer.is_empty(), "read at {offset}");
        let (result, buffer) = file.write_all_at(b"x".to_vec(), offset).await;
        assert!(result.is_err() && buffer == b"x", "write at {offset}");
    }
    assert_eq!(content(&file).await, b"0123456789");
}
