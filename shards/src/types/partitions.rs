//! Partitions: contiguous ranges of ids of streams, and sets of streams that are made of them.
//!
//! A store has a number of partitions. Each core owns some that follow each other ([`Layout`]), and
//! the files that it writes say which ([`Part`]). So whoever reads a file later, with any number of
//! cores or partitions, knows which streams it may hold. Parts of different numbers of partitions
//! may overlap, and add up, since all are ranges of ids ([`StreamId::shard`]).

use logsvc_proto::StreamId;

/// Some partitions that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    /// Number of all partitions, at least 1.
    of: u16,
    /// The first of these, below `of`.
    first: u16,
    /// The last of these, below `of` and not below `first`.
    last: u16,
}

impl Part {
    /// Some partitions of all; `None` if there are none such.
    pub fn new(of: u16, first: u16, last: u16) -> Option<Part> {
        (first <= last && last < of).then_some(Part { of, first, last })
    }

    /// One partition of so many; the last one if there is no such partition.
    pub fn one(of: u16, partition: u16) -> Part {
        let of = of.max(1);
        let first = partition.min(of - 1);
        Part { of, first, last: first }
    }

    /// The part that two numbers tell in the name of a file or in a record; `None` if nobody has
    /// written them. The second has the first partition in its lower half, and in the upper half
    /// how many there are besides.
    pub fn of_numbers(shards: u32, shard: u32) -> Option<Part> {
        let (first, more) = (shard as u16, (shard >> 16) as u16);
        Part::new(u16::try_from(shards).ok()?, first, first.checked_add(more)?)
    }

    /// These two numbers.
    pub fn numbers(self) -> (u32, u32) {
        let more = u32::from(self.last - self.first);
        (u32::from(self.of), u32::from(self.first) | more << 16)
    }

    /// How many partitions there are.
    pub(super) fn of(self) -> u16 {
        self.of
    }

    /// The first and the last.
    pub(super) fn bounds(self) -> (u16, u16) {
        (self.first, self.last)
    }

    /// All of so many partitions.
    pub(crate) fn all(of: u16) -> Part {
        let of = of.max(1);
        Part { of, first: 0, last: of - 1 }
    }

    /// Whether a stream is in one of them.
    pub fn has(self, stream: StreamId) -> bool {
        (self.first..=self.last).contains(&stream.shard(self.of))
    }

    /// Whether all streams are in them that a file may hold, as the two numbers of its name say.
    pub(super) fn contains_file(self, file: (u32, u32)) -> bool {
        let ((start, end), (first, behind)) = (self.ids(), ids_of_file(file));
        start <= first && behind <= end
    }

    /// The upper halves of the ids in them.
    fn ids(self) -> (u128, u128) {
        let start = |partition: u128| (partition << 64).div_ceil(u128::from(self.of));
        (start(u128::from(self.first)), start(u128::from(self.last) + 1))
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Part { of, first, last } = self;
        if first == last {
            write!(f, "shard {first} of {of}")
        } else {
            write!(f, "partitions {first} to {last} of {of}")
        }
    }
}

/// How partitions are laid out over the cores of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    partitions: u16,
    cores: u16,
}

impl Default for Layout {
    /// One partition on one core.
    fn default() -> Layout {
        Layout { partitions: 1, cores: 1 }
    }
}

impl Layout {
    /// So many partitions on so many cores. There are as many partitions as cores at least.
    pub fn new(partitions: u16, cores: u16) -> Layout {
        let cores = cores.max(1);
        Layout { partitions: partitions.max(cores), cores }
    }

    /// One partition for each core.
    pub fn of_cores(cores: u16) -> Layout {
        Layout::new(1, cores)
    }

    /// How many partitions there are.
    pub fn partitions(self) -> u16 {
        self.partitions
    }

    /// How many cores there are.
    pub fn cores(self) -> u16 {
        self.cores
    }

    /// The core that owns a stream.
    pub fn core_of(self, stream: StreamId) -> u16 {
        self.core_of_partition(stream.shard(self.partitions))
    }

    /// The core that owns a partition.
    pub fn core_of_partition(self, partition: u16) -> u16 {
        (u32::from(partition) * u32::from(self.cores) / u32::from(self.partitions)) as u16
    }

