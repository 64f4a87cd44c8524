//! The figures of one trial: counts, times and the use of CPUs, from one load thread or merged over
//! all.

use super::by_address::AddressFigures;
use super::connections::Connections;
use super::left_out::LeftOut;
use super::protocol_errors::ProtocolErrors;
use super::redirects::Redirects;
use super::sample::Sample;
use super::sessions::Sessions;
use super::so_far::{OverLimits, SoFar, Thresholds};
use super::streams::StreamFigures;
use super::tls::TlsFigures;
use crate::histogram::Histogram;
use crate::interval::IntervalSeries;
use crate::outcome::{Causes, Counts, Outcome, Outcomes};
use crate::status::StatusCodes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Whether arrivals wait for responses. Every result states which of the two it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoopKind {
    /// Arrivals follow a schedule, whatever the target does.
    Open,
    /// Each worker sends when it has received its last response.
    Closed,
}

/// The figures of one trial, of one load thread or merged over all. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialFigures {
    /// Open or closed.
    pub loop_kind: LoopKind,
    /// Requests per second that the schedule called for, over all load threads; `None` in a closed
    /// loop.
    pub offered_rate: Option<f64>,
    /// Requests that an arrival stands for on average: 1, or the calls of a user.
    pub calls_per_arrival: f64,
    /// Length of the schedule. Requests offered within it may end a little later.
    pub duration: Duration,
    /// From the start of the schedule to the end of the last request that was offered in it; see
    /// [`TrialFigures::span`].
    pub last_end: Duration,
    /// Offered, sent, completed, good.
    pub counts: Counts,
    /// How the offered requests ended.
    pub outcomes: Outcomes,
    /// Failures by cause, in more detail than by outcome.
    pub causes: Causes,
    /// The events before the schedule ended, from which rates are made.
    pub in_window: WindowCounts,
    /// Of the requests that were not sent, those for which every allowed connection was busy until
    /// the end. The target held them back, not the client; see [`verdict()`](super::verdict()).
    pub held_back: u64,
    /// Responses by status, interim ones included.
    pub status_codes: StatusCodes,
    /// Redirects among them, if there were any that the load did not take for good.
    pub redirects: Option<Redirects>,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Last byte less sent.
    pub service_time: Histogram,
    /// Sent less the moment when it could have been sent, which is the intended time, or the end of
    /// the wait for a connection if there was one. What is left is the client's own lateness.
    pub lag: Histogram,
    /// Response time less the lag of the same request, of all requests that have a response time.
    pub without_lag: Histogram,
    /// Wait for a connection, part of the response time.
    pub queue: Histogram,
    /// Set-up of a connection, without TLS.
    pub connect: Histogram,
    /// First byte of the response less sent.
    pub first_byte: Histogram,
    /// Last byte less first byte of the response.
    pub transfer: Histogram,
    /// From the first attempt to connect to the close, of connections that carried at least one
    /// whole response.
    pub connection_lifetime: Histogram,
    /// Response times against the limits, while the trial lasts.
    pub over_limits: OverLimits,
    /// The course of the trial, and with it the response times.
    pub intervals: IntervalSeries,
    /// Connections that were to be open at the end, over all load threads, if the load was to hold
    /// some.
    pub to_hold: Option<u64>,
    /// Connections by what became of them.
    pub connections: Connections,
    /// Bits per second at which each connection's responses arrived, of the connections that
    /// received any.
    pub bits_per_connection: Histogram,
    /// Requests that were under way when the trial was cut off, by an interruption or, where
    /// downloads are read slowly, by the end of the schedule. They are in none of the counts; the
    /// series has them in flight at its end.
    pub under_way: u64,
    /// The time whose requests are left out of all that is counted here by request.
    pub left_out: LeftOut,
    /// The requests that are left out.
    pub(super) left_out_requests: Option<Box<TrialFigures>>,
    /// The load ends at a time, not after a number of requests; so responses are to come within it.
    pub ends_by_time: bool,
    /// The time that was to be measured; `None`: the length of the schedule. A verdict needs half
    /// of it.
    pub wanted: Option<Duration>,
    /// The disturbance that most was left out for, in words.
    pub disturbed_by: Option<String>,
    /// Sessions, if the load was made of some: several calls each of which the next depends on the
    /// last. Connections that carry a number of unrelated calls are none.
    pub sessions: Option<Sessions>,
    /// TLS handshakes, if there were any.
    pub tls: Option<TlsFigures>,
    /// HTTP/2 streams, if there were any.
    pub streams: Option<StreamFigures>,
    /// The addresses that connections went to in turn; empty: to one alone.
    pub by_address: Vec<AddressFigures>,
    /// Connections for which a proxy made no tunnel, and its reason for the first one.
    pub proxy_refusals: u64,
    /// That reason.
    pub proxy_refusal: Option<String>,
    /// Protocol errors by cause.
    pub protocol_errors: ProtocolErrors,
    /// The first good response, as a sample of the target's responses.
    pub sample: Option<Sample>,
    /// The use of each CPU that carried load threads.
    pub cpus: Vec<CpuUse>,
}

