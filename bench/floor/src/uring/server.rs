//! The canned server over io_uring.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::types::{Fd, Fixed};
use io_uring::{cqueue, opcode, squeue};
use rustix::net::{Shutdown, shutdown};

use super::buffers::{Buffers, GROUP};
use super::ring::{self, Kind, Ring, of_token, token};
use crate::account::{Start, Totals};
use crate::canned;
use crate::plan::Plan;
use crate::stop::Stop;

/// A request is shorter.
const REQUEST_BYTES_MAX: u32 = 2048;

const BUFFERS: u16 = 1024;

pub(crate) fn server(plan: &Plan) -> io::Result<Totals> {
    let listener = canned::listener(plan)?;
    let mut ring = ring::open()?;
    let mut ring = Ring::new(&mut ring);
    ring.submitter.register_files_sparse(ring::slots_max())?;
    let buffers = Buffers::register(&ring.submitter, BUFFERS, REQUEST_BYTES_MAX)?;
    let stop = Stop::after(plan.seconds)?.or_when_asked()?;
    ring.watch(&stop)?;
    let response = canned::response(plan);
    let mut server = Server { plan, ring, buffers, listener, accepting: false, response, served: 0, asked_nothing: 0 };
    let totals = server.serve();
    // The ring lets go of the listener some time after the process has ended, and the next server
    // would find its port in use.
    shutdown(&server.listener, Shutdown::Both)?;
    // Operations are under way: what they point at is the kernel's until the process ends.
    std::mem::forget(server);
    totals
}

struct Server<'a> {
    plan: &'a Plan,
    ring: Ring<'a>,
    buffers: Buffers,
    listener: OwnedFd,
    accepting: bool,
    response: Vec<u8>,
    served: u64,
    /// Connections that were closed before a request came, and whose chain has not ended.
    asked_nothing: u64,
}

impl Server<'_> {
    fn serve(&mut self) -> io::Result<Totals> {
        self.accept()?;
        self.ring.wait()?;
        let start = Start::now()?;
        loop {
            while let Some(entry) = self.ring.next() {
                let (kind, slot) = of_token(entry.user_data());
                match kind {
                    Kind::Stop => return start.totals(self.served),
                    Kind::Accept => self.on_accept(&entry)?,
                    Kind::Receive => self.on_receive(slot, &entry)?,
                    // A chain has ended. Some had no request.
                    Kind::Close if entry.result() >= 0 && self.asked_nothing > 0 => self.asked_nothing -= 1,
                    Kind::Close if entry.result() >= 0 => self.served += 1,
                    // The client has gone. What follows in a chain is called off with it.
                    Kind::Send if entry.result() != -libc::ECANCELED && self.plan.close => self.close(slot)?,
                    Kind::Send | Kind::Close | Kind::Step => {}
                }
            }
            self.buffers.publish();
            if self.served >= self.plan.requests_max() {
                // The last responses are queued, not sent.
                self.ring.flush()?;
                return start.totals(self.served);
            }
            self.ring.wait()?;
        }
    }

    fn push(&mut self, entries: &[squeue::Entry]) -> io::Result<()> {
        // SAFETY: the entries point at the response at most, which is never changed and, in
        // `server`, never freed.
        unsafe { self.ring.push(entries) }
    }

    fn accept(&mut self) -> io::Result<()> {
        self.accepting = true;
        let entry = opcode::AcceptMulti::new(Fd(self.listener.as_raw_fd())).allocate_file_index(true).build();
        self.push(&[entry.user_data(token(Kind::Accept, 0))])
    }

    fn on_accept(&mut self, entry: &cqueue::Entry) -> io::Result<()> {
        self.accepting = cqueue::more(entry.flags());
        match u32::try_from(entry.result()) {
            Ok(slot) if self.plan.close => {
                let send = self.send(slot).flags(squeue::Flags::SKIP_SUCCESS | squeue::Flags::IO_LINK);
                let receive = receive_once(slot).flags(squeue::Flags::BUFFER_SELECT | squeue::Flags::IO_LINK);
                self.push(&[receive, send, close(slot)])?;
            }
            Ok(slot) => self.push(&[receive(slot)])?,
            // No slot is left: the next close makes one. Whatever else it was, the connection has
            // gone.
            Err(_) if entry.result() == -libc::ENFILE => return Ok(()),
            Err(_) => {}
        }
        if self.accepting { Ok(()) } else { self.accept() }
    }

    fn on_receive(&mut self, slot: u32, entry: &cqueue::Entry) -> io::Result<()> {
        if let Some(id) = cqueue::buffer_select(entry.flags()) {
            self.buffers.give_back(id);
        }
        match (entry.result(), self.plan.close) {
            // The chain goes on by itself.
            (result @ 0.., true) => {
                self.asked_nothing += u64::from(result == 0);
                Ok(())
            }
            (1.., false) => {
                self.served += 1;
                let send = self.send(slot).flags(squeue::Flags::SKIP_SUCCESS);
                if cqueue::more(entry.flags()) { self.push(&[send]) } else { self.push(&[send, receive(slot)]) }
            }
            (result, false) if result == -libc::ENOBUFS => self.push(&[receive(slot)]),
            (..) => self.close(slot),
        }
    }

    fn send(&self, slot: u32) -> squeue::Entry {
        // The end of the stream shares a segment with what is sent before it.
        let more = if self.plan.close { libc::MSG_MORE } else { 0 };
        opcode::Send::new(Fixed(slot), self.response.as_ptr(), self.response.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL | more)
            .build()
            .user_data(token(Kind::Send, slot))
    }

    fn close(&mut self, slot: u32) -> io::Result<()> {
        self.push(&[close(slot).flags(squeue::Flags::SKIP_SUCCESS)])?;
        if self.accepting { Ok(()) } else { self.accept() }
    }
}

fn receive(slot: u32) -> squeue::Entry {
    opcode::RecvMulti::new(Fixed(slot), GROUP).build().user_data(token(Kind::Receive, slot))
}

fn receive_once(slot: u32) -> squeue::Entry {
    opcode::Recv::new(Fixed(slot), std::ptr::null_mut(), REQUEST_BYTES_MAX)
        .buf_group(GROUP)
        .build()
        .user_data(token(Kind::Receive, slot))
}

fn close(slot: u32) -> squeue::Entry {
    opcode::Close::new(Fixed(slot)).build().user_data(token(Kind::Close, slot))
}
