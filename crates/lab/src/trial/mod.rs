//! One trial: run a plan, watch it, judge it, put it into the document's form.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use thalweg_load::{LoadError, LoopPlan, Plan, Progress, RunFigures, Snapshot, Spacing, UserPlan};
use thalweg_measure::trial::{
    Certainty, Judgement, OnInterrupt, RUN_INTERRUPTED, Sessions, StreamFigures, Thresholds, TlsFigures, TrialFigures,
    lag_bound,
};
use thalweg_measure::{Course, Interval, Limit, StatusClasses, Verdict, verdict};
use thalweg_report::document::{Client, Trial};
use thalweg_sys::PeerAddr;
use thalweg_units::display;

use crate::client_process::ClientCommand;
use crate::environment::{CpuUseOfOthers, Environment, ObservedRun, ThisHost};
use crate::first_ends::FirstEndsWatch;
use crate::observe::{HostObserver, LocalServer, Observation, TrialObservation};
use crate::path_check::PathCheck;
use crate::redirects;
use crate::target::Target;

mod disturbance;

pub use self::disturbance::Disturbance;

/// The target and the conditions that all trials of one command share.
#[derive(Clone, Debug)]
pub struct TestBed {
    /// The server under test.
    pub target: Target,
    /// The limits that a trial has to meet to PASS.
    pub limits: Vec<Limit>,
    /// The target's processes, if they are on this host.
    pub server: Option<LocalServer>,
    /// Client and target share this host.
    pub shared_host: bool,
    /// The world that its trials are made in.
    pub environment: Rc<dyn Environment>,
    /// The command that makes a client's share of a load, for the comparison of one with two.
    pub client_command: Option<ClientCommand>,
    /// The transfer that shows what the path carries, if it was asked for.
    pub path_check: Option<PathCheck>,
    /// The observer of the target's host; one of this host is started by the first trial.
    pub observer: Arc<OnceLock<Option<HostObserver>>>,
    /// The outcomes of the first requests to the target.
    pub first_ends: Arc<FirstEndsWatch>,
}

/// The observer of running trials: it draws progress and decides whether to go on.
pub trait Watcher {
    /// A trial begins.
    fn on_trial(&mut self, phase: &str, plan: &Plan);
    /// The trial goes on.
    fn on_progress(&mut self, snapshot: Snapshot, elapsed: Duration);
    /// Whether it takes the intervals of trials as they end. Without it no load thread hands any
    /// over.
    fn wants_intervals(&self) -> bool {
        false
    }
    /// An interval of the trial has ended. Those of one trial come in order, and the last of them
    /// before the trial is judged.
    fn on_interval(&mut self, _interval: &Interval) {}
    /// The search sends nothing, so that the target can recover: `failed_probes` recovery probes
    /// have failed so far, and `elapsed` of the `patience` for the recovery is over.
    fn on_pause(&mut self, failed_probes: u32, elapsed: Duration, patience: Duration);
    /// Something that the user should know at once, in a sentence.
    fn on_warning(&mut self, _warning: &str) {}
    /// A search knows the interval of the threshold so far.
    fn on_estimate(&mut self, _interval95: [f64; 2]) {}
    /// The trial has ended and was judged.
    fn on_judged(&mut self, trial: &Trial);
    /// Whether to end the run now.
    fn wants_stop(&self) -> bool;
}

/// A trial to make.
#[derive(Clone, Debug)]
pub struct TrialRequest<'a> {
    /// Its purpose, as in the document.
    pub phase: &'a str,
    /// Its load.
    pub plan: Plan,
    /// The multiple of the allowed bad requests at which the trial ends early, as a certain FAIL;
    /// `None` if it goes on to its planned end.
    pub ends_at: Option<f64>,
    /// Whether the time in which others kept the client from its work is left out, and the trial
    /// goes on for as long, up to twice its length.
    pub make_up: bool,
    /// The verdict if the user ends it before its planned end.
    pub on_interrupt: OnInterrupt,
}

impl<'a> TrialRequest<'a> {
    /// A trial that takes its planned time.
    pub fn new(phase: &'a str, plan: Plan) -> Self {
        Self { phase, plan, ends_at: None, make_up: false, on_interrupt: OnInterrupt::Invalid }
    }
}

