//! Headers and frames of manifest files, as `docs/format.md` describes them. Edits
//! inside the frames are in [`super::edit`].

use crate::wal::format::{FRAME_HEADER_LEN, FrameHeader, Layout};
use logsvc_segment::batch::{u32_at, u64_at};
use logsvc_segment::version::{UnknownPart, checked_version};

use super::edit::ManifestEdit;
use super::names::ManifestLogName;

/// Length of a header in bytes.
pub(crate) const MANIFEST_HEADER_LEN: usize = 64;

/// Frames begin at multiples of this many bytes. A disk writes so many bytes whole or not at all.
pub(crate) const SECTOR_LEN: u64 = 512;

const CHECKPOINT_MAGIC: &[u8; 8] = b"LSVC-MAN";
const LOG_MAGIC: &[u8; 8] = b"LSVC-MLG";
const VERSION: u32 = 1;

/// The header of a manifest file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ManifestHeader {
    /// Which file it is.
    pub role: Role,
    /// Random; repeated by every frame.
    pub nonce: u64,
    /// Nanoseconds since the Unix epoch.
    pub created_ns: i64,
}

/// Which of the manifest's files one is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// `MANIFEST`.
    Checkpoint {
        /// The start that wrote it; edits of earlier ones are contained.
        epoch: u32,
        /// How many frames it has.
        frames: u64,
    },
    /// A log.
    Log {
        /// Repeats the file's name.
        name: ManifestLogName,
        /// Number of its first edit; in earlier logs this one and later ones do not
        /// count.
        first_edit: u64,
    },
}

