//! The window puts a log's requests into the order of their seconds while it is read, with bounded
//! memory.
//!
//! Logs are nearly sorted: servers write a line when they have responded. Requests wait here until
//! so many others have come behind them that an earlier one is not to be expected. One that comes
//! later still is given out at once and counted as displaced. Of one second, the log's order stays.

use std::collections::BTreeMap;

use crate::input::packing::{push_text, take_bytes, take_text};

/// How many requests wait at most, and how many bytes of targets.
pub(super) const WINDOW_ENTRIES: usize = 1 << 16;
const WINDOW_BYTES: usize = 16 << 20;

/// A request in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OrderedRequest<'a> {
    /// The second that it is due in.
    pub(super) second: i64,
    /// Its place in that second.
    pub(super) index: u64,
    /// How many requests the second had when the first of them was given out. There are more if
    /// others come behind.
    pub(super) count: u64,
    /// The nanoseconds behind the second, if the log has them.
    pub(super) fraction_ns: Option<u32>,
    pub(super) method: u8,
    pub(super) target: &'a [u8],
}

/// A request as the log has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logged<'a> {
    pub(super) second: i64,
    pub(super) fraction_ns: Option<u32>,
    pub(super) method: u8,
    pub(super) target: &'a [u8],
}

/// Requests that wait.
#[derive(Debug, Default)]
pub(super) struct Window {
    seconds: BTreeMap<i64, Second>,
    spare: Vec<Second>,
    entries: usize,
    bytes: usize,
    /// The second that was given out last.
    current: Option<Current>,
    /// Requests that came too late for their place.
    displaced: u64,
}

/// The requests of a second, one behind the other: the method's number, the fraction and the target
/// of each.
#[derive(Debug, Default)]
struct Second {
    count: u64,
    has_fractions: bool,
    records: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    second: i64,
    count: u64,
    given: u64,
}

