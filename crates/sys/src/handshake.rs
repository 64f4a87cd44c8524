//! Handshakes: connections that carry nothing, opened to learn how long the path takes.
//!
//! The kernel of the server answers a SYN by itself. So the time from SYN to SYN-ACK is that of the
//! path, whatever the server's program does meanwhile.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, socket_error};
use socket2::{Domain, Socket, Type};

use crate::socket::handshake_ns;

/// A handshake under way.
#[derive(Debug)]
pub struct Handshake {
    socket: OwnedFd,
}

/// The state of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeState {
    /// No answer has come.
    Pending,
    /// The SYN-ACK came after so many nanoseconds.
    Answered(u64),
    /// It came only after the SYN had been sent again, so that its time is unknown.
    Retransmitted,
    /// The target has refused it, or this host could not make it.
    Failed,
}

impl Handshake {
    /// Sends a SYN to `peer`, from the local address `source` if there is one.
    ///
    /// # Errors
    /// This host has no descriptor, no port or no route for it.
    pub fn begin(peer: SocketAddr, source: Option<IpAddr>) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(peer), Type::STREAM.cloexec().nonblocking(), None)?;
        // It is closed by a reset: hundreds of them would otherwise keep a local port for a minute
        // each, which the load may need.
        set_socket_linger(&socket, Some(Duration::ZERO))?;
        if let Some(source) = source {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        match socket.connect(&peer.into()) {
            Err(error) if Errno::from_io_error(&error) != Some(Errno::INPROGRESS) => Err(error),
            _ => Ok(Self { socket: socket.into() }),
        }
    }

    /// Its state now.
    pub fn state(&self) -> HandshakeState {
        let mut ready = [PollFd::new(&self.socket, PollFlags::OUT)];
        match poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(0) | Err(_) => HandshakeState::Pending,
            Ok(_) => match (socket_error(&self.socket), handshake_ns(&self.socket)) {
                (Ok(Ok(())), Some(ns)) => HandshakeState::Answered(ns),
                (Ok(Ok(())), None) => HandshakeState::Retransmitted,
                _ => HandshakeState::Failed,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread::sleep;
    use std::time::Instant;

    /// No handshake over loopback takes that long.
    const PATIENCE: Duration = Duration::from_secs(60);

    fn settled(peer: SocketAddr) -> HandshakeState {
        let handshake = Handshake::begin(peer, Some(Ipv4Addr::LOCALHOST.into())).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            match handshake.state() {
                HandshakeState::Pending => sleep(Duration::from_millis(2)),
                state => return state,
            }
        }
        HandshakeState::Pending
    }

    #[test]
    fn a_handshake_takes_the_time_of_the_path() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = listener.local_addr().unwrap();
        let begun = Instant::now();
        let state = settled(peer);
        let most = begun.elapsed().as_nanos() as u64;
        assert!(matches!(state, HandshakeState::Answered(ns) if (1..=most).contains(&ns)), "{most} ns went by");
        drop(listener);
        assert_eq!(settled(peer), HandshakeState::Failed);
    }
}
