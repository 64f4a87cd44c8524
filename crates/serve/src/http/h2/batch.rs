//! Batches: the frames that a connection sends at once, and spans of files behind the heads of
//! their DATA frames.

use std::mem;
use std::rc::Rc;

use thalweg_reactor::BufferPool;
use thalweg_sys::FileSpan;

use crate::content::body::{Parts, Payload};

/// Frames are gathered up to about this many bytes, those of files included: what a client changes
/// in windows, priorities and streams takes effect behind them.
const BYTES_USUAL_MAX: u64 = 256 << 10;

/// As many of them are gathered in memory.
const MEMORY_BYTES_USUAL_MAX: u64 = 64 << 10;

/// Frames that are sent next.
pub(super) struct Batch {
    bytes: Rc<Vec<u8>>,
    file: Option<FileSpan>,
    /// Further frames and spans, behind the first span.
    parts: Vec<(Vec<u8>, Option<FileSpan>)>,
    /// Bytes of spans, and of frames behind the first of them.
    behind: u64,
    /// The number of the mount whose bodies are in it, if there are any.
    pub(super) mount: Option<u16>,
}

impl Batch {
    /// A batch without frames.
    pub(super) fn new(pool: &mut BufferPool) -> Self {
        Self { bytes: pool.take(), file: None, parts: Vec::new(), behind: 0, mount: None }
    }

    /// The buffer to append frames to.
    #[inline]
    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        if self.file.is_none() {
            // A buffer of the pool's has no other owner, so that nothing is copied here.
            return Rc::make_mut(&mut self.bytes);
        }
        if self.parts.last().is_none_or(|(_, file)| file.is_some()) {
            self.parts.push((Vec::new(), None));
        }
        let (text, _) = self.parts.last_mut().expect("a part without a file is the last");
        text
    }

    /// Appends a span of a file.
    pub(super) fn push_file(&mut self, span: FileSpan) {
        self.behind += span.len;
        if self.file.is_none() {
            self.file = Some(span);
            return;
        }
        match self.parts.last_mut() {
            Some((_, file @ None)) => *file = Some(span),
            _ => self.parts.push((Vec::new(), Some(span))),
        }
    }

    /// Bytes of all frames.
    pub(super) fn len(&self) -> u64 {
        let texts: usize = self.parts.iter().map(|(text, _)| text.len()).sum();
        self.bytes.len() as u64 + texts as u64 + self.behind
    }

    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.file.is_none()
    }

    /// Whether it should be sent before more is put in.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.len() as u64 >= MEMORY_BYTES_USUAL_MAX || (self.file.is_some() && self.len() >= BYTES_USUAL_MAX)
    }

    /// Gives its buffer back: nothing is sent.
    pub(super) fn discard(self, pool: &mut BufferPool) {
        pool.put(self.bytes);
    }

    /// All frames, to be sent.
    pub(super) fn into_payload(mut self) -> Payload {
        let parts = mem::take(&mut self.parts);
        Payload {
            bytes: Some(self.bytes),
            is_shared: false,
            file: self.file,
            parts: (!parts.is_empty()).then(|| Box::new(Parts::new(parts))),
            mount: self.mount.unwrap_or(0),
        }
    }
}