impl Window {
    /// Takes the next request of the log, and gives out those that need not wait any longer.
    pub(super) fn push<E>(
        &mut self,
        logged: Logged<'_>,
        give: &mut impl FnMut(OrderedRequest<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Logged { second, fraction_ns, method, target } = logged;
        if let Some(current) = self.current.as_mut().filter(|current| second <= current.second) {
            self.displaced += u64::from(second < current.second);
            let Current { second, count, given: index } = *current;
            current.given += 1;
            return give(OrderedRequest { second, index, count, fraction_ns, method, target });
        }
        let waiting = self.seconds.entry(second).or_insert_with(|| self.spare.pop().unwrap_or_default());
        let before = waiting.records.len();
        waiting.count += 1;
        waiting.has_fractions |= fraction_ns.is_some();
        waiting.records.push(method);
        waiting.records.extend_from_slice(&fraction_ns.unwrap_or(NO_FRACTION).to_le_bytes());
        push_text(&mut waiting.records, target);
        self.entries += 1;
        self.bytes += waiting.records.len() - before;
        while self.entries > WINDOW_ENTRIES || self.bytes > WINDOW_BYTES {
            self.give_first(give)?;
        }
        Ok(())
    }

    /// Gives out all that wait, at the end of the log.
    pub(super) fn finish<E>(&mut self, give: &mut impl FnMut(OrderedRequest<'_>) -> Result<(), E>) -> Result<(), E> {
        while self.entries > 0 {
            self.give_first(give)?;
        }
        Ok(())
    }

    /// How many requests came too late for their place.
    pub(super) fn displaced(&self) -> u64 {
        self.displaced
    }

    fn give_first<E>(&mut self, give: &mut impl FnMut(OrderedRequest<'_>) -> Result<(), E>) -> Result<(), E> {
        let Some((second, mut waiting)) = self.seconds.pop_first() else { return Ok(()) };
        let count = waiting.count;
        self.entries -= count as usize;
        self.bytes -= waiting.records.len();
        self.current = Some(Current { second, count, given: count });
        let mut rest = waiting.records.as_slice();
        if waiting.has_fractions {
            let mut requests: Vec<_> = (0..count).map(|_| take_request(&mut rest)).collect();
            // The sort is stable: requests without a fraction keep their order, before the others.
            requests.sort_by_key(|(_, fraction_ns, _)| *fraction_ns);
            for (index, (method, fraction_ns, target)) in (0..).zip(requests) {
                give(OrderedRequest { second, index, count, fraction_ns, method, target })?;
            }
        } else {
            for index in 0..count {
                let (method, fraction_ns, target) = take_request(&mut rest);
                give(OrderedRequest { second, index, count, fraction_ns, method, target })?;
            }
        }
        // As many lie ready as there are seconds at once; a large one is freed.
        if waiting.records.capacity() <= WINDOW_BYTES / 256 && self.spare.len() < 256 {
            waiting.records.clear();
            waiting.count = 0;
            waiting.has_fractions = false;
            self.spare.push(waiting);
        }
        Ok(())
    }
}

/// Stands for a time in whole seconds.
const NO_FRACTION: u32 = u32::MAX;

/// Takes a request's method, fraction and target off the front.
fn take_request<'a>(rest: &mut &'a [u8]) -> (u8, Option<u32>, &'a [u8]) {
    let method = take_bytes(rest, 1)[0];
    let fraction_ns = u32::from_le_bytes(take_bytes(rest, 4).try_into().expect("four bytes"));
    (method, Some(fraction_ns).filter(|ns| *ns != NO_FRACTION), take_text(rest))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Second, place and count of each request in the order in which they are given out, with the
    /// request's number in the log.
    fn ordered(seconds: impl Iterator<Item = i64>) -> (Vec<(i64, u64, u64, u64)>, u64) {
        let (mut window, mut given) = (Window::default(), Vec::new());
        let mut give = |placed: OrderedRequest<'_>| {
            let number = u64::from_le_bytes(placed.target.try_into().unwrap());
            given.push((placed.second, placed.index, placed.count, number));
            Ok::<_, Infallible>(())
        };
        for (number, second) in (0u64..).zip(seconds) {
            let target = &number.to_le_bytes()[..];
            let Ok(()) = window.push(Logged { second, fraction_ns: None, method: 0, target }, &mut give);
        }
        let Ok(()) = window.finish(&mut give);
        (given, window.displaced())
    }

    #[test]
    fn requests_are_ordered_by_second_and_then_by_their_place_in_the_log() {
        let (given, displaced) = ordered([5, 4, 5, 6, 4].into_iter());
        let expected = [(4, 0, 2, 1), (4, 1, 2, 4), (5, 0, 2, 0), (5, 1, 2, 2), (6, 0, 1, 3)];
        assert_eq!((given.as_slice(), displaced), (&expected[..], 0));
    }

    #[test]
    fn a_request_that_comes_later_than_the_window_is_long_is_given_out_at_once_and_counted() {
        let window = WINDOW_ENTRIES as i64;
        // The third-last fills the window, so that second 0 is given out; the last two belong to it
        // and before it.
        let (given, displaced) = ordered((0..=window).chain([0, -1]));
        assert_eq!(displaced, 1);
        let numbers = [0, window as u64 + 1, window as u64 + 2];
        assert_eq!(given[..3], [(0, 0, 1, numbers[0]), (0, 1, 1, numbers[1]), (0, 2, 1, numbers[2])]);
        assert_eq!((given[3].0, given.len()), (1, window as usize + 3));
        // One less, and they find their places.
        let (given, displaced) = ordered((1..window - 1).chain([0, -1]));
        assert_eq!((given[0].0, given[1].0, displaced), (-1, 0, 0));
    }

    #[test]
    fn a_second_with_more_requests_than_the_window_holds_keeps_their_order() {
        let count = 3 * WINDOW_ENTRIES as u64;
        let (given, displaced) = ordered(std::iter::repeat_n(7, count as usize).chain([8]));
        assert_eq!((given.len() as u64, displaced), (count + 1, 0));
        assert!(
            given[..count as usize].iter().zip(0..).all(|(one, number)| (one.0, one.1, one.3) == (7, number, number))
        );
    }
}
