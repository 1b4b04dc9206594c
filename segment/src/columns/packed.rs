//! Packed numbers: groups of 64. The width of a group is that of its largest number, after a
//! base was subtracted where that saves bytes. `docs/format.md` gives the bytes.
//!
//! Guarantees: [`decode`] reads the numbers that [`encode`] writes. It reads arbitrary bytes
//! without panic and without allocating. There is a function for packing and one for unpacking
//! per width, so that every shift and mask is a constant.

use logsvc_proto::varint;

/// Numbers in a group.
pub(crate) const GROUP: usize = 64;

const HAS_BASE: u8 = 0x80;
/// Widths above this one are stored as 64, so that a number never spans more than
/// eight bytes.
const WIDEST: u32 = 56;

/// The bytes are not packed numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// Appends `values` to `out`.
pub(crate) fn encode(values: &[u64], out: &mut Vec<u8>) {
    for group in values.chunks(GROUP) {
        let (min, max) = bounds(group);
        if max == 0 {
            out.push(0);
            continue;
        }
        let (plain, based) = (width_of(max), width_of(max - min));
        let saved = packed_len(plain, group.len()) - packed_len(based, group.len());
        let base = if saved > varint_len(min) { min } else { 0 };
        let width = if base > 0 { based } else { plain };
        out.push(width as u8 | if base > 0 { HAS_BASE } else { 0 });
        if base > 0 {
            varint::write(out, base);
        }
        pack(group, base, width, out);
    }
}

/// The smallest and the largest number. With vectors of 16 bytes comparing two numbers takes
/// seven instructions, which would be most of the work of encoding.
fn bounds(group: &[u64]) -> (u64, u64) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn bounds_wide(group: &[u64]) -> (u64, u64) {
            bounds_inline(group)
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the condition above has found that the CPU has the feature.
            return unsafe { bounds_wide(group) };
        }
    }
    bounds_inline(group)
}

/// Inlined into its callers, so that it is compiled for the CPU features of each.
#[inline(always)]
fn bounds_inline(group: &[u64]) -> (u64, u64) {
    let bounds = (u64::MAX, 0);
    group.iter().fold(bounds, |(min, max), &number| (number.min(min), number.max(max)))
}

fn width_of(value: u64) -> u32 {
    let bits = u64::BITS - value.leading_zeros();
    if bits > WIDEST { u64::BITS } else { bits }
}

fn packed_len(width: u32, count: usize) -> usize {
    (width as usize * count).div_ceil(8)
}

fn varint_len(value: u64) -> usize {
    (u64::BITS - (value | 1).leading_zeros()).div_ceil(7) as usize
}

fn pack(group: &[u64], base: u64, width: u32, out: &mut Vec<u8>) {
    let len = packed_len(width, group.len());
    if len == 0 {
        return;
    }
    let mut values = [0; GROUP];
    for (value, from) in values.iter_mut().zip(group) {
        *value = from - base;
    }
    let mut words = [0; GROUP];
    PACK[width as usize](&values, &mut words);
    let mut bytes = [0; GROUP * 8];
    for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    out.extend_from_slice(&bytes[..len]);
}

/// Reads `count` numbers, which must take up all of `bytes`, and calls `each` with pieces of
/// at most [`GROUP`] numbers.
pub(crate) fn decode(
    bytes: &[u8],
    count: usize,
    mut each: impl FnMut(&[u64]),
) -> Result<(), Malformed> {
    let mut values = [0; GROUP];
    let mut at = 0;
    let mut left = count;
    while left > 0 {
        let len = left.min(GROUP);
        left -= len;
        let group = read_group(bytes, at, len)?;
        group.unpack(bytes, &mut values)?;
        at = group.end;
        each(&values[..len]);
    }
    if at == bytes.len() { Ok(()) } else { Err(Malformed) }
}

/// The position and encoding of a group.
struct Group {
    width: usize,
    base: u64,
    start: usize,
    end: usize,
}

