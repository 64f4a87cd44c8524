//! The clock of a replay: when a request of a log is due, from the start of the replay.

use std::time::Duration;

use super::order::OrderedRequest;

const SECOND_NS: i128 = 1_000_000_000;

/// The times of a log's requests in their order, from that of the first one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// The longest pause between two requests, in nanoseconds of the log.
    gap_max_ns: Option<u128>,
    start_ns: Option<i128>,
    /// Of the request before, as the log has it.
    last_ns: u128,
    /// Time that shortened pauses lack.
    shortened_ns: u128,
    /// How many there are.
    pauses: u64,
}

impl Clock {
    /// A clock before the first request.
    pub(super) fn new(gap_max: Option<Duration>) -> Self {
        let gap_max_ns = gap_max.map(|gap| gap.as_nanos());
        Self { gap_max_ns, start_ns: None, last_ns: 0, shortened_ns: 0, pauses: 0 }
    }

    /// When the next request is due, at the log's own speed; it is one of `count` of its second. It
    /// is never due before the one before it.
    ///
    /// Without fractions the requests of a second are spread evenly over it, in the order of the
    /// log. All at its beginning would be a burst that never was.
    pub(super) fn due_ns(&mut self, request: &OrderedRequest<'_>, count: u64) -> u128 {
        let spread = || (u128::from(request.index) * SECOND_NS as u128 / u128::from(count.max(1))) as i128;
        let within = request.fraction_ns.map_or_else(spread, i128::from).min(SECOND_NS - 1);
        let logged = i128::from(request.second) * SECOND_NS + within;
        let start = *self.start_ns.get_or_insert(logged);
        let elapsed = u128::try_from(logged - start).unwrap_or(0).max(self.last_ns);
        if let Some(gap_max) = self.gap_max_ns {
            let over = (elapsed - self.last_ns).saturating_sub(gap_max);
            self.pauses += u64::from(over > 0);
            self.shortened_ns += over;
        }
        self.last_ns = elapsed;
        elapsed - self.shortened_ns
    }

    /// How many pauses were shortened so far, and by how long in all.
    pub(super) fn shortened(&self) -> (u64, Duration) {
        let shortened_s = (self.shortened_ns / SECOND_NS as u128) as u64;
        (self.pauses, Duration::new(shortened_s, (self.shortened_ns % SECOND_NS as u128) as u32))
    }
}

/// A time of the log in a replay that is so many times as fast.
pub(super) fn at_speed(log_ns: u128, speed: f64) -> u64 {
    // Exact at the log's own speed up to 2^53 ns, 104 days.
    (log_ns as f64 / speed).round() as u64
}
