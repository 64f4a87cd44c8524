//! Responses by their status: by class, and by code.

use schemars::JsonSchema;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Responses by the first digit of their status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StatusClasses {
    /// Interim responses.
    #[serde(rename = "1xx")]
    pub informational: u64,
    /// Successes.
    #[serde(rename = "2xx")]
    pub success: u64,
    /// Redirections, 304 included.
    #[serde(rename = "3xx")]
    pub redirection: u64,
    /// Errors that the server puts down to the request.
    #[serde(rename = "4xx")]
    pub client_error: u64,
    /// Errors that the server owns up to.
    #[serde(rename = "5xx")]
    pub server_error: u64,
}

impl StatusClasses {
    /// The classes of responses that were counted by code. A status outside 100..=599 belongs to no
    /// class; such a response is a protocol error and is counted as that outcome, not here.
    pub fn of(codes: &StatusCodes) -> Self {
        let mut classes = Self::default();
        for (status, count) in codes.iter() {
            match status / 100 {
                1 => classes.informational += count,
                2 => classes.success += count,
                3 => classes.redirection += count,
                4 => classes.client_error += count,
                5 => classes.server_error += count,
                _ => {}
            }
        }
        classes
    }
}

/// Responses by code: one counter for each of the three-digit codes, so that counting allocates
/// nothing. Serialises as a map from the codes that came, in ascending order, to their counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusCodes {
    counts: Box<[u64; CODES]>,
}

/// The lowest code that a response can have, and how many there are from there on.
const CODE_MIN: u16 = 100;
const CODES: usize = 900;

impl Default for StatusCodes {
    fn default() -> Self {
        StatusCodes { counts: Box::new([0; CODES]) }
    }
}

impl StatusCodes {
    /// Counts one response. What is no three-digit code is not counted.
    pub fn record(&mut self, status: u16) {
        self.record_n(status, 1);
    }

    /// Counts `n` responses.
    pub fn record_n(&mut self, status: u16, n: u64) {
        let place = usize::from(status).checked_sub(usize::from(CODE_MIN));
        if let Some(count) = place.and_then(|place| self.counts.get_mut(place)) {
            *count += n;
        }
    }

    /// Adds the counts of another load thread or trial.
    pub fn merge(&mut self, other: &StatusCodes) {
        for (count, more) in self.counts.iter_mut().zip(other.counts.iter()) {
            *count += more;
        }
    }

    /// The codes that came, ascending, and how often.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> {
        (CODE_MIN..).zip(self.counts.iter().copied()).filter(|(_, count)| *count > 0)
    }

    /// Whether no response came.
    pub fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }
}

impl Serialize for StatusCodes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.iter().count()))?;
        for (code, count) in self.iter() {
            map.serialize_entry(&code.to_string(), &count)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for StatusCodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counted;

        impl<'de> Visitor<'de> for Counted {
            type Value = StatusCodes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from status code to count")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<StatusCodes, A::Error> {
                let mut codes = StatusCodes::default();
                while let Some((code, count)) = map.next_entry::<String, u64>()? {
                    let place = code.parse::<usize>().ok().and_then(|code| code.checked_sub(usize::from(CODE_MIN)));
                    let slot = place.and_then(|place| codes.counts.get_mut(place));
                    let slot = slot.ok_or_else(|| A::Error::custom(format!("{code:?} is no status code")))?;
                    *slot = slot.checked_add(count).ok_or_else(|| A::Error::custom("count out of range"))?;
                }
                Ok(codes)
            }
        }

        deserializer.deserialize_map(Counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_fall_into_classes() {
        let mut codes = StatusCodes::default();
        for code in [100, 200, 206, 304, 404, 503, 599, 600, 0] {
            codes.record(code);
        }
        let document = serde_json::to_string(&StatusClasses::of(&codes)).unwrap();
        assert_eq!(document, r#"{"1xx":1,"2xx":2,"3xx":1,"4xx":1,"5xx":2}"#);
    }

    #[test]
    fn each_code_is_counted_by_itself() {
        let mut codes = StatusCodes::default();
        assert!(codes.is_empty());
        for status in [404, 200, 200, 100, 999, 599] {
            codes.record(status);
        }
        let mut other = StatusCodes::default();
        other.record_n(404, 3);
        codes.merge(&other);
        assert_eq!(codes.iter().collect::<Vec<_>>(), [(100, 1), (200, 2), (404, 4), (599, 1), (999, 1)]);
        let json = serde_json::to_string(&codes).unwrap();
        assert_eq!(json, r#"{"100":1,"200":2,"404":4,"599":1,"999":1}"#);
        assert_eq!(serde_json::from_str::<StatusCodes>(&json).unwrap(), codes);
    }

    #[test]
    fn an_invalid_status_code_is_not_counted() {
        let mut codes = StatusCodes::default();
        for status in [0, 99, 1000, u16::MAX] {
            codes.record(status);
        }
        assert!(codes.is_empty());
        for wrong in [r#"{"99":1}"#, r#"{"1000":1}"#, r#"{"2xx":1}"#, r#"{"200":-1}"#] {
            serde_json::from_str::<StatusCodes>(wrong).expect_err(wrong);
        }
    }
}
