//! The figures of the cache tier, of its volumes and of its origins, for the status listener.

use std::path::Path;
use std::sync::Arc;

use thalweg_origin::{Health, OriginGroup, OriginStatistics};
use thalweg_serve::{OriginFigures, OriginState, TierFigures, TierMount, VolumeFigures, VolumeState};
use thalweg_sys::clock;
use thalweg_tier::Tier;

/// A volume that the configuration names.
pub(super) struct VolumePlace {
    path: String,
    /// Why it was left out.
    pub refused: Option<String>,
}

impl VolumePlace {
    /// One that is used.
    pub(super) fn of(path: &Path) -> Self {
        Self { path: path.display().to_string(), refused: None }
    }
}

/// The figures of a tier, with the origins of each mount by its name, and the volumes that were
/// named.
pub(super) fn of(tier: &Tier, origins: &[(String, Arc<OriginGroup>)], volumes: &[VolumePlace]) -> TierFigures {
    let (total, mounts) = tier.counts_and_mounts();
    let volumes = of_volumes(tier, volumes);
    let oldest_s = volumes.iter().filter_map(|volume| volume.oldest_s).min();
    TierFigures {
        total: total.into(),
        mounts: mounts
            .into_iter()
            .map(|(name, counts)| TierMount { mount: name.into(), shares: counts.into() })
            .collect(),
        origins: origins
            .iter()
            .flat_map(|(mount, group)| group.statistics().into_iter().map(move |origin| of_origin(mount, origin)))
            .collect(),
        volumes,
        cycle_s: oldest_s.map(|oldest_s| clock::unix_seconds().saturating_sub(oldest_s)),
    }
}

fn of_volumes(tier: &Tier, places: &[VolumePlace]) -> Vec<VolumeFigures> {
    let mut open = tier.cache().volumes().iter();
    let of_place = |place: &VolumePlace| {
        let volume = if place.refused.is_none() { open.next() } else { None };
        let statistics = volume.map(|volume| volume.statistics()).unwrap_or_default();
        VolumeFigures {
            volume: place.path.clone(),
            state: match volume {
                None => VolumeState::Refused,
                Some(volume) if volume.is_lost() => VolumeState::Lost,
                Some(_) => VolumeState::Open,
            },
            reason: place.refused.clone(),
            size_bytes: statistics.capacity_bytes,
            filled_bytes: statistics.filled_bytes,
            damaged: statistics.damaged,
            unwritten: statistics.unwritten,
            failures: statistics.failures,
            oldest_s: statistics.oldest_s,
        }
    };
    places.iter().map(of_place).collect()
}

fn of_origin(mount: &str, origin: OriginStatistics) -> OriginFigures {
    OriginFigures {
        mount: mount.to_owned(),
        origin: origin.name.to_string(),
        state: match origin.health {
            Health::Up => OriginState::Up,
            Health::Down { .. } => OriginState::Down,
            Health::Probing => OriginState::Probing,
        },
        requests: origin.attempts,
        responses: origin.responses,
        failures: origin.failures.iter().map(|(kind, count)| (kind.name().to_owned(), *count)).collect(),
        bytes: origin.body_bytes,
        connections: origin.connections,
        connections_idle: origin.connections_idle,
        connections_opened: origin.connections_opened,
        requests_under_way: origin.requests,
        requests_waiting: origin.requests_waiting,
    }
}
