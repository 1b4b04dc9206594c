//! The partitions that a core owns: any of all, and others at another time.

use std::sync::Arc;

use logsvc_proto::StreamId;

use super::partitions::{Part, StreamPartitions};

/// Some of all partitions. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedPartitions {
    /// Number of all partitions, at least 1.
    of: u16,
    /// The first and the last of each run of partitions that follow each other, rising; there is a gap
    /// between any two runs.
    runs: Arc<[(u16, u16)]>,
}

impl From<Part> for OwnedPartitions {
    fn from(part: Part) -> OwnedPartitions {
        OwnedPartitions { of: part.of(), runs: Arc::from([part.bounds()]) }
    }
}

impl OwnedPartitions {
    /// None of so many.
    pub fn none(of: u16) -> OwnedPartitions {
        OwnedPartitions { of: of.max(1), runs: Arc::from([]) }
    }

    /// These of so many; numbers that are too large are left out.
    pub fn some(of: u16, partitions: impl IntoIterator<Item = u16>) -> OwnedPartitions {
        let of = of.max(1);
        let mut partitions: Vec<u16> = partitions.into_iter().filter(|one| *one < of).collect();
        partitions.sort_unstable();
        partitions.dedup();
        let runs = partitions.chunk_by(|one, next| *next - *one == 1);
        let runs = runs.map(|run| (run[0], run[run.len() - 1]));
        OwnedPartitions { of, runs: runs.collect() }
    }

    /// How many partitions there are, owned or not.
    pub fn of(&self) -> u16 {
        self.of
    }

    /// Their numbers, rising.
    pub fn numbers(&self) -> impl Iterator<Item = u16> {
        self.runs.iter().flat_map(|&(first, last)| first..=last)
    }

    /// Their runs.
    pub fn parts(&self) -> impl Iterator<Item = Part> {
        self.runs.iter().filter_map(|&(first, last)| Part::new(self.of, first, last))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether a stream is in one of them.
    pub fn has(&self, stream: StreamId) -> bool {
        let partition = stream.shard(self.of);
        self.runs.iter().any(|&(first, last)| (first..=last).contains(&partition))
    }

    /// Whether a partition is one of them.
    pub fn has_number(&self, partition: u16) -> bool {
        self.runs.iter().any(|&(first, last)| (first..=last).contains(&partition))
    }

    /// These and others of the same number of partitions.
    #[must_use]
    pub fn with(&self, others: &OwnedPartitions) -> OwnedPartitions {
        debug_assert_eq!(self.of, others.of, "of one store");
        OwnedPartitions::some(self.of, self.numbers().chain(others.numbers()))
    }

    /// These without others of the same number of partitions.
    #[must_use]
    pub fn without(&self, others: &OwnedPartitions) -> OwnedPartitions {
        debug_assert_eq!(self.of, others.of, "of one store");
        OwnedPartitions::some(self.of, self.numbers().filter(|&one| !others.has_number(one)))
    }

    /// The partitions from the first to the last of them; `None` if there are none.
    pub(crate) fn hull(&self) -> Option<Part> {
        let (first, _) = *self.runs.first()?;
        let (_, last) = *self.runs.last()?;
        Part::new(self.of, first, last)
    }

    /// The partitions of [`OwnedPartitions::hull`] that are none of them.
    pub(crate) fn gaps(&self) -> StreamPartitions {
        let gaps = self.runs.windows(2).filter_map(|pair| {
            let ((_, before), (behind, _)) = (pair[0], pair[1]);
            Part::new(self.of, before + 1, behind - 1)
        });
        gaps.collect()
    }

    /// Whether they have all streams that a file may hold, as the two numbers of its name say,
    /// and that have not left it.
    pub(crate) fn contain_file(&self, file: (u32, u32), left: &StreamPartitions) -> bool {
        if left.is_empty() {
            // It holds streams of partitions that follow each other.
            return self.parts().any(|part| part.contains_file(file));
        }
        let all: StreamPartitions = self.parts().chain(left.iter()).collect();
        all.contains_file(file)
    }

    /// Those of their runs of which a file may hold streams that have not left it.
    pub(crate) fn parts_of_file(&self, file: (u32, u32), left: &StreamPartitions) -> Vec<Part> {
        self.parts().filter(|part| !left.contains_part_of_file(file, *part)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    #[test]
    fn sets_are_those_of_their_numbers() {
        for seed in seeds(200) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let of = rng.between(1, 40) as u16;
            let pick =
                |rng: &mut Rng| -> Vec<u16> { (0..of).filter(|_| rng.below(2) == 0).collect() };
            let (one, other) = (pick(&mut rng), pick(&mut rng));
            let set = |numbers: &[u16]| OwnedPartitions::some(of, numbers.iter().rev().copied());
            let (a, b) = (set(&one), set(&other));
            assert_eq!(a.numbers().collect::<Vec<_>>(), one);
            let both = (0..of).filter(|n| one.contains(n) || other.contains(n));
            assert_eq!(a.with(&b), OwnedPartitions::some(of, both));
            let rest = one.iter().copied().filter(|n| !other.contains(n));
            assert_eq!(a.without(&b), OwnedPartitions::some(of, rest));
            let of_parts: Vec<Part> = a.parts().collect();
            let gaps = a.gaps();
            for partition in 0..of {
                let stream =
                    StreamId(((u128::from(partition) << 64).div_ceil(u128::from(of))) << 64);
                assert_eq!(stream.shard(of), partition);
                let is_in = one.contains(&partition);
                assert_eq!((a.has(stream), a.has_number(partition)), (is_in, is_in));
                assert_eq!(of_parts.iter().any(|part| part.has(stream)), is_in);
                let is_in_hull = a.hull().is_some_and(|hull| hull.has(stream));
                assert_eq!(gaps.contains(stream), is_in_hull && !is_in);
            }
            if let Some(hull) = a.hull() {
                assert!(a.contain_file(hull.numbers(), &gaps));
                let none = StreamPartitions::default();
                assert_eq!(a.contain_file(hull.numbers(), &none), gaps.is_empty());
                assert_eq!(a.parts_of_file(hull.numbers(), &none), of_parts);
            }
        }
    }

    #[test]
    fn runs_that_have_left_a_file_are_none_of_it() {
        let owned = OwnedPartitions::some(8, [0, 1, 4, 7]);
        let file = Part::new(8, 1, 5).expect("it is one").numbers();
        let part = |first, last| Part::new(8, first, last).expect("it is one");
        assert_eq!(
            owned.parts_of_file(file, &StreamPartitions::default()),
            [part(0, 1), part(4, 4)]
        );
        let left: StreamPartitions = [part(1, 3)].into_iter().collect();
        assert_eq!(owned.parts_of_file(file, &left), [part(4, 4)]);
        assert!(!owned.contain_file(file, &left));
        let left: StreamPartitions = [part(1, 3), part(5, 5)].into_iter().collect();
        assert!(owned.contain_file(file, &left));
        assert!(OwnedPartitions::none(8).parts_of_file(file, &left).is_empty());
    }
}
