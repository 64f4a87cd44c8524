//! The canned client over io_uring.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::types::{DestinationSlot, Fixed};
use io_uring::{cqueue, opcode, squeue};

use super::buffers::{Buffers, GROUP};
use super::ring::{self, Kind, Ring, of_token, token};
use crate::account::{Start, Totals};
use crate::canned;
use crate::plan::Plan;
use crate::stop::Stop;

/// Bytes of a receive buffer: mostly one response.
const BUFFER_BYTES_MIN: usize = 4096;
const BUFFER_BYTES_MAX: usize = 64 * 1024;

pub(crate) fn client(plan: &Plan) -> io::Result<Totals> {
    if plan.close { one_request_each(plan) } else { keep(plan) }
}

/// One send without a completion, one completion of the multishot receive.
fn keep(plan: &Plan) -> io::Result<Totals> {
    let request = canned::request(plan);
    let response_bytes = canned::response_bytes(plan)?;
    let connections = usize::from(plan.connections);
    let sockets = (0..connections).map(|_| canned::connection(plan.address())).collect::<io::Result<Vec<OwnedFd>>>()?;
    let mut left = vec![0; connections];

    let mut ring = ring::open()?;
    let mut ring = Ring::new(&mut ring);
    ring.submitter.register_files(&sockets.iter().map(AsRawFd::as_raw_fd).collect::<Vec<_>>())?;
    let buffer_bytes = response_bytes.next_power_of_two().clamp(BUFFER_BYTES_MIN, BUFFER_BYTES_MAX) as u32;
    let mut buffers = Buffers::register(&ring.submitter, plan.connections * 2, buffer_bytes)?;
    let stop = Stop::after(plan.seconds)?;
    ring.watch(&stop)?;

    let start = Start::now()?;
    let (mut started, mut finished) = (0, 0);
    for slot in 0..u32::from(plan.connections) {
        // SAFETY: the request outlives the ring's use of it, which ends with this function's
        // completions; a receive points at nothing.
        unsafe { ring.push(&[receive(slot)])? };
        if started < plan.requests_max() {
            started += 1;
            left[slot as usize] = response_bytes;
            // SAFETY: as above.
            unsafe { ring.push(&[ask(slot, &request)])? };
        }
    }
    while finished < plan.requests_max() {
        ring.wait()?;
        while let Some(entry) = ring.next() {
            let (kind, slot) = of_token(entry.user_data());
            match kind {
                Kind::Stop => return start.totals(finished),
                Kind::Receive if entry.result() == -libc::ENOBUFS => {}
                // A server may close an unused connection.
                Kind::Receive if left[slot as usize] == 0 => continue,
                Kind::Receive => {
                    let bytes = bytes_of(&entry, plan)?;
                    if let Some(id) = cqueue::buffer_select(entry.flags()) {
                        buffers.give_back(id);
                    }
                    let left = &mut left[slot as usize];
                    *left = left.checked_sub(bytes).ok_or_else(longer)?;
                    if *left == 0 {
                        finished += 1;
                        if started < plan.requests_max() {
                            started += 1;
                            *left = response_bytes;
                            // SAFETY: as above.
                            unsafe { ring.push(&[ask(slot, &request)])? };
                        }
                    }
                }
                // A send completes only if it has failed.
                _ => return Err(failed(&entry)),
            }
            if kind == Kind::Receive && !cqueue::more(entry.flags()) {
                // SAFETY: the entry points at nothing.
                unsafe { ring.push(&[receive(slot)])? };
            }
        }
        buffers.publish();
    }
    drop(sockets);
    start.totals(finished)
}

fn receive(slot: u32) -> squeue::Entry {
    opcode::RecvMulti::new(Fixed(slot), GROUP).build().user_data(token(Kind::Receive, slot))
}

/// A request fits into an empty socket's buffer, so that its send is over at once.
fn ask(slot: u32, request: &[u8]) -> squeue::Entry {
    opcode::Send::new(Fixed(slot), request.as_ptr(), request.len() as u32)
        .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
        .build()
        .flags(squeue::Flags::SKIP_SUCCESS)
        .user_data(token(Kind::Step, slot))
}

