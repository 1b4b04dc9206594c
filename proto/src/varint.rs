//! Base-128 varints: seven bits per byte, least significant group first, the
//! high bit set on every byte but the last (the encoding of protobuf and snappy).
//!
//! Two readers exist on purpose. Protobuf accepts padded encodings, so
//! [`read`] does too. Formats whose bytes are compared or hashed need exactly
//! one encoding per number: [`read_minimal`] refuses padding.

/// The longest encoding of a `u64`.
pub const MAX_LEN_BYTES: usize = 10;

/// Why a varint could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VarintError {
    /// The input ended inside the number.
    Truncated,
    /// The number does not fit 64 bits (or, for [`read_minimal`], is padded).
    Invalid,
}

/// Appends `value`.
#[inline]
pub fn write(out: &mut Vec<u8>, value: u64) {
    // Lengths of names and values nearly always take one byte.
    if value < 0x80 {
        out.push(value as u8);
    } else {
        write_long(out, value);
    }
}

fn write_long(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads a varint at `*position` and moves the position behind it. On an error
/// the position is unspecified.
#[inline]
pub fn read(bytes: &[u8], position: &mut usize) -> Result<u64, VarintError> {
    // Tags and most lengths take one byte.
    if let Some(&byte) = bytes.get(*position)
        && byte < 0x80
    {
        *position += 1;
        return Ok(u64::from(byte));
    }
    read_long(bytes, position)
}

fn read_long(bytes: &[u8], position: &mut usize) -> Result<u64, VarintError> {
    let mut value = 0u64;
    for index in 0..MAX_LEN_BYTES {
        let byte = *bytes.get(*position).ok_or(VarintError::Truncated)?;
        *position += 1;
        // The tenth byte carries the 64th bit only.
        if index == MAX_LEN_BYTES - 1 && byte > 1 {
            return Err(VarintError::Invalid);
        }
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(VarintError::Invalid)
}

/// Like [`read`], and refuses encodings that are longer than needed.
pub fn read_minimal(bytes: &[u8], position: &mut usize) -> Result<u64, VarintError> {
    let start = *position;
    let value = read(bytes, position)?;
    if *position - start > 1 && bytes[*position - 1] == 0 {
        return Err(VarintError::Invalid);
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_round_trips() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                write(&mut bytes, value);
                let mut position = 0;
                assert_eq!(read(&bytes, &mut position), Ok(value));
                assert_eq!(position, bytes.len());
                position = 0;
                assert_eq!(read_minimal(&bytes, &mut position), Ok(value));
                for cut in 0..bytes.len() {
                    assert_eq!(read(&bytes[..cut], &mut 0), Err(VarintError::Truncated));
                }
            }
        }
    }

    #[test]
    fn padding_and_overflow_are_refused() {
        assert_eq!(read(&[0x80, 0x00], &mut 0), Ok(0));
        assert_eq!(read_minimal(&[0x80, 0x00], &mut 0), Err(VarintError::Invalid));
        let mut too_big = [0xff; 10];
        too_big[9] = 0x02;
        assert_eq!(read(&too_big, &mut 0), Err(VarintError::Invalid));
        assert_eq!(read(&[0xff; 11], &mut 0), Err(VarintError::Invalid));
    }
}
