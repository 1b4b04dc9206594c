//! The bytes of a receiver's position (docs/format.md, *Samples that wait*).
//!
//! A file has two slots in different sectors. A record goes into the slot of the older one, so that
//! a write that is cut short leaves the newer one. A record says up to where the receiver has
//! the samples, and up to where the request goes that is under way: after a crash the very same
//! request is sent again, so that a receiver that has it already refuses nothing else with it.

use crc32c::{crc32c, crc32c_append};

/// Length of the file.
pub(super) const FILE_BYTES: usize = 1024;
/// Length of a record.
const RECORD_BYTES: usize = 64;
const SLOTS: [usize; 2] = [0, 512];
const MAGIC: &[u8; 8] = b"LSVC-POS";
const VERSION: u32 = 1;

/// A place in the log: before a sample of a frame.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct Place {
    /// Number of the segment.
    pub(super) segment: u64,
    /// Offset of the frame in its file.
    pub(super) offset: u32,
    /// Number of the sample within the frame.
    pub(super) index: u32,
}

/// A record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Position {
    /// Counts the records of a receiver.
    pub(super) number: u64,
    /// The first sample that the receiver does not have for certain.
    pub(super) place: Place,
    /// Offset and index of the end of the request under way, which is in the segment of `place`.
    pub(super) under_way: Option<(u32, u32)>,
}

impl Position {
    /// Where the record goes in the file, and its bytes.
    pub(super) fn encode(&self) -> (usize, [u8; RECORD_BYTES]) {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.number.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.place.segment.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.place.offset.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.place.index.to_le_bytes());
        let (offset, index) = self.under_way.unwrap_or_default();
        bytes[40..44].copy_from_slice(&offset.to_le_bytes());
        bytes[44..48].copy_from_slice(&index.to_le_bytes());
        let crc = crc32c(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        (SLOTS[(self.number & 1) as usize], bytes)
    }

    /// The content of a new file.
    pub(super) fn file(&self) -> Vec<u8> {
        let mut file = vec![0; FILE_BYTES];
        let (at, bytes) = self.encode();
        file[at..at + RECORD_BYTES].copy_from_slice(&bytes);
        file
    }

    /// The newer good record of a file; `None` if there is none.
    pub(super) fn read(file: &[u8]) -> Option<Position> {
        let records = SLOTS.iter().filter_map(|&at| decode(file.get(at..at + RECORD_BYTES)?));
        records.max_by_key(|record| record.number)
    }
}

fn decode(bytes: &[u8]) -> Option<Position> {
    let four = |at: usize| bytes[at..at + 4].try_into().map(u32::from_le_bytes).ok();
    let eight = |at: usize| bytes[at..at + 8].try_into().map(u64::from_le_bytes).ok();
    let crc = crc32c_append(crc32c_append(crc32c(&bytes[..12]), &[0; 4]), &bytes[16..]);
    if bytes[..8] != *MAGIC || four(8)? != VERSION || four(12)? != crc {
        return None;
    }
    let under_way = (four(40)?, four(44)?);
    Some(Position {
        number: eight(16)?,
        place: Place { segment: eight(24)?, offset: four(32)?, index: four(36)? },
        under_way: (under_way.0 != 0).then_some(under_way),
    })
}

/// Reads the bytes as a file of positions, and writes what it finds.
///
/// # Panics
/// If something changes on the way.
pub(crate) fn fuzz_position(data: &[u8]) {
    if let Some(position) = Position::read(data) {
        assert_eq!(Position::read(&position.file()), Some(position));
    }
}

#[cfg(test)]
mod tests {
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    use super::*;

    fn position(number: u64) -> Position {
        let place = Place { segment: 3, offset: 64 + number as u32, index: 5 };
        Position { number, place, under_way: Some((900, 2)) }
    }

    #[test]
    fn the_newer_record_counts_and_a_torn_one_does_not() {
        let mut file = position(7).file();
        assert_eq!(file.len(), FILE_BYTES);
        assert_eq!(Position::read(&file), Some(position(7)));
        let (at, bytes) = position(8).encode();
        // The bytes from 45 on are zero.
        for end in 0..45 {
            let mut torn = file.clone();
            torn[at..at + end].copy_from_slice(&bytes[..end]);
            assert_eq!(Position::read(&torn), Some(position(7)), "cut at {end}");
        }
        file[at..at + bytes.len()].copy_from_slice(&bytes);
        assert_eq!(Position::read(&file), Some(position(8)));
        let idle = Position { under_way: None, ..position(9) };
        let (at, bytes) = idle.encode();
        file[at..at + bytes.len()].copy_from_slice(&bytes);
        assert_eq!(Position::read(&file), Some(idle));
    }

    #[test]
    fn the_bytes_of_a_record() {
        let (at, bytes) = position(8).encode();
        assert_eq!(at, 0);
        assert_eq!(bytes[..12], *b"LSVC-POS\x01\0\0\0");
        assert_eq!(bytes[16..24], 8u64.to_le_bytes());
        assert_eq!(bytes[24..48], *b"\x03\0\0\0\0\0\0\0\x48\0\0\0\x05\0\0\0\x84\x03\0\0\x02\0\0\0");
        assert_eq!(bytes[48..], [0; 16]);
    }

    #[test]
    fn arbitrary_bytes_are_no_position() {
        for seed in seeds(200) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let mut file = position(seed).file();
            rng.damage(&mut file);
            fuzz_position(&file);
            let len = rng.index(FILE_BYTES + 10);
            assert_eq!(Position::read(&rng.bytes(len)), None);
        }
    }
}
