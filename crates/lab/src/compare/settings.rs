//! The settings of a comparison, and the reasons why it has no result.

use std::rc::Rc;
use std::time::Duration;

use thalweg_load::{LoadError, Plan};
use thalweg_measure::Limit;
use thalweg_measure::statistics::rounds::PairPlan;
use thalweg_report::document::Trial;

use super::metric::Metric;
use crate::command::{CommandError, Parameter};
use crate::environment::Environment;
use crate::search::SearchError;
use crate::target::{Target, TargetError};

/// The position of the side that the other one is compared with.
pub(super) const A: usize = 0;
/// The position of the side whose difference is sought.
pub(super) const B: usize = 1;

/// A side: its target, the load on it, and its command.
#[derive(Clone, Debug)]
pub struct Side {
    /// `A` or `B`, or the level of a scaling.
    pub name: String,
    /// The server.
    pub target: Target,
    /// The load but for its arrivals and length.
    pub base: Plan,
    /// The command that restarts its server before each of its rounds.
    pub restart: Option<String>,
    /// The side, as its commands are told.
    pub parameter: Parameter,
}

/// The load of a round.
#[derive(Clone, Debug, PartialEq)]
pub enum RoundLoad {
    /// A share of what the slower side carries in a closed loop.
    Share(f64),
    /// An open loop at this rate.
    Rate(f64),
    /// A closed loop with so many workers.
    Workers(usize),
}

/// The levels of a scaling, such as 1, 2 and 4 CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The parameter, such as `cores`.
    pub parameter: String,
    /// Its levels in ascending order, one for each side.
    pub levels: Vec<u32>,
}

/// The settings of a comparison.
#[derive(Clone, Debug)]
pub struct CompareSettings {
    /// The world that rounds are made in.
    pub environment: Rc<dyn Environment>,
    /// A and B, or the levels of a scaling.
    pub sides: Vec<Side>,
    /// The parameter whose levels are the sides, and these levels, if this is a scaling.
    pub scale: Option<Scale>,
    /// The command that switches the one server between the sides.
    pub switch: Option<String>,
    /// All rounds of A come before those of B.
    pub once: bool,
    /// The metrics, the primary one first.
    pub metrics: Vec<Metric>,
    /// The load.
    pub load: RoundLoad,
    /// Length of the measured part of a round's trial.
    pub duration: Duration,
    /// Its warm-up.
    pub warmup: Duration,
    /// The number of pairs.
    pub pairs: PairPlan,
    /// The most time that all rounds may take.
    pub budget: Option<Duration>,
    /// How long a server has to come up after a command.
    pub restart_timeout: Duration,
    /// The largest relative worsening of the primary metric.
    pub max_regression: Option<f64>,
    /// The limits that rounds are held against.
    pub limits: Vec<Limit>,
    /// The seed of the order.
    pub seed: u64,
}

/// The reasons why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A trial could not be made.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A capacity search could not be made.
    #[error("{side}: {source}")]
    Search {
        /// The side.
        side: String,
        /// The search's error.
        source: SearchError,
    },
    /// A side cannot be reached.
    #[error("{side}: {source}")]
    Target {
        /// The side.
        side: String,
        /// The attempt's error.
        source: Box<TargetError>,
    },
    /// A command has failed.
    #[error("{side}: {source}")]
    Command {
        /// The side.
        side: String,
        /// The command's error.
        source: CommandError,
    },
    /// A side answers, but with no good response.
    #[error("{side}: no response of {target} was good ({outcomes}); {advice}")]
    NothingGood {
        /// The side.
        side: String,
        /// Its target.
        target: String,
        /// How its requests ended.
        outcomes: String,
        /// Whether it has responded at all.
        responds: bool,
        /// Advice, as a clause.
        advice: String,
    },
    /// The server's processes are not visible.
    #[error(
        "{side}: the processes of {target} cannot be seen from here, so there is no cpu_per_request; run as their user \
         or as root on the server's host, or choose another --metric"
    )]
    NoServer {
        /// The side.
        side: String,
        /// Its target.
        target: String,
    },
    /// The user ended the comparison before there was a pair.
    #[error("interrupted before the end of the first pair of rounds")]
    Interrupted {
        /// The trials until then.
        trials: Vec<Trial>,
    },
}
