//! Tails: the ends of segments whose own files are not kept on the local disk.
//!
//! A tail has the bytes of a segment from its filters to its end: filters, stream table, label index,
//! directory and footer. So filters, labels and directories are asked on the local disk, and only
//! columns in the bucket. `docs/format.md` has the bytes of the file.
//!
//! Guarantees: a tail gets its name when it is complete and on stable storage, and its filters and its
//! directory match the checksums in the footer. A tail follows from the segment: one that is lost or
//! damaged costs requests, and no answer. Opening one checks its header and its length. Each of its
//! parts has a checksum of its own; when one does not match, the next who opens the tail checks all
//! of its bytes, and removes it if they are damaged. Memory is that of [`COPIES_AT_ONCE`] pieces.
//!
//! Failures: a tail is not written if the disk or the source refuses, or if the source is damaged.

use std::io;
use std::ops::Range;
use std::path::Path;

use futures_util::stream::{self, StreamExt};
use logsvc_runtime::{File, OpenMode, Runtime, temporary_path};

use super::{SealedSegment, SegmentSource};
use crate::manifest::{FooterRecord, LiveSegment, SegmentName};
use logsvc_segment::batch::{u32_at, u64_at};
use logsvc_segment::{FOOTER_LEN, Footer};

const MAGIC: [u8; 8] = *b"LSVCTAIL";
const VERSION: u32 = 1;

/// Length of the header in bytes.
const HEADER_LEN: usize = 64;

/// Where the header has its checksum.
const CRC_AT: Range<usize> = 12..16;

/// Bytes that are copied or checked at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Pieces that are on their way at the same time.
const COPIES_AT_ONCE: usize = 4;

/// The end of a segment on the local disk.
pub(super) struct Tail<R: Runtime> {
    file: R::File,
    /// Where it begins in the segment.
    offset: u64,
}

impl<R: Runtime> Tail<R> {
    /// The tail of a segment, if there is one that can be used. A damaged one is removed.
    pub(super) async fn open(runtime: &R, segment: &SealedSegment) -> Option<Tail<R>> {
        let path = segment.tail_path();
        let (fault, is_damaged) = match open(runtime, segment, &path).await {
            Ok(tail) => return Some(tail),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                let is_damaged = matches!(
                    error.kind(),
                    io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
                );
                (error, is_damaged)
            }
        };
        tracing::warn!(
            error = %fault, file = %path.display(), is_removed = is_damaged,
            "the end of a segment is read from the bucket: its local copy is of no use"
        );
        if is_damaged {
            if let Err(error) = runtime.remove_file(&path).await {
                tracing::warn!(%error, file = %path.display(), "a damaged file cannot be removed");
            }
            // Other cores may have it open.
            segment.local.note_change();
        }
        None
    }

    /// Whether it has a range of the segment.
    pub(super) fn has(&self, range: &Range<u64>) -> bool {
        range.start >= self.offset
    }

    /// Appends a range of the segment to `buffer`, as [`File::read_exact_at`] does.
    pub(super) async fn read_exact_at(
        &self,
        buffer: Vec<u8>,
        range: Range<u64>,
    ) -> (io::Result<()>, Vec<u8>) {
        let offset = HEADER_LEN as u64 + (range.start - self.offset);
        self.file.read_exact_at(buffer, offset, (range.end - range.start) as usize).await
    }
}

async fn open<R: Runtime>(
    runtime: &R,
    segment: &SealedSegment,
    path: &Path,
) -> io::Result<Tail<R>> {
    let file = runtime.open(path, OpenMode::ReadPieces).await?;
    let (result, bytes) = file.read_exact_at(Vec::new(), 0, HEADER_LEN).await;
    result?;
    let header = Header::decode(&bytes)?;
    let expected = Header::of(segment, header.bytes_crc);
    if header != expected {
        return Err(damaged("it is that of another segment"));
    }
    if file.len_bytes().await? != HEADER_LEN as u64 + header.len_bytes() {
        return Err(damaged("it has another length"));
    }
    let tail = Tail { file, offset: header.offset };
    if segment.local.is_tail_suspect() {
        check(&tail, &header).await?;
        segment.local.trust_tail();
    }
    Ok(tail)
}

