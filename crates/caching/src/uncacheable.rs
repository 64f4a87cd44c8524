//! The memory of names whose responses are not stored, so that no request waits for a response that
//! will be of no use to it.
//!
//! Bounded in names and in time. When the time of a name is over, one request finds out whether
//! that has changed, and the others still do not wait for it.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// How a request that has to ask the origin goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    /// It waits for another request that asks for the same, or is the one that others wait for.
    Together,
    /// It asks side by side with others, as its client does.
    Apart,
    /// It asks side by side with others, and in the form of a request whose response can be stored.
    AsProbe,
}

/// The names whose responses were not stored lately.
#[derive(Debug)]
pub struct UncacheableMemory<K> {
    names: HashMap<K, Remembered>,
    /// The names in the order in which they came; an entry whose serial number is not that of its
    /// name is void.
    order: VecDeque<(K, u64)>,
    names_max: usize,
    serial: u64,
}

#[derive(Clone, Copy, Debug)]
struct Remembered {
    /// The second at which its memory ends: the next response decides anew.
    until: i64,
    /// The second from which on it is forgotten.
    gone: i64,
    serial: u64,
    /// It was used since it came to the front of the order.
    is_used: bool,
}

impl<K: Copy + Eq + Hash> UncacheableMemory<K> {
    /// A memory of at most `names_max` names.
    #[must_use]
    pub fn new(names_max: usize) -> Self {
        Self { names: HashMap::new(), order: VecDeque::new(), names_max, serial: 0 }
    }

    /// How a request for a name goes on. After `AsProbe` the name is remembered for `seconds` more,
    /// in which the probe's response decides.
    pub fn ask(&mut self, name: K, now: i64, seconds: u32) -> Asking {
        let Some(known) = self.names.get_mut(&name) else { return Asking::Together };
        if known.gone <= now {
            self.names.remove(&name);
            return Asking::Together;
        }
        known.is_used = true;
        if now < known.until {
            return Asking::Apart;
        }
        known.until = after(now, seconds.max(1));
        known.gone = after(known.until, seconds);
        Asking::AsProbe
    }

    /// Remembers for `seconds` that a response to a name was not stored; for as long again after
    /// that, no request waits for the one that finds out anew. Nothing is remembered for 0 seconds.
    pub fn remember(&mut self, name: K, now: i64, seconds: u32) {
        if seconds == 0 {
            return;
        }
        let until = after(now, seconds);
        let gone = after(until, seconds);
        if let Some(known) = self.names.get_mut(&name) {
            (known.until, known.gone) = (until, gone);
            return;
        }
        self.make_room();
        self.serial += 1;
        self.names.insert(name, Remembered { until, gone, serial: self.serial, is_used: false });
        self.order.push_back((name, self.serial));
    }

    /// Forgets a name: a response to it was stored.
    pub fn forget(&mut self, name: K) {
        self.names.remove(&name);
    }

    /// The number of names that are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether none is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Forgets the names that came first, but for those that were used since: they get a second
    /// turn.
    fn make_room(&mut self) {
        while self.names.len() >= self.names_max.max(1) || self.order.len() >= 2 * self.names_max.max(1) {
            let Some((name, serial)) = self.order.pop_front() else { return };
            let Some(known) = self.names.get_mut(&name).filter(|known| known.serial == serial) else { continue };
            if std::mem::take(&mut known.is_used) {
                self.order.push_back((name, serial));
            } else {
                self.names.remove(&name);
            }
        }
    }
}

fn after(second: i64, seconds: u32) -> i64 {
    second.saturating_add(i64::from(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_remembered_found_out_anew_by_one_request_and_forgotten() {
        let mut memory = UncacheableMemory::new(8);
        let mut check = |now: i64, expected: Asking| assert_eq!(memory.ask(1, now, 120), expected, "{now}");
        check(0, Asking::Together);
        memory.remember(1, 0, 120);
        let mut check = |now: i64, expected: Asking| assert_eq!(memory.ask(1, now, 120), expected, "{now}");
        check(119, Asking::Apart);
        check(120, Asking::AsProbe);
        check(120, Asking::Apart);
        check(240, Asking::AsProbe);
        check(480, Asking::Together);
        check(480, Asking::Together);
        memory.remember(1, 500, 120);
        memory.forget(1);
        assert_eq!(memory.ask(1, 501, 120), Asking::Together);
        memory.remember(1, 500, 0);
        assert_eq!(memory.ask(1, 500, 0), Asking::Together);
    }

    #[test]
    fn a_million_names_take_the_room_of_the_bound() {
        let mut memory = UncacheableMemory::new(1000);
        memory.remember(u32::MAX, 0, 120);
        for name in 0..1_000_000_u32 {
            memory.remember(name, 0, 120);
            memory.ask(u32::MAX, 0, 120);
            if name % 3 == 0 {
                memory.forget(name);
            }
            assert!(memory.len() <= 1000 && memory.order.len() <= 2000, "{name}");
        }
        assert_eq!(memory.ask(u32::MAX, 0, 120), Asking::Apart, "a name in use stays");
        assert_eq!(memory.ask(0, 0, 120), Asking::Together);
    }
}
