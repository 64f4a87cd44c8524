//! The result of a suite in the result document: the figures and curves of a test that a source
//! document describes.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_measure::Verdict;
use thalweg_units::display;

use super::trial::Trial;

/// The suites, by the names of the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SuiteName {
    /// ACME: 1000 files of 512 bytes, operations per second.
    AcmeSmall,
    /// ACME: the mix of SPECweb96 over a small tree, operations per second.
    AcmeSpec,
    /// ACME: ten files of 5 MB, bits per second.
    AcmeBig,
    /// ACME: the same files, simultaneous downloads at the speed of a modem.
    AcmeModem,
    /// HEAnet: `ab` on files of four sizes, autobench, concurrent downloads.
    Heanet,
    /// Mindcraft: WebBench's static mixes.
    Webbench,
    /// The load of SPECweb96: operations per second.
    Specweb96,
    /// The load of SPECweb99: simultaneous conforming connections.
    Specweb99,
}

impl SuiteName {
    /// All of them, in the order of the source documents' tables.
    pub const ALL: [Self; 8] = [
        Self::AcmeSmall,
        Self::AcmeSpec,
        Self::AcmeBig,
        Self::AcmeModem,
        Self::Webbench,
        Self::Heanet,
        Self::Specweb96,
        Self::Specweb99,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::AcmeSmall => "acme-small",
            Self::AcmeSpec => "acme-spec",
            Self::AcmeBig => "acme-big",
            Self::AcmeModem => "acme-modem",
            Self::Heanet => "heanet",
            Self::Webbench => "webbench",
            Self::Specweb96 => "specweb96",
            Self::Specweb99 => "specweb99",
        }
    }

    /// The title of its tables.
    pub fn title(self) -> &'static str {
        match self {
            Self::AcmeSmall => "ACME: 1000 files of 512 bytes",
            Self::AcmeSpec => "ACME: a data set similar to SPECweb96's",
            Self::AcmeBig => "ACME: ten files of 5 MB",
            Self::AcmeModem => "ACME: ten files of 5 MB at the speed of a modem",
            Self::Heanet => "HEAnet: ab, autobench and concurrent downloads",
            Self::Webbench => "WebBench as Mindcraft ran it",
            Self::Specweb96 => "SPECweb96-like, not SPEC-compliant",
            Self::Specweb99 => "SPECweb99-like, not SPEC-compliant",
        }
    }
}

impl fmt::Display for SuiteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no suite.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no suite; expected one of {names}", names = SuiteName::ALL.map(SuiteName::name).join(", "))]
pub struct UnknownSuite(String);

impl FromStr for SuiteName {
    type Err = UnknownSuite;

    fn from_str(text: &str) -> Result<Self, UnknownSuite> {
        Self::ALL.into_iter().find(|suite| suite.name() == text).ok_or_else(|| UnknownSuite(text.to_owned()))
    }
}

/// The figures of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// The suite.
    pub suite: SuiteName,
    /// The share of its times and numbers that was run; 1 is the whole suite.
    pub scale: f64,
    /// Its figures, in the same order in every result. One that was not measured has no value.
    pub figures: Vec<Figure>,
    /// Its curves, in the same order in every result, as far as they were measured.
    pub curves: Vec<Curve>,
    /// The choices where the source document is silent, and the departures from it, one sentence
    /// each.
    pub choices: Vec<String>,
    /// PASS: all figures were measured. FAIL: the server has kept one from being measured. INVALID:
    /// the client fell short, or the suite was interrupted.
    pub verdict: Verdict,
    /// Why, one sentence each.
    pub reasons: Vec<String>,
    /// Whether the user ended it before its time.
    #[serde(default)]
    pub interrupted: bool,
    /// Every trial in order; empty in a document, which has them in `trials`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub trials: Vec<Trial>,
}

/// One figure of a suite.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Its name, the same in every result of the suite.
    pub name: String,
    /// Its title in tables, such as `max ops/sec`.
    pub title: String,
    /// Its unit.
    pub unit: Unit,
    /// Its value; `null` if it was not measured.
    pub value: Option<f64>,
    /// The interval that holds it with 95 % probability, where a search gave one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interval95: Option<[f64; 2]>,
    /// Whether it is a lower bound, since the client came to its end first.
    #[serde(default)]
    pub at_least: bool,
    /// How it came about, or why there is none.
    pub words: String,
}

/// The unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    /// Operations or requests per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Bits of bodies per second.
    #[serde(rename = "bit/s")]
    BitsPerSecond,
    /// Bytes per second.
    #[serde(rename = "byte/s")]
    BytesPerSecond,
    /// Connections at once.
    #[serde(rename = "connections")]
    Connections,
    /// Threads of the load.
    #[serde(rename = "threads")]
    Threads,
    /// Milliseconds.
    #[serde(rename = "ms")]
    Milliseconds,
    /// A share from 0 to 1.
    #[serde(rename = "share")]
    Share,
}

