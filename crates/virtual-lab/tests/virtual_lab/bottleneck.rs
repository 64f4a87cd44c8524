//! The part that a search names as the bottleneck of a model.

use thalweg_report::document::{Find, LimitedBy};
use thalweg_yardstick::{Law, Model};

use crate::stage::{fixed, searched, short};

const RATE: f64 = 500.0;

fn named(model: Model, cause: &str) -> Find {
    let find = searched(model, &short()).find;
    assert_eq!((find.limit, find.cause.as_deref()), (LimitedBy::Server, Some(cause)), "{find:#?}");
    find
}

#[test]
fn a_bounded_queue_is_the_servers() {
    let law = Law::Exponential { mean_s: 1.0 / RATE };
    let find = named(Model { queue_max: Some(20), ..Model::plain(1, law) }, "server's queue is bounded (503s)");
    assert!(find.evidence[0].contains("status 503"), "{:?}", find.evidence);
    let finding = serde_json::to_value(&find.findings[0]).expect("findings are written as JSON");
    assert_eq!((&finding["kind"], &finding["strength"]), (&"refusals".into(), &"proves".into()), "{finding:#}");
}

/// Such a server was once named because nothing else was left.
#[test]
fn a_server_that_waits_is_named_by_its_waits() {
    let find = named(fixed(RATE), "requests wait in the server");
    let is_said = |line: &String| line.contains("a handshake, which the server's kernel answers");
    assert!(find.evidence.iter().any(is_said), "{:?}", find.evidence);
}
