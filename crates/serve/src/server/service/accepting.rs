//! Accepting: listeners that rest, that are closed, and that take over.

use thalweg_sys::{Driver, Fault, SocketId};

use super::Service;

/// How long accepting rests after the process or the host ran out of descriptors, unless a
/// connection ends before.
const ACCEPT_REST_NS: u64 = 100_000_000;

/// The same, after a connection was closed for another one: closing takes the kernel a moment.
const SHED_REST_NS: u64 = 1_000_000;

/// How long a listener that is given up is still received after it has stopped: what it had
/// accepted by then is served, and what it had not stays in the queue of the socket.
const RETIRE_NS: u64 = 50_000_000;

impl Service {
    /// Begins to accept anew, which begins with a look at what waits.
    pub(super) fn look_again<D: Driver>(&mut self, driver: &mut D) {
        for &(_, listener) in &self.listeners {
            if !self.resting.contains(&listener) {
                driver.pause(listener);
                driver.resume(listener);
            }
        }
    }

    /// Closes the listeners of some groups after a short delay: the kernel may already have
    /// completed connections that wait to be accepted.
    pub(super) fn retire<D: Driver>(&mut self, driver: &mut D, which: impl Fn(u32) -> bool) {
        for (_, listener) in self.listeners.extract_if(.., |(group, _)| which(*group)) {
            if self.resting.contains(&listener) {
                self.resting.retain(|resting| *resting != listener);
                driver.resume_accept(listener);
            }
            self.retiring.push(listener);
        }
        self.retirement_ends = driver.now().plus_ns(RETIRE_NS);
    }

    /// Stops accepting from the listeners of a group at once: connections that wait are another
    /// owner's of the sockets.
    pub(super) fn release<D: Driver>(&mut self, driver: &mut D, group: u32) {
        let retiring = std::mem::take(&mut self.retiring);
        self.retire(driver, |of| of == group);
        self.pause_retiring(driver);
        self.retiring = retiring;
    }

    /// Stops accepting from those listeners. They are closed after a short delay, since the kernel
    /// may already have accepted connections that it has not reported to this loop yet.
    pub(super) fn pause_retiring<D: Driver>(&mut self, driver: &mut D) {
        for &listener in &self.retiring {
            driver.pause(listener);
        }
        self.retired.append(&mut self.retiring);
        self.retirement_ends = driver.now().plus_ns(RETIRE_NS);
    }

    pub(super) fn close_retired<D: Driver>(&mut self, driver: &mut D) {
        for listener in self.retired.drain(..) {
            driver.close(listener);
        }
    }

    pub(super) fn on_accept_failed<D: Driver>(&mut self, driver: &mut D, listener: SocketId, error: &std::io::Error) {
        if self.retired.contains(&listener) || self.retiring.contains(&listener) {
            return;
        }
        let now = driver.now();
        self.resting.push(listener);
        // The kernel needs a moment to release closed descriptors; a further attempt in between
        // would fail too.
        let has_just_shed = now < self.rest_ends;
        self.rest_ends = now.plus_ns(ACCEPT_REST_NS);
        if Fault::of(error) == Fault::NoDescriptor {
            self.shared.responder.origin.release_descriptors();
            if has_just_shed || self.close_oldest_without_slot(driver) || self.evict(driver, now) {
                self.rest_ends = now.plus_ns(SHED_REST_NS);
            }
        }
    }

    pub(super) fn resume_accepting<D: Driver>(&mut self, driver: &mut D) {
        for listener in self.resting.drain(..) {
            driver.resume_accept(listener);
        }
    }
}
