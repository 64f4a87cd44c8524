//! Sending: bytes by an operation of the ring, files by calls from the loop.

use std::{io, mem};

use io_uring::opcode;
use rustix::io::Errno;

use super::files::Files;
use super::ring::Uring;
use super::socket::{Operation, Outgoing, Socket, State};
use crate::driver::Completion;
use crate::socket::{self as sockets, Sending, Step};
use crate::table::SocketId;

impl Uring {
    pub(super) fn start_send(&mut self, id: SocketId, sending: Sending) -> bool {
        let socket = self.live_mut(id);
        assert!(!socket.is_sending(), "one send at a time");
        assert!(socket.state == State::Connected, "sends start once connected");
        if socket.failed || socket.broken.is_some() {
            return false;
        }
        socket.nagle.before(&socket.fd, &sending);
        socket.outgoing = Outgoing::Send(sending);
        true
    }

    /// Hands what is left of the head to the kernel, which goes on by itself until it is through.
    pub(super) fn submit_send(&mut self, id: SocketId) {
        let socket = self.sockets.entry_mut(id).expect("the socket is open");
        if mem::replace(&mut socket.has_sent, true) && !socket.in_files {
            socket.in_files = self.files.put(&self.ring.submitter(), id, &socket.fd);
        }
        let sending = socket.sending().expect("a send is under way");
        let more = if sending.goes_with_more() { libc::MSG_MORE } else { 0 };
        let left = sending.head_left();
        let (start, len) = (left.as_ptr(), left.len().min(1 << 30) as u32);
        let entry = if socket.in_files {
            opcode::Send::new(Files::place(id), start, len)
        } else {
            opcode::Send::new(socket.raw(), start, len)
        };
        let entry = entry.flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL | more).build();
        socket.in_flight += 1;
        self.push(entry.user_data(Operation::Send.token(id)));
        self.unsent.push(id);
    }

    /// Goes on with a send that includes a file. There is no operation of the ring for it, so the
    /// calls are made here, and the ring waits for room.
    pub(super) fn push_file(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.entry_mut(id) else { return };
        if socket.state == State::Closing {
            return;
        }
        let Outgoing::Send(sending) = &mut socket.outgoing else { return };
        match sending.step(&socket.fd) {
            Ok(Step::Done) => {
                on_sent(socket);
                self.done.push_back(Completion::Sent { socket: id });
            }
            Ok(Step::More) => self.served.push(id),
            Ok(Step::Full) => {
                let entry = opcode::PollAdd::new(socket.raw(), libc::POLLOUT as u32).build();
                self.submit(id, Operation::PollOut, entry);
            }
            Err(error) => self.on_send_error(id, error),
        }
    }

    pub(super) fn on_send(&mut self, id: SocketId, result: i32) -> Option<Completion> {
        let socket = self.live_mut(id);
        let sending = socket.sending().expect("a send is under way");
        match usize::try_from(result) {
            Ok(sent) => {
                sending.advance_head(sent);
                if sending.head_left().is_empty() {
                    on_sent(socket);
                    return Some(Completion::Sent { socket: id });
                }
                self.submit_send(id);
            }
            Err(_) => match Errno::from_raw_os_error(-result) {
                Errno::INTR | Errno::AGAIN => self.submit_send(id),
                errno => self.on_send_error(id, errno.into()),
            },
        }
        None
    }

    /// A send has failed. What the peer sent before it broke the connection is delivered first, by
    /// the receive that is armed.
    pub(super) fn on_send_error(&mut self, id: SocketId, error: io::Error) {
        let socket = self.live_mut(id);
        socket.outgoing = Outgoing::Nothing;
        // An error without a number is not the connection's but the file's, which was too short.
        match Errno::from_io_error(&error) {
            Some(errno) if socket.armed => socket.broken = Some(errno),
            _ => self.fail(id, error),
        }
    }
}

/// A send of a socket has ended.
fn on_sent(socket: &mut Socket) {
    socket.outgoing = Outgoing::Nothing;
    if socket.finish_after_send {
        sockets::finish(&socket.fd);
    }
}
