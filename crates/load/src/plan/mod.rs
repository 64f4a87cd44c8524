//! The plan of a run: checked, with every default filled in. It names requests, arrivals and
//! connections, and no protocol.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use thalweg_measure::LoopKind;
use thalweg_measure::trial::Thresholds;
use thalweg_sys::{DriverChoice, PeerAddr, PortRange};
use thalweg_tls::{ClientSettings, Resume};
use thalweg_wire::Version;
use thalweg_wire::proxy_protocol::ProxyVersion;

use crate::input::check::Check;
use crate::input::sessions::Sessions;
use crate::replay::Recording;
use crate::request::{RequestList, Templates};
use crate::tunnel::ProxyPlan;

pub(crate) mod choice;
pub(crate) mod rate;

pub use self::choice::Pick;
pub use self::rate::{RateError, RateProfile, RateText, Spacing};

/// The rate at which SPECweb99 calls a connection conforming.
pub const CONFORMING_BITS_PER_S: u64 = 320_000;

/// The default of [`Plan::receive_window`], which no response of a usual size fills: the server is
/// what is measured, not its wait for the client.
pub(crate) const RECEIVE_WINDOW: u32 = 1 << 30;

/// The default of [`Plan::receive_buffer_bytes`].
pub(crate) const RECEIVE_BUFFER_BYTES: usize = 64 * 1024;

/// The default of [`Plan::retries`]. Browsers and curl send such a request again, too (RFC 9113,
/// 8.7). A server that ends a connection after a number of requests has some on their way, and the
/// next connections may end before they come to one of them.
pub const RETRIES: u8 = 10;

/// One load at one level for one length.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server.
    pub peer: PeerAddr,
    /// Addresses of the server that connections go to in turn, and the figures are split by; empty:
    /// all go to the one above.
    pub peers: Vec<PeerAddr>,
    /// TLS on its connections; `None`: they are plain.
    pub tls: Option<TlsPlan>,
    /// The proxy that connections go through; [`peer`](Self::peer) is its address then.
    pub proxy: Option<ProxyPlan>,
    /// The PROXY header that each connection begins with, as from a proxy in front of the server.
    pub proxy_header: Option<ProxyHeaderPlan>,
    /// Local addresses of connections, one after the other; none leaves the choice to the kernel.
    pub sources: Vec<IpAddr>,
    /// Local ports of connections, divided between the threads; `None` leaves the choice to the
    /// kernel.
    pub ports: Option<PortRange>,
    /// The requests; never empty, unless they are recorded too.
    pub requests: RequestList,
    /// Their order, if neither the schedule nor a session determines it.
    pub pick: Pick,
    /// The times at which they are offered.
    pub arrivals: LoopPlan,
    /// The user that arrives; `None`: each arrival is one request.
    pub user: Option<UserPlan>,
    /// The length of the measured part, as a time or as a number.
    pub extent: Extent,
    /// Time before the measured part, at the same level and on the same connections, of which
    /// nothing is counted.
    pub warmup: Duration,
    /// How long after its intended time a request may take until it counts as a timeout, wherever
    /// it is then: waiting for a connection, on its way, or being responded to. With a pace it is
    /// the time that may pass without a byte, since the pace decides how long a response takes.
    pub timeout: Duration,
    /// How long after the end of the schedule requests that still wait for a connection may be
    /// sent. Those that are left then end as *not sent*.
    pub drain: Duration,
    /// Most connections open at once.
    pub connections: usize,
    /// How many connections are opened per second before the start; `None`: as fast as the server
    /// takes them.
    pub opening_rate: Option<f64>,
    /// How many connections are to be open at the end of the measured part, if the target is
    /// required to hold them.
    pub hold: Option<usize>,
    /// Requests per connection; `None`: as many as the server allows.
    pub calls: Option<u32>,
    /// Most requests under way at once on a connection; 1 waits for each response.
    pub pipeline: u32,
    /// Bytes that a server may send on a connection, and on each of its streams, before it has to
    /// wait for more to be allowed: where the protocol has such a bound. With a pace that is
    /// smaller: what is read ahead at the pace.
    pub receive_window: u32,
    /// Most bytes that one read takes of what a connection has received. A smaller buffer costs the
    /// client more system calls or completions.
    pub receive_buffer_bytes: usize,
    /// How often a request is sent again, at most, that the server says it has not processed, where
    /// the protocol can say so. It stays one request, due when it was.
    pub retries: u8,
    /// How often a request is sent again, at most, that has met the close of a kept connection
    /// before any byte of its response, over HTTP/1: one that may be sent twice.
    pub retries_idle: u8,
    /// How many redirects on the same host are followed for a request, at most. It stays one
    /// request, due when it was; users follow none.
    pub redirects_max: u8,
    /// The connection that takes the next request.
    pub reuse: Reuse,
    /// The pace at which responses are read; `None`: as fast as they come.
    pub pace: Option<Pace>,
    /// The conditions on responses.
    pub check: Check,
    /// Responses are read as curl reads them where they break the grammar of HTTP/1.
    pub is_lenient: bool,
    /// The rate from which on a connection counts as conforming.
    pub conforming_bits_per_s: u64,
    /// By how much longer the measured part may be made while it lasts ([`Progress::extend_by`]),
    /// to make up for time that was lost. Only of a load that goes on as before.
    ///
    /// [`Progress::extend_by`]: crate::Progress::extend_by
    pub extension_max: Duration,
    /// How late a thread may be before the time in which something else kept it from running is
    /// left out; `None`: nothing is.
    pub lateness_max: Option<Duration>,
    /// Response times against which requests are counted while the run lasts.
    pub thresholds: Thresholds,
    /// Whether the threads hand each interval of the course over as it ends
    /// ([`Progress::move_intervals`]), for an observer of the run.
    ///
    /// [`Progress::move_intervals`]: crate::Progress::move_intervals
    pub observed: bool,
    /// The CPU of each thread; never empty. Several threads may share one, so that each brings its
    /// own file table.
    pub cpus: Vec<usize>,
    /// Each thread has a file table of its own.
    pub own_tables: bool,
    /// The driver.
    pub driver: DriverChoice,
    /// Seed of everything random.
    pub seed: u64,
}

