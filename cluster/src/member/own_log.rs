//! The log of maps, as one node sees it: reads the next one, creates it, and finds out whose it is.
//!
//! Guarantee: a map that was sent stays the only one that this node sends under its number, with the
//! same bytes, until it is known which map has the number. An answer "there is one already" is a
//! hint: only the nonce of what is read tells whose it is.

use std::time::Duration;

use logsvc_runtime::Monotonic;

use super::io::{CreateOutcome, Effect, ReadOutcome, Stop};
use crate::map::codec::{Entry, Nonce};
use crate::map::{Epoch, Map};
use crate::pause::Pause;
use crate::settings::Settings;

/// The log of maps, as one node sees it.
#[derive(Debug)]
pub(super) struct OwnLog {
    /// The newest map that is known.
    pub(super) map: Map,
    /// Its number.
    pub(super) number: u64,
    /// Whether the end of the log was seen once. Before that nothing is to be written.
    pub(super) is_caught_up: bool,
    nonce: Nonce,
    nonces: Nonces,
    pending: Option<Pending>,
    /// The number that a create on its way is for, and when it was sent.
    creating: Option<(u64, Monotonic)>,
    create_pause: Pause,
    /// When the read on its way was sent.
    reading: Option<Monotonic>,
    read_pause: Pause,
    /// No read before this time.
    read_from: Monotonic,
    /// When the end of the log was last seen.
    end_seen: Monotonic,
    /// The highest number that somebody knows.
    heard: u64,
    wants_proof: bool,
    /// The number of the newest map that this node has written.
    last_ours: u64,
}

/// A map that was sent, or is to be sent.
#[derive(Debug)]
struct Pending {
    entry: Entry,
    bytes: Vec<u8>,
    /// The next attempt to create it.
    due: Monotonic,
    /// The store's answer was no success: what is there has to be read first.
    has_to_read: bool,
}

/// What a read has shown.
#[derive(Default)]
pub(super) struct Shown {
    /// The next map did not exist at this time, or later.
    pub(super) absent_since: Option<Monotonic>,
    /// The next map.
    pub(super) entry: Option<Entry>,
}

impl OwnLog {
    pub(super) fn new(me: Epoch, partitions: u16, known: Option<Entry>, chance: u64) -> OwnLog {
        let (number, nonce, map) = match known {
            Some(entry) => (entry.number, entry.nonce, entry.map),
            None => (0, Nonce::NONE, Map::empty(partitions)),
        };
        OwnLog {
            map,
            number,
            is_caught_up: false,
            nonce,
            nonces: Nonces { me, chance, attempts: 0 },
            pending: None,
            creating: None,
            create_pause: Pause::new(chance),
            reading: None,
            read_pause: Pause::new(chance.rotate_left(42)),
            read_from: Monotonic(0),
            end_seen: Monotonic(0),
            heard: 0,
            wants_proof: false,
            last_ours: 0,
        }
    }

    pub(super) fn heard(&mut self, number: u64) {
        self.heard = self.heard.max(number);
    }

    pub(super) fn wants_proof(&mut self, wants: bool) {
        self.wants_proof |= wants;
    }

    /// Whether the end of the log was seen in the last `time`.
    pub(super) fn has_seen_end(&self, now: Monotonic, time: Duration) -> bool {
        self.is_caught_up && now <= self.end_seen.after(time)
    }

    /// The map that was sent and may be the next one.
    pub(super) fn sent_map(&self) -> Option<&Map> {
        self.pending.as_ref().map(|pending| &pending.entry.map)
    }

