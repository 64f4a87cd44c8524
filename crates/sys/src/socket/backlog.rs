//! The queue of a listener, TCP or Unix.

/// Connections that may wait to be accepted. The kernel lowers it to `net.core.somaxconn`.
pub(super) const BACKLOG: i32 = 4096;
