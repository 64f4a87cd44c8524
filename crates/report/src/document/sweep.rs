//! The result of a sweep in the result document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of a sweep: one or several targets at rates from low to high.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// Lowest rate, requests per second.
    pub low_rate: f64,
    /// Highest rate.
    pub high_rate: f64,
    /// The distance between rates.
    pub step: f64,
    /// The targets in the order in which they were given.
    pub targets: Vec<SweptTarget>,
    /// Why the sweep ended.
    pub ended: SweepEnd,
}

/// One target of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SweptTarget {
    /// The target as it was given.
    pub target: String,
    /// Its name in columns and legends, unlike all others of the sweep.
    pub name: String,
    /// Its trials, as positions in `trials`.
    pub trials: Vec<usize>,
    /// Highest rate that passed, with all lower ones; `null` if the first one already failed.
    pub passed: Option<f64>,
}

/// Why a sweep ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SweepEnd {
    /// Each rate was tried.
    Complete,
    /// Each target failed as often in a row as `--stop-after-failures` says.
    Failures,
    /// The user ended it.
    Interrupted,
}
