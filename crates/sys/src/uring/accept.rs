//! Accepting: one multishot operation per listener, and a place for connections that find the table
//! full.

use std::mem;

use io_uring::{cqueue, opcode};
use rustix::io::Errno;

use super::ring::{Uring, owned};
use super::socket::{Maker, Operation, Socket, State};
use crate::driver::Completion;
use crate::table::SocketId;

impl Uring {
    pub(super) fn arm_accept(&mut self, id: SocketId) {
        let socket = self.live_mut(id);
        if socket.armed || socket.paused {
            return;
        }
        socket.armed = true;
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        let entry = opcode::AcceptMulti::new(socket.raw()).flags(flags).build();
        self.submit(id, Operation::Accept, entry);
    }

    pub(super) fn on_accept(&mut self, listener: SocketId, entry: &cqueue::Entry) -> Option<Completion> {
        if entry.result() >= 0 {
            self.parked.push_back((listener, owned(entry.result())));
            let completion = self.unpark(listener);
            self.arm_accept(listener);
            return completion;
        }
        match Errno::from_raw_os_error(-entry.result()) {
            errno @ (Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                self.live_mut(listener).paused = true;
                Some(Completion::AcceptFailed { listener, error: errno.into() })
            }
            // Everything else is an error of the one connection that was to be accepted
            // (accept(2)), or our own cancel.
            _ => {
                self.arm_accept(listener);
                None
            }
        }
    }

    /// Gives the oldest parked connection its place in the table.
    pub(super) fn unpark(&mut self, listener: SocketId) -> Option<Completion> {
        let at = self.parked.iter().position(|(of, _)| *of == listener)?;
        let (_, fd) = self.parked.remove(at)?;
        let mut accepted = Socket::new(fd, State::Connected);
        accepted.new = Some(Maker::Peer);
        match self.sockets.insert(accepted) {
            Ok(socket) => {
                self.arm_receive(socket);
                Some(Completion::Accepted { listener, socket })
            }
            Err(entry) => {
                self.parked.insert(at, (listener, entry.fd));
                let first = !mem::replace(&mut self.live_mut(listener).paused, true);
                if first {
                    self.cancel(listener, Operation::Accept);
                }
                first.then(|| Completion::AcceptFailed { listener, error: Errno::MFILE.into() })
            }
        }
    }
}
