//! The counts of a conversion.

use std::collections::BTreeMap;

use serde::Serialize;

/// The counts of a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Lines, without empty ones.
    pub lines: u64,
    /// Lines that are none of a log in the format; they are left out.
    pub bad_lines: u64,
    /// Requests in the sessions.
    pub requests: u64,
    /// Requests that are not, by reason.
    pub dropped: DropCounts,
    /// Requests in the sessions that stood in the log behind later ones of their client, and were
    /// put in their place.
    pub displaced: u64,
    /// Times from which on the log went on at an earlier time, as a log does behind another one
    /// that is newer. All sessions end there.
    pub steps_back: u64,
    /// Sessions.
    pub sessions: u64,
    /// Sessions that ended for lack of memory, the longest idle ones first. Later requests of the
    /// same client are in another session.
    pub closed_for_memory: u64,
    /// Sessions that ended because they had as many requests as a session may have.
    pub closed_for_length: u64,
    /// Sessions that are not in the order of their first requests, because there was no memory for
    /// the finished ones that had to wait for them.
    pub out_of_order: u64,
    /// Bursts.
    pub bursts: u64,
    /// Requests of the longest session.
    pub session_requests_max: u64,
    /// Think times that were shortened to the longest permitted one.
    pub thinks_shortened: u64,
    /// Think times in seconds, as written.
    #[serde(serialize_with = "Thinks::serialize_quantiles")]
    pub thinks: Thinks,
    /// The second of the first request in a session, since 1970-01-01 00:00:00 UTC.
    pub first_unix_s: Option<i64>,
    /// And of the last one.
    pub last_unix_s: Option<i64>,
}

/// How many requests are in no session, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DropCounts {
    /// Before `from` or not before `to`.
    pub time: u64,
    /// Of another virtual host.
    pub host: u64,
    /// The request line was none.
    pub malformed: u64,
    /// A method that is not taken.
    pub method: u64,
    /// A method whose body is not in the log, and no contents were given for it.
    pub body: u64,
    /// A status that is not taken.
    pub status: u64,
    /// The target cannot be sent, or is too long for httperf.
    pub target: u64,
    /// A path that is not included, or excluded.
    pub path: u64,
    /// Clients outside the sample.
    pub sample: u64,
    /// So far behind later lines that its session is closed.
    pub late: u64,
    /// Of sessions beyond the wanted number.
    pub beyond: u64,
}

impl DropCounts {
    /// How many there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.reasons().iter().map(|(count, _)| count).sum()
    }

    /// Each count with its reason in words.
    #[must_use]
    pub fn reasons(&self) -> [(u64, &'static str); 11] {
        [
            (self.time, "outside --from and --to"),
            (self.host, "of other virtual hosts"),
            (self.malformed, "malformed requests"),
            (self.method, "other methods"),
            (self.body, "with a body that is not in the log"),
            (self.status, "other statuses"),
            (self.target, "invalid targets"),
            (self.path, "other paths"),
            (self.sample, "of clients outside the sample"),
            (self.late, "too far out of order"),
            (self.beyond, "of sessions beyond --max-sessions"),
        ]
    }
}

/// Think times in whole seconds: how often there was each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thinks {
    counts: BTreeMap<u32, u64>,
}

impl Thinks {
    pub(crate) fn add(&mut self, seconds: u32) {
        *self.counts.entry(seconds).or_default() += 1;
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.values().sum()
    }

    /// The least time that so many percent are no longer than, in seconds; `None` if there is none.
    #[must_use]
    pub fn percentile(&self, percent: f64) -> Option<u32> {
        let rank = (self.count() as f64 * percent / 100.0).ceil().max(1.0) as u64;
        let mut before = 0;
        self.counts.iter().find_map(|(&seconds, &count)| {
            before += count;
            (before >= rank).then_some(seconds)
        })
    }

    /// The mean, in seconds; `None` if there is none.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let sum: f64 = self.counts.iter().map(|(&seconds, &count)| f64::from(seconds) * count as f64).sum();
        (!self.counts.is_empty()).then(|| sum / self.count() as f64)
    }

    fn serialize_quantiles<S: serde::Serializer>(thinks: &Self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Quantiles {
            count: u64,
            mean_s: Option<f64>,
            p50_s: Option<u32>,
            p90_s: Option<u32>,
            p99_s: Option<u32>,
            max_s: Option<u32>,
        }
        let [p50_s, p90_s, p99_s, max_s] = [50.0, 90.0, 99.0, 100.0].map(|percent| thinks.percentile(percent));
        Quantiles { count: thinks.count(), mean_s: thinks.mean(), p50_s, p90_s, p99_s, max_s }.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let mut thinks = Thinks::default();
        assert_eq!((thinks.percentile(50.0), thinks.mean()), (None, None));
        (1..=10).for_each(|seconds| thinks.add(seconds));
        let all = [0.0, 50.0, 51.0, 90.0, 99.0, 100.0].map(|percent| thinks.percentile(percent).unwrap());
        assert_eq!((all, thinks.mean()), ([1, 5, 6, 9, 10, 10], Some(5.5)));
    }
}
