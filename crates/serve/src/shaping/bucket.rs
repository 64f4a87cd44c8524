//! Token buckets: bytes that a rate has supplied, and bytes that were taken of them.
//!
//! A bucket does not count tokens. It counts bytes taken on the scale of the bytes that its rate
//! has supplied since the clock's start, which is a plain multiplication. So no sum can drift, an
//! hour of small withdrawals is as exact as a second, and a bucket is one integer, cheap enough for
//! each of a hundred thousand connections.
//!
//! A withdrawal may create a debt: a connection that finds a bucket without debt takes as much as
//! it sends now, and the next one waits until the debt is paid. Over any interval the bytes sent
//! are then at most the rate's supply, the credit and the last withdrawal.
//!
//! Loops share a bucket by reserving slices of its supply to come, one after the other, and
//! distribute their reservations by themselves ([`Lease`]). The clock is not read here.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use thalweg_sys::Instant;

/// The time for which an unused rate is kept as credit. It makes up for wake-ups that come late,
/// and no more.
const CREDIT_NS: u64 = 250_000_000;

const NS_PER_S: u128 = 1_000_000_000;

/// A rate, in bytes per second, that is not 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rate {
    bytes_per_s: u64,
}

impl Rate {
    /// A rate; 0 means that there is none.
    pub(crate) fn new(bytes_per_s: u64) -> Option<Self> {
        (bytes_per_s > 0).then_some(Self { bytes_per_s })
    }

    /// The whole bytes that it supplies in so long a time.
    pub(crate) fn bytes_in(self, ns: u64) -> u64 {
        // The whole seconds and the rest of one are exact each, and most often no 128 bits are
        // needed to divide.
        let bytes = u128::from(self.bytes_per_s) * u128::from(ns) / NS_PER_S;
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// When it has supplied so many bytes for the first time.
    fn time_of(self, bytes: u64) -> Instant {
        let ns = (u128::from(bytes) * NS_PER_S).div_ceil(u128::from(self.bytes_per_s));
        Instant::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    fn supplied(self, now: Instant) -> u64 {
        self.bytes_in(now.as_ns())
    }

    /// The bytes that count as taken at least, so that a rest is not saved up without end.
    fn taken_min(self, now: Instant) -> u64 {
        self.supplied(now).saturating_sub(self.bytes_in(CREDIT_NS))
    }
}

/// The bytes that one owner has taken of a rate.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Bucket {
    taken: u64,
}

impl Bucket {
    /// Neither debt nor credit.
    pub(crate) fn new(rate: Rate, now: Instant) -> Self {
        Self { taken: rate.supplied(now) }
    }

    /// From when on there is no debt.
    pub(crate) fn ready_at(&self, rate: Rate) -> Instant {
        rate.time_of(self.taken)
    }

    /// Takes bytes, in debt if need be.
    pub(crate) fn take(&mut self, rate: Rate, bytes: u64, now: Instant) {
        self.taken = self.taken.max(rate.taken_min(now)).saturating_add(bytes);
    }
}

/// The bytes that all loops together have taken of a rate.
#[derive(Debug)]
pub(crate) struct SharedBucket {
    taken: AtomicU64,
}

impl SharedBucket {
    /// Neither debt nor credit.
    pub(crate) fn new(rate: Rate, now: Instant) -> Self {
        Self { taken: AtomicU64::new(rate.supplied(now)) }
    }

    /// Reserves the next `bytes` of the supply. When they may be used.
    pub(crate) fn reserve(&self, rate: Rate, bytes: u64, now: Instant) -> Instant {
        let taken_min = rate.taken_min(now);
        let update = |taken: u64| Some(taken.max(taken_min).saturating_add(bytes));
        // Only the number itself is shared, so no order with other memory is needed; the update
        // never fails.
        let (Ok(taken) | Err(taken)) = self.taken.fetch_update(Relaxed, Relaxed, update);
        rate.time_of(taken.max(taken_min))
    }

    /// Whether there is debt, which the owner must not be able to get rid of.
    pub(crate) fn is_in_debt(&self, rate: Rate, now: Instant) -> bool {
        self.taken.load(Relaxed) > rate.supplied(now)
    }
}

/// A loop's part in a [`SharedBucket`].
#[derive(Default, Debug)]
pub(crate) struct Lease {
    /// Bytes that may be used; below 0 if more were taken than there were.
    bytes: i64,
    /// Bytes that were reserved and may be used from a time on.
    reserved: Option<(Instant, u64)>,
}

impl Lease {
    /// Whether bytes may be taken now; else from when on. Reserves `slice_bytes` at a time.
    pub(crate) fn ready(
        &mut self,
        shared: &SharedBucket,
        rate: Rate,
        slice_bytes: u64,
        now: Instant,
    ) -> Result<(), Instant> {
        debug_assert!(slice_bytes > 0, "a slice is of something");
        while self.bytes <= 0 {
            let debt = self.bytes.unsigned_abs();
            let reserve = || {
                let bytes = slice_bytes.max(debt);
                (shared.reserve(rate, bytes, now), bytes)
            };
            let (at, bytes) = *self.reserved.get_or_insert_with(reserve);
            if at > now {
                return Err(at);
            }
            self.reserved = None;
            self.bytes = self.bytes.saturating_add_unsigned(bytes);
        }
        Ok(())
    }

    /// Takes bytes, in debt if need be.
    pub(crate) fn take(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub_unsigned(bytes);
    }

