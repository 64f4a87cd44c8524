//! Receiving: single shots for connections that are new or receive on demand, a multishot operation
//! for all others.

use std::ptr;

use io_uring::{opcode, squeue};
use rustix::io::Errno;

use super::buffers;
use super::ring::Uring;
use super::socket::{Maker, Operation, State};
use crate::driver::Completion;
use crate::table::SocketId;

/// The length of a receive that is bounded by its buffer alone.
const WHOLE_BUFFER: u32 = 1 << 30;

/// IORING_RECVSEND_POLL_FIRST of `linux/io_uring.h`.
const POLL_FIRST: u16 = 1;

impl Uring {
    pub(super) fn arm_receive(&mut self, id: SocketId) {
        let socket = self.live_mut(id);
        if socket.armed || socket.paused || socket.ended || socket.failed {
            return;
        }
        if socket.on_demand && socket.bytes_wanted == 0 {
            return;
        }
        socket.armed = true;
        let single_bytes_max = match (socket.on_demand, socket.new) {
            (true, _) => Some(socket.bytes_wanted),
            (false, Some(_)) => Some(WHOLE_BUFFER),
            (false, None) => None,
        };
        let entry = if let Some(len) = single_bytes_max {
            // The kernel picks the buffer when bytes come in, so that a hundred thousand waiting
            // connections hold none. A length is a bound for it as for any receive. Looking for
            // bytes before the request has gone would be in vain: the first receive of a connection
            // of ours begins by waiting.
            let ioprio = if socket.new == Some(Maker::Us) { POLL_FIRST } else { 0 };
            let single = opcode::Recv::new(socket.raw(), ptr::null_mut(), len).buf_group(buffers::GROUP).ioprio(ioprio);
            single.build().flags(squeue::Flags::BUFFER_SELECT)
        } else {
            opcode::RecvMulti::new(socket.raw(), buffers::GROUP).build()
        };
        self.submit(id, Operation::Receive, entry);
    }

    pub(super) fn on_receive(&mut self, id: SocketId, result: i32) -> Option<Completion> {
        if result > 0 {
            let socket = self.live_mut(id);
            socket.bytes_wanted = 0;
            if socket.new.take().is_some() {
                // The owner may have all that it wants, and close.
                self.undecided = Some(id);
            } else if !socket.armed {
                // At once, since the kernel has ended the series.
                self.arm_receive(id);
            }
            return Some(Completion::Received { socket: id });
        }
        let socket = self.live_mut(id);
        let broken = socket.broken.take();
        match (result, broken) {
            (0, None) => {
                socket.ended = true;
                return Some(Completion::Ended { socket: id });
            }
            (0, Some(broken)) => self.fail(id, broken.into()),
            (errno, broken) => match Errno::from_raw_os_error(-errno) {
                // Paused, or paused and resumed before the kernel had received of it.
                Errno::CANCELED => {
                    if let Some(broken) = broken {
                        self.fail(id, broken.into());
                    }
                    self.arm_receive(id);
                }
                Errno::NOBUFS => {
                    self.live_mut(id).broken = broken;
                    self.starved.push(id);
                }
                Errno::INTR | Errno::AGAIN => {
                    self.live_mut(id).broken = broken;
                    self.arm_receive(id);
                }
                errno => self.fail(id, broken.unwrap_or(errno).into()),
            },
        }
        None
    }

    /// Goes on receiving on the connection of which the owner has just seen the first bytes, if it
    /// has not closed that.
    pub(super) fn decide(&mut self) {
        if let Some(id) = self.undecided.take()
            && self.sockets.entry(id).is_some_and(|socket| socket.state == State::Connected)
        {
            self.arm_receive(id);
        }
    }
}