/// PROXY headers on the connections of a run (HAProxy, doc/proxy-protocol.txt).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeaderPlan {
    /// Their version.
    pub version: ProxyVersion,
    /// The client's address in them, where the plan has no local addresses. Its ports are counted
    /// up, so that they name no real connection.
    pub source: IpAddr,
}

/// TLS on the connections of a run.
#[derive(Clone, Debug)]
pub struct TlsPlan {
    /// Versions, authorities and the rest, with the sessions that can be resumed.
    pub settings: ClientSettings,
    /// The server's name or address, which its certificate has to be for.
    pub server_name: String,
    /// Whether sessions are resumed, as the settings have it.
    pub resume: Resume,
}

/// The times at which requests are offered.
#[derive(Clone, Debug)]
pub enum LoopPlan {
    /// Arrivals do not wait for responses. Each is a request, or a user if the plan has one.
    Open {
        /// Arrivals per second.
        rate: Arc<RateProfile>,
        /// How they lie in time.
        spacing: Spacing,
    },
    /// Requests at recorded times, which do not wait for responses either.
    Recorded {
        /// They come with their requests, in place of [`Plan::requests`].
        recording: Arc<Recording>,
    },
    /// Each worker sends a request when its last response has come, or begins as a user when its
    /// last one has ended.
    Closed {
        /// How many workers, each with a connection of its own.
        workers: usize,
        /// From a response to the next request.
        think: Duration,
        /// The workers begin at random times within this.
        stagger: Duration,
    },
}

impl LoopPlan {
    /// An open loop at one rate, evenly spaced.
    pub fn at_rate(rate: f64) -> Self {
        Self::Open { rate: Arc::new(RateProfile::constant(rate)), spacing: Spacing::Constant }
    }

    /// A closed loop whose workers all begin at once.
    pub fn of_workers(workers: usize, think: Duration) -> Self {
        Self::Closed { workers, think, stagger: Duration::ZERO }
    }

