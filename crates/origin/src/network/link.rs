//! A connection before a protocol is spoken on it, and the interface of those that make one.

use std::net::SocketAddr;
use std::pin::Pin;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::failure::Failure;

/// The bytes of a connection.
pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// The protocol that both sides speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spoken {
    Http1,
    Http2,
}

/// An established connection.
pub(crate) struct Link {
    pub(crate) io: Box<dyn Io>,
    pub(crate) spoken: Spoken,
    pub(crate) address: Option<SocketAddr>,
}

/// A connection that is being established.
pub(crate) type Connecting<'a> = Pin<Box<dyn Future<Output = Result<Link, Failure>> + Send + 'a>>;

/// Makes connections to one server. Tests have one in memory.
pub(crate) trait Connect: Send + Sync {
    /// Establishes a connection within the time limit.
    fn connect(&self) -> Connecting<'_>;

    /// Whether a connection may turn out to carry several requests at once.
    fn may_multiplex(&self) -> bool;
}
