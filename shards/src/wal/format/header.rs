//! Names and headers of write-ahead-log files.

use super::{Layout, header_crc_matches};
use logsvc_segment::batch::{u32_at, u64_at};
use logsvc_segment::version::{UnknownPart, checked_version};

/// Length of a file header in bytes.
pub const FILE_HEADER_LEN: usize = 64;
/// Where a [`Layout::Padded`] file has its second header. In another sector than the first
/// one, so that a write of both that a crash cuts short leaves the first as it was.
pub const SECOND_HEADER_AT: usize = 512;
/// The length of a file's beginning that holds its headers, in bytes.
pub const HEADERS_LEN: usize = SECOND_HEADER_AT + FILE_HEADER_LEN;

const FILE_MAGIC: &[u8; 8] = b"LSVC-WAL";

/// Which file this is. Orders by epoch first, which is the order of replay.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct WalName {
    /// Counts the starts that wrote to the folder.
    pub epoch: u32,
    /// Number of partitions of that start.
    pub shards: u32,
    /// The partitions of the shard that wrote the file, see [`crate::types::Part::numbers`].
    pub shard: u32,
    /// Counts the files of one writer.
    pub index: u32,
}

impl WalName {
    /// The two numbers that tell which streams it may hold, see
    /// [`Part::numbers`](crate::types::Part::numbers).
    pub fn writer(self) -> (u32, u32) {
        (self.shards, self.shard)
    }

    /// The file's name within the log folder.
    pub fn file_name(self) -> String {
        format!("{:08x}-{:08x}-{:08x}-{:08x}.wal", self.epoch, self.shards, self.shard, self.index)
    }

    /// Reads a name; `None` if it is not one of a log file.
    pub fn parse(name: &str) -> Option<WalName> {
        let mut parts = name.strip_suffix(".wal")?.split('-').map(|part| {
            let digits = part.len() == 8
                && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            digits.then(|| u32::from_str_radix(part, 16).ok()).flatten()
        });
        let mut next = || parts.next().flatten();
        let name = WalName { epoch: next()?, shards: next()?, shard: next()?, index: next()? };
        parts.next().is_none().then_some(name)
    }

    /// The nonce of the file: 32 bits from `random`, and 32 bits that tell the frames of a file
    /// with damaged headers from frames that an earlier file has left behind them.
    pub fn nonce(self, random: u32) -> u64 {
        u64::from(random) << 32 | u64::from(self.tag())
    }

    /// Whether frames with this nonce may belong to the file.
    pub(crate) fn may_have(self, nonce: u64) -> bool {
        nonce as u32 == self.tag()
    }

    fn tag(self) -> u32 {
        crc32c::crc32c(self.file_name().as_bytes())
    }

    /// The writer's next file.
    pub fn successor(self) -> WalName {
        WalName { index: self.index + 1, ..self }
    }
}

/// The header of a log file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileHeader {
    /// Repeats the file's name.
    pub name: WalName,
    /// See [`WalName::nonce`]; repeated by every frame.
    pub nonce: u64,
    /// Nanoseconds since the Unix epoch.
    pub created_ns: i64,
    /// How its frames lie in it.
    pub layout: Layout,
    /// Whether the file was another one before, of which bytes are left behind the frames.
    pub is_reused: bool,
    /// The writer's file before this one; `None` for its first.
    pub previous: Option<Previous>,
}

/// The second header of a file: about the writer's previous file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Previous {
    /// Its index.
    pub index: u32,
    /// How many of its bytes count; the bytes behind them were never acknowledged.
    pub durable_len: u64,
}

/// In the flags of a header: [`FileHeader::is_reused`].
const REUSED: u32 = 1;