/// Checks all bytes of a tail.
async fn check<R: Runtime>(tail: &Tail<R>, header: &Header) -> io::Result<()> {
    let (mut crc, mut buffer) = (0, Vec::new());
    for piece in pieces(header.offset..header.file_len) {
        buffer.clear();
        let result;
        (result, buffer) = tail.read_exact_at(buffer, piece).await;
        result?;
        crc = crc32c::crc32c_append(crc, &buffer);
    }
    if crc != header.bytes_crc {
        return Err(damaged("the checksum does not match"));
    }
    Ok(())
}

/// Verifies all bytes of the tail at `path`, which is to be that of a segment; gives its length.
///
/// # Errors
/// It cannot be read, is damaged, or is that of another segment.
pub(crate) async fn verify_tail<R: Runtime>(
    runtime: &R,
    path: &Path,
    live: &LiveSegment,
    footer: Option<&FooterRecord>,
) -> io::Result<u64> {
    let file = runtime.open(path, OpenMode::Read).await?;
    let (result, bytes) = file.read_exact_at(Vec::new(), 0, HEADER_LEN).await;
    result?;
    let header = Header::decode(&bytes)?;
    let len_bytes = HEADER_LEN as u64 + header.len_bytes();
    if header.name != live.name || header.file_len != live.file_len {
        return Err(damaged("it is that of another segment"));
    }
    if file.len_bytes().await? != len_bytes {
        return Err(damaged("it has another length"));
    }
    let tail = Tail::<R> { file, offset: header.offset };
    check(&tail, &header).await?;
    let end = header.file_len.saturating_sub(FOOTER_LEN as u64)..header.file_len;
    let (result, bytes) = tail.read_exact_at(Vec::new(), end).await;
    result?;
    match Footer::parse(&bytes, header.file_len) {
        Ok(own) if own.filters_offset != header.offset => {
            Err(damaged("it begins at another byte than its footer says"))
        }
        Ok(_) if footer.is_some_and(|footer| footer.bytes != bytes[..]) => {
            Err(damaged("its footer is not the one in the manifest"))
        }
        Ok(_) => Ok(len_bytes),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error.to_string())),
    }
}