    /// The partitions that a core owns; those of the last one if there is no such core.
    pub fn part_of(self, core: u16) -> Part {
        let core = u32::from(core.min(self.cores - 1));
        let start =
            |core: u32| (core * u32::from(self.partitions)).div_ceil(u32::from(self.cores)) as u16;
        Part { of: self.partitions, first: start(core), last: start(core + 1) - 1 }
    }

    /// The core that owns the first stream that a file may hold, as the two numbers of its name
    /// say.
    pub(crate) fn core_of_file(self, file: (u32, u32)) -> u16 {
        let (start, _) = ids_of_file(file);
        self.core_of(StreamId(start << 64))
    }
}

/// The streams of some parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamPartitions {
    parts: Vec<Part>,
}

impl FromIterator<Part> for StreamPartitions {
    fn from_iter<I: IntoIterator<Item = Part>>(parts: I) -> StreamPartitions {
        StreamPartitions { parts: parts.into_iter().collect() }
    }
}

impl StreamPartitions {
    /// The parts.
    pub fn iter(&self) -> impl Iterator<Item = Part> {
        self.parts.iter().copied()
    }

    /// Whether there are no parts.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether a stream is in one of them.
    pub fn contains(&self, stream: StreamId) -> bool {
        self.parts.iter().any(|part| part.has(stream))
    }

    /// Whether all streams of a part are in them.
    pub(crate) fn contains_part(&self, part: Part) -> bool {
        self.contains_ids(part.ids())
    }

    /// Whether all streams are in them that a file may hold, as the two numbers of its name say.
    pub fn contains_file(&self, file: (u32, u32)) -> bool {
        self.contains_ids(ids_of_file(file))
    }

    /// Whether all streams are in them that the file may hold and that are in `part`. This is also
    /// so if there are none.
    pub fn contains_part_of_file(&self, file: (u32, u32), part: Part) -> bool {
        let (of_file, of_part) = (ids_of_file(file), part.ids());
        self.contains_ids((of_file.0.max(of_part.0), of_file.1.min(of_part.1)))
    }

    fn contains_ids(&self, (mut start, end): (u128, u128)) -> bool {
        let mut parts: Vec<(u128, u128)> = self.parts.iter().map(|part| part.ids()).collect();
        parts.sort_unstable();
        for (part_start, part_end) in parts {
            if part_start <= start {
                start = start.max(part_end);
            }
        }
        start >= end
    }
}

/// Whether two files, each given by the two numbers in its name, may hold the same stream.
pub(crate) fn may_share_streams(one: (u32, u32), other: (u32, u32)) -> bool {
    let (one, other) = (ids_of_file(one), ids_of_file(other));
    one.0 < other.1 && other.0 < one.1
}

