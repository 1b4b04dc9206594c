//! Comparing short texts without a call.

/// Whether two texts are equal. As a part of the caller where they have at most 16 bytes, for
/// names and levels, which each entry of a push has.
#[inline]
pub fn equal(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    if let (Some(a_first), Some(b_first)) = (a.first_chunk(), b.first_chunk())
        && let (Some(a_last), Some(b_last)) = (a.last_chunk(), b.last_chunk())
        && a.len() <= 16
    {
        // Both ends, which overlap unless there are 16.
        let differs = |x: &[u8; 8], y: &[u8; 8]| u64::from_le_bytes(*x) ^ u64::from_le_bytes(*y);
        return differs(a_first, b_first) | differs(a_last, b_last) == 0;
    }
    if let (Some(a_first), Some(b_first)) = (a.first_chunk(), b.first_chunk())
        && let (Some(a_last), Some(b_last)) = (a.last_chunk(), b.last_chunk())
        && a.len() <= 8
    {
        let differs = |x: &[u8; 4], y: &[u8; 4]| u32::from_le_bytes(*x) ^ u32::from_le_bytes(*y);
        return differs(a_first, b_first) | differs(a_last, b_last) == 0;
    }
    a == b
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_counts() {
        for len in 0..40 {
            let text: Vec<u8> = (0..len).collect();
            assert!(equal(&text, &text.clone()));
            assert!(!equal(&text, &[&text[..], b"x"].concat()));
            for at in 0..text.len() {
                let mut other = text.clone();
                other[at] ^= 0x80;
                assert!(!equal(&text, &other), "{at} of {len}");
            }
        }
    }
}
