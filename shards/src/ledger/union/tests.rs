//! The union of random logs against plain sets.

mod bucket;

use std::collections::{BTreeMap, BTreeSet};

use logsvc_segment::FOOTER_LEN;
use logsvc_testkit::{Rng, SeedGuard, seeds};

use super::*;
use crate::manifest::{Day, FooterRecord, LeftPart, LiveSegment, ManifestEdit, SegmentName};
use crate::types::{Part, StreamPartitions};
use crate::wal::covers::Cover;

const PARTITIONS: u16 = 4;

fn segment(seq: u32, part: Part) -> LiveSegment {
    let (shards, shard) = part.numbers();
    let name = SegmentName { epoch: 1, shards, shard, seq };
    LiveSegment {
        name,
        day: Day(seq as i32 % 9),
        file_len: 10,
        min_ns: 0,
        max_ns: 1,
        entries: 1,
        line_bytes: 1,
        level: 0,
        order: name.sealed_order(),
    }
}

fn footer(segment: SegmentName) -> FooterRecord {
    FooterRecord { segment, bytes: [segment.seq as u8; FOOTER_LEN] }
}

/// The partitions of a segment.
fn partitions(name: SegmentName) -> std::ops::RangeInclusive<u16> {
    let (first, more) = (name.shard as u16, (name.shard >> 16) as u16);
    first..=first + more
}

/// What was ever said, by whatever log.
#[derive(Clone, Default)]
struct Model {
    added: BTreeMap<SegmentName, LiveSegment>,
    removed: BTreeSet<SegmentName>,
    left: BTreeSet<(SegmentName, u16)>,
}

impl Model {
    fn say(&mut self, edit: &ManifestEdit) {
        self.added.extend(edit.added.iter().map(|live| (live.name, *live)));
        self.removed.extend(&edit.removed);
        for LeftPart { segment, part } in &edit.left {
            self.left.insert((*segment, part.numbers().1 as u16));
        }
    }

    fn is_live(&self, name: SegmentName) -> bool {
        let has_left = |partition| self.left.contains(&(name, partition));
        self.added.contains_key(&name)
            && !self.removed.contains(&name)
            && !partitions(name).all(has_left)
    }

    fn live(&self) -> BTreeSet<SegmentName> {
        self.added.keys().copied().filter(|name| self.is_live(*name)).collect()
    }

    /// Compares; `forgotten` are segments that nobody has to know any more.
    fn check(&self, union: &Union, forgotten: &BTreeSet<SegmentName>) {
        let live = self.live();
        assert!(union.stored.live.keys().eq(&live), "{:?}\n{live:?}", union.stored.live.keys());
        assert!(union.stored.footers.keys().eq(&live), "footers");
        assert!(union.stored.footers.values().all(|one| *one == footer(one.segment)));
        let left: BTreeSet<(SegmentName, u16)> =
            self.left.iter().copied().filter(|(name, _)| live.contains(name)).collect();
        let found = union.stored.left.iter();
        let found = found.map(|one| (one.segment, one.part.numbers().1 as u16));
        assert_eq!(found.collect::<BTreeSet<_>>(), left);
        let is_known = |name: &SegmentName| self.added.contains_key(name) && !live.contains(name);
        assert!(union.gone.keys().all(is_known));
        let gone = self.added.keys().filter(|name| !live.contains(name));
        for name in gone.filter(|name| !forgotten.contains(name)) {
            assert_eq!(union.gone.get(name), self.added.get(name), "its object may be there");
        }
        for first in 0..PARTITIONS {
            for last in first..PARTITIONS {
                self.check_part(union, first, last);
            }
        }
    }

    fn check_part(&self, union: &Union, first: u16, last: u16) {
        // As other numbers of partitions would say it, too.
        let part = Part::new(PARTITIONS * 3, first * 3, last * 3 + 2).expect("a part");
        let wanted: StreamPartitions = [part].into_iter().collect();
        let found: Vec<SegmentName> = union.segments_of(&wanted).map(|one| one.live.name).collect();
        let has = |name: &SegmentName| {
            let both = partitions(*name).filter(|one| (first..=last).contains(one));
            both.into_iter().any(|one| !self.left.contains(&(*name, one)))
        };
        let expected: Vec<SegmentName> = self.live().into_iter().filter(has).collect();
        assert_eq!(found, expected, "partitions {first} to {last}");
        for one in union.segments_of(&wanted) {
            assert!(one.left.iter().all(|left| left.segment == one.live.name));
            let count = self.left.iter().filter(|(name, _)| *name == one.live.name).count();
            assert_eq!((one.left.len(), one.footer.is_some()), (count, true));
        }
    }
}

