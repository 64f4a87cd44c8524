//! The cache tier of the server: one request in, one answer out, for the whole process.
//!
//! The tier has threads of its own. Loops of the server [ask](Tier::ask) it and are called back;
//! nothing in it waits on their threads. It decides by RFC 9111 what a request gets from the store
//! and what from the origin, fetches each fragment once for any number of readers, which proceed
//! each at its own pace, validates, invalidates and purges.
//!
//! Deliberately not here: the loops, heads and framing of responses to clients, conditions and
//! ranges of clients (a loop has the same rules for objects of all origins), connections to origins
//! and configuration files.
//!
//! | module | owns |
//! | --- | --- |
//! | `ask`, `answer`, `wake` | what loops and the tier tell each other |
//! | `environment` | the clock and the log, which come from outside |
//! | `upstream`, `mount` | origins as the tier sees them, and the places that they answer for |
//! | `mounted` | mounts with their counts |
//! | `origins`, `folders` | groups of origins as one upstream; folders of trees and buckets |
//! | `following` | redirects of HTTP origins, and addresses in their responses |
//! | `peer`, `proof`, `cluster` | servers that share the fetching from an origin |
//! | `tier`, `shared`, `counters` | the threads, and what their tasks share |
//! | `exchange`, `fetching`, `storing` | one request: what is stored, asked and kept |
//! | `consistent`, `validating` | objects that are validated together |
//! | `entries`, `collapsing` | objects that requests are busy with, and the fetches that they share |
//! | `head`, `store` | stored responses, and the store that has them |
//! | `purge`, `purging` | purges by an operator, and what they mean for fetches under way |
//! | `activity`, `fragmented`, `fill`, `reader` | objects in fragments: fetching them, and reading behind |
//! | `excerpt` | ranges that are no whole fragments |
//! | `relay` | content that goes through |
#![forbid(unsafe_code)]

mod activity;
mod answer;
mod ask;
mod cluster;
mod collapsing;
mod consistent;
mod counters;
mod entries;
mod environment;
mod excerpt;
mod exchange;
mod fetching;
mod fill;
mod folders;
mod following;
mod fragmented;
mod head;
mod inventory;
mod mount;
mod mounted;
mod origins;
mod peer;
mod proof;
mod purge;
mod purging;
mod reader;
mod relay;
mod shared;
mod store;
mod storing;
mod tier;
mod upstream;
mod validating;
mod wake;

pub use answer::{Answer, BodyPiece, Content, Failure, Fragments, Object, Reader, Relay, Response};
pub use ask::{Answered, Ask};
pub use cluster::{Cluster, ClusterConfig, PART_BYTES, PEER_FIELD};
pub use consistent::ConsistentRule;
pub use counters::Counts;
pub use environment::{Clock, Log};
pub use folders::{FolderBody, FolderPage, FolderPages, FolderPieces, FolderView, IncompleteListing, ListedFolder};
pub use following::{HttpOrigin, Redirects};
pub use inventory::{Inventory, StoredObject, Wanted, inventory};
pub use mount::{Mount, RequestFields};
pub use origins::Origins;
pub use peer::Peer;
pub use purge::{Purge, PurgeKind};
pub use thalweg_cache::Key;
pub use thalweg_caching::{OriginPlace, RedirectHost};
pub use thalweg_origin::{Entry as FolderEntry, Listing as FolderListing};
pub use tier::{Tier, TierConfig};
pub use tokio::runtime::Handle as RuntimeHandle;
pub use upstream::{BoxFuture, Upstream, UpstreamContent, UpstreamFailure, UpstreamRequest, UpstreamResponse};
pub use wake::Wake;