fn damaged(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

fn pieces(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let starts = (range.start..range.end).step_by(PIECE_BYTES as usize);
    starts.map(move |start| start..range.end.min(start + PIECE_BYTES))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    name: SegmentName,
    /// Where the tail begins in the segment.
    offset: u64,
    /// Length of the segment's own file.
    file_len: u64,
    /// CRC of the bytes behind the header.
    bytes_crc: u32,
}

impl Header {
    fn of(segment: &SealedSegment, bytes_crc: u32) -> Header {
        let Footer { filters_offset, file_len, .. } = segment.footer;
        Header { name: segment.live.name, offset: filters_offset, file_len, bytes_crc }
    }

    fn len_bytes(&self) -> u64 {
        self.file_len.saturating_sub(self.offset)
    }

    fn encode(&self) -> Vec<u8> {
        let SegmentName { epoch, shards, shard, seq } = self.name;
        let mut out = Vec::with_capacity(HEADER_LEN);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend([0; 4]);
        [epoch, shards, shard, seq].iter().for_each(|number| out.extend(number.to_le_bytes()));
        let places = [self.offset, self.file_len, self.len_bytes()];
        places.iter().for_each(|number| out.extend(number.to_le_bytes()));
        out.extend(self.bytes_crc.to_le_bytes());
        out.resize(HEADER_LEN, 0);
        let crc = crc32c::crc32c(&out);
        out[CRC_AT].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads a header of [`HEADER_LEN`] bytes.
    fn decode(bytes: &[u8]) -> io::Result<Header> {
        let number = |at| u32_at(bytes, at);
        if bytes[..8] != MAGIC || number(8) != VERSION {
            return Err(damaged("it is no end of a segment of this version"));
        }
        let name = SegmentName {
            epoch: number(16),
            shards: number(20),
            shard: number(24),
            seq: number(28),
        };
        let header = Header {
            name,
            offset: u64_at(bytes, 32),
            file_len: u64_at(bytes, 40),
            bytes_crc: number(56),
        };
        if header.encode() != bytes {
            return Err(damaged("the header does not match its checksum"));
        }
        Ok(header)
    }
}

/// Writes the tail of a segment, durably; gives the length of its file in bytes. Another tail of the
/// segment is replaced.
///
/// # Errors
/// The source or the disk refuses, or the source does not match the footer of the segment. Then
/// there is no new tail, or one that may be gone after a power loss.
pub(crate) async fn write_tail<R: Runtime>(
    runtime: &R,
    segment: &SealedSegment,
    source: &SegmentSource<R>,
) -> io::Result<u64> {
    let path = segment.tail_path();
    let temporary = temporary_path(&path);
    let folder = path.parent().unwrap_or(Path::new("."));
    runtime.create_dir_all(folder).await?;
    let written = async {
        let len_bytes = copy(runtime, segment, source, &temporary).await?;
        runtime.rename(&temporary, &path).await?;
        Ok(len_bytes)
    };
    let len_bytes = match written.await {
        Ok(len_bytes) => len_bytes,
        Err(error) => {
            // What is left is removed by the next attempt, or the next start.
            let _ = runtime.remove_file(&temporary).await;
            return Err(error);
        }
    };
    runtime.sync_dir(folder).await?;
    runtime.sync_dir(folder.parent().unwrap_or(Path::new("."))).await?;
    Ok(len_bytes)
}

async fn copy<R: Runtime>(
    runtime: &R,
    segment: &SealedSegment,
    source: &SegmentSource<R>,
    temporary: &Path,
) -> io::Result<u64> {
    match runtime.remove_file(temporary).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = runtime.open(temporary, OpenMode::CreateNew).await?;
    let footer = &segment.footer;
    let range = footer.filters_offset..footer.file_len;
    let mut sums = Sums::new(footer);
    let mut at = HEADER_LEN as u64;
    let read = |piece: Range<u64>| async move {
        let len = (piece.end - piece.start) as usize;
        let (result, bytes) = source.read_exact_at(Vec::new(), piece.start, len).await;
        result.map(|()| bytes)
    };
    let mut copies = stream::iter(pieces(range).map(read)).buffered(COPIES_AT_ONCE);
    while let Some(piece) = copies.next().await {
        let piece = piece?;
        sums.add(&piece);
        let len = piece.len() as u64;
        file.write_all_at(piece, at).await.0?;
        at += len;
    }
    let header = Header::of(segment, sums.finish(footer)?);
    file.write_all_at(header.encode(), 0).await.0?;
    file.sync_data().await?;
    Ok(at)
}

/// Checksums of the bytes that go into a tail.
struct Sums {
    /// Where the next bytes stand in the segment.
    at: u64,
    all: u32,
    /// Those of the filters and of the directory.
    parts: [(Range<u64>, u32); 2],
    /// The last bytes.
    footer: Vec<u8>,
}

impl Sums {
    fn new(footer: &Footer) -> Sums {
        let parts = [(footer.filters_range(), 0), (footer.directory_range(), 0)];
        Sums { at: footer.filters_offset, all: 0, parts, footer: Vec::new() }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.all = crc32c::crc32c_append(self.all, bytes);
        let (start, end) = (self.at, self.at + bytes.len() as u64);
        let within = |range: &Range<u64>| {
            let of = |at: u64| (at.clamp(start, end) - start) as usize;
            &bytes[of(range.start)..of(range.end)]
        };
        for (range, crc) in &mut self.parts {
            *crc = crc32c::crc32c_append(*crc, within(range));
        }
        let footer_start = self.parts[1].0.end;
        self.footer.extend_from_slice(within(&(footer_start..u64::MAX)));
        self.at = end;
    }

    /// The checksum of all bytes, if they are those of a segment with this footer.
    fn finish(self, footer: &Footer) -> io::Result<u32> {
        let [(_, filters_crc), (_, directory_crc)] = self.parts;
        let says = Footer::parse(&self.footer, footer.file_len);
        let is_whole = self.footer.len() == FOOTER_LEN
            && says.as_ref() == Ok(footer)
            && (filters_crc, directory_crc) == (footer.filters_crc, footer.directory_crc);
        if !is_whole {
            return Err(damaged("the end of the segment does not match its footer"));
        }
        Ok(self.all)
    }
}

#[cfg(test)]
mod tests;
