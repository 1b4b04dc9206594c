//! The column of line lengths, packed. `docs/format.md` gives the bytes.
//!
//! Decoding gives exclusive ends that count from the beginning of each run, so that a run's
//! part of the column fits its part of the lines.

use super::packed::{self, Malformed};

/// What the directory says of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunLines {
    pub(crate) entries: u32,
    pub(crate) line_bytes: u32,
}

/// Encodes the lengths of adjacent lines that end at `ends`; the first line begins at 0.
/// `scratch` is overwritten.
pub(crate) fn encode(ends: &[u32], scratch: &mut Vec<u64>, out: &mut Vec<u8>) {
    scratch.clear();
    let mut start = 0;
    scratch.extend(ends.iter().map(|&end| u64::from(end - std::mem::replace(&mut start, end))));
    packed::encode(scratch, out);
}

/// Decodes the line ends of all runs. The ends of each run count from 0, and the last one is
/// the number of the run's line bytes.
pub(crate) fn decode(
    bytes: &[u8],
    runs: impl Iterator<Item = RunLines>,
    entries: usize,
) -> Result<Vec<u32>, Malformed> {
    let mut out: Vec<u32> = Vec::with_capacity(entries);
    let mut widest = 0;
    packed::decode(bytes, entries, |lengths| {
        out.extend(lengths.iter().map(|&len| {
            widest |= len;
            len as u32
        }));
    })?;
    if widest > u64::from(u32::MAX) {
        return Err(Malformed);
    }
    let mut rest = &mut out[..];
    for run in runs {
        let (now, behind) = rest.split_at_mut_checked(run.entries as usize).ok_or(Malformed)?;
        rest = behind;
        // A block has fewer than 2^32 lines, so that their lengths add up to less than 2^64. If
        // the sum is right, no length was truncated.
        let mut end = 0u64;
        for place in now {
            end += u64::from(*place);
            *place = end as u32;
        }
        if end != u64::from(run.line_bytes) {
            return Err(Malformed);
        }
    }
    if rest.is_empty() { Ok(out) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    fn ends_of(lengths: &[u32]) -> Vec<u32> {
        let mut end = 0;
        lengths
            .iter()
            .map(|len| {
                end += len;
                end
            })
            .collect()
    }

    #[test]
    fn ends_begin_anew_with_each_run() {
        let mut bytes = Vec::new();
        encode(&[3, 3, 8, 9, 10], &mut Vec::new(), &mut bytes);
        let runs =
            [(2, 3), (1, 5), (2, 2)].map(|(entries, line_bytes)| RunLines { entries, line_bytes });
        assert_eq!(decode(&bytes, runs.into_iter(), 5), Ok(vec![3, 3, 5, 1, 2]));
        let short = runs[..2].iter().copied();
        assert_eq!(decode(&bytes, short, 5), Err(Malformed), "a run is missing");
        let mut wrong = runs;
        wrong[1].line_bytes = 6;
        assert_eq!(decode(&bytes, wrong.into_iter(), 5), Err(Malformed));
        let mut wrong = runs;
        wrong[2].entries = 3;
        assert_eq!(decode(&bytes, wrong.into_iter(), 5), Err(Malformed));
    }

    #[test]
    fn lengths_beyond_any_line_are_refused() {
        let mut bytes = Vec::new();
        packed::encode(&[1 << 32, u64::from(u32::MAX)], &mut bytes);
        let run = RunLines { entries: 2, line_bytes: u32::MAX };
        assert_eq!(decode(&bytes, [run].into_iter(), 2), Err(Malformed));
        bytes.clear();
        packed::encode(&[u64::from(u32::MAX), 1], &mut bytes);
        let run = RunLines { entries: 2, line_bytes: 0 };
        assert_eq!(decode(&bytes, [run].into_iter(), 2), Err(Malformed));
    }

    #[test]
    fn random_lengths_read_back_and_damage_keeps_the_ends_in_bounds() {
        for seed in seeds(2000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let lengths: Vec<u32> = (0..rng.between(1, 400))
                .map(|_| (rng.below(1 << 20) >> rng.below(20)) as u32)
                .collect();
            let cut = rng.below(lengths.len() as u64 + 1) as usize;
            let runs = [&lengths[..cut], &lengths[cut..]]
                .map(|run| RunLines { entries: run.len() as u32, line_bytes: run.iter().sum() });
            let mut bytes = Vec::new();
            encode(&ends_of(&lengths), &mut Vec::new(), &mut bytes);
            let ends = decode(&bytes, runs.into_iter(), lengths.len()).unwrap();
            for (run, from) in runs.iter().zip([0, cut]) {
                let mut start = 0;
                for (end, len) in
                    ends[from..].iter().zip(&lengths[from..]).take(run.entries as usize)
                {
                    assert_eq!(end - start, *len);
                    start = *end;
                }
            }
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << rng.below(8);
            if let Ok(ends) = decode(&bytes, runs.into_iter(), lengths.len()) {
                assert!(ends[..cut].is_sorted() && ends[cut..].is_sorted());
                assert_eq!(
                    ends.last().copied(),
                    Some(runs[1].line_bytes)
                        .filter(|_| cut < lengths.len())
                        .or(Some(runs[0].line_bytes))
                );
            }
        }
    }
}
