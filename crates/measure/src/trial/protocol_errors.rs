//! The protocol errors of a trial by their causes, with the first bytes of the first one of each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_units::display;

/// Causes that are told apart; errors of further ones are counted under [`OTHER`].
const CAUSES_MAX: usize = 16;

/// The cause of those that are counted together.
const OTHER: &str = "other causes";

/// Bytes kept of a response.
pub const FIRST_BYTES: usize = 48;

/// Whose rule a response has broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleOf {
    /// A bound of this client, which another client may not have.
    Client,
    /// The protocol, of which curl and `--lenient` tolerate exceptions like this one.
    Strictness,
    /// The protocol.
    Protocol,
}

/// A cause of protocol errors.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProtocolError {
    /// The fault of the response, or of the connection, in words.
    pub cause: String,
    /// Whose rule it breaks.
    pub rule: RuleOf,
    /// How often it was met. Requests that were lost behind such a response are not counted here.
    pub count: u64,
    /// The first bytes of the first one, from where the client could not read on: printable ASCII
    /// as it is, other bytes escaped.
    pub first_bytes: String,
}

/// The protocol errors of one trial, those of its warm-up included.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProtocolErrors(Vec<ProtocolError>);

impl ProtocolErrors {
    /// Counts an error, whose bytes begin so.
    pub fn record(&mut self, cause: &str, rule: RuleOf, bytes: &[u8]) {
        let first = &bytes[..bytes.len().min(FIRST_BYTES)];
        self.add(ProtocolError {
            cause: cause.to_owned(),
            rule,
            count: 1,
            first_bytes: first.escape_ascii().to_string(),
        });
    }

    /// Adds the errors of another load thread.
    pub fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|error| self.add(error.clone()));
    }

    /// The errors by cause, in the order in which the causes were met.
    pub fn list(&self) -> &[ProtocolError] {
        &self.0
    }

    fn add(&mut self, mut error: ProtocolError) {
        if self.0.len() >= CAUSES_MAX && self.0.iter().all(|known| known.cause != error.cause) {
            error.cause = OTHER.to_owned();
        }
        match self.0.iter_mut().find(|known| known.cause == error.cause) {
            Some(known) => known.count += error.count,
            None => self.0.push(error),
        }
    }
}

impl std::fmt::Display for ProtocolError {
    /// A sentence without a full stop.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "protocol error, {} x: {}", display::count(self.count), self.cause)?;
        f.write_str(match self.rule {
            RuleOf::Client => ", a bound of this client",
            RuleOf::Strictness => "; see --lenient",
            RuleOf::Protocol => "",
        })?;
        if self.first_bytes.is_empty() { Ok(()) } else { write!(f, "; first bytes: {}", self.first_bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_counted_with_the_first_bytes_of_the_first_one() {
        let (mut errors, mut other) = (ProtocolErrors::default(), ProtocolErrors::default());
        errors.record("its head has more than 64 KiB", RuleOf::Client, b"HTTP/1.1 200 OK\r\nX: \x01");
        other.record("its head has more than 64 KiB", RuleOf::Client, b"another");
        other.record("two lengths", RuleOf::Strictness, &[b'x'; 100]);
        errors.merge(&other);
        let texts: Vec<String> = errors.list().iter().map(ToString::to_string).collect();
        let expected = [
            r"protocol error, 2 x: its head has more than 64 KiB, a bound of this client; first bytes: HTTP/1.1 200 OK\r\nX: \x01",
            &format!("protocol error, 1 x: two lengths; see --lenient; first bytes: {}", "x".repeat(FIRST_BYTES)),
        ];
        assert_eq!(texts, expected);
    }

    #[test]
    fn the_number_of_causes_is_bounded() {
        let mut errors = ProtocolErrors::default();
        (0..100).for_each(|number| errors.record(&number.to_string(), RuleOf::Protocol, b""));
        assert_eq!(errors.list().len(), CAUSES_MAX + 1);
        assert_eq!(errors.list().iter().map(|error| error.count).sum::<u64>(), 100);
    }
}
