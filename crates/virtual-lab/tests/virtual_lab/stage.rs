//! The models and the settings of the tests.

use std::rc::Rc;
use std::time::Duration;

use thalweg_lab::command::Parameter;
use thalweg_lab::compare::{CompareSettings, RoundLoad, Side};
use thalweg_lab::conclusion::Conclusion;
use thalweg_lab::search::{SearchSettings, find};
use thalweg_lab::trial::{TestBed, Watcher};
use thalweg_load::Plan;
use thalweg_measure::search::EstimateEnd;
use thalweg_measure::statistics::rounds::PairPlan;
use thalweg_virtual_lab::{ClientModel, Quiet, VirtualLab, plan, settings, target};
use thalweg_yardstick::{Law, Model};

/// A server with the same time for each request.
pub(crate) fn fixed(rate: f64) -> Model {
    Model::plain(1, Law::Fixed { time_s: 1.0 / rate })
}

/// Short trials, as in tests of what is not the bounds.
pub(crate) fn short() -> SearchSettings {
    SearchSettings {
        initial_trial: Duration::from_millis(500),
        final_trial: Duration::from_secs(1),
        end: EstimateEnd::Width(0.2),
        budget: Duration::from_secs(40),
        recovery: Duration::from_secs(2),
        ..settings(Plan { connections: 64, ..plan() })
    }
}

/// A test bed whose limit is that of `thalweg find`.
pub(crate) fn test_bed(lab: &Rc<VirtualLab>) -> TestBed {
    TestBed::within(lab.clone(), target(), vec!["p99<50ms".parse().expect("a limit")])
}

/// Searches the capacity of a model.
pub(crate) fn searched(model: Model, settings: &SearchSettings) -> Conclusion {
    search(model, ClientModel::default(), settings, &mut Quiet)
}

/// The same with another client, before a watcher.
pub(crate) fn search(
    model: Model,
    client: ClientModel,
    settings: &SearchSettings,
    watcher: &mut dyn Watcher,
) -> Conclusion {
    let lab = Rc::new(VirtualLab::new(model, client));
    find(&test_bed(&lab), settings, watcher).expect("the target responds")
}

/// Eight pairs of rounds of two sides, A and B, at the target.
pub(crate) fn comparison(lab: Rc<VirtualLab>, base: &Plan, restart: Option<&str>) -> CompareSettings {
    let side = |name: &str| Side {
        name: name.to_owned(),
        target: target(),
        base: base.clone(),
        restart: restart.map(str::to_owned),
        parameter: Parameter { name: "THALWEG_SIDE", placeholder: "{side}", value: name.to_owned() },
    };
    CompareSettings {
        environment: lab,
        sides: vec![side("A"), side("B")],
        scale: None,
        switch: None,
        once: false,
        metrics: Vec::new(),
        load: RoundLoad::Workers(8),
        duration: Duration::from_secs(1),
        warmup: Duration::from_millis(250),
        pairs: PairPlan::Fixed(8),
        budget: None,
        restart_timeout: Duration::from_secs(5),
        max_regression: None,
        limits: Vec::new(),
        seed: 1,
    }
}
