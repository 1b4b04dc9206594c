//! Removes objects that nothing names: segments and files whose edit never came, and logs that a later
//! one contains.
//!
//! Guarantees: only objects that were in a complete listing go, and only those whose names this
//! program gives and that are older than [`SWEPT_AGE`], by the store's own clock. Segments of earlier
//! starts may go at once: their logs are fenced, so no edit will ever name them. The newest number of
//! a log stays for ever: it may be the fence that keeps a writer from going on which was asleep for
//! years. So may an object that is no longer than a fence. Names of later writers are left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::bucket::{BucketError, ObjectInfo};
use logsvc_store::log::may_exclude;
use logsvc_store::{Folder, ObjectName, Store, StoreError};

use crate::kept::{FileObject, OBJECTS};
use crate::ledger::{LogPlace, SWEPT_AGE};
use crate::manifest::SegmentName;

/// How long each request has patience.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a sweep must leave alone.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// Segments that are in the bucket, or on their way into it or out of it.
    pub(super) segments: BTreeSet<SegmentName>,
    /// Objects of files that the bucket keeps.
    pub(super) files: BTreeSet<FileObject>,
    /// The log that is written.
    pub(super) log: u32,
    /// The log that it goes on from.
    pub(super) base: Option<u32>,
    /// The epoch of this start's segments and files.
    pub(super) epoch: u32,
    /// Whether segments of earlier starts go however young they are.
    pub(super) has_to_be_clean: bool,
}

/// Removes what nothing names; gives the number of objects.
pub(super) async fn sweep<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    known: Known,
) -> Result<u64, StoreError> {
    let until = || runtime.now().after(PATIENCE);
    let writers = list(store, "writers", until()).await?;
    let segments = list(store, "seg", until()).await?;
    let logs = list(store, "log", until()).await?;
    let files = list(store, OBJECTS, until()).await?;
    let all = writers.iter().chain(&segments).chain(&logs).chain(&files);
    // The store's own time is at least this.
    let now_ns = all.map(|info| info.created_ns).max().unwrap_or(i64::MIN);
    let min_age_ns = i64::try_from(SWEPT_AGE.as_nanos()).unwrap_or(i64::MAX);
    let is_old = |info: &ObjectInfo| now_ns.saturating_sub(info.created_ns) > min_age_ns;
    let is_lost = |info: &&ObjectInfo| {
        let name = SegmentName::of_object(&info.name).filter(|name| name.epoch <= known.epoch);
        let may_go =
            |name: SegmentName| is_old(info) || (known.has_to_be_clean && name.epoch < known.epoch);
        name.is_some_and(|name| !known.segments.contains(&name) && may_go(name))
    };
    let lost = segments.iter().filter(is_lost).map(|info| &info.name);
    let is_lost_file = |info: &&ObjectInfo| {
        let object = FileObject::parse(&info.name).filter(|object| object.epoch <= known.epoch);
        object.is_some_and(|object| !known.files.contains(&object)) && is_old(info)
    };
    let lost_files = files.iter().filter(is_lost_file).map(|info| &info.name);
    let ended: BTreeSet<&ObjectName> = ended_entries(&logs, &known);
    let ended = logs.iter().filter(|info| ended.contains(&info.name) && is_old(info));
    let mut removed = 0;
    for name in lost.chain(lost_files).chain(ended.map(|info| &info.name)) {
        store.remove(name, until()).await?;
        removed += 1;
    }
    Ok(removed)
}

/// All objects of a folder.
///
/// # Errors
/// The store refuses, or the deadline has passed.
pub(crate) async fn list<R: Runtime>(
    store: &Store<R>,
    folder: &str,
    until: Monotonic,
) -> Result<Vec<ObjectInfo>, StoreError> {
    let folder = Folder::new(folder).map_err(|error| StoreError::Failed {
        bucket: String::new(),
        name: folder.to_owned(),
        error: BucketError::failed(error),
    })?;
    store.list(&folder, None, until).await
}

