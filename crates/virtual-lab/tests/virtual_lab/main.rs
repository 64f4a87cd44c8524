//! The procedures of the lab in virtual time, against yardsticks: whole searches, comparisons and
//! sweeps, each the same at every run.

#![forbid(unsafe_code)]

mod bottleneck;
mod collapse;
mod disturbance;
mod find;
mod interruption;
mod protocols;
mod restarts;
mod sides;
mod stage;
mod stream;
