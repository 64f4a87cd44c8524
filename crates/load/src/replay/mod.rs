//! Replay: access logs as load, each request at the time that the log says.
//!
//! [`recording`] reads a log, which [`order`] sorts within bounded memory; [`feed`] brings its
//! requests to the load threads while it is read, at the times that [`clock`] gives them. The
//! formats are read by `thalweg_formats`.

mod clock;
mod feed;
mod order;
mod recording;

pub use feed::{Feed, Feeder};
pub(crate) use recording::RecordedRequest;
pub use recording::{LogSummary, OpenLog, Recording, ReplayHead, ReplayOrders, SkipCounts};
