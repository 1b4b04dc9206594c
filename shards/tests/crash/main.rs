//! The shards on the simulation, against disks that fail and nodes that die.

mod backup;
mod batches;
mod bytes;
mod clock;
mod cluster;
mod covered;
mod crafted;
mod crashes;
mod damage;
mod deleted;
mod directed;
mod ledger;
mod load;
mod lost;
mod purge;
mod removal;
mod reshard;
mod upkeep;