/// Reads the head of a group of `count` numbers.
#[inline(always)]
fn read_group(bytes: &[u8], mut at: usize, len: usize) -> Result<Group, Malformed> {
    let head = *bytes.get(at).ok_or(Malformed)?;
    at += 1;
    let width = u32::from(head & !HAS_BASE);
    if width > WIDEST && width != u64::BITS {
        return Err(Malformed);
    }
    let base = match head & HAS_BASE {
        0 => 0,
        _ => varint::read(bytes, &mut at).map_err(|_| Malformed)?,
    };
    let end = at + packed_len(width, len);
    Ok(Group { width: width as usize, base, start: at, end })
}

impl Group {
    /// Reads the numbers of the group. If they are fewer than [`GROUP`], arbitrary numbers
    /// follow them.
    #[inline(always)]
    fn unpack(&self, bytes: &[u8], values: &mut [u64; GROUP]) -> Result<(), Malformed> {
        let unpack = UNPACK[self.width];
        let wanted = packed_len(self.width as u32, GROUP) + SLACK;
        match bytes.get(self.start..self.start + wanted) {
            Some(source) => unpack(source, self.base, values),
            None => {
                // At the end of the column an unpacker reads a copy that is padded with zeros.
                let mut padded = [0; GROUP * 8 + SLACK];
                let stored = bytes.get(self.start..self.end).ok_or(Malformed)?;
                padded[..stored.len()].copy_from_slice(stored);
                unpack(&padded[..wanted], self.base, values);
            }
        }
        Ok(())
    }
}

/// Reads single numbers by ascending position, and skips groups without one.
#[derive(Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    /// Offset of the next group, and the number of numbers from there on.
    at: usize,
    left: usize,
    /// The numbers of the last group that was read, and the position of the first one.
    values: [u64; GROUP],
    first: usize,
    end: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor before the first of `count` numbers.
    pub(crate) fn new(bytes: &'a [u8], count: usize) -> Cursor<'a> {
        Cursor { bytes, at: 0, left: count, values: [0; GROUP], first: 0, end: 0 }
    }

    /// The number at a position. Its group must not precede the group of the last call.
    ///
    /// # Errors
    /// If there is no such number, or a group up to it is malformed.
    #[inline]
    pub(crate) fn get(&mut self, place: usize) -> Result<u64, Malformed> {
        while place >= self.end {
            if self.left == 0 {
                return Err(Malformed);
            }
            let len = self.left.min(GROUP);
            let group = read_group(self.bytes, self.at, len)?;
            (self.first, self.end) = (self.end, self.end + len);
            (self.at, self.left) = (group.end, self.left - len);
            if place < self.end {
                group.unpack(self.bytes, &mut self.values)?;
            }
        }
        place.checked_sub(self.first).map(|index| self.values[index]).ok_or(Malformed)
    }
}

/// Bytes after a group that an unpacker loads and ignores.
const SLACK: usize = 8;

type Unpack = fn(&[u8], u64, &mut [u64; GROUP]);

