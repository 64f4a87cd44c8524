//! The tier in front of origins in memory.

#![forbid(unsafe_code)]

mod amplification;
mod answers;
mod clusters;
mod collapsing;
mod hanging;
mod mirrors;
mod purges;
mod redirects;
mod support;