/// The entries of logs that a later log contains, but for those that may keep a writer from going on.
fn ended_entries<'a>(logs: &'a [ObjectInfo], known: &Known) -> BTreeSet<&'a ObjectName> {
    let mut by_log: BTreeMap<u32, Vec<(u64, &ObjectInfo)>> = BTreeMap::new();
    for info in logs {
        let Some(LogPlace { epoch, number }) = LogPlace::parse("log", &info.name) else { continue };
        by_log.entry(epoch).or_default().push((number, info));
    }
    let is_ended = |log: u32| log < known.log && known.base.is_none_or(|base| log < base);
    let mut ended = BTreeSet::new();
    for (_, mut entries) in by_log.into_iter().filter(|(log, _)| is_ended(*log)) {
        entries.sort_unstable_by_key(|(number, _)| *number);
        entries.pop();
        entries.retain(|(_, info)| !may_exclude(info.len_bytes));
        ended.extend(entries.into_iter().map(|(_, info)| &info.name));
    }
    ended
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use logsvc_runtime::sim::Simulation;
    use logsvc_store::double::World;

    use super::*;

    fn info(name: &str) -> ObjectInfo {
        let name = ObjectName::new(name).expect("a name");
        ObjectInfo { name, len_bytes: 100, created_ns: 0 }
    }

    #[test]
    fn logs_keep_their_newest_numbers() {
        let logs = [
            "log/00000001/0000000000000000",
            "log/00000001/0000000000000001",
            "log/00000002/0000000000000000",
            "log/00000003/0000000000000000",
            "log/00000003/0000000000000001",
            "log/00000007/0000000000000000",
            "log/00000009/0000000000000000",
            "log/other",
        ];
        let mut logs: Vec<ObjectInfo> = logs.into_iter().map(info).collect();
        let torn = ObjectInfo { len_bytes: 68, ..info("log/00000001/0000000000000008") };
        let newest = info("log/00000001/0000000000000010");
        logs.splice(2..2, [torn, newest]);
        let ended = |log, base| {
            let known = Known { log, base, ..Known::default() };
            let ended = ended_entries(&logs, &known);
            ended.into_iter().map(|name| name.as_str().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            ended(7, Some(3)),
            ["log/00000001/0000000000000000", "log/00000001/0000000000000001"],
            "the base stays, since a start may need it until the next log has its sum"
        );
        let ended_by_9 = ["1/0000000000000000", "1/0000000000000001", "3/0000000000000000"];
        assert_eq!(ended(9, Some(7)), ended_by_9.map(|place| format!("log/0000000{place}")));
        assert_eq!(ended(0, None), [""; 0]);
    }

    #[test]
    fn names_of_segments_are_told_from_others() {
        let name = "seg/2026-01-01/00000003-00000040-00000001-0000001f.seg";
        let name = ObjectName::new(name).expect("a name");
        assert_eq!(
            SegmentName::of_object(&name).map(|name| (name.epoch, name.seq)),
            Some((3, 0x1f))
        );
        for other in ["seg/x", "seg/2026-01-01/other", "log/2026-01-01/x.seg"] {
            assert_eq!(SegmentName::of_object(&ObjectName::new(other).expect("a name")), None);
        }
    }

    #[test]
    fn old_objects_of_files_that_nothing_names_go() {
        Simulation::new(1).block_on(|runtime| async move {
            let world = World::default();
            let store = Store::new(runtime.clone(), Box::new(world.bucket(runtime.clone())));
            let create = async |name: &str| {
                let name = ObjectName::new(name).expect("a name");
                let until = runtime.now().after(PATIENCE);
                let body = Bytes::from(name.as_str().to_owned());
                let proof = 0..body.len();
                store.create(&name, body, proof, until).await.expect("a healthy bucket");
            };
            for name in ["00000001-00000000", "00000003-00000001", "00000009-00000000", "other"] {
                create(&format!("files/{name}")).await;
            }
            runtime.sleep_until(runtime.now().after(SWEPT_AGE * 2)).await;
            create("files/00000003-00000002").await;
            let files = [FileObject { epoch: 1, number: 0 }].into();
            let known = Known { files, epoch: 3, ..Known::default() };
            assert_eq!(sweep(&runtime, &store, known).await.expect("a healthy bucket"), 1);
            let left = world.objects().into_iter().map(|(name, _)| name.to_string());
            // Named; young; of a later writer; of somebody else.
            let expected = ["00000001-00000000", "00000003-00000002", "00000009-00000000", "other"];
            let expected = expected.map(|name| format!("files/{name}"));
            assert_eq!(left.collect::<Vec<_>>(), expected);
        });
    }
}