    /// Whether arrivals wait for responses.
    pub fn kind(&self) -> LoopKind {
        match self {
            Self::Open { .. } | Self::Recorded { .. } => LoopKind::Open,
            Self::Closed { .. } => LoopKind::Closed,
        }
    }
}

/// A user that arrives: it makes several calls on connections of their own, which are closed after
/// the last of them. A call that follows another waits for its response, whatever the loop is.
#[derive(Clone, Debug)]
pub enum UserPlan {
    /// So many calls one after the other, as httperf makes them with `--num-calls`. If the server
    /// closes the connection between two of them, the user ends there.
    Calls(u32),
    /// The sessions of a file in their order. If the server closes the connection between two
    /// calls, the session goes on with another one.
    Sessions {
        /// Their bursts.
        sessions: Arc<Sessions>,
        /// Time between two bursts, where the session does not say.
        think: Duration,
        /// Most connections that one has open at once. A call that finds [`Plan::pipeline`] under
        /// way on each opens another one.
        connections: usize,
    },
}

/// The measured part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A length.
    Duration(Duration),
    /// A number of arrivals: requests, or users.
    Requests(u64),
}

/// The connection, of those with room, that takes the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Reuse {
    /// The one that has been idle for longest: all connections, and with them all of a server's
    /// workers, get their share.
    #[default]
    Oldest,
    /// The one that was used last: as few connections as the load needs, like the pools of most
    /// HTTP clients.
    Latest,
}

/// The pace at which a connection's responses are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Bytes per second, of all that is received; `None`: as they come.
    pub bytes_per_s: Option<u64>,
    /// From a request to the first byte of its response, at the least, as a long path would have
    /// it. If the rate is not bounded, it is also the time from one read of up to 64 KiB to the
    /// next: such a path carries one window in each round trip.
    pub delay: Duration,
}

impl Pace {
    /// At so many bits per second, over a path with that round trip.
    pub fn new(bits_per_s: Option<u64>, delay: Duration) -> Self {
        Self { bytes_per_s: bits_per_s.map(|bits| (bits / 8).max(1)), delay }
    }
}

impl Plan {
    /// A plan with nothing but the necessary, for one thread on CPU 0 and one connection;
    /// everything else is to be set.
    pub fn new(peer: PeerAddr, requests: RequestList, arrivals: LoopPlan, extent: Extent) -> Self {
        const TIMEOUT: Duration = Duration::from_secs(5);
        Self {
            peer,
            peers: Vec::new(),
            tls: None,
            proxy: None,
            proxy_header: None,
            sources: Vec::new(),
            ports: None,
            requests,
            pick: Pick::default(),
            arrivals,
            user: None,
            extent,
            warmup: Duration::ZERO,
            timeout: TIMEOUT,
            drain: TIMEOUT,
            connections: 1,
            opening_rate: None,
            hold: None,
            calls: None,
            pipeline: 1,
            receive_window: RECEIVE_WINDOW,
            receive_buffer_bytes: RECEIVE_BUFFER_BYTES,
            retries: RETRIES,
            retries_idle: 0,
            redirects_max: 0,
            reuse: Reuse::default(),
            pace: None,
            check: Check::default(),
            is_lenient: false,
            conforming_bits_per_s: CONFORMING_BITS_PER_S,
            extension_max: Duration::ZERO,
            lateness_max: None,
            thresholds: Thresholds::default(),
            observed: false,
            cpus: vec![0],
            own_tables: false,
            driver: DriverChoice::default(),
            seed: 1,
        }
    }

    /// The version of HTTP of its requests.
    pub fn version(&self) -> Version {
        self.templates().version()
    }

    /// The common parts of its requests.
    pub(crate) fn templates(&self) -> &Templates {
        match &self.arrivals {
            LoopPlan::Recorded { recording } => recording.templates(),
            LoopPlan::Open { .. } | LoopPlan::Closed { .. } => self.requests.packed().templates(),
        }
    }

