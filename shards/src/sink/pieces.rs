//! The bytes of an entry of a write-ahead log in a bucket: pieces of log files, as `docs/format.md`
//! describes them.
//!
//! Guarantees: decoding meets arbitrary bytes without panic, and allocates nothing.

use logsvc_segment::batch::{u32_at, u64_at};

use crate::wal::format::WalName;
use crate::wal::pieced::PiecedFile;

/// Length of what stands before the bytes of a piece.
pub(crate) const PIECE_HEADER_LEN: usize = 32;

/// Bytes of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceRef<'a> {
    /// The file.
    pub(crate) name: WalName,
    /// Where in it the bytes are.
    pub(crate) offset: u64,
    /// The bytes.
    pub(crate) bytes: &'a [u8],
}

/// Bytes that are no pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pieces of log files do not decode at byte {at}")]
pub struct PieceError {
    /// Where the first piece begins that does not decode.
    pub at: usize,
}

/// Appends a piece.
pub(crate) fn write_piece(out: &mut Vec<u8>, piece: PieceRef<'_>) {
    let PieceRef { name, offset, bytes } = piece;
    for number in [name.epoch, name.shards, name.shard, name.index] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(bytes);
}

/// The pieces of an entry. Behind an error there is none.
pub(crate) fn pieces(payload: &[u8]) -> impl Iterator<Item = Result<PieceRef<'_>, PieceError>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= payload.len() {
            return None;
        }
        let begin = std::mem::replace(&mut at, payload.len());
        let piece = piece_at(&payload[begin..]);
        if let Some(piece) = piece {
            at = begin + PIECE_HEADER_LEN + piece.bytes.len();
        }
        Some(piece.ok_or(PieceError { at: begin }))
    })
}

fn piece_at(rest: &[u8]) -> Option<PieceRef<'_>> {
    let (header, rest) = rest.split_at_checked(PIECE_HEADER_LEN)?;
    let name = WalName {
        epoch: u32_at(header, 0),
        shards: u32_at(header, 4),
        shard: u32_at(header, 8),
        index: u32_at(header, 12),
    };
    let bytes = rest.get(..u32_at(header, 24) as usize)?;
    let offset = u64_at(header, 16);
    // No file ends behind the last number there is.
    offset.checked_add(bytes.len() as u64)?;
    Some(PieceRef { name, offset, bytes })
}

/// Reads the bytes as pieces, and these as one log file, and writes the pieces anew.
///
/// # Panics
/// If a piece changes on the way.
pub(crate) fn check(data: &[u8]) {
    let mut file = PiecedFile::default();
    for piece in pieces(data).flatten() {
        if file.add(piece.offset, piece.bytes).is_err() {
            break;
        }
        while let Ok(Some(_)) = file.next_frame(piece.name) {}
    }
    let mut rewritten = Vec::new();
    for piece in pieces(data) {
        match piece {
            Ok(piece) => write_piece(&mut rewritten, piece),
            Err(error) => return assert_eq!(error.at, rewritten.len()),
        }
    }
    let again: Vec<_> = pieces(&rewritten).collect();
    assert!(pieces(data).eq(again), "a piece changes on the way");
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn pieces_read_back_and_cuts_are_errors() {
        for seed in seeds(300) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let (mut payload, mut ends) = (Vec::new(), vec![0]);
            for _ in 0..rng.below(4) {
                let mut number = || rng.next_u64() as u32;
                let name =
                    WalName { epoch: number(), shards: number(), shard: number(), index: number() };
                let bytes: Vec<u8> = (0..rng.below(40)).map(|_| rng.next_u64() as u8).collect();
                let offset = rng.next_u64() >> 1;
                write_piece(&mut payload, PieceRef { name, offset, bytes: &bytes });
                ends.push(payload.len());
                let last = pieces(&payload).last().expect("a piece").expect("it decodes");
                assert_eq!(last, PieceRef { name, offset, bytes: &bytes });
            }
            assert_eq!(pieces(&payload).count(), ends.len() - 1);
            for len in 0..payload.len() {
                check(&payload[..len]);
                let is_whole = pieces(&payload[..len]).all(|piece| piece.is_ok());
                assert_eq!(is_whole, ends.contains(&len), "cut at {len}");
            }
            let noise: Vec<u8> = (0..rng.below(200)).map(|_| rng.below(3) as u8).collect();
            check(&noise);
        }
    }
}
