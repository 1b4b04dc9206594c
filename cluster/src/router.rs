//! A push of one partition on its way to the owner.
//!
//! Guarantee: the push counts as stored only when an owner has said so. Otherwise nobody knows, and
//! the client repeats it: entries are a set, so one that was stored twice counts once.

use logsvc_runtime::Monotonic;

use crate::map::{Epoch, Map, Partition};
use crate::pause::Pause;
use crate::settings::Settings;

/// What a node has said of a push. `newest` is the number of its map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushReply {
    /// It is durable.
    Stored,
    /// The node does not take it, for now or for ever: [`Accept`](crate::member::Accept) but `Yes`.
    Refused {
        /// The number of its map.
        newest: u64,
    },
    /// Nothing, or nothing that tells what became of it.
    NoAnswer,
}

/// What is to be done with a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PushStep {
    /// Send it to a node, and come back with its reply. A node whose map has a lower number has to
    /// read on.
    Send {
        /// To whom.
        to: Epoch,
        /// The number of the map that says so.
        number: u64,
    },
    /// Come back without a reply when the map has changed, or at `until`.
    Wait {
        /// When.
        until: Monotonic,
        /// The number of a map that is to be looked for
        /// ([`Input::Heard`](crate::member::Input::Heard)).
        look: u64,
    },
    /// It is durable.
    Stored,
    /// The deadline has passed; nobody knows whether it is stored.
    GiveUp,
}

/// A push of one partition.
#[derive(Debug)]
pub struct Push {
    partition: Partition,
    deadline: Monotonic,
    pause: Pause,
    /// No attempt before this time, except by a newer map than this.
    resume: Option<(Monotonic, u64)>,
}

impl Push {
    /// A push that was not sent yet. `chance` is a random number.
    #[must_use]
    pub fn new(partition: Partition, deadline: Monotonic, chance: u64) -> Push {
        Push { partition, deadline, pause: Pause::new(chance), resume: None }
    }

    /// What to do now, by the newest map that is known and its number. `reply` answers
    /// [`PushStep::Send`].
    pub fn step(
        &mut self,
        settings: &Settings,
        now: Monotonic,
        (number, map): (u64, &Map),
        reply: Option<PushReply>,
    ) -> PushStep {
        let look = match reply {
            Some(PushReply::Stored) => return PushStep::Stored,
            Some(PushReply::Refused { newest }) if newest > number => Some(newest),
            // Perhaps somebody has taken over, or is about to.
            Some(PushReply::Refused { .. } | PushReply::NoAnswer) => Some(number + 1),
            None => None,
        };
        if now >= self.deadline {
            return PushStep::GiveUp;
        }
        let to = map.live_owner(self.partition);
        if look.is_some() || to.is_none() && self.resume.is_none_or(|(until, _)| until <= now) {
            self.resume = Some((now.after(self.pause.next(settings)), number));
        }
        let waits = self.resume.filter(|(until, by)| *until > now && *by == number);
        match (waits, to) {
            (None, Some(to)) => {
                self.resume = None;
                PushStep::Send { to, number }
            }
            _ => {
                let until = self.resume.map_or(now, |(until, _)| until).min(self.deadline);
                PushStep::Wait { until, look: look.unwrap_or(number + 1) }
            }
        }
    }
}
