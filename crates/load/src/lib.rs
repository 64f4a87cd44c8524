//! The load engine: offers requests to a server on a schedule and accounts for what became of each of them.
//!
//! [`Plan`] says what to offer; [`start`] runs it on one thread per CPU and gives [`RunFigures`]. Each thread runs an
//! [`Engine`], an event loop's application that is generic over the driver, so that the same code offers load over io_uring and
//! epoll and is tested in a simulation.
//!
//! What is deliberately not here: reading options and files, judging results, searching for capacities, and any knowledge of the
//! server beyond its address and its answers.
#![forbid(unsafe_code)]

mod arrivals;
mod check;
pub mod choice;
mod connection;
mod engine;
mod figures;
mod gate;
mod input;
mod list;
mod notice;
mod plan;
mod rate;
mod replay;
mod request;
mod runner;
mod schedule;
mod session;
mod visit;

pub use arrivals::{Arrival, Arrivals, ClosedLoop, OpenLoop, Share, Spacing};
pub use check::{CheckError, FieldCheck, FieldValue, StatusSet};
pub use engine::Engine;
pub use figures::RunFigures;
pub use gate::Gate;
pub use input::{ENTRIES_MAX, InputError, LINE_BYTES_MAX};
pub use list::{ListEntry, read_checks, read_list};
pub use plan::{CONFORMING_BITS_PER_S, Check, Extent, LoopPlan, Pace, Pick, Plan, Reuse, Visit};
pub use rate::{RateError, RateProfile, RateText};
pub use replay::{Skipped, TRACE_ENTRIES_MAX, Trace, TraceEntry, TraceReader, read_trace};
pub use request::{PreparedRequest, RequestError, RequestText, prepare};
pub use runner::{LoadError, Progress, Running, Snapshot, start};
pub use session::{Burst, BurstText, CallText, SessionFile, SessionText, Sessions, prepare_sessions, read_sessions};
