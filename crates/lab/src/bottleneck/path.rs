//! The path: packets that queue on it, and packets that it loses.

use thalweg_report::document::{Finding, LimitedBy, Strength, Trial};
use thalweg_units::display;

use super::collected::Evidence;
use crate::environment::{HandshakeTimes, PathFigures};
use crate::evidence::Diagnosis;

const KIND: &str = "path";

/// Handshakes that make a median.
const HANDSHAKES_MIN: usize = 5;
/// The growth of the handshake's time from which on packets queue on the path. A saturated CPU
/// delays them by up to about a millisecond too.
const QUEUEING_MIN_US: f64 = 2_000.0;
const GROWTH_MIN: f64 = 3.0;
/// The share of the time to the first byte that is explained by the handshake's time. On a full
/// path it is nearly all of it.
const EXPLAINED: f64 = 0.5;
/// A share of segments out of order or sent again that a healthy path does not show.
const LOSSY: f64 = 0.01;
/// Bytes on an Ethernet per byte of HTTP in full segments: 1538 for 1448.
const BELOW_HTTP: f64 = 1.06;
/// The use of a link from which on it is full: it leaves no room for bursts.
const LINK_FULL: f64 = 0.85;

pub(super) fn findings(seen: &Evidence<'_>) -> Vec<Finding> {
    let Some(diagnosis) = seen.diagnosis else { return Vec::new() };
    let trial = &diagnosis.trial;
    let path = diagnosis.path;
    let queueing = path.and_then(|path| queueing(trial, &path));
    let loss = path.and_then(|path| loss(seen, trial, &path));
    [interface(diagnosis), capacity(diagnosis), queueing, loss].into_iter().flatten().collect()
}

/// Whether packets queue on the path during the overload.
pub(super) fn queues(path: &PathFigures) -> bool {
    let PathFigures { idle, loaded, .. } = path;
    let grown = loaded.p50_us - idle.min_us;
    is_known(loaded) && is_known(idle) && grown >= QUEUEING_MIN_US && loaded.p50_us >= GROWTH_MIN * idle.min_us
}

/// The share of responses that a lost segment may have delayed.
pub(super) fn delayed_by_loss(trial: &Trial, path: &PathFigures) -> f64 {
    const SEGMENT_BYTES: f64 = 1448.0;
    let bytes = trial.bytes.received as f64 / trial.counts.completed.max(1) as f64;
    path.out_of_order.max(path.retransmitted) * (bytes / SEGMENT_BYTES).max(1.0)
}

pub(super) fn is_known(times: &HandshakeTimes) -> bool {
    times.count >= HANDSHAKES_MIN
}

/// The interface to the target carries what it can.
fn interface(diagnosis: &Diagnosis) -> Option<Finding> {
    let interface = diagnosis.interface.as_ref()?;
    let trial = &diagnosis.trial;
    let bits = received_bits(trial).max(sent_bits(trial)) * BELOW_HTTP;
    let share = bits / interface.bits_per_s as f64;
    let sentence = format!(
        "{} passed over {}, with the headers below HTTP: {} of its speed",
        display::link_rate(bits as u64),
        interface.name,
        display::percent(share)
    );
    let finding = Finding::of(LimitedBy::Network, Strength::Proves, KIND, sentence).caused_by("path full");
    (share >= LINK_FULL).then(|| finding.figure("bits_per_s", bits).figure("link_use", share))
}

/// The path carries as much as a bulk transfer has shown it to.
fn capacity(diagnosis: &Diagnosis) -> Option<Finding> {
    let capacity = match diagnosis.path_capacity.as_ref()? {
        Ok(capacity) => capacity.max(1.0),
        Err(error) => return Some(Finding::context(KIND, format!("the path check failed: {error}"))),
    };
    let bits = received_bits(&diagnosis.trial);
    let (share, figures) = (bits / capacity, [bits, capacity].map(|bits| display::link_rate(bits as u64)));
    let [used, carried] = figures;
    let sentence = format!(
        "{used} of responses arrived, {} of the {carried} that a bulk transfer from the server's host reached",
        display::percent(share)
    );
    let finding = if share >= LINK_FULL {
        Finding::of(LimitedBy::Network, Strength::Proves, KIND, sentence).caused_by("path full")
    } else {
        Finding::context(KIND, sentence)
    };
    Some(finding.figure("received_bits_per_s", bits).figure("capacity_bits_per_s", capacity))
}

/// A queue in front of the narrowest link delays every packet, that of a handshake too, while the
/// kernel at its end answers a handshake at once.
fn queueing(trial: &Trial, path: &PathFigures) -> Option<Finding> {
    if !queues(path) {
        return None;
    }
    let explained = path.loaded.p50_us / trial.first_byte_us.p50.max(1.0);
    let strength = if explained >= EXPLAINED { Strength::Shows } else { Strength::Supports };
    let bits = received_bits(trial);
    let sentence = format!(
        "packets queued on the path: a handshake, which the server's kernel answers by itself, took {} during the \
         overload and {} without load, while {} arrived; a response's first byte took {}",
        time(path.loaded.p50_us),
        time(path.idle.min_us),
        display::link_rate(bits as u64),
        time(trial.first_byte_us.p50)
    );
    let finding = Finding::of(LimitedBy::Network, strength, KIND, sentence).caused_by("path full");
    let finding = finding.figure("handshake_idle_us", path.idle.min_us).figure("handshake_us", path.loaded.p50_us);
    Some(finding.figure("first_byte_us", trial.first_byte_us.p50).figure("received_bits_per_s", bits))
}

/// Loss delays only the responses that it touches. It is no explanation where those are few.
fn loss(seen: &Evidence<'_>, trial: &Trial, path: &PathFigures) -> Option<Finding> {
    let lost = path.out_of_order.max(path.retransmitted);
    if seen.shared_host || lost < LOSSY {
        return None;
    }
    let sentence = format!(
        "{} of the segments from the server came out of order and {} of those to it were sent again: the path loses \
         packets",
        display::percent(path.out_of_order),
        display::percent(path.retransmitted)
    );
    let strength = if delayed_by_loss(trial, path) >= EXPLAINED { Strength::Shows } else { Strength::Supports };
    let finding = Finding::of(LimitedBy::Network, strength, KIND, sentence).caused_by("path lossy");
    Some(finding.figure("out_of_order", path.out_of_order).figure("retransmitted", path.retransmitted))
}

/// Bits of requests that left per second, likewise.
fn sent_bits(trial: &Trial) -> f64 {
    trial.rates.sent * 8.0 * trial.bytes.sent as f64 / trial.counts.sent.max(1) as f64
}

/// Bits of responses that arrived per second, without the headers below HTTP.
fn received_bits(trial: &Trial) -> f64 {
    trial.rates.completed * 8.0 * trial.bytes.received as f64 / trial.counts.completed.max(1) as f64
}

pub(super) fn time(us: f64) -> String {
    display::time((us * 1e3) as u64)
}
