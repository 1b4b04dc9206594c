//! All objects of a bucket, sorted by what they are.
//!
//! Memory is proportional to the number of objects.

use std::collections::BTreeMap;

use logsvc_runtime::Runtime;
use logsvc_store::bucket::ObjectInfo;
use logsvc_store::log::may_exclude;
use logsvc_store::{Folder, ObjectName, Store, StoreError};

use super::source::PATIENCE;
use crate::kept::{FileObject, OBJECTS};
use crate::ledger::{LedgerState, LogPlace, SWEPT_AGE, epoch_of, is_cluster};
use crate::manifest::SegmentName;

/// What an object is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// What is fixed for all writers.
    Cluster,
    /// A writer's epoch.
    Writer(u32),
    /// An entry of a log of edits: whose, and its number.
    Edit(u32, u64),
    /// An entry of a write-ahead log: whose, and its number.
    Wal(u32, u64),
    /// A segment.
    Segment(SegmentName),
    /// The content of a kept file.
    File(FileObject),
    /// What a test of the store has left.
    SelfTest,
    /// None of this program.
    Foreign,
}

/// What an object is.
pub(super) fn kind_of(name: &ObjectName) -> Kind {
    let text = name.as_str();
    if is_cluster(text) {
        return Kind::Cluster;
    }
    let Some((folder, rest)) = text.split_once('/') else { return Kind::Foreign };
    let of_log = || LogPlace::parse(folder, name);
    let kind = match folder {
        "writers" => epoch_of(rest).map(Kind::Writer),
        "log" => of_log().map(|at| Kind::Edit(at.epoch, at.number)),
        "wal" => of_log().map(|at| Kind::Wal(at.epoch, at.number)),
        "seg" => SegmentName::of_object(name).map(Kind::Segment),
        OBJECTS => FileObject::parse(name).map(Kind::File),
        "self-test" => Some(Kind::SelfTest),
        _ => None,
    };
    kind.unwrap_or(Kind::Foreign)
}

/// Objects of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Objects {
    pub(super) count: u64,
    pub(super) bytes: u64,
    /// Those that are older than a day.
    pub(super) old: u64,
    /// The name of the first.
    pub(super) first: Option<ObjectName>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// All objects, by name.
    objects: Vec<(ObjectInfo, Kind)>,
    /// Numbers and lengths of the entries of logs of edits.
    pub(super) edits: BTreeMap<u32, BTreeMap<u64, u64>>,
    /// The same of write-ahead logs.
    pub(super) wals: BTreeMap<u32, BTreeMap<u64, u64>>,
    /// The newest time that the store has told.
    newest_ns: i64,
}

/// Objects that nothing needs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unneeded {
    /// Segments and files that the log has removed.
    pub(super) leaving: Objects,
    /// Objects of this program that nothing names.
    pub(super) unnamed: Objects,
    /// Those of others.
    pub(super) foreign: Objects,
}

impl Listing {
    /// Lists everything.
    pub(super) async fn read<R: Runtime>(
        runtime: &R,
        store: &Store<R>,
    ) -> Result<Listing, StoreError> {
        let mut listing = Listing { newest_ns: i64::MIN, ..Listing::default() };
        loop {
            let after = listing.objects.last().map(|(info, _)| info.name.clone());
            let until = runtime.now().after(PATIENCE);
            let page = store.list_page(&Folder::ALL, after.as_ref(), until).await?;
            let is_last = !page.has_more || page.objects.is_empty();
            page.objects.into_iter().for_each(|info| listing.add(info));
            if is_last {
                return Ok(listing);
            }
        }
    }

    fn add(&mut self, info: ObjectInfo) {
        let kind = kind_of(&info.name);
        match kind {
            Kind::Edit(log, number) => {
                self.edits.entry(log).or_default().insert(number, info.len_bytes);
            }
            Kind::Wal(log, number) => {
                self.wals.entry(log).or_default().insert(number, info.len_bytes);
            }
            _ => {}
        }
        self.newest_ns = self.newest_ns.max(info.created_ns);
        self.objects.push((info, kind));
    }