/// Events between the start and the end of the schedule. Requests that wait when it ends may still
/// be carried by the target afterwards; counted into a rate, they would make an overloaded target
/// look faster than it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WindowCounts {
    /// Requests sent.
    pub sent: u64,
    /// Requests completed.
    pub completed: u64,
    /// Good requests.
    pub good: u64,
    /// Connections opened.
    pub connections: u64,
}

impl WindowCounts {
    /// Adds the events of another load thread.
    pub fn merge(&mut self, other: &WindowCounts) {
        self.sent += other.sent;
        self.completed += other.completed;
        self.good += other.good;
        self.connections += other.connections;
    }
}

/// Bytes moved in a trial. What could not be read as a part of a response is only in the total.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Bytes {
    /// Received in all.
    #[serde(rename = "in")]
    pub received: u64,
    /// Sent in all.
    #[serde(rename = "out")]
    pub sent: u64,
    /// Received in heads, those of interim responses included.
    #[serde(rename = "head_in", default)]
    pub head_received: u64,
    /// Received in bodies.
    #[serde(rename = "body_in")]
    pub body_received: u64,
    /// Received in the framing of bodies: chunk lines, line ends behind chunks, trailers.
    #[serde(rename = "framing_in", default)]
    pub framing_received: u64,
    /// Sent in heads.
    #[serde(rename = "head_out", default)]
    pub head_sent: u64,
    /// Sent in bodies.
    #[serde(rename = "body_out", default)]
    pub body_sent: u64,
}

impl Bytes {
    /// Adds the bytes of another load thread.
    pub fn merge(&mut self, other: &Bytes) {
        self.received += other.received;
        self.sent += other.sent;
        self.head_received += other.head_received;
        self.body_received += other.body_received;
        self.framing_received += other.framing_received;
        self.head_sent += other.head_sent;
        self.body_sent += other.body_sent;
    }
}

/// The use of one CPU by its load thread (or threads, once they are joined) during a trial. Times
/// in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CpuUse {
    /// The CPU that the load thread was pinned to, or the number of the thread if it was not.
    pub cpu: u32,
    /// CPU time in user mode.
    pub cpu_user_ns: u64,
    /// CPU time in the kernel.
    pub cpu_system_ns: u64,
    /// Time spent on work: the trial's length less the time spent waiting for something to do. A
    /// busy wait is waiting.
    pub busy_ns: u64,
    /// Time spent runnable but not running.
    pub run_queue_wait_ns: u64,
    /// The part of that for which time was left out.
    #[serde(default)]
    pub left_out_wait_ns: u64,
    /// Time for which the cgroup's quota stopped the thread.
    pub throttled_ns: u64,
    /// Time by which the thread came back too late from its sleeps, and other standstills that it
    /// noticed.
    pub overslept_ns: u64,
}

/// Rates over the length of a trial, per second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Requests sent.
    pub sent: f64,
    /// Requests completed.
    pub completed: f64,
    /// Good requests: the goodput.
    pub good: f64,
    /// Connections opened.
    pub connections: f64,
}

