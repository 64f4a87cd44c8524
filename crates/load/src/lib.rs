//! The load engine: offers requests to a server on a schedule and accounts for what became of each of them.
//!
//! [`Plan`] says what to offer; [`start`] runs it on one thread per CPU and gives [`RunFigures`]. Each thread runs an
//! [`Engine`], an event loop's application that is generic over the driver, so that the same code offers load over io_uring and
//! epoll and is tested in a simulation.
//!
//! What is deliberately not here: reading options and files, judging results, searching for capacities, and any knowledge of the
//! server beyond its address and its responses.
#![forbid(unsafe_code)]

mod arrivals;
mod barrier;
mod check;
mod check_table;
pub mod choice;
mod connection;
mod engine;
mod figures;
mod input;
mod list;
mod oversleep;
mod packing;
mod plan;
mod rate;
mod replay;
mod request;
mod runner;
mod schedule;
mod session;
mod user;

pub use arrivals::{Arrival, Arrivals, ClosedLoop, OpenLoop, RecordedLoop, Share, Spacing};
pub use barrier::StartBarrier;
pub use check::{CheckError, FieldCheck, FieldValue, StatusSet};
pub use check_table::CheckTable;
pub use engine::Engine;
pub use figures::RunFigures;
pub use input::{ENTRIES_MAX, InputError, LINE_BYTES_MAX, ReadError};
pub use list::{ListEntry, read_list};
pub use plan::{CONFORMING_BITS_PER_S, Check, Extent, LoopPlan, Pace, Pick, Plan, Reuse, UserPlan};
pub use rate::{RateError, RateProfile, RateText};
pub use replay::{Feed, Feeder, LogSummary, OpenLog, Recording, ReplayHead, SkipCounts};
pub use request::{
    PackError, PackedRequests, PreparedRequest, RequestError, RequestList, RequestParts, RequestText, prepare,
};
pub use runner::{LoadError, Progress, Running, Snapshot, start};
pub use session::{BurstText, CallText, SessionFile, SessionText, Sessions, load_sessions, read_sessions};
