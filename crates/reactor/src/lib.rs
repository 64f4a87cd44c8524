//! The event loop that a thread runs over a completion driver, its timers and buffers, and a simulated driver.
//!
//! [`run`] is the loop: the load engine and the server are [`App`]s of it, generic over the driver, so that the same code
//! runs over io_uring, epoll and the simulation. [`Wheel`] keeps the deadlines of connections, [`BufferPool`] the buffers
//! in which heads are built. [`sim::Sim`] is a network in memory with a virtual clock and seeded faults.
//!
//! What is deliberately not here: protocols and policies. The loop does not know what a request is, and it decides
//! neither when a deadline is nor what happens when it has passed.

#![forbid(unsafe_code)]

pub mod pool;
pub mod sim;
pub mod timer;

use std::io;

use thalweg_sys::Instant;
use thalweg_sys::driver::{Completion, Driver};

pub use pool::BufferPool;
pub use timer::Wheel;

/// What a loop drives: a load engine, a server, or both in one simulation.
pub trait App<D: Driver> {
    /// Something has happened. The bytes of a [`Completion::Received`] are in [`Driver::received`] until this returns.
    fn on_completion(&mut self, driver: &mut D, completion: Completion);

    /// All completions of a wake-up are handled, or the loop has just started. The place for timers, schedules and work that
    /// is better done once per wake-up than once per completion.
    fn on_turn(&mut self, driver: &mut D, now: Instant) -> Turn;
}

/// What an [`App`] wants after a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// The next turn, at this time at the latest; `None`: when there is a completion.
    Until(Option<Instant>),
    /// No further turn. The loop ends; sockets stay as they are.
    Stop,
}

/// Runs `app` over `driver` until it says [`Turn::Stop`].
///
/// # Errors
/// The driver has become unusable, or the simulation is stuck.
pub fn run<D: Driver, A: App<D>>(driver: &mut D, app: &mut A) -> io::Result<()> {
    loop {
        let now = driver.now();
        match app.on_turn(driver, now) {
            Turn::Stop => return Ok(()),
            Turn::Until(until) => driver.wait(until)?,
        }
        while let Some(completion) = driver.next() {
            app.on_completion(driver, completion);
        }
    }
}
