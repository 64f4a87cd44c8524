//! A world for tests, whose loads are answered by a function of the offered rate.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use thalweg_load::{LoadError, Plan, Progress, RunFigures};
use thalweg_measure::trial::{TrialFigures, WindowCounts};
use thalweg_measure::{Counts, IntervalSeries, Outcome};
use thalweg_sys::PeerAddr;
use thalweg_sys::driver::DriverKind;

use super::{CpuUseOfOthers, Environment, FOLLOW_INTERVAL, Follow, ObservedRun, ServerSetUp, SinkTarget};
use crate::command::CommandError;
use crate::target::Target;

/// The sink's address.
const SINK: ([u8; 4], u16) = ([192, 0, 2, 1], 81);
/// The rate of a closed loop against the sink.
pub(crate) const CEILING: f64 = 5_000.0;
/// A load takes so much longer than its schedule.
const SET_UP: Duration = Duration::from_millis(100);

/// The answer to a load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    /// The share of requests with a good response; the others end with a status of 503.
    pub(crate) good: f64,
    /// The time of each response.
    pub(crate) response: Duration,
    /// The client's lag in each of them.
    pub(crate) lag: Duration,
    /// The part of the measured time that others took from the client, and that is left out.
    pub(crate) lost: Duration,
}

impl Default for Answer {
    /// The load is carried.
    fn default() -> Self {
        Self { good: 1.0, response: Duration::from_millis(1), lag: Duration::ZERO, lost: Duration::ZERO }
    }
}

impl Answer {
    /// The limits of tests are missed.
    pub(crate) fn slow() -> Self {
        Self { response: Duration::from_millis(400), ..Self::default() }
    }

    /// So is this, through the client's fault.
    pub(crate) fn late() -> Self {
        Self { lag: Duration::from_millis(390), ..Self::slow() }
    }
}

/// A load as the script sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Offer {
    /// Requests per second; `None` in a closed loop.
    pub(crate) rate: Option<f64>,
    /// The time at which it begins.
    pub(crate) at: Duration,
    /// The number of loads before it.
    pub(crate) number: usize,
}

type Script = Box<dyn FnMut(Offer) -> Answer>;

/// A scripted world.
pub(crate) struct ScriptedWorld {
    script: RefCell<Script>,
    now: Cell<Duration>,
    /// The loads so far, those of full speed among them.
    pub(crate) offers: RefCell<Vec<Offer>>,
    /// The time in pauses, all together.
    pub(crate) paused: Cell<Duration>,
    /// How often a server was set up.
    pub(crate) set_ups: Cell<u32>,
    /// The rate of the target in a closed loop.
    full_speed: f64,
}

impl ScriptedWorld {
    /// A world whose target carries `full_speed` in a closed loop.
    pub(crate) fn new(full_speed: f64, script: impl FnMut(Offer) -> Answer + 'static) -> Self {
        Self {
            script: RefCell::new(Box::new(script)),
            now: Cell::default(),
            offers: RefCell::default(),
            paused: Cell::default(),
            set_ups: Cell::default(),
            full_speed,
        }
    }

    /// A target of such worlds.
    pub(crate) fn target() -> Target {
        Target::resolve("http://192.0.2.1/", None).expect("an address needs no resolver")
    }

    fn pass(&self, time: Duration) {
        self.now.set(self.now.get() + time);
    }
}

impl fmt::Debug for ScriptedWorld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedWorld").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Environment for ScriptedWorld {
    fn now(&self) -> Duration {
        self.now.get()
    }

    fn pause(&self, length: Duration) {
        self.paused.set(self.paused.get() + length);
        self.pass(length);
    }

    fn cpus(&self) -> Vec<usize> {
        vec![0, 1]
    }

    fn run(&self, plan: Plan, follow: &mut Follow<'_>) -> Result<ObservedRun, LoadError> {
        let offer = Offer { rate: plan.offered_rate(), at: self.now.get(), number: self.offers.borrow().len() };
        self.offers.borrow_mut().push(offer);
        let is_sink = plan.peer == PeerAddr::from(std::net::SocketAddr::from(SINK));
        let full_speed = if is_sink { CEILING } else { self.full_speed };
        let answer = (self.script.borrow_mut())(offer);
        // Lost time is made up for, as far as the plan allows for that.
        let length = plan.schedule_length() + answer.lost.min(plan.extension_max);
        let (progress, end) = (Arc::new(Progress::new(1)), self.now.get() + SET_UP + plan.warmup + length);
        let mut interrupted = false;
        while self.now.get() < end && !interrupted {
            self.pass(FOLLOW_INTERVAL.min(end - self.now.get()));
            interrupted = follow(&progress) == ControlFlow::Break(());
        }
        let rate = offer.rate.unwrap_or(full_speed);
        let trial = figures(&plan, rate, length, answer);
        let driver = DriverKind::Simulated;
        let figures = RunFigures {
            trial,
            peers: Vec::new(),
            driver,
            wake_early_ns: 0,
            interrupted,
            unsolicited_bytes: 0,
            calls_not_offered: 0,
        };
        Ok(ObservedRun { figures, progress, others: CpuUseOfOthers::default(), throttled_ns: 0 })
    }

    fn sink(&self, plan: &Plan, _body_bytes: usize) -> io::Result<SinkTarget> {
        let peer = std::net::SocketAddr::from(SINK).into();
        Ok(SinkTarget { plan: Plan { peer, peers: Vec::new(), ..plan.clone() }, sink: Box::new(()) })
    }

    fn set_up(&self, _server: &ServerSetUp<'_>, _wants_stop: &dyn Fn() -> bool) -> Result<Box<dyn Any>, CommandError> {
        self.set_ups.set(self.set_ups.get() + 1);
        Ok(Box::new(()))
    }
}

/// The figures of an answer at that rate.
fn figures(plan: &Plan, rate: f64, length: Duration, answer: Answer) -> TrialFigures {
    const INTERVALS: u32 = 20;
    let ns = |time: Duration| time.as_nanos() as u64;
    let series = IntervalSeries::new(ns(length / INTERVALS).max(1), 600);
    let mut figures = TrialFigures::new(plan.arrivals.kind(), plan.offered_rate(), length, series);
    figures.ends_by_time = true;
    let offered = (rate * (length - answer.lost).as_secs_f64()) as u64;
    for number in 0..offered {
        let is_good = ((number + 1) as f64 * answer.good) as u64 > (number as f64 * answer.good) as u64;
        let outcome = if is_good { Outcome::Good } else { Outcome::BadStatus };
        figures.intervals.advance_to(number * ns(length) / offered);
        figures.intervals.record_offered();
        figures.intervals.record_end(outcome, is_good.then_some(ns(answer.response)));
        figures.outcomes.record(outcome);
        if is_good {
            figures.record_response(ns(answer.response), ns(answer.lag));
        }
    }
    figures.intervals.advance_to(ns(length));
    figures.lag.record_n(ns(answer.lag), offered);
    figures.service_time.record_n(ns(answer.response - answer.lag), offered);
    figures.counts = Counts::of(&figures.outcomes, offered);
    let good = figures.outcomes.count(Outcome::Good);
    figures.in_window = WindowCounts { sent: offered, completed: offered, good, connections: 0 };
    if !answer.lost.is_zero() {
        figures.left_out.add_time(0, ns(answer.lost));
    }
    figures
}
