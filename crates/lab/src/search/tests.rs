//! Searches carried out in a scripted world.

use std::rc::Rc;

use thalweg_load::Snapshot;
use thalweg_measure::LoopKind;

use super::*;
use crate::environment::Environment;
use crate::environment::scripted::{self, Answer, Offer, ScriptedWorld};

/// The rate up to which the target of these tests meets its limit.
const CAPACITY: f64 = 200.0;

type StopRule = Box<dyn Fn(&Notes) -> bool>;

/// Notes what happens, and stops when it is told to.
#[derive(Default)]
struct Notes {
    phases: Vec<String>,
    verdicts: Vec<Verdict>,
    pauses: usize,
    /// Whether to stop, at a look in the middle of a trial or of a pause.
    stops: Option<StopRule>,
    is_stopped: bool,
}

impl Notes {
    fn stopping(when: impl Fn(&Self) -> bool + 'static) -> Self {
        Self { stops: Some(Box::new(when)), ..Self::default() }
    }

    fn look(&mut self) {
        self.is_stopped |= self.stops.as_ref().is_some_and(|stops| stops(self));
    }
}

impl Watcher for Notes {
    fn on_trial(&mut self, phase: &str, _plan: &Plan) {
        self.phases.push(phase.to_owned());
    }

    fn on_progress(&mut self, _snapshot: Snapshot, _elapsed: Duration) {
        self.look();
    }

    fn on_pause(&mut self, _failed_probes: u32, _elapsed: Duration, _patience: Duration) {
        self.pauses += 1;
        self.look();
    }

    fn on_judged(&mut self, trial: &Trial) {
        self.verdicts.push(trial.verdict);
    }

    fn wants_stop(&self) -> bool {
        self.is_stopped
    }
}

fn settings() -> SearchSettings {
    let text = RequestText {
        method: "GET",
        authority: "192.0.2.1",
        target: "/",
        version: Version::Http11,
        fields: &[],
        body: b"",
    };
    let request = template(&text).expect("a request in order");
    let (peer, arrivals) = (ScriptedWorld::target().address, LoopPlan::at_rate(1.0));
    let base = Plan::new(peer, [request].into(), arrivals, Extent::Duration(Duration::from_secs(1)));
    SearchSettings {
        base: Plan { connections: 16, ..base },
        lowest_rate: 10.0,
        initial_trial: Duration::from_millis(500),
        final_trial: Duration::from_secs(2),
        end: EstimateEnd::Width(0.1),
        budget: Duration::from_secs(120),
        recovery: Duration::from_secs(20),
        overload: false,
        bottleneck: false,
    }
}

/// A target that meets its limit up to its capacity.
fn steady(offer: Offer) -> Answer {
    if offer.rate.is_none_or(|rate| rate <= CAPACITY) { Answer::default() } else { Answer::slow() }
}

struct Searched {
    conclusion: Result<Conclusion, SearchError>,
    world: Rc<ScriptedWorld>,
    notes: Notes,
}

impl Searched {
    fn find(&self) -> &thalweg_report::document::Find {
        &self.conclusion.as_ref().expect("a conclusion").find
    }
}

fn search(settings: &SearchSettings, notes: Notes, script: impl FnMut(Offer) -> Answer + 'static) -> Searched {
    search_within(&["p99<50ms"], settings, notes, script)
}

fn search_within(
    limits: &[&str],
    settings: &SearchSettings,
    mut notes: Notes,
    script: impl FnMut(Offer) -> Answer + 'static,
) -> Searched {
    let world = Rc::new(ScriptedWorld::new(0.95 * CAPACITY, script));
    let limits = limits.iter().map(|limit| limit.parse().expect("a limit")).collect();
    let test_bed = TestBed::within(world.clone(), ScriptedWorld::target(), limits);
    let conclusion = find(&test_bed, settings, &mut notes);
    Searched { conclusion, world, notes }
}

