//! The download server: objects over HTTP/1.x and HTTP/2, plain and over TLS.
//!
//! [`Server::start`] runs one loop per CPU, each with its own listeners, connections and caches, so
//! that loops share nothing but the kernel's port. Each module is a room, and uses only those below
//! it: `content` opens objects, `catalog` has sites and rules, `listing` makes pages of folders,
//! `http` answers requests, `shaping` limits rates and connections, `telemetry` accounts for
//! responses, and `server` runs the loops. ARCHITECTURE.md has the table.
//!
//! Lacking on purpose: arguments and configuration files, and protocols newer than HTTP/2.

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
pub use catalog::places::{ForwardedPlaces, ForwardedTarget};
pub use config::{
    AcmeChallenge, AcmeConfig, Bandwidth, CacheConfig, CertificateFiles, DeniedClients, DiskCacheConfig, EtagSource,
    Forwarding, Level, Limits, ListenAddr, ListingStyle, LogConfig, LogFormat, LogTarget, MountConfig, MountOrigin,
    Network, NetworkError, NetworkLists, OriginConfig, OriginProtocol, Period, RequestHeaders, RequestLimit,
    RequestRate, RequestRateError, Routing, Rule, S3Config, ServerConfig, SetCookie, Settings, SiteConfig,
    StatusConfig, Symlinks, TlsConfig, UnknownHost, VolumeConfig, without_user,
};
pub use content::tier::{CacheTier, PurgeAnswer, PurgeAnswered};
pub use content::tier_figures::{OriginFigures, OriginState, TierFigures, TierMount, VolumeFigures, VolumeState};
pub use http::challenges::ChallengeError;
pub use listing::OriginPages;
pub use server::listeners::{Group, Listeners};
pub use server::tls::ServerTls;
pub use server::tls_error::TlsError;
pub use server::{Control, LivenessCheck, RunError, Running, Server, StartError, loop_count};
pub use telemetry::counters::Totals;
pub use telemetry::log::ErrorLog;
pub use telemetry::registry::CertificateState;
pub use thalweg_tls::ClientCertificateMode;
pub use thalweg_wire::forwarded::ClientField;
