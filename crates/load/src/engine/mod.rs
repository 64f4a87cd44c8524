//! The engine: one load thread's share of a run, as an application of the event loop.
//!
//! A request on an open connection costs one send, its completion, the completion of its response,
//! one pass over the response's head, and a few counters and histogram slots. Nothing is allocated.
//!
//! A request waits for a connection in the schedule itself ([`crate::Arrivals`]): a connection that
//! gets room takes the oldest arrival that is due. All parts work on the engine's [`state`]:
//! [`app`] takes completions and deadlines, [`opening`] makes connections, [`calls`] carries
//! requests over them and [`submitting`] hands them to the driver, [`users`] has users make several
//! calls on connections of their own, [`retries`] sends refused requests again, [`redirects`]
//! follows redirects, [`pacing`] reads slowly, [`records`] speaks TLS, and [`accounting`] records
//! what has happened. The protocol of the connections is a parameter
//! ([`crate::protocol::Protocol`]).

mod accounting;
mod app;
mod calls;
mod disturbance;
mod left_out;
mod opening;
mod pacer;
mod pacing;
mod paused;
mod peer;
mod proxied;
mod records;
mod redirects;
mod requests;
mod responses;
mod retries;
mod state;
mod submitting;
mod tunnelled;
mod users;

pub use disturbance::WaitSource;
pub use state::Engine;
