//! Tests of the whole crate: against scripted servers in memory, whose clock is virtual, and
//! against servers on 127.0.0.1 for what needs sockets.

mod bodies;
mod buckets;
mod failover;
mod folders;
mod http2;
mod limits;
mod reuse;
mod server;
mod times;
mod tls;
