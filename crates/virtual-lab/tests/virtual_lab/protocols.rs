//! All procedures over TLS and over HTTP/2.

use std::rc::Rc;
use std::time::Duration;

use thalweg_lab::compare::metric::Metric;
use thalweg_lab::compare::{CompareSettings, RoundLoad, compare};
use thalweg_lab::search::{SearchSettings, find};
use thalweg_lab::sweep::{SweepSettings, SweepTarget, sweep};
use thalweg_load::Plan;
use thalweg_measure::limit::Statistic;
use thalweg_report::document::Trial;
use thalweg_virtual_lab::{ClientModel, Quiet, VirtualLab};
use thalweg_wire::Version;

use crate::stage::{comparison, short, test_bed};

/// HTTP/1.1 over TLS, HTTP/2 without and with it.
const PROTOCOLS: [(Version, bool); 3] = [(Version::Http11, true), (Version::Http2, false), (Version::Http2, true)];

/// A lab whose client makes four thousand requests per second at most.
fn lab((version, tls): (Version, bool)) -> (Rc<VirtualLab>, Plan) {
    let client = ClientModel { request_cost: Duration::from_micros(250), ..ClientModel::default() };
    let (lab, plan) = VirtualLab::of_sink(version, tls, client).expect("a certificate can be made");
    (Rc::new(lab), Plan { connections: 8, ..plan })
}

#[track_caller]
fn assert_of_protocol((version, tls): (Version, bool), trials: &[Trial]) {
    for trial in trials {
        let handshakes = trial.tls.as_ref().map_or(0, |tls| tls.full + tls.resumed);
        let streams = trial.streams.as_ref().map_or(0, |streams| streams.opened);
        assert_eq!(
            (handshakes > 0, streams > 0),
            (tls, version == Version::Http2),
            "{version:?}, {tls}: {}",
            trial.phase
        );
        assert!(trial.counts.good > 0 && trial.counts.good == trial.counts.completed, "{:?}", trial.outcomes);
    }
}

/// The ceiling of the client is measured in the protocol of the target.
#[test]
fn a_search_calibrates_the_client_in_the_target_s_protocol() {
    for protocol in PROTOCOLS {
        let (lab, base) = lab(protocol);
        let settings = SearchSettings { base, ..short() };
        let conclusion = find(&test_bed(&lab), &settings, &mut Quiet).expect("the target responds");
        assert_of_protocol(protocol, &conclusion.trials);
        let ceiling = conclusion.find.client_ceiling.expect("the client is calibrated");
        assert!((2000.0..=4000.0).contains(&ceiling), "{protocol:?}: {ceiling}");
    }
}

#[test]
fn rates_are_swept() {
    for protocol in PROTOCOLS {
        let (lab, base) = lab(protocol);
        let settings = SweepSettings {
            targets: vec![SweepTarget { name: "one".to_owned(), test_bed: test_bed(&lab), base }],
            low_rate: 100.0,
            high_rate: 300.0,
            step: 100.0,
            duration: Duration::from_millis(500),
            warmup: Duration::from_millis(100),
            failures_max: None,
        };
        let swept = sweep(&settings, &mut Quiet).expect("a simulation does not fail");
        assert_eq!(swept.trials.len(), 3, "{protocol:?}");
        assert_of_protocol(protocol, &swept.trials);
    }
}

#[test]
fn servers_are_compared() {
    for protocol in PROTOCOLS {
        let (lab, base) = lab(protocol);
        let settings = CompareSettings {
            metrics: vec![Metric::ResponseTime(Statistic::Percentile(50.0))],
            load: RoundLoad::Rate(300.0),
            duration: Duration::from_millis(200),
            warmup: Duration::from_millis(100),
            ..comparison(lab, &base, None)
        };
        let compared = compare(&settings, &mut Quiet).expect("both sides respond");
        let reasons: Vec<_> = compared.trials.iter().flat_map(|trial| &trial.reasons).collect();
        assert!(compared.trials.len() >= 16, "{protocol:?}: {reasons:?}");
        assert_of_protocol(protocol, &compared.trials);
    }
}
