//! The timestamp column: distances within a run, divided by their greatest common
//! divisor and packed. `docs/format.md` gives the bytes.
//!
//! The directory has the first and the last timestamp of each run. The column has only
//! distances, and decoded timestamps are checked against the directory. By the divisor,
//! timestamps of whole milliseconds take a third of the bits; by the base of each packed group,
//! regular intervals take none.

use logsvc_proto::varint;

use super::packed::{self, Malformed};

/// What the directory says of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunTimes {
    pub(crate) entries: u32,
    pub(crate) min_ns: i64,
    pub(crate) max_ns: i64,
}

/// Encodes the timestamps of runs of these lengths, each in time order.
/// `scratch` is overwritten.
pub(crate) fn encode(
    timestamps_ns: &[i64],
    run_lens: impl Iterator<Item = usize>,
    scratch: &mut Vec<u64>,
    out: &mut Vec<u8>,
) {
    scratch.clear();
    let mut rest = timestamps_ns;
    for len in run_lens {
        let (run, behind) = rest.split_at(len);
        rest = behind;
        // The distance of two i64 in order fits a u64.
        scratch.extend(run.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]) as u64));
    }
    debug_assert!(rest.is_empty());
    let divisor = common_divisor(scratch);
    if divisor > 1 {
        let exact = ExactDivisor::new(divisor);
        scratch.iter_mut().for_each(|distance| *distance = exact.turned(*distance));
    }
    varint::write(out, divisor);
    packed::encode(scratch, out);
}

/// The divisor is computed of so many distances first. Mostly it divides all others.
const SAMPLE_LEN: usize = 8;

/// The greatest common divisor of all; 1 if all are 0.
fn common_divisor(distances: &[u64]) -> u64 {
    let sample = &distances[..distances.len().min(SAMPLE_LEN)];
    let mut divisor = sample.iter().copied().fold(0, gcd);
    let mut rest = &distances[sample.len()..];
    while divisor != 1 {
        let found = match divisor {
            0 => rest.iter().position(|&distance| distance != 0),
            _ => {
                let exact = ExactDivisor::new(divisor);
                rest.iter().position(|&distance| !exact.divides(distance))
            }
        };
        let Some(at) = found else { break };
        divisor = gcd(divisor, rest[at]);
        rest = &rest[at + 1..];
    }
    divisor.max(1)
}

/// Exact division by one divisor, with a multiplication instead of a division.
///
/// Modulo 2^64 an odd number has an inverse, and the quotient of a multiple is the multiple
/// times the inverse. Multiplication by the inverse is a bijection, so a number that is no
/// multiple gives a product larger than all quotients. A rotation removes the factors of two of
/// the divisor; bits of a remainder become high bits, which make the result too large.
/// (Granlund and Montgomery, *Division by Invariant Integers using Multiplication*, 1994,
/// section 9.)
struct ExactDivisor {
    inverse: u64,
    twos: u32,
    /// The largest quotient.
    most: u64,
}

impl ExactDivisor {
    /// `divisor` is not 0.
    fn new(divisor: u64) -> ExactDivisor {
        let twos = divisor.trailing_zeros();
        let odd = divisor >> twos;
        // The three lowest bits are right; each step doubles the number of right bits.
        let mut inverse = odd;
        for _ in 0..5 {
            let product = odd.wrapping_mul(inverse);
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(product));
        }
        ExactDivisor { inverse, twos, most: u64::MAX / divisor }
    }

    /// The quotient if the divisor divides `value`, and otherwise a number above the largest
    /// quotient.
    fn turned(&self, value: u64) -> u64 {
        value.wrapping_mul(self.inverse).rotate_right(self.twos)
    }

    fn divides(&self, value: u64) -> bool {
        self.turned(value) <= self.most
    }
}

/// Greatest common divisor; `b` if `a` is 0.
fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Decodes the timestamps of all runs. The timestamps of each run ascend between the bounds
/// that `runs` gives.
pub(crate) fn decode(
    bytes: &[u8],
    runs: impl ExactSizeIterator<Item = RunTimes>,
    entries: usize,
) -> Result<Vec<i64>, Malformed> {
    let mut position = 0;
    let divisor = varint::read(bytes, &mut position).map_err(|_| Malformed)?;
    let packed = &bytes[position..];
    let distances = entries.checked_sub(runs.len()).ok_or(Malformed)?;
    let mut out = Vec::with_capacity(entries);
    let mut state = State { runs, left: 0, at: 0, span: 0, first: 0, fits: true };
    state.next_run(&mut out, entries);
    packed::decode(packed, distances, |mut group| {
        while !group.is_empty() {
            let len = group.len().min(state.left);
            let (now, later) = group.split_at(len);
            group = later;
            let mut at = state.at;
            let mut overflows = false;
            out.extend(now.iter().map(|&distance| {
                let (step, too_wide) = distance.overflowing_mul(divisor);
                let (sum, too_far) = at.overflowing_add(step);
                overflows |= too_wide | too_far;
                at = sum;
                state.first.wrapping_add(sum as i64)
            }));
            state.at = at;
            state.left -= len;
            state.fits &= !overflows;
            if state.left == 0 {
                state.next_run(&mut out, entries);
            }
            if !state.fits {
                return;
            }
        }
    })?;
    let complete = state.left == 0 && out.len() == entries && state.runs.next().is_none();
    if state.fits && complete { Ok(out) } else { Err(Malformed) }
}

struct State<I> {
    runs: I,
    /// Entries of the current run that are left.
    left: usize,
    /// Distance of the last entry from the first one of the run.
    at: u64,
    /// Distance of the run's bounds.
    span: u64,
    first: i64,
    fits: bool,
}

