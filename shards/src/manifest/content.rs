//! Reads one file of the manifest.
//!
//! Memory: the edits of the file, and a read-ahead chunk or one frame. Arbitrary bytes give
//! edits that check, faults, or a torn end, and never a panic.

use std::io;

use logsvc_runtime::File;

use crate::wal::format::{FRAME_HEADER_LEN, FrameHeader};
use crate::wal::frames::{FrameReader, Frames};
use logsvc_segment::version::UnknownPart;

use super::edit::{EditError, ManifestEdit};
use super::format::{MANIFEST_HEADER_LEN, ManifestHeader, SECTOR_LEN, next_frame_offset};

/// The contents of a file.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// `None` if it does not check.
    pub(super) header: Option<ManifestHeader>,
    /// Edits with their numbers, which ascend.
    pub(super) edits: Vec<(u64, ManifestEdit)>,
    /// Places of damage.
    pub(super) faults: Vec<(u64, &'static str)>,
    /// Whether the last append was cut short by a crash.
    pub(super) is_torn: bool,
    /// The part that another version of the program has written. Without a header that is known,
    /// nothing else is read.
    pub(super) unknown: Option<UnknownPart>,
}

/// Reads a file.
///
/// # Errors
/// It cannot be read. Damage is not an error but reported in [`Content::faults`].
pub(super) async fn read_content<F: File>(file: &F) -> io::Result<Content> {
    let file_len = file.len_bytes().await?;
    let mut content = Content::default();
    let first_len = file_len.min(SECTOR_LEN) as usize;
    let (result, first) = file.read_exact_at(Vec::new(), 0, first_len).await;
    result?;
    content.header = ManifestHeader::decode(&first);
    content.unknown = ManifestHeader::unknown_version(&first);
    if content.unknown.is_some() {
        return Ok(content);
    }
    if content.header.is_some() && first[MANIFEST_HEADER_LEN..].iter().any(|byte| *byte != 0) {
        content.faults.push((MANIFEST_HEADER_LEN as u64, "a gap is not empty"));
    }
    let nonce = content.header.map(|header| header.nonce);
    let mut reader = FrameReader::new(file, nonce.map_or(Frames::Any, Frames::Of), file_len);
    let mut offset = next_frame_offset(MANIFEST_HEADER_LEN as u64);
    let mut min_number = 0;
    if nonce.is_none() {
        if first.len() < MANIFEST_HEADER_LEN || first.iter().all(|byte| *byte == 0) {
            // Nothing in it was ever acknowledged.
            content.is_torn = true;
            return Ok(content);
        }
        content.faults.push((0, "the header does not check"));
        let Some((found, header)) = reader.find_frame(0, 0).await? else { return Ok(content) };
        reader.adopt(header.nonce);
        offset = found;
    }
    while offset < file_len {
        if let Some((header, payload)) = reader.frame_at(offset).await?
            && header.number >= min_number
        {
            match ManifestEdit::decode(payload) {
                Ok(edit) => content.edits.push((header.number, edit)),
                Err(EditError { unknown_kind: Some(kind), .. }) => {
                    content.unknown = Some(UnknownPart::Record { kind });
                }
                Err(error) => content.faults.push((offset, error.what)),
            }
            let Some(number) = header.number.checked_add(1) else { break };
            min_number = number;
            let end = offset + (FRAME_HEADER_LEN + payload.len()) as u64;
            offset = next_frame_offset(end);
            if !reader.bytes(end, (offset - end) as usize).await?.iter().all(|byte| *byte == 0) {
                content.faults.push((end, "a gap is not empty"));
            }
            continue;
        }
        match reader.find_frame(offset + 1, min_number).await? {
            Some((found, _)) => {
                content.faults.push((offset, "a frame does not check"));
                offset = found;
            }
            None if is_torn(file, nonce, offset, file_len).await? => {
                content.is_torn = true;
                break;
            }
            None => {
                content.faults.push((offset, "the last frame does not check"));
                break;
            }
        }
    }
    Ok(content)
}

/// Whether the frame at `offset`, which does not check, is one that was not written to
/// its end: a sector that it would take is missing or holds only zeros. A frame's last
/// byte is not zero, nor are 177 bytes on end within it, so no sector of a whole one
/// looks like that.
async fn is_torn<F: File>(
    file: &F,
    nonce: Option<u64>,
    offset: u64,
    file_len: u64,
) -> io::Result<bool> {
    let rest_len = file_len - offset;
    if rest_len < FRAME_HEADER_LEN as u64 {
        return Ok(true);
    }
    let sector_len = rest_len.min(SECTOR_LEN) as usize;
    let (result, mut sector) = file.read_exact_at(Vec::new(), offset, sector_len).await;
    result?;
    let header = nonce.and_then(|nonce| FrameHeader::decode(&sector, nonce));
    let Some(header) = header else { return Ok(sector.iter().all(|byte| *byte == 0)) };
    let frame_len = FRAME_HEADER_LEN as u64 + u64::from(header.payload_len);
    if rest_len < frame_len {
        return Ok(true);
    }
    let end = offset + frame_len;
    let mut sector_offset = offset + SECTOR_LEN;
    while sector_offset < end {
        let sector_len = (end - sector_offset).min(SECTOR_LEN) as usize;
        sector.clear();
        let (result, returned) = file.read_exact_at(sector, sector_offset, sector_len).await;
        result?;
        if returned.iter().all(|byte| *byte == 0) {
            return Ok(true);
        }
        sector = returned;
        sector_offset += SECTOR_LEN;
    }
    Ok(false)
}
