//! Remote write on the simulation: receivers that misbehave, kills, disks that fail.

mod answers;
mod bounds;
mod disk;
mod kills;
mod receiver;
mod rig;
mod settings;
mod speed;
