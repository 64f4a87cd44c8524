//! A hierarchical timer wheel for the deadlines of connections.
//!
//! Deadlines move with every request and almost never pass, so the wheel is used lazily: a
//! connection keeps its deadline in a field of its own and has at most one entry here. Moving the
//! deadline later is a write to the field. When the entry comes due, the owner looks at the field
//! and, if the deadline has moved, arms the entry again:
//!
//! ```text
//! while let Some(key) = wheel.pop_due(now) {
//!     let Some(connection) = live(key) else { continue };          // closed meanwhile
//!     match connection.deadline {
//!         passed if passed <= now => …,                            // time out
//!         later => wheel.arm(key, later),                          // it has moved
//!     }
//! }
//! ```
//!
//! A deadline that moves *earlier* than the entry needs a second entry; the owner then tolerates
//! the first one when it comes. There is no cancelling: keys must name their owner's use and not
//! just its place ([`SocketId::to_bits`](thalweg_sys::SocketId::to_bits) does, by its generation),
//! so that a stale entry is recognised and dropped. Entries of closed connections stay until they
//! come due, so memory is bounded by the rate of new connections times the longest timeout; an
//! owner that arms at most one entry per table slot is bounded by its table.
//!
//! Resolution is one tick. An entry never comes due early, and at most one tick late as far as
//! `pop_due` is called in time. Which comes first among the entries of one tick is not defined.

use thalweg_sys::Instant;

/// Slots of one level: one bit each in a word.
const SLOTS: usize = 64;
const SLOT_BITS: u32 = SLOTS.trailing_zeros();

/// Enough levels for every tick that a `u64` counts, so that no deadline is too far.
const LEVELS: usize = u64::BITS.div_ceil(SLOT_BITS) as usize;

/// The end of a list of entries.
const NONE: u32 = u32::MAX;

/// A timer wheel. See the [module's documentation](self) for how it is meant to be used.
///
/// Level 0 has a slot per tick, level 1 a slot per 64 ticks, and so on. An entry lies on the level
/// of the highest digit (to the base of 64) in which its tick differs from the present one. So a
/// slot is never shared by two rotations of the wheel, and the first slot in use on the lowest
/// level in use is always the next one to come due. An entry moves down a level at most ten times
/// in its life; mostly it is two or three.
pub struct Wheel {
    start: Instant,
    tick_ns: u64,
    /// The present tick: all entries that are not on the `due` list lie after it.
    present: u64,
    levels: [Level; LEVELS],
    entries: Vec<Entry>,
    /// Entries that are not in use, to be used again.
    free: u32,
    /// Entries whose time has come.
    due: u32,
    len: usize,
}

#[derive(Clone, Copy)]
struct Level {
    in_use: u64,
    heads: [u32; SLOTS],
}

struct Entry {
    key: u64,
    tick: u64,
    next: u32,
}

impl Wheel {
    /// An empty wheel whose first tick begins at `start`.
    ///
    /// # Panics
    /// A tick has no length.
    pub fn new(start: Instant, tick_ns: u64) -> Self {
        assert!(tick_ns > 0, "a tick has a length");
        let level = Level { in_use: 0, heads: [NONE; SLOTS] };
        Self { start, tick_ns, present: 0, levels: [level; LEVELS], entries: Vec::new(), free: NONE, due: NONE, len: 0 }
    }

    /// Puts `key` in, to come due at `at`: at the first tick that is not before it. If that time
    /// has passed already, it comes due at the next tick.
    pub fn arm(&mut self, key: u64, at: Instant) {
        let tick = at.ns_since(self.start).div_ceil(self.tick_ns).max(self.present + 1);
        let entry = Entry { key, tick, next: NONE };
        let index = if self.free == NONE {
            let index = u32::try_from(self.entries.len()).ok().filter(|&index| index != NONE);
            self.entries.push(entry);
            index.expect("a wheel holds fewer than 2^32 - 1 entries")
        } else {
            let index = self.free;
            self.free = self.entries[index as usize].next;
            self.entries[index as usize] = entry;
            index
        };
        self.place(index);
        self.len += 1;
    }

