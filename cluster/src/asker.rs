//! A query over partitions of many owners.
//!
//! Guarantees:
//! - All answers of a [`Snapshot`] are by one map. Each owner has answered at one instant behind the
//!   beginning of the query, at which nobody else could acknowledge entries of its partitions.
//! - The live segments of these partitions are exactly those that the logs of the snapshot tell, each
//!   up to its position; the content of an answer has the entries that are in none of them.
//!
//! So nothing is missing and nothing is there twice. If an owner does not answer, and nobody takes
//! over, the query fails at its deadline. It gives a part only to who takes one
//! ([`Question::take_part`]), with what it lacks.

use std::collections::BTreeMap;

use logsvc_runtime::Monotonic;

use crate::map::{Epoch, Map, Partition};
use crate::pause::Pause;
use crate::settings::Settings;

/// What an owner has said.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AskReply<A> {
    /// [`Answer::Yes`](crate::member::Answer::Yes), at this instant.
    Answer {
        /// How many edits of the owner's log belong to the content.
        position: u64,
        /// What the owner has in no segment.
        content: A,
    },
    /// It knows the map of this number.
    Newer(u64),
    /// It cannot answer now.
    Wait,
    /// It does not own the partitions, or it has not answered.
    NoAnswer,
}

/// What is to be done with a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AskStep<A> {
    /// Ask an owner, and come back with its reply and this number.
    Ask {
        /// Whom.
        to: Epoch,
        /// For which partitions.
        partitions: Vec<Partition>,
        /// By the map of this number.
        number: u64,
    },
    /// Come back without a reply when the map has changed, or at `until`.
    Wait {
        /// When.
        until: Monotonic,
        /// The number of a map that is to be looked for, if it is higher than that of the known map
        /// ([`Input::Heard`](crate::member::Input::Heard)).
        look: u64,
    },
    /// All owners have answered.
    Done(Snapshot<A>),
    /// The deadline has passed.
    GiveUp,
}

/// What a query is evaluated on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot<A> {
    /// The number of the map.
    pub number: u64,
    /// How many edits of each log count.
    pub positions: BTreeMap<Epoch, u64>,
    /// What each owner has in no segment.
    pub contents: BTreeMap<Epoch, A>,
}

/// What the owners have said that have answered, and what that lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Part<A> {
    /// What they have said. All is by one map, as in a whole answer.
    pub snapshot: Snapshot<A>,
    /// Who has not answered, and for how many partitions. `None` stands for those that have no owner.
    pub missing: BTreeMap<Option<Epoch>, usize>,
}

/// A query on its way.
#[derive(Debug)]
pub struct Question<A> {
    partitions: Vec<Partition>,
    deadline: Monotonic,
    pause: Pause,
    round: Option<Round<A>>,
}

/// An attempt by one map.
#[derive(Debug)]
struct Round<A> {
    number: u64,
    positions: BTreeMap<Epoch, u64>,
    owners: BTreeMap<Epoch, Asked<A>>,
    /// Somebody has not answered. A newer map begins a new attempt.
    is_troubled: bool,
    look: u64,
    /// How many partitions have no owner.
    orphans: usize,
}

#[derive(Debug)]
struct Asked<A> {
    partitions: Vec<Partition>,
    state: AskState<A>,
}

impl<A> Asked<A> {
    fn is_on_its_way(&self) -> bool {
        matches!(self.state, AskState::OnItsWay)
    }
}

#[derive(Debug)]
enum AskState<A> {
    Due(Monotonic),
    OnItsWay,
    Answered(u64, A),
}

impl<A> Question<A> {
    /// A query of these partitions. `chance` is a random number.
    #[must_use]
    pub fn new(partitions: Vec<Partition>, deadline: Monotonic, chance: u64) -> Question<A> {
        Question { partitions, deadline, pause: Pause::new(chance), round: None }
    }

