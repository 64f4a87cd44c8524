//! The download server: the files beneath a folder, over HTTP/1.x.
//!
//! [`Server::start`] runs one loop per CPU, each with its own listeners, connections and cache, so that loops share
//! nothing but the kernel's port. What a request means is decided in `respond`, what becomes of its connection in
//! `connection`, where files come from in `resolve`, `entity` and `cache`, to which `watch` tells what has changed; `service` ties them to
//! the reactor's loop. `books`, `log` and `metrics` say what was done.
//!
//! Lacking on purpose: arguments and configuration files, TLS, and protocols newer than HTTP/1.1.

#![forbid(unsafe_code)]

mod catalog;
mod config;
mod content;
mod date_cache;
mod http;
mod listing;
mod server;
mod session;
mod shaping;
#[cfg(test)]
mod simulated;
mod telemetry;
mod transport;
mod work_budget;

pub use catalog::check::ConfigFault;
pub use catalog::error::CatalogError;
pub use config::{
    Bandwidth, CacheConfig, EtagSource, Level, Limits, ListenAddr, ListingStyle, LogConfig, LogFormat, LogTarget,
    MountConfig, Rule, ServerConfig, Settings, SiteConfig, StatusConfig, Symlinks, UnknownHost,
};
pub use server::listeners::{Group, Listeners};
pub use server::{Control, LivenessCheck, RunError, Running, Server, StartError, loop_count};
pub use telemetry::counters::Totals;
pub use telemetry::log::ErrorLog;
