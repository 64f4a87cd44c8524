//! Fair queueing: connections that wait for a rate that they share, in an order that is fair to
//! their clients.
//!
//! Start-time fair queueing: each client has a tag, the bytes that it was given on a virtual clock,
//! and the client with the lowest tag is next. How many connections a client has makes no
//! difference to that; among its own connections it is first come, first served. A client that
//! comes back after a rest begins at the clock's present, so that rests are not saved up.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use foldhash::fast::RandomState;
use thalweg_sys::SocketId;

/// A client's index in its loop's list.
pub(crate) type ClientIndex = u32;

/// The connections that wait for one rate.
#[derive(Default)]
pub(crate) struct Fair {
    /// The tag of the client that was granted last.
    clock: u64,
    /// Clients with waiting connections, the lowest tag first; once each. A tag may be out of date,
    /// and is then too low.
    order: BinaryHeap<Reverse<(u64, ClientIndex)>>,
    clients: HashMap<ClientIndex, Client, RandomState>,
    waiting: usize,
    /// Clients that have nothing to wait for are looked for when there are this many.
    sweep_at: usize,
}

struct Client {
    tag: u64,
    waiting: VecDeque<SocketId>,
}

/// Room for so many waiting connections is kept for a client.
const WAITING_USUAL: usize = 4;

/// Fewer clients than this are not worth sweeping.
const SWEEP_MIN: usize = 64;

/// Of more clients than this it is not remembered that they are ahead.
const AHEAD_MAX: usize = 1 << 16;

impl Fair {
    /// Whether no connection waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// The number of clients that wait.
    pub(crate) fn clients_waiting(&self) -> usize {
        self.order.len()
    }

    /// Has a connection wait for a grant.
    pub(crate) fn push(&mut self, client: ClientIndex, socket: SocketId) {
        let clock = self.clock;
        let state = self.state(client);
        state.tag = state.tag.max(clock);
        let tag = state.tag;
        let is_first = state.waiting.is_empty();
        state.waiting.push_back(socket);
        if is_first {
            self.order.push(Reverse((tag, client)));
        }
        self.waiting += 1;
    }

    /// The connection that is granted next. The connection's client pays when it sends
    /// ([`Fair::charge`]).
    pub(crate) fn pop(&mut self) -> Option<SocketId> {
        loop {
            let Reverse((tag, index)) = self.order.pop()?;
            let client = self.clients.get_mut(&index).expect("a client that waits is known");
            if tag < client.tag {
                self.order.push(Reverse((client.tag, index)));
                continue;
            }
            let socket = client.waiting.pop_front().expect("a client in order waits");
            if client.waiting.is_empty() {
                // A burst of connections must not leave its memory behind with each client.
                client.waiting.shrink_to(WAITING_USUAL);
            } else {
                self.order.push(Reverse((tag, index)));
            }
            self.clock = self.clock.max(tag);
            self.waiting -= 1;
            return Some(socket);
        }
    }

    /// A client was given bytes. On how many loops it has connections decides what it pays: it is
    /// granted on each of them.
    pub(crate) fn charge(&mut self, client: ClientIndex, bytes: u64, loops: u32) {
        let clock = self.clock;
        let state = self.state(client);
        let start = state.tag.max(clock);
        state.tag = start.saturating_add(bytes.saturating_mul(u64::from(loops)));
        // While no connection waits, grants move the clock: a client that comes later must not have
        // to catch up with the bytes that others got before.
        if self.waiting == 0 {
            self.clock = start;
        }
    }

    fn state(&mut self, client: ClientIndex) -> &mut Client {
        if self.clients.len() >= self.sweep_at.max(SWEEP_MIN) {
            self.sweep();
        }
        let clock = self.clock;
        self.clients.entry(client).or_insert_with(|| Client { tag: clock, waiting: VecDeque::new() })
    }