/// Writers that edit one store, each in its own log.
struct Writers {
    rng: Rng,
    model: Model,
    /// The entries of all logs that somebody still has to know.
    said: BTreeMap<u32, Vec<LogEntry>>,
    /// What they come to, and what readers know who have read all.
    logs: Logs,
    /// Segments whose objects are gone.
    objects_gone: BTreeSet<SegmentName>,
    segments: u32,
    epochs: u32,
}

impl Writers {
    fn new(seed: u64) -> Writers {
        Writers {
            rng: Rng::new(seed),
            model: Model::default(),
            said: (1..=3).map(|epoch| (epoch, Vec::new())).collect(),
            logs: Logs::default(),
            objects_gone: BTreeSet::new(),
            segments: 0,
            epochs: 3,
        }
    }

    fn some_epoch(&mut self) -> u32 {
        let epochs: Vec<u32> = self.said.keys().copied().collect();
        *self.rng.pick(&epochs)
    }

    fn append(&mut self, epoch: u32, entry: LogEntry) {
        take(&mut self.logs, epoch, &entry);
        self.said.entry(epoch).or_default().push(entry);
    }

    fn some_segment(&mut self) -> Option<SegmentName> {
        let live: Vec<SegmentName> = self.model.live().into_iter().collect();
        let all: Vec<SegmentName> = self.model.added.keys().copied().collect();
        let of = if self.rng.one_in(8) || live.is_empty() { all } else { live };
        (!of.is_empty()).then(|| *self.rng.pick(&of))
    }

    fn edit(&mut self) {
        let mut edit = ManifestEdit::default();
        for _ in 0..self.rng.below(3) {
            let first = self.rng.below(u64::from(PARTITIONS)) as u16;
            let last = self.rng.between(u64::from(first), u64::from(PARTITIONS) - 1) as u16;
            let part = Part::new(PARTITIONS, first, last).expect("a part");
            let live = segment(self.segments, part);
            self.segments += 1;
            edit.added.push(live);
            edit.footers.push(footer(live.name));
        }
        for _ in 0..self.rng.below(4) {
            let Some(segment) = self.some_segment() else { continue };
            if self.rng.one_in(3) {
                edit.removed.push(segment);
                continue;
            }
            for partition in partitions(segment) {
                if self.rng.one_in(2) {
                    let part = Part::one(PARTITIONS, partition);
                    edit.left.push(LeftPart { segment, part });
                }
            }
        }
        self.model.say(&edit);
        let epoch = self.some_epoch();
        self.append(epoch, LogEntry { edit, ..LogEntry::default() });
    }

    /// A log goes on with a sum of itself.
    fn sum(&mut self) {
        let epoch = self.some_epoch();
        let sum = self.logs.logs.get(&epoch).map(|log| log.known.state.sum());
        self.append(epoch, sum.unwrap_or_else(|| LogEntry { is_sum: true, ..LogEntry::default() }));
    }

    /// Some writers end, another one says what they have said, and everybody forgets them.
    fn adopt(&mut self) -> usize {
        let own = self.some_epoch();
        let mut ended: BTreeSet<u32> = self.said.keys().copied().collect();
        ended.retain(|epoch| *epoch != own && self.rng.one_in(2));
        let gone: Vec<SegmentName> = self.logs.union().gone.into_keys().collect();
        self.objects_gone.extend(gone.into_iter().filter(|_| self.rng.one_in(3)));
        let (wal, is_gone) = (BTreeMap::from([(own, 7)]), self.objects_gone.clone());
        let adoption = |logs: &Logs, records_max| {
            let is_gone = |name| is_gone.contains(&name);
            logs.adoption_in(own, &ended, &wal, is_gone, records_max)
        };
        // One that is cut short is begun anew.
        let records_max = self.rng.between(1, 20) as usize;
        let mut entries = adoption(&self.logs, records_max);
        let count = entries.len();
        if self.rng.one_in(3) && !entries.is_empty() {
            entries.truncate(self.rng.index(entries.len()));
            std::mem::take(&mut entries).into_iter().for_each(|one| self.append(own, one));
            self.model.check(&self.logs.union(), &self.objects_gone);
            entries = adoption(&self.logs, records_max);
        }
        for entry in entries {
            assert_eq!(entry.wal, wal);
            let records = entry.edit.added.len() + entry.edit.left.len();
            assert!(!entry.is_sum && records <= records_max);
            self.append(own, entry);
        }
        self.model.check(&self.logs.union(), &self.objects_gone);
        assert!(adoption(&self.logs, records_max).is_empty(), "nothing is said twice");
        for epoch in ended {
            self.said.remove(&epoch);
            self.logs.logs.remove(&epoch);
            // Somebody comes in its place.
            self.epochs += 1;
            self.said.insert(self.epochs, Vec::new());
        }
        self.model.check(&self.logs.union(), &self.objects_gone);
        count
    }
}

