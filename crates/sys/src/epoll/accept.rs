//! Accepting.

use std::io;

use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};

use super::{Epoll, Socket, State};
use crate::clock::Instant;
use crate::driver::Completion;
use crate::socket;
use crate::table::SocketId;

impl Epoll {
    /// Takes one connection out of a listener's queue.
    pub(super) fn accept(&mut self, listener: SocketId) -> Option<Completion> {
        if self.sockets.is_full() {
            // Only a connection that really waits is a reason to say that there is no room for it.
            let waits = socket::is_readable(&self.live(listener).fd);
            self.live_mut(listener).readable = waits;
            return waits.then(|| self.refuse_more(listener, Errno::MFILE.into()));
        }
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let accepted = accept_with(&self.live(listener).fd, flags);
        match accepted {
            Ok(fd) => {
                self.mark_readable(listener);
                self.now = Instant::now();
                match self.sockets.insert(Socket::new(fd, State::Connected)) {
                    Ok(socket) => {
                        self.unwatched.push(socket);
                        // The request is most often there already; looking now saves a wait.
                        self.mark_readable(socket);
                        Some(Completion::Accepted { listener, socket })
                    }
                    Err(_) => Some(self.refuse_more(listener, Errno::MFILE.into())),
                }
            }
            Err(Errno::AGAIN) => {
                self.live_mut(listener).readable = false;
                None
            }
            Err(errno @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)) => {
                Some(self.refuse_more(listener, errno.into()))
            }
            // Everything else is an error of the one connection that was to be accepted
            // (accept(2)), not of the listener.
            Err(_) => {
                self.mark_readable(listener);
                None
            }
        }
    }

    fn refuse_more(&mut self, listener: SocketId, error: io::Error) -> Completion {
        let socket = self.live_mut(listener);
        socket.paused = true;
        socket.readable = true;
        Completion::AcceptFailed { listener, error }
    }
}