/// The upper halves of the ids that a file may hold.
fn ids_of_file((shards, shard): (u32, u32)) -> (u128, u128) {
    // A name that no start has given may hold anything.
    Part::of_numbers(shards, shard).map_or((0, 1 << 64), Part::ids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_ids_are_those_of_the_shards() {
        for shards in [1, 2, 3, 7, 64, 1000, u16::MAX] {
            let mut expected = 0;
            for shard in 0..shards {
                let (start, end) = Part::one(shards, shard).ids();
                assert_eq!(start, expected);
                assert_eq!(StreamId(start << 64).shard(shards), shard);
                assert_eq!(StreamId((end << 64).wrapping_sub(1)).shard(shards), shard);
                expected = end;
            }
            assert_eq!(expected, 1 << 64);
        }
    }

    fn set(parts: &[(u16, u16)]) -> StreamPartitions {
        parts.iter().map(|&(shards, shard)| Part::one(shards, shard)).collect()
    }

    #[test]
    fn each_partition_has_one_core_and_names_tell_which() {
        for (partitions, cores) in
            [(1, 1), (64, 1), (64, 2), (64, 3), (64, 64), (64, 100), (1000, 48), (u16::MAX, 7)]
        {
            let layout = Layout::new(partitions, cores);
            let mut next = 0;
            for core in 0..cores {
                let part = layout.part_of(core);
                assert_eq!(part.first, next, "core {core} of {layout:?}");
                next = part.last + 1;
                let (start, end) = part.ids();
                for high in [start, start.midpoint(end), end - 1] {
                    let stream = StreamId(high << 64 | 7);
                    assert!(part.has(stream) && layout.core_of(stream) == core);
                }
                assert_eq!(Part::of_numbers(part.numbers().0, part.numbers().1), Some(part));
                assert_eq!(layout.core_of_file(part.numbers()), core);
            }
            assert_eq!(next, layout.partitions);
        }
        // One partition is what names said when there was one for each shard.
        assert_eq!(Part::one(5, 3).numbers(), (5, 3));
        assert_eq!(Layout::of_cores(5).part_of(3), Part::one(5, 3));
        for odd in [(0, 0), (2, 2), (2, 1 << 16 | 1), (1 << 16, 0), (4, 0xffff_ffff)] {
            assert_eq!(Part::of_numbers(odd.0, odd.1), None, "{odd:?}");
        }
    }

    /// Ids at both sides of all borders of up to twelve shards.
    fn borders() -> impl Iterator<Item = StreamId> {
        let borders = (1..=12_u128).flat_map(|of| (0..=of).map(move |n| (n << 64).div_ceil(of)));
        let sides = borders.flat_map(|border| [border.saturating_sub(1), border]);
        sides.filter(|high| *high < 1 << 64).map(|high| StreamId(high << 64))
    }

    #[test]
    fn parts_of_different_partitions_add_up() {
        // The file has the upper half of all ids.
        let contained = |parts: &[(u16, u16)]| {
            let parts = set(parts);
            // The ranges say the same as the ids at both sides of every border.
            let mut of_file = borders().filter(|id| id.shard(2) == 1);
            let expected = of_file.all(|id| parts.contains(id));
            assert_eq!(parts.contains_part(Part::one(2, 1)), expected, "{parts:?}");
            assert_eq!(parts.contains_file((2, 1)), expected, "{parts:?}");
            expected
        };
        assert!(contained(&[(4, 3), (4, 2)]));
        assert!(contained(&[(3, 1), (3, 2)]));
        assert!(contained(&[(3, 2), (2, 0), (12, 7), (12, 6)]));
        assert!(contained(&[(4, 2), (3, 2), (12, 9), (2, 1)]));
        assert!(!contained(&[(3, 2), (12, 7)]));
        assert!(!contained(&[(4, 3), (4, 1), (4, 0)]));
        assert!(!contained(&[]));
    }

    #[test]
    fn what_a_shard_has_of_a_file_is_what_both_have() {
        let some = [(1, 0), (2, 1), (3, 1), (4, 2), (7, 3), (12, 11)];
        for file in some {
            for (shards, shard) in some {
                for parts in [&some[..0], &some[1..3], &some[3..4], &some[4..], &some[..]] {
                    let parts = set(parts);
                    let mut both = borders()
                        .filter(|id| id.shard(file.0) == file.1 && id.shard(shards) == shard);
                    let expected = both.all(|id| parts.contains(id));
                    let file = (u32::from(file.0), u32::from(file.1));
                    let found = parts.contains_part_of_file(file, Part::one(shards, shard));
                    assert_eq!(found, expected, "{shard} of {shards}, {file:?}, {parts:?}");
                }
                let mut both =
                    borders().filter(|id| id.shard(file.0) == file.1 && id.shard(shards) == shard);
                let file = (u32::from(file.0), u32::from(file.1));
                let other = (u32::from(shards), u32::from(shard));
                assert_eq!(may_share_streams(file, other), both.next().is_some());
            }
        }
    }

    #[test]
    fn a_name_that_no_start_gave_is_contained_by_everything_only() {
        let odd = (1 << 20, 7);
        assert!(set(&[(2, 0), (2, 1)]).contains_file(odd));
        assert!(!set(&[(2, 1)]).contains_file(odd));
        assert!(set(&[(2, 1)]).contains_part_of_file(odd, Part::one(2, 1)));
        assert!(!set(&[(2, 1)]).contains_part_of_file(odd, Part::one(2, 0)));
        assert!(may_share_streams(odd, (64, 3)));
    }
}
