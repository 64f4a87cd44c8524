//! The io_uring driver.
//!
//! One `enter` per wake-up submits all operations and takes all completions. Connections are
//! accepted and received from by multishot operations into shared buffers, so a request and its
//! response cost one submission and two completions, and no system call of their own. Only the
//! first receive of an outgoing connection, and those of a socket that receives on demand, are
//! single shots.
//!
//! The ring is used by its own thread alone (SINGLE_ISSUER) and the kernel works for it only inside
//! `enter` (DEFER_TASKRUN, Linux 6.1), so that completions are never posted behind the loop's back.
//! A kernel without these refuses the set-up, and the program takes the epoll driver.

mod accept;
mod buffers;
mod files;
mod receive;
mod ring;
mod send;
mod socket;

use std::io;
use std::mem;
use std::net::SocketAddr;
use std::rc::Rc;

use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use io_uring::{cqueue, opcode};
use rustix::io::Errno;

pub use self::ring::Uring;
use self::ring::owned;
use self::socket::{Maker, Operation, Outgoing, Socket, State};
use crate::clock::Instant;
use crate::driver::{
    Completion, Connect, Driver, DriverKind, FileSpan, Listen, ReceiveMode, SendBuf, SpanEnd, overslept_ns,
};
use crate::socket::{self as sockets, Nagle, Sending};
use crate::table::SocketId;

/// Chunks of files sent between two waits, so that large downloads cannot keep timers waiting.
const FILE_STEPS_PER_WAIT: usize = 256;

/// Chunks of files sent between two waits also where responses wait to be submitted, or events have
/// come in; see bench/TRIED.md, "Chunks beside small requests".
const FILE_STEPS_AT_LEAST: usize = 16;

impl Uring {
    /// Makes sense of one completion of the ring.
    fn on_completion(&mut self, entry: &cqueue::Entry) -> Option<Completion> {
        let token = entry.user_data();
        let id = SocketId::from_bits(token);
        let operation = Operation::of(token);
        let filled = self.buffers.filled(entry);
        self.spent = filled.as_ref().and_then(|filled| filled.spent);
        match operation {
            Operation::Quiet => {
                let missed = Operation::cancelled_by(token).filter(|_| entry.result() == -libc::ENOENT);
                self.missed.extend(missed.map(|operation| (id, operation)));
                return None;
            }
            Operation::Wake => {
                if !cqueue::more(entry.flags()) {
                    self.arm_waker();
                }
                return self.waker.drain().then_some(Completion::Woken);
            }
            _ => {}
        }
        let socket = self.sockets.entry_mut(id).expect("an entry stays until its operations have completed");
        if !cqueue::more(entry.flags()) {
            socket.in_flight -= 1;
            if matches!(operation, Operation::Receive | Operation::Accept) {
                socket.armed = false;
            }
        }
        if socket.state == State::Closing {
            self.discard(id, operation, entry);
            return None;
        }
        match operation {
            Operation::Receive => {
                self.received = filled.map_or(0..0, |filled| filled.bytes);
                self.on_receive(id, entry.result())
            }
            Operation::Accept => self.on_accept(id, entry),
            Operation::Connect => self.on_connect(id, entry.result()),
            Operation::Send => self.on_send(id, entry.result()),
            Operation::PollOut => {
                // It is queued: of thousands of slow readers hundreds may become writable at once,
                // and completions after them would wait.
                self.writable.push_back(id);
                None
            }
            Operation::Wake | Operation::Quiet => unreachable!("handled above"),
        }
    }

    /// A completion for a socket that its owner has closed.
    fn discard(&mut self, id: SocketId, operation: Operation, entry: &cqueue::Entry) {
        if matches!(operation, Operation::Accept) && entry.result() >= 0 {
            drop(owned(entry.result()));
        }
        if self.sockets.entry(id).is_some_and(|socket| socket.in_flight == 0) {
            self.release(id);
        }
    }

