//! Finds out whether a store keeps creates apart.
//!
//! All that is exclusive hangs on one thing: of two creates of one name, one fails. Stores have
//! ignored the condition, in some buckets or at some times, and some look at it before they take the
//! body. So a start lets creates race in the very bucket and prefix.
//!
//! A round is a race for one name. A store that looks too early passes a round by luck, if its first
//! create ends before it looks at the second one. Rounds therefore run side by side: a store that is
//! busy with other names takes longer between the look and the end. A second bout of rounds finds the
//! connections open, so that its requests leave at once.
//!
//! Guarantees:
//! - A store that keeps creates apart passes, however slow it is, and whatever answers are lost.
//! - All creates of a bout are sent before any answer is looked at, as far as connections are open.
//! - The names are removed, also after a lie.
//!
//! What can go wrong: luck in all rounds, which becomes the less likely the more creates look too
//! early. A store that passes may also fail later; logs notice that ([`crate::log::LogError::Forked`]).
//! A request that was given up may create its name after the removal.

use bytes::Bytes;
use futures_util::future::join_all;
use logsvc_runtime::{Monotonic, Runtime};

use crate::bucket::BucketError;
use crate::name::ObjectName;
use crate::object::{Header, Nonce, PROOF};
use crate::store::{Created, Store, StoreError};

/// The payload is empty.
const KIND_TEST: u32 = 4;
/// Bouts, one after the other.
const BOUTS: usize = 2;
/// Rounds of a bout, side by side.
const ROUNDS: usize = 8;
/// Creates that race in a round. With those of all rounds of a bout there are as many as connections
/// that the server keeps open.
const RACERS: usize = 8;

/// The finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Honesty {
    /// In each round one create has won, and all others know it.
    Honest,
    /// In a round so many creates believe that they have won; or a later one has replaced the
    /// winner's object.
    Lies {
        /// How many, in the round with the most of them.
        winners: usize,
    },
}

/// Lets creates race for names that nobody else uses. Ends after the first bout that shows a lie.
///
/// # Errors
/// The store refuses, or the deadline has passed.
pub async fn self_test<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    until: Monotonic,
) -> Result<Honesty, StoreError> {
    for _ in 0..BOUTS {
        let found = bout(runtime, store, until).await?;
        if found != Honesty::Honest {
            return Ok(found);
        }
    }
    Ok(Honesty::Honest)
}

async fn bout<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    until: Monotonic,
) -> Result<Honesty, StoreError> {
    let names = (0..ROUNDS).map(|_| fresh(runtime)).collect::<Result<Vec<_>, _>>()?;
    let rounds = join_all(names.iter().map(|name| round(runtime, store, name, until))).await;
    let removals = join_all(names.iter().map(|name| store.remove(name, until))).await;
    let most = rounds.iter().filter_map(|found| match found {
        Ok(Honesty::Lies { winners }) => Some(*winners),
        _ => None,
    });
    if let Some(winners) = most.max() {
        // That counts more than what has failed beside it.
        return Ok(Honesty::Lies { winners });
    }
    rounds.into_iter().collect::<Result<Vec<_>, _>>()?;
    removals.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(Honesty::Honest)
}

fn fresh<R: Runtime>(runtime: &R) -> Result<ObjectName, StoreError> {
    let (now_ns, chance) = (runtime.unix_nanos(), runtime.random_u64());
    let name = format!("self-test/{now_ns:020}-{chance:016x}");
    ObjectName::new(&name).map_err(|error| StoreError::Failed {
        bucket: String::new(),
        name,
        error: BucketError::failed(error),
    })
}

/// Lets creates race for a name.
async fn round<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    name: &ObjectName,
    until: Monotonic,
) -> Result<Honesty, StoreError> {
    let race = || async {
        let nonce = Nonce::random(runtime);
        let object = Header { kind: KIND_TEST, nonce, previous: Nonce::NONE }.encode(&[]);
        let created = store.create(name, object, PROOF, until).await?;
        Ok::<_, StoreError>((Bytes::copy_from_slice(&nonce.0), created))
    };
    let mut results = Vec::new();
    for result in join_all((0..RACERS).map(|_| race())).await {
        results.push(result?);
    }
    // And one that comes late.
    results.push(race().await?);
    // Nobody has a name whose object is torn.
    let is_torn = results.iter().any(|(_, created)| *created == Created::Torn);
    let winners: Vec<&Bytes> =
        results.iter().filter(|(_, created)| created.is_own()).map(|(own, _)| own).collect();
    let agree = results.iter().all(|(_, created)| match created {
        Created::New | Created::Retried | Created::Torn => true,
        Created::Existing(found) => is_torn || winners.contains(&found),
    });
    if winners.len() == usize::from(!is_torn) && agree {
        Ok(Honesty::Honest)
    } else {
        Ok(Honesty::Lies { winners: winners.len() })
    }
}
