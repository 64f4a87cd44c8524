//! Fragments on disk: bounds, crashes, damage, and several volumes.

#![forbid(unsafe_code)]

mod bounds;
mod crash;
mod durability;
mod model;
mod set;
mod support;