    /// Forgets the clients that do not wait and are not ahead of the others. If no client waits,
    /// none is ahead.
    fn sweep(&mut self) {
        let is_remembered = self.waiting > 0 && self.clients.len() < AHEAD_MAX;
        let clock = self.clock;
        self.clients.retain(|_, client| !client.waiting.is_empty() || (is_remembered && client.tag > clock));
        self.sweep_at = 2 * self.clients.len();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn socket(number: u64) -> SocketId {
        SocketId::from_bits(number)
    }

    /// Lets each client keep so many connections waiting, and makes so many grants. The bytes of
    /// each.
    fn share(connections: &[u64], loops: &[u32], turn_bytes: impl Fn(usize) -> u64, turns: usize) -> Vec<u64> {
        let mut fair = Fair::default();
        let mut bytes = vec![0; connections.len()];
        for (client, &count) in connections.iter().enumerate() {
            for number in 0..count {
                fair.push(client as u32, socket((client as u64) << 16 | number));
            }
        }
        for _ in 0..turns {
            let turn = fair.pop().unwrap();
            let client = (turn.to_bits() >> 16) as usize;
            let sent = turn_bytes(client);
            bytes[client] += sent;
            fair.charge(client as u32, sent, loops[client]);
            fair.push(client as u32, turn);
        }
        bytes
    }

    #[test]
    fn a_client_with_a_hundred_connections_gets_no_more_than_one_with_one() {
        assert_eq!(share(&[100, 1, 1], &[1; 3], |_| 1000, 3000), [1_000_000; 3]);
    }

    #[test]
    fn a_client_that_is_on_two_loops_gets_half_on_each() {
        let bytes = share(&[5, 5], &[2, 1], |_| 1000, 3000);
        assert_eq!(bytes, [1_000_000, 2_000_000]);
    }

    #[test]
    fn a_client_that_sends_little_at_a_time_has_more_grants() {
        let bytes = share(&[1, 1], &[1, 1], |client| if client == 0 { 100 } else { 1000 }, 11_000);
        assert!(bytes[0].abs_diff(bytes[1]) <= 1000, "{bytes:?}");
    }

    #[test]
    fn the_connections_of_a_client_take_turns() {
        let mut fair = Fair::default();
        for number in 0..3 {
            fair.push(7, socket(number));
        }
        let turns: Vec<u64> = (0..6)
            .map(|_| {
                let turn = fair.pop().unwrap();
                fair.charge(7, 10, 1);
                fair.push(7, turn);
                turn.to_bits()
            })
            .collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_rest_gives_no_claim() {
        let mut fair = Fair::default();
        fair.push(0, socket(0));
        for _ in 0..1000 {
            let turn = fair.pop().unwrap();
            fair.charge(0, 1000, 1);
            fair.push(0, turn);
        }
        // The new client is next, but gets no credit for the time before it waited.
        fair.push(1, socket(1));
        let mut newcomer_turns = 0;
        for _ in 0..100 {
            let turn = fair.pop().unwrap();
            let client = turn.to_bits() as u32;
            newcomer_turns += client;
            fair.charge(client, 1000, 1);
            fair.push(client, turn);
        }
        assert!((50..=51).contains(&newcomer_turns), "{newcomer_turns}");
    }

    #[test]
    fn grants_without_competition_are_not_held_against_a_client() {
        let mut fair = Fair::default();
        for _ in 0..1000 {
            fair.charge(0, 1000, 1);
        }
        fair.push(1, socket(1));
        fair.push(0, socket(0));
        let turns: Vec<u64> = (0..4)
            .map(|_| {
                let turn = fair.pop().unwrap();
                fair.charge(turn.to_bits() as u32, 1000, 1);
                fair.push(turn.to_bits() as u32, turn);
                turn.to_bits()
            })
            .collect();
        assert_eq!(turns.iter().filter(|&&turn| turn == 0).count(), 2, "{turns:?}");
    }

    #[test]
    fn clients_that_have_gone_are_forgotten() {
        let mut fair = Fair::default();
        for client in 0..100_000 {
            fair.push(client, socket(1));
            fair.pop().unwrap();
            fair.charge(client, 10, 1);
        }
        assert!(fair.clients.len() <= 2 * SWEEP_MIN, "{}", fair.clients.len());
    }

    proptest! {
        /// Any clients with any connections that always have something to send: no client is ahead
        /// by more than a grant.
        #[test]
        fn clients_share_alike(connections in prop::collection::vec(1u64..50, 1..20), turn_bytes in 1u64..100_000) {
            let bytes = share(&connections, &vec![1; connections.len()], |_| turn_bytes, 1000);
            let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
            prop_assert!(most - least <= turn_bytes);
        }
    }
}
