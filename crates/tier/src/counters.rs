//! Counts of answers and of what they cost the origins, since the start.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

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
            /// Adds those of another mount.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

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
    /// Requests answered from the store.
    hits,
    /// Requests counted as hits, stale or collapsed for which a part of the body had to be
    /// fetched.
    partial,
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
    /// Bytes of bodies that were given to clients, wherever they came from.
    served_bytes,
    /// Bytes of content that came from origins.
    origin_bytes,
    /// Requests to origins.
    origin_requests,
    /// Requests to origins that gave no response.
    origin_failures,
    /// Bytes of content that came from other servers of a cluster.
    peer_bytes,
    /// Requests to other servers of a cluster that were answered.
    peer_requests,
    /// Validations beside requests that got an answer at once, and of consistent sets.
    validations,
    /// Fetches that went on by a range request after they had been cut off.
    resumed,
    /// Downloads that were cut off because the object has changed at the origin.
    changed,
    /// Names whose responses were purged or invalidated.
    purges,
    /// Operations of the store that failed.
    store_failures,
}

impl Counts {
    /// Requests, each of which is counted by one outcome.
    pub fn requests(&self) -> u64 {
        self.hit_requests() + self.revalidated + self.stale_if_error + self.misses + self.passed + self.failed
    }

    /// Requests that were answered without one of their own to an origin for the response.
    pub fn hit_requests(&self) -> u64 {
        self.held_hits + self.hits + self.stale + self.collapsed
    }
}

/// The counter of an outcome.
pub(crate) type OutcomeCounter = fn(&Counters) -> &AtomicU64;

/// The outcome of a request, which is counted once the answer is final: a member of a consistent
/// set may be answered several times.
#[derive(Default)]
pub(crate) struct OutcomeNote(Mutex<Note>);

#[derive(Default)]
struct Note {
    counter: Option<OutcomeCounter>,
    is_partial: bool,
}

impl OutcomeNote {
    /// Forgets what was noted of an earlier answer.
    pub(crate) fn clear(&self) {
        self.change(|note| *note = Note::default());
    }

    pub(crate) fn set(&self, counter: OutcomeCounter) {
        self.change(|note| note.counter = Some(counter));
    }

    /// A part of the body has to be fetched.
    pub(crate) fn set_partial(&self) {
        self.change(|note| note.is_partial = true);
    }

    /// Counts the last answer.
    pub(crate) fn count(&self, counters: &Counters) {
        self.change(|note| {
            if let Some(counter) = note.counter {
                Counters::add(counter(counters), 1);
            }
            Counters::add(&counters.partial, u64::from(note.is_partial));
        });
    }

    fn change(&self, change: impl FnOnce(&mut Note)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}
