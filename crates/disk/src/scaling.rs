//! The course of throughput over the number of streams, in words.

use thalweg_units::display::bytes;

use crate::document::{Shape, StreamLevel};

/// Throughput beyond the maximum that is as good as the maximum.
const HOLDS: f64 = 0.9;

/// Throughput beyond the maximum below which it has collapsed.
const COLLAPSES: f64 = 0.5;

/// Rounds shorter than this, in seconds, are not compared.
const COMPARABLE_S: f64 = 0.1;

/// The course of the throughput and a sentence about it. The maximum is compared with the least
/// throughput at any larger number of streams.
pub(crate) fn shape(levels: &[StreamLevel]) -> (Shape, String) {
    let per_second = |level: &StreamLevel| format!("{}/s", bytes(level.bytes_per_s.round() as u64));
    let most = levels.iter().map(|level| level.bytes_per_s).fold(0.0, f64::max);
    let [_, _, ..] = levels else {
        return (Shape::Unknown, "Fewer than two numbers of streams were measured.".to_owned());
    };
    if let Some(short) = levels.iter().find(|level| level.seconds < COMPARABLE_S) {
        let ms = (short.seconds * 1e3).ceil();
        let name = counted(short.streams);
        let words =
            format!("Sequential streams are not compared: {name} took {ms} ms; use a larger --size or --stream-time.");
        return (Shape::Unknown, words);
    }
    let Some(peak) = levels.iter().position(|level| most > 0.0 && level.bytes_per_s >= most) else {
        return (Shape::Unknown, "No stream read anything.".to_owned());
    };
    let (peak, beyond) = (&levels[peak], &levels[peak + 1..]);
    let top = format!("Sequential reads are fastest with {}: {} in all", counted(peak.streams), per_second(peak));
    let Some(least) = beyond.iter().min_by(|a, b| a.bytes_per_s.total_cmp(&b.bytes_per_s)) else {
        return (Shape::Holds, format!("{top}, the largest number that was measured."));
    };
    let share = least.bytes_per_s / peak.bytes_per_s;
    let low = format!("{} ({:.0} % of it) with {}", per_second(least), share * 100.0, counted(least.streams));
    match share {
        HOLDS.. => (Shape::Holds, format!("{top}; the throughput holds beyond: {low} is the least.")),
        COLLAPSES.. => (Shape::Declines, format!("{top}; beyond it declines, to {low}.")),
        _ => (Shape::Collapses, format!("{top}; beyond it collapses, to {low}.")),
    }
}

fn counted(streams: usize) -> String {
    format!("{streams} stream{}", if streams == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_throughput_below_half_of_the_maximum_beyond_it_is_a_collapse() {
        let check = |figures: &[(usize, f64)], shape: Shape, said: &str| {
            let level = |(streams, bytes_per_s): &(usize, f64)| StreamLevel {
                streams: *streams,
                bytes_per_s: *bytes_per_s,
                rounds: vec![*bytes_per_s],
                cpu: 0.0,
                // Five streams end early in this test.
                seconds: if *streams == 5 { 0.05 } else { 1.0 },
                from_device: None,
            };
            let (is, words) = super::shape(&figures.iter().map(level).collect::<Vec<_>>());
            assert_eq!(is, shape, "{words}");
            assert!(words.contains(said), "{words}");
        };
        check(&[(1, 1e8), (2, 1.5e8)], Shape::Holds, "fastest with 2 streams: 150 MB/s in all, the largest");
        check(
            &[(1, 1e8), (2, 0.9e8), (4, 0.95e8)],
            Shape::Holds,
            "holds beyond: 90.0 MB/s (90 % of it) with 2 streams",
        );
        check(
            &[(1, 1e8), (2, 0.89e8), (4, 1e8)],
            Shape::Declines,
            "fastest with 1 stream: 100 MB/s in all; beyond it declines, to 89.0 MB/s",
        );
        check(&[(1, 0.5e8), (2, 1e8), (4, 0.5e8)], Shape::Declines, "(50 % of it) with 4 streams");
        check(
            &[(2, 1e8), (4, 0.49e8), (8, 0.6e8)],
            Shape::Collapses,
            "collapses, to 49.0 MB/s (49 % of it) with 4 streams",
        );
        check(&[(1, 1e8)], Shape::Unknown, "Fewer than two");
        check(&[(1, 1e8), (5, 1e7)], Shape::Unknown, "not compared: 5 streams took 50 ms");
        check(&[(1, 0.0), (2, 0.0)], Shape::Unknown, "No stream");
    }
}
