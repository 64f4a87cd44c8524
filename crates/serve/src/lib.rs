//! The download server: the files beneath a folder, over HTTP/1.x.
//!
//! [`Server::start`] runs one loop per core, each with its own listeners, connections and cache, so that cores share
//! nothing but the kernel's port. What a request means is decided in `respond`, what becomes of its connection in
//! `connection`, where files come from in `resolve`, `entity` and `cache`, to which `watch` tells what has changed; `service` ties them to
//! the reactor's loop. `books`, `log` and `metrics` say what was done.
//!
//! Lacking on purpose: arguments and configuration files, TLS, and protocols newer than HTTP/1.1.

#![forbid(unsafe_code)]

mod aside;
mod books;
mod cache;
mod calendar;
mod check;
mod cold;
mod config;
mod connection;
mod counters;
mod curfew;
mod entity;
mod head;
mod layout;
mod limit;
mod list;
mod listeners;
mod log;
mod material;
mod media;
mod metrics;
mod multipart;
mod orders;
mod presentation;
mod resolve;
mod respond;
mod server;
mod service;
#[cfg(test)]
mod simulated;
mod site;
mod warm;
mod watch;

pub use check::ConfigFault;
pub use config::{
    Bandwidth, CacheConfig, EtagSource, Level, Limits, ListenAddr, ListingStyle, LogConfig, LogFormat, LogTarget,
    MountConfig, Rule, ServerConfig, Settings, SiteConfig, StatusConfig, Symlinks, UnknownHost,
};
pub use counters::Totals;
pub use listeners::{Group, Listeners};
pub use log::ErrorLog;
pub use server::{Control, RunError, Running, Server, StartError, core_count};
