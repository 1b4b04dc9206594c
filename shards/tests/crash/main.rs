//! The shards on the simulation, against disks that fail and nodes that die.

mod backup;
mod batches;
mod bucket;
mod bundles;
mod bytes;
// Not all that the manifest's tests need is needed here.
#[allow(dead_code)]
#[path = "../manifest/checkpoint.rs"]
mod checkpoint;
mod clock;
mod cluster;
mod common;
mod covered;
mod crafted;
mod crashes;
mod damage;
mod deleted;
mod directed;
mod forgotten;
mod heritage;
mod kept;
mod kept_rig;
mod ledger;
mod load;
mod lost;
mod members;
mod members_rig;
mod purge;
mod removal;
mod reshard;
mod stored_log;
mod upkeep;
