//! The drivers, the loop over them, and the simulation.

#![forbid(unsafe_code)]

mod contract;
mod simulation;
