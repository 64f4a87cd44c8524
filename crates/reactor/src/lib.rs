//! The event loop that a thread runs over a completion driver, its timers and buffers, and a
//! simulated driver.
//!
//! [`run`] is the loop: the load engine and the server are [`App`]s of it, generic over the driver,
//! so that the same code runs over io_uring, epoll and the simulation. [`Wheel`] keeps the
//! deadlines of connections, [`BufferPool`] the buffers in which heads are built. [`sim::Sim`] is a
//! network in memory with a virtual clock and seeded faults.
//!
//! Deliberately not here: protocols and policies. The loop knows no requests, sets no deadlines,
//! and does nothing by itself when one has passed.

#![forbid(unsafe_code)]

pub mod pool;
pub mod sim;
pub mod timer;

use std::io;

use thalweg_sys::Instant;
use thalweg_sys::driver::{Completion, Driver};

pub use pool::BufferPool;
pub use timer::Wheel;

/// An application of the event loop: a load engine, a server, or both in one simulation.
pub trait App<D: Driver> {
    /// Handles one completion. The bytes of a [`Completion::Received`] are in [`Driver::received`]
    /// until this returns.
    fn on_completion(&mut self, driver: &mut D, completion: Completion);

    /// Ends an iteration of the loop: all completions of a wake-up are handled, or the loop has
    /// just started. Timers, schedules and all work that is better done once per wake-up than once
    /// per completion belong here.
    fn on_iteration(&mut self, driver: &mut D, now: Instant) -> LoopControl;
}

/// How the loop goes on after an iteration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopControl {
    /// The next iteration begins at a completion, or at this time at the latest.
    WaitUntil(Option<Instant>),
    /// The loop ends; sockets stay as they are.
    Stop,
}

/// Runs `app` over `driver` until it returns [`LoopControl::Stop`].
///
/// # Errors
/// The driver has become unusable, or the simulation is stuck.
pub fn run<D: Driver, A: App<D>>(driver: &mut D, app: &mut A) -> io::Result<()> {
    loop {
        let now = driver.now();
        match app.on_iteration(driver, now) {
            LoopControl::Stop => return Ok(()),
            LoopControl::WaitUntil(until) => driver.wait(until)?,
        }
        while let Some(completion) = driver.next() {
            app.on_completion(driver, completion);
        }
    }
}
