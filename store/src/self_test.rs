//! Finds out whether a store keeps creates apart.
//!
//! All that is exclusive hangs on one thing: of two creates of one name, one fails. Stores have
//! ignored the condition, in some buckets or at some times. So a start lets creates race in the very
//! bucket and prefix. A store that passes may still fail later; logs notice that
//! ([`crate::log::LogError::Forked`]).

use bytes::Bytes;
use futures_util::future::join_all;
use logsvc_runtime::{Monotonic, Runtime};

use crate::bucket::BucketError;
use crate::name::ObjectName;
use crate::object::{Header, Nonce, PROOF};
use crate::store::{Created, Store, StoreError};

/// The payload is empty.
const KIND_TEST: u32 = 4;
/// Creates that race.
const RACERS: usize = 32;

/// The finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Honesty {
    /// One create has won, and all others know it.
    Honest,
    /// So many creates believe that they have won; or a later one has replaced the winner's object.
    Lies {
        /// How many.
        winners: usize,
    },
}

/// Lets creates race for a name that nobody else uses.
///
/// # Errors
/// The store refuses, or the deadline has passed.
pub async fn self_test<R: Runtime>(
    runtime: &R,
    store: &Store<R>,
    until: Monotonic,
) -> Result<Honesty, StoreError> {
    let (now_ns, chance) = (runtime.unix_nanos(), runtime.random_u64());
    let name = format!("self-test/{now_ns:020}-{chance:016x}");
    let name = ObjectName::new(&name).map_err(|error| StoreError::Failed {
        bucket: String::new(),
        name,
        error: BucketError::failed(error),
    })?;
    let race = || async {
        let nonce = Nonce::random(runtime);
        let object = Header { kind: KIND_TEST, nonce, previous: Nonce::NONE }.encode(&[]);
        let created = store.create(&name, object, PROOF, until).await?;
        Ok::<_, StoreError>((Bytes::copy_from_slice(&nonce.0), created))
    };
    let mut results = Vec::new();
    for result in join_all((0..RACERS).map(|_| race())).await {
        results.push(result?);
    }
    // And one that comes late.
    results.push(race().await?);
    let winners: Vec<&Bytes> = results
        .iter()
        .filter(|(_, created)| *created == Created::New)
        .map(|(own, _)| own)
        .collect();
    let agree = results.iter().all(|(_, created)| match created {
        Created::New => true,
        Created::Existing(found) => winners.contains(&found),
    });
    store.remove(&name, until).await?;
    if winners.len() == 1 && agree {
        Ok(Honesty::Honest)
    } else {
        Ok(Honesty::Lies { winners: winners.len() })
    }
}