/// A completed trial.
#[derive(Clone, Debug)]
pub struct TrialResult {
    /// The engine's measurements.
    pub figures: RunFigures,
    /// The verdict on them.
    pub judgement: Judgement,
    /// When FAIL was certain, from the start of the measured part, if the trial was ended then.
    pub certain_after: Option<Duration>,
    /// The part that was left out of the figures and the verdict.
    pub disturbance: Disturbance,
    /// The state of this host during the trial.
    pub observation: Observation,
    /// All of it in the document's form.
    pub trial: Trial,
}

impl TestBed {
    /// Prepares to measure `target` from this host.
    pub fn new(target: Target, limits: Vec<Limit>) -> Self {
        Self::within(Rc::new(ThisHost::begin()), target, limits)
    }

    /// Prepares to measure `target` in another world, or at another time.
    pub fn within(environment: Rc<dyn Environment>, target: Target, limits: Vec<Limit>) -> Self {
        let (shared_host, server) = (environment.is_host_of(&target), environment.server_of(&target));
        Self {
            target,
            limits,
            server,
            shared_host,
            environment,
            client_command: None,
            path_check: None,
            observer: Arc::default(),
            first_ends: Arc::default(),
        }
    }

    /// The same test bed for another process of the target.
    pub(crate) fn of_restarted_server(&self) -> Self {
        Self { server: self.environment.server_of(&self.target), ..self.clone() }
    }

    /// Has the target's host observed by an observer of its own.
    #[must_use]
    pub fn observed_by(self, observer: Option<HostObserver>) -> Self {
        match observer {
            Some(observer) => Self { observer: Arc::new(OnceLock::from(Some(observer))), ..self },
            None => self,
        }
    }

    /// The observer of the target's host, if it is this one or has an observer.
    fn observer(&self, load_cpus: &[usize]) -> Option<&HostObserver> {
        let port = if let PeerAddr::Tcp(address) = &self.target.address { Some(address.port()) } else { None };
        // Without a further thread the measurement goes on unobserved.
        let here = || self.shared_host.then(|| HostObserver::here(port, load_cpus).ok()).flatten();
        self.observer.get_or_init(here).as_ref()
    }

    /// The target's host since the command began, as far as it was observed.
    pub(crate) fn observation(&self) -> Option<thalweg_report::document::Observation> {
        self.observer.get()?.as_ref()?.document(self.environment.now())
    }

    /// How late the client may be before the time in which others kept it from its work is left
    /// out. Threads that share a CPU, with one another or with the sink, keep each other from it.
    fn lateness_max(&self, phase: &str, cpus: &[usize]) -> Option<Duration> {
        let load_cpus: BTreeSet<usize> = cpus.iter().copied().collect();
        let has_spare = || self.environment.cpus().iter().any(|cpu| !load_cpus.contains(cpu));
        let is_apart = load_cpus.len() == cpus.len() && (phase != "calibrate" || has_spare());
        is_apart.then(|| lag_bound(&self.limits))
    }

    /// Judges a trial: with all that was counted if the client was on time then, if it is the
    /// target itself that ran on the client's CPU, or if nothing else is left; else without the
    /// time in which others kept the client from its work, unless too little is left for a verdict
    /// and all that was counted makes a PASS.
    fn judge(&self, figures: &mut TrialFigures, others: &CpuUseOfOthers) -> Judgement {
        if figures.left_out.total().is_zero() {
            figures.take_back();
            return verdict(figures, &self.limits);
        }
        let mut whole = figures.clone();
        whole.take_back();
        let judgement = verdict(&whole, &self.limits);
        let is_target = |pid: u32| self.server.as_ref().is_some_and(|server| server.has(pid));
        let by_target = others.busiest.as_ref().is_some_and(|(pid, _)| is_target(*pid));
        // Of a trial whose whole time others took, the spoiled figures are better than none.
        let nothing_left = figures.outcomes.completed() == 0;
        if by_target || nothing_left || !judgement.may_be_disturbed() {
            *figures = whole;
            return judgement;
        }
        figures.disturbed_by = Disturbance::summary(figures, others);
        let clean = verdict(figures, &self.limits);
        if clean.verdict == Verdict::Invalid && judgement.verdict == Verdict::Pass {
            *figures = whole;
            return judgement;
        }
        clean
    }

