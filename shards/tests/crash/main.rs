//! The shards on the simulation, against disks that fail and nodes that die.

mod batches;
mod clock;
mod cluster;
mod covered;
mod crafted;
mod crashes;
mod damage;
mod directed;
mod ledger;
mod load;
mod lost;
mod reshard;
mod upkeep;
