//! How many requests a client may make.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

/// Requests in a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestRate {
    /// So many requests.
    pub requests: NonZeroU32,
    /// In each of these.
    pub period: Period,
}

/// A period of a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Period {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
}

/// The limit of a client's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestLimit {
    /// The rate; `None` is without limit.
    pub rate: Option<RequestRate>,
    /// The most requests at once; 0 is as many as the rate has in two seconds, and ten at least.
    pub burst: u32,
}

/// Least burst where none is set: a page and its pictures.
const BURST_LEAST: u32 = 10;

/// A text that is no rate of requests.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is not a rate of requests; expected for example \"10/s\", \"100/min\", \"1000/h\" or \"unlimited\"")]
pub struct RequestRateError(String);

impl Period {
    const ALL: [(&'static str, Self); 3] = [("s", Self::Second), ("min", Self::Minute), ("h", Self::Hour)];

    /// Nanoseconds.
    pub const fn ns(self) -> u64 {
        match self {
            Self::Second => 1_000_000_000,
            Self::Minute => 60_000_000_000,
            Self::Hour => 3_600_000_000_000,
        }
    }
}

impl FromStr for RequestRate {
    type Err = RequestRateError;

    fn from_str(text: &str) -> Result<Self, RequestRateError> {
        let wrong = || RequestRateError(text.to_owned());
        let (requests, unit) = text.split_once('/').ok_or_else(wrong)?;
        let requests = requests.trim().parse().map_err(|_| wrong())?;
        let period = Period::ALL.into_iter().find(|(name, _)| *name == unit.trim()).ok_or_else(wrong)?.1;
        Ok(Self { requests, period })
    }
}

impl fmt::Display for RequestRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, _) = Period::ALL[self.period as usize];
        write!(f, "{}/{unit}", self.requests)
    }
}

impl RequestLimit {
    /// The most requests at once; `None` without a rate.
    pub(crate) fn burst_max(&self) -> Option<u32> {
        let rate = self.rate?;
        if self.burst > 0 {
            return Some(self.burst);
        }
        let of_two_seconds = u64::from(rate.requests.get()) * 2 * Period::Second.ns() / rate.period.ns();
        Some(u32::try_from(of_two_seconds).unwrap_or(u32::MAX).max(BURST_LEAST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_they_are_written() {
        for (text, written, ns) in [
            ("10/s", "10/s", 1_000_000_000),
            ("100/min", "100/min", 60_000_000_000),
            (" 1 / h ", "1/h", 3_600_000_000_000),
        ] {
            let rate: RequestRate = text.parse().unwrap();
            assert_eq!((rate.to_string().as_str(), rate.period.ns()), (written, ns));
        }
        for text in ["", "10", "10/", "/s", "0/s", "-1/s", "1.5/s", "10/day", "99999999999/s", "unlimited"] {
            assert!(text.parse::<RequestRate>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_burst_that_is_not_set_is_that_of_two_seconds() {
        for (rate, burst, expected) in
            [("10/s", 0, 20), ("1/s", 0, 10), ("100/min", 0, 10), ("10/s", 3, 3), ("4294967295/s", 0, u32::MAX)]
        {
            let limit = RequestLimit { rate: Some(rate.parse().unwrap()), burst };
            assert_eq!(limit.burst_max(), Some(expected), "{rate} {burst}");
        }
        assert_eq!(RequestLimit { rate: None, burst: 3 }.burst_max(), None);
    }
}
