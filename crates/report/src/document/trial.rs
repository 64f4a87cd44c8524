//! One trial of the result document: its load, its outcomes, its figures, the client and the server
//! meanwhile.

use std::collections::BTreeMap;

use super::observation::ServerObservation;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_measure::trial::{
    AddressSummary, Bytes, Connections, ProtocolError, Rates, Redirects, Sample, SessionsSummary, StreamsSummary,
    TlsSummary,
};
use thalweg_measure::{
    Causes, Counts, IntervalSummary, LoopKind, Outcomes, StatusClasses, StatusCodes, Summary, Verdict,
};

/// One load at one level for one length.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trial {
    /// Its purpose: `run`, `calibrate`, `probe`, `bracket`, `narrow`, `confirm` or `recover`; in a
    /// comparison `compare-SIDE`, and `saturate-SIDE` at full speed.
    pub phase: String,
    /// Seconds from the start of the document to the start of the trial.
    pub at_s: f64,
    /// Whether arrivals waited for responses.
    #[serde(rename = "loop")]
    pub loop_kind: LoopKind,
    /// Requests per second that the schedule called for; `null` in a closed loop.
    pub offered_rate: Option<f64>,
    /// Measured length without the warm-up, with what was left out of it (`lost_s`).
    pub seconds: f64,
    /// From the start of the measured part to the end of the last request offered in it, seconds;
    /// at least `seconds`. Counts, outcomes and bytes are of this span, `rates` are of the measured
    /// part.
    #[serde(default)]
    pub span_s: f64,
    /// Seconds from the start of the measured part to the moment at which the verdict was certain
    /// and the trial was ended before its time; `null` if it was not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub certain_after_s: Option<f64>,
    /// Seconds of the measured part that are left out of everything else here, because something
    /// else on this host kept the client from its work.
    #[serde(default)]
    pub lost_s: f64,
    /// The seconds in which time was left out, with the cause.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub spoiled: Vec<SpoiledSecond>,
    /// The verdict on this trial alone.
    pub verdict: Verdict,
    /// Why, one sentence each.
    pub reasons: Vec<String>,
    /// Offered, sent, completed and good requests.
    pub counts: Counts,
    /// How each offered request ended.
    #[schemars(with = "BTreeMap<String, u64>")]
    pub outcomes: Outcomes,
    /// Failures by cause, in more detail than by outcome.
    #[serde(default)]
    pub causes: Causes,
    /// Responses by class of status.
    pub status: StatusClasses,
    /// Responses by status code, those that came.
    #[schemars(with = "BTreeMap<String, u64>")]
    #[serde(default)]
    pub status_codes: StatusCodes,
    /// Redirects, where there were any that the check does not take for good. Each response is
    /// counted by its status, those that were followed among them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub redirects: Option<Redirects>,
    /// Events per second of measured length.
    pub rates: Rates,
    /// Bytes on the wire above TCP.
    pub bytes: Bytes,
    /// Last byte minus intended time: the headline figure.
    pub response_time_us: Summary,
    /// Last byte minus sent.
    pub service_time_us: Summary,
    /// Sent minus the moment at which it could have been sent, which is the intended time or, where
    /// the request had to wait for a connection, the end of that wait: the client's own lateness.
    pub lag_us: Summary,
    /// Response time less the lag of the same request. A percentile of the response time less that
    /// of this one is what the client's lateness adds to it.
    #[serde(default)]
    pub without_lag_us: Summary,
    /// The wait for a connection that the target kept busy, from when the client saw that the
    /// request was due.
    pub queue_us: Summary,
    /// Establishing a connection.
    pub connect_us: Summary,
    /// First byte of the response minus sent.
    pub first_byte_us: Summary,
    /// Last byte of the response minus its first.
    #[serde(default)]
    pub transfer_us: Summary,
    /// From the attempt to connect to the close, of connections that carried at least one whole
    /// response.
    #[serde(default)]
    pub connection_lifetime_us: Summary,
    /// Connections.
    pub connections: Connections,
    /// Thousands of bits per second at which each connection's responses arrived, of the
    /// connections that received any.
    #[serde(default)]
    pub kbit_per_connection: Summary,
    /// Sessions, where the load is made of some.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sessions: Option<SessionsSummary>,
    /// TLS handshakes, where there were any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tls: Option<TlsSummary>,
    /// The figures by address, where connections went to several (`--addresses all`).
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub by_address: Vec<AddressSummary>,
    /// Protocol errors by cause, those of the warm-up included.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub protocol_errors: Vec<ProtocolError>,
    /// HTTP/2 streams, where there were any.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub streams: Option<StreamsSummary>,
    /// The first good response, as a sample of the target's responses.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sample: Option<Sample>,
    /// The measuring client itself.
    pub client: Client,
    /// Width of each interval in seconds; the last one may be filled in part.
    #[serde(default)]
    pub interval_s: f64,
    /// The course of the trial.
    pub intervals: Vec<IntervalSummary>,
    /// The target's host during the trial, where it is this host or has an observer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub server: Option<ServerObservation>,
}

impl Trial {
    /// Whether the trial is held against the limits. Calibration and probe are not: one measures
    /// the client, the other is a hint.
    pub fn is_judged(&self) -> bool {
        !matches!(self.phase.as_str(), "calibrate" | "probe")
    }

    /// The reasons of the verdict, and what the target has said about requests without a response.
    pub fn explanations(&self) -> Vec<String> {
        let mut texts = self.reasons.clone();
        texts.extend(self.by_address.iter().map(ToString::to_string));
        texts.extend(self.protocol_errors.iter().map(ToString::to_string));
        texts.extend(self.streams.as_ref().and_then(StreamsSummary::endings));
        texts
    }

    /// The responses of the target to the requests of several trials, and how many redirects were
    /// followed among them. The requests of a calibration were not for the target.
    pub fn responses_in(trials: &[Self]) -> (StatusCodes, u64) {
        let mut codes = StatusCodes::default();
        let mut followed = 0;
        for trial in trials.iter().filter(|trial| trial.phase != "calibrate") {
            codes.merge(&trial.status_codes);
            followed += trial.redirects.as_ref().map_or(0, |redirects| redirects.followed);
        }
        (codes, followed)
    }
}

/// The measuring client itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Client {
    /// `uring` or `epoll`.
    pub driver: String,
    /// How many CPUs there was load from.
    pub cores: usize,
    /// Those CPUs.
    pub cpus: Vec<usize>,
    /// CPU time in user space, seconds, all load threads.
    pub cpu_user_s: f64,
    /// CPU time in the kernel, seconds, all load threads.
    pub cpu_sys_s: f64,
    /// Share of the busiest load CPU that its threads used, 0 to 1.
    pub busiest_core: f64,
    /// How long before an arrival a load thread stopped sleeping, so as to be on time.
    #[serde(default)]
    pub wakes_early_us: f64,
    /// Seconds in which a load thread was ready to run and was not run, nor another one on its CPU.
    pub run_queue_wait_s: f64,
    /// Seconds in which the quota of the client's own control group kept it from running.
    #[serde(default)]
    pub throttled_s: f64,
    /// Share of each load CPU that other programs used, 0 to 1.
    #[serde(default)]
    pub cpus_others: BTreeMap<usize, f64>,
}

/// A second of a trial of which some was left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SpoiledSecond {
    /// Its beginning, in seconds from the start of the trial's measured part.
    pub t: f64,
    /// How much of it was left out, in seconds.
    pub lost_s: f64,
    /// The cause that kept the client from its work, in words.
    pub cause: String,
    /// The share of a load CPU, 0 to 1, that this took.
    pub amount: f64,
}