    /// Whether a map may be proposed.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_none() && self.creating.is_none()
    }

    /// Makes a map the next one to be sent.
    pub(super) fn propose(&mut self, me: Epoch, map: Map) -> Result<(), Stop> {
        let number = self.number + 1;
        let broken = |error| Stop::Broken { number, error };
        self.map.follow(me, &map).map_err(broken)?;
        let nonce = self.nonces.next();
        let entry = Entry { number, nonce, previous: self.nonce, author: me, map };
        let bytes = entry.encode().map_err(broken)?;
        self.pending = Some(Pending { entry, bytes, due: Monotonic(0), has_to_read: false });
        Ok(())
    }

    /// A read has ended.
    pub(super) fn read_done(
        &mut self,
        now: Monotonic,
        number: u64,
        outcome: ReadOutcome,
        settings: &Settings,
    ) -> Result<Shown, Stop> {
        let Some(sent) = self.reading.take() else { return Ok(Shown::default()) };
        if let ReadOutcome::Failed = outcome {
            self.read_from = now.after(self.read_pause.next(settings));
            return Ok(Shown::default());
        }
        self.read_pause.reset();
        if number != self.number + 1 {
            // The map was created meanwhile, by this node.
            return Ok(Shown::default());
        }
        match outcome {
            ReadOutcome::Entry(bytes) => {
                let entry = Entry::decode(&bytes);
                let entry = entry.map_err(|error| Stop::Broken { number, error })?;
                Ok(Shown { entry: Some(entry), absent_since: None })
            }
            _ => {
                self.is_caught_up = true;
                self.end_seen = now;
                self.heard = 0;
                self.wants_proof = false;
                if let Some(pending) = self.pending.as_mut().filter(|pending| pending.has_to_read) {
                    pending.has_to_read = false;
                    pending.due = now.after(self.create_pause.next(settings));
                }
                Ok(Shown { absent_since: Some(sent), entry: None })
            }
        }
    }

    /// A create has ended. Gives the map if it is the next one, and when it was sent.
    pub(super) fn create_done(
        &mut self,
        now: Monotonic,
        number: u64,
        outcome: CreateOutcome,
    ) -> Result<Option<(Entry, Monotonic)>, Stop> {
        let Some((_, sent)) = self.creating.take() else { return Ok(None) };
        let Some(pending) = self.pending.as_mut().filter(|it| it.entry.number == number) else {
            // A read has been faster. It has to have shown the same.
            let is_lie = outcome == CreateOutcome::Created && self.last_ours != number;
            return if is_lie { Err(Stop::Forked { number }) } else { Ok(None) };
        };
        if outcome == CreateOutcome::Created {
            return Ok(Some((pending.entry.clone(), sent)));
        }
        pending.has_to_read = true;
        self.read_from = self.read_from.min(now);
        Ok(None)
    }

    /// The next map is this one.
    pub(super) fn follow(&mut self, entry: Entry) -> Result<(), Stop> {
        let number = self.number + 1;
        let ours = self.pending.take().is_some_and(|pending| pending.entry.nonce == entry.nonce);
        let forked = entry.number != number
            || entry.previous != self.nonce
            // Another process has the same epoch.
            || ((entry.author == self.nonces.me) && !ours);
        if forked {
            return Err(Stop::Forked { number });
        }
        if ours {
            self.last_ours = number;
        } else {
            let follows = self.map.follow(entry.author, &entry.map);
            follows.map_err(|error| Stop::Broken { number, error })?;
        }
        self.number = number;
        self.nonce = entry.nonce;
        self.map = entry.map;
        self.create_pause.reset();
        // There may be more.
        self.heard = self.heard.max(if ours { 0 } else { number + 1 });
        Ok(())
    }

    /// Sends what is due.
    pub(super) fn go_on(&mut self, now: Monotonic, poll: Duration, out: &mut Vec<Effect>) {
        if self.creating.is_none()
            && let Some(pending) = &self.pending
            && !pending.has_to_read
            && pending.due <= now
        {
            let number = pending.entry.number;
            self.creating = Some((number, now));
            out.push(Effect::CreateMap { number, bytes: pending.bytes.clone() });
        }
        if self.reading.is_none() && self.read_due(poll) <= now {
            self.reading = Some(now);
            out.push(Effect::ReadMap { number: self.number + 1 });
        }
    }

    /// When [`OwnLog::go_on`] has something to do.
    pub(super) fn next(&self, poll: Duration) -> Monotonic {
        let read = if self.reading.is_some() { Monotonic::NEVER } else { self.read_due(poll) };
        let create = match &self.pending {
            Some(pending) if !pending.has_to_read && self.creating.is_none() => pending.due,
            _ => Monotonic::NEVER,
        };
        read.min(create)
    }

    fn read_due(&self, poll: Duration) -> Monotonic {
        let is_urgent = !self.is_caught_up
            || self.wants_proof
            || self.heard > self.number
            || self.pending.as_ref().is_some_and(|pending| pending.has_to_read);
        if is_urgent { self.read_from } else { self.read_from.max(self.end_seen.after(poll)) }
    }
}

/// A number for each attempt to create a map, which no other attempt in the world has.
#[derive(Debug)]
struct Nonces {
    me: Epoch,
    chance: u64,
    attempts: u32,
}

impl Nonces {
    fn next(&mut self) -> Nonce {
        self.attempts += 1;
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.chance.to_le_bytes());
        nonce[8..12].copy_from_slice(&self.me.0.to_le_bytes());
        nonce[12..].copy_from_slice(&self.attempts.to_le_bytes());
        Nonce(nonce)
    }
}
