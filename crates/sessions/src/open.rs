//! Sessions that are not finished: by client, and in the order of their last lines of the log.
//! Memory for many does not stay behind when few are left.

use foldhash::quality::FixedState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::hash::BuildHasher;

use crate::method::LoggedMethod;
use crate::text::Call;

/// The open sessions. A session is named by its place, which another one takes after it; when one
/// is removed, the others may move.
#[derive(Debug)]
pub(crate) struct OpenSessions {
    hasher: FixedState,
    by_client: HashTable<u32>,
    places: Vec<OpenSession>,
    /// Places without a session.
    vacant: Vec<u32>,
    /// The session whose last line of the log is the furthest back.
    idlest: u32,
    latest: u32,
    /// Bytes of clients' names and records.
    bytes: usize,
}

/// One session.
#[derive(Debug, Default)]
pub(crate) struct OpenSession {
    /// Its number in the order of beginnings.
    pub(crate) number: u64,
    client: Box<[u8]>,
    /// To which its calls' times are relative.
    base_unix_s: i64,
    /// The time of its latest call.
    pub(crate) last_unix_s: i64,
    pub(crate) calls: usize,
    /// Calls that stood behind later ones in the log.
    pub(crate) displaced: u64,
    /// One call behind the other: time (4 bytes), method (1), length of the target (2), target.
    records: Vec<u8>,
    /// Its neighbours in the order of last lines.
    before: u32,
    behind: u32,
}

/// No place.
const NONE: u32 = u32::MAX;
/// Bytes of a call's record beside its target.
const RECORD_BYTES: usize = 7;
/// Memory of a place, with or without a session: beside it an entry in the table of clients, which
/// is half full on average.
const PLACE_BYTES: usize = size_of::<OpenSession>() + 4 * size_of::<u32>() + 32;

/// Places that are kept, however few sessions there are.
const PLACES_KEPT: usize = 64;

impl Default for OpenSessions {
    fn default() -> Self {
        Self {
            hasher: FixedState::default(),
            by_client: HashTable::new(),
            places: Vec::new(),
            vacant: Vec::new(),
            idlest: NONE,
            latest: NONE,
            bytes: 0,
        }
    }
}

impl OpenSessions {
    /// About how many bytes of memory they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes + self.places.len() * PLACE_BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_client.is_empty()
    }

    /// The place of a client's session.
    pub(crate) fn find(&self, client: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(client);
        self.by_client.find(hash, |&place| *self.places[place as usize].client == *client).copied()
    }

    pub(crate) fn get(&self, place: u32) -> &OpenSession {
        &self.places[place as usize]
    }

    /// The session whose last line is the furthest back.
    pub(crate) fn idlest(&self) -> Option<u32> {
        (self.idlest != NONE).then_some(self.idlest)
    }

    /// Begins a session of a client that has none.
    pub(crate) fn begin(&mut self, client: &[u8], number: u64, unix_s: i64) -> u32 {
        let session = OpenSession {
            number,
            client: client.into(),
            base_unix_s: unix_s,
            last_unix_s: unix_s,
            ..OpenSession::default()
        };
        let place = match self.vacant.pop() {
            Some(place) => {
                self.places[place as usize] = session;
                place
            }
            None => {
                self.places.push(session);
                u32::try_from(self.places.len() - 1).expect("memory is bounded far below 2^32 sessions")
            }
        };
        let (hasher, places) = (&self.hasher, &self.places);
        let hash_of = |place: &u32| hasher.hash_one(&*places[*place as usize].client);
        match self.by_client.entry(hash_of(&place), |&other| *places[other as usize].client == *client, hash_of) {
            Entry::Vacant(entry) => entry.insert(place),
            Entry::Occupied(_) => panic!("a client has one open session"),
        };
        self.bytes += client.len();
        self.append(place);
        place
    }

    /// Adds a call to a session, which becomes the latest one.
    pub(crate) fn add(&mut self, place: u32, unix_s: i64, method: LoggedMethod, target: &str) {
        let session = &mut self.places[place as usize];
        let capacity = session.records.capacity();
        let at_s = i32::try_from(unix_s - session.base_unix_s)
            .expect("a session of so few calls and gaps is shorter than 68 years");
        let length = u16::try_from(target.len()).expect("targets fit a line");
        session.records.reserve(RECORD_BYTES + target.len());
        session.records.extend_from_slice(&at_s.to_le_bytes());
        session.records.push(method as u8);
        session.records.extend_from_slice(&length.to_le_bytes());
        session.records.extend_from_slice(target.as_bytes());
        session.displaced += u64::from(unix_s < session.last_unix_s);
        session.last_unix_s = session.last_unix_s.max(unix_s);
        session.calls += 1;
        self.bytes += session.records.capacity() - capacity;
        self.detach(place);
        self.append(place);
    }

    /// Takes a session out.
    pub(crate) fn remove(&mut self, place: u32) -> OpenSession {
        self.detach(place);
        let session = std::mem::take(&mut self.places[place as usize]);
        let hash = self.hasher.hash_one(&*session.client);
        match self.by_client.find_entry(hash, |&other| other == place) {
            Ok(entry) => drop(entry.remove()),
            Err(_) => panic!("an open session is in the table"),
        }
        self.vacant.push(place);
        self.bytes -= session.client.len() + session.records.capacity();
        if self.places.len() > PLACES_KEPT && self.vacant.len() > self.places.len() / 2 {
            self.compact();
        }
        session
    }

    /// Moves the sessions together, in the order of their last lines, and gives the memory of
    /// vacant places back.
    fn compact(&mut self) {
        let mut places = Vec::with_capacity(self.places.len() - self.vacant.len());
        let mut next = self.idlest;
        while next != NONE {
            let mut session = std::mem::take(&mut self.places[next as usize]);
            next = session.behind;
            let place = places.len() as u32;
            (session.before, session.behind) = (place.wrapping_sub(1), place + 1);
            places.push(session);
        }
        if let Some(last) = places.last_mut() {
            last.behind = NONE;
            (self.idlest, self.latest) = (0, places.len() as u32 - 1);
        }
        let hash_of = |place: &u32| self.hasher.hash_one(&*places[*place as usize].client);
        let mut by_client = HashTable::with_capacity(places.len());
        for place in 0..places.len() as u32 {
            by_client.insert_unique(hash_of(&place), place, hash_of);
        }
        (self.by_client, self.places, self.vacant) = (by_client, places, Vec::new());
    }

    fn append(&mut self, place: u32) {
        let session = &mut self.places[place as usize];
        (session.before, session.behind) = (self.latest, NONE);
        match self.latest {
            NONE => self.idlest = place,
            latest => self.places[latest as usize].behind = place,
        }
        self.latest = place;
    }

    fn detach(&mut self, place: u32) {
        let OpenSession { before, behind, .. } = self.places[place as usize];
        match before {
            NONE => self.idlest = behind,
            before => self.places[before as usize].behind = behind,
        }
        match behind {
            NONE => self.latest = before,
            behind => self.places[behind as usize].before = before,
        }
    }
}

