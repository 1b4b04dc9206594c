//! The keeper on the simulation, with shards that are played.

mod bounds;
mod disk;
mod kills;
mod life;
mod removal;
mod rig;
