//! Nodes of a simulated world find each other, notice who dies, and agree again after whatever
//! happens.

mod cuts;
mod encrypted;
mod hostile;
mod joining;
mod leaving;
mod lives;
mod nodes;
mod world;
