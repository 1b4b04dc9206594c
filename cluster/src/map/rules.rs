//! Which map may follow which: the same function for who writes a map and for all who read it.
//!
//! Guarantees, if every map follows the one before it:
//! - A partition leaves an owner by the owner's own hand, or after the owner was fenced.
//! - A heritage grows at a claim alone, by the fenced owner, and shrinks by the owner's hand alone.
//! - What ended writers have left is known until a live member has taken it over.
//! - A guest is one to its end, so it never has a partition.
//!
//! What no map can show is whether its author did what the map claims: wrote its last edit before it
//! handed over, settled a heritage, adopted a log. [`crate::member`] answers for that.

use super::{Epoch, Map, MapError, MemberInfo, Slot, State};

impl Map {
    /// Whether `next` may be the map after this one, if `author` has written it.
    ///
    /// # Errors
    /// The map is inconsistent, or breaks a rule.
    pub fn follow(&self, author: Epoch, next: &Map) -> Result<(), MapError> {
        next.check()?;
        let judge = Judge { now: self, next, author };
        if self.slots.len() != next.slots.len() {
            return judge.broken("the number of partitions never changes");
        }
        judge.members()?;
        judge.ended()?;
        self.slots.iter().zip(&next.slots).try_for_each(|(now, next)| judge.slot(now, next))
    }
}

struct Judge<'a> {
    now: &'a Map,
    next: &'a Map,
    author: Epoch,
}

impl Judge<'_> {
    fn broken<T>(&self, rule: &'static str) -> Result<T, MapError> {
        Err(MapError::Rule { author: self.author, rule })
    }

    fn require(&self, holds: bool, rule: &'static str) -> Result<(), MapError> {
        if holds { Ok(()) } else { self.broken(rule) }
    }

    fn members(&self) -> Result<(), MapError> {
        let (now, next) = (self.now, self.next);
        let was_there = now.members.contains_key(&self.author);
        let is_there = next.members.contains_key(&self.author);
        self.require(
            !now.ended.contains_key(&self.author) && (was_there || is_there),
            "only live members write maps",
        )?;
        for (epoch, info) in &next.members {
            match now.members.get(epoch) {
                None => self.require(*epoch == self.author, "a member joins by its own hand")?,
                Some(before) => self.member(*epoch, before, info)?,
            }
        }
        for epoch in now.members.keys().filter(|epoch| !next.members.contains_key(epoch)) {
            self.require(next.ended.contains_key(epoch), "a member goes only as an ended one")?;
        }
        Ok(())
    }

    fn member(&self, epoch: Epoch, now: &MemberInfo, next: &MemberInfo) -> Result<(), MapError> {
        if now == next {
            return Ok(());
        }
        self.require(epoch == self.author, "a member changes by its own hand")?;
        self.require(now.position <= next.position, "a position never falls")?;
        self.require(
            now.state != State::Leaving || next.state == State::Leaving,
            "a member that leaves does not come back",
        )?;
        self.require(
            (now.state == State::Guest) == (next.state == State::Guest),
            "a guest is one to its end, and nobody else becomes one",
        )
    }

    fn ended(&self) -> Result<(), MapError> {
        let (now, next) = (self.now, self.next);
        for (epoch, ends) in &next.ended {
            match (now.ended.get(epoch), now.members.get(epoch)) {
                (Some(before), _) => self.require(before == ends, "ends never change")?,
                (None, Some(info)) => {
                    self.require(info.position <= ends.log, "a log ends behind what it published")?;
                }
                (None, None) => return self.broken("only members end"),
            }
        }
        let adopts = now.ended.keys().any(|epoch| !next.ended.contains_key(epoch));
        // That nothing refers to those that went is part of the check of the map itself.
        let adopter = next.members.get(&self.author);
        self.require(
            !adopts || adopter.is_some_and(|it| it.position > 0 && it.state != State::Guest),
            "an ended log is forgotten only by a member that has published its adoption",
        )
    }

    fn slot(&self, now: &Slot, next: &Slot) -> Result<(), MapError> {
        if now.owner == next.owner {
            let kept = now.heritage == next.heritage;
            let shrunk = next.heritage.is_subset(&now.heritage);
            return self.require(
                kept || (shrunk && now.owner == Some(self.author)),
                "a heritage shrinks by the owner's hand alone",
            );
        }
        let Some(owner) = now.owner else { return self.claim(next) };
        if self.next.ended.contains_key(&owner) {
            let mut heritage = now.heritage.clone();
            heritage.insert(owner);
            self.require(next.heritage == heritage, "a claim inherits everything")?;
            return self.claim(next);
        }
        self.require(owner == self.author, "an owner that is not fenced hands over itself")?;
        self.require(now.next == next.owner, "a hand-over is to whom the map has named")?;
        self.require(
            now.heritage.is_empty() && next.heritage.is_empty(),
            "a hand-over is of a settled partition",
        )?;
        self.require(
            next.owner.is_some_and(|to| self.next.members.contains_key(&to)),
            "a hand-over is to a member",
        )
    }

    fn claim(&self, next: &Slot) -> Result<(), MapError> {
        self.require(
            next.owner == Some(self.author) && self.next.members.contains_key(&self.author),
            "a claim is by the claimant's own hand",
        )
    }
}
