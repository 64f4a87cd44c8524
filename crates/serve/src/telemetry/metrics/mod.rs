//! What the server tells about itself: counters by loop and mount, and what can be seen in the stream of records.
//!
//! Loops count for themselves and publish once per wake-up; whoever wants to know adds up.

mod answer;
mod board;
mod days;
mod exposition;
mod hosts;
mod listener;
mod page;
mod popular;
mod register;
mod stream;
mod unique;

pub(crate) use board::{Board, Sources};
pub(crate) use hosts::KnownHosts;
pub(crate) use listener::StatusListener;
pub(crate) use register::{LoopFigures, MountCells, Observed, Tally};
