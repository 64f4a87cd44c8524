//! The reasons of a verdict and the notes on it, as sentences.

use super::streams::EndedInOrder;
use crate::limit::{Limit, Statistic, short_percent};
use crate::outcome::CountsError;
use serde::{Serialize, Serializer};
use std::fmt;
use std::time::Duration;
use thalweg_units::display;

/// How the reason of an interrupted trial begins.
pub const RUN_INTERRUPTED: &str = "the run was interrupted";

/// Share of the offered requests that the client may fail to send.
pub(super) const UNSENT_MAX: f64 = 0.001;

/// Why a load thread got too little CPU time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starvation {
    /// It had no idle time left.
    Busy,
    /// It was runnable while something else ran.
    RunQueue,
    /// Its cgroup had used up its quota.
    Throttled,
    /// It did not wake up in time: it was stopped, or its CPU was taken away.
    Overslept,
}

/// One condition that a trial broke. Displays, and serialises, as one plain sentence without a full
/// stop.
#[derive(Debug, Clone, PartialEq)]
pub enum Reason {
    /// INVALID: there was no request to judge by.
    NothingOffered,
    /// INVALID: no request left in the measured time, and none had ended when it was over.
    NothingSent,
    /// FAIL: no response was whole by the end of the measured time.
    NothingCompleted {
        /// Requests that were sent.
        sent: u64,
        /// Responses that came after its end.
        later: u64,
        /// The measured time.
        duration: Duration,
    },
    /// INVALID: the client's own counts contradict each other.
    Miscounted(CountsError),
    /// INVALID: the client did not send the requests that the schedule called for.
    Unsent {
        /// Requests that were not sent because of the client.
        unsent: u64,
        /// Requests offered.
        offered: u64,
    },
    /// INVALID: the client sent so many requests so late that the load was another one.
    Bunched {
        /// Requests that were late by more than `after`.
        late: u64,
        /// Arrivals of the schedule.
        arrivals: u64,
        /// The time to the next arrival on average, or the least that counts.
        after: Duration,
        /// Requests that may be as late, as a share of the arrivals.
        bound: f64,
    },
    /// INVALID: the client sent late, and a failure may come of it.
    Lag {
        /// 99th percentile of the lag.
        p99_ns: u64,
        /// The allowed lag.
        bound: Duration,
    },
    /// INVALID: a limit was missed, and the client's own lateness is enough to explain it.
    LagInTail {
        /// The figure that the limit is on.
        statistic: Statistic,
        /// Its value in the response times, in nanoseconds.
        observed_ns: f64,
        /// Its value in the lags, in nanoseconds.
        lag_ns: f64,
        /// The limit on it.
        bound: Duration,
    },
    /// INVALID: no file descriptor was left.
    DescriptorsRanOut {
        /// Requests that ended so.
        requests: u64,
    },
    /// INVALID: no local address and port was left.
    AddressesRanOut {
        /// Requests that ended so.
        requests: u64,
    },
    /// INVALID: connections that were to be open from the start found no descriptor, address or
    /// port.
    ConnectionsLacking {
        /// How many.
        connections: u64,
    },
    /// INVALID: a load thread did not get the CPU time that it needed.
    CpuStarved {
        /// The CPU that the load thread was pinned to, or the thread's number.
        cpu: u32,
        /// The cause.
        cause: Starvation,
        /// Share of the trial's length.
        share: f64,
        /// Share that is allowed.
        bound: f64,
    },
    /// INVALID: something outside of the client kept it from its work for too long.
    Disturbed {
        /// The time that is left.
        clean: Duration,
        /// The time that was wanted.
        wanted: Duration,
        /// The disturbance, in words.
        cause: Option<String>,
    },
    /// INVALID: the user ended the trial before its planned end.
    Interrupted {
        /// The measured time until then.
        after: Duration,
        /// The planned time, if the trial had one and not a number of requests.
        planned: Option<Duration>,
    },
    /// FAIL, whatever the client did: the target refused connections.
    Refused {
        /// Requests that ended so.
        refused: u64,
        /// Requests offered.
        offered: u64,
    },
    /// FAIL: connections that were to be held were not open at the end.
    NotHeld {
        /// Connections that were open.
        held: u64,
        /// Connections that were to be.
        wanted: u64,
    },
    /// FAIL: a response-time limit was missed.
    ResponseTime {
        /// The figure that the limit is on.
        statistic: Statistic,
        /// Its value, in nanoseconds.
        observed_ns: f64,
        /// The limit on it.
        bound: Duration,
    },
    /// FAIL: there is no response to hold the limit against.
    NothingMeasured {
        /// The limit.
        limit: Limit,
    },
    /// FAIL: too many errors.
    Errors {
        /// The limit.
        limit: Limit,
        /// Requests that ended in an error.
        errors: u64,
        /// Requests offered.
        offered: u64,
    },
    /// FAIL: of these errors, the target certainly did not process some requests, and said so.
    NotProcessed {
        /// Requests that ended so.
        requests: u64,
        /// Connections that it ended in order.
        ended: EndedInOrder,
    },
    /// FAIL: connections were too slow.
    Connections {
        /// The limit.
        limit: Limit,
        /// Connections that met it.
        conforming: u64,
        /// Connections that received responses.
        measured: u64,
    },
    /// FAIL: another figure misses its limit.
    Figure {
        /// The limit.
        limit: Limit,
        /// The figure in words.
        observed: String,
    },
    /// FAIL: the target did not keep up with the schedule.
    Incomplete {
        /// Requests completed.
        completed: u64,
        /// Requests offered.
        offered: u64,
        /// Share of them that may be missing.
        allowed: f64,
    },
    /// FAIL: requests in flight rose from beginning to end.
    BacklogGrew {
        /// The rise in requests.
        rise: u64,
        /// The time that it took.
        duration: Duration,
    },
}

