//! Nodes of a simulated world find each other, notice who dies, and agree again after whatever
//! happens.

#[path = "../certified/mod.rs"]
mod certified;
mod cuts;
mod encrypted;
mod etcd;
mod hostile;
mod joining;
mod leaving;
mod lives;
mod nodes;
mod world;
