//! One file of the simulated disk: its content for programs, its durable content, and the unsynced
//! changes between the two.
//!
//! Modelled:
//! - An unsynced change is a list of whole sectors, or a new length. At a power loss each sector of
//!   each change survives or is lost by itself, so writes are torn, and reordered against each
//!   other. Of the lengths since the last sync any one survives, independently of the data: the end
//!   may be missing or hold zeros.
//! - A failed sync forgets the dirty sectors: part of them became durable, the rest is lost.
//!   Programs may go on seeing the lost part until the power goes (the page cache kept it) or see
//!   the old bytes at once (it was evicted).
//! - The kernel writes back dirty pages whenever it likes; here, when many have
//!   gathered.
//!
//! Not modelled: sectors that hold a mixture of old and new bytes; another file's old bytes in
//! newly allocated space; durable sectors that die by themselves (`Disk::corrupt` makes tests do
//! that).

use super::content::{Content, DirtyPage};
use super::random::Random;

/// Unsynced changes that gather before the kernel writes back on its own.
const WRITE_BACK_AT: usize = 4096;

/// Chances of a sector to survive, in percent. One is drawn per change, so that
/// changes vanish whole, survive whole, or are torn.
const SURVIVAL_PERCENT: [u64; 5] = [0, 10, 50, 90, 100];

enum Change {
    Data(Vec<DirtyPage>),
    Length(u64),
}

#[derive(Default)]
pub(super) struct Inode {
    visible: Content,
    visible_len: u64,
    durable: Content,
    durable_len: u64,
    /// Oldest first.
    unsynced: Vec<Change>,
    /// Number of changes before the first of `unsynced`.
    settled_count: u64,
    /// The longest that the file has been, so that an extension knows whether
    /// old bytes lie beneath it.
    longest_len: u64,
}

impl Inode {
    /// A file whose content is durable from the start.
    pub(super) fn with_durable(bytes: &[u8]) -> Inode {
        let mut visible = Content::default();
        visible.write(bytes, 0);
        let len = bytes.len() as u64;
        Inode {
            durable: visible.clone(),
            visible,
            visible_len: len,
            durable_len: len,
            longest_len: len,
            ..Inode::default()
        }
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.visible_len
    }

    /// Number of changes so far. A sync makes the changes durable that came before it.
    pub(super) fn change_count(&self) -> u64 {
        self.settled_count + self.unsynced.len() as u64
    }

    /// Appends up to `count` bytes from `offset_bytes` on; the number appended.
    pub(super) fn read(&self, buffer: &mut Vec<u8>, offset_bytes: u64, count: usize) -> usize {
        let left = self.visible_len.saturating_sub(offset_bytes);
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(count);
        self.visible.read(buffer, offset_bytes, count);
        count
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset_bytes: u64) {
        if bytes.is_empty() {
            return;
        }
        if offset_bytes > self.visible_len {
            self.set_len(offset_bytes);
        }
        let dirty = self.visible.write(bytes, offset_bytes);
        self.change(Change::Data(dirty));
        let end = offset_bytes + bytes.len() as u64;
        if end > self.visible_len {
            self.visible_len = end;
            self.longest_len = self.longest_len.max(end);
            self.change(Change::Length(end));
        }
    }

    /// Cuts the file or extends it with zeros.
    pub(super) fn set_len(&mut self, len_bytes: u64) {
        let (shorter, longer) = (len_bytes.min(self.visible_len), len_bytes.max(self.visible_len));
        if shorter == longer {
            return;
        }
        // Cutting clears the removed bytes, so an extension finds zeros. On disk the old bytes are
        // gone with the length; where the length comes back, zeros have to be written over them.
        let dirty = self.visible.clear(shorter, longer.min(self.longest_len));
        if len_bytes > self.visible_len && !dirty.is_empty() {
            self.change(Change::Data(dirty));
        }
        self.visible_len = len_bytes;
        self.longest_len = self.longest_len.max(len_bytes);
        self.change(Change::Length(len_bytes));
    }

    /// Makes the changes before number `until` durable.
    pub(super) fn sync(&mut self, until: u64) {
        for change in self.take_until(until) {
            match change {
                Change::Length(len) => {
                    // The removed bytes are gone before new bytes are written.
                    self.durable.clear(len, self.longest_len);
                    self.durable_len = len;
                }
                Change::Data(pages) => {
                    pages.iter().for_each(|page| self.durable.apply(page, || true));
                }
            }
        }
        self.forget_uncovered();
    }

    /// A sync of the changes before number `until` that failed.
    pub(super) fn fail_sync(&mut self, until: u64, random: &Random) {
        self.settle_randomly(until, random);
        if random.one_in(2) && self.unsynced.is_empty() {
            self.forget_visible();
        }
    }

    /// The power goes: unsynced changes survive in part or not at all.
    pub(super) fn lose_power(&mut self, random: &Random) {
        self.settle_randomly(u64::MAX, random);
        self.forget_visible();
    }

    /// Flips bits of a byte on the disk itself; false beyond the end.
    pub(super) fn corrupt(&mut self, offset_bytes: u64, mask: u8) -> bool {
        if offset_bytes >= self.visible_len {
            return false;
        }
        self.visible.flip(offset_bytes, mask);
        if offset_bytes < self.durable_len {
            self.durable.flip(offset_bytes, mask);
        }
        true
    }

    fn change(&mut self, change: Change) {
        self.unsynced.push(change);
        if self.unsynced.len() >= WRITE_BACK_AT {
            self.sync(self.settled_count + (WRITE_BACK_AT / 2) as u64);
        }
    }

