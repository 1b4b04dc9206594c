//! What clients may rely on, and what has happened.

use std::collections::{BTreeMap, BTreeSet};

use logsvc_cluster::map::codec::Entry;
use logsvc_cluster::map::{Map, Partition};

use super::store::Copy;

#[derive(Default)]
pub(crate) struct Ledger {
    /// What was pushed, and where it belongs.
    pushed: BTreeMap<u64, Partition>,
    /// From when on each answer has to have an entry: it was acknowledged, or some answer had it.
    must: BTreeMap<Partition, BTreeMap<u64, u64>>,
    /// Entries whose clients were told that they are stored.
    pub(crate) done: BTreeSet<u64>,
    newest: Option<Entry>,
    /// Until when a query counts as one beside a takeover.
    changing_until: u64,
}

impl Ledger {
    pub(crate) fn pushed(&mut self, id: u64, partition: Partition) {
        self.pushed.insert(id, partition);
    }

    pub(crate) fn partition(&self, id: u64) -> Partition {
        self.pushed.get(&id).copied().unwrap_or_default()
    }

    pub(crate) fn open(&self) -> usize {
        self.pushed.len() - self.done.len()
    }

    pub(crate) fn acknowledged(&mut self, id: u64, partition: Partition, now: u64) {
        self.must.entry(partition).or_default().entry(id).or_insert(now);
    }

    /// Judges an answer to a query that began at `begin` and ends now.
    pub(crate) fn answered(
        &mut self,
        (begin, now): (u64, u64),
        partitions: &[Partition],
        copies: &[Copy],
    ) -> Result<(), String> {
        let mut ids = BTreeSet::new();
        let mut places = BTreeSet::new();
        for copy in copies {
            if !places.insert(copy.at) {
                return Err(format!("{copy:?} is there twice"));
            }
            if self.pushed.get(&copy.id) != Some(&copy.partition) {
                return Err(format!("{copy:?} was never pushed"));
            }
            ids.insert(copy.id);
        }
        for partition in partitions {
            let must = self.must.entry(*partition).or_default();
            for (id, since) in must.iter() {
                if *since < begin && !ids.contains(id) {
                    return Err(format!(
                        "entry {id} of partition {partition} is missing, since {since}, begun {begin}, now {now}"
                    ));
                }
            }
        }
        for id in ids {
            let partition = self.partition(id);
            self.must.entry(partition).or_default().entry(id).or_insert(now);
        }
        Ok(())
    }

    /// Looks at a new map.
    pub(crate) fn map_created(&mut self, bytes: &[u8], tally: &mut Tally, now: u64) {
        let Ok(entry) = Entry::decode(bytes) else { return };
        tally.maps += 1;
        let empty = Map::empty(entry.map.slots.len() as u16);
        let before = self.newest.as_ref().map_or(&empty, |entry| &entry.map);
        for (old, new) in before.slots.iter().zip(&entry.map.slots) {
            if old.owner == new.owner || old.owner.is_none() {
                continue;
            }
            self.changing_until = now + 5_000_000_000;
            if old.heritage == new.heritage {
                tally.hand_overs += 1;
            } else {
                tally.takeovers += 1;
                tally.second_takeovers += u64::from(new.heritage.len() > 1);
            }
        }
        tally.forgotten +=
            before.ended.keys().filter(|epoch| !entry.map.ended.contains_key(epoch)).count() as u64;
        self.newest = Some(entry);
    }

    pub(crate) fn is_changing(&self, now: u64) -> bool {
        now < self.changing_until
    }

    pub(crate) fn newest(&self) -> Option<&Entry> {
        self.newest.as_ref()
    }
}

macro_rules! tally {
    ($($name:ident)*) => {
        /// How often interesting things have happened.
        #[derive(Clone, Default, Debug)]
        pub(crate) struct Tally { $(pub(crate) $name: u64,)* }

        impl Tally {
            pub(crate) fn add(&mut self, other: &Tally) { $(self.$name += other.$name;)* }

            pub(crate) fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

tally! {
    maps takeovers second_takeovers hand_overs forgotten
    fences fences_found lost_races unknown_maps lost_answers_of_maps unknown_wals
    requests_of_the_dead kills pauses zombie_owners fenced_writes
    leaves joins moved_pushes early_pushes held_pushes push_attempts
    guests answers_of_guests answers answers_beside_changes unproven_questions waits failed_queries
    seals merges replays replayed_copies adoptions lies gone gone_lies cuts outages
}
