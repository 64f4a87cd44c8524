//! The part of a trial that is left out, because something outside of the client kept it from
//! running.
//!
//! A load thread that waits for its CPU while something else runs on it sends late, and sees
//! responses late. Time is left out from the beginning of the wait until ten times its length after
//! it ([`settled_after_ns`]): by then the requests that were due in it have been sent in a burst,
//! and a target at up to nine tenths of its capacity has worked that off. Everything that *ends* in
//! this time is left out, whenever it began and however long it took. So what is left out depends
//! on the client alone: a slow response is not more likely to end in it than a fast one.
//!
//! A request that was sent late and ends after that time has taken at least ten times as long as
//! it was late, so its response time is the target's to nine tenths.

use std::collections::BTreeMap;
use std::time::Duration;

const SECOND_NS: u64 = 1_000_000_000;

/// How long after a wait its effects are left out, in lengths of the wait.
const SETTLING: u64 = 10;

/// The time that is left out after a wait of so long.
pub fn settled_after_ns(waited_ns: u64) -> u64 {
    waited_ns.saturating_mul(SETTLING)
}

/// The time of a trial that is left out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LeftOut {
    seconds: BTreeMap<u64, SecondLost>,
}

/// The part of one second that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SecondLost {
    /// How much of it.
    pub lost_ns: u64,
    /// How long the load thread waited for its CPU.
    pub waited_ns: u64,
    /// The CPU for which a load thread waited the longest.
    pub cpu: u32,
}

impl LeftOut {
    /// Leaves out a time, given from the start of the measured part.
    pub fn add_time(&mut self, from_ns: u64, until_ns: u64) {
        let mut from_ns = from_ns;
        while from_ns < until_ns {
            let second = from_ns / SECOND_NS;
            let to_ns = until_ns.min((second + 1) * SECOND_NS);
            self.seconds.entry(second).or_default().lost_ns += to_ns - from_ns;
            from_ns = to_ns;
        }
    }

    /// Notes a wait that ended then, from the start of the measured part.
    pub fn add_wait(&mut self, at_ns: u64, waited_ns: u64, cpu: u32) {
        let second = self.seconds.entry(at_ns / SECOND_NS).or_default();
        second.waited_ns += waited_ns;
        second.cpu = cpu;
    }

    /// How much is left out.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.seconds.values().map(|second| second.lost_ns).sum())
    }

    /// The seconds of which some is left out, by number.
    pub fn seconds(&self) -> impl Iterator<Item = (u64, &SecondLost)> {
        self.seconds.iter().filter(|(_, lost)| lost.lost_ns > 0).map(|(second, lost)| (*second, lost))
    }

    /// Adds what another load thread left out. All threads leave the same time out, but for the
    /// wait itself.
    pub(super) fn merge(&mut self, other: &Self) {
        for (second, theirs) in &other.seconds {
            let mine = self.seconds.entry(*second).or_default();
            mine.lost_ns = mine.lost_ns.max(theirs.lost_ns);
            if theirs.waited_ns > mine.waited_ns {
                (mine.waited_ns, mine.cpu) = (theirs.waited_ns, theirs.cpu);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_left_out_of_each_second_that_it_touches() {
        let mut left_out = LeftOut::default();
        left_out.add_time(900_000_000, 2_100_000_000);
        left_out.add_time(2_500_000_000, 2_500_000_000);
        left_out.add_wait(950_000_000, 50_000_000, 3);
        let lost: Vec<(u64, u64)> =
            left_out.seconds().map(|(second, lost)| (second, lost.lost_ns / 1_000_000)).collect();
        assert_eq!(lost, [(0, 100), (1, 1000), (2, 100)]);
        assert_eq!(left_out.total(), Duration::from_millis(1200));
    }

    #[test]
    fn threads_leave_the_same_time_out() {
        let mut left_out = LeftOut::default();
        left_out.add_time(0, 110_000_000);
        left_out.add_wait(10_000_000, 10_000_000, 1);
        let mut other = LeftOut::default();
        other.add_time(10_000_000, 110_000_000);
        left_out.merge(&other);
        assert_eq!(left_out.total(), Duration::from_millis(110));
        let seen: Vec<_> = left_out.seconds().map(|(_, lost)| (lost.waited_ns, lost.cpu)).collect();
        assert_eq!(seen, [(10_000_000, 1)]);
    }
}
