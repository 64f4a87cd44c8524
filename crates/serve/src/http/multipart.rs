//! Several ranges of one file in one body: `multipart/byteranges` (RFC 9110, 14.6).
//!
//! It writes what stands between the ranges, and has the order in which texts and parts of the file
//! go out. Which ranges are meant was decided before.

use std::collections::VecDeque;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use thalweg_sys::FileSpan;
use thalweg_tier::{BodyPiece, Fragments, Reader, Wake};
use thalweg_wire::encode::push_hex;
use thalweg_wire::range::{ByteRange, push_content_range};

use crate::content::body::Parts;

/// The separator of the parts of one body. It must not occur in the file, whose author is not
/// trusted; it is therefore random, from keys that are secret.
pub(crate) struct Boundary(Vec<u8>);

/// Generates boundaries.
pub(crate) struct Boundaries {
    keys: RandomState,
    made: u64,
}

impl Boundaries {
    /// Makes a generator with secret keys of its own.
    pub(crate) fn new() -> Self {
        Self { keys: RandomState::new(), made: 0 }
    }

    /// One that was not there before.
    pub(crate) fn next(&mut self) -> Boundary {
        let mut text = Vec::with_capacity(32);
        for half in 0..2u8 {
            push_hex(&mut text, self.keys.hash_one((self.made, half)) | 1 << 63);
        }
        self.made += 1;
        Boundary(text)
    }
}

/// The texts of a body of several parts.
pub(crate) struct Multipart<'e> {
    boundary: Boundary,
    ranges: &'e [ByteRange],
    /// The part head before each range.
    before: Vec<Vec<u8>>,
    /// The closing boundary after the last range.
    end: Vec<u8>,
}

impl<'e> Multipart<'e> {
    /// Of a file of this type and size.
    pub(crate) fn new(boundary: Boundary, ranges: &'e [ByteRange], content_type: &str, size: u64) -> Self {
        let line_end = |index: usize| if index == 0 { &b""[..] } else { b"\r\n" };
        let before = ranges.iter().enumerate().map(|(index, range)| {
            let mut text = [line_end(index), b"--", &boundary.0, b"\r\n"].concat();
            // These lines are MIME's (RFC 2046), whatever the version of HTTP.
            text.extend_from_slice(b"Content-Type: ");
            text.extend_from_slice(content_type.as_bytes());
            text.extend_from_slice(b"\r\nContent-Range: ");
            push_content_range(&mut text, *range, size);
            text.extend_from_slice(b"\r\n\r\n");
            text
        });
        let (before, end) = (before.collect(), [b"\r\n--", boundary.0.as_slice(), b"--\r\n"].concat());
        Self { boundary, ranges, before, end }
    }

    /// Writes the media type.
    pub(crate) fn push_content_type(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"multipart/byteranges; boundary=");
        out.extend_from_slice(&self.boundary.0);
    }

    /// Bytes of the body.
    pub(crate) fn content_length(&self) -> u64 {
        let texts: usize = self.before.iter().map(Vec::len).sum();
        (texts + self.end.len()) as u64 + self.ranges.iter().map(|range| range.length()).sum::<u64>()
    }

    /// Writes the body of a file that is in memory.
    pub(crate) fn write(&self, out: &mut Vec<u8>, file: &[u8]) {
        for (range, before) in self.ranges.iter().zip(&self.before) {
            out.extend_from_slice(before);
            out.extend_from_slice(&file[range.first as usize..=range.last as usize]);
        }
        out.extend_from_slice(&self.end);
    }

    /// The body of a file that the kernel sends.
    pub(crate) fn into_parts(self, span: impl Fn(ByteRange) -> FileSpan) -> Parts {
        Parts::new(self.into_texts().map(|(text, range)| (text, range.map(&span))).collect())
    }

    /// The body of an object that is read piece by piece.
    pub(crate) fn into_reader(self, object: Arc<dyn Fragments>) -> Box<dyn Reader> {
        Box::new(PartsReader { object, parts: self.into_texts().collect(), reader: None, left: 0 })
    }

    /// The texts, and the range behind each of them.
    fn into_texts(self) -> impl Iterator<Item = (Vec<u8>, Option<ByteRange>)> {
        let ranges = self.ranges.iter().map(|&range| Some(range)).chain([None]);
        self.before.into_iter().chain([self.end]).zip(ranges)
    }
}

