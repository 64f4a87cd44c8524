//! The server over the drivers of the kernel, with clients that know nothing of its crates.
#![forbid(unsafe_code)]

mod attacks;
mod conformance;
mod lifecycle;
mod listings;
mod logs;
mod naive;
mod reload;
mod representations;
mod served;
mod sites;
mod status;
mod takeover;
