//! Finished sessions in the order of their first requests: one waits until all that began before it
//! have ended.
//!
//! Otherwise short sessions would come first, and those who take the first thousand of a file would
//! have a thousand short ones.

use std::collections::VecDeque;

/// The place for the text of finished sessions.
pub type Sink<'a> = &'a mut dyn FnMut(&[u8]);

/// Sessions that wait for earlier ones.
#[derive(Debug, Default)]
pub(crate) struct Order {
    /// The number of the first of `slots`.
    first: u64,
    slots: VecDeque<Slot>,
    bytes: usize,
}

#[derive(Debug)]
enum Slot {
    /// The session is not finished.
    Open,
    /// It waits for another one.
    Finished(Box<[u8]>),
}

/// Slots whose memory is kept.
const SLOTS_KEPT: usize = 1024;

impl Order {
    /// The number of a session that begins.
    pub(crate) fn begin(&mut self) -> u64 {
        self.slots.push_back(Slot::Open);
        self.first + self.slots.len() as u64 - 1
    }

    /// Takes the text of a session that has ended, and gives out what need not wait. Tells whether
    /// it comes behind later ones.
    pub(crate) fn end(&mut self, number: u64, text: &[u8], out: Sink<'_>) -> bool {
        let Some(index) = number.checked_sub(self.first) else {
            out(text);
            return true;
        };
        if index == 0 {
            out(text);
            self.release(out);
            while matches!(self.slots.front(), Some(Slot::Finished(_))) {
                self.release(out);
            }
        } else {
            self.bytes += text.len();
            self.slots[index as usize] = Slot::Finished(text.into());
        }
        false
    }

    /// Waits no longer for the earliest open session, and gives out those that have waited for it
    /// only. Tells whether there was something to release.
    pub(crate) fn release_early(&mut self, out: Sink<'_>) -> bool {
        if self.bytes == 0 {
            return false;
        }
        while matches!(self.slots.front(), Some(Slot::Open)) {
            self.release(out);
        }
        while matches!(self.slots.front(), Some(Slot::Finished(_))) {
            self.release(out);
        }
        true
    }

    /// About how many bytes of memory they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.slots.len() * size_of::<Slot>()
    }

    fn release(&mut self, out: Sink<'_>) {
        self.first += 1;
        if let Some(Slot::Finished(text)) = self.slots.pop_front() {
            self.bytes -= text.len();
            out(&text);
        }
        // Slots behind one endless session take no memory after its end.
        if self.slots.capacity() > SLOTS_KEPT.max(4 * self.slots.len()) {
            self.slots.shrink_to(2 * self.slots.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_come_out_in_the_order_in_which_they_began() {
        let (mut order, mut given) = (Order::default(), Vec::new());
        let out: Sink<'_> = &mut |text: &[u8]| given.extend_from_slice(text);
        let [a, b, c, d] = [0; 4].map(|_| order.begin());
        assert!(!order.end(c, b"c", out) && !order.end(b, b"b", out));
        assert!(order.bytes() > 0);
        assert!(!order.end(a, b"a", out) && !order.end(d, b"d", out));
        assert_eq!((given.as_slice(), order.bytes()), (&b"abcd"[..], 0));
    }

    #[test]
    fn sessions_that_may_wait_no_longer_come_before_the_one_they_waited_for() {
        let (mut order, mut given) = (Order::default(), Vec::new());
        let out: Sink<'_> = &mut |text: &[u8]| given.extend_from_slice(text);
        let [a, b, c, d] = [0; 4].map(|_| order.begin());
        assert!(!order.release_early(out));
        assert!(!order.end(b, b"b", out) && !order.end(d, b"d", out));
        assert!(order.release_early(out));
        assert!(order.end(a, b"a", out) && !order.end(c, b"c", out));
        assert_eq!((given.as_slice(), order.bytes()), (&b"bacd"[..], 0));
    }
}
