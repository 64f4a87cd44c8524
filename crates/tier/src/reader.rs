//! Readers of objects in fragments.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_cache::Pieces;

use crate::activity::ReaderPlace;
use crate::answer::{BodyPiece, Fragments, Reader};
use crate::fill::{Fill, Tip, number_of};
use crate::fragmented::{FragmentSource, Fragmented};
use crate::store::{FRAGMENT_BYTES, Found};
use crate::wake::Wake;

/// A reader of a range of an object.
pub(crate) struct FragmentReader {
    object: Arc<Fragmented>,
    /// Its place, for fills that look whether they are read.
    place: Arc<ReaderPlace>,
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
    /// A fragment in memory, which begins at `start`.
    InMemory {
        pieces: Pieces,
        start: u64,
    },
}

/// Bytes in memory are read in pieces of at most this size: a loop copies a piece for each client.
pub(crate) const PIECE_BYTES_MAX: usize = 64 << 10;

/// A search for a fragment, by a task.
struct Search(Mutex<Searched>);

enum Searched {
    Searching(Option<Wake>),
    Over(Result<FragmentSource, Arc<str>>),
    Taken,
}

impl FragmentReader {
    pub(crate) fn new(object: Arc<Fragmented>, range: Range<u64>) -> Self {
        let place = object.add_reader(&range);
        Self { object, place, position: range.start, end: range.end, state: State::Idle }
    }

    /// Begins to search for the fragment.
    fn search(&mut self, wake: &mut Option<Wake>) {
        let search = Arc::new(Search(Mutex::new(Searched::Searching(wake.take()))));
        let (object, result, position, end) = (Arc::clone(&self.object), Arc::clone(&search), self.position, self.end);
        self.object.shared.runtime.spawn(async move {
            let source = object.source_of(position, end).await;
            let mut searched = result.0.lock().unwrap_or_else(PoisonError::into_inner);
            let before = std::mem::replace(&mut *searched, Searched::Over(source));
            drop(searched);
            if let Searched::Searching(Some(wake)) = before {
                wake();
            }
        });
        self.state = State::Looking(search);
    }

    /// The next piece of a fragment that was found. One in memory is kept for the further ones.
    fn piece_of(&mut self, found: Found) -> BodyPiece {
        let start = u64::from(number_of(self.position)) * FRAGMENT_BYTES;
        match found {
            Found::Memory(pieces) => {
                let piece = self.piece_in(&pieces, start);
                self.state = State::InMemory { pieces, start };
                piece
            }
            Found::File(location) => {
                let range = self.position - start..(self.end - start).min(u64::from(location.length));
                let (count, range) = (range.end - range.start, range.start as u32..range.end as u32);
                self.state = State::Idle;
                self.pass(count);
                BodyPiece::File { location, range }
            }
        }
    }

    fn piece_in(&mut self, pieces: &Pieces, start: u64) -> BodyPiece {
        let mut bytes = pieces.at((self.position - start) as usize);
        bytes.truncate(((self.end - self.position) as usize).min(PIECE_BYTES_MAX));
        self.pass(bytes.len() as u64);
        BodyPiece::Bytes(bytes)
    }

    fn pass(&mut self, count: u64) {
        self.position += count;
        self.place.position.store(self.position, Ordering::Relaxed);
        self.object.count_served(count);
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
                    None => match self.object.find_now(number_of(self.position)) {
                        Some(found) => return self.piece_of(found),
                        None => self.search(&mut wake),
                    },
                },
                State::Looking(search) => {
                    let mut searched = search.0.lock().unwrap_or_else(PoisonError::into_inner);
                    let found = match &mut *searched {
                        Searched::Searching(waiting) => {
                            if wake.is_some() {
                                *waiting = wake.take();
                            }
                            return BodyPiece::Pending;
                        }
                        _ => std::mem::replace(&mut *searched, Searched::Taken),
                    };
                    drop(searched);
                    match found {
                        Searched::Over(Ok(FragmentSource::Found(found))) => return self.piece_of(found),
                        Searched::Over(Ok(FragmentSource::Fill(fill))) => self.state = State::AtFill(fill),
                        Searched::Over(Err(reason)) => return BodyPiece::Failed(reason),
                        _ => self.state = State::Idle,
                    }
                }
                State::AtFill(fill) => match fill.read(self.position, self.end, &mut wake) {
                    Tip::Bytes(mut bytes) => {
                        bytes.truncate(PIECE_BYTES_MAX);
                        self.pass(bytes.len() as u64);
                        return BodyPiece::Bytes(bytes);
                    }
                    Tip::Pending => return BodyPiece::Pending,
                    Tip::Passed => self.state = State::Idle,
                    Tip::Failed(reason) => return BodyPiece::Failed(reason),
                },
                State::InMemory { pieces, start } if self.position - *start < pieces.len() as u64 => {
                    let (pieces, start) = (pieces.clone(), *start);
                    return self.piece_in(&pieces, start);
                }
                State::InMemory { .. } => self.state = State::Idle,
            }
        }
    }
}

impl Drop for FragmentReader {
    fn drop(&mut self) {
        self.object.remove_reader(&self.place);
    }
}