    /// All objects, by name.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&ObjectInfo, Kind)> {
        self.objects.iter().map(|(info, kind)| (info, *kind))
    }

    /// What the state of the bucket, which the log `base` tells, does not need.
    pub(super) fn unneeded(&self, base: Option<u32>, state: &LedgerState) -> Unneeded {
        let mut found = Unneeded::default();
        for (info, kind) in &self.objects {
            let place = match kind {
                Kind::Cluster | Kind::Writer(_) => continue,
                Kind::Edit(log, number) => {
                    let is_newest = self.is_newest(&self.edits, *log, *number);
                    if is_newest || base.is_none_or(|base| *log >= base) {
                        continue;
                    }
                    &mut found.unnamed
                }
                Kind::Wal(log, number) => {
                    let is_needed = state.wal.get(log).is_some_and(|from| number >= from);
                    let is_newest = self.is_newest(&self.wals, *log, *number);
                    // A writer's own log comes before the entry that names it.
                    let is_early = base.is_none_or(|base| *log >= base);
                    if is_needed || is_newest || is_early || may_exclude(info.len_bytes) {
                        continue;
                    }
                    &mut found.unnamed
                }
                Kind::Segment(name) => match state.live.get(name) {
                    Some(live) if live.name.object_name(live.day) == info.name => continue,
                    _ if state.removed.contains_key(name) => &mut found.leaving,
                    _ => &mut found.unnamed,
                },
                Kind::File(file) if state.files.values().any(|kept| kept.object == *file) => {
                    continue;
                }
                Kind::File(file) if state.gone_files.contains(file) => &mut found.leaving,
                Kind::File(_) | Kind::SelfTest => &mut found.unnamed,
                Kind::Foreign => &mut found.foreign,
            };
            place.count += 1;
            place.bytes += info.len_bytes;
            place.old += u64::from(self.is_old(info));
            place.first.get_or_insert_with(|| info.name.clone());
        }
        found
    }

    /// The newest entry of a log may be a fence, which is needed for ever.
    fn is_newest(&self, logs: &BTreeMap<u32, BTreeMap<u64, u64>>, log: u32, number: u64) -> bool {
        logs.get(&log).and_then(|log| log.last_key_value()).is_some_and(|(last, _)| *last == number)
    }

    fn is_old(&self, info: &ObjectInfo) -> bool {
        let age_ns = i64::try_from(SWEPT_AGE.as_nanos()).unwrap_or(i64::MAX);
        self.newest_ns.saturating_sub(info.created_ns) > age_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::Day;

    fn kind(name: &str) -> Kind {
        kind_of(&ObjectName::new(name).expect("a name"))
    }

    #[test]
    fn objects_are_told_apart_by_their_names() {
        let name = SegmentName { epoch: 3, shards: 0x40, shard: 1, seq: 0x1f };
        let segment = name.object_name(Day(1));
        for (text, expected) in [
            ("cluster", Kind::Cluster),
            ("writers/0000000a", Kind::Writer(10)),
            ("log/0000000a/0000000000000010", Kind::Edit(10, 16)),
            ("wal/0000000a/0000000000000010", Kind::Wal(10, 16)),
            (segment.as_str(), Kind::Segment(name)),
            ("files/00000003-00000001", Kind::File(FileObject { epoch: 3, number: 1 })),
            ("files/3-1", Kind::Foreign),
            ("self-test/1-2", Kind::SelfTest),
            ("seg/1970-01-02/x.seg", Kind::Foreign),
            ("seg/1970-99-02/00000003-00000040-00000001-0000001f.seg", Kind::Foreign),
            ("log/a/0000000000000010", Kind::Foreign),
            ("log/0000000a", Kind::Foreign),
            ("writers/x", Kind::Foreign),
            ("other", Kind::Foreign),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    #[test]
    fn what_nothing_needs_is_counted() {
        let mut listing = Listing { newest_ns: i64::MIN, ..Listing::default() };
        let day_ns = SWEPT_AGE.as_nanos() as i64;
        for (name, len_bytes, created_ns) in [
            ("cluster", 72, 0),
            ("foreign", 5, 0),
            ("log/00000000/0000000000000000", 10, 0),
            ("log/00000000/0000000000000001", 20, 0),
            ("log/00000002/0000000000000000", 30, 2 * day_ns),
            ("wal/00000000/0000000000000006", 400, 0),
            ("wal/00000000/0000000000000007", 500, 0),
            ("wal/00000000/0000000000000008", 600, 0),
            ("wal/00000001/0000000000000000", 68, 0),
        ] {
            let name = ObjectName::new(name).expect("a name");
            listing.add(ObjectInfo { name, len_bytes, created_ns });
        }
        let state = LedgerState { wal: [(0, 7)].into(), ..LedgerState::default() };
        let found = listing.unneeded(Some(2), &state);
        assert_eq!((found.unnamed.count, found.unnamed.bytes, found.unnamed.old), (2, 410, 2));
        assert_eq!((found.foreign.count, found.leaving.count), (1, 0));
    }
}
