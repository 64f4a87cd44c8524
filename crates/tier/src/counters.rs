//! Counts of answers and of what they cost the origins, since the start.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of the tier.
        #[derive(Default, Debug)]
        pub(crate) struct Counters { $($(#[$doc])* pub(crate) $name: AtomicU64,)* }

        /// The counts of the tier at one moment.
        #[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
        pub struct Counts { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            pub(crate) fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl Counts {
            /// Names and values, in the order of declaration.
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }
    };
}

counters! {
    /// Requests answered by loops with what they held.
    held_hits,
    /// Requests answered from the store without asking an origin.
    hits,
    /// Requests answered from the store after an origin confirmed it.
    revalidated,
    /// Requests answered with a stale response, by the client's wish or while it is validated.
    stale,
    /// Requests answered with a stale response because the origin failed.
    stale_if_error,
    /// Requests answered by what another request was fetching.
    collapsed,
    /// Requests answered by an origin, whose response was stored.
    misses,
    /// Requests answered by an origin, whose response was not stored.
    passed,
    /// Requests that could not be answered.
    failed,
    /// Bytes of bodies that readers took from the store or from memory.
    hit_bytes,
    /// Bytes of content that came from origins.
    origin_bytes,
    /// Requests to origins.
    origin_requests,
    /// Requests to origins that gave no response.
    origin_failures,
    /// Fetches that went on by a range request after they had been cut off.
    resumed,
    /// Downloads that were cut off because the object has changed at the origin.
    changed,
    /// Names whose responses were purged or invalidated.
    purges,
    /// Operations of the store that failed.
    store_failures,
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}