#[test]
fn a_search_finds_the_capacity_after_a_hint_and_a_calibration() {
    let searched = search(&settings(), Notes::default(), steady);
    let (find, phases) = (searched.find(), &searched.notes.phases);
    assert_eq!(phases[..3], ["probe", "calibrate", "bracket"]);
    assert_eq!(find.ended, Some(EndReason::WidthReached));
    let [lower, upper] = [find.lower_bound, find.upper_bound].map(|bound| bound.expect("a bound"));
    assert!(lower <= CAPACITY && CAPACITY < upper && upper / lower < 1.15, "{lower} to {upper}");
    assert_eq!(find.client_ceiling, Some(scripted::CEILING));
    let trials = &searched.conclusion.as_ref().expect("a conclusion").trials;
    let closed: Vec<&str> =
        trials.iter().filter(|trial| trial.loop_kind == LoopKind::Closed).map(|trial| &*trial.phase).collect();
    assert_eq!(closed, ["calibrate", "probe"], "in the order of documents");
    assert_eq!(trials.len(), searched.world.offers.borrow().len());
}

/// Errors that a limit of their own allows are no slow requests.
#[test]
fn errors_within_their_limit_do_not_lower_the_capacity() {
    let script = |offer| Answer { good: 0.985, ..steady(offer) };
    let searched = search_within(&["p99<50ms", "errors<2%"], &settings(), Notes::default(), script);
    let [low, high] = searched.find().interval95.expect("an interval");
    assert!(low <= CAPACITY && CAPACITY <= high, "{low} to {high}");
    // Without that limit the target carries nothing.
    let searched = search_within(&["p99<50ms"], &settings(), Notes::default(), script);
    assert_eq!(searched.find().lower_bound, None);
}

/// A search to a time ends with the interval that it has, and says how long a narrower one takes.
#[test]
fn a_search_to_a_time_ends_with_its_interval() {
    let end = EstimateEnd::Time(Duration::from_secs(15));
    let searched = search(&SearchSettings { end, ..settings() }, Notes::default(), steady);
    let find = searched.find();
    assert_eq!(find.ended, Some(EndReason::TimeOver));
    let [low, high] = find.interval95.expect("an interval");
    assert!(low <= CAPACITY && CAPACITY <= high, "{low} to {high}");
    assert!(find.notes.iter().any(|note| note.contains("with --width 3%")), "{:?}", find.notes);
    assert!(searched.world.now() < Duration::from_secs(22), "{:?}", searched.world.now());
}

/// A trial that is INVALID at a rate which the client reaches easily does not count against the
/// rate; it is made again.
#[test]
fn an_invalid_trial_is_repeated_at_its_rate() {
    let script = |offer: Offer| if offer.number == 4 { Answer::late() } else { steady(offer) };
    let searched = search(&settings(), Notes::default(), script);
    let offers = searched.world.offers.borrow();
    let late = searched.notes.verdicts[4];
    assert_eq!(late, Verdict::Invalid, "{:?}", searched.notes.verdicts);
    assert_eq!(offers[4].rate, offers[5].rate, "it is repeated");
    let undisturbed = search(&settings(), Notes::default(), steady);
    let bounds = |searched: &Searched| (searched.find().lower_bound, searched.find().upper_bound);
    assert_eq!(bounds(&searched), bounds(&undisturbed));
}

#[test]
fn a_search_whose_client_never_keeps_up_gives_up_within_its_budget() {
    let script = |offer: Offer| if offer.rate.is_some() { Answer::late() } else { Answer::default() };
    let searched = search(&settings(), Notes::default(), script);
    let conclusion = searched.conclusion.as_ref().expect("a conclusion");
    assert_eq!((conclusion.verdict, conclusion.find.ended), (Verdict::Invalid, Some(EndReason::Disturbed)));
    let (spent, budget) = (searched.world.now(), settings().budget);
    let share = spent.as_secs_f64() / budget.as_secs_f64();
    assert!((DISTURBED_SHARE..DISTURBED_SHARE + 0.1).contains(&share), "{share} of the budget");
}

/// Time that others take is left out and made up for: no trial is INVALID, and it says so.
#[test]
fn lost_time_is_made_up_for_and_said() {
    let lost = Duration::from_millis(200);
    let script = move |offer: Offer| Answer { lost, ..steady(offer) };
    let searched = search(&settings(), Notes::default(), script);
    let find = searched.find();
    assert_eq!(find.ended, Some(EndReason::WidthReached));
    let open = searched.world.offers.borrow().iter().filter(|offer| offer.rate.is_some()).count();
    // Lateness that does not show is no reason to leave anything out.
    let trials = &searched.conclusion.as_ref().expect("a conclusion").trials;
    let valid = trials.iter().filter(|trial| trial.loop_kind == LoopKind::Open && trial.is_judged()).count();
    assert_eq!(valid, open);
    assert!(trials.iter().all(|trial| trial.loop_kind == LoopKind::Closed || trial.seconds > 0.65), "{trials:#?}");
}

