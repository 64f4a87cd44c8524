//! Properties that must hold for any bytes, one function per fuzz target; a violation is a panic.
//!
//! The functions know nothing of the fuzzer, so the corpus is replayed through them on stable Rust
//! (`tests/replay.rs`). Inputs are text where the format allows: their first line says how to cut
//! the rest, so that a corpus file can be read, and written, by hand. A new target is a function
//! here, a line in [`TARGETS`], a binary in `fuzz_targets/`, and a folder in `corpus/`.
#![forbid(unsafe_code)]

mod caching;
mod conditions;
mod h2;
mod inputs;
mod lines;
mod listing;
mod messages;
mod paths;
mod proxies;
mod tls;
#[path = "../../crates/wire/tests/wire/transcript.rs"]
mod transcript;
mod wishes;

pub use caching::cache_control;
pub use conditions::conditions;
pub use h2::{h2, hpack};
pub use inputs::{log, sessions};
pub use listing::listing;
pub use messages::{chunked, request_reader, response_reader};
pub use paths::target;
pub use proxies::{forwarded, proxy_header};
pub use tls::tls;
pub use wishes::{checksums, wishes};

/// Checks one input; panics if something does not hold.
pub type Check = fn(&[u8]);

/// All targets by the name of their corpus folder and binary.
pub const TARGETS: [(&str, Check); 16] = [
    ("request_reader", request_reader),
    ("response_reader", response_reader),
    ("chunked", chunked),
    ("target", target),
    ("conditions", conditions),
    ("sessions", sessions),
    ("log", log),
    ("wishes", wishes),
    ("checksums", checksums),
    ("h2", h2),
    ("hpack", hpack),
    ("tls", tls),
    ("cache_control", cache_control),
    ("listing", listing),
    ("proxy_header", proxy_header),
    ("forwarded", forwarded),
];
