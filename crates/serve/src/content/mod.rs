//! Content: objects, where they come from, and what their bodies are.
//!
//! An [`Object`](object::Object) has metadata and a body. `local` is the origin that reads them from trees of files; the blocking pool does for it
//! what may wait for a disk. Lacking on purpose: requests, responses and connections.

pub(crate) mod blocking_pool;
pub(crate) mod body;
pub(crate) mod local;
pub(crate) mod media_type;
pub(crate) mod name;
pub(crate) mod object;
pub(crate) mod origin;
pub(crate) mod policy;
pub(crate) mod refusal;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "no configuration names a remote origin yet; simulated ones use it all")
)]
pub(crate) mod remote;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "no configuration names a remote origin yet; simulated ones use it all")
)]
pub(crate) mod stream;
