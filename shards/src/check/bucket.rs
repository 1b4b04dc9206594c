//! Walks a bucket: logs of edits, write-ahead logs, segments, and what nothing needs.
//!
//! Guarantees: nothing in the bucket changes, and no writer is fenced, so a server may work with it
//! meanwhile. What is not there counts as damage only if the bucket still names it at the end.
//! Memory: a few windows of an object, 16 objects of a write-ahead log, and the list of all objects.

use std::path::Path;

use logsvc_runtime::Runtime;
use logsvc_store::log::{IN_FLIGHT_MAX, LogError, LogName, is_torn};
use logsvc_store::object::ObjectError;
use logsvc_store::{ObjectName, Store};

use super::listing::{Kind, Listing, Objects};
use super::segment::Expected;
use super::source::PATIENCE;
use super::store::CheckError;
use super::stored::{StoredSegments, path_of};
use super::stored_log::check_stored_logs;
use super::{CheckReport, Severity};
use crate::ledger::{EntryError, LedgerError, MAPS, Peeked, SUM_STEP, fetch, peek};
use crate::types::StreamPartitions;

/// Verifies everything in a bucket. A server may work with it meanwhile.
///
/// # Errors
/// The bucket does not answer, or has no store. What is damaged or missing is a finding.
pub async fn check_bucket<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
) -> Result<CheckReport, CheckError> {
    let mut report = CheckReport::default();
    let peeked = match peek(store, None, runtime.now().after(PATIENCE)).await {
        Ok(Some(peeked)) => peeked,
        Ok(None) => return Err(CheckError::NoStore(store.address().to_owned())),
        Err(error) => {
            tell_damage(store, error, &mut report)?;
            let what = "so it is not known which segments count, and none was checked";
            report.note(store.address().as_ref(), 0, what);
            return Ok(report);
        }
    };
    let listing = Listing::read(runtime, store).await?;
    check_order(runtime, store, &listing, &peeked, &mut report).await?;
    check_stored_logs(runtime, store, &peeked.state, &listing, &mut report).await?;
    let mut segments = StoredSegments::new(runtime, store);
    for live in peeked.state.live.values() {
        report.segments += 1;
        let left: StreamPartitions =
            peeked.state.left_of(live.name).map(|part| part.part).collect();
        let footer = peeked.state.footers.get(&live.name);
        segments.check(Expected { live, footer, left: &left }, &mut report).await?;
        runtime.yield_now().await;
    }
    segments.settle(&mut report).await?;
    check_files(runtime, store, &peeked, &mut report).await?;
    let address: &Path = store.address().as_ref();
    let unneeded = listing.unneeded(peeked.base, &peeked.state);
    for (objects, what) in [
        (&unneeded.leaving, "that are not in force any more; the server removes them"),
        (&unneeded.unnamed, "that nothing names; the server removes them when they are a day old"),
        (&unneeded.foreign, "that are none of this store"),
    ] {
        let Objects { count, bytes, old, first: Some(first) } = objects else { continue };
        let what = format!(
            "{count} objects with {bytes} bytes {what} ({old} are older than a day); the first is \
             {first}"
        );
        report.note(address, 0, what);
    }
    Ok(report)
}

/// Verifies the contents of kept files.
async fn check_files<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    peeked: &Peeked,
    report: &mut CheckReport,
) -> Result<(), CheckError> {
    let mut suspects = Vec::new();
    for (path, file) in &peeked.state.files {
        match fetch(runtime, store, path, file).await {
            Ok(_) => {}
            Err(error @ LedgerError::KeptFile { .. }) => suspects.push((path, file, error)),
            Err(error) => return Err(error.into()),
        }
        runtime.yield_now().await;
    }
    if suspects.is_empty() {
        return Ok(());
    }
    // A server may have changed them meanwhile.
    let again = peek(store, None, runtime.now().after(PATIENCE)).await?;
    let again = again.map(|again| again.state.files).unwrap_or_default();
    for (path, file, error) in suspects {
        if again.get(path) == Some(file) {
            let name = file.object.name().map_err(LedgerError::Name)?;
            report.damage(&path_of(store, &name), 0, error.to_string());
        }
    }
    Ok(())
}

