//! Whole segments: what was written is what is read.

mod copy;
mod damage;
mod model;
mod refusals;
mod round_trip;