    /// Makes one trial.
    ///
    /// # Errors
    /// The load threads could not be set up, or have failed.
    pub fn trial(&self, request: &TrialRequest<'_>, watcher: &mut dyn Watcher) -> Result<TrialResult, LoadError> {
        let (phase, mut plan) = (request.phase, request.plan.clone());
        plan.thresholds = Thresholds::of(&self.limits);
        plan.lateness_max = self.lateness_max(phase, &plan.cpus).filter(|_| request.make_up);
        let length = plan.schedule_length();
        if request.make_up && plan.is_extensible() {
            plan.extension_max = length;
        }
        plan.observed = watcher.wants_intervals();
        let certainty = |times| Certainty::new(&self.limits, plan.arrivals.kind(), plan.offered_max()).beyond(times);
        let certainty = request.ends_at.map(certainty);
        let cpus = plan.cpus.clone();
        let observing = TrialObservation::begin(self.observer(&cpus));
        let at_s = self.environment.now().as_secs_f64();
        watcher.on_trial(phase, &plan);
        let mut follower = Follower::new(self, &plan, certainty, watcher);
        let run = self.environment.run(plan, &mut |progress| follower.look(progress))?;
        let is_certain = follower.end(&run.progress);
        let ObservedRun { mut figures, others, throttled_ns, .. } = run;
        let observation = observing.end(self.server.is_some() || !self.shared_host, &cpus);
        for cpu in &mut figures.trial.cpus {
            cpu.throttled_ns = throttled_ns;
        }
        let certain_after = (is_certain && figures.interrupted).then_some(figures.trial.duration);
        figures.trial.wanted = match (certain_after, figures.interrupted) {
            (Some(_), _) => Some(Duration::ZERO),
            (None, true) => Some(length.min(figures.trial.duration)),
            (None, false) => Some(length).filter(|length| !length.is_zero()),
        };
        let mut judgement = self.judge(&mut figures.trial, &others);
        if figures.interrupted && certain_after.is_none() {
            match request.on_interrupt {
                OnInterrupt::Judge => judgement.pardon_interruption(),
                OnInterrupt::Invalid => {
                    judgement.interrupt(figures.trial.duration, Some(length).filter(|length| !length.is_zero()));
                }
            }
        }
        let disturbance = Disturbance::of(&figures.trial, &others);
        let mut trial = document_of(phase, at_s, &figures, &judgement, certain_after, &disturbance);
        trial.client.cpus_others = others.by_cpu().into_iter().map(|(cpu, taken)| (cpu, taken.programs())).collect();
        trial.server = observation.server.clone();
        let redirects = trial.redirects.as_ref().and_then(|some| redirects::sentence(some, &self.target.url));
        trial.reasons.extend(redirects);
        trial.reasons.extend(observation.lost.as_ref().map(|reason| format!("the observer was lost: {reason}")));
        watcher.on_judged(&trial);
        Ok(TrialResult { figures, judgement, certain_after, disturbance, observation, trial })
    }
}

/// Follows a run to its end and shows it to the watcher. Ends it if the watcher wants that, and
/// when FAIL is certain.
struct Follower<'a> {
    test_bed: &'a TestBed,
    watcher: &'a mut dyn Watcher,
    begun: Duration,
    certainty: Option<Certainty>,
    makes_up: bool,
    /// The intervals, if the watcher takes them.
    course: Option<Course>,
    is_certain: bool,
}

impl<'a> Follower<'a> {
    fn new(test_bed: &'a TestBed, plan: &Plan, certainty: Option<Certainty>, watcher: &'a mut dyn Watcher) -> Self {
        let begun = test_bed.environment.now();
        let makes_up = !plan.extension_max.is_zero();
        let course = plan.observed.then(|| Course::new(plan.cpus.len()));
        Self { test_bed, watcher, begun, certainty, makes_up, course, is_certain: false }
    }

