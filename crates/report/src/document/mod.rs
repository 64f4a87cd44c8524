//! The result document, `thalweg.result/1`: what every command that measures leaves behind.
//!
//! It is a contract with scripts: fields are added, never renamed or removed. Units stand in the
//! names; times are in microseconds where they describe requests and in seconds where they describe
//! runs, rates are per second, sizes are bytes.

mod compare;
mod disclosure;
mod find;
mod finding;
mod observation;
mod suite;
mod sweep;
mod trial;

pub use compare::{
    Compare, CompareEnd, ComparedSide, Difference, MetricComparison, Planning, Round, ScaleLevel, ScaleResult,
    UniversalScaling,
};
pub use disclosure::{Disclosure, Interface};
pub use find::{Find, Overload, RestartedSearch};
pub use finding::{Finding, LimitedBy, Strength};
pub use observation::{
    BusiestThread, ConnectionSummary, HostFigures, InterfaceUse, LostObserver, Observation, ServerFigures,
    ServerObservation,
};
pub use suite::{Curve, CurveLine, Figure, Measured, SuiteName, Unit, UnknownSuite};
pub use sweep::{Sweep, SweepEnd, SweptTarget};
pub use thalweg_measure::search::OverloadShape;
pub use trial::{Client, SpoiledSecond, Trial};

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_load::{Recording, SkipCounts};
use thalweg_measure::Verdict;
use thalweg_measure::limit::{Limit, Statistic};
use thalweg_measure::search::EndReason;
pub use thalweg_measure::trial::{Bytes, Connections, Rates, Sample, SessionsSummary};
use thalweg_measure::trial::{OnInterrupt, RUN_INTERRUPTED};

/// The value of [`Document::schema`].
pub const SCHEMA: &str = "thalweg.result/1";

/// How the reason of a command begins that was interrupted before it had a result.
pub const INTERRUPTED_AT_ONCE: &str = "interrupted";

/// Why a command that was ended early is INVALID.
const ENDED_EARLY: &str = "interrupted before its planned end, so that the whole is not judged; --on-interrupt judge \
                           judges the part that was measured";

/// One result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// The command.
    pub kind: Kind,
    /// Names this result among all others.
    pub id: String,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// The plan, with every default filled in.
    pub plan: PlanDocument,
    /// SHA-256 of the plan's canonical JSON, so that two results can be recognised as results of
    /// the same plan.
    pub plan_sha256: String,
    /// Seed of everything that is random in the run.
    pub seed: u64,
    /// Version of Thalweg.
    pub version: String,
    /// The machine that measured.
    pub host: HostDocument,
    /// The verdict on the whole.
    pub verdict: Verdict,
    /// Why the verdict is what it is, one sentence each.
    pub reasons: Vec<String>,
    /// Every trial in the order in which it was run, invalid ones too.
    pub trials: Vec<Trial>,
    /// The bounds that a search found.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub find: Option<Find>,
    /// The comparison of two sides.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub compare: Option<Compare>,
    /// The rates of a sweep.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sweep: Option<Sweep>,
    /// The figures of a suite.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub suite: Option<Measured>,
    /// The target's host while the command ran, where it is this host or has an observer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub observation: Option<Observation>,
    /// The log that was replayed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub log: Option<LogDocument>,
}

impl Document {
    /// Whether the user ended the command before its time.
    pub fn was_interrupted(&self) -> bool {
        let find = self.find.as_ref().is_some_and(|find| find.ended == Some(EndReason::Interrupted));
        let compare = self.compare.as_ref().is_some_and(|compare| compare.planning.ended == CompareEnd::Interrupted);
        let sweep = self.sweep.as_ref().is_some_and(|sweep| sweep.ended == SweepEnd::Interrupted);
        let run = matches!(self.kind, Kind::Run | Kind::Replay)
            && self.reasons.iter().any(|reason| reason.starts_with(RUN_INTERRUPTED));
        let suite = self.suite.as_ref().is_some_and(|suite| suite.interrupted);
        let at_once = self.lacks_result() && self.reasons.iter().any(|reason| reason.starts_with(INTERRUPTED_AT_ONCE));
        find || compare || sweep || suite || run || at_once
    }

    /// Whether a command that makes several trials ended before it had a result of them.
    pub fn lacks_result(&self) -> bool {
        match self.kind {
            Kind::Run | Kind::Replay => false,
            Kind::Find => self.find.is_none(),
            Kind::Sweep => self.sweep.is_none(),
            Kind::Compare => self.compare.is_none(),
            Kind::Suite => self.suite.is_none(),
        }
    }

