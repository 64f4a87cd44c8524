//! Faults in responses: which share of them is wrong, and how.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// The shares of responses with a fault, from 0 to 1. A response has at most one.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Faults {
    /// Bodies with a wrong byte, of the right length.
    pub wrong_bodies: f64,
    /// Connections that are reset instead of a response.
    pub resets: f64,
    /// Bodies that end half-way, and the connection with them.
    pub truncated: f64,
    /// Responses with status 500.
    pub errors: f64,
}

/// The fault of one response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    WrongBody,
    Reset,
    Truncated,
    Error,
}

impl Faults {
    /// The share of responses with any fault.
    pub fn share(&self) -> f64 {
        self.wrong_bodies + self.resets + self.truncated + self.errors
    }

    pub(crate) fn draw(&self, random: &mut Pcg64Mcg) -> Option<Fault> {
        if self.share() == 0.0 {
            return None;
        }
        let mut place: f64 = random.random();
        let shares = [
            (self.wrong_bodies, Fault::WrongBody),
            (self.resets, Fault::Reset),
            (self.truncated, Fault::Truncated),
            (self.errors, Fault::Error),
        ];
        for (share, fault) in shares {
            if place < share {
                return Some(fault);
            }
            place -= share;
        }
        None
    }
}
