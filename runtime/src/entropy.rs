//! Random numbers of one core: seeded once by the operating system, then
//! generated without system calls. Not for secrets.

use std::cell::Cell;
use std::io;

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", 2014): passes the usual statistical batteries with 64 bits of state.
pub(crate) struct Entropy {
    state: Cell<u64>,
}

impl Entropy {
    /// A generator seeded by `getrandom(2)`.
    pub(crate) fn from_system() -> io::Result<Entropy> {
        let mut seed = [0_u8; 8];
        let mut filled = 0;
        while filled < seed.len() {
            let rest = &mut seed[filled..];
            // SAFETY: the pointer and the length describe `rest`, which is
            // writable and lives through the call.
            let count = unsafe { libc::getrandom(rest.as_mut_ptr().cast(), rest.len(), 0) };
            match usize::try_from(count) {
                Ok(count) => filled += count,
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(Entropy { state: Cell::new(u64::from_ne_bytes(seed)) })
    }

    /// A generator that always gives the same sequence.
    pub(crate) fn from_seed(seed: u64) -> Entropy {
        Entropy { state: Cell::new(seed) }
    }

    pub(crate) fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.state.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_differ_and_advance() {
        let one = Entropy::from_system().unwrap();
        let two = Entropy::from_system().unwrap();
        assert_ne!(one.next(), two.next());
        assert_ne!(one.next(), one.next());
    }

    #[test]
    fn follows_the_published_sequence() {
        // First outputs of SplitMix64 seeded with 1234567.
        let generator = Entropy { state: Cell::new(1_234_567) };
        assert_eq!(generator.next(), 6_457_827_717_110_365_317);
        assert_eq!(generator.next(), 3_203_168_211_198_807_973);
    }
}
