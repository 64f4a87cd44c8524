//! Keeps work whose cost depends on the host within a share of a CPU, by spacing it out.

use std::time::{Duration, Instant};

use thalweg_sys::proc::thread_cpu;

/// The share of a CPU that one kind of work may use on average.
const SHARE: f64 = 0.001;

/// A kind of work, and when it may be done next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    least: Duration,
    next: Option<Instant>,
}

impl Pace {
    /// Work that is done at most once in `least`, and less often if it costs much.
    pub(crate) const fn at_most_every(least: Duration) -> Self {
        Self { least, next: None }
    }

    /// Whether it may be done now.
    pub(crate) fn is_due(&self) -> bool {
        self.next.is_none_or(|next| Instant::now() >= next)
    }

    /// Does the work, which must be due.
    pub(crate) fn run<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before = thread_cpu();
        let result = work();
        let cost = Duration::from_nanos(thread_cpu().since(before).total_ns());
        self.next = Some(Instant::now() + self.least.max(cost.div_f64(SHARE)));
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costly_work_is_spaced_out() {
        let mut pace = Pace::at_most_every(Duration::ZERO);
        assert!(pace.is_due());
        let begun = Instant::now();
        pace.run(|| {
            let before = thread_cpu();
            while thread_cpu().since(before).total_ns() < 1_000_000 {}
        });
        let next = pace.next.expect("it has been done");
        assert!(next >= begun + Duration::from_secs(1), "after 1 ms of CPU the next is due in a second");
        pace = Pace::at_most_every(Duration::from_secs(3600));
        pace.run(|| ());
        assert!(!pace.is_due());
    }
}
