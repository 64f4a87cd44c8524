//! The tests that source documents describe, with their rules, against one server that has the
//! suite's tree beneath its URL.
//!
//! | module | owns |
//! | --- | --- |
//! | `settings` | the settings beside the rules, and why a suite cannot be run |
//! | `stage` | a suite under way: its trials, figures, curves and choices |
//! | `presence` | the check that the tree is there |
//! | `requests`, `dynamic` | the requests of a tree, and the dynamic ones of specweb99 |
//! | `origin` | the origin that answers these |
//! | `rate` | acme-small, acme-spec, acme-big, specweb96: the highest rate |
//! | `webbench`, `heanet`, `specweb99` | these suites |
//! | `modem` | acme-modem: simultaneous downloads at the speed of a modem |
//! | `held` | the most connections that a server holds, each at its pace |
//! | `connections` | the search for the most connections that a server holds |
//! | `shape` | peak and shape of a curve over the load |
//!
//! docs/suites.md has the rules in words and each choice where a document is silent. Writing trees
//! is the work of the crate `trees`.

mod connections;
mod dynamic;
mod heanet;
mod held;
mod modem;
pub mod origin;
mod presence;
mod rate;
mod requests;
mod settings;
mod shape;
mod specweb99;
mod stage;
mod webbench;

use thalweg_measure::Verdict;
use thalweg_trees::{Tree, TreeName, TreeSettings};

pub use self::settings::{CLIENTS, PACE_BITS_PER_S, SuiteError, SuiteSettings};
use self::stage::{Stage, Stop};
use crate::trial::{TestBed, Watcher};
pub use thalweg_report::document::{Curve, CurveLine, Figure, Measured, SuiteName, Unit};

/// The reason of a suite that the user ended.
const INTERRUPTED: &str = "interrupted: the figures measured before that are kept";

/// Runs a suite against the test bed's target; the limits of the test bed are not used.
///
/// A suite that is interrupted or cannot go on, or whose server dies, has the figures that were
/// measured before. The verdict on an interrupted one is that on these figures.
///
/// # Errors
/// The tree is not there, or nothing was measured before a trial that cannot be made.
pub fn run(
    suite: SuiteName,
    test_bed: &TestBed,
    settings: &SuiteSettings,
    watcher: &mut dyn Watcher,
) -> Result<Measured, SuiteError> {
    let tree = tree(suite, settings)?;
    let measured = Measured::new(suite, settings.scale);
    let mut stage = Stage { tree: &tree, test_bed, settings, watcher, measured };
    let ended = presence::check(&stage).and_then(|()| match suite {
        SuiteName::AcmeSmall | SuiteName::AcmeSpec | SuiteName::AcmeBig | SuiteName::Specweb96 => {
            rate::measure(&mut stage)
        }
        SuiteName::AcmeModem => modem::measure(&mut stage),
        SuiteName::Webbench => webbench::measure(&mut stage),
        SuiteName::Heanet => heanet::measure(&mut stage),
        SuiteName::Specweb99 => specweb99::measure(&mut stage),
    });
    match ended {
        Ok(()) => {}
        Err(Stop::Interrupted) => {
            stage.measured.interrupted = true;
            stage.measured.reasons.push(INTERRUPTED.to_owned());
        }
        Err(Stop::Gone(reason)) => stage.worsen(Verdict::Fail, reason),
        Err(Stop::Failed(error)) if stage.measured.figures.iter().all(|figure| figure.value.is_none()) => {
            return Err(error);
        }
        Err(Stop::Failed(error)) => stage.worsen(Verdict::Invalid, error.to_string()),
    }
    Ok(stage.measured)
}

/// The tree of a suite.
fn tree(suite: SuiteName, settings: &SuiteSettings) -> Result<Tree, SuiteError> {
    let name = match suite {
        SuiteName::AcmeSmall => TreeName::AcmeSmall,
        SuiteName::AcmeSpec => TreeName::AcmeSpec,
        SuiteName::AcmeBig => TreeName::AcmeBig,
        SuiteName::AcmeModem => TreeName::AcmeModem,
        SuiteName::Heanet => TreeName::Heanet,
        SuiteName::Webbench => TreeName::WebBench,
        SuiteName::Specweb96 => TreeName::SpecWeb96,
        SuiteName::Specweb99 => TreeName::SpecWeb99,
    };
    let tree = TreeSettings { seed: settings.seed, load: settings.load, size: None, sparse: None };
    Ok(Tree::new(name, &tree)?)
}
