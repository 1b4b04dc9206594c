//! The whole store on the simulation, compared with a naive model: what is pushed,
//! sealed, merged, lost and brought back must give the answers that a list of the
//! acknowledged entries gives, to any query.

// Not all that the crash tests need is needed here.
#[allow(dead_code)]
#[path = "../crash/cluster.rs"]
mod cluster;
mod damage;
mod data;
mod deadlines;
mod faults;
mod life;
mod naive;
mod newest;
mod queries;
mod reuse;
mod times;