/// Unpackers by width, also for widths that are never stored.
static UNPACK: [Unpack; 65] = [
    unpack::<0>,
    unpack::<1>,
    unpack::<2>,
    unpack::<3>,
    unpack::<4>,
    unpack::<5>,
    unpack::<6>,
    unpack::<7>,
    unpack::<8>,
    unpack::<9>,
    unpack::<10>,
    unpack::<11>,
    unpack::<12>,
    unpack::<13>,
    unpack::<14>,
    unpack::<15>,
    unpack::<16>,
    unpack::<17>,
    unpack::<18>,
    unpack::<19>,
    unpack::<20>,
    unpack::<21>,
    unpack::<22>,
    unpack::<23>,
    unpack::<24>,
    unpack::<25>,
    unpack::<26>,
    unpack::<27>,
    unpack::<28>,
    unpack::<29>,
    unpack::<30>,
    unpack::<31>,
    unpack::<32>,
    unpack::<33>,
    unpack::<34>,
    unpack::<35>,
    unpack::<36>,
    unpack::<37>,
    unpack::<38>,
    unpack::<39>,
    unpack::<40>,
    unpack::<41>,
    unpack::<42>,
    unpack::<43>,
    unpack::<44>,
    unpack::<45>,
    unpack::<46>,
    unpack::<47>,
    unpack::<48>,
    unpack::<49>,
    unpack::<50>,
    unpack::<51>,
    unpack::<52>,
    unpack::<53>,
    unpack::<54>,
    unpack::<55>,
    unpack::<56>,
    unpack::<64>,
    unpack::<64>,
    unpack::<64>,
    unpack::<64>,
    unpack::<64>,
    unpack::<64>,
    unpack::<64>,
    unpack::<64>,
];

type Pack = fn(&[u64; GROUP], &mut [u64; GROUP]);

/// Packers by width, like [`UNPACK`].
static PACK: [Pack; 65] = [
    pack_words::<0>,
    pack_words::<1>,
    pack_words::<2>,
    pack_words::<3>,
    pack_words::<4>,
    pack_words::<5>,
    pack_words::<6>,
    pack_words::<7>,
    pack_words::<8>,
    pack_words::<9>,
    pack_words::<10>,
    pack_words::<11>,
    pack_words::<12>,
    pack_words::<13>,
    pack_words::<14>,
    pack_words::<15>,
    pack_words::<16>,
    pack_words::<17>,
    pack_words::<18>,
    pack_words::<19>,
    pack_words::<20>,
    pack_words::<21>,
    pack_words::<22>,
    pack_words::<23>,
    pack_words::<24>,
    pack_words::<25>,
    pack_words::<26>,
    pack_words::<27>,
    pack_words::<28>,
    pack_words::<29>,
    pack_words::<30>,
    pack_words::<31>,
    pack_words::<32>,
    pack_words::<33>,
    pack_words::<34>,
    pack_words::<35>,
    pack_words::<36>,
    pack_words::<37>,
    pack_words::<38>,
    pack_words::<39>,
    pack_words::<40>,
    pack_words::<41>,
    pack_words::<42>,
    pack_words::<43>,
    pack_words::<44>,
    pack_words::<45>,
    pack_words::<46>,
    pack_words::<47>,
    pack_words::<48>,
    pack_words::<49>,
    pack_words::<50>,
    pack_words::<51>,
    pack_words::<52>,
    pack_words::<53>,
    pack_words::<54>,
    pack_words::<55>,
    pack_words::<56>,
    pack_words::<64>,
    pack_words::<64>,
    pack_words::<64>,
    pack_words::<64>,
    pack_words::<64>,
    pack_words::<64>,
    pack_words::<64>,
    pack_words::<64>,
];

/// Packs a group into the first `W` words.
fn pack_words<const W: usize>(values: &[u64; GROUP], words: &mut [u64; GROUP]) {
    if W == 64 {
        *words = *values;
        return;
    }
    for (index, &value) in values.iter().enumerate() {
        let (word, shift) = (index * W / 64, index * W % 64);
        words[word] |= value << shift;
        if shift + W > 64 {
            words[word + 1] |= value >> (64 - shift);
        }
    }
}

