//! A server whose capacity and faults are known, to calibrate load generators with.
//!
//! A [`Model`] says how many servers there are, how long a request takes, and what goes wrong.
//! [`Station`] is that model as a queue in virtual time; [`mod@truth`] says up to which rate it
//! meets limits; the [`server`] answers HTTP requests at the times at which the station says that
//! they depart. The work of a request is computed, not done, so that a yardstick of 20,000 requests
//! per second needs little CPU time; `burners` do it, where CPUs are to be busy.
//!
//! Deliberately not here: options and printing.

#![forbid(unsafe_code)]

mod burners;
pub mod faults;
pub mod law;
pub mod model;
pub mod server;
pub mod speed;
pub mod station;
pub mod truth;

pub use faults::Faults;
pub use law::Law;
pub use model::{Model, ModelError};
pub use speed::{Collapse, Overload, SlowStart, Stall};
pub use station::Station;
pub use truth::{Arrivals, Truth, truth};
