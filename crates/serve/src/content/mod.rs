//! Content: objects, and the origins that they come from.
//!
//! An [`Object`](object::Object) has metadata and a body. An [`Origin`](origin::Origin) opens
//! objects by name; `local` is the one that reads trees of files. The blocking pool does for
//! origins what may wait for a disk. Objects of other hosts come from the cache [`tier`].
//!
//! Lacking on purpose: requests, responses and connections.

pub(crate) mod blocking_pool;
pub(crate) mod body;
pub(crate) mod clock_cache;
pub(crate) mod forwarded;
pub(crate) mod held;
pub(crate) mod local;
pub(crate) mod media_type;
pub(crate) mod name;
pub(crate) mod object;
pub(crate) mod origin;
pub(crate) mod policy;
pub(crate) mod refusal;
pub(crate) mod relay;
pub(crate) mod tier;
pub(crate) mod tier_figures;
