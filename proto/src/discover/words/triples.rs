//! A few triples of letters, prepared for looking for all of them at once.

/// Triples of lower-case letters, at most eight.
pub(in crate::discover) struct Triples<const N: usize> {
    pub(super) list: [[u8; 3]; N],
    /// For each byte of a triple and each value of the low half of a byte: bit n is set if
    /// triple n has it there.
    pub(super) low: [[u8; 16]; 3],
    /// The same for the high half, of which one bit tells the case of a letter and is left
    /// open.
    pub(super) high: [[u8; 16]; 3],
}

impl<const N: usize> Triples<N> {
    /// Prepares triples.
    pub(in crate::discover) const fn new(list: [[u8; 3]; N]) -> Triples<N> {
        assert!(N <= 8, "a table has a bit for each triple");
        let (mut low, mut high) = ([[0; 16]; 3], [[0; 16]; 3]);
        let mut number = 0;
        while number < N {
            let mut place = 0;
            while place < 3 {
                let letter = list[number][place];
                assert!(letter.is_ascii_lowercase(), "the case bit is left open");
                let half = (letter >> 4) as usize;
                low[place][(letter & 15) as usize] |= 1 << number;
                high[place][half] |= 1 << number;
                high[place][half ^ 2] |= 1 << number;
                place += 1;
            }
            number += 1;
        }
        Triples { list, low, high }
    }
}