impl FileHeader {
    /// The beginning of the file, up to its first frame. The facts about the previous file stand in
    /// the second header if the layout has one. Everything else can be written before these facts
    /// are known, and stays as it is when they are added.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; self.layout.first_frame() as usize];
        match self.layout {
            Layout::Packed => out.copy_from_slice(&self.encode_one()),
            Layout::Padded => {
                let first = FileHeader { previous: None, ..*self };
                out[..FILE_HEADER_LEN].copy_from_slice(&first.encode_one());
                if self.previous.is_some() {
                    out[SECOND_HEADER_AT..HEADERS_LEN].copy_from_slice(&self.encode_one());
                }
            }
        }
        out
    }

    fn encode_one(&self) -> [u8; FILE_HEADER_LEN] {
        let mut out = [0; FILE_HEADER_LEN];
        out[0..8].copy_from_slice(FILE_MAGIC);
        out[8..12].copy_from_slice(&self.layout.version().to_le_bytes());
        out[16..24].copy_from_slice(&self.nonce.to_le_bytes());
        out[24..28].copy_from_slice(&self.name.epoch.to_le_bytes());
        out[28..32].copy_from_slice(&self.name.shards.to_le_bytes());
        out[32..36].copy_from_slice(&self.name.shard.to_le_bytes());
        out[36..40].copy_from_slice(&self.name.index.to_le_bytes());
        out[40..48].copy_from_slice(&self.created_ns.to_le_bytes());
        if let Some(previous) = self.previous {
            out[48..56].copy_from_slice(&previous.durable_len.to_le_bytes());
            out[56..60].copy_from_slice(&previous.index.to_le_bytes());
        }
        let flags = if self.is_reused { REUSED } else { 0 };
        out[60..64].copy_from_slice(&flags.to_le_bytes());
        let crc = crc32c::crc32c(&out);
        out[12..16].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the beginning of a file, of which [`HEADERS_LEN`] bytes are looked at; `None`
    /// if its first header does not check. A second one that does not check is passed over,
    /// see [`FileHeader::has_bad_second`].
    pub fn decode(bytes: &[u8]) -> Option<FileHeader> {
        let first = FileHeader::decode_one(bytes)?;
        Some(first.second(bytes).unwrap_or(first))
    }

    /// The unknown part of a header that checks; `None` if all of it is known, or if it does not
    /// check.
    pub(crate) fn unknown_version(bytes: &[u8]) -> Option<UnknownPart> {
        let found = checked_version(bytes.get(..FILE_HEADER_LEN)?, FILE_MAGIC)?;
        let (mut known, newest) = (Layout::ALL.into_iter(), Layout::Padded.version());
        let is_known = known.any(|layout| layout.version() == found);
        (!is_known).then_some(UnknownPart::Format { found, known: newest })
    }

    /// Whether something stands at the place of the second header that is none.
    pub(crate) fn has_bad_second(&self, bytes: &[u8]) -> bool {
        let place = bytes.get(SECOND_HEADER_AT..HEADERS_LEN).unwrap_or_default();
        self.layout == Layout::Padded
            && place.iter().any(|&byte| byte != 0)
            && self.second(bytes).is_none()
    }

    /// The second header of the file whose first one this is.
    fn second(&self, bytes: &[u8]) -> Option<FileHeader> {
        let second = FileHeader::decode_one(bytes.get(SECOND_HEADER_AT..)?)?;
        let is_ours = second.name == self.name && second.nonce == self.nonce;
        (self.layout == Layout::Padded && is_ours).then_some(second)
    }

    fn decode_one(bytes: &[u8]) -> Option<FileHeader> {
        let bytes = bytes.get(..FILE_HEADER_LEN)?;
        let layout = Layout::ALL.into_iter().find(|one| one.version() == u32_at(bytes, 8))?;
        if &bytes[0..8] != FILE_MAGIC || !header_crc_matches(bytes, 12) {
            return None;
        }
        Some(FileHeader {
            name: WalName {
                epoch: u32_at(bytes, 24),
                shards: u32_at(bytes, 28),
                shard: u32_at(bytes, 32),
                index: u32_at(bytes, 36),
            },
            nonce: u64_at(bytes, 16),
            created_ns: u64_at(bytes, 40) as i64,
            layout,
            is_reused: u32_at(bytes, 60) & REUSED != 0,
            previous: (u64_at(bytes, 48) > 0)
                .then(|| Previous { index: u32_at(bytes, 56), durable_len: u64_at(bytes, 48) }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: WalName = WalName { epoch: 3, shards: 2, shard: 1, index: 0x1f };

    #[test]
    fn names_read_back_and_others_are_refused() {
        assert_eq!(NAME.file_name(), "00000003-00000002-00000001-0000001f.wal");
        assert_eq!(WalName::parse(&NAME.file_name()), Some(NAME));
        for bad in [
            "",
            "x.wal",
            "00000003-00000002-00000001.wal",
            "00000003-00000002-00000001-0000001F.wal",
            "00000003-00000002-00000001-0000001f-00000000.wal",
            "00000003-00000002-00000001-0000001f.wal.tmp",
            "+0000003-00000002-00000001-0000001f.wal",
        ] {
            assert_eq!(WalName::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn any_flipped_bit_of_a_header_is_noticed() {
        let previous = Some(Previous { index: 0x1e, durable_len: 1 << 40 });
        let layout = Layout::Padded;
        let (nonce, created_ns, is_reused) = (NAME.nonce(99), -1, true);
        let header = FileHeader { name: NAME, nonce, created_ns, layout, is_reused, previous };
        let bytes = header.encode();
        assert_eq!(FileHeader::decode(&bytes), Some(header));
        for bit in 0..FILE_HEADER_LEN * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileHeader::decode(&bad), None, "bit {bit}");
            let mut bad = bytes.clone();
            bad[SECOND_HEADER_AT + bit / 8] ^= 1 << (bit % 8);
            let first = FileHeader { previous: None, ..header };
            assert_eq!(FileHeader::decode(&bad), Some(first), "bit {bit}");
            assert!(first.has_bad_second(&bad), "bit {bit}");
        }
        let packed = FileHeader { layout: Layout::Packed, ..header };
        let bytes = packed.encode();
        assert_eq!((FileHeader::decode(&bytes), bytes.len()), (Some(packed), FILE_HEADER_LEN));
        for bit in 0..FILE_HEADER_LEN * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(FileHeader::decode(&bad), None, "bit {bit}");
        }
    }

    #[test]
    fn what_a_file_says_of_the_one_before_is_added_to_what_is_there() {
        let (layout, nonce) = (Layout::Padded, NAME.nonce(7));
        let (created_ns, is_reused, previous) = (5, true, None);
        let ready = FileHeader { name: NAME, nonce, created_ns, layout, is_reused, previous };
        let previous = Some(Previous { index: 0x1e, durable_len: 4096 });
        let opened = FileHeader { previous, ..ready };
        let (before, after) = (ready.encode(), opened.encode());
        assert_eq!(before.len(), 4096);
        assert!(!ready.has_bad_second(&before) && !opened.has_bad_second(&after));
        // However far the write of the second header has come, the first is there.
        for done in 0..before.len() {
            let torn = [&after[..done], &before[done..]].concat();
            let read = FileHeader::decode(&torn).expect("the first header checks");
            assert!(read == ready || read == opened, "{done} bytes");
        }
        // The second header of an earlier file says nothing about this one.
        let other = FileHeader { nonce: NAME.nonce(8), ..opened }.encode();
        let mixed = [&before[..SECOND_HEADER_AT], &other[SECOND_HEADER_AT..]].concat();
        assert_eq!(FileHeader::decode(&mixed), Some(ready));
        // Where frames follow at once, pushed bytes may stand in place of the second header.
        let packed = FileHeader { layout: Layout::Packed, previous: None, ..ready };
        let mut bytes = packed.encode();
        bytes.resize(SECOND_HEADER_AT, 0);
        bytes.extend_from_slice(&FileHeader { layout: Layout::Packed, ..opened }.encode());
        assert_eq!(FileHeader::decode(&bytes), Some(packed));
        assert!(!packed.has_bad_second(&bytes));
    }

    #[test]
    fn nonces_tell_the_files_of_a_writer_apart() {
        assert_ne!(NAME.nonce(1), NAME.nonce(2));
        assert!(NAME.may_have(NAME.nonce(1)) && NAME.may_have(NAME.nonce(2)));
        assert!(!NAME.successor().may_have(NAME.nonce(1)));
    }
}
