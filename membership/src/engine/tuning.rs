//! How the gossip engine is set.

use std::num::{NonZeroU8, NonZeroUsize};
use std::time::Duration;

use foca::PeriodicParams;

use crate::settings::Settings;
use crate::wire::envelope::gossip_max_bytes;

/// How many members are asked to try when one does not answer.
const INDIRECT_PROBES: usize = 3;
/// How often a node passes a piece of news on.
const TRANSMISSIONS: u8 = 10;
/// How long the dead are spoken to, so that both sides of a cut find together again. Later the join
/// addresses do that.
const DEAD_KEPT: Duration = Duration::from_secs(60 * 60);
/// How often they are spoken to, and to how many at a time.
const SPEAK_TO_DEAD_EVERY: Duration = Duration::from_secs(5);
const SPEAK_TO_DEAD_COUNT: usize = 2;

/// The settings of the gossip engine.
pub(super) fn tuning(settings: &Settings) -> foca::Config {
    let count = |count: usize| NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
    let every =
        |frequency, members| Some(PeriodicParams { frequency, num_members: count(members) });
    foca::Config {
        probe_period: settings.probes.probe_interval,
        probe_rtt: settings.probes.probe_timeout,
        num_indirect_probes: count(INDIRECT_PROBES),
        max_transmissions: NonZeroU8::new(TRANSMISSIONS).unwrap_or(NonZeroU8::MIN),
        suspect_to_down_after: settings.probes.suspicion_timeout,
        remove_down_after: Some(DEAD_KEPT.max(settings.forget_after() * 2)),
        max_packet_size: count(gossip_max_bytes(&settings.cluster_label)),
        notify_down_members: true,
        periodic_announce: None,
        periodic_announce_to_down_members: every(SPEAK_TO_DEAD_EVERY, SPEAK_TO_DEAD_COUNT),
        periodic_gossip: every(settings.gossip_interval, settings.gossip_nodes),
    }
}