/// A curve, or several over the same axes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// Its name, the same in every result of the suite: letters, digits and hyphens.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The horizontal axis, with its unit.
    pub x_axis: String,
    /// The vertical axis, with its unit.
    pub y_axis: String,
    /// The lines, at least one.
    pub lines: Vec<CurveLine>,
    /// The curve in words.
    pub words: String,
}

/// One line of a curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CurveLine {
    /// Its name in the legend.
    pub name: String,
    /// Its points, ascending by x.
    pub points: Vec<[f64; 2]>,
}

impl Measured {
    /// Nothing measured yet.
    pub fn new(suite: SuiteName, scale: f64) -> Self {
        Self {
            suite,
            scale,
            figures: Vec::new(),
            curves: Vec::new(),
            choices: Vec::new(),
            verdict: Verdict::Pass,
            reasons: Vec::new(),
            interrupted: false,
            trials: Vec::new(),
        }
    }

    /// The figure of this name.
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.name == name)
    }

    /// The curve of this name.
    pub fn curve(&self, name: &str) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.name == name)
    }

    /// Whether a figure was measured.
    pub fn has_values(&self) -> bool {
        self.figures.iter().any(|figure| figure.value.is_some())
    }

    /// The figures in one sentence.
    pub fn sentence(&self) -> String {
        let told = |figure: &Figure| figure.value.map(|_| format!("{} {}", figure.title, figure.text()));
        // Tables have the rest.
        const TOLD_MAX: usize = 2;
        let told: Vec<String> = self.figures.iter().filter_map(told).take(TOLD_MAX).collect();
        if told.is_empty() {
            return format!("{}: nothing was measured.", self.suite);
        }
        format!("{}: {}.", self.suite, told.join(", "))
    }
}

impl Figure {
    /// A figure without a value.
    pub fn new(name: &str, title: &str, unit: Unit) -> Self {
        Self {
            name: name.to_owned(),
            title: title.to_owned(),
            unit,
            value: None,
            interval95: None,
            at_least: false,
            words: "not measured".to_owned(),
        }
    }

    /// The value as a text with its unit: `at least 25,600 connections`; a dash if there is none.
    pub fn text(&self) -> String {
        let Some(value) = self.value else { return "–".to_owned() };
        let at_least = if self.at_least { "at least " } else { "" };
        format!("{at_least}{}", self.unit.text(value))
    }
}

impl Unit {
    /// The name in documents and tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "1/s",
            Self::BitsPerSecond => "bit/s",
            Self::BytesPerSecond => "byte/s",
            Self::Connections => "connections",
            Self::Threads => "threads",
            Self::Milliseconds => "ms",
            Self::Share => "share",
        }
    }

    /// A value with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::PerSecond => display::rate(value),
            Self::BitsPerSecond => display::link_rate(value.round() as u64),
            Self::BytesPerSecond => format!("{}/s", display::bytes(value.round() as u64)),
            Self::Connections => format!("{} connections", display::count(value.round() as u64)),
            Self::Threads => format!("{} threads", display::count(value.round() as u64)),
            Self::Milliseconds => display::time((value * 1e6).round() as u64),
            Self::Share => display::percent(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_documents() {
        for suite in SuiteName::ALL {
            assert_eq!(suite.name().parse(), Ok(suite));
            assert_eq!(serde_json::to_string(&suite).unwrap(), format!("{:?}", suite.name()));
        }
        let error = "acme".parse::<SuiteName>().unwrap_err().to_string();
        assert!(error.starts_with("\"acme\" is no suite; expected one of acme-small, "), "{error}");
    }

    #[test]
    fn a_result_is_read_back_as_it_was_written() {
        let figure = Figure {
            value: Some(4_870.123_456_789),
            interval95: Some([4800.0, 4900.1]),
            at_least: true,
            ..Figure::new("operations", "max ops/sec", Unit::PerSecond)
        };
        let line = CurveLine { name: "requests".to_owned(), points: vec![[2.0, 0.1], [32.0, 1e9 / 3.0]] };
        let curve = Curve {
            name: "requests".to_owned(),
            title: "HTTP requests per second".to_owned(),
            x_axis: "threads".to_owned(),
            y_axis: "requests per second".to_owned(),
            lines: vec![line],
            words: "it peaks".to_owned(),
        };
        let measured = Measured {
            figures: vec![figure, Figure::new("bits", "max bits/sec", Unit::BitsPerSecond)],
            curves: vec![curve],
            choices: vec!["a choice".to_owned()],
            reasons: vec!["a reason".to_owned()],
            interrupted: true,
            ..Measured::new(SuiteName::Webbench, 0.01)
        };
        let json = serde_json::to_string(&measured).unwrap();
        assert_eq!(serde_json::from_str::<Measured>(&json).unwrap(), measured);
        assert_eq!(measured.sentence(), "webbench: max ops/sec at least 4,870/s.");
        assert_eq!(Measured::new(SuiteName::Heanet, 1.0).sentence(), "heanet: nothing was measured.");
    }
}
