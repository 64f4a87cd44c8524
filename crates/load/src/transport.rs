//! Transports: how a connection's bytes travel between the protocol and the driver.
//!
//! The only one is plain TCP or a Unix socket, which passes bytes through. One with a handshake is
//! ready when that has ended, and opens what was received into bytes of the protocol.

use std::io;

use thalweg_measure::Outcome;
use thalweg_sys::{Connect, Driver, SendBuf, SocketId};

/// A connection's transport.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Transport {
    /// Bytes as they are.
    Plain,
}

impl Transport {
    /// Starts to connect.
    ///
    /// # Errors
    /// Only what prevents the attempt.
    pub(crate) fn connect<D: Driver>(driver: &mut D, to: &Connect) -> io::Result<SocketId> {
        driver.connect(to)
    }

    /// Goes on with the transport's own exchange, after the socket has connected or received.
    /// Returns whether the protocol may send.
    ///
    /// # Errors
    /// The transport cannot be established.
    #[inline]
    pub(crate) fn establish<D: Driver>(&mut self, _driver: &mut D, _id: SocketId) -> Result<bool, Outcome> {
        match self {
            Self::Plain => Ok(true),
        }
    }

    /// Sends bytes of the protocol.
    #[inline]
    pub(crate) fn send<D: Driver>(&mut self, driver: &mut D, id: SocketId, bytes: SendBuf) {
        match self {
            Self::Plain => driver.send(id, bytes),
        }
    }

    /// Lets a socket that receives on demand receive.
    #[inline]
    pub(crate) fn receive<D: Driver>(&mut self, driver: &mut D, id: SocketId, bytes_max: u32) {
        match self {
            Self::Plain => driver.receive(id, bytes_max),
        }
    }

    /// Opens received bytes. `None`: they are the protocol's as they are.
    ///
    /// # Errors
    /// They are not what the transport should carry.
    #[inline]
    pub(crate) fn open(&mut self, _received: &[u8]) -> Result<Option<Vec<u8>>, Outcome> {
        match self {
            Self::Plain => Ok(None),
        }
    }
}
