//! The tier in front of origins in memory.

#![forbid(unsafe_code)]

mod answers;
mod clusters;
mod purges;
mod support;
