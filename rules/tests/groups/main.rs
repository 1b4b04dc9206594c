//! Groups that are evaluated on the simulation, with queries, Alertmanagers and receivers that are
//! played.

mod clocks;
mod life;
mod pitfalls;
mod restarts;
mod rig;
mod terms;