    fn look(&mut self, progress: &Progress) -> ControlFlow<()> {
        self.show_course(progress);
        let seen = progress.snapshot();
        self.watcher.on_progress(seen, self.test_bed.environment.now() - self.begun);
        let warning = self.test_bed.first_ends.look(&seen.first_ends, progress, &self.test_bed.target.url);
        warning.iter().for_each(|warning| self.watcher.on_warning(warning));
        if self.makes_up && !seen.lost.is_zero() {
            progress.extend_by(seen.lost);
        }
        self.is_certain |= self.certainty.as_ref().is_some_and(|certainty| certainty.is_fail(&seen.so_far));
        if self.is_certain || self.watcher.wants_stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    /// The run has ended, and its threads have handed their last intervals over. Returns whether
    /// FAIL was certain.
    fn end(mut self, progress: &Progress) -> bool {
        self.show_course(progress);
        let Self { course, watcher, .. } = &mut self;
        course.iter_mut().flat_map(Course::take_rest).for_each(|interval| watcher.on_interval(&interval));
        self.is_certain
    }

    fn show_course(&mut self, progress: &Progress) {
        if let Some(course) = &mut self.course {
            progress.move_intervals(course);
            course.take_complete().iter().for_each(|interval| self.watcher.on_interval(interval));
        }
    }
}

fn document_of(
    phase: &str,
    at_s: f64,
    run: &RunFigures,
    judgement: &Judgement,
    certain_after: Option<Duration>,
    disturbance: &Disturbance,
) -> Trial {
    let figures = &run.trial;
    let seconds = figures.duration.as_secs_f64();
    let rates = figures.rates();
    let mut reasons: Vec<String> = judgement.reasons.iter().map(ToString::to_string).collect();
    reasons.extend(judgement.notes.iter().map(ToString::to_string));
    if let Some(after) = certain_after {
        let after = display::time(after.as_nanos() as u64);
        reasons.push(format!("the trial was ended after {after}, when nothing could have made it pass any more"));
    } else if run.interrupted && !judgement.is_interrupted() {
        reasons.push(format!("{RUN_INTERRUPTED}; requests in flight at that time are not counted"));
    } else if figures.under_way > 0 {
        let count = display::count(figures.under_way);
        reasons.push(format!("{count} downloads were still in progress at the end; they are not counted"));
    }
    if let Some(cause) = figures.disturbed_by.as_ref().filter(|_| !disturbance.lost.is_zero()) {
        let [lost, whole] = [disturbance.lost, figures.duration].map(|time| display::time(time.as_nanos() as u64));
        reasons.push(format!("{lost} of {whole} are left out, because {cause}"));
    }
    if run.calls_not_offered > 0 {
        let count = display::count(run.calls_not_offered);
        reasons.push(format!("{count} calls were not made, because their connection or session had ended"));
    }
    if figures.causes.unknown > 0 {
        let (count, errno) = (display::count(figures.causes.unknown), figures.causes.unknown_errno.unwrap_or(0));
        let first = io::Error::from_raw_os_error(errno);
        reasons.push(format!("{count} failures of an unknown kind; the first one: {first}"));
    }
    if let Some(tls) = &figures.tls
        && let Some(first) = &tls.first_failure
    {
        let counted =
            |(cause, count): (&String, &u64)| format!("{} {}", display::count(*count), cause.replace('_', " "));
        let causes: Vec<_> = tls.failures.iter().map(counted).collect();
        reasons.push(format!("connections that failed in TLS: {}; the first one: {first}", causes.join(", ")));
    }
    if let Some(first) = &figures.proxy_refusal {
        let count = display::count(figures.proxy_refusals);
        reasons.push(format!("the proxy made no tunnel for {count} connections; the first time, {first}"));
    }
    if run.unsolicited_bytes > 0 {
        reasons.push(format!("{} bytes arrived on connections without a request", run.unsolicited_bytes));
    }
    let share = |cpu: &thalweg_measure::trial::CpuUse| cpu.busy_ns as f64 / 1e9 / seconds.max(1e-9);
    let seconds_of = |ns: u64| ns as f64 / 1e9;
    Trial {
        phase: phase.to_owned(),
        at_s,
        loop_kind: figures.loop_kind,
        offered_rate: figures.offered_rate,
        seconds,
        span_s: figures.span().as_secs_f64(),
        certain_after_s: certain_after.map(|after| after.as_secs_f64()),
        lost_s: disturbance.lost.as_secs_f64(),
        spoiled: disturbance.seconds.clone(),
        verdict: judgement.verdict,
        reasons,
        counts: figures.counts,
        outcomes: figures.outcomes,
        causes: figures.causes,
        status: StatusClasses::of(&figures.status_codes),
        status_codes: figures.status_codes.clone(),
        redirects: figures.redirects.clone(),
        rates,
        bytes: figures.bytes,
        response_time_us: figures.response_time().summary(),
        service_time_us: figures.service_time.summary(),
        lag_us: figures.lag.summary(),
        without_lag_us: figures.without_lag.summary(),
        queue_us: figures.queue.summary(),
        connect_us: figures.connect.summary(),
        first_byte_us: figures.first_byte.summary(),
        transfer_us: figures.transfer.summary(),
        connection_lifetime_us: figures.connection_lifetime.summary(),
        connections: figures.connections,
        // A summary is in thousandths of what was recorded, here bits.
        kbit_per_connection: figures.bits_per_connection.summary(),
        sessions: figures.sessions.as_ref().map(Sessions::summary),
        tls: figures.tls.as_ref().map(TlsFigures::summary),
        by_address: figures.by_address.iter().zip(&run.peers).map(|(to, peer)| to.summary(peer.clone())).collect(),
        protocol_errors: figures.protocol_errors.list().to_vec(),
        streams: figures.streams.as_ref().map(StreamFigures::summary),
        sample: figures.sample.clone(),
        client: Client {
            driver: run.driver.name().to_owned(),
            cores: figures.cpus.len(),
            cpus: figures.cpus.iter().map(|cpu| cpu.cpu as usize).collect(),
            cpu_user_s: figures.cpus.iter().map(|cpu| seconds_of(cpu.cpu_user_ns)).sum(),
            cpu_sys_s: figures.cpus.iter().map(|cpu| seconds_of(cpu.cpu_system_ns)).sum(),
            busiest_core: figures.cpus.iter().map(share).fold(0.0, f64::max),
            wakes_early_us: run.wake_early_ns as f64 / 1e3,
            run_queue_wait_s: figures.cpus.iter().map(|cpu| seconds_of(cpu.run_queue_wait_ns)).sum(),
            // The quota is of the whole group, and each CPU was given all of it.
            throttled_s: figures.cpus.iter().map(|cpu| seconds_of(cpu.throttled_ns)).fold(0.0, f64::max),
            cpus_others: BTreeMap::new(),
        },
        interval_s: figures.intervals.width_ns() as f64 / 1e9,
        intervals: figures.intervals.summaries(),
        server: None,
    }
}

/// One line that describes a load.
pub fn describe_load(plan: &Plan) -> String {
    let users = match &plan.user {
        None => "",
        Some(UserPlan::Calls(_)) => "connections, ",
        Some(UserPlan::Sessions { .. }) => "sessions, ",
    };
    match &plan.arrivals {
        LoopPlan::Open { rate, spacing } => {
            let rate = match rate.as_constant() {
                Some(rate) => display::rate(rate),
                None => format!("from {} up to {}", display::rate(rate.first()), display::rate(rate.highest())),
            };
            let spacing = if *spacing == Spacing::Poisson { ", Poisson" } else { "" };
            format!("open loop, {users}{rate}{spacing}")
        }
        LoopPlan::Recorded { .. } => {
            format!("open loop, recorded times, {} on average", display::rate(plan.offered_rate().unwrap_or(0.0)))
        }
        LoopPlan::Closed { workers, think, .. } => {
            let think = match think.is_zero() {
                true => String::new(),
                false => format!(", {} think time", display::exact_time(*think)),
            };
            format!("closed loop, {users}{workers} workers{think}")
        }
    }
}