    fn on_connect(&mut self, id: SocketId, result: i32) -> Option<Completion> {
        let socket = self.live_mut(id);
        let outgoing = mem::replace(&mut socket.outgoing, Outgoing::Nothing);
        let is_unix = matches!(outgoing, Outgoing::Connect(peer) if peer.is_unix());
        socket.state = State::Connected;
        if result < 0 {
            self.fail(id, sockets::connect_error(is_unix, io::Error::from_raw_os_error(-result)));
            return None;
        }
        self.arm_receive(id);
        Some(Completion::Connected { socket: id })
    }
}

impl Driver for Uring {
    fn kind(&self) -> DriverKind {
        DriverKind::Uring
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn listen(&mut self, at: Listen) -> io::Result<SocketId> {
        let listener = Socket::new(sockets::listener(at)?, State::Listening);
        let id = self.sockets.insert(listener).map_err(|_| io::Error::from(Errno::MFILE))?;
        self.arm_accept(id);
        Ok(id)
    }

    fn resume_accept(&mut self, listener: SocketId) {
        self.live_mut(listener).paused = false;
        while let Some(completion) = self.unpark(listener) {
            let full = matches!(completion, Completion::AcceptFailed { .. });
            self.done.push_back(completion);
            if full {
                return;
            }
        }
        self.arm_accept(listener);
    }

    fn connect(&mut self, to: &Connect) -> io::Result<SocketId> {
        if self.sockets.is_full() {
            return Err(Errno::MFILE.into());
        }
        // An iteration may open many connections, each at its own time.
        self.now = Instant::now();
        let peer = match &self.last_peer {
            Some((addr, peer)) if *addr == to.peer => peer.clone(),
            _ => {
                let peer = Rc::new(to.peer.encoded());
                self.last_peer = Some((to.peer.clone(), peer.clone()));
                peer
            }
        };
        let (start, len) = (peer.as_ptr(), peer.len());
        let connecting = sockets::connecting(to, &mut self.last_port)?;
        let mut socket = Socket::new(connecting.into(), State::Connecting);
        socket.on_demand = matches!(to.receive_mode, ReceiveMode::OnDemand { .. });
        socket.new = Some(Maker::Us);
        socket.nagle = if peer.is_unix() { Nagle::Off } else { Nagle::Unused };
        let entry = opcode::Connect::new(socket.raw(), start.cast(), len).build();
        socket.outgoing = Outgoing::Connect(peer);
        let id = self.sockets.insert(socket).map_err(|_| io::Error::from(Errno::MFILE))?;
        self.submit(id, Operation::Connect, entry);
        Ok(id)
    }

    fn send(&mut self, socket: SocketId, bytes: SendBuf) {
        if self.start_send(socket, Sending::bytes(bytes)) {
            self.submit_send(socket);
        }
    }

    fn send_last(&mut self, socket: SocketId, bytes: SendBuf) {
        if self.start_send(socket, Sending::last(bytes)) {
            self.submit_send(socket);
        }
    }

    fn send_file(&mut self, socket: SocketId, head: SendBuf, span: FileSpan, end: SpanEnd) {
        let sending = Sending::file(head, span, end);
        if !sending.has_file() {
            if self.start_send(socket, sending) {
                self.submit_send(socket);
            }
        } else if self.start_send(socket, sending) {
            // The completion may come within this wake-up, and must not be stamped earlier than the
            // send.
            self.now = Instant::now();
            self.live_mut(socket).sent_at = self.now;
            self.push_file(socket);
        }
    }

    fn sent_at(&self, socket: SocketId) -> Instant {
        self.live(socket).sent_at
    }

    fn whole_segments(&self, socket: SocketId, head_bytes: u64, bytes: u64) -> u64 {
        sockets::whole_segments(&self.live(socket).fd, head_bytes, bytes)
    }

    fn bound_unsent(&mut self, socket: SocketId, bounded: bool) {
        sockets::bound_unsent(&self.live(socket).fd, bounded);
    }

    fn receive(&mut self, socket: SocketId, bytes_max: u32) {
        let entry = self.live_mut(socket);
        assert!(
            entry.on_demand && entry.state == State::Connected,
            "receive on demand: only on a connected socket of that mode"
        );
        if entry.ended || entry.failed {
            return;
        }
        assert!(entry.bytes_wanted == 0 && bytes_max > 0, "one receive at a time, of something");
        entry.bytes_wanted = bytes_max;
        self.arm_receive(socket);
    }

    fn pause(&mut self, socket: SocketId) {
        let entry = self.live_mut(socket);
        assert!(!entry.on_demand, "a receive-on-demand socket needs no pause");
        entry.paused = true;
        if entry.armed {
            let operation = if entry.state == State::Listening { Operation::Accept } else { Operation::Receive };
            self.cancel(socket, operation);
        }
    }

    fn resume(&mut self, socket: SocketId) {
        let entry = self.live_mut(socket);
        assert!(!entry.on_demand, "a receive-on-demand socket needs no resume");
        if entry.state == State::Listening {
            return self.resume_accept(socket);
        }
        entry.paused = false;
        if entry.state == State::Connected {
            self.arm_receive(socket);
        }
    }

    fn finish(&mut self, socket: SocketId) {
        let socket = self.live_mut(socket);
        if socket.is_sending() {
            socket.finish_after_send = true;
        } else {
            sockets::finish(&socket.fd);
        }
    }

    fn close(&mut self, socket: SocketId) {
        let entry = self.live_mut(socket);
        let is_idle = entry.in_flight == 0;
        let under_way = entry.under_way();
        entry.state = State::Closing;
        self.parked.retain(|(listener, _)| *listener != socket);
        if is_idle {
            return self.release(socket);
        }
        // One by one: the kernel finds them by their tokens, and to find all of a descriptor it
        // looks at every operation of the ring; see bench/TRIED.md, "Cancelling by token".
        for operation in under_way.into_iter().flatten() {
            self.cancel(socket, operation);
        }
    }

    fn close_behind(&mut self, socket: SocketId, last: &[u8]) {
        let entry = self.live(socket);
        assert!(!entry.is_sending(), "a send is under way on this socket");
        sockets::send_now(&entry.fd, last);
        self.close(socket);
    }

    fn reset(&mut self, socket: SocketId) {
        sockets::abandon(&self.live(socket).fd);
        self.close(socket);
    }

    fn unacknowledged(&self, socket: SocketId) -> u64 {
        let socket = self.live(socket);
        let left = match &socket.outgoing {
            Outgoing::Send(sending) => sending.left(),
            Outgoing::Nothing | Outgoing::Connect(_) => 0,
        };
        left + sockets::unacknowledged(&socket.fd)
    }

    fn peer_addr(&self, socket: SocketId) -> io::Result<SocketAddr> {
        sockets::peer_addr(&self.live(socket).fd)
    }

    fn local_addr(&self, socket: SocketId) -> io::Result<SocketAddr> {
        sockets::local_addr(&self.live(socket).fd)
    }

    fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        if let Some(spent) = self.spent.take() {
            self.buffers.give_back(spent);
        }
        self.received = 0..0;
        self.decide();
        for id in mem::take(&mut self.starved) {
            if self.sockets.entry(id).is_some_and(|socket| socket.state == State::Connected) {
                self.arm_receive(id);
            }
        }
        self.cancel_missed();
        self.writable.extend(self.served.drain(..));
        let busy = self.cursor < self.batch.len() || !self.done.is_empty() || !self.writable.is_empty();
        if !busy {
            self.batch.clear();
            self.cursor = 0;
        }
        self.file_steps_left = FILE_STEPS_PER_WAIT;
        // One reading serves the deadline and the stamps: it is the time at which the kernel is
        // entered.
        let entry = Instant::now();
        let want = if busy || until.is_some_and(|until| until <= entry) { 0 } else { 1 };
        let asleep_until = until.map(|until| until.minus_ns(self.wake_early_ns));
        let last_wake = self.now;
        self.enter(want, asleep_until, entry)?;
        let mut awake_from = None;
        loop {
            self.now = Instant::now();
            self.overslept_ns = overslept_ns(until.filter(|_| want > 0), entry, last_wake, self.now);
            self.take_completions();
            let happened = self.cursor < self.batch.len() || !self.done.is_empty();
            let awake_from = *awake_from.get_or_insert(self.now);
            let rest = until.filter(|&until| want > 0 && !happened && self.now < until);
            if rest.is_none() || asleep_until.is_some_and(|until| self.now < until) {
                self.busy_wait_ns += self.now.ns_since(awake_from);
                return Ok(());
            }
            // Woken early: what is left is too short for a sleep.
            self.look()?;
        }
    }