/// A target that collapses, and needs some seconds without requests after that, gets them.
#[test]
fn a_target_that_collapses_is_given_time_to_recover() {
    const REST: Duration = Duration::from_secs(4);
    let (mut is_collapsed, mut latest) = (false, Duration::ZERO);
    let script = move |offer: Offer| {
        is_collapsed &= offer.at - std::mem::replace(&mut latest, offer.at) < REST;
        is_collapsed |= offer.rate.is_some_and(|rate| rate > 1.05 * CAPACITY);
        if is_collapsed { Answer::slow() } else { steady(offer) }
    };
    let settings = SearchSettings { overload: true, ..settings() };
    let searched = search(&settings, Notes::default(), script);
    let find = searched.find();
    assert!(searched.world.paused.get() > Duration::ZERO && searched.notes.pauses > 0, "{:?}", searched.notes.phases);
    assert!(searched.notes.phases.iter().any(|phase| phase == "recover"), "{:?}", searched.notes.phases);
    assert!(find.lower_bound.is_some_and(|lower| (0.8..=1.0).contains(&(lower / CAPACITY))), "{find:?}");
}

#[test]
fn an_interrupted_search_concludes_from_the_trials_before() {
    // During the first trial there is nothing to conclude from, and the trial that is interrupted
    // counts for nothing.
    let stop_in = |trials: usize| Notes::stopping(move |notes: &Notes| notes.phases.len() == trials);
    let stalled = |_| Answer { good: 0.0, ..Answer::default() };
    let at_once = search(&settings(), stop_in(1), stalled);
    assert!(matches!(at_once.conclusion, Err(SearchError::Interrupted)));
    let later = search(&settings(), stop_in(6), steady);
    let find = later.find();
    assert_eq!(find.ended, Some(EndReason::Interrupted));
    assert_eq!(later.world.offers.borrow().len(), 6, "{:?}", later.notes.phases);
    assert_eq!(later.conclusion.as_ref().expect("a conclusion").trials.len(), 5);
    assert!(find.notes.iter().any(|note| note.contains("interrupted")), "{:?}", find.notes);
}

#[test]
fn an_interruption_ends_a_pause_at_once() {
    let mut overloaded = false;
    let script = move |offer: Offer| {
        overloaded |= offer.rate.is_some_and(|rate| rate > 1.05 * CAPACITY);
        if overloaded { Answer::slow() } else { steady(offer) }
    };
    let settings = SearchSettings { overload: true, ..settings() };
    let searched = search(&settings, Notes::stopping(|notes| notes.pauses == 3), script);
    assert_eq!(searched.find().ended, Some(EndReason::Interrupted));
    assert_eq!((searched.notes.pauses, searched.world.paused.get()), (3, 3 * POLL_INTERVAL));
}

#[test]
fn a_search_ends_within_its_budget() {
    let settings = SearchSettings { budget: Duration::from_secs(8), end: EstimateEnd::Width(0.001), ..settings() };
    let searched = search(&settings, Notes::default(), steady);
    assert_eq!(searched.find().ended, Some(EndReason::BudgetSpent));
    let full_speed = 2 * (FULL_SPEED_TRIAL + FULL_SPEED_WARMUP) + Duration::from_secs(1);
    assert!(searched.world.now() < settings.budget + full_speed, "{:?}", searched.world.now());
}

#[test]
fn a_target_without_a_complete_response_is_said() {
    let searched = search(&settings(), Notes::default(), |_| Answer { good: 0.0, ..Answer::default() });
    let conclusion = searched.conclusion.expect("responses with a status were complete");
    assert_eq!((conclusion.verdict, conclusion.find.lower_bound), (Verdict::Fail, None));
    assert_eq!(searched.world.offers.borrow().len(), 1, "no rate is tried");
}
