//! Tests of whole segments: written entries read back, and damage is found.

mod copy;
mod damage;
mod label_damage;
mod labels;
mod model;
mod refusals;
mod round_trip;