    /// The local ports of one of the threads.
    pub(crate) fn ports_of(&self, thread: usize) -> Option<PortRange> {
        let range = self.ports?;
        let at = |share: usize| range.first() as usize + range.count() * share / self.cpus.len();
        PortRange::new(u16::try_from(at(thread)).ok()?, u16::try_from(at(thread + 1) - 1).ok()?)
    }

    /// How long the measured part is; zero where it takes as long as it takes: a closed loop's
    /// number of requests, or a number of users.
    pub fn schedule_length(&self) -> Duration {
        match (self.extent, &self.arrivals) {
            (Extent::Duration(length), _) => length,
            (Extent::Requests(_), LoopPlan::Closed { .. }) => Duration::ZERO,
            (Extent::Requests(_), LoopPlan::Open { .. }) if self.user.is_some() => Duration::ZERO,
            (Extent::Requests(total), LoopPlan::Open { rate, .. }) => {
                Duration::from_nanos(u64::try_from(rate.due_ns(total as f64)).unwrap_or(0))
            }
            (Extent::Requests(_), LoopPlan::Recorded { recording }) => Duration::from_nanos(recording.length_ns()),
        }
    }

    /// How long the load takes at least, warm-up and measured part together, as far as its own
    /// numbers say: a closed loop takes its think times, and whatever the target adds.
    pub fn length_min(&self) -> Duration {
        let measured = match (self.extent, &self.arrivals) {
            (Extent::Requests(total), LoopPlan::Closed { workers, think, .. }) => {
                // Think times lie between a worker's requests; the first of them comes at once.
                let pauses = total.saturating_sub(1) / (*workers).max(1) as u64;
                Duration::try_from_secs_f64(think.as_secs_f64() * pauses as f64).unwrap_or(Duration::MAX)
            }
            // Users that arrive; the time that the last one takes is not known.
            (Extent::Requests(total), LoopPlan::Open { rate, .. }) if self.user.is_some() => {
                Duration::from_nanos(u64::try_from(rate.due_ns(total.saturating_sub(1) as f64)).unwrap_or(0))
            }
            _ => self.schedule_length(),
        };
        measured.saturating_add(self.warmup)
    }

    /// Requests per second of the schedule; `None` in a closed loop. Of users it counts all calls.
    pub fn offered_rate(&self) -> Option<f64> {
        let arrivals = match &self.arrivals {
            LoopPlan::Closed { .. } => return None,
            LoopPlan::Open { rate, .. } => match rate.as_constant() {
                Some(rate) => rate,
                None => rate.mean(self.schedule_length().max(Duration::from_nanos(1))),
            },
            LoopPlan::Recorded { recording } => recording.requests() as f64 / self.schedule_length().as_secs_f64(),
        };
        Some(arrivals * self.calls_per_arrival())
    }

    /// Requests that an arrival stands for on average: the calls of a user, or one.
    pub fn calls_per_arrival(&self) -> f64 {
        match &self.user {
            None => 1.0,
            Some(UserPlan::Calls(calls)) => f64::from(*calls),
            Some(UserPlan::Sessions { sessions, .. }) => sessions.calls_mean(),
        }
    }

    /// Whether the load would go on as before if the measured part were longer.
    pub fn is_extensible(&self) -> bool {
        let goes_on = match &self.arrivals {
            LoopPlan::Open { rate, .. } => rate.as_constant().is_some(),
            LoopPlan::Recorded { .. } => false,
            LoopPlan::Closed { .. } => true,
        };
        goes_on && matches!(self.extent, Extent::Duration(_)) && self.hold.is_none() && self.pace.is_none()
    }

    /// Most requests that the measured part offers; `None` where that depends on the target, or on
    /// the sessions that come.
    pub fn offered_max(&self) -> Option<u64> {
        /// Standard deviations that a Poisson process stays below but for one in a billion.
        const DEVIATIONS: f64 = 6.0;
        let calls = match &self.user {
            None => 1,
            Some(UserPlan::Calls(calls)) => u64::from(*calls),
            Some(UserPlan::Sessions { .. }) => return None,
        };
        let arrivals = match (self.extent, &self.arrivals) {
            (Extent::Requests(total), _) => total,
            (Extent::Duration(length), LoopPlan::Open { rate, spacing }) => {
                let mean = rate.count_until((length + self.extension_max).as_secs_f64());
                let more = if *spacing == Spacing::Poisson { DEVIATIONS * mean.max(1.0).sqrt() } else { 0.0 };
                (mean + more).ceil() as u64
            }
            (Extent::Duration(_), LoopPlan::Recorded { recording }) => recording.requests(),
            (Extent::Duration(_), LoopPlan::Closed { .. }) => return None,
        };
        Some(arrivals.saturating_mul(calls))
    }