/// Something to know about a verdict that does not change it. Displays, and serialises, as one
/// plain sentence.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// The percentile rests on fewer samples than a firm verdict wants.
    FewSamples {
        /// The percentile.
        statistic: Statistic,
        /// Samples there are.
        samples: u64,
        /// Samples wanted, 1000/(1 - q).
        wanted: u64,
    },
    /// The client was late, and these parts of the response times are its lag.
    Late {
        /// 99th percentile of the lag.
        p99_ns: u64,
        /// The figures that are judged or shown, if there are response times.
        shares: Vec<LagShare>,
    },
    /// The trial has too few intervals to see a trend.
    BacklogUnjudged {
        /// Complete intervals.
        intervals: usize,
    },
}

/// The part of a figure of the response times that is lag.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LagShare {
    /// The figure.
    pub statistic: Statistic,
    /// Its value in nanoseconds.
    pub response_ns: f64,
    /// How much less it is without the lag of each request, in nanoseconds.
    pub lag_ns: f64,
}

impl Reason {
    /// Whether this is how the client came to miss the same limit.
    pub(super) fn explains(&self, missed: &Reason) -> bool {
        match (self, missed) {
            (
                Reason::LagInTail { statistic, bound, .. },
                Reason::ResponseTime { statistic: same, bound: bound_too, .. },
            ) => statistic == same && bound == bound_too,
            _ => false,
        }
    }

