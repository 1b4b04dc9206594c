//! The bytes of an entry of the log `own`: a map, its number, its author, and what it follows.
//!
//! `docs/format.md` has the bytes. They are the payload of an object of the store; the object's
//! header has the same random numbers and a checksum.
//!
//! Guarantees: one entry has one encoding, which the decoder gives back and no other. It meets
//! arbitrary bytes without panic; time and memory are bounded by the limits of maps, not by what
//! the bytes claim.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    ENDED_MAX, Ends, Epoch, HERITAGE_MAX, MEMBERS_MAX, Map, MapError, MemberInfo, PARTITIONS_MAX,
    Slot, State, TEXT_MAX_BYTES,
};

const VERSION: u32 = 1;

/// Most bytes of an entry: beyond this no map is within its limits.
pub const ENTRY_MAX_BYTES: usize = 16 << 20;

/// A number that no two attempts to create an object have in common.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Nonce(pub [u8; 16]);

impl Nonce {
    /// Of the map number 0, which is no object.
    pub const NONE: Nonce = Nonce([0; 16]);
}

/// An entry of the log `own`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The number of the map, from 1.
    pub number: u64,
    /// Tells this entry from any other that somebody tried to create under the number.
    pub nonce: Nonce,
    /// The nonce of the map before it.
    pub previous: Nonce,
    /// Who has written it.
    pub author: Epoch,
    /// The map.
    pub map: Map,
}

impl Entry {
    /// Its bytes.
    ///
    /// # Errors
    /// The map is inconsistent or beyond its limits.
    pub fn encode(&self) -> Result<Vec<u8>, MapError> {
        self.map.check()?;
        let mut out = Vec::with_capacity(256);
        out.extend(VERSION.to_le_bytes());
        out.extend(self.number.to_le_bytes());
        out.extend(self.nonce.0);
        out.extend(self.previous.0);
        put_u32(&mut out, self.author.0);
        put_u32(&mut out, self.map.slots.len() as u32);
        put_u32(&mut out, self.map.members.len() as u32);
        put_u32(&mut out, self.map.ended.len() as u32);
        for (epoch, info) in &self.map.members {
            put_u32(&mut out, epoch.0);
            out.push(byte(info.state));
            out.extend(info.position.to_le_bytes());
            for text in [&info.name, &info.address, &info.zone] {
                // The check above has bounded it.
                out.push(text.len() as u8);
                out.extend(text.as_bytes());
            }
        }
        for (epoch, ends) in &self.map.ended {
            put_u32(&mut out, epoch.0);
            out.extend(ends.log.to_le_bytes());
            out.extend(ends.wal.to_le_bytes());
        }
        for run in self.map.slots.chunk_by(|a, b| a == b) {
            put_run(&mut out, run);
        }
        if out.len() > ENTRY_MAX_BYTES { Err(MapError::TooMany("bytes")) } else { Ok(out) }
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// [`Entry::encode`] of this version cannot have made them.
    pub fn decode(bytes: &[u8]) -> Result<Entry, MapError> {
        if bytes.len() > ENTRY_MAX_BYTES {
            return Err(MapError::TooMany("bytes"));
        }
        let mut rest = Rest(bytes);
        let version = rest.u32()?;
        if version != VERSION {
            return Err(MapError::Version(version));
        }
        let number = rest.u64()?;
        let nonce = Nonce(rest.array()?);
        let previous = Nonce(rest.array()?);
        let author = Epoch(rest.u32()?);
        let partitions = rest.count(PARTITIONS_MAX, "partitions")?;
        let members = rest.count(MEMBERS_MAX, "members")?;
        let ended = rest.count(ENDED_MAX, "ended writers")?;
        let members = rest.members(members)?;
        let ended = rest.ended(ended)?;
        let slots = rest.slots(partitions)?;
        if !rest.0.is_empty() {
            return Err(MapError::Damaged("bytes follow it"));
        }
        if number == 0 || nonce == Nonce::NONE || author == Epoch::NOBODY {
            return Err(MapError::Damaged("it has no number, nonce or author"));
        }
        let map = Map { members, ended, slots };
        map.check()?;
        Ok(Entry { number, nonce, previous, author, map })
    }
}

fn byte(state: State) -> u8 {
    match state {
        State::Active => 0,
        State::Leaving => 1,
        State::Guest => 2,
    }
}

fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}