    fn busy_wait_ns(&self) -> u64 {
        self.busy_wait_ns
    }

    fn overslept_ns(&self) -> u64 {
        self.overslept_ns
    }

    fn handshake_ns(&self, socket: SocketId) -> Option<u64> {
        sockets::handshake_ns(&self.live(socket).fd)
    }

    fn next(&mut self) -> Option<Completion> {
        if let Some(spent) = self.spent.take() {
            self.buffers.give_back(spent);
        }
        self.decide();
        loop {
            while let Some(completion) = self.done.pop_front() {
                if self.names_open_socket(&completion) {
                    return Some(completion);
                }
            }
            if let Some(entry) = self.batch.get(self.cursor).cloned() {
                self.cursor += 1;
                let completion = self.on_completion(&entry);
                if completion.is_some() {
                    return completion;
                }
                if let Some(spent) = self.spent.take() {
                    self.buffers.give_back(spent);
                }
                continue;
            }
            if self.writable.is_empty() || self.file_steps_left == 0 {
                return None;
            }
            // Some chunks go in any case. Further ones follow only as long as no response waits to
            // be submitted and no completion has arrived.
            if self.file_steps_left == FILE_STEPS_PER_WAIT {
                self.has_unsubmitted = !self.ring.submission().is_empty();
            } else if self.file_steps_left <= FILE_STEPS_PER_WAIT - FILE_STEPS_AT_LEAST
                && (self.has_unsubmitted || self.has_news())
            {
                return None;
            }
            self.file_steps_left -= 1;
            let id = self.writable.pop_front()?;
            self.push_file(id);
        }
    }