    /// Takes out an entry that is due. Asked until there is none, it gives all that are due at
    /// `now`; what is armed in between is given by the same rule.
    pub fn pop_due(&mut self, now: Instant) -> Option<u64> {
        let until = now.ns_since(self.start) / self.tick_ns;
        while self.due == NONE {
            match self.first_slot() {
                Some((level, slot, begin)) if begin <= until => self.open(level, slot, begin),
                _ => {
                    self.present = self.present.max(until);
                    return None;
                }
            }
        }
        let index = self.due;
        let entry = &mut self.entries[index as usize];
        self.due = entry.next;
        entry.next = self.free;
        self.free = index;
        self.len -= 1;
        Some(entry.key)
    }

    /// A time before which nothing comes due; `None` if nothing will. For a deadline that is far
    /// away it is earlier than the deadline: an owner that sleeps until then and calls `pop_due`
    /// gets a later one next time.
    pub fn next_due(&self) -> Option<Instant> {
        let tick = if self.due == NONE { self.first_slot()?.2 } else { self.present };
        Some(self.start.plus_ns(tick.saturating_mul(self.tick_ns)))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The first slot in use, as level, slot and the tick at which it begins.
    fn first_slot(&self) -> Option<(usize, usize, u64)> {
        let level = self.levels.iter().position(|level| level.in_use != 0)?;
        let slot = self.levels[level].in_use.trailing_zeros();
        let shift = SLOT_BITS * level as u32;
        let above = self.present.checked_shr(shift + SLOT_BITS).unwrap_or(0);
        let begin = above.checked_shl(shift + SLOT_BITS).unwrap_or(0) | u64::from(slot) << shift;
        Some((level, slot as usize, begin))
    }

    /// Makes `begin` the present and moves the slot's entries to where they belong from there: due,
    /// or on a lower level.
    fn open(&mut self, level: usize, slot: usize, begin: u64) {
        self.present = begin;
        let level = &mut self.levels[level];
        level.in_use &= !(1 << slot);
        let mut index = std::mem::replace(&mut level.heads[slot], NONE);
        while index != NONE {
            let next = self.entries[index as usize].next;
            self.place(index);
            index = next;
        }
    }

    fn place(&mut self, index: u32) {
        let entry = &mut self.entries[index as usize];
        let Some(highest) = (entry.tick ^ self.present).checked_ilog2() else {
            entry.next = self.due;
            self.due = index;
            return;
        };
        let digit = highest / SLOT_BITS;
        let slot = (entry.tick >> (digit * SLOT_BITS)) as usize % SLOTS;
        let level = &mut self.levels[digit as usize];
        level.in_use |= 1 << slot;
        entry.next = std::mem::replace(&mut level.heads[slot], index);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const START: Instant = Instant::from_ns(5_000_000_123);
    const TICK_NS: u64 = 1000;

    fn due(wheel: &mut Wheel, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| wheel.pop_due(now)).collect()
    }

    #[test]
    fn an_entry_is_never_early_and_at_most_a_tick_late() {
        for ns in [0, 1, 999, 1000, 1001, 63_000, 64_000, 65_001, 4_096_000, 9_999_999_999] {
            let mut wheel = Wheel::new(START, TICK_NS);
            let at = START.plus_ns(ns);
            wheel.arm(7, at);
            assert_eq!(due(&mut wheel, START.plus_ns(ns.saturating_sub(1))), [], "{ns} ns: early");
            assert_eq!(due(&mut wheel, at.plus_ns(TICK_NS)), [7], "{ns} ns: late");
            assert!(wheel.is_empty());
        }
    }

    #[test]
    fn the_end_of_time_can_be_armed() {
        let mut wheel = Wheel::new(START, 1);
        wheel.arm(1, Instant::from_ns(u64::MAX));
        assert_eq!(due(&mut wheel, Instant::from_ns(u64::MAX - 1)), []);
        assert_eq!(due(&mut wheel, Instant::from_ns(u64::MAX)), [1]);
    }

    #[test]
    fn a_passed_deadline_does_not_come_due_twice_at_one_time() {
        let mut wheel = Wheel::new(START, TICK_NS);
        let now = START.plus_ns(500 * TICK_NS);
        assert_eq!(wheel.pop_due(now), None);
        wheel.arm(1, START);
        assert_eq!(wheel.pop_due(now), None);
        assert_eq!(wheel.pop_due(now.plus_ns(TICK_NS)), Some(1));
    }

    #[test]
    fn a_warm_wheel_uses_its_entries_again() {
        let mut wheel = Wheel::new(START, TICK_NS);
        let mut now = START;
        for key in 0..100 {
            wheel.arm(key, now.plus_ns(key * 77_777));
        }
        let warm = wheel.entries.capacity();
        for _ in 0..10_000 {
            now = now.plus_ns(50_000);
            while let Some(key) = wheel.pop_due(now) {
                wheel.arm(key, now.plus_ns(1 + key * 77_777));
            }
        }
        assert_eq!(wheel.len(), 100);
        assert_eq!(wheel.entries.capacity(), warm);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arm {
            after_ns: u64,
        },
        Pass {
            ns: u64,
        },
        /// Sleep as the loop does: until the wheel's own bound.
        Sleep,
    }

    fn step() -> impl Strategy<Value = Step> {
        // Spans of all magnitudes: what matters is which digit changes.
        let span = (0u32..45, any::<u64>()).prop_map(|(bits, random)| random >> (63 - bits));
        prop_oneof![
            4 => span.clone().prop_map(|after_ns| Step::Arm { after_ns }),
            2 => span.prop_map(|ns| Step::Pass { ns }),
            2 => Just(Step::Sleep),
        ]
    }

    proptest! {
        #[test]
        fn comes_due_as_a_sorted_map_says(steps in prop::collection::vec(step(), 1..200)) {
            let mut wheel = Wheel::new(START, TICK_NS);
            let mut model: BTreeMap<(u64, u64), u64> = BTreeMap::new();
            let (mut now, mut present) = (START, 0);
            for (key, step) in (0u64..).zip(steps) {
                match step {
                    Step::Arm { after_ns } => {
                        let at = now.plus_ns(after_ns);
                        wheel.arm(key, at);
                        let tick = at.ns_since(START).div_ceil(TICK_NS).max(present + 1);
                        model.insert((tick, key), key);
                    }
                    Step::Pass { ns } => now = now.plus_ns(ns),
                    Step::Sleep => now = wheel.next_due().map_or(now, |at| at.max(now)),
                }
                if !matches!(step, Step::Arm { .. }) {
                    present = now.ns_since(START) / TICK_NS;
                    let later = model.split_off(&(present + 1, 0));
                    let mut expected: Vec<u64> = std::mem::replace(&mut model, later).into_values().collect();
                    let mut seen = due(&mut wheel, now);
                    expected.sort_unstable();
                    seen.sort_unstable();
                    prop_assert_eq!(seen, expected);
                }
                prop_assert_eq!(wheel.len(), model.len());
                let bound = wheel.next_due();
                prop_assert_eq!(bound.is_some(), !model.is_empty());
                if let (Some(bound), Some(((tick, _), _))) = (bound, model.first_key_value()) {
                    prop_assert!(bound <= START.plus_ns(tick * TICK_NS));
                    let armed = matches!(step, Step::Arm { .. });
                    prop_assert!(armed || bound > now, "no second iteration at the same time");
                }
            }
        }

        #[test]
        fn entries_come_in_the_order_of_their_ticks(after in prop::collection::vec(0u64..1 << 40, 1..100)) {
            let mut wheel = Wheel::new(START, TICK_NS);
            for (key, &ns) in (0u64..).zip(&after) {
                wheel.arm(key, START.plus_ns(ns));
            }
            let ticks: Vec<u64> = due(&mut wheel, START.plus_ns(1 << 41))
                .into_iter()
                .map(|key| after[key as usize].div_ceil(TICK_NS).max(1))
                .collect();
            prop_assert_eq!(ticks.len(), after.len());
            prop_assert!(ticks.is_sorted());
        }
    }
}