impl TrialFigures {
    /// Figures of a trial that has not begun.
    pub fn new(loop_kind: LoopKind, offered_rate: Option<f64>, duration: Duration, intervals: IntervalSeries) -> Self {
        TrialFigures {
            loop_kind,
            offered_rate,
            calls_per_arrival: 1.0,
            duration,
            last_end: Duration::ZERO,
            counts: Counts::default(),
            outcomes: Outcomes::default(),
            causes: Causes::default(),
            in_window: WindowCounts::default(),
            held_back: 0,
            status_codes: StatusCodes::default(),
            redirects: None,
            bytes: Bytes::default(),
            service_time: Histogram::new(),
            lag: Histogram::new(),
            without_lag: Histogram::new(),
            queue: Histogram::new(),
            connect: Histogram::new(),
            first_byte: Histogram::new(),
            transfer: Histogram::new(),
            connection_lifetime: Histogram::new(),
            over_limits: OverLimits::new(Thresholds::default()),
            intervals,
            to_hold: None,
            connections: Connections::default(),
            bits_per_connection: Histogram::new(),
            under_way: 0,
            left_out: LeftOut::default(),
            left_out_requests: None,
            ends_by_time: false,
            wanted: None,
            disturbed_by: None,
            sessions: None,
            tls: None,
            streams: None,
            by_address: Vec::new(),
            proxy_refusals: 0,
            proxy_refusal: None,
            protocol_errors: ProtocolErrors::default(),
            sample: None,
            cpus: Vec::new(),
        }
    }

    /// Adds the figures of another load thread of the same trial. Loop, offered rate, duration and
    /// what was to be held are the trial's and stay.
    pub fn merge(&mut self, other: &TrialFigures) {
        self.merge_requests(other);
        self.last_end = self.last_end.max(other.last_end);
        self.connection_lifetime.merge(&other.connection_lifetime);
        self.intervals.merge(&other.intervals);
        self.connections.merge(&other.connections);
        self.bits_per_connection.merge(&other.bits_per_connection);
        self.under_way += other.under_way;
        self.left_out.merge(&other.left_out);
        if let Some(theirs) = &other.left_out_requests {
            match &mut self.left_out_requests {
                Some(mine) => mine.merge_requests(theirs),
                None => self.left_out_requests = Some(theirs.clone()),
            }
        }
        if let Some(theirs) = &other.sessions {
            self.sessions.get_or_insert_default().merge(theirs);
        }
        if let Some(theirs) = &other.tls {
            self.tls.get_or_insert_default().merge(theirs);
        }
        if let Some(theirs) = &other.streams {
            self.streams.get_or_insert_default().merge(theirs);
        }
        for (mine, theirs) in self.by_address.iter_mut().zip(&other.by_address) {
            mine.merge(theirs);
        }
        self.proxy_refusals += other.proxy_refusals;
        self.proxy_refusal = self.proxy_refusal.take().or_else(|| other.proxy_refusal.clone());
        self.protocol_errors.merge(&other.protocol_errors);
        if self.sample.is_none() {
            self.sample.clone_from(&other.sample);
        }
        self.cpus.extend_from_slice(&other.cpus);
    }

    /// Last byte less intended time, of all requests that have a response time: the headline
    /// figure.
    ///
    /// A timeout is recorded at not less than the timeout's value, so that errors never make
    /// latency look better. Summed over the intervals at every call; take it once.
    pub fn response_time(&self) -> Histogram {
        self.intervals.response_time()
    }

    /// Counts a response time against the limits, and what is left of it without its lag.
    pub fn record_response(&mut self, response_ns: u64, lag_ns: u64) {
        self.over_limits.record(response_ns);
        self.without_lag.record(response_ns.saturating_sub(lag_ns));
    }

    /// The counts that may make FAIL certain.
    pub fn so_far(&self) -> SoFar {
        if self.intervals.leaves_out() {
            return self.left_out_requests.as_ref().map_or_else(SoFar::default, |counted| counted.so_far());
        }
        let (ended, completed) = (self.outcomes.total(), self.outcomes.completed());
        self.over_limits.so_far(self.outcomes.errors(), ended - completed)
    }

    /// How long the trial took until everything that was offered in it had ended: at least the
    /// length of the schedule. What is counted over all requests, and not within the window, makes
    /// a rate only over this.
    pub fn span(&self) -> Duration {
        self.last_end.max(self.duration)
    }

    /// Counts a connection that was open and is not any more; `lifetime_ns` runs from the first
    /// attempt to connect.
    pub fn record_close(&mut self, lifetime_ns: u64, replies: u64, failed: bool) {
        self.connections.record_close(replies, failed);
        if replies > 0 {
            self.connection_lifetime.record(lifetime_ns);
        }
    }

    /// The part of the schedule's length that is not left out.
    pub fn clean(&self) -> Duration {
        self.duration.saturating_sub(self.left_out.total())
    }

    /// Goes over from requests that count to those that are left out, or back. What is counted by
    /// connection, by session or over time goes on.
    pub fn switch(&mut self, leaves_out: bool) {
        if self.intervals.leaves_out() == leaves_out {
            return;
        }
        self.intervals.leave_out(leaves_out);
        let mut others = self.left_out_requests.take().unwrap_or_else(|| Box::new(self.emptied()));
        self.swap_requests(&mut others);
        self.left_out_requests = Some(others);
    }

