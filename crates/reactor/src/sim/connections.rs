//! The connections of the network, by their numbers.

use std::collections::VecDeque;
use std::ops::Index;

use super::connection::Connection;

/// Connections by number. Numbers go up and are not used again.
#[derive(Default)]
pub(super) struct Connections {
    /// The number of the first entry.
    first: u64,
    /// Connections by number. An ended connection leaves a gap; gaps at the front are dropped.
    entries: VecDeque<Option<Box<Connection>>>,
}

impl Connections {
    /// The number of the connection that is added next.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    pub(super) fn add(&mut self, connection: Connection) {
        self.entries.push_back(Some(Box::new(connection)));
    }

    pub(super) fn get(&self, number: u64) -> Option<&Connection> {
        self.entries.get(self.place(number)?)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut Connection> {
        let place = self.place(number)?;
        self.entries.get_mut(place)?.as_deref_mut()
    }

    pub(super) fn remove(&mut self, number: u64) {
        if let Some(place) = self.place(number) {
            self.entries[place] = None;
        }
        while self.entries.front().is_some_and(Option::is_none) {
            self.entries.pop_front();
            self.first += 1;
        }
    }

    fn place(&self, number: u64) -> Option<usize> {
        number.checked_sub(self.first).map(|place| place as usize)
    }
}

impl Index<u64> for Connections {
    type Output = Connection;

    fn index(&self, number: u64) -> &Connection {
        self.get(number).expect("a connection lives as long as its ends")
    }
}
