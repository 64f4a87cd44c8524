//! Leases on bytes of the cache tier's volumes that the kernel may still send: it sends pages of
//! its memory, not copies of them, so that these have to stay as they are until the client has
//! acknowledged them, and not only until the kernel has taken them.
//!
//! A connection that is closed leaves its last bytes to the kernel; their leases are kept for a
//! time that even a slow client does not need. Bytes that leave over TLS, or gathered with others,
//! are copies and need none of it.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use foldhash::quality::RandomState;
use thalweg_sys::{File, Instant, SocketId};

/// How often connections are looked at that send nothing more.
const LOOK_NS: u64 = 100_000_000;

/// How long the leases of a connection that was closed are kept. At the least rate by default, a
/// client takes what the kernel keeps for a slow one in this time.
const LEFT_NS: u64 = 300_000_000_000;

/// The leases of a loop.
#[derive(Default)]
pub(crate) struct Leases {
    by_socket: HashMap<SocketId, SentBytes, RandomState>,
    /// Leases of closed connections, with the time at which they end.
    left: VecDeque<(Instant, SentBytes)>,
    looked: Instant,
}

/// The leased bytes that a connection has sent.
#[derive(Default)]
struct SentBytes {
    /// Bytes that the kernel has taken since the first lease.
    bytes: u64,
    /// Files, each with the number of those bytes up to its last; `None` while that is being sent.
    files: VecDeque<(Option<u64>, Rc<File>)>,
}

impl Leases {
    /// Whether there are none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.by_socket.is_empty() && self.left.is_empty()
    }

    /// A span of a leased file is passed to the driver.
    pub(crate) fn add(&mut self, socket: SocketId, file: &Rc<File>) {
        let SentBytes { files, .. } = self.by_socket.entry(socket).or_default();
        match files.back_mut() {
            Some((end, last)) if Rc::ptr_eq(last, file) => *end = None,
            _ => files.push_back((None, Rc::clone(file))),
        }
    }

    /// The kernel has taken so many bytes, all that the driver had of this connection.
    pub(crate) fn on_sent(&mut self, socket: SocketId, bytes: u64, unacknowledged: impl FnOnce() -> u64) {
        let Some(sent) = self.by_socket.get_mut(&socket) else { return };
        sent.bytes += bytes;
        for (end, _) in sent.files.iter_mut().rev().take_while(|(end, _)| end.is_none()) {
            *end = Some(sent.bytes);
        }
        sent.release(unacknowledged());
        if sent.files.is_empty() {
            self.by_socket.remove(&socket);
        }
    }

    /// A connection is closed.
    pub(crate) fn leave(&mut self, socket: SocketId, now: Instant) {
        if let Some(sent) = self.by_socket.remove(&socket) {
            self.left.push_back((now.plus_ns(LEFT_NS), sent));
        }
    }

    /// Ends the leases of bytes that were acknowledged meanwhile, from time to time.
    pub(crate) fn look(&mut self, now: Instant, unacknowledged: impl Fn(SocketId) -> u64) {
        if now.ns_since(self.looked) < LOOK_NS {
            return;
        }
        self.looked = now;
        self.by_socket.retain(|socket, sent| {
            sent.release(unacknowledged(*socket));
            !sent.files.is_empty()
        });
        while self.left.pop_front_if(|(end, _)| *end <= now).is_some() {}
    }

    /// When it has to be looked at again.
    pub(crate) fn due(&self) -> Option<Instant> {
        let look = self.looked.plus_ns(LOOK_NS);
        match self.by_socket.is_empty() {
            false => Some(look),
            // Not before anything is looked at again.
            true => self.left.front().map(|(end, _)| (*end).max(look)),
        }
    }
}

impl SentBytes {
    /// Ends the leases of all bytes but those that are being sent, and the last ones taken.
    fn release(&mut self, unacknowledged: u64) {
        let acknowledged = self.bytes.saturating_sub(unacknowledged);
        while self.files.pop_front_if(|(end, _)| end.is_some_and(|end| end <= acknowledged)).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Arc;

    use thalweg_sys::table::Table;

    use super::*;

    fn leased() -> (Rc<File>, Arc<()>) {
        let lease = Arc::new(());
        (Rc::new(File::leased(Arc::new(fs::File::open("/dev/null").unwrap()), lease.clone())), lease)
    }

    fn is_held(lease: &Arc<()>) -> bool {
        Arc::strong_count(lease) > 1
    }

    #[test]
    fn a_lease_ends_when_its_bytes_are_acknowledged() {
        let socket = Table::new(1).insert(()).unwrap();
        let (mut leases, ((first, first_lease), (second, second_lease))) = (Leases::default(), (leased(), leased()));
        leases.add(socket, &first);
        leases.on_sent(socket, 100, || 100);
        leases.add(socket, &first);
        leases.add(socket, &second);
        drop((first, second));
        leases.on_sent(socket, 100, || 150);
        assert!(is_held(&first_lease) && is_held(&second_lease));
        leases.on_sent(socket, 50, || 60);
        assert!(is_held(&first_lease), "its last byte is not there yet");
        leases.on_sent(socket, 0, || 50);
        assert!(!is_held(&first_lease) && !is_held(&second_lease) && leases.is_empty());
    }

    #[test]
    fn those_of_connections_that_send_nothing_more_or_are_closed_end_later() {
        let socket = Table::new(1).insert(()).unwrap();
        let (mut leases, now) = (Leases::default(), Instant::from_ns(1_000_000_000));
        let (file, lease) = leased();
        leases.add(socket, &file);
        leases.on_sent(socket, 100, || 100);
        drop(file);
        leases.look(now, |_| 1);
        assert_eq!((is_held(&lease), leases.due()), (true, Some(now.plus_ns(LOOK_NS))));
        leases.look(now.plus_ns(LOOK_NS - 1), |_| 0);
        assert!(is_held(&lease));
        leases.look(now.plus_ns(LOOK_NS), |_| 0);
        assert!(!is_held(&lease) && leases.is_empty());
        let (file, lease) = leased();
        leases.add(socket, &file);
        leases.leave(socket, now);
        drop(file);
        assert_eq!((is_held(&lease), leases.due()), (true, Some(now.plus_ns(LEFT_NS))));
        leases.look(now.plus_ns(LEFT_NS), |_| unreachable!());
        assert!(!is_held(&lease) && leases.is_empty());
    }
}