    fn take_until(&mut self, until: u64) -> Vec<Change> {
        let count = until.saturating_sub(self.settled_count).min(self.unsynced.len() as u64);
        self.settled_count += count;
        self.unsynced.drain(..count as usize).collect()
    }

    fn settle_randomly(&mut self, until: u64, random: &Random) {
        let changes = self.take_until(until);
        let mut lengths = vec![self.durable_len];
        for change in &changes {
            match change {
                Change::Length(len) => lengths.push(*len),
                Change::Data(pages) => {
                    let percent = SURVIVAL_PERCENT[random.index(SURVIVAL_PERCENT.len())];
                    for page in pages {
                        self.durable.apply(page, || random.below(100) < percent);
                    }
                }
            }
        }
        self.durable_len = match random.below(3) {
            0 => lengths[0],
            1 => lengths[lengths.len() - 1],
            _ => lengths[random.index(lengths.len())],
        };
        self.forget_uncovered();
    }

    /// Durable sectors past the durable end are unreachable for good: a file that
    /// grows again reads zeros there.
    fn forget_uncovered(&mut self) {
        if self.unsynced.is_empty() {
            self.durable.clear(self.durable_len, self.longest_len);
        }
    }

    fn forget_visible(&mut self) {
        self.visible = self.durable.clone();
        self.visible_len = self.durable_len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(inode: &Inode) -> Vec<u8> {
        let mut buffer = Vec::new();
        inode.read(&mut buffer, 0, usize::MAX);
        buffer
    }

    #[test]
    fn synced_bytes_survive_and_unsynced_ones_do_so_by_chance() {
        let (mut lost, mut kept, mut torn) = (0, 0, 0);
        for seed in 0..300 {
            let random = Random::derive(seed, 0);
            let mut inode = Inode::default();
            inode.write(&[1; 3000], 0);
            inode.sync(inode.change_count());
            inode.write(&[2; 2048], 512);
            inode.lose_power(&random);
            let after = content(&inode);
            assert_eq!(after.len(), 3000, "seed {seed}");
            assert!(after[..512].iter().chain(&after[2560..]).all(|byte| *byte == 1), "{seed}");
            let sectors: Vec<u8> = (1..5).map(|sector| after[sector * 512]).collect();
            for (number, sector) in after[512..2560].chunks(512).enumerate() {
                assert!(sector.iter().all(|byte| *byte == sectors[number]), "seed {seed}");
            }
            match sectors.iter().filter(|byte| **byte == 2).count() {
                0 => lost += 1,
                4 => kept += 1,
                _ => torn += 1,
            }
        }
        assert!(lost > 20 && kept > 20 && torn > 20, "{lost} {kept} {torn}");
    }

    #[test]
    fn lengths_survive_apart_from_data() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..300 {
            let random = Random::derive(seed, 0);
            let mut inode = Inode::default();
            inode.write(&[1; 600], 0);
            inode.write(&[1; 600], 600);
            inode.lose_power(&random);
            let after = content(&inode);
            assert!(after.iter().all(|byte| *byte <= 1));
            seen.insert((after.len(), after.iter().filter(|byte| **byte == 1).count()));
        }
        for expected in [(0, 0), (600, 600), (1200, 1200), (1200, 0), (600, 0)] {
            assert!(seen.contains(&expected), "never {expected:?}");
        }
    }

    #[test]
    fn cut_bytes_do_not_come_back_after_a_sync() {
        for seed in 0..100 {
            let random = Random::derive(seed, 0);
            let mut inode = Inode::default();
            inode.write(&[9; 5000], 0);
            inode.sync(inode.change_count());
            inode.set_len(100);
            if random.one_in(2) {
                inode.sync(inode.change_count());
            }
            inode.set_len(6000);
            let expected = [vec![9; 100], vec![0; 5900]].concat();
            assert_eq!(content(&inode), expected);
            inode.sync(inode.change_count());
            inode.lose_power(&random);
            assert_eq!(content(&inode), expected, "seed {seed}");
        }
    }

    #[test]
    fn a_failed_sync_loses_for_good_what_it_did_not_write() {
        let (mut lost, mut still_seen) = (0, 0);
        for seed in 0..200 {
            let random = Random::derive(seed, 0);
            let mut inode = Inode::with_durable(&[1; 512]);
            inode.write(&[2; 512], 0);
            inode.fail_sync(inode.change_count(), &random);
            let seen = content(&inode)[0];
            // A sync that succeeds afterwards has nothing to write any more.
            inode.sync(inode.change_count());
            inode.lose_power(&random);
            let after = content(&inode)[0];
            lost += u32::from(after == 1);
            still_seen += u32::from(after == 1 && seen == 2);
        }
        assert!(lost > 20 && still_seen > 20, "{lost} {still_seen}");
    }

    #[test]
    fn a_sync_covers_only_what_came_before_it() {
        let mut survived = 0;
        for seed in 0..100 {
            let random = Random::derive(seed, 0);
            let mut inode = Inode::with_durable(&[0; 1024]);
            inode.write(&[1; 512], 0);
            let until = inode.change_count();
            inode.write(&[2; 512], 512);
            inode.sync(until);
            inode.lose_power(&random);
            let after = content(&inode);
            assert_eq!(after[0], 1);
            survived += u32::from(after[512] == 2);
        }
        assert!((5..95).contains(&survived), "{survived}");
    }

    #[test]
    fn many_unsynced_writes_stay_bounded() {
        let mut inode = Inode::default();
        for number in 0..20_000_u64 {
            inode.write(&[number as u8; 8], number * 8);
        }
        assert!(inode.unsynced.len() < WRITE_BACK_AT);
        assert_eq!(inode.len_bytes(), 160_000);
    }
}
