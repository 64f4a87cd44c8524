//! Streams: bodies whose bytes come in later, in pieces, and whose length may be unknown until the
//! end.
//!
//! An origin writes a stream while sessions read it, all on one loop. Several readers may share a
//! stream as long as its beginning is kept; each has a position of its own. A stream keeps a window
//! of bytes: an origin that finds it full waits until the slowest reader has taken some, so that a
//! client that reads slowly holds its origin back and nothing piles up here. (A reader that makes
//! no progress loses its connection, which sets the others free.)

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use thalweg_sys::SocketId;

/// The connections of a loop whose session has something to go on with.
#[derive(Clone, Default)]
pub(crate) struct Wakes(Rc<RefCell<Vec<SocketId>>>);

impl Wakes {
    /// Lists a connection.
    pub(crate) fn push(&self, socket: SocketId) {
        self.0.borrow_mut().push(socket);
    }

    /// Whether no connection is listed.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// Takes out all connections that are listed.
    pub(crate) fn take(&self) -> Vec<SocketId> {
        std::mem::take(&mut *self.0.borrow_mut())
    }
}

/// The bytes of a stream on their way from its writer to its readers.
struct Window {
    /// Bytes that may be kept for readers.
    bytes_max: usize,
    /// Pieces that not all readers have taken, the oldest first.
    pieces: VecDeque<Rc<Vec<u8>>>,
    /// The number of the first of them, in all pieces of the stream.
    first: u64,
    bytes: usize,
    /// Bytes written so far.
    written: u64,
    length: Option<u64>,
    end: Option<End>,
    readers: Vec<Option<Position>>,
    wakes: Wakes,
}

#[derive(Clone)]
enum End {
    Complete,
    Failed(Rc<str>),
}

/// How far a reader has come.
struct Position {
    /// The number of its next piece.
    piece: u64,
    /// The connection to wake when there is one.
    waiter: Option<SocketId>,
}

/// The end of a stream that its origin writes to. A writer that is dropped before the end fails the
/// stream.
pub(crate) struct StreamWriter(Rc<RefCell<Window>>);

/// A stream, as an object has it.
#[derive(Clone)]
pub(crate) struct Stream(Rc<RefCell<Window>>);

/// A session's end of a stream.
pub(crate) struct StreamReader {
    window: Rc<RefCell<Window>>,
    number: usize,
}

/// The result of a read from the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Bytes, at least one.
    Bytes(Rc<Vec<u8>>),
    /// Nothing yet: the connection is woken.
    Pending,
    /// All was read.
    End,
    /// The origin could not deliver the rest, for this reason.
    Failed(Rc<str>),
}

impl Stream {
    /// A stream of so many bytes, if that is known, which keeps at most about `window_bytes_max` of
    /// them.
    pub(crate) fn new(length: Option<u64>, window_bytes_max: usize, wakes: Wakes) -> (StreamWriter, Self) {
        let window = Rc::new(RefCell::new(Window {
            bytes_max: window_bytes_max.max(1),
            pieces: VecDeque::new(),
            first: 0,
            bytes: 0,
            written: 0,
            length,
            end: None,
            readers: Vec::new(),
            wakes,
        }));
        (StreamWriter(Rc::clone(&window)), Self(window))
    }

    /// Bytes of the whole, if that is known.
    pub(crate) fn length(&self) -> Option<u64> {
        self.0.borrow().length
    }

    /// Whether a reader that comes now finds the beginning, and no failure.
    pub(crate) fn is_joinable(&self) -> bool {
        let window = self.0.borrow();
        window.first == 0 && !matches!(window.end, Some(End::Failed(_)))
    }

    /// A reader from the beginning on. If that is not kept any more, it finds a failure.
    pub(crate) fn reader(&self) -> StreamReader {
        let mut window = self.0.borrow_mut();
        let position = Some(Position { piece: 0, waiter: None });
        let number = match window.readers.iter().position(Option::is_none) {
            Some(number) => {
                window.readers[number] = position;
                number
            }
            None => {
                window.readers.push(position);
                window.readers.len() - 1
            }
        };
        StreamReader { window: Rc::clone(&self.0), number }
    }
}

impl StreamWriter {
    /// Bytes that may be written now.
    pub(crate) fn room(&self) -> usize {
        let window = self.0.borrow();
        window.bytes_max.saturating_sub(window.bytes)
    }

    /// Whether an object or a session still has the stream.
    pub(crate) fn is_wanted(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    /// Writes bytes behind those before, and wakes the readers. A stream takes no more than its
    /// length.
    pub(crate) fn write(&mut self, bytes: Vec<u8>) {
        let mut window = self.0.borrow_mut();
        if bytes.is_empty() || window.end.is_some() {
            return;
        }
        window.written += bytes.len() as u64;
        if window.length.is_some_and(|length| window.written > length) {
            return window.end(End::Failed("the origin has sent more bytes than it had announced".into()));
        }
        window.bytes += bytes.len();
        window.pieces.push_back(Rc::new(bytes));
        window.wake();
    }

    /// Ends the stream. One that is shorter than its length has failed.
    pub(crate) fn finish(self) {
        let mut window = self.0.borrow_mut();
        let is_short = window.length.is_some_and(|length| window.written < length);
        window.end(match is_short {
            true => End::Failed("the origin has sent fewer bytes than it had announced".into()),
            false => End::Complete,
        });
    }

    /// Ends the stream before its end.
    pub(crate) fn fail(self, reason: &str) {
        self.0.borrow_mut().end(End::Failed(reason.into()));
    }
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        self.0.borrow_mut().end(End::Failed("the origin has given the response up".into()));
    }
}

