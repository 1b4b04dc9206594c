//! The times of the protocol. All are by the clock of whoever waits.

use std::time::Duration;

/// What a node waits for, and for how long.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How old the proof of ownership may be by which a query is answered.
    pub proof_max: Duration,
    /// How long an heir waits after its claim before it acts as the owner. It has to be so much
    /// longer than [`Settings::proof_max`] that no two clocks differ by more: with 1.25 times as
    /// long, rates may be wrong by a tenth each.
    pub lease: Duration,
    /// How long a member has to be missing in the hints before it is taken for dead. Membership has
    /// suspected it for seconds then.
    pub suspicion: Duration,
    /// How long proposals wait after the last change, times one more than the rank of the proposer.
    pub propose_pause: Duration,
    /// After which time, times one more than its rank, a member claims partitions of an ended owner
    /// that somebody else was to claim.
    pub orphan_patience: Duration,
    /// How often an idle node looks for a newer map.
    pub idle_poll: Duration,
    /// The same while something is under way.
    pub busy_poll: Duration,
    /// The first pause after a failure; it doubles.
    pub pause_min: Duration,
    /// The longest pause after a failure.
    pub pause_max: Duration,
    /// How many ended writers that nobody needs may be in the map before their logs are adopted.
    pub ended_kept: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            proof_max: Duration::from_secs(1),
            lease: Duration::from_millis(1_250),
            suspicion: Duration::from_secs(2),
            propose_pause: Duration::from_millis(500),
            orphan_patience: Duration::from_secs(20),
            idle_poll: Duration::from_secs(10),
            busy_poll: Duration::from_secs(1),
            pause_min: Duration::from_millis(100),
            pause_max: Duration::from_secs(5),
            ended_kept: 16,
        }
    }
}