    /// Whether it is that the client was late, or had too little CPU time not to be.
    pub(super) fn is_lateness(&self) -> bool {
        matches!(
            self,
            Reason::Unsent { .. }
                | Reason::Bunched { .. }
                | Reason::Lag { .. }
                | Reason::LagInTail { .. }
                | Reason::CpuStarved { .. }
                | Reason::Disturbed { .. }
        )
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |part: u64, whole: u64| format!("{} of {}", display::count(part), display::count(whole));
        match self {
            Reason::NothingOffered => f.write_str("no request was offered"),
            Reason::NothingSent => f.write_str("no request was sent in the measured time"),
            Reason::NothingCompleted { sent, later, duration } => {
                let (sent, duration) = (display::count(*sent), display::time(duration.as_nanos() as u64));
                write!(f, "no response was complete by the end of the measured {duration}, of {sent} requests sent")?;
                match later {
                    0 => f.write_str("; use a longer --duration if responses take that long"),
                    _ => write!(
                        f,
                        "; {} came later: use a longer --duration, so that rates can be measured",
                        display::count(*later)
                    ),
                }
            }
            Reason::Miscounted(error) => write!(f, "the client miscounted: {error}"),
            Reason::Unsent { unsent, offered } => {
                let bound = short_percent(UNSENT_MAX);
                write!(f, "the client did not send {} requests, more than {bound} %", of(*unsent, *offered))
            }
            Reason::Bunched { late, arrivals, after, bound } => {
                let (late, arrivals) = (display::count(*late), display::count(*arrivals));
                let (after, bound) = (display::time(after.as_nanos() as u64), short_percent(*bound));
                write!(
                    f,
                    "the load was not the one asked for: the client sent {late} requests more than {after} late, \
                     above {bound} % of {arrivals} arrivals"
                )
            }
            Reason::Lag { p99_ns, bound } => {
                let (lag, bound) = (display::time_against(*p99_ns as f64, *bound), display::exact_time_spaced(*bound));
                write!(f, "the client sent late: its p99 lag {lag} is above {bound}")
            }
            Reason::LagInTail { statistic, observed_ns, lag_ns, bound } => {
                let time = |ns: &f64| display::time(ns.round() as u64);
                let (observed, lag, bound) = (time(observed_ns), time(lag_ns), display::exact_time_spaced(*bound));
                write!(
                    f,
                    "the client was late: {statistic} {observed} misses {bound}, but {statistic} of the client's lag \
                     is {lag}"
                )
            }
            Reason::DescriptorsRanOut { requests } => {
                write!(f, "file descriptors ran out for {} requests", display::count(*requests))
            }
            Reason::AddressesRanOut { requests } => {
                write!(f, "local addresses and ports ran out for {} requests", display::count(*requests))
            }
            Reason::ConnectionsLacking { connections } => {
                let count = display::count(*connections);
                write!(
                    f,
                    "{count} connections could not be opened: this host ran out of file descriptors or local \
                    ports"
                )
            }
            Reason::CpuStarved { cpu, cause, share, bound } => {
                let (share, bound) = (display::percent_against(*share, *bound), short_percent(*bound));
                write!(f, "the load thread on CPU {cpu} {cause} for {share} of the trial, above {bound} %")
            }
            Reason::Disturbed { clean, wanted, cause } => {
                let [clean, wanted] = [clean, wanted].map(|time| display::time(time.as_nanos() as u64));
                let cause = cause.as_deref().unwrap_or("the client waited for its CPU");
                write!(f, "{cause}: only {clean} of {wanted} are left when the disturbed time is left out")
            }
            Reason::Interrupted { after, planned } => {
                let [after, planned] =
                    [Some(after), planned.as_ref()].map(|time| time.map(|time| display::time(time.as_nanos() as u64)));
                write!(f, "{RUN_INTERRUPTED} after {}", after.unwrap_or_default())?;
                planned.map_or(Ok(()), |planned| write!(f, " of {planned}"))?;
                f.write_str(", before its planned end, so that it is not judged; requests in flight at that time are not counted")
            }
            Reason::Refused { refused, offered } => {
                write!(f, "the target refused connections for {} requests", of(*refused, *offered))
            }
            Reason::NotHeld { held, wanted } => {
                write!(f, "only {} connections were open at the end", of(*held, *wanted))
            }
            Reason::ResponseTime { statistic, observed_ns, bound } => {
                let relation = if *observed_ns > bound.as_nanos() as f64 { "above" } else { "not below" };
                let (observed, bound) =
                    (display::time_against(observed_ns.round(), *bound), display::exact_time_spaced(*bound));
                write!(f, "{statistic} {observed} is {relation} the limit of {bound}")
            }
            Reason::NothingMeasured { limit } => {
                write!(f, "no response was measured, so {limit} cannot be confirmed")
            }
            Reason::Errors { limit, errors, offered } => {
                let share = *errors as f64 / (*offered).max(1) as f64;
                let share = match limit {
                    Limit::Errors { share: bound, .. } => display::percent_against(share, *bound),
                    _ => display::percent(share),
                };
                write!(f, "errors {share} ({}) miss the limit {limit}", of(*errors, *offered))
            }
            Reason::NotProcessed { requests, ended } => {
                if ended.connections > 0 {
                    write!(f, "{ended}; ")?;
                }
                let (count, were) =
                    (display::count(*requests), if *requests == 1 { "request was" } else { "requests were" });
                write!(f, "{count} {were} not processed by the target, which has said so")
            }
            Reason::Figure { limit, observed } => write!(f, "{observed} misses the limit {limit}"),
            Reason::Connections { limit, conforming, measured } => {
                write!(f, "only {} connections meet {limit}", of(*conforming, *measured))
            }
            Reason::Incomplete { completed, offered, allowed } => {
                let allowed = short_percent(*allowed);
                write!(f, "completed {} offered requests; more than {allowed} % are missing", of(*completed, *offered))
            }
            Reason::BacklogGrew { rise, duration } => {
                let duration = display::time(duration.as_nanos() as u64);
                write!(f, "requests in flight rose by {} over {duration}", display::count(*rise))
            }
        }
    }
}

impl fmt::Display for Starvation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Starvation::Busy => "was busy",
            Starvation::RunQueue => "waited for its CPU",
            Starvation::Throttled => "was throttled by its cgroup",
            Starvation::Overslept => "was stalled",
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::FewSamples { statistic, samples, wanted } => {
                let (samples, wanted) = (display::count(*samples), display::count(*wanted));
                write!(f, "{statistic} from {samples} samples; {wanted} recommended")
            }
            Note::Late { p99_ns, shares } => {
                let time = |ns: f64| display::time(ns.round() as u64);
                write!(f, "the client was late: p99 of its lag is {}", time(*p99_ns as f64))?;
                let share = |share: &LagShare| {
                    format!("{} to {} ({})", time(share.lag_ns), share.statistic, time(share.response_ns))
                };
                let shares: Vec<String> = shares.iter().map(share).collect();
                match &shares[..] {
                    [] => Ok(()),
                    [only] => write!(f, "; lag adds {only}"),
                    [others @ .., last] => write!(f, "; lag adds {} and {last}", others.join(", ")),
                }
            }
            Note::BacklogUnjudged { intervals } => {
                write!(f, "{intervals} intervals are too few to detect a growing backlog")
            }
        }
    }
}

impl Serialize for Reason {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Serialize for Note {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
