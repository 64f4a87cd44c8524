//! Service laws: the distribution of the time that a server needs for a request.

use rand::RngExt;
use rand_distr::{Distribution, Exp1};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// The distribution of service times, in seconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case", tag = "law")]
pub enum Law {
    /// Each request takes the same time.
    Fixed {
        /// That time.
        time_s: f64,
    },
    /// The times are exponentially distributed.
    Exponential {
        /// Their mean.
        mean_s: f64,
    },
    /// A request takes one of two times.
    TwoPoint {
        /// The shorter one.
        short_s: f64,
        /// The longer one.
        long_s: f64,
        /// The share of requests that take the longer one.
        long_share: f64,
    },
}

impl Law {
    /// The mean service time in seconds.
    pub fn mean_s(self) -> f64 {
        match self {
            Self::Fixed { time_s } => time_s,
            Self::Exponential { mean_s } => mean_s,
            Self::TwoPoint { short_s, long_s, long_share } => short_s + long_share * (long_s - short_s),
        }
    }

    /// The same distribution with all times multiplied by `factor`.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        match self {
            Self::Fixed { time_s } => Self::Fixed { time_s: time_s * factor },
            Self::Exponential { mean_s } => Self::Exponential { mean_s: mean_s * factor },
            Self::TwoPoint { short_s, long_s, long_share } => {
                Self::TwoPoint { short_s: short_s * factor, long_s: long_s * factor, long_share }
            }
        }
    }

    /// Draws a service time, in nanoseconds.
    pub(crate) fn draw_ns(self, random: &mut Pcg64Mcg) -> f64 {
        let seconds = match self {
            Self::Fixed { time_s } => time_s,
            Self::Exponential { mean_s } => {
                let unit: f64 = Exp1.sample(random);
                mean_s * unit
            }
            Self::TwoPoint { short_s, long_s, long_share } => {
                if random.random::<f64>() < long_share {
                    long_s
                } else {
                    short_s
                }
            }
        };
        seconds * 1e9
    }
}