/// A reader of a body of several parts. A part is begun when the client has come to it.
struct PartsReader {
    object: Arc<dyn Fragments>,
    parts: VecDeque<(Vec<u8>, Option<ByteRange>)>,
    /// The reader of the present range.
    reader: Option<Box<dyn Reader>>,
    /// Bytes of it to come.
    left: u64,
}

impl Reader for PartsReader {
    fn next(&mut self, wake: Wake) -> BodyPiece {
        if let Some(reader) = self.reader.as_mut().filter(|_| self.left > 0) {
            let piece = reader.next(wake);
            match (piece.bytes(), &piece) {
                (_, BodyPiece::End) => return BodyPiece::Failed("a range has fewer bytes than it had".into()),
                (bytes, _) if bytes > self.left => {
                    return BodyPiece::Failed("a range has more bytes than it had".into());
                }
                (bytes, _) => self.left -= bytes,
            }
            return piece;
        }
        let Some((text, range)) = self.parts.pop_front() else { return BodyPiece::End };
        self.left = range.map_or(0, |range| range.length());
        self.reader = range.map(|range| Arc::clone(&self.object).reader(range.first..range.last + 1));
        BodyPiece::Bytes(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::content::relay::MemoryBody;

    #[test]
    fn the_text_of_a_body() {
        let boundary = Boundary(b"B".to_vec());
        let ranges = [ByteRange { first: 2, last: 3 }, ByteRange { first: 0, last: 0 }];
        let multipart = Multipart::new(boundary, &ranges, "text/plain", 5);
        let mut body = Vec::new();
        multipart.write(&mut body, b"abcde");
        let expected = "--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 2-3/5\r\n\r\ncd\
            \r\n--B\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-0/5\r\n\r\na\r\n--B--\r\n";
        assert_eq!(String::from_utf8_lossy(&body), expected);
        assert_eq!(multipart.content_length(), expected.len() as u64);
    }

    #[test]
    fn a_body_that_is_read_has_the_same_text() {
        let ranges = [ByteRange { first: 99_990, last: 170_009 }, ByteRange { first: 5, last: 5 }];
        let object: Vec<u8> = (0..200_000u32).map(|at| at as u8).collect();
        let multipart = || Multipart::new(Boundary(b"B".to_vec()), &ranges, "text/plain", 200_000);
        let read = |object: Vec<u8>| {
            let mut reader = multipart().into_reader(Arc::new(MemoryBody(object.into())));
            let mut body = Vec::new();
            loop {
                match reader.next(Box::new(|| {})) {
                    BodyPiece::Bytes(bytes) => body.extend_from_slice(&bytes),
                    BodyPiece::End => return Ok(body),
                    _ => return Err(()),
                }
            }
        };
        let mut expected = Vec::new();
        multipart().write(&mut expected, &object);
        assert!(read(object) == Ok(expected));
    }

    #[test]
    fn a_range_that_is_shorter_than_it_was_fails() {
        struct Short;
        impl Fragments for Short {
            fn reader(self: Arc<Self>, _: std::ops::Range<u64>) -> Box<dyn Reader> {
                Arc::new(MemoryBody("abc".into())).reader(0..3)
            }
        }
        let check = |last: u64, is_whole: bool| {
            let ranges = [ByteRange { first: 0, last }, ByteRange { first: 0, last: 2 }];
            let multipart = Multipart::new(Boundary(b"B".to_vec()), &ranges, "text/plain", 9);
            let mut reader = multipart.into_reader(Arc::new(Short));
            let mut pieces = std::iter::repeat_with(|| reader.next(Box::new(|| {})));
            let last = pieces.find(|piece| !matches!(piece, BodyPiece::Bytes(_)));
            assert_eq!(matches!(last, Some(BodyPiece::End)), is_whole, "{}", ranges[0].last);
        };
        check(1, false);
        check(2, true);
        check(3, false);
    }

    #[test]
    fn boundaries_are_new_each_time_and_of_one_length() {
        let mut boundaries = [Boundaries::new(), Boundaries::new()];
        let texts: Vec<Vec<u8>> = (0..100).map(|index| boundaries[index % 2].next().0).collect();
        for (index, text) in texts.iter().enumerate() {
            assert_eq!(text.len(), 32);
            assert!(!texts[..index].contains(text));
        }
    }
}
