//! The figures of a cache tier at one moment, as the status listener shows them.

use serde::{Serialize, Serializer};
use thalweg_tier::Counts;

/// The figures of a cache tier. Counts are since the start.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct TierFigures {
    /// Of all mounts together, those that there are no more among them.
    #[serde(flatten)]
    pub total: Shares,
    /// Each mount that there ever was.
    pub mounts: Vec<TierMount>,
    /// Each origin of each present mount.
    pub origins: Vec<OriginFigures>,
    /// Each volume; one for memory.
    pub volumes: Vec<VolumeFigures>,
    /// Seconds since the oldest fragment was written that is overwritten next: the time for which
    /// what nobody asks for stays. `None` before the first lap is over.
    pub cycle_s: Option<u64>,
}

/// Counts, and the shares that they come to.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Shares {
    /// The share of requests that were answered without a request to an origin for the response;
    /// `None` without requests.
    pub hit_ratio: Option<f64>,
    /// The share of bytes to clients beyond those that came from origins and other servers of a
    /// cluster; `None` without bytes.
    pub byte_hit_ratio: Option<f64>,
    /// The counts.
    #[serde(serialize_with = "as_map")]
    pub counts: Counts,
}

impl From<Counts> for Shares {
    fn from(counts: Counts) -> Self {
        let share = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
        let fetched = counts.origin_bytes + counts.peer_bytes;
        Self {
            hit_ratio: share(counts.hit_requests(), counts.requests()),
            byte_hit_ratio: share(counts.served_bytes.saturating_sub(fetched), counts.served_bytes),
            counts,
        }
    }
}

fn as_map<S: Serializer>(counts: &Counts, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.all())
}

/// The figures of a mount with origins.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TierMount {
    /// Its label.
    pub mount: String,
    /// Its counts.
    #[serde(flatten)]
    pub shares: Shares,
}

/// The figures of an origin of a mount. Counts are since the mount was made as it is.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct OriginFigures {
    /// The label of the mount.
    pub mount: String,
    /// The origin's name.
    pub origin: String,
    /// Whether it is asked.
    pub state: OriginState,
    /// Attempts: requests that were begun.
    pub requests: u64,
    /// Responses whose head arrived.
    pub responses: u64,
    /// Failures by kind, without those that did not occur.
    #[serde(serialize_with = "as_pairs")]
    pub failures: Vec<(String, u64)>,
    /// Bytes of bodies that arrived.
    pub bytes: u64,
    /// Open connections.
    pub connections: u64,
    /// Open connections that no request uses.
    pub connections_idle: u64,
    /// Connections that were opened so far.
    pub connections_opened: u64,
    /// Requests whose response is not complete.
    pub requests_under_way: u64,
    /// Requests that wait for others.
    pub requests_waiting: u64,
}

impl OriginFigures {
    /// All failures.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|(_, count)| count).sum()
    }
}

fn as_pairs<S: Serializer>(pairs: &[(String, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(kind, count)| (kind, count)))
}

/// Whether an origin is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum OriginState {
    /// It is.
    Up,
    /// It is skipped after failures.
    Down,
    /// One request finds out whether it has recovered.
    Probing,
}

/// The figures of a volume.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct VolumeFigures {
    /// Its path, or `memory`.
    pub volume: String,
    /// Whether it is used.
    pub state: VolumeState,
    /// Why it was left out at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Bytes of its stripes, and of those that have been written.
    pub size_bytes: u64,
    /// Bytes of the stripes that have been written.
    pub filled_bytes: u64,
    /// Records that were found damaged.
    pub damaged: u64,
    /// Records that a crash has taken.
    pub unwritten: u64,
    /// Reads and writes that failed.
    pub failures: u64,
    /// When the fragment was written that is overwritten next, in seconds since 1970.
    pub oldest_s: Option<u64>,
}

/// Whether a volume is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum VolumeState {
    /// It is.
    Open,
    /// It was taken out after failures.
    Lost,
    /// It could not be opened at the start.
    Refused,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_requests_and_of_bytes() {
        let counts =
            Counts { held_hits: 5, hits: 1, misses: 2, served_bytes: 1000, origin_bytes: 150, ..Counts::default() };
        let shares = Shares::from(Counts { peer_bytes: 100, ..counts });
        assert_eq!((shares.hit_ratio, shares.byte_hit_ratio), (Some(0.75), Some(0.75)));
        assert_eq!(Shares::from(Counts::default()), Shares::default());
        let ahead = Shares::from(Counts { origin_bytes: 2000, ..counts });
        assert_eq!(ahead.byte_hit_ratio, Some(0.0), "what was fetched ahead");
    }
}