    /// Ends this loop's part: what it owes is owed by all.
    pub(crate) fn settle(self, shared: &SharedBucket, rate: Rate, now: Instant) {
        if self.bytes < 0 {
            shared.reserve(rate, self.bytes.unsigned_abs(), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 28.8 kbit/s, 33.6 kbit/s, what does not divide a second, 1 and 100 Gbit/s.
    const RATES: [u64; 6] = [3600, 4200, 9_999_991, 125_000_000, 12_500_000_000, 1];

    fn rate(bytes_per_s: u64) -> Rate {
        Rate::new(bytes_per_s).unwrap()
    }

    #[test]
    fn a_rate_is_exact_over_a_year() {
        const YEAR_S: u64 = 365 * 86_400;
        for bytes_per_s in RATES {
            assert_eq!(rate(bytes_per_s).bytes_in(YEAR_S * 1_000_000_000), bytes_per_s * YEAR_S, "{bytes_per_s}");
        }
    }

    #[test]
    fn no_rate_is_no_limit() {
        assert_eq!(Rate::new(0), None);
    }

    #[test]
    fn days_of_small_takings_do_not_drift() {
        for bytes_per_s in RATES {
            let rate = rate(bytes_per_s);
            // An odd time, in which the clock and the supply do not meet on whole numbers.
            let start = Instant::from_ns(1_234_567_890_123);
            let mut bucket = Bucket::new(rate, start);
            let (mut now, mut sum) = (start, 0u64);
            for _ in 0..200_000 {
                let bytes = rate.bytes_in(1_000_000_007).max(1);
                bucket.take(rate, bytes, now);
                sum += bytes;
                now = now.max(bucket.ready_at(rate));
            }
            let supplied = rate.supplied(now) - rate.supplied(start);
            assert!(supplied.abs_diff(sum) <= 1 + bytes_per_s / 1_000_000_000, "{bytes_per_s}: {supplied} of {sum}");
        }
    }

    #[test]
    fn a_rest_is_not_saved_up() {
        let rate = rate(1000);
        let start = Instant::from_ns(5_000_000_000);
        let mut bucket = Bucket::new(rate, start);
        let later = start.plus_ns(3_600_000_000_000);
        bucket.take(rate, 250, later);
        assert!(bucket.ready_at(rate) <= later);
        bucket.take(rate, 1, later);
        assert_eq!(bucket.ready_at(rate), later.plus_ns(1_000_000));
    }

    #[test]
    fn a_loop_that_leaves_does_not_take_its_debt_along() {
        let rate = rate(1000);
        let now = Instant::from_ns(1_000_000_000);
        let shared = SharedBucket::new(rate, now);
        let mut lease = Lease::default();
        assert_eq!(lease.ready(&shared, rate, 100, now), Ok(()));
        lease.take(5000);
        lease.settle(&shared, rate, now);
        assert!(shared.is_in_debt(rate, now.plus_ns(4_999_000_000)));
        assert!(!shared.is_in_debt(rate, now.plus_ns(5_000_000_000)));
    }

    proptest! {
        /// Under any sequence of requests, no interval gets more than its supply, the credit, and
        /// one grant.
        #[test]
        fn no_interval_gets_more_than_its_share(
            bytes_per_s in 1u64..20_000_000_000,
            steps in prop::collection::vec((0u64..2_000_000_000, 1u64..600_000), 1..200),
        ) {
            let rate = rate(bytes_per_s);
            let mut now = Instant::from_ns(77_777_777_777);
            let mut bucket = Bucket::new(rate, now);
            let mut taken: Vec<(Instant, u64)> = Vec::new();
            for (rest_ns, bytes) in steps {
                now = now.plus_ns(rest_ns);
                if bucket.ready_at(rate) <= now {
                    bucket.take(rate, bytes, now);
                    taken.push((now, bytes));
                }
            }
            for (first, &(from, _)) in taken.iter().enumerate() {
                let mut sum = 0;
                for &(until, bytes) in &taken[first..] {
                    let bound = rate.bytes_in(until.ns_since(from)) + rate.bytes_in(CREDIT_NS) + 1;
                    prop_assert!(sum <= bound, "{sum} before the last of {bytes} by {until:?}, bound {bound}");
                    sum += bytes;
                }
            }
        }

        /// The same for loops that share a bucket, each of which may have a slice at hand.
        #[test]
        fn loops_together_get_no_more_than_their_share(
            bytes_per_s in 1000u64..20_000_000_000,
            steps in prop::collection::vec((0usize..4, 0u64..100_000_000, 1u64..600_000), 1..300),
        ) {
            const SLICE_BYTES: u64 = 50_000;
            let rate = rate(bytes_per_s);
            let start = Instant::from_ns(77_777_777_777);
            let shared = SharedBucket::new(rate, start);
            let mut leases: [Lease; 4] = Default::default();
            let (mut now, mut sum) = (start, 0);
            for (loop_index, rest_ns, bytes) in steps {
                now = now.plus_ns(rest_ns);
                if leases[loop_index].ready(&shared, rate, SLICE_BYTES, now).is_ok() {
                    leases[loop_index].take(bytes);
                    sum += bytes;
                }
                let at_hand = 4 * (600_000 + SLICE_BYTES);
                let bound = rate.bytes_in(now.ns_since(start)) + rate.bytes_in(CREDIT_NS) + at_hand;
                prop_assert!(sum <= bound);
            }
        }
    }
}
