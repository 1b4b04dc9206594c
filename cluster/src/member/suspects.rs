//! Who is taken for dead: whoever is gone, or was missing in the hints for long enough.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use logsvc_runtime::Monotonic;

use crate::map::{Epoch, Map};

/// Members that are missing, and since when.
#[derive(Default, Debug)]
pub(super) struct Suspects {
    alive: BTreeSet<Epoch>,
    missing: BTreeMap<Epoch, Monotonic>,
    /// Those whose processes have ended, and since when that is known.
    gone: BTreeMap<Epoch, Monotonic>,
}

impl Suspects {
    /// A new hint.
    pub(super) fn hint(&mut self, alive: BTreeSet<Epoch>) {
        self.alive = alive;
    }

    /// The process of a member has ended.
    pub(super) fn note_gone(&mut self, gone: Epoch, now: Monotonic) {
        self.gone.entry(gone).or_insert(now);
    }

    /// Compares the hint with a map. `me` always lives.
    pub(super) fn look(&mut self, me: Epoch, map: &Map, now: Monotonic) {
        let is_missing = |epoch: &Epoch| {
            *epoch != me && !self.alive.contains(epoch) && map.members.contains_key(epoch)
        };
        self.missing.retain(|epoch, _| is_missing(epoch));
        self.gone.retain(|epoch, _| *epoch != me && map.members.contains_key(epoch));
        for epoch in map.members.keys().filter(|epoch| is_missing(epoch)) {
            self.missing.entry(*epoch).or_insert(now);
        }
    }

    /// Those that are gone, and those that were missing for so long; and since when.
    pub(super) fn dead(
        &self,
        now: Monotonic,
        suspicion: Duration,
    ) -> impl Iterator<Item = (Epoch, Monotonic)> {
        let missing = self.missing.iter().map(|(epoch, since)| (*epoch, *since));
        let is_late = move |since: &Monotonic| since.after(suspicion) <= now;
        let missing =
            missing.filter(move |(epoch, since)| is_late(since) && !self.gone.contains_key(epoch));
        missing.chain(self.gone.iter().map(|(epoch, since)| (*epoch, *since)))
    }

    /// When the next one counts as dead.
    pub(super) fn next(&self, now: Monotonic, suspicion: Duration) -> Monotonic {
        let times = self.missing.values().map(|since| since.after(suspicion));
        times.filter(|time| *time > now).min().unwrap_or(Monotonic::NEVER)
    }
}
