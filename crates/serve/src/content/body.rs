//! Bodies on their way to a client: a payload is bytes in memory, then a span of a file, then
//! further parts.
//!
//! A session makes payloads of its responses; the connection sends them in this order, as its
//! client, its rates and the disk allow.

use std::rc::Rc;
use std::vec;

use thalweg_sys::{FileSpan, Instant};

/// More bytes in memory than this take the kernel more than one iteration to send, even to a client
/// that reads.
const LONG_BYTES: usize = 128 << 10;

/// All bytes that are sent before the session produces more.
#[derive(Default)]
pub(crate) struct Payload {
    /// Leaves first; `None` if there is nothing to send.
    pub(crate) bytes: Option<Rc<Vec<u8>>>,
    /// The bytes belong to an object, too, and are not a buffer of the pool's.
    pub(crate) is_shared: bool,
    /// Leaves after the bytes.
    pub(crate) file: Option<FileSpan>,
    /// Leave after the span of the file.
    pub(crate) parts: Option<Box<Parts>>,
    /// The number of the mount whose rate the file counts for.
    pub(crate) mount: u16,
}

impl Payload {
    /// Nothing to send.
    pub(crate) const NOTHING: Self = Self { bytes: None, is_shared: false, file: None, parts: None, mount: 0 };

    /// Whether it is more than a kernel takes at once for a client that reads.
    pub(crate) fn is_long(&self) -> bool {
        self.file.is_some() || self.parts.is_some() || self.bytes.as_ref().is_some_and(|bytes| bytes.len() > LONG_BYTES)
    }

    /// Bytes of all of it.
    pub(crate) fn len(&self) -> u64 {
        let bytes = self.bytes.as_ref().map_or(0, |bytes| bytes.len());
        let file_bytes = self.file.as_ref().map_or(0, |span| span.len);
        bytes as u64 + file_bytes + self.parts.as_ref().map_or(0, |parts| parts.bytes())
    }
}

/// The rest of a body of several parts: each time a text and, but for the last, a span of the file
/// behind it.
pub(crate) struct Parts {
    rest: vec::IntoIter<(Vec<u8>, Option<FileSpan>)>,
    /// When the payload began, and its bytes.
    begun: (Instant, u64),
}

impl Parts {
    /// These parts, in this order.
    pub(crate) fn new(parts: Vec<(Vec<u8>, Option<FileSpan>)>) -> Self {
        Self { rest: parts.into_iter(), begun: (Instant::default(), 0) }
    }

    /// Notes that a payload begins with so many bytes before these parts.
    pub(crate) fn begin(&mut self, now: Instant, bytes_before: u64) {
        self.begun = (now, bytes_before + self.bytes());
    }

    /// When the payload began, and its bytes.
    pub(crate) fn begun(&self) -> (Instant, u64) {
        self.begun
    }

    /// The next one, which stays.
    pub(crate) fn peek(&self) -> Option<&(Vec<u8>, Option<FileSpan>)> {
        self.rest.as_slice().first()
    }

    /// Whether a span of the file is left.
    pub(crate) fn has_files(&self) -> bool {
        self.rest.as_slice().iter().any(|(_, file)| file.is_some())
    }

    /// Whether nothing is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.rest.as_slice().is_empty()
    }

    /// Bytes of all that is left.
    pub(crate) fn bytes(&self) -> u64 {
        let span = |file: &Option<FileSpan>| file.as_ref().map_or(0, |span| span.len);
        self.rest.as_slice().iter().map(|(text, file)| text.len() as u64 + span(file)).sum()
    }
}

impl Iterator for Parts {
    type Item = (Vec<u8>, Option<FileSpan>);

    fn next(&mut self) -> Option<Self::Item> {
        self.rest.next()
    }
}