/// Reads an entry of a log.
fn take(logs: &mut Logs, epoch: u32, entry: &LogEntry) {
    let payload = entry.encode().expect("it is small");
    let entry = LogEntry::decode(&payload).expect("an entry");
    logs.logs.entry(epoch).or_default().known.state.apply_one_of_many(entry);
}

#[test]
fn the_order_of_logs_does_not_matter_and_sums_and_adoptions_change_nothing() {
    let (mut adoptions, mut live, mut gone, mut forgotten) = (0, 0, 0, 0);
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        let mut writers = Writers::new(seed);
        for _ in 0..writers.rng.between(5, 60) {
            match writers.rng.below(12) {
                0 => writers.sum(),
                1 => adoptions += usize::from(writers.adopt() > 0),
                _ => writers.edit(),
            }
            writers.model.check(&writers.logs.union(), &writers.objects_gone);
        }
        // Somebody else reads the same in any order.
        let mut logs = Logs::default();
        let mut left = writers.said.clone();
        left.values_mut().for_each(|entries| entries.reverse());
        loop {
            left.retain(|_, entries| !entries.is_empty());
            let epochs: Vec<u32> = left.keys().copied().collect();
            if epochs.is_empty() {
                break;
            }
            let epoch = *writers.rng.pick(&epochs);
            let entry = left.get_mut(&epoch).and_then(Vec::pop).expect("there is one");
            take(&mut logs, epoch, &entry);
        }
        let union = logs.union();
        writers.model.check(&union, &writers.objects_gone);
        live += union.stored.live.len();
        gone += union.gone.len();
        forgotten +=
            writers.objects_gone.iter().filter(|name| !union.gone.contains_key(name)).count();
    }
    println!("{adoptions} adoptions, {live} live, {gone} gone, {forgotten} forgotten");
    assert!(adoptions > 300 && live > 1_000 && gone > 1_000 && forgotten > 100);
}

#[test]
fn what_is_read_of_logs_counts_wherever_they_are_cut() {
    let mut early = 0;
    for seed in seeds(300) {
        let _guard = SeedGuard(seed);
        let mut writers = Writers::new(seed);
        for _ in 0..writers.rng.between(5, 40) {
            if writers.rng.one_in(8) {
                writers.sum();
            } else {
                writers.edit();
            }
        }
        let (mut logs, mut model) = (Logs::default(), Model::default());
        for (epoch, entries) in &writers.said {
            let cut = writers.rng.below(entries.len() as u64 + 1) as usize;
            for entry in &entries[..cut] {
                take(&mut logs, *epoch, entry);
                if !entry.is_sum {
                    model.say(&entry.edit);
                }
            }
        }
        model.check(&logs.union(), &BTreeSet::new());
        early += model.left.iter().filter(|(name, _)| !model.added.contains_key(name)).count();
        // The rest comes.
        for (epoch, entries) in &writers.said {
            // Entries that were read already say nothing new.
            entries.iter().for_each(|entry| take(&mut logs, *epoch, entry));
        }
        writers.model.check(&logs.union(), &BTreeSet::new());
    }
    assert!(early > 300, "{early} parts have left a segment before it came");
}

#[test]
fn covers_and_needed_numbers_are_those_of_writers_that_are_known() {
    let cover = |wal_epoch, up_to_index| Cover {
        wal_epoch,
        wal_shards: 1,
        wal_shard: 0,
        up_to_index,
        part: Part::one(1, 0),
    };
    let say = |wal: &[(u32, u64)], covers: &[Cover]| LogEntry {
        wal: wal.iter().copied().collect(),
        edit: ManifestEdit { covers: covers.to_vec(), ..ManifestEdit::default() },
        ..LogEntry::default()
    };
    let mut logs = Logs::default();
    // The heir 2 has brought entries of 1 into segments; nobody knows 9.
    take(&mut logs, 1, &say(&[(1, 4)], &[cover(1, 2)]));
    take(&mut logs, 2, &say(&[(2, 5)], &[cover(1, 3), cover(2, 1), cover(9, 1)]));
    take(&mut logs, 3, &say(&[(1, 9)], &[]));
    let union = logs.union();
    assert_eq!(union.stored.covers, [cover(1, 3), cover(2, 1)]);
    assert_eq!(union.wal, [(1, 4), (2, 5)].into(), "each tells of its own log");
    let wal = BTreeMap::from([(3, 1)]);
    let entries = logs.adoption(3, &[2].into(), &wal, |_| false);
    assert_eq!(entries, [say(&[(3, 1)], &[cover(1, 3)])], "the log of 2 is not needed any more");
    take(&mut logs, 3, &entries[0]);
    logs.logs.remove(&2);
    assert_eq!(logs.union().stored.covers, [cover(1, 3)]);
    assert!(logs.adoption(3, &[].into(), &wal, |_| false).is_empty());
}