impl ManifestHeader {
    /// The header's bytes.
    pub(crate) fn encode(&self) -> [u8; MANIFEST_HEADER_LEN] {
        let (magic, name, count) = match self.role {
            Role::Checkpoint { epoch, frames } => {
                (CHECKPOINT_MAGIC, ManifestLogName { epoch, shard: 0, n: 0 }, frames)
            }
            Role::Log { name, first_edit } => (LOG_MAGIC, name, first_edit),
        };
        let mut out = [0; MANIFEST_HEADER_LEN];
        out[0..8].copy_from_slice(magic);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..24].copy_from_slice(&self.nonce.to_le_bytes());
        out[24..28].copy_from_slice(&name.epoch.to_le_bytes());
        out[28..32].copy_from_slice(&name.shard.to_le_bytes());
        out[32..36].copy_from_slice(&name.n.to_le_bytes());
        out[40..48].copy_from_slice(&count.to_le_bytes());
        out[48..56].copy_from_slice(&self.created_ns.to_le_bytes());
        let crc = crc32c::crc32c(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// The unknown part of a header that checks; `None` if all of it is known, or if it does not
    /// check.
    pub(super) fn unknown_version(bytes: &[u8]) -> Option<UnknownPart> {
        let bytes = bytes.get(..MANIFEST_HEADER_LEN)?;
        let mut magics = [CHECKPOINT_MAGIC, LOG_MAGIC].into_iter();
        let found = magics.find_map(|magic| checked_version(bytes, magic))?;
        (found != VERSION).then_some(UnknownPart::Format { found, known: VERSION })
    }

    /// Reads a header; `None` if it does not check.
    pub(crate) fn decode(bytes: &[u8]) -> Option<ManifestHeader> {
        let mut bytes: [u8; MANIFEST_HEADER_LEN] =
            bytes.get(..MANIFEST_HEADER_LEN)?.try_into().ok()?;
        let crc = u32_at(&bytes, 12);
        bytes[12..16].fill(0);
        if u32_at(&bytes, 8) != VERSION || crc32c::crc32c(&bytes) != crc {
            return None;
        }
        let name = ManifestLogName {
            epoch: u32_at(&bytes, 24),
            shard: u32_at(&bytes, 28),
            n: u32_at(&bytes, 32),
        };
        let count = u64_at(&bytes, 40);
        let role = match &bytes[0..8] {
            magic if magic == CHECKPOINT_MAGIC => {
                Role::Checkpoint { epoch: name.epoch, frames: count }
            }
            magic if magic == LOG_MAGIC => Role::Log { name, first_edit: count },
            _ => return None,
        };
        Some(ManifestHeader {
            role,
            nonce: u64_at(&bytes, 16),
            created_ns: u64_at(&bytes, 48) as i64,
        })
    }
}

/// The first offset from `len` on where a frame may begin.
pub(super) fn next_frame_offset(len: u64) -> u64 {
    len.next_multiple_of(SECTOR_LEN)
}

/// Fills `out`, which goes to `file_offset` of the file, up to where the next frame
/// may begin, and appends the frame of an edit. `None` if the edit is too large.
pub(super) fn push_frame(
    out: &mut Vec<u8>,
    file_offset: u64,
    nonce: u64,
    number: u64,
    edit: &ManifestEdit,
) -> Option<()> {
    let start = (next_frame_offset(file_offset + out.len() as u64) - file_offset) as usize;
    out.resize(start + FRAME_HEADER_LEN, 0);
    edit.encode(out)?;
    let payload = &out[start + FRAME_HEADER_LEN..];
    let header = FrameHeader {
        nonce,
        number,
        // The bytes in front of a frame were synced before the frame was made.
        durable_len: file_offset + start as u64,
        payload_len: payload.len() as u32,
        payload_crc: crc32c::crc32c(payload),
        layout: Layout::Packed,
    };
    out[start..start + FRAME_HEADER_LEN].copy_from_slice(&header.encode());
    Some(())
}

/// Records per frame of a checkpoint, so that damage to one frame leaves the others.
const CHECKPOINT_FRAME_RECORDS: usize = 256;

/// The bytes of a checkpoint that holds an edit.
pub(super) fn encode_checkpoint(
    epoch: u32,
    nonce: u64,
    created_ns: i64,
    content: &ManifestEdit,
) -> Vec<u8> {
    let added = content
        .added
        .chunks(CHECKPOINT_FRAME_RECORDS)
        .map(|chunk| ManifestEdit { added: chunk.to_vec(), ..ManifestEdit::default() });
    let covers = content
        .covers
        .chunks(CHECKPOINT_FRAME_RECORDS)
        .map(|chunk| ManifestEdit { covers: chunk.to_vec(), ..ManifestEdit::default() });
    let left = content
        .left
        .chunks(CHECKPOINT_FRAME_RECORDS)
        .map(|chunk| ManifestEdit { left: chunk.to_vec(), ..ManifestEdit::default() });
    let removed = content
        .removed
        .chunks(CHECKPOINT_FRAME_RECORDS)
        .map(|chunk| ManifestEdit { removed: chunk.to_vec(), ..ManifestEdit::default() });
    let footers = content
        .footers
        .chunks(CHECKPOINT_FRAME_RECORDS)
        .map(|chunk| ManifestEdit { footers: chunk.to_vec(), ..ManifestEdit::default() });
    let frames = added.len() + covers.len() + left.len() + removed.len() + footers.len();
    let role = Role::Checkpoint { epoch, frames: frames as u64 };
    let mut out = ManifestHeader { role, nonce, created_ns }.encode().to_vec();
    let edits = added.chain(covers).chain(left).chain(removed).chain(footers);
    for (number, edit) in edits.enumerate() {
        push_frame(&mut out, 0, nonce, number as u64, &edit)
            .expect("a few hundred records fit a frame");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_flipped_bit_of_a_header_is_noticed() {
        let name = ManifestLogName { epoch: 3, shard: 1, n: 2 };
        for role in
            [Role::Log { name, first_edit: 77 }, Role::Checkpoint { epoch: 9, frames: 1 << 40 }]
        {
            let header = ManifestHeader { role, nonce: 99, created_ns: -1 };
            let bytes = header.encode();
            assert_eq!(ManifestHeader::decode(&bytes), Some(header));
            for bit in 0..MANIFEST_HEADER_LEN * 8 {
                let mut bad = bytes;
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(ManifestHeader::decode(&bad), None, "bit {bit}");
            }
            assert_eq!(ManifestHeader::decode(&bytes[..63]), None);
        }
    }

    #[test]
    fn frames_begin_at_sectors() {
        let edit = ManifestEdit::default();
        let mut out = vec![1; 64];
        push_frame(&mut out, 0, 5, 0, &edit).unwrap();
        assert_eq!(out.len(), 512 + 40 + 1);
        let mut second = Vec::new();
        push_frame(&mut second, 553, 5, 1, &edit).unwrap();
        assert_eq!(second.len(), (1024 - 553) + 41);
        assert_eq!(FrameHeader::decode(&second[471..], 5).map(|h| h.durable_len), Some(1024));
        let mut third = Vec::new();
        push_frame(&mut third, 1024, 5, 2, &edit).unwrap();
        assert_eq!(third.len(), 41);
    }
}