/// Unpacks a group from `8 * W + SLACK` bytes. A sum that overflows wraps: only damaged bytes
/// give one, and columns check their numbers.
fn unpack<const W: usize>(source: &[u8], base: u64, values: &mut [u64; GROUP]) {
    let source = &source[..8 * W + SLACK];
    let mask = if W == 64 { u64::MAX } else { (1 << W) - 1 };
    for (index, value) in values.iter_mut().enumerate() {
        let bit = index * W;
        let mut word = [0; 8];
        word.copy_from_slice(&source[bit / 8..bit / 8 + 8]);
        *value = ((u64::from_le_bytes(word) >> (bit % 8)) & mask).wrapping_add(base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    fn decoded(bytes: &[u8], count: usize) -> Result<Vec<u64>, Malformed> {
        let mut out = Vec::new();
        decode(bytes, count, |values| out.extend_from_slice(values))?;
        Ok(out)
    }

    #[test]
    fn numbers_of_every_width_and_count_read_back() {
        for width in 0..=64 {
            for count in [0, 1, 2, 63, 64, 65, 128, 200] {
                let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
                let mut rng = Rng::new(width * 1000 + count);
                let values: Vec<u64> = (0..count).map(|_| rng.next_u64() & mask).collect();
                let mut bytes = Vec::new();
                encode(&values, &mut bytes);
                assert_eq!(decoded(&bytes, values.len()), Ok(values), "{width} bits, {count}");
            }
        }
    }

    #[test]
    fn some_numbers_are_found_in_their_order() {
        for seed in seeds(1000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let count = rng.between(1, 1000);
            let widest = rng.between(1, 64);
            let values: Vec<u64> =
                (0..count).map(|_| rng.next_u64() >> (64 - rng.between(1, widest))).collect();
            let mut bytes = Vec::new();
            encode(&values, &mut bytes);
            let mut cursor = Cursor::new(&bytes, values.len());
            let mut place = 0;
            while let Some(value) = values.get(place) {
                assert_eq!(cursor.get(place), Ok(*value), "{place} of {count}");
                place += rng.below(200) as usize;
            }
            assert_eq!(cursor.get(values.len()), Err(Malformed));
            assert!(count <= GROUP as u64 || cursor.get(0).is_err(), "it only goes on");
        }
    }

    #[test]
    fn bounds_are_those_of_all_numbers_on_any_cpu() {
        for seed in seeds(500) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let group: Vec<u64> = (0..rng.between(1, GROUP as u64))
                .map(|_| rng.next_u64() >> rng.below(64))
                .collect();
            let sorted = {
                let mut sorted = group.clone();
                sorted.sort_unstable();
                (sorted[0], sorted[sorted.len() - 1])
            };
            assert_eq!((bounds(&group), bounds_inline(&group)), (sorted, sorted));
        }
    }

    #[test]
    fn a_base_makes_near_numbers_small() {
        let mut bytes = Vec::new();
        encode(&[1_000_000_000; 640], &mut bytes);
        assert_eq!(bytes.len(), 10 * (1 + 5));
        assert_eq!(decoded(&bytes, 640), Ok(vec![1_000_000_000; 640]));
        bytes.clear();
        encode(&[u64::MAX, u64::MAX - 1], &mut bytes);
        assert_eq!(decoded(&bytes, 2), Ok(vec![u64::MAX, u64::MAX - 1]));
    }

    #[test]
    fn random_numbers_and_damaged_bytes() {
        for seed in seeds(3000) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let values: Vec<u64> = (0..rng.below(300))
                .map(|_| (rng.next_u64() >> rng.below(64)).wrapping_add(rng.below(2) << 40))
                .collect();
            let mut bytes = Vec::new();
            encode(&values, &mut bytes);
            assert_eq!(decoded(&bytes, values.len()).as_ref(), Ok(&values));
            assert!(decoded(&bytes, values.len() + 64).is_err(), "too few groups");
            if !bytes.is_empty() {
                assert!(decoded(&bytes[..bytes.len() - 1], values.len()).is_err());
                let at = rng.below(bytes.len() as u64) as usize;
                bytes[at] ^= 1 << rng.below(8);
                let _ = decoded(&bytes, values.len());
            }
            let random: Vec<u8> = (0..rng.below(100)).map(|_| rng.next_u64() as u8).collect();
            if let Ok(values) = decoded(&random, rng.below(200) as usize) {
                assert!(values.len() <= 200);
            }
        }
    }
}
