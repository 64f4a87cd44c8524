//! The figures of the cache tier as metrics.

use std::fmt;

use prometheus_client::registry::Unit;
use thalweg_tier::Counts;

use super::families::Out;
use crate::content::tier_figures::{OriginFigures, OriginState, TierFigures, VolumeFigures, VolumeState};

/// Writes the families.
pub(super) fn encode(tier: &TierFigures, out: &mut Out<'_, '_>) -> fmt::Result {
    encode_outcomes(tier, out)?;
    encode_mounts(tier, out)?;
    let counts = &tier.total.counts;
    let help = "Objects and groups that were purged, by an operator or by a request to their mount";
    out.counter("disk_cache_purges", help, None, counts.purges)?;
    let help = "Operations of the disk cache's store that failed";
    out.counter("disk_cache_store_failures", help, None, counts.store_failures)?;
    encode_volumes(&tier.volumes, out)?;
    encode_origins(&tier.origins, out)
}

fn encode_outcomes(tier: &TierFigures, out: &mut Out<'_, '_>) -> fmt::Result {
    let outcomes = tier.mounts.iter().flat_map(|mount| {
        let Counts { held_hits, hits, collapsed, stale, revalidated, stale_if_error, misses, passed, failed, .. } =
            mount.shares.counts;
        let of_mount = [
            ("held_hit", held_hits),
            ("hit", hits),
            ("collapsed", collapsed),
            ("stale", stale),
            ("revalidated", revalidated),
            ("stale_if_error", stale_if_error),
            ("miss", misses),
            ("passed", passed),
            ("failed", failed),
        ];
        of_mount.map(|(outcome, count)| ([("mount", mount.mount.as_str()), ("outcome", outcome)], count))
    });
    out.counters("disk_cache_requests", "Requests to mounts with origins, by mount and outcome", None, outcomes)
}

fn encode_mounts(tier: &TierFigures, out: &mut Out<'_, '_>) -> fmt::Result {
    let of = |value: fn(&Counts) -> u64| {
        let mounts = tier.mounts.iter();
        mounts.map(move |mount| ([("mount", mount.mount.as_str())], value(&mount.shares.counts)))
    };
    let bytes = Some(Unit::Bytes);
    let help = "Hits for which a part of the body had to be fetched";
    out.counters("disk_cache_partial_hits", help, None, of(|counts| counts.partial))?;
    let help = "Bytes of bodies that were given to clients, from the cache or from an origin";
    out.counters("disk_cache_served", help, bytes.clone(), of(|counts| counts.served_bytes))?;
    let help = "Bytes of content that came from origins";
    out.counters("disk_cache_origin_received", help, bytes.clone(), of(|counts| counts.origin_bytes))?;
    out.counters("disk_cache_origin_requests", "Requests to origins", None, of(|counts| counts.origin_requests))?;
    let help = "Requests to origins that none of them answered";
    out.counters("disk_cache_origin_failures", help, None, of(|counts| counts.origin_failures))?;
    let help = "Bytes of content that came from other servers of the cluster";
    out.counters("disk_cache_peer_received", help, bytes, of(|counts| counts.peer_bytes))?;
    let help = "Requests that other servers of the cluster answered";
    out.counters("disk_cache_peer_requests", help, None, of(|counts| counts.peer_requests))?;
    let help = "Validations that no client waited for";
    out.counters("disk_cache_validations", help, None, of(|counts| counts.validations))?;
    let help = "Fetches that went on by a range request after they had been cut off";
    out.counters("disk_cache_resumptions", help, None, of(|counts| counts.resumed))?;
    let help = "Downloads that were cut off because the object has changed at the origin";
    out.counters("disk_cache_changes", help, None, of(|counts| counts.changed))
}

fn encode_volumes(volumes: &[VolumeFigures], out: &mut Out<'_, '_>) -> fmt::Result {
    let of = |value: fn(&VolumeFigures) -> u64| {
        volumes.iter().map(move |volume| ([("volume", volume.volume.as_str())], value(volume)))
    };
    let help = "Whether the volume is used";
    out.gauges("disk_cache_volume_up", help, None, of(|volume| u64::from(volume.state == VolumeState::Open)))?;
    let help = "Bytes that the volume has for fragments";
    out.gauges("disk_cache_volume_size", help, Some(Unit::Bytes), of(|volume| volume.size_bytes))?;
    let help = "Bytes of the volume's stripes that have been written";
    out.gauges("disk_cache_volume_filled", help, Some(Unit::Bytes), of(|volume| volume.filled_bytes))?;
    out.counters("disk_cache_volume_damaged", "Damaged records found", None, of(|volume| volume.damaged))?;
    let help = "Reads and writes of the volume that failed";
    out.counters("disk_cache_volume_failures", help, None, of(|volume| volume.failures))?;
    let oldest = volumes.iter().filter_map(|volume| Some(([("volume", volume.volume.as_str())], volume.oldest_s?)));
    let help = "Time at which the fragment was written that is overwritten next, since 1970-01-01 UTC";
    out.gauges("disk_cache_volume_oldest_timestamp_seconds", help, None, oldest)
}

fn encode_origins(origins: &[OriginFigures], out: &mut Out<'_, '_>) -> fmt::Result {
    fn labels(origin: &OriginFigures) -> [(&'static str, &str); 2] {
        [("mount", origin.mount.as_str()), ("origin", origin.origin.as_str())]
    }
    let of = |value: fn(&OriginFigures) -> u64| origins.iter().map(move |origin| (labels(origin), value(origin)));
    let help = "Whether the origin is asked; 0 while it is skipped after failures";
    out.gauges("origin_up", help, None, of(|origin| u64::from(origin.state == OriginState::Up)))?;
    out.counters("origin_requests", "Requests to the origin that were begun", None, of(|origin| origin.requests))?;
    let help = "Responses of the origin whose head arrived";
    out.counters("origin_responses", help, None, of(|origin| origin.responses))?;
    let failures = origins.iter().flat_map(|origin| {
        let [mount, name] = labels(origin);
        origin.failures.iter().map(move |(kind, count)| ([mount, name, ("kind", kind.as_str())], *count))
    });
    out.counters("origin_failures", "Failures of requests to the origin by kind", None, failures)?;
    let help = "Bytes of bodies that came from the origin";
    out.counters("origin_received", help, Some(Unit::Bytes), of(|origin| origin.bytes))?;
    out.gauges("origin_connections_open", "Connections to the origin", None, of(|origin| origin.connections))?;
    let help = "Connections to the origin that no request uses";
    out.gauges("origin_connections_idle", help, None, of(|origin| origin.connections_idle))?;
    let help = "Connections to the origin that were opened";
    out.counters("origin_connections", help, None, of(|origin| origin.connections_opened))?;
    let help = "Requests to the origin whose response is not complete";
    out.gauges("origin_requests_under_way", help, None, of(|origin| origin.requests_under_way))?;
    let help = "Requests that wait for others to the origin";
    out.gauges("origin_requests_waiting", help, None, of(|origin| origin.requests_waiting))
}