impl OpenSession {
    /// The calls in the order of their times; those of one second in the order of the log.
    pub(crate) fn ordered_calls(&self) -> Vec<Call<'_>> {
        let mut calls = Vec::with_capacity(self.calls);
        let mut rest = self.records.as_slice();
        while let Some((head, tail)) = rest.split_first_chunk::<RECORD_BYTES>() {
            let [t0, t1, t2, t3, method, l0, l1] = *head;
            let (target, tail) = tail.split_at(usize::from(u16::from_le_bytes([l0, l1])));
            calls.push(Call {
                at_s: i32::from_le_bytes([t0, t1, t2, t3]),
                method: LoggedMethod::ALL[usize::from(method)],
                target: std::str::from_utf8(target).expect("it was text"),
            });
            rest = tail;
        }
        if self.displaced > 0 {
            calls.sort_by_key(|call| call.at_s);
        }
        calls
    }

    /// The time of a call.
    pub(crate) fn unix_s(&self, call: &Call<'_>) -> i64 {
        self.base_unix_s + i64::from(call.at_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idlest_session_is_the_one_whose_last_line_is_the_furthest_back() {
        let mut open = OpenSessions::default();
        let clients = ["a", "b", "c"];
        let places = [0, 1, 2].map(|number| open.begin(clients[number].as_bytes(), number as u64, 5));
        for (place, target) in places.into_iter().zip(["/1", "/2", "/3"]) {
            open.add(place, 5, LoggedMethod::Get, target);
        }
        assert_eq!(open.idlest(), Some(places[0]));
        open.add(places[0], 4, LoggedMethod::Head, "/0");
        assert_eq!((open.idlest(), open.find(b"a"), open.find(b"d")), (Some(places[1]), Some(places[0]), None));
        let removed = open.remove(places[0]);
        let calls: Vec<_> = removed.ordered_calls().iter().map(|call| (call.at_s, call.target.to_owned())).collect();
        assert_eq!(calls, [(-1, "/0".to_owned()), (0, "/1".to_owned())]);
        assert_eq!((removed.displaced, removed.last_unix_s, open.find(b"a")), (1, 5, None));
        open.remove(places[1]);
        assert_eq!(open.begin(b"a", 3, 6), places[1], "places are used again");
        open.remove(places[1]);
        open.remove(places[2]);
        assert_eq!((open.bytes(), open.is_empty(), open.idlest()), (3 * PLACE_BYTES, true, None));
    }

    #[test]
    fn the_memory_of_many_sessions_does_not_stay_behind() {
        let mut open = OpenSessions::default();
        let client = |number: u64| format!("client {number}");
        for number in 0..1000 {
            let place = open.begin(client(number).as_bytes(), number, 0);
            open.add(place, 0, LoggedMethod::Get, "/");
        }
        // Every other one, from both ends.
        for number in (0..500).map(|pair| if pair % 2 == 0 { pair } else { 1000 - pair }) {
            let place = open.find(client(number).as_bytes()).expect("it is open");
            assert_eq!(open.remove(place).number, number);
        }
        let few = (0..1000).filter(|number| open.find(client(*number).as_bytes()).is_some()).collect::<Vec<_>>();
        assert_eq!((few.len(), open.places.len()), (500, 1000), "half of them may be vacant");
        for number in &few[..450] {
            let place = open.find(client(*number).as_bytes()).expect("it is open");
            open.remove(place);
        }
        assert!(open.places.len() <= 150 && open.places.capacity() <= 150, "{}", open.places.len());
        // They stand in their order still, and take new sessions.
        let place = open.begin(b"new", 1000, 0);
        assert_eq!(open.get(place).number, 1000);
        for number in few[450..].iter().copied().chain([1000]) {
            let idlest = open.idlest().expect("some are left");
            assert_eq!(open.remove(idlest).number, number);
        }
        assert!(open.is_empty() && open.bytes <= 1000, "{}", open.bytes);
    }
}