    /// The figures of the requests that are left out, while others are counted.
    pub fn left_out_requests(&mut self) -> &mut TrialFigures {
        if self.left_out_requests.is_none() {
            self.left_out_requests = Some(Box::new(self.emptied()));
        }
        self.left_out_requests.as_mut().expect("there are some now")
    }

    /// The ends of the requests that are left out.
    pub fn left_out_outcomes(&self) -> Outcomes {
        self.left_out_requests.as_ref().map_or_else(Outcomes::default, |requests| requests.outcomes)
    }

    /// Figures of the same trial without any requests.
    fn emptied(&self) -> Self {
        let intervals = IntervalSeries::new(self.intervals.width_ns(), 2);
        let over_limits = self.over_limits.emptied();
        TrialFigures { over_limits, ..Self::new(self.loop_kind, None, self.duration, intervals) }
    }

    /// Counts what was left out after all, since it was not a disturbance from outside.
    pub fn take_back(&mut self) {
        self.switch(false);
        self.left_out = LeftOut::default();
        let Some(left_out) = self.left_out_requests.take() else { return };
        self.intervals.take_back();
        self.merge_requests(&left_out);
        self.counts = Counts::of(&self.outcomes, self.counts.sent);
        self.cpus.iter_mut().for_each(|cpu| cpu.left_out_wait_ns = 0);
    }

    /// Adds what is counted by request, but for the course.
    pub(super) fn merge_requests(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.outcomes.merge(&other.outcomes);
        self.causes.merge(&other.causes);
        self.in_window.merge(&other.in_window);
        self.held_back += other.held_back;
        self.status_codes.merge(&other.status_codes);
        if let Some(theirs) = &other.redirects {
            self.redirects.get_or_insert_default().merge(theirs);
        }
        self.bytes.merge(&other.bytes);
        self.service_time.merge(&other.service_time);
        self.lag.merge(&other.lag);
        self.without_lag.merge(&other.without_lag);
        self.queue.merge(&other.queue);
        self.connect.merge(&other.connect);
        self.first_byte.merge(&other.first_byte);
        self.transfer.merge(&other.transfer);
        self.over_limits.merge(&other.over_limits);
    }

    /// Exchanges the same.
    fn swap_requests(&mut self, other: &mut Self) {
        use std::mem::swap;
        swap(&mut self.counts, &mut other.counts);
        swap(&mut self.outcomes, &mut other.outcomes);
        swap(&mut self.causes, &mut other.causes);
        swap(&mut self.in_window, &mut other.in_window);
        swap(&mut self.held_back, &mut other.held_back);
        swap(&mut self.status_codes, &mut other.status_codes);
        swap(&mut self.redirects, &mut other.redirects);
        swap(&mut self.bytes, &mut other.bytes);
        swap(&mut self.service_time, &mut other.service_time);
        swap(&mut self.lag, &mut other.lag);
        swap(&mut self.without_lag, &mut other.without_lag);
        swap(&mut self.queue, &mut other.queue);
        swap(&mut self.connect, &mut other.connect);
        swap(&mut self.first_byte, &mut other.first_byte);
        swap(&mut self.transfer, &mut other.transfer);
        swap(&mut self.over_limits, &mut other.over_limits);
    }

    /// Rates over the part of the schedule's length that counts, of what happened within it.
    pub fn rates(&self) -> Rates {
        let seconds = self.clean().as_secs_f64();
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        Rates {
            sent: rate(self.in_window.sent),
            completed: rate(self.in_window.completed),
            good: rate(self.in_window.good),
            connections: rate(self.in_window.connections),
        }
    }

    /// Whether no response was completed: within the schedule, if that ends at a time, else at all.
    pub fn completed_nothing(&self) -> bool {
        self.outcomes.completed() == 0 || (self.ends_by_time && self.in_window.completed == 0)
    }

    /// Requests that did not leave and the client is to blame for: it had no descriptor or address,
    /// or did not get to them before the schedule ended.
    pub fn unsent_by_client(&self) -> u64 {
        let late = self.outcomes.count(Outcome::NotSent).saturating_sub(self.held_back);
        late + self.outcomes.count(Outcome::NoDescriptor) + self.outcomes.count(Outcome::NoAddress)
    }
}