    fn received(&self) -> &[u8] {
        self.buffers.bytes(self.received.clone())
    }
}

impl Drop for Uring {
    /// Waits until the kernel has released every socket and buffer: a listener whose accept is
    /// still under way keeps its port, and memory that may still be written to must not be freed. A
    /// cancelled operation ends at once; the bound is for a kernel that breaks that promise.
    fn drop(&mut self) {
        const ROUNDS_MAX: usize = 100;
        const ROUND: Timespec = Timespec::new().nsec(10_000_000);
        // Submits closes that were queued. If that fails, the descriptors are closed with the
        // process.
        let _ = self.ring.submit();
        // Fails only if there was nothing to cancel.
        let _ = self.ring.submitter().register_sync_cancel(None, CancelBuilder::any());
        let mut in_flight: u32 = self.sockets.iter().map(|(_, socket)| u32::from(socket.in_flight)).sum();
        for _ in 0..ROUNDS_MAX {
            self.take_completions();
            for entry in self.batch.drain(self.cursor..) {
                let operation = Operation::of(entry.user_data());
                if matches!(operation, Operation::Accept) && entry.result() >= 0 {
                    drop(owned(entry.result()));
                }
                let of_socket = !matches!(operation, Operation::Wake | Operation::Quiet);
                in_flight -= u32::from(of_socket && !cqueue::more(entry.flags())).min(in_flight);
            }
            if in_flight == 0 {
                break;
            }
            // A time-out is one of the ways in which this ends.
            let _ = self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&ROUND));
        }
        // Else the kernel closes what stands there some time after the ring. Fails only if there is
        // no table.
        let _ = self.ring.submitter().unregister_files();
    }
}