/// Makes a finding of damage in the logs of edits.
///
/// # Errors
/// It is none: the bucket does not answer.
fn tell_damage<R: Runtime>(
    store: &Store<R>,
    error: LedgerError,
    report: &mut CheckReport,
) -> Result<(), CheckError> {
    let place = |log: &str, number: u64| format!("{log}/{number:016x}");
    let (name, is_unknown) = match &error {
        LedgerError::Log(LogError::Damaged { log, number, error }) => {
            (place(log, *number), *error == ObjectError::Version)
        }
        LedgerError::Log(LogError::Forked { log, number }) => (place(log, *number), false),
        LedgerError::Entry { log, number, error } => {
            (place(log, *number as u64), matches!(error, EntryError::Unknown(_)))
        }
        LedgerError::Cluster(ObjectError::Damaged(_) | ObjectError::Torn { .. }) => {
            ("cluster".to_owned(), false)
        }
        _ => return Err(error.into()),
    };
    let severity = if is_unknown { Severity::OtherVersion } else { Severity::Damage };
    let path = match ObjectName::new(&name) {
        Ok(name) => path_of(store, &name),
        Err(_) => name.into(),
    };
    report.find(severity, &path, 0, error.to_string());
    Ok(())
}

/// Looks for writers whose objects are missing, since starts do not find their logs then, and for
/// entries that are missing in logs of edits. A log is written one entry at a time, so nothing stands
/// behind a gap, but for the numbers that a torn entry voids.
async fn check_order<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    listing: &Listing,
    peeked: &Peeked,
    report: &mut CheckReport,
) -> Result<(), CheckError> {
    let is_shared = listing.objects().any(|(info, _)| is_map(&info.name));
    let counts = |log: u32| peeked.base.is_none_or(|base| log >= base);
    for (&log, entries) in listing.edits.iter().filter(|(log, _)| counts(**log)) {
        // It is made before its log, is listed behind it, and never goes.
        if !listing.objects().any(|(_, kind)| kind == Kind::Writer(log)) {
            let name = ObjectName::new(&format!("writers/{log:08x}")).map_err(LedgerError::Name)?;
            let what = "the object of a writer is missing, so that starts do not find its log";
            report.damage(&path_of(store, &name), 0, what);
        }
        let Some(missing) = first_missing(runtime, store, log, is_shared, entries.keys()).await?
        else {
            continue;
        };
        let text = format!("log/{log:08x}/{missing:016x}");
        let name = ObjectName::new(&text).map_err(LedgerError::Name)?;
        // The listing may be behind.
        match store.info(&name, runtime.now().after(PATIENCE)).await {
            Ok(_) => continue,
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
        // A server that has gone on to a later log may have removed it.
        let again = peek(store, None, runtime.now().after(PATIENCE)).await?;
        if again.is_some_and(|again| again.base.is_none_or(|base| log >= base)) {
            let what = "the entry is missing, and entries stand behind it, which do not count";
            report.damage(&path_of(store, &name), 0, what);
        }
    }
    Ok(())
}

/// Whether an object is a map of nodes that share the bucket.
fn is_map(name: &ObjectName) -> bool {
    name.as_str().strip_prefix(MAPS).is_some_and(|rest| rest.starts_with('/'))
}

/// The first number of a log that is missing before another one.
async fn first_missing<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    log: u32,
    is_shared: bool,
    numbers: impl Iterator<Item = &u64>,
) -> Result<Option<u64>, CheckError> {
    let name = LogName::new(&format!("log/{log:08x}")).map_err(LedgerError::Name)?;
    // A writer of many removes what is before a sum.
    let begins = |number: &&u64| !is_shared || number.is_multiple_of(SUM_STEP);
    let mut numbers = numbers.skip_while(|number| !begins(number)).peekable();
    let mut expected = numbers.peek().copied().copied().filter(|_| is_shared).unwrap_or(0);
    for &number in numbers {
        if number != expected {
            let torn = expected.checked_sub(1).filter(|torn| number == torn + IN_FLIGHT_MAX);
            let Some(torn) = torn else { return Ok(Some(expected)) };
            match is_torn(store, &name, torn, runtime.now().after(PATIENCE)).await {
                Ok(true) => {}
                Err(LogError::Store(error)) => return Err(error.into()),
                // What is damaged is told elsewhere.
                Ok(false) | Err(_) => return Ok(Some(expected)),
            }
        }
        expected = number + 1;
    }
    Ok(None)
}
