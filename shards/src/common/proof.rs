//! Whether the node keeps the common files at this very instant.

use std::time::Duration;

use logsvc_cluster::member::{Hold, Input};
use logsvc_runtime::{Monotonic, Runtime};

use crate::member::{KEEPER_PARTITION, MemberHandle};

/// How often it is looked for a proof, which takes a request to the bucket.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// Whether a node keeps the common files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keeping {
    /// It does, at this very instant.
    Yes,
    /// It does not, or not any more.
    No,
    /// The bucket has not said so in time.
    Unknown,
}

/// Waits for a proof that the node owns the keeper's partition since the map of a number.
pub(super) async fn prove<R: Runtime>(
    runtime: &R,
    member: &MemberHandle,
    since: u64,
    until: Monotonic,
) -> Keeping {
    let mut is_asked = false;
    while runtime.now() < until {
        match member.holds(KEEPER_PARTITION, runtime.now()) {
            Hold::Yes(now_since) if now_since == since => return Keeping::Yes,
            Hold::Unproven(now_since) if now_since == since => {
                if !std::mem::replace(&mut is_asked, true) {
                    member.tell(Input::ProofWanted);
                }
                runtime.sleep_until(runtime.now().after(LOOK_INTERVAL)).await;
            }
            _ => return Keeping::No,
        }
    }
    Keeping::Unknown
}
