//! The manifest on the simulation, against disks that fail and nodes that die.

mod checkpoint;
mod crashes;
mod damage;
mod directed;
mod footers;
mod left;
mod store;
mod versions;
