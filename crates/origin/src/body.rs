//! The body of a response, piece by piece, whatever it comes from. It reports its end to the
//! origin's standing, and has its place among the requests under way until then.

mod file;
mod network;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};

use crate::admission::Permit;
use crate::failure::Failure;
use crate::standing::Standing;

pub(crate) use file::FileBody;
pub(crate) use network::NetworkBody;

/// The body of a response.
pub struct Body {
    source: Source,
    received: u64,
    expected: Option<u64>,
    report: Option<Report>,
    is_over: bool,
}

pub(crate) enum Source {
    Memory(Bytes),
    Network(NetworkBody),
    File(FileBody),
}

/// The account of a body's end.
pub(crate) struct Report {
    pub(crate) standing: Arc<Standing>,
    /// The response is a success of its origin.
    pub(crate) is_success: bool,
    /// Kept until the end.
    pub(crate) _permit: Permit,
}

/// The end of a body before it was complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BodyError {
    /// The bytes that came before.
    pub received: u64,
    /// The bytes that were expected in all, if that is known.
    pub expected: Option<u64>,
    /// The failure.
    pub failure: Failure,
}

impl fmt::Display for BodyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the body ended after {} bytes", self.received)?;
        if let Some(expected) = self.expected {
            write!(f, " of {expected}")?;
        }
        write!(f, ": {}", self.failure)
    }
}

impl std::error::Error for BodyError {}

impl Body {
    pub(crate) fn new(source: Source, expected: Option<u64>, report: Report) -> Self {
        Self { source, received: 0, expected, report: Some(report), is_over: false }
    }

    /// Bytes in memory that are no response of their own: nothing is counted.
    pub(crate) fn of_bytes(bytes: Bytes) -> Self {
        let expected = Some(bytes.len() as u64);
        Self { source: Source::Memory(bytes), received: 0, expected, report: None, is_over: false }
    }

    /// The next piece, in order; `None` at the end, which is certain then. A future that is dropped
    /// loses nothing.
    ///
    /// # Errors
    /// The body ends here, early; the next call gives `None`. To go on, ask for the rest by Range
    /// and If-Range with a strong validator.
    pub async fn next(&mut self) -> Option<Result<Bytes, BodyError>> {
        if self.is_over {
            return None;
        }
        let next = match &mut self.source {
            Source::Memory(bytes) => Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty()).map(Ok),
            Source::Network(body) => body.next().await,
            Source::File(body) => body.next().await,
        };
        match next {
            Some(Ok(bytes)) => {
                self.received += bytes.len() as u64;
                if let Some(report) = &self.report {
                    report.standing.body_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                }
                Some(Ok(bytes))
            }
            Some(Err(failure)) => {
                if let Some(report) = self.end() {
                    report.standing.failed(&failure);
                }
                Some(Err(BodyError { received: self.received, expected: self.expected, failure }))
            }
            None => {
                if let Some(report) = self.end() {
                    report.standing.completed(report.is_success);
                }
                None
            }
        }
    }

    /// The bytes that came so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The whole body, if it is no longer than this; `None` if it is.
    ///
    /// # Errors
    /// The body ended early.
    pub async fn collect(mut self, bytes_max: usize) -> Result<Option<Bytes>, BodyError> {
        self.read_all(bytes_max).await
    }

    pub(crate) async fn read_all(&mut self, bytes_max: usize) -> Result<Option<Bytes>, BodyError> {
        if self.expected.is_some_and(|expected| expected > bytes_max as u64) {
            return Ok(None);
        }
        let mut all = BytesMut::new();
        while let Some(piece) = self.next().await {
            let piece = piece?;
            if all.len() + piece.len() > bytes_max {
                return Ok(None);
            }
            all.extend_from_slice(&piece);
        }
        Ok(Some(all.freeze()))
    }

    /// Releases all that the body holds.
    fn end(&mut self) -> Option<Report> {
        self.is_over = true;
        self.source = Source::Memory(Bytes::new());
        self.report.take()
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // A reader that knows the length need not ask for the end.
        let is_whole = match &self.source {
            Source::Memory(bytes) => bytes.is_empty(),
            Source::Network(body) => body.is_complete(),
            Source::File(body) => body.is_complete(),
        };
        if let Some(report) = self.report.take_if(|_| is_whole) {
            report.standing.completed(report.is_success);
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body")
            .field("received", &self.received)
            .field("expected", &self.expected)
            .finish_non_exhaustive()
    }
}
