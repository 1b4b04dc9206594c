//! What a member writes into the next map, and what it does before: seal, fence, adopt.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;

use logsvc_runtime::Monotonic;

use super::Member;
use super::io::Effect;
use super::tenure::Handing;
use crate::map::{Epoch, Map, Partition, Slot, State};

impl Member {
    /// Begins hand-overs, and gives those up that are not wanted any more.
    pub(super) fn seal(&mut self, now: Monotonic, out: &mut Vec<Effect>) {
        let partitions: Vec<Partition> = self.tenures.keys().copied().collect();
        for partition in partitions {
            // What was sent decides.
            if self.gives_away(partition) {
                continue;
            }
            let is_wanted = self.heir_by_hand(partition).is_some();
            let Some(tenure) = self.tenures.get_mut(&partition) else { continue };
            let ready = tenure.ready;
            if is_wanted && ready > now {
                // The heir by hand does not wait, so this node has to have waited.
                self.alarm(ready);
            } else if !is_wanted {
                tenure.handing = Handing::No;
            } else if tenure.handing == Handing::No {
                self.tickets += 1;
                tenure.handing = Handing::Sealing { ticket: self.tickets };
                out.push(Effect::Seal { partition, ticket: self.tickets });
            }
        }
    }

    /// To whom a partition of this node is to be handed over, if it can be.
    fn heir_by_hand(&self, partition: Partition) -> Option<Epoch> {
        let slot = self.own.map.slot(partition)?;
        let to = slot.next.filter(|to| *to != self.me && slot.heritage.is_empty())?;
        let takes = self.own.map.members.get(&to)?.state == State::Active;
        (takes && self.planned.alive.contains(&to)).then_some(to)
    }

    /// The next map, if this node has something to change.
    pub(super) fn change(&mut self, now: Monotonic) -> Option<Map> {
        let mut next = self.own.map.clone();
        if let Entry::Vacant(place) = next.members.entry(self.me) {
            if self.is_leaving {
                return None;
            }
            place.insert(self.info.clone());
            // The first one that takes partitions begins the cluster.
            if self.info.state == State::Active {
                for slot in next.slots.iter_mut().filter(|slot| slot.owner.is_none()) {
                    slot.owner = Some(self.me);
                }
            }
            return Some(next);
        }
        for (epoch, ends) in &self.fenced {
            if next.members.contains_key(epoch) {
                next.end(*epoch, *ends);
            }
        }
        if next.ended.contains_key(&self.me) {
            return Some(next);
        }
        self.change_me(&mut next);
        self.settle(&mut next);
        self.hand_over(&mut next);
        self.claim(&mut next, now);
        self.forget(&mut next);
        self.propose_moves(&mut next, now);
        (next != self.own.map).then_some(next)
    }

    fn change_me(&self, next: &mut Map) {
        let me = next.members.get_mut(&self.me).filter(|_| self.is_leaving);
        // A guest has nothing to hand over.
        if let Some(info) = me.filter(|info| info.state == State::Active) {
            info.state = State::Leaving;
        }
    }

    fn publish(&self, next: &mut Map, position: u64) {
        if let Some(info) = next.members.get_mut(&self.me) {
            info.position = info.position.max(position);
        }
    }

    fn settle(&self, next: &mut Map) {
        for (partition, tenure) in &self.tenures {
            if tenure.is_settled
                && let Some(slot) = next.slots.get_mut(usize::from(*partition))
            {
                slot.heritage.clear();
            }
        }
    }

    fn hand_over(&self, next: &mut Map) {
        for (partition, tenure) in &self.tenures {
            let Handing::Sealed { position } = tenure.handing else { continue };
            let Some(to) = self.heir_by_hand(*partition) else { continue };
            // Whoever has ended by this very map gets nothing.
            if !next.members.contains_key(&to) {
                continue;
            }
            if let Some(slot) = next.slots.get_mut(usize::from(*partition)) {
                slot.owner = Some(to);
                slot.next = None;
            }
            self.publish(next, position);
        }
    }

    /// Takes what ended owners have, as planned; and what others should have taken long ago.
    fn claim(&mut self, next: &mut Map, now: Monotonic) {
        let is_active = next.members.get(&self.me).is_some_and(|me| me.state == State::Active);
        if !is_active {
            return;
        }
        let patience = self.settings.orphan_patience.saturating_mul(self.rank() + 1);
        for index in 0..next.slots.len() {
            let owner = next.slots.get(index).and_then(|slot| slot.owner);
            let Some(owner) = owner.filter(|owner| next.ended.contains_key(owner)) else {
                continue;
            };
            let is_mine = self.planned.owners.get(index) == Some(&Some(self.me));
            let since = self.ended_since.get(&owner).copied().unwrap_or(now);
            if (is_mine || self.is_due(now, since.after(patience)))
                && let Some(slot) = next.slots.get_mut(index)
            {
                slot.owner = Some(self.me);
                slot.next = None;
                slot.heritage.insert(owner);
            }
        }
    }

