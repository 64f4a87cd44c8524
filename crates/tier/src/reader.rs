//! Readers of objects in fragments.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

use crate::answer::{BodyPiece, Fragments, Reader};
use crate::counters::Counters;
use crate::fill::{Fill, Tip, number_of};
use crate::fragmented::{Fragmented, Led};
use crate::store::{FRAGMENT_BYTES, Found};
use crate::wake::Wake;

/// A reader of a range of an object.
pub(crate) struct FragmentReader {
    object: Arc<Fragmented>,
    position: u64,
    end: u64,
    state: State,
}

enum State {
    Idle,
    /// A task looks the fragment up.
    Looking(Arc<Search>),
    /// The fragment is coming in.
    AtFill(Arc<Fill>),
    /// The rest of a fragment in memory.
    InMemory(Bytes),
}

/// Bytes in memory are read in pieces of at most this size: a loop copies a piece for each client.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 10;

/// A search for a fragment, by a task.
struct Search(Mutex<Searched>);

enum Searched {
    Searching(Option<Wake>),
    Led(Result<Led, Arc<str>>),
    Taken,
}

impl FragmentReader {
    pub(crate) fn new(object: Arc<Fragmented>, range: Range<u64>) -> Self {
        object.count_reader(true);
        Self { object, position: range.start, end: range.end, state: State::Idle }
    }

    /// Begins to search for the fragment.
    fn search(&mut self, wake: &mut Option<Wake>) {
        let search = Arc::new(Search(Mutex::new(Searched::Searching(wake.take()))));
        let (object, result, position, end) = (Arc::clone(&self.object), Arc::clone(&search), self.position, self.end);
        self.object.shared.runtime.spawn(async move {
            let led = object.lead(position, end).await;
            let mut searched = result.0.lock().unwrap_or_else(PoisonError::into_inner);
            let before = std::mem::replace(&mut *searched, Searched::Led(led));
            drop(searched);
            if let Searched::Searching(Some(wake)) = before {
                wake();
            }
        });
        self.state = State::Looking(search);
    }

    /// The part of a fragment that is read, which was found; bytes in memory are read later.
    fn take(&mut self, found: Found) -> Option<BodyPiece> {
        let start = u64::from(number_of(self.position)) * FRAGMENT_BYTES;
        let range = self.position - start..(self.end - start).min(found.len() as u64);
        let count = range.end - range.start;
        Counters::add(&self.object.shared.counters.hit_bytes, count);
        match found {
            Found::Bytes(bytes) => {
                self.state = State::InMemory(bytes.slice(range.start as usize..range.end as usize));
                None
            }
            Found::File(location) => {
                self.position += count;
                self.state = State::Idle;
                Some(BodyPiece::File { location, range: range.start as u32..range.end as u32 })
            }
        }
    }
}

impl Fragments for Fragmented {
    fn reader(self: Arc<Self>, range: Range<u64>) -> Box<dyn Reader> {
        Box::new(FragmentReader::new(self, range))
    }
}

impl Reader for FragmentReader {
    fn next(&mut self, wake: Wake) -> BodyPiece {
        let mut wake = Some(wake);
        loop {
            if self.position >= self.end {
                return BodyPiece::End;
            }
            match &mut self.state {
                State::Idle => match self.object.fill_at(self.position) {
                    Some(fill) => self.state = State::AtFill(fill),
                    None => self.search(&mut wake),
                },
                State::Looking(search) => {
                    let mut searched = search.0.lock().unwrap_or_else(PoisonError::into_inner);
                    let led = match &mut *searched {
                        Searched::Searching(waiting) => {
                            if wake.is_some() {
                                *waiting = wake.take();
                            }
                            return BodyPiece::Pending;
                        }
                        _ => std::mem::replace(&mut *searched, Searched::Taken),
                    };
                    drop(searched);
                    match led {
                        Searched::Led(Ok(Led::Found(found))) => {
                            if let Some(piece) = self.take(found) {
                                return piece;
                            }
                        }
                        Searched::Led(Ok(Led::Fill(fill))) => self.state = State::AtFill(fill),
                        Searched::Led(Err(reason)) => return BodyPiece::Failed(reason),
                        _ => self.state = State::Idle,
                    }
                }
                State::AtFill(fill) => match fill.read(self.position, self.end, &mut wake) {
                    Tip::Bytes(mut bytes) => {
                        bytes.truncate(PIECE_BYTES_MAX);
                        self.position += bytes.len() as u64;
                        return BodyPiece::Bytes(bytes);
                    }
                    Tip::Pending => return BodyPiece::Pending,
                    Tip::Passed => self.state = State::Idle,
                    Tip::Failed(reason) => return BodyPiece::Failed(reason),
                },
                State::InMemory(rest) if rest.is_empty() => self.state = State::Idle,
                State::InMemory(rest) => {
                    let bytes = rest.split_to(rest.len().min(PIECE_BYTES_MAX));
                    self.position += bytes.len() as u64;
                    return BodyPiece::Bytes(bytes);
                }
            }
        }
    }
}

impl Drop for FragmentReader {
    fn drop(&mut self) {
        self.object.count_reader(false);
    }
}
