//! The whole store on the simulation, compared with a naive model. Entries are pushed, sealed,
//! merged, lost and brought back; the answer to any query must be the one that a list of the
//! acknowledged entries gives.

// Not all that the other tests need is needed here.
#[allow(dead_code)]
#[path = "../manifest/checkpoint.rs"]
mod checkpoint;
#[allow(dead_code)]
#[path = "../crash/cluster.rs"]
mod cluster;
mod damage;
mod data;
mod deadlines;
mod deletions;
mod evicted;
mod faults;
mod fields;
mod footers;
mod life;
mod naive;
mod newest;
mod queries;
#[path = "../crash/removal.rs"]
mod removal;
mod removed;
mod reuse;
mod times;
mod totals;