impl<I: Iterator<Item = RunTimes>> State<I> {
    /// Ends the current run, and begins the next one that has more than one entry.
    fn next_run(&mut self, out: &mut Vec<i64>, entries: usize) {
        loop {
            self.fits &= self.at == self.span;
            let Some(run) = self.runs.next() else { return };
            self.fits &= run.entries > 0 && run.min_ns <= run.max_ns && out.len() < entries;
            if !self.fits {
                return;
            }
            out.push(run.min_ns);
            self.first = run.min_ns;
            self.at = 0;
            self.span = run.max_ns.wrapping_sub(run.min_ns) as u64;
            self.left = run.entries as usize - 1;
            if self.left > 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    fn bounds(timestamps: &[i64], lens: &[usize]) -> Vec<RunTimes> {
        let mut rest = timestamps;
        lens.iter()
            .map(|&len| {
                let (run, behind) = rest.split_at(len);
                rest = behind;
                RunTimes { entries: len as u32, min_ns: run[0], max_ns: run[len - 1] }
            })
            .collect()
    }

    fn round_trip(timestamps: &[i64], lens: &[usize]) -> usize {
        let mut bytes = Vec::new();
        encode(timestamps, lens.iter().copied(), &mut Vec::new(), &mut bytes);
        let runs = bounds(timestamps, lens);
        let read = decode(&bytes, runs.iter().copied(), timestamps.len());
        assert_eq!(read.as_deref(), Ok(timestamps));
        let mut wrong = runs.clone();
        wrong[0].max_ns = wrong[0].max_ns.wrapping_add(1);
        assert!(decode(&bytes, wrong.into_iter(), timestamps.len()).is_err());
        let mut wrong = runs;
        wrong[0].entries += 1;
        assert!(decode(&bytes, wrong.into_iter(), timestamps.len()).is_err());
        bytes.len()
    }

    #[test]
    fn regular_and_coarse_times_cost_little() {
        let regular: Vec<i64> = (0..6400).map(|i| i * 1_000_000_000).collect();
        assert!(round_trip(&regular, &[6400]) <= 205, "two bytes per group and the divisor");
        let mut rng = Rng::new(1);
        let mut at = 1_700_000_000_000;
        let coarse: Vec<i64> = (0..6400)
            .map(|_| {
                at += rng.below(16) as i64;
                at * 1_000_000
            })
            .collect();
        assert!(round_trip(&coarse, &[6400]) < 6400 / 2 + 200, "four bits each");
    }

    #[test]
    fn exact_division_is_division() {
        for seed in seeds(2000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let divisor = (rng.next_u64() >> rng.below(64)).max(1);
            let exact = ExactDivisor::new(divisor);
            for _ in 0..50 {
                let value = rng.next_u64() >> rng.below(64);
                assert_eq!(exact.divides(value), value.is_multiple_of(divisor));
                let multiple = value - value % divisor;
                assert!(exact.divides(multiple));
                assert_eq!(exact.turned(multiple), multiple / divisor);
            }
        }
    }

    #[test]
    fn the_divisor_is_that_of_all_distances() {
        assert_eq!((common_divisor(&[]), common_divisor(&[0; 20])), (1, 1));
        for seed in seeds(2000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let unit = *rng.pick(&[1, 2, 1000, 1 << 40, 999_983]);
            let distances: Vec<u64> = (0..rng.below(60))
                .map(|_| rng.below(1000) * unit * *rng.pick(&[0, 1, 6, 12, 12]))
                .collect();
            let slow = distances.iter().copied().fold(0, gcd).max(1);
            assert_eq!(common_divisor(&distances), slow);
        }
    }

    #[test]
    fn extremes_ties_and_short_runs_read_back() {
        round_trip(&[i64::MIN, i64::MAX], &[2]);
        round_trip(&[i64::MIN, i64::MIN, 0, i64::MAX, i64::MAX], &[5]);
        round_trip(&[7], &[1]);
        round_trip(&[i64::MAX, i64::MIN, -1, -1, 5], &[1, 1, 2, 1]);
        round_trip(&[3; 200], &[64, 1, 65, 70]);
    }

    #[test]
    fn random_runs_read_back_and_damage_never_breaks_the_order() {
        for seed in seeds(2000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let scale = *rng.pick(&[1, 1000, 1_000_000, 7]);
            let mut timestamps = Vec::new();
            let mut lens = Vec::new();
            for _ in 0..rng.between(1, 6) {
                let len = rng.between(1, 150) as usize;
                let mut at = rng.next_u64() as i64 >> rng.below(40);
                lens.push(len);
                for _ in 0..len {
                    timestamps.push(at);
                    let step = (rng.below(1000) as i64).saturating_mul(scale);
                    at = at.saturating_add(step);
                }
            }
            round_trip(&timestamps, &lens);
            let mut bytes = Vec::new();
            encode(&timestamps, lens.iter().copied(), &mut Vec::new(), &mut bytes);
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
            let runs = bounds(&timestamps, &lens);
            if let Ok(read) = decode(&bytes, runs.iter().copied(), timestamps.len()) {
                let mut rest = &read[..];
                for run in runs {
                    let (now, behind) = rest.split_at(run.entries as usize);
                    rest = behind;
                    assert!(now.is_sorted());
                    assert_eq!((now[0], now[now.len() - 1]), (run.min_ns, run.max_ns));
                }
            }
            let random: Vec<u8> = (0..rng.below(60)).map(|_| rng.next_u64() as u8).collect();
            let runs = bounds(&timestamps, &lens);
            let _ = decode(&random, runs.into_iter(), timestamps.len());
        }
    }
}