    fn forget(&self, next: &mut Map) {
        let Some((epochs, position)) = &self.adopted else { return };
        // Who owns nothing and is in no heritage stays so, but others may have forgotten it already.
        let unneeded = next.unneeded();
        let gone: BTreeSet<Epoch> = epochs.intersection(&unneeded).copied().collect();
        if !gone.is_empty() {
            next.ended.retain(|epoch, _| !gone.contains(epoch));
            self.publish(next, *position);
        }
    }

    /// Names who should own what. Others have time to do it first, and who leaves has not.
    fn propose_moves(&mut self, next: &mut Map, now: Monotonic) {
        let me = next.members.get(&self.me).map(|info| info.state);
        // Those that have something to do with it are enough.
        if me == Some(State::Guest) {
            return;
        }
        let is_leaving = me == Some(State::Leaving);
        let pause = self.settings.propose_pause.saturating_mul(self.rank() + 1);
        let moves = |this: &Member, slot: &Slot, index: usize| -> Option<Option<Epoch>> {
            let owner = slot.owner.filter(|owner| this.planned.alive.contains(owner))?;
            let to = this.planned.owners.get(index).copied().flatten()?;
            let wanted = (to != owner).then_some(to).filter(|to| next.members.contains_key(to));
            (slot.next != wanted && (!is_leaving || owner == this.me)).then_some(wanted)
        };
        let list = next.slots.iter().enumerate();
        let list: Vec<(usize, Option<Epoch>)> = list
            .filter_map(|(index, slot)| moves(self, slot, index).map(|to| (index, to)))
            .collect();
        if list.is_empty() {
            return;
        }
        let due = if is_leaving { now } else { self.quiet_since.after(pause) };
        if self.is_due(now, due) {
            for (index, to) in list {
                if let Some(slot) = next.slots.get_mut(index) {
                    slot.next = to;
                }
            }
        }
    }

    /// Fences whom this node is to inherit from, and adopts logs that nobody needs.
    pub(super) fn fence_and_adopt(&mut self, now: Monotonic, out: &mut Vec<Effect>) {
        if self.fencing.is_none()
            && let Some(epoch) = self.next_to_fence(now)
            && self.is_due(now, self.fence_due)
        {
            // A node that was itself taken over meanwhile is not to end others.
            if epoch == self.me || self.own.has_seen_end(now, self.settings.busy_poll) {
                self.fencing = Some(epoch);
                out.push(Effect::Fence { epoch });
            } else {
                self.own.wants_proof(true);
                self.go_on(now, out);
            }
        }
        let may_adopt = !self.is_adopting
            && self.adopted_is_done()
            && self.rank() == 0
            && !self.own.map.is_guest(self.me);
        if may_adopt
            && self.own.map.members.contains_key(&self.me)
            && self.own.map.ended.len() > self.settings.ended_kept
        {
            let epochs = self.own.map.unneeded();
            if !epochs.is_empty() {
                self.is_adopting = true;
                out.push(Effect::Adopt { epochs });
            }
        }
    }

    fn adopted_is_done(&mut self) -> bool {
        let map = &self.own.map;
        let waits = self
            .adopted
            .as_ref()
            .is_some_and(|(epochs, _)| epochs.iter().any(|epoch| map.ended.contains_key(epoch)));
        if !waits {
            self.adopted = None;
        }
        !waits
    }

    fn next_to_fence(&mut self, now: Monotonic) -> Option<Epoch> {
        let map = &self.own.map;
        let me = map.members.get(&self.me)?;
        if me.state == State::Leaving {
            let owns = map.slots.iter().any(|slot| slot.owner == Some(self.me));
            // With nobody to hand over to it ends as it is, and the next one to come inherits.
            let is_last = self.planned.owners.iter().all(Option::is_none);
            let is_done =
                (!owns || is_last) && self.own.is_idle() && !self.fenced.contains_key(&self.me);
            return is_done.then_some(self.me);
        }
        if me.state == State::Guest {
            // The logs of others are ended by those that may inherit.
            let is_done =
                self.is_leaving && self.own.is_idle() && !self.fenced.contains_key(&self.me);
            return is_done.then_some(self.me);
        }
        let rank = self.rank();
        let patience = self.settings.orphan_patience.saturating_mul(rank + 1);
        let dead: Vec<(Epoch, Monotonic)> =
            self.suspects.dead(now, self.settings.suspicion).collect();
        for (epoch, since) in dead {
            if self.fenced.contains_key(&epoch) {
                continue;
            }
            let mut slots = self.own.map.slots.iter().zip(&self.planned.owners);
            let is_heir = slots.any(|(slot, to)| slot.owner == Some(epoch) && *to == Some(self.me));
            if is_heir || rank == 0 || self.is_due(now, since.after(patience)) {
                return Some(epoch);
            }
        }
        None
    }
}
