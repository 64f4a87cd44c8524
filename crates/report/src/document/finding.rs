//! A finding: one piece of evidence, the part that it points at, and how much it shows.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cause that keeps the rate from rising.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// The target.
    Server,
    /// The measuring client.
    Client,
    /// The path between them.
    Network,
    /// The evidence is not sufficient.
    Undetermined,
}

impl LimitedBy {
    /// The part in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Server => "the server",
            Self::Client => "the client",
            Self::Network => "the network",
            Self::Undetermined => "undetermined",
        }
    }
}

/// One piece of evidence.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The kind of evidence, by the name of its section in docs/bottleneck.md.
    pub kind: String,
    /// The part that it points at; `undetermined` for a finding that describes the circumstances.
    pub culprit: LimitedBy,
    /// How much it shows.
    pub strength: Strength,
    /// The more precise cause, as `find.cause` names it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cause: Option<String>,
    /// The finding in words.
    pub sentence: String,
    /// The figures behind it, by name; times in microseconds, shares from 0 to 1.
    pub figures: BTreeMap<String, f64>,
}

/// How much a finding shows. Only the last two name a culprit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Strength {
    /// It describes the circumstances.
    Context,
    /// It fits a culprit, and other explanations too.
    Supports,
    /// It was measured from outside and shows the culprit, unless something is proven.
    Shows,
    /// It was seen at the culprit itself.
    Proves,
}

impl Finding {
    /// A finding that points at a part.
    pub fn of(culprit: LimitedBy, strength: Strength, kind: &str, sentence: String) -> Self {
        Self { kind: kind.to_owned(), culprit, strength, cause: None, sentence, figures: BTreeMap::new() }
    }

    /// A finding that describes the circumstances.
    pub fn context(kind: &str, sentence: String) -> Self {
        Self::of(LimitedBy::Undetermined, Strength::Context, kind, sentence)
    }

    /// The same with its cause.
    pub fn caused_by(self, cause: &str) -> Self {
        Self { cause: Some(cause.to_owned()), ..self }
    }

    /// The same with one more figure.
    pub fn figure(mut self, name: &str, value: f64) -> Self {
        self.figures.insert(name.to_owned(), value);
        self
    }

    /// Whether it can name a culprit.
    pub fn names(&self) -> bool {
        self.culprit != LimitedBy::Undetermined && self.strength >= Strength::Shows
    }
}
