//! The result of a comparison in the result document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of a comparison of two sides, A and B.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Compare {
    /// The primary metric, declared before the first round: the answer rests on it alone.
    pub metric: String,
    /// Its value of A over all rounds, in the metric's unit; percentiles are those of all requests
    /// together.
    pub a: Option<f64>,
    /// The same of B.
    pub b: Option<f64>,
    /// The ratio B / A, from the pairs of rounds: 1.031 is 3.1 % more.
    pub effect: Option<f64>,
    /// Its interval with a coverage of 95 %.
    pub interval95: Option<[f64; 2]>,
    /// The smallest relative difference that a run like this one sees with a probability of 80 %:
    /// 0.018 is 1.8 %.
    pub smallest_detectable: Option<f64>,
    /// The answer in one sentence.
    pub sentence: String,
    /// The answer for programs.
    pub difference: Difference,
    /// A and B, by those names unless the command line gives others.
    pub sides: Vec<ComparedSide>,
    /// All metrics, the primary one first. The others are descriptive: with several of them, one
    /// may look different by chance.
    pub metrics: Vec<MetricComparison>,
    /// Every round in order, those that were repeated too.
    pub rounds: Vec<Round>,
    /// How the number of pairs came about.
    pub planning: Planning,
    /// The largest relative worsening allowed by `--max-regression`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_regression: Option<f64>,
    /// The scaling over several levels, of which A is the lowest and B the highest.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scale: Option<ScaleResult>,
    /// Facts that a reader needs to judge the answer.
    pub notes: Vec<String>,
}

impl Compare {
    /// The names of the two sides; of a scaling those of its lowest and highest level.
    pub fn names(&self) -> [&str; 2] {
        let [a, b] = [self.sides.first(), self.sides.last()].map(|side| side.map(|side| side.name.as_str()));
        [a.unwrap_or("A"), b.unwrap_or("B")]
    }
}

/// The answer of a comparison about a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Difference {
    /// B has more of it than A.
    More,
    /// B has less of it.
    Less,
    /// No difference was seen.
    None,
    /// There are too few valid pairs for an answer.
    Undetermined,
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedSide {
    /// `A` or `B`, or the level of a scaling such as `cores=2`.
    pub name: String,
    /// Its target as it was given.
    pub target: String,
    /// The command that sets it up before its rounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub command: Option<String>,
}

/// The comparison of one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricComparison {
    /// The metric by the name of `--metric`.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Whether less of it is better.
    pub less_is_better: bool,
    /// Whether it was declared primary.
    pub primary: bool,
    /// Its value of A over all rounds.
    pub a: Option<f64>,
    /// The same of B.
    pub b: Option<f64>,
    /// The ratio B / A.
    pub effect: Option<f64>,
    /// Its interval with a coverage of 95 %.
    pub interval95: Option<[f64; 2]>,
    /// The smallest relative difference that a run like this one sees.
    pub smallest_detectable: Option<f64>,
    /// The probability of ratios at least as one-sided if there is no difference (exact signed-rank
    /// test); at most 0.01 is called a difference.
    pub p_value: Option<f64>,
    /// The pairs that have a valid value on both sides.
    pub pairs: usize,
    /// The answer.
    pub difference: Difference,
    /// The same in one sentence.
    pub sentence: String,
}

/// One round: one side under its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Round {
    /// The pair that it belongs to, from 1.
    pub pair: usize,
    /// The name of its side.
    pub side: String,
    /// Seconds from the start of the document to the start of the round.
    pub at_s: f64,
    /// Whether its pair counts. A pair with a round that was invalid for the primary metric is
    /// repeated.
    pub counts: bool,
    /// The values in the order of `metrics`; `null` where the round gave no valid one.
    pub values: Vec<Option<f64>>,
    /// Its trials, as positions in `trials`.
    pub trials: Vec<usize>,
}

/// How the number of pairs came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Planning {
    /// The relative difference that the number of pairs was planned for; `null` if the number was
    /// given.
    pub detect: Option<f64>,
    /// The number of pairs that was planned for at last, or given.
    pub planned: usize,
    /// The number of pairs that the scatter of all pairs would need for it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub needed: Option<usize>,
    /// Pairs that count.
    pub pairs: usize,
    /// Pairs that were repeated, because the client fell short in one of their rounds.
    pub repeated: usize,
    /// Why the comparison ended.
    pub ended: CompareEnd,
}

/// Why a comparison ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CompareEnd {
    /// It has the pairs that it needed.
    Complete,
    /// The time was over.
    BudgetSpent,
    /// The user ended it.
    Interrupted,
    /// A side accepted no more connections.
    TargetLost,
    /// The command of a side failed.
    CommandFailed,
    /// The client fell short in too many rounds.
    Disturbed,
}

/// How a metric grows over the levels of a parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScaleResult {
    /// The parameter, such as `cores`.
    pub parameter: String,
    /// The levels in ascending order.
    pub levels: Vec<ScaleLevel>,
    /// The serial share by Amdahl's law; less than zero is more than linear growth.
    pub serial_share: Option<f64>,
    /// Its interval with a coverage of 95 %.
    pub serial_share95: Option<[f64; 2]>,
    /// The Universal Scalability Law, of three levels and more.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub universal: Option<UniversalScaling>,
    /// The answer in one sentence.
    pub sentence: String,
}

/// One level of a scaling.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScaleLevel {
    /// The parameter's value.
    pub n: u32,
    /// The median of the metric over its rounds.
    pub value: Option<f64>,
    /// The ratio to the lowest level.
    pub speedup: Option<f64>,
    /// Its interval with a coverage of 95 %.
    pub speedup95: Option<[f64; 2]>,
}

/// The coefficients of the Universal Scalability Law.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UniversalScaling {
    /// Contention: the serial share.
    pub contention: f64,
    /// Its interval with a coverage of 95 %.
    pub contention95: Option<[f64; 2]>,
    /// The cost of coherency.
    pub coherency: f64,
    /// Its interval with a coverage of 95 %.
    pub coherency95: Option<[f64; 2]>,
    /// The level beyond which the metric falls; `null` if there is none.
    pub peak_at: Option<f64>,
}