    /// What to do now, by the newest map that is known and its number. `reply` answers an
    /// [`AskStep::Ask`]: who, by which number, what. The last step is a wait or an end.
    pub fn step(
        &mut self,
        settings: &Settings,
        now: Monotonic,
        (number, map): (u64, &Map),
        reply: Option<(Epoch, u64, AskReply<A>)>,
    ) -> Vec<AskStep<A>> {
        if let Some((from, by, reply)) = reply {
            self.take(settings, now, from, by, reply);
        }
        if let Some(done) = self.take_done() {
            return vec![AskStep::Done(done)];
        }
        if now >= self.deadline {
            return vec![AskStep::GiveUp];
        }
        let is_over = |round: &Round<A>| {
            // Who was taken over may never answer, and nobody needs to wait for that.
            let is_waiting_for_the_dead = || {
                let mut waits = round.owners.iter().filter(|(_, asked)| asked.is_on_its_way());
                waits.any(|(owner, _)| !map.members.contains_key(owner))
            };
            number > round.number
                && (round.is_troubled || round.orphans > 0 || is_waiting_for_the_dead())
        };
        if self.round.as_ref().is_none_or(is_over) {
            self.round = Some(Round::new(&self.partitions, now, number, map));
        }
        let mut steps = Vec::new();
        let mut until = self.deadline.min(now.after(settings.busy_poll));
        let Some(round) = &mut self.round else { return steps };
        for (to, asked) in &mut round.owners {
            let AskState::Due(due) = asked.state else { continue };
            if due > now {
                until = until.min(due);
                continue;
            }
            asked.state = AskState::OnItsWay;
            let partitions = asked.partitions.clone();
            steps.push(AskStep::Ask { to: *to, partitions, number: round.number });
        }
        let look = round.look.max(if round.orphans > 0 { round.number + 1 } else { 0 });
        steps.push(AskStep::Wait { until, look });
        steps
    }

    fn take(
        &mut self,
        settings: &Settings,
        now: Monotonic,
        from: Epoch,
        by: u64,
        reply: AskReply<A>,
    ) {
        let Some(round) = self.round.as_mut().filter(|round| round.number == by) else { return };
        let Some(asked) = round.owners.get_mut(&from) else { return };
        let look = match reply {
            AskReply::Answer { position, content } => {
                asked.state = AskState::Answered(position, content);
                return;
            }
            AskReply::Newer(newer) => newer,
            AskReply::Wait => 0,
            // Perhaps somebody has taken over, or is about to.
            AskReply::NoAnswer => by + 1,
        };
        asked.state = AskState::Due(now.after(self.pause.next(settings)));
        round.is_troubled = true;
        round.look = round.look.max(look);
    }

    /// The snapshot, if all owners have answered.
    fn take_done(&mut self) -> Option<Snapshot<A>> {
        let is_done = |round: &mut Round<A>| {
            let mut owners = round.owners.values();
            round.orphans == 0 && owners.all(|asked| matches!(asked.state, AskState::Answered(..)))
        };
        self.round.take_if(is_done).map(|round| round.into_part().snapshot)
    }

    /// Owners that are asked at the moment, and have not answered yet.
    pub fn silent(&self) -> impl Iterator<Item = Epoch> {
        let owners = self.round.iter().flat_map(|round| &round.owners);
        owners.filter(|(_, asked)| asked.is_on_its_way()).map(|(owner, _)| *owner)
    }

    /// What some owners have said so far; `None` if nobody has said anything. The question is over.
    pub fn take_part(&mut self) -> Option<Part<A>> {
        let part = self.round.take()?.into_part();
        (!part.snapshot.contents.is_empty()).then_some(part)
    }
}

impl<A> Round<A> {
    fn new(partitions: &[Partition], now: Monotonic, number: u64, map: &Map) -> Round<A> {
        let mut owners: BTreeMap<Epoch, Asked<A>> = BTreeMap::new();
        let mut orphans = 0;
        for partition in partitions {
            match map.live_owner(*partition) {
                Some(owner) => {
                    let new = || Asked { partitions: vec![], state: AskState::Due(now) };
                    owners.entry(owner).or_insert_with(new).partitions.push(*partition);
                }
                None => orphans += 1,
            }
        }
        let positions = map.positions();
        Round { number, positions, owners, is_troubled: false, look: 0, orphans }
    }

    fn into_part(self) -> Part<A> {
        let (mut positions, mut contents) = (self.positions, BTreeMap::new());
        let orphans = (self.orphans > 0).then_some((None, self.orphans));
        let mut missing: BTreeMap<Option<Epoch>, usize> = orphans.into_iter().collect();
        for (owner, asked) in self.owners {
            if let AskState::Answered(position, content) = asked.state {
                let least = positions.entry(owner).or_insert(position);
                *least = position.max(*least);
                contents.insert(owner, content);
            } else {
                missing.insert(Some(owner), asked.partitions.len());
            }
        }
        Part { snapshot: Snapshot { number: self.number, positions, contents }, missing }
    }
}
