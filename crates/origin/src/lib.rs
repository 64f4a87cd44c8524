//! Fetching from origins: HTTP servers over HTTP/1.1 and HTTP/2, with TLS or without, buckets of S3
//! servers, and local trees on slow file systems.
//!
//! An [`OriginGroup`] has one or several origins with the same content. It chooses one for a
//! [`Request`], keeps connections, waits within limits, tries again what may be tried again, skips
//! an origin that fails, and gives a [`Response`] whose [`Body`] arrives piece by piece. All is
//! bounded: connections, requests at once and those that wait, heads, listings, and every wait.
//!
//! Deliberately not here: caching, the store, reading configurations, printing, and going on with a
//! body that was cut off, which needs its validators: a [`BodyError`] says how far it came.
//!
//! | module | owns |
//! | --- | --- |
//! | `config`, `credentials` | settings, as plain values |
//! | `message`, `response`, `body`, `listing`, `failure` | requests, answers, and why there is none |
//! | `path`, `fields` | the paths and fields that go to an origin and come back |
//! | `reach` | the addresses that an origin may have |
//! | `network` | resolving, connecting, TLS |
//! | `connection`, `pool`, `exchange` | HTTP on a connection, all of them, one attempt |
//! | `remote`, `s3`, `tree`, `refusals` | the kinds of origins |
//! | `admission`, `health`, `standing` | limits, passive health and counters of one origin |
//! | `origin`, `selection`, `retry`, `group` | several origins as one |
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use thalweg_origin::{GroupConfig, OriginConfig, OriginGroup, OriginKind, Request};
//!
//! let kind = OriginKind::Http { base: "https://origin.example/pub/".parse()? };
//! let group = OriginGroup::new(vec![OriginConfig::new("origin", kind)], GroupConfig::default())?;
//! let mut response = group.fetch(&Request::get("/a.iso").with("Range", "bytes=0-1048575")).await?;
//! while let Some(piece) = response.body.next().await {
//!     println!("{} bytes", piece?.len());
//! }
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod admission;
mod body;
mod config;
mod connection;
mod credentials;
mod exchange;
mod failure;
mod fields;
mod group;
mod health;
mod listing;
mod message;
mod network;
mod origin;
mod path;
mod pool;
mod reach;
mod refusals;
mod remote;
mod response;
mod retry;
mod s3;
mod selection;
mod standing;
#[cfg(test)]
mod tests;
mod tree;

pub use body::{Body, BodyError};
pub use config::{
    ConfigError, GroupConfig, HealthRules, Limits, Order, OriginConfig, OriginKind, Protocol, S3Config, Times, Trust,
};
pub use credentials::{Credentials, KeyProvider, Keys};
pub use failure::{Attempt, Failure, FailureKind, FetchError, Phase};
pub use fields::FieldLine;
pub use group::OriginGroup;
pub use health::Health;
pub use hyper::Method;
pub use listing::{Entry, Listing};
pub use message::{AttemptPolicy, Request};
pub use network::{Service, look_up_service};
pub use reach::{Prefix, Reach};
pub use response::{Note, Response, S3Problem, is_failure};
pub use s3::page_entries;
pub use standing::OriginStatistics;
