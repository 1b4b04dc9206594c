//! Finds the newest entry of the log of common files, of which old entries are removed.
//!
//! Guarantees:
//! - [`newest`] gives an entry that the log has had without a break since all that was there when it was
//!   asked. An object at a number that was freed is never taken for an entry, whoever has made it: a
//!   keeper that stood still, or a request that was on its way for long.
//! - The newest entry is never removed, since only those go behind which [`KEPT_ENTRIES`] newer ones were.
//!
//! Why: whatever a listing shows above all else is no freed number, for the newest entry stays. It may be
//! freed before it is read. But then at least [`KEPT_ENTRIES`] newer ones are there, and stay. So a second
//! listing behind the reads tells, and all is done again. Some stores show in a listing what was there a
//! moment ago: an entry goes only long after the one behind it came ([`super::SweepConfig`]).
//! `docs/design/common.md` has the whole argument.
//!
//! What can go wrong: the store does not answer, or more entries come meanwhile than stay. Nothing is
//! given then, and the same call is to be made again.

use bytes::Bytes;
use logsvc_runtime::{Monotonic, Runtime};
use logsvc_store::bucket::{BucketError, ObjectInfo};
use logsvc_store::object::{Header, Nonce};
use logsvc_store::{Folder, ObjectName, Store, StoreError};

use super::{CommonState, PATIENCE};
use crate::ledger::{Found, Numbered};

/// The log.
pub(super) const LOG: Numbered = Numbered { folder: "common", kind: 9, max_bytes: 32 << 20 };

/// So many entries stay before the newest one, so that who reads while others append finds what a
/// listing has shown.
pub(super) const KEPT_ENTRIES: u64 = 64;

/// No entry has a number as large. A name that has one is somebody else's.
const NUMBER_MAX: u64 = 1 << 62;
/// So often it is looked anew, while others append faster than they are read.
const ATTEMPTS: u32 = 8;

/// The entries with their numbers and in the order of these, torn ones too.
///
/// # Errors
/// The store does not answer.
pub(super) async fn entries<R: Runtime>(
    store: &Store<R>,
    until: Monotonic,
) -> Result<Vec<(u64, ObjectInfo)>, StoreError> {
    let folder = Folder::new(LOG.folder).map_err(|error| StoreError::Failed {
        bucket: String::new(),
        name: LOG.folder.to_owned(),
        error: BucketError::failed(error),
    })?;
    let number = |name: &ObjectName| {
        let text = name.as_str().strip_prefix(LOG.folder)?.strip_prefix('/')?;
        // What is behind a point tells a name behind a torn object.
        let digits = text.split_once('.').map_or(text, |(digits, _)| digits);
        let number = u64::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 16);
        number.filter(|number| *number < NUMBER_MAX)
    };
    let listed = store.list(&folder, None, until).await?.into_iter();
    let mut entries: Vec<(u64, ObjectInfo)> =
        listed.filter_map(|info| Some((number(&info.name)?, info))).collect();
    entries.sort_unstable_by(|a, b| (a.0, a.1.name.as_str()).cmp(&(b.0, b.1.name.as_str())));
    Ok(entries)
}

/// Their numbers; `None` if the store does not say.
async fn numbers<R: Runtime>(runtime: &R, store: &Store<R>) -> Option<Vec<u64>> {
    match entries(store, runtime.now().after(PATIENCE)).await {
        Ok(entries) => {
            let mut numbers: Vec<u64> = entries.into_iter().map(|(number, _)| number).collect();
            numbers.dedup();
            Some(numbers)
        }
        Err(error) => {
            tracing::debug!(%error, "the log of common files cannot be listed");
            None
        }
    }
}

/// Whether nothing stands behind an entry that the caller knows, by its number and random number, at a
/// moment of this call. It also says no when that cannot be told without a listing. `None` if the store
/// does not say. Two requests, one of which is a listing if the caller knows none.
pub(super) async fn is_newest<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    (known, nonce): (u64, Nonce),
) -> Option<bool> {
    if known == 0 {
        let listed = numbers(runtime, store).await?;
        // The listing may be behind.
        return match LOG.read(runtime, store, 1).await {
            Found::Absent => Some(listed.is_empty()),
            Found::Entry(..) => Some(false),
            Found::Foreign(_) | Found::Failed => None,
        };
    }
    match LOG.read(runtime, store, known + 1).await {
        Found::Absent => {}
        Found::Entry(..) => return Some(false),
        Found::Foreign(_) | Found::Failed => return None,
    }
    // The oldest go first. So while it is there nothing behind it was removed.
    match LOG.read(runtime, store, known).await {
        Found::Entry(header, _) => Some(header.nonce == nonce),
        Found::Absent => Some(false),
        Found::Foreign(_) | Found::Failed => None,
    }
}

/// The newest entry, and its random number; `Some(None)` if there is none, and `None` if that is not known
/// for now. See the module.
pub(super) async fn newest<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
) -> Option<Option<(CommonState, Nonce)>> {
    for _ in 0..ATTEMPTS {
        let listed = numbers(runtime, store).await?;
        let (mut last, mut found) = (0, None);
        // Of the highest one only the beginning may be there, and what was shown may be gone.
        for &number in listed.iter().rev().take(2) {
            if let Some(read) = read(runtime, store, number).await? {
                (last, found) = (number, Some(read));
                break;
            }
        }
        if found.is_none() && listed.len() > 1 {
            continue;
        }
        let begun = last;
        // A listing may be behind.
        if let (number, Some(read)) = last_behind(runtime, store, begun).await? {
            (last, found) = (number, Some(read));
        }
        let now = numbers(runtime, store).await?.last().copied().unwrap_or(0);
        if now > begun.saturating_add(KEPT_ENTRIES) {
            continue;
        }
        let Some((header, payload)) = found else { return Some(None) };
        return match CommonState::decode(last, &payload) {
            Ok(state) => Some(Some((state, header.nonce))),
            Err(error) => {
                tracing::error!(number = last, "an entry of common files cannot be used: {error}");
                None
            }
        };
    }
    None
}

/// The last entry behind a number, in steps that double and then halve, as long as there is no hole.
async fn last_behind<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    known: u64,
) -> Option<(u64, Option<(Header, Bytes)>)> {
    let (mut last, mut found) = (known, None);
    let (mut step, mut is_growing) = (1, true);
    loop {
        match read(runtime, store, last + step).await? {
            Some(entry) => {
                (last, found) = (last + step, Some(entry));
                step = if is_growing { step * 2 } else { (step / 2).max(1) };
            }
            None if step == 1 => return Some((last, found)),
            None => (step, is_growing) = (step / 2, false),
        }
    }
}

/// What stands at a number; `None` if nobody knows, or if no node of this program has written it.
async fn read<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    number: u64,
) -> Option<Option<(Header, Bytes)>> {
    match LOG.read(runtime, store, number).await {
        Found::Entry(header, payload) => Some(Some((header, payload))),
        Found::Absent => Some(None),
        Found::Foreign(_) => {
            tracing::error!(number, "an entry of common files is none of this program");
            None
        }
        Found::Failed => None,
    }
}

#[cfg(test)]
mod tests;
