//! The load engine: it offers requests to a server on a schedule and accounts for the outcome of
//! each of them.
//!
//! [`Plan`] says what to offer; [`start`] runs it on one thread per CPU and gives [`RunFigures`].
//! Each thread runs an [`Engine`], an event loop's application that is generic over the driver, so
//! that the same code offers load over io_uring and epoll and is tested in a simulation.
//!
//! Deliberately not here: reading options and opening files, judging results, searching for
//! capacities, and any knowledge of the server beyond its address and its responses.
#![forbid(unsafe_code)]

mod barrier;
mod call;
mod connection;
mod engine;
mod figures;
mod input;
mod plan;
mod progress;
pub mod protocol;
mod redirect;
mod replay;
mod request;
mod runner;
mod schedule;
mod transport;
mod tunnel;
mod user;
mod weights;

pub use barrier::StartBarrier;
pub use engine::{Engine, WaitSource};
pub use figures::RunFigures;
pub use input::check::{Check, CheckError, CheckTable, FieldCheck, FieldValue, ListEntry, StatusSet};
pub use input::list::read_list;
pub use input::sessions::{BurstText, CallText, SessionFile, SessionText, Sessions, load_sessions, read_sessions};
pub use input::text::{ENTRIES_MAX, InputError, LINE_BYTES_MAX, ReadError};
pub use plan::{
    CONFORMING_BITS_PER_S, Extent, LoopPlan, Pace, Pick, Plan, ProxyHeaderPlan, RETRIES, RateError, RateProfile,
    RateText, Reuse, Spacing, TlsPlan, UserPlan,
};
pub use progress::{FirstEnds, Progress, Snapshot};
pub use replay::{Feed, Feeder, LogSummary, OpenLog, Recording, ReplayHead, ReplayOrders, SkipCounts};
pub use request::{
    FieldLines, PackError, PackedRequests, RequestError, RequestList, RequestParts, RequestTemplate, RequestText,
    RequestView, Template, Templates, template,
};
pub use runner::{LoadError, Running, start};
pub use schedule::{Arrival, Arrivals, ClosedLoop, OpenLoop, RecordedLoop, Share};
pub use tunnel::{ProxyKind, ProxyPlan};
pub use weights::{WeightError, Weights};