impl StreamReader {
    /// The next piece. If there is none yet, the connection of `waiter` is woken when there is.
    pub(crate) fn next(&mut self, waiter: SocketId) -> Piece {
        let mut window = self.window.borrow_mut();
        let window = &mut *window;
        let Some(position) = &mut window.readers[self.number] else {
            unreachable!("a reader has its position until it is dropped")
        };
        let Some(index) = position.piece.checked_sub(window.first) else {
            return Piece::Failed("the beginning of the stream is not kept any more".into());
        };
        if let Some(piece) = window.pieces.get(index as usize) {
            let piece = Rc::clone(piece);
            position.piece += 1;
            window.trim();
            return Piece::Bytes(piece);
        }
        match &window.end {
            None => {
                position.waiter = Some(waiter);
                Piece::Pending
            }
            Some(End::Complete) => Piece::End,
            Some(End::Failed(reason)) => Piece::Failed(Rc::clone(reason)),
        }
    }
}

impl Drop for StreamReader {
    fn drop(&mut self) {
        let mut window = self.window.borrow_mut();
        window.readers[self.number] = None;
        if window.readers.iter().any(Option::is_some) {
            window.trim();
        }
    }
}

impl Window {
    /// Forgets pieces that all readers have taken.
    fn trim(&mut self) {
        let taken = self.readers.iter().flatten().map(|position| position.piece).min().unwrap_or(self.first);
        while self.first < taken {
            self.first += 1;
            self.bytes -= self.pieces.pop_front().map_or(0, |piece| piece.len());
        }
    }

    fn end(&mut self, end: End) {
        if self.end.is_none() {
            self.end = Some(end);
            self.wake();
        }
    }

    fn wake(&mut self) {
        for position in self.readers.iter_mut().flatten() {
            if let Some(waiter) = position.waiter.take() {
                self.wakes.push(waiter);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_sys::table::Table;

    use super::*;

    fn socket() -> SocketId {
        Table::new(1).insert(()).unwrap()
    }

    fn bytes(piece: &Piece) -> &[u8] {
        match piece {
            Piece::Bytes(bytes) => bytes,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn readers_share_a_window_and_the_slowest_holds_the_writer_back() {
        let wakes = Wakes::default();
        let (mut writer, stream) = Stream::new(None, 10, wakes.clone());
        let (mut fast, mut slow) = (stream.reader(), stream.reader());
        assert_eq!(fast.next(socket()), Piece::Pending);
        writer.write(b"123456".to_vec());
        assert_eq!((wakes.take(), wakes.take()), (vec![socket()], vec![]), "woken once");
        writer.write(b"78".to_vec());
        assert_eq!((bytes(&fast.next(socket())), bytes(&fast.next(socket()))), (&b"123456"[..], &b"78"[..]));
        assert_eq!((writer.room(), stream.is_joinable()), (2, true));
        assert_eq!(bytes(&slow.next(socket())), b"123456");
        assert_eq!((writer.room(), stream.is_joinable()), (8, false));
        assert!(matches!(stream.reader().next(socket()), Piece::Failed(_)), "too late");
        drop(slow);
        assert_eq!(writer.room(), 10);
        writer.finish();
        assert_eq!(fast.next(socket()), Piece::End);
    }

    #[test]
    fn a_stream_is_as_long_as_it_says_or_fails() {
        for (written, is_whole) in [(&b"123"[..], false), (b"1234", true), (b"12345", false)] {
            let (mut writer, stream) = Stream::new(Some(4), 10, Wakes::default());
            let mut reader = stream.reader();
            writer.write(written.to_vec());
            writer.finish();
            while matches!(reader.next(socket()), Piece::Bytes(_)) {}
            let end = reader.next(socket());
            assert_eq!(end == Piece::End, is_whole, "{written:?}: {end:?}");
        }
    }

    #[test]
    fn a_writer_that_is_dropped_fails_its_stream() {
        let (writer, stream) = Stream::new(None, 10, Wakes::default());
        let mut reader = stream.reader();
        assert!(writer.is_wanted());
        drop(writer);
        assert!(matches!(reader.next(socket()), Piece::Failed(_)));
        assert!(!stream.is_joinable());
    }

    #[test]
    fn a_writer_knows_when_its_stream_is_wanted_no_more() {
        let (writer, stream) = Stream::new(None, 10, Wakes::default());
        let reader = stream.reader();
        drop(stream);
        assert!(writer.is_wanted());
        drop(reader);
        assert!(!writer.is_wanted());
    }
}
