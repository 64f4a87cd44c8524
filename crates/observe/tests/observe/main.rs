//! Samples of this host, parsers of what kernels show, and observers over loopback.

#![forbid(unsafe_code)]

mod kernels;
mod remote;
mod this_host;