/// The whole life of a connection is one chain of submissions with one completion.
fn one_request_each(plan: &Plan) -> io::Result<Totals> {
    let request = canned::request(plan);
    let response_bytes = canned::response_bytes(plan)?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: plan.port.to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from(*plan.address().ip()).to_be() },
        sin_zero: [0; 8],
    };
    let mut responses = vec![0_u8; response_bytes * usize::from(plan.connections)];

    let mut ring = ring::open()?;
    let mut ring = Ring::new(&mut ring);
    ring.submitter.register_files_sparse(plan.connections.into())?;
    let stop = Stop::after(plan.seconds)?;
    ring.watch(&stop)?;

    let mut chain = |slot: u32| {
        let response = &mut responses[slot as usize * response_bytes..][..response_bytes];
        chain(slot, &address, &request, response)
    };

    let start = Start::now()?;
    let (mut started, mut finished) = (0, 0);
    for slot in 0..u32::from(plan.connections) {
        if started < plan.requests_max() {
            started += 1;
            // SAFETY: address, request and responses outlive the ring's use of them, which ends
            // with this function's completions, or with the process right after a run that was
            // stopped.
            unsafe { ring.push(&chain(slot))? };
        }
    }
    while finished < plan.requests_max() {
        ring.wait()?;
        while let Some(entry) = ring.next() {
            let (kind, slot) = of_token(entry.user_data());
            match kind {
                Kind::Stop => {
                    let totals = start.totals(finished);
                    // Chains are under way: their memory is the kernel's until the process ends.
                    std::mem::forget((responses, request));
                    return totals;
                }
                Kind::Close if entry.result() >= 0 => {
                    finished += 1;
                    if started < plan.requests_max() {
                        started += 1;
                        // SAFETY: as above.
                        unsafe { ring.push(&chain(slot))? };
                    }
                }
                _ if entry.result() == -libc::EADDRNOTAVAIL => {
                    return Err(canned::no_connection(plan.address(), rustix::io::Errno::ADDRNOTAVAIL));
                }
                _ if entry.result() >= 0 => return Err(canned::ended(plan.address())),
                _ => return Err(failed(&entry)),
            }
        }
    }
    start.totals(finished)
}

/// A whole connection: every step is silent and starts when the one before it has succeeded; the
/// last one reports.
fn chain(slot: u32, address: &libc::sockaddr_in, request: &[u8], response: &mut [u8]) -> [squeue::Entry; 5] {
    let file = Fixed(slot);
    let at = DestinationSlot::try_from_slot_target(slot).expect("slots are few");
    let address_bytes = size_of_val(address) as u32;
    let linked = squeue::Flags::SKIP_SUCCESS | squeue::Flags::IO_LINK;
    let step = |entry: squeue::Entry| entry.flags(linked).user_data(token(Kind::Step, slot));
    [
        step(opcode::Socket::new(libc::AF_INET, libc::SOCK_STREAM, 0).file_index(Some(at)).build()),
        step(opcode::Connect::new(file, (&raw const *address).cast(), address_bytes).build()),
        step(
            opcode::Send::new(file, request.as_ptr(), request.len() as u32)
                .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
                .build(),
        ),
        step(opcode::Recv::new(file, response.as_mut_ptr(), response.len() as u32).flags(libc::MSG_WAITALL).build()),
        opcode::Close::new(file).build().user_data(token(Kind::Close, slot)),
    ]
}

fn bytes_of(entry: &cqueue::Entry, plan: &Plan) -> io::Result<usize> {
    match usize::try_from(entry.result()) {
        Ok(0) => Err(canned::ended(plan.address())),
        Ok(bytes) => Ok(bytes),
        Err(_) => Err(failed(entry)),
    }
}

fn failed(entry: &cqueue::Entry) -> io::Error {
    io::Error::from_raw_os_error(-entry.result())
}

fn longer() -> io::Error {
    io::Error::other("a response is longer than the first one was")
}
