//! Copies bytes of log files that recovery cannot use, and makes the rest durable.
//!
//! Guarantees: a copy in the quarantine folder is there whole or not at all.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

use logsvc_runtime::{File, OpenMode, Runtime};

use super::frames::{FrameReader, Frames};
use super::planned::PlannedFile;

/// Copies a range of a file so that the copy is there whole or not at all.
pub(super) async fn keep_copy<R: Runtime>(
    runtime: &R,
    file: &R::File,
    range: Range<u64>,
    folder: &Path,
    copy: &Path,
) -> io::Result<()> {
    match runtime.open(copy, OpenMode::Read).await {
        // An earlier start met the same damage.
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    // Two shards may copy the same bytes at the same time.
    let mut temporary = copy.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", runtime.core().0));
    let temporary = PathBuf::from(temporary);
    match runtime.remove_file(&temporary).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let target = runtime.open(&temporary, OpenMode::CreateNew).await?;
    let range = range.start..range.end.min(file.len_bytes().await?);
    copy_bytes(file, range, &target, 0).await?;
    target.sync_data().await?;
    runtime.rename(&temporary, copy).await?;
    runtime.sync_dir(folder).await
}

/// Makes the kernel take the end of a file, `tail`, and the file's length for changed.
pub(super) async fn write_again<F: File>(
    file: &F,
    tail: Range<u64>,
    file_len: u64,
) -> io::Result<()> {
    if tail.is_empty() {
        return Ok(());
    }
    copy_bytes(file, tail.clone(), file, tail.start).await?;
    // Not the other way round: a crash in between must not take anything away.
    file.truncate(file_len + 1).await?;
    file.truncate(file_len).await
}

/// The range of the bytes behind the last good frame of a file that may be a frame that was not
/// written to its end; empty if there is none.
pub(super) async fn torn_frame<F: File>(
    file: &F,
    planned: &PlannedFile,
    tail: Range<u64>,
) -> io::Result<Range<u64>> {
    let none = tail.start..tail.start;
    let mut reader = FrameReader::new(file, Frames::Any, tail.end);
    let mut offset = tail.start;
    let mut is_empty = true;
    while is_empty && offset < tail.end {
        let piece = reader.bytes(offset, TORN_PIECE_BYTES).await?;
        is_empty = piece.iter().all(|byte| *byte == 0);
        offset += TORN_PIECE_BYTES as u64;
    }
    if is_empty {
        return Ok(none);
    }
    if !planned.is_reused {
        return Ok(tail);
    }
    // An older file's frames are behind. A frame of this file has its nonce, unless the sector
    // with its header is the one that was not written.
    let sector = reader.bytes(tail.start, 512).await?;
    let has_nonce = planned
        .nonce
        .is_some_and(|nonce| sector.get(8..16).is_some_and(|bytes| bytes == nonce.to_le_bytes()));
    if !has_nonce && sector.iter().any(|byte| *byte != 0) {
        return Ok(none);
    }
    let older = reader.find_frame(tail.start, 0).await?;
    Ok(tail.start..older.map_or(tail.end, |(found, _)| found))
}

/// How many bytes of a torn tail are looked at together.
const TORN_PIECE_BYTES: usize = 64 << 10;

/// Writes the bytes of a range of `source` to `target`, from `target_offset` on.
async fn copy_bytes<F: File>(
    source: &F,
    range: Range<u64>,
    target: &F,
    target_offset: u64,
) -> io::Result<()> {
    let mut offset = range.start;
    let mut buffer = Vec::new();
    while offset < range.end {
        let chunk_len = (range.end - offset).min(1 << 20) as usize;
        buffer.clear();
        let (result, read) = source.read_exact_at(buffer, offset, chunk_len).await;
        result?;
        let (result, written) =
            target.write_all_at(read, target_offset + (offset - range.start)).await;
        result?;
        buffer = written;
        offset += chunk_len as u64;
    }
    Ok(())
}
