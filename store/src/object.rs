//! The header of objects that are made here: what they are, whole or not, and whose.
//!
//! `docs/format.md` has the bytes. The random number of a header tells one's own object from that of
//! another writer who raced for the name.

use std::cmp::Ordering;
use std::ops::Range;

use bytes::Bytes;
use logsvc_runtime::Runtime;

const MAGIC: [u8; 8] = *b"LSVC-OBJ";
const VERSION: u32 = 1;

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 64;

/// The range of the random number, which no two objects have in common.
pub const PROOF: Range<usize> = 32..48;

/// The longest payload.
pub const PAYLOAD_MAX_BYTES: u64 = 64 << 20;

/// A random number that names an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Nonce(pub [u8; 16]);

impl Nonce {
    /// Of the object before the first.
    pub const NONE: Nonce = Nonce([0; 16]);

    /// A new one, which is not [`Nonce::NONE`].
    pub fn random<R: Runtime>(runtime: &R) -> Nonce {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&runtime.random_u64().to_le_bytes());
        bytes[8..].copy_from_slice(&(runtime.random_u64() | 1).to_le_bytes());
        Nonce(bytes)
    }
}

/// Why bytes are no object.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ObjectError {
    /// It begins with other bytes.
    #[error("it is no object of logsvc")]
    Foreign,
    /// It is of a version that this program does not know.
    #[error("it was written by another version of logsvc")]
    Version,
    /// Its end is missing. Some stores keep what they have got when a connection breaks within a
    /// request.
    #[error("only its beginning is there, {len_bytes} bytes")]
    Torn {
        /// What is there.
        len_bytes: u64,
    },
    /// Bytes differ from those that were written.
    #[error("it is damaged: {0}")]
    Damaged(&'static str),
}

/// What a header tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the payload is; each user has numbers of its own.
    pub kind: u32,
    /// The object's own number.
    pub nonce: Nonce,
    /// That of the object before it, where objects follow each other.
    pub previous: Nonce,
}

impl Header {
    /// The bytes of an object with this header.
    #[must_use]
    pub fn encode(&self, payload: &[u8]) -> Bytes {
        let mut out = Vec::with_capacity(HEADER_LEN + payload.len());
        out.extend([0; HEADER_LEN]);
        out.extend(payload);
        self.encode_in_place(out)
    }

    /// The same of a payload that stands behind [`HEADER_LEN`] bytes, which become the header. Nothing
    /// is copied.
    ///
    /// # Panics
    /// The bytes have no room for a header.
    #[must_use]
    pub fn encode_in_place(&self, mut object: Vec<u8>) -> Bytes {
        let (header, payload) = object.split_at_mut(HEADER_LEN);
        header[..8].copy_from_slice(&MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_le_bytes());
        header[12..16].fill(0);
        header[16..20].copy_from_slice(&self.kind.to_le_bytes());
        header[20..24].copy_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        header[24..32].copy_from_slice(&(payload.len() as u64).to_le_bytes());
        header[PROOF].copy_from_slice(&self.nonce.0);
        header[PROOF.end..].copy_from_slice(&self.previous.0);
        let crc = crc32c::crc32c(header);
        header[12..16].copy_from_slice(&crc.to_le_bytes());
        object.into()
    }

    /// Takes an object apart.
    ///
    /// # Errors
    /// [`Header::encode`] cannot have made the bytes.
    pub fn decode(object: &Bytes) -> Result<(Header, Bytes), ObjectError> {
        let torn = ObjectError::Torn { len_bytes: object.len() as u64 };
        let magic = &object[..object.len().min(MAGIC.len())];
        if magic != &MAGIC[..magic.len()] {
            return Err(ObjectError::Foreign);
        }
        let header: [u8; HEADER_LEN] = *object.first_chunk().ok_or(torn)?;
        if u32_at(&header, 8) != VERSION {
            return Err(ObjectError::Version);
        }
        let mut unchecked = header;
        unchecked[12..16].fill(0);
        if crc32c::crc32c(&unchecked) != u32_at(&header, 12) {
            return Err(ObjectError::Damaged("the header does not match its checksum"));
        }
        let payload = object.slice(HEADER_LEN..);
        let (low, high) = (u32_at(&header, 24), u32_at(&header, 28));
        match (payload.len() as u64).cmp(&(u64::from(low) | u64::from(high) << 32)) {
            Ordering::Less => return Err(torn),
            Ordering::Equal => {}
            Ordering::Greater => return Err(ObjectError::Damaged("it is too long")),
        }
        if crc32c::crc32c(&payload) != u32_at(&header, 20) {
            return Err(ObjectError::Damaged("the payload does not match its checksum"));
        }
        let nonce_at = |at: usize| {
            let mut nonce = [0; 16];
            nonce.copy_from_slice(&header[at..at + 16]);
            Nonce(nonce)
        };
        let header = Header {
            kind: u32_at(&header, 16),
            nonce: nonce_at(PROOF.start),
            previous: nonce_at(PROOF.end),
        };
        Ok((header, payload))
    }
}

fn u32_at(header: &[u8; HEADER_LEN], at: usize) -> u32 {
    u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn objects_come_back_and_every_changed_byte_is_found() {
        for seed in seeds(30) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let payload: Vec<u8> = (0..rng.below(100)).map(|_| rng.next_u64() as u8).collect();
            let nonce = |rng: &mut Rng| Nonce([rng.next_u64() as u8; 16]);
            let header = Header {
                kind: rng.next_u64() as u32,
                nonce: nonce(&mut rng),
                previous: nonce(&mut rng),
            };
            let object = header.encode(&payload);
            assert_eq!(object.slice(PROOF), header.nonce.0.as_slice());
            assert_eq!(Header::decode(&object), Ok((header, payload.clone().into())));
            for at in 0..object.len() {
                let mut damaged = object.to_vec();
                damaged[at] ^= 1 << rng.below(8);
                assert!(Header::decode(&damaged.into()).is_err(), "byte {at}");
                let torn = Err(ObjectError::Torn { len_bytes: at as u64 });
                assert_eq!(Header::decode(&object.slice(..at)), torn);
            }
        }
    }
}
