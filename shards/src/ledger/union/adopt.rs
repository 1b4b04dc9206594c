//! Adoption: one log says what some ended logs have said, so that these can be forgotten.
//!
//! Guarantees: with the entries in the own log, the union of all logs is the same with and without the
//! ended ones, but for segments whose objects are gone. To be asked after [`Logs::read_on`] with a map in
//! which these writers have ended. Then whatever they have removed or left was read, together with
//! its addition. What is in the own log already is not said again, so an adoption that was cut short
//! may be repeated.

use std::collections::{BTreeMap, BTreeSet};

use super::view::Told;
use super::{LogEntry, Logs};
use crate::ledger::LedgerState;
use crate::manifest::{ManifestEdit, SegmentName};
use crate::wal::covers::strongest;

/// Segments, parts and covers of an entry. One takes 250 bytes at most, with its footer and its removal.
const RECORDS_MAX: usize = 1 << 16;

impl Logs {
    /// The entries that the writer `own` has to append to its log in order to say what the logs of
    /// `ended` writers say. There is none if it says so already. `wal` is what its entries say of
    /// write-ahead logs at this moment. `is_object_gone` tells of a segment that is not live whether its
    /// object is gone, and nobody can be about to adopt its addition: then the segment is forgotten with
    /// the logs that have added it.
    pub fn adoption(
        &self,
        own: u32,
        ended: &BTreeSet<u32>,
        wal: &BTreeMap<u32, u64>,
        is_object_gone: impl Fn(SegmentName) -> bool,
    ) -> Vec<LogEntry> {
        self.adoption_in(own, ended, wal, is_object_gone, RECORDS_MAX)
    }

    pub(super) fn adoption_in(
        &self,
        own: u32,
        ended: &BTreeSet<u32>,
        wal: &BTreeMap<u32, u64>,
        is_object_gone: impl Fn(SegmentName) -> bool,
        records_max: usize,
    ) -> Vec<LogEntry> {
        let goes = |epoch: &u32| ended.contains(epoch) && *epoch != own;
        let of = |logs_go: bool| {
            let logs = self.logs.iter().filter(move |(epoch, _)| goes(epoch) == logs_go);
            logs.map(|(_, log)| &log.known.state)
        };
        let nothing = LedgerState::default();
        let own = self.logs.get(&own).map_or(&nothing, |log| &log.known.state);
        let (theirs, others) = (Told::by(of(true)), Told::by(of(false)));
        let all = Told::by(of(true).chain(of(false)));
        let mut entries = Entries::new(wal, records_max);
        let named = theirs.left.iter().map(|part| &part.segment);
        let named: BTreeSet<SegmentName> =
            theirs.added.keys().chain(&theirs.gone).chain(named).copied().collect();
        for name in named {
            // No log adds the others, and none ever will.
            let Some(live) = all.added.get(&name) else { continue };
            if !all.gone.contains(&name) {
                if theirs.added.contains_key(&name) && !own.live.contains_key(&name) {
                    let edit = entries.edit();
                    edit.added.push(*live);
                    edit.footers.extend(of(true).find_map(|state| state.footers.get(&name)));
                }
            } else if others.added.contains_key(&name) {
                if !others.gone.contains(&name) {
                    entries.edit().removed.push(name);
                }
            } else if !is_object_gone(name) {
                // As in a sum: who reads it has to find the object.
                let edit = entries.edit();
                edit.added.push(*live);
                edit.removed.push(name);
            }
        }
        for part in theirs.left {
            let is_of_live =
                all.added.contains_key(&part.segment) && !all.gone.contains(&part.segment);
            if is_of_live && !own.left.contains(&part) {
                entries.edit().left.push(part);
            }
        }
        // Nobody needs the write-ahead logs of these writers.
        let is_needed = |epoch: u32| self.logs.contains_key(&epoch) && !goes(&epoch);
        let covers = of(true).flat_map(|state| &state.covers);
        let covers = covers.filter(|cover| is_needed(cover.wal_epoch));
        for cover in strongest(covers.copied().collect()) {
            if !own.covers.contains(&cover) {
                entries.edit().covers.push(cover);
            }
        }
        entries.finish()
    }
}

/// Entries that are being made.
struct Entries<'a> {
    wal: &'a BTreeMap<u32, u64>,
    records_max: usize,
    done: Vec<LogEntry>,
    edit: ManifestEdit,
    records: usize,
}

impl<'a> Entries<'a> {
    fn new(wal: &'a BTreeMap<u32, u64>, records_max: usize) -> Entries<'a> {
        let (done, edit) = (Vec::new(), ManifestEdit::default());
        Entries { wal, records_max, done, edit, records: 0 }
    }

    /// The edit that the next record goes to.
    fn edit(&mut self) -> &mut ManifestEdit {
        if self.records >= self.records_max {
            self.close();
        }
        self.records += 1;
        &mut self.edit
    }

    fn close(&mut self) {
        self.records = 0;
        let edit = std::mem::take(&mut self.edit);
        if !edit.is_empty() {
            self.done.push(LogEntry { wal: self.wal.clone(), edit, ..LogEntry::default() });
        }
    }

    fn finish(mut self) -> Vec<LogEntry> {
        self.close();
        self.done
    }
}
