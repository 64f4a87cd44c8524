//! The figures of one trial, and the verdict on them.
//!
//! A trial is one load at one level for one length, after a warm-up that is not in its figures. The
//! load engine fills one [`TrialFigures`] per load thread and merges them; [`verdict()`] judges the
//! whole.

mod backlog;
mod by_address;
mod certainty;
mod connections;
mod figures;
mod lateness;
mod left_out;
mod protocol_errors;
mod reason;
mod redirects;
mod sample;
mod sessions;
mod shortfall;
mod so_far;
mod streams;
#[cfg(test)]
mod tests;
mod tls;
mod verdict;

pub use by_address::{AddressFigures, AddressSummary};
pub use certainty::Certainty;
pub use connections::Connections;
pub use figures::{Bytes, CpuUse, LoopKind, Rates, TrialFigures, WindowCounts};
pub use lateness::lag_bound;
pub use left_out::{LeftOut, SecondLost, settled_after_ns};
pub use protocol_errors::{FIRST_BYTES, ProtocolError, ProtocolErrors, RuleOf};
pub use reason::{LagShare, Note, RUN_INTERRUPTED, Reason, Starvation};
pub use redirects::{NotFollowed, RedirectSample, Redirects};
pub use sample::Sample;
pub use sessions::{Sessions, SessionsSummary};
pub use so_far::{OverLimits, SoFar, Thresholds};
pub use streams::{EndedInOrder, StreamFigures, StreamsSummary};
pub use tls::{Negotiated, NegotiatedCount, TlsFigures, TlsSummary};
pub use verdict::{Judgement, OnInterrupt, Verdict, verdict};
