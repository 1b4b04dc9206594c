//! Notifications on the simulation: Alertmanagers that are slow, dead, refuse, lie, or come and go.

mod bounds;
mod flow;
mod rig;
mod settings;