    /// How long before an arrival a thread's sleep ends; what is left it spends without sleeping,
    /// so that the request leaves when it is due (bench/TRIED.md, "Waking before an arrival"). A
    /// closed loop has no schedule to be late on, and threads that share a CPU have no time to
    /// spare; nor has one whose arrivals follow so closely that it would hardly sleep at all. It
    /// would be taken for one that uses up its CPU, by the kernel's scheduler, too.
    pub fn wake_early_ns(&self) -> u64 {
        const WAKE_EARLY_NS: u64 = 30_000;
        const RATE_MAX: f64 = 8_000.0;
        let rate = match &self.arrivals {
            LoopPlan::Open { rate, .. } => rate.highest(),
            LoopPlan::Recorded { .. } => self.offered_rate().unwrap_or(f64::INFINITY),
            LoopPlan::Closed { .. } => return 0,
        };
        let calm = rate / self.cpus.len() as f64 <= RATE_MAX;
        if calm && !self.own_tables { WAKE_EARLY_NS } else { 0 }
    }

    /// How many connections one of the threads opens before the start. A connection for a few calls
    /// is opened when it is needed, as what is measured includes it; and a load of a known number
    /// of requests never needs more connections than requests.
    pub(crate) fn connections_ahead(&self, thread: usize) -> usize {
        if self.calls.is_some() || self.user.is_some() {
            return 0;
        }
        let connections = self.share_of(self.connections, thread).max(1);
        match self.extent {
            Extent::Requests(total) if self.warmup.is_zero() && self.hold.is_none() => {
                connections.min(self.share_of(usize::try_from(total).unwrap_or(usize::MAX), thread))
            }
            _ => connections,
        }
    }

    /// Whether the run ends with its schedule, whatever is under way then: downloads at a pace may
    /// take hours.
    pub(crate) fn cuts_at_end(&self) -> bool {
        self.pace.is_some() && matches!(self.extent, Extent::Duration(_))
    }

    /// Connections that one CPU carries, at most, whichever number of threads it has.
    pub(crate) fn connections_per_cpu(&self) -> usize {
        let cpus: BTreeSet<usize> = self.cpus.iter().copied().collect();
        self.connections.div_ceil(cpus.len())
    }

    /// The share of one of the threads: its index of `0..cpus.len()` decides which arrivals and
    /// connections are its own.
    pub(crate) fn share_of(&self, total: usize, thread: usize) -> usize {
        let threads = self.cpus.len();
        total / threads + usize::from(thread < total % threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_knows_how_long_it_takes_at_least() {
        let peer = PeerAddr::Tcp("10.0.0.1:80".parse().expect("an address"));
        let plan = |arrivals, extent| Plan::new(peer.clone(), [].into(), arrivals, extent);
        let days = |plan: &Plan| plan.length_min().as_secs() / 86_400;
        let slow = plan(LoopPlan::at_rate(1e-7), Extent::Requests(1));
        assert_eq!(days(&slow), 115);
        assert_eq!(days(&Plan { warmup: Duration::from_secs(86_400), ..slow }), 116);
        let day = Duration::from_secs(86_400);
        let thinking = plan(LoopPlan::of_workers(2, day), Extent::Requests(10));
        assert_eq!(days(&thinking), 4);
        let users = plan(LoopPlan::at_rate(1e-5), Extent::Requests(11));
        assert_eq!(days(&Plan { user: Some(UserPlan::Calls(1)), ..users }), 11);
        assert_eq!(days(&plan(LoopPlan::at_rate(1.0), Extent::Duration(3 * day))), 3);
    }
}