/// Slots that are equal, which are at least one.
fn put_run(out: &mut Vec<u8>, run: &[Slot]) {
    let Some(slot) = run.first() else { return };
    // The check of the map has bounded both counts.
    put_u32(out, run.len() as u32);
    put_u32(out, slot.owner.unwrap_or(Epoch::NOBODY).0);
    put_u32(out, slot.next.unwrap_or(Epoch::NOBODY).0);
    put_u32(out, slot.heritage.len() as u32);
    for epoch in &slot.heritage {
        put_u32(out, epoch.0);
    }
}

/// Bytes that are not read yet.
struct Rest<'a>(&'a [u8]);

const SHORT: MapError = MapError::Damaged("it is too short");
const ORDER: MapError = MapError::Damaged("epochs do not rise");

impl Rest<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], MapError> {
        let (array, rest) = self.0.split_first_chunk().ok_or(SHORT)?;
        self.0 = rest;
        Ok(*array)
    }

    fn u32(&mut self) -> Result<u32, MapError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, MapError> {
        self.array().map(u64::from_le_bytes)
    }

    fn count(&mut self, max: usize, what: &'static str) -> Result<usize, MapError> {
        let count = self.u32()? as usize;
        if count > max { Err(MapError::TooMany(what)) } else { Ok(count) }
    }

    fn text(&mut self) -> Result<String, MapError> {
        let [len] = self.array()?;
        const { assert!(TEXT_MAX_BYTES == u8::MAX as usize) };
        let (text, rest) = self.0.split_at_checked(usize::from(len)).ok_or(SHORT)?;
        self.0 = rest;
        let text = str::from_utf8(text).map_err(|_| MapError::Damaged("a text is not UTF-8"))?;
        Ok(text.to_owned())
    }

    fn members(&mut self, count: usize) -> Result<BTreeMap<Epoch, MemberInfo>, MapError> {
        let mut members = BTreeMap::new();
        for _ in 0..count {
            let epoch = Epoch(self.u32()?);
            let state = match self.array()? {
                [0] => State::Active,
                [1] => State::Leaving,
                [2] => State::Guest,
                [_] => return Err(MapError::Damaged("a state is unknown")),
            };
            let position = self.u64()?;
            let (name, address, zone) = (self.text()?, self.text()?, self.text()?);
            rises(&members, epoch)?;
            members.insert(epoch, MemberInfo { name, address, zone, state, position });
        }
        Ok(members)
    }

    fn ended(&mut self, count: usize) -> Result<BTreeMap<Epoch, Ends>, MapError> {
        let mut ended = BTreeMap::new();
        for _ in 0..count {
            let epoch = Epoch(self.u32()?);
            let ends = Ends { log: self.u64()?, wal: self.u64()? };
            rises(&ended, epoch)?;
            ended.insert(epoch, ends);
        }
        Ok(ended)
    }

    fn slots(&mut self, partitions: usize) -> Result<Vec<Slot>, MapError> {
        let mut slots: Vec<Slot> = Vec::with_capacity(partitions);
        let mut names = 0;
        while slots.len() < partitions {
            let run = self.count(partitions - slots.len(), "slots")?;
            let slot = self.slot()?;
            // A run of many partitions repeats its heritage in memory.
            names += run * slot.heritage.len();
            if names > HERITAGE_MAX {
                return Err(MapError::TooMany("names in heritages"));
            }
            if run == 0 || slots.last() == Some(&slot) {
                return Err(MapError::Damaged("a run of partitions is empty or cut"));
            }
            slots.resize(slots.len() + run, slot);
        }
        Ok(slots)
    }

    fn slot(&mut self) -> Result<Slot, MapError> {
        let somebody = |epoch| (epoch != Epoch::NOBODY.0).then_some(Epoch(epoch));
        let owner = somebody(self.u32()?);
        let next = somebody(self.u32()?);
        let names = self.count(HERITAGE_MAX, "names in heritages")?;
        let mut heritage = BTreeSet::new();
        for _ in 0..names {
            let epoch = Epoch(self.u32()?);
            if heritage.last().is_some_and(|last| *last >= epoch) {
                return Err(ORDER);
            }
            heritage.insert(epoch);
        }
        Ok(Slot { owner, next, heritage })
    }
}

fn rises<T>(earlier: &BTreeMap<Epoch, T>, epoch: Epoch) -> Result<(), MapError> {
    let rises = earlier.last_key_value().is_none_or(|(last, _)| *last < epoch);
    if rises { Ok(()) } else { Err(ORDER) }
}