    /// Makes the verdict of a command that the user ended before its planned end INVALID, unless
    /// what it measured until then is to be judged, and something was measured.
    #[must_use]
    pub fn ended_by_user(mut self, on_interrupt: OnInterrupt) -> Self {
        let judged = on_interrupt == OnInterrupt::Judge && !self.trials.is_empty();
        if self.was_interrupted() && !judged && self.verdict != Verdict::Invalid {
            self.verdict = Verdict::Invalid;
            self.reasons.insert(0, ENDED_EARLY.to_owned());
        }
        if let Some(suite) = self.suite.as_mut().filter(|suite| suite.interrupted && suite.verdict != self.verdict) {
            suite.verdict = self.verdict;
            suite.reasons.clone_from(&self.reasons);
        }
        self
    }

    /// The same with the findings about this host.
    #[must_use]
    pub fn with_findings(mut self, findings: Vec<thalweg_doctor::Finding>) -> Self {
        self.host.findings = findings;
        self
    }
}

/// A log that was replayed: what of it, and what not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogDocument {
    /// Its format.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub format: String,
    /// The detection of the format, if it was not given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub detected: Option<String>,
    /// Requests that were replayed.
    pub requests: u64,
    /// Lines that were left out.
    pub skipped: SkippedLines,
    /// Requests so far behind later ones in the log that they were replayed later than at their
    /// logged times.
    pub displaced: u64,
    /// Pauses that were shortened by `--gap-max`.
    #[serde(default)]
    pub pauses_shortened: u64,
    /// By how much in all, in seconds of the log.
    #[serde(default)]
    pub shortened_s: f64,
}

/// Lines of a log that were left out, in all and by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkippedLines {
    /// All of them.
    pub total: u64,
    /// The request was none, such as a TLS handshake.
    pub malformed: u64,
    /// The method is one whose body is not in the log.
    pub method: u64,
    /// The target cannot be sent.
    pub target: u64,
    /// The request was meant for a proxy: a whole URL, or CONNECT.
    #[serde(default)]
    pub proxy: u64,
    /// The line has another format than the log.
    #[serde(default)]
    pub format: u64,
}

impl From<&Recording> for LogDocument {
    fn from(recording: &Recording) -> Self {
        let log = recording.summary();
        let SkipCounts { malformed, method, target, proxy, format } = log.skipped;
        Self {
            format: recording.format(),
            detected: recording.detected().map(ToString::to_string),
            requests: log.requests,
            skipped: SkippedLines { total: log.skipped.total(), malformed, method, target, proxy, format },
            displaced: log.displaced,
            pauses_shortened: log.pauses_shortened,
            shortened_s: log.shortened.as_secs_f64(),
        }
    }
}

/// Which command made the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// One trial.
    Run,
    /// A capacity search.
    Find,
    /// Rates from low to high.
    Sweep,
    /// Two sides compared.
    Compare,
    /// An access log at its own times.
    Replay,
    /// A test that a source document describes.
    Suite,
}

impl Kind {
    /// The command's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Find => "find",
            Self::Sweep => "sweep",
            Self::Compare => "compare",
            Self::Replay => "replay",
            Self::Suite => "suite",
        }
    }
}

/// The plan of a command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanDocument {
    /// The command line.
    pub command: Vec<String>,
    /// The target as it was given.
    pub target: String,
    /// The address that it resolved to.
    pub address: String,
    /// All addresses that its host has, in the order in which they were tried. The address above is
    /// the first of them that accepted a connection.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub addresses: Vec<String>,
    /// The load in one line for people, for example
    /// `open loop, 5000/s, 64 connections, keep-alive`.
    pub load: String,
    /// The limits that PASS means, for example `p99<50ms`.
    pub limits: Vec<String>,
    /// Every other setting by its option's name.
    pub settings: BTreeMap<String, String>,
}

impl PlanDocument {
    /// The tightest limit on a figure of the response time.
    pub fn bound_on(&self, figure: Statistic) -> Option<Duration> {
        let limits = self.limits.iter().filter_map(|limit| limit.parse::<Limit>().ok());
        limits.filter_map(|limit| limit.bound_on(figure)).min()
    }
}

/// The machine that measured: the facts needed to repeat the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostDocument {
    /// Its name.
    pub name: String,
    /// Kernel and release.
    pub kernel: String,
    /// Machine architecture.
    pub machine: String,
    /// Model of the CPU.
    pub cpu_model: String,
    /// CPUs online.
    pub cpus: usize,
    /// CPUs that the load ran on.
    pub load_cpus: Vec<usize>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's clock source.
    pub clock_source: String,
    /// Descriptors that the process could open.
    pub descriptors: u64,
    /// Kernel settings that bear on the result.
    pub sysctls: BTreeMap<String, String>,
    /// Client and server shared this machine.
    pub shared_with_target: bool,
    /// The program, and more of its host.
    #[serde(default)]
    pub disclosure: Disclosure,
    /// Settings and states of this host that bear on the result, found before it began.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub findings: Vec<thalweg_doctor::Finding>,
}
