//! Gathering the frames of a body: heads of frames and the short spans of files between them, in
//! one buffer.
//!
//! A span of 16 KiB is cheaper to read and to send with others than to pass to the kernel by
//! itself, with its head before it; see bench/TRIED.md, "Frames of files". Longer spans, those that
//! are not in the page cache, and those for clients that are not fast leave without a copy, and tie
//! up no buffer.

use std::rc::Rc;

use thalweg_reactor::BufferPool;
use thalweg_sys::{File, FileSpan};

use crate::content::body::Parts;

/// A longer span is passed to the kernel.
const SPAN_BYTES_MAX: u64 = 32 << 10;

/// Frames are gathered up to about this many bytes.
const GATHERED_BYTES_USUAL_MAX: usize = 128 << 10;

/// Bytes that were gathered.
pub(super) struct Gathered {
    buffer: Rc<Vec<u8>>,
    /// Spans in them.
    pub(super) spans: usize,
    /// A file was modified: its bytes may be of two versions, and are not to be sent.
    pub(super) has_changed: bool,
    /// The file of the last span.
    file: Option<Rc<File>>,
}

impl Gathered {
    /// Gathers a text and the span behind it, and then parts as long as they are short and in the
    /// page cache. `None` if the span cannot be gathered.
    pub(super) fn gather(
        pool: &mut BufferPool,
        text: &[u8],
        span: &FileSpan,
        parts: Option<&mut Parts>,
    ) -> Option<Self> {
        if span.len > SPAN_BYTES_MAX {
            return None;
        }
        let mut gathered = Self { buffer: pool.take(), spans: 0, has_changed: false, file: None };
        if !gathered.put(text, Some(span)) {
            pool.put(gathered.buffer);
            return None;
        }
        if let Some(parts) = parts {
            gathered.put_parts(parts);
        }
        gathered.check_file();
        Some(gathered)
    }

    fn put_parts(&mut self, parts: &mut Parts) {
        while self.buffer.len() < GATHERED_BYTES_USUAL_MAX {
            let Some((text, span)) = parts.peek() else { return };
            if span.as_ref().is_some_and(|span| span.len > SPAN_BYTES_MAX) || !self.put(text, span.as_ref()) {
                return;
            }
            parts.next();
        }
    }

    /// Looks whether the file of the last spans is still the one that was opened.
    fn check_file(&mut self) {
        self.has_changed |= self.file.take().is_some_and(|file| file.ensure_unchanged().is_err());
    }

    /// The bytes.
    pub(super) fn into_buffer(self) -> Rc<Vec<u8>> {
        self.buffer
    }

    /// Appends a text and a span; nothing if the span cannot be read at once.
    fn put(&mut self, text: &[u8], span: Option<&FileSpan>) -> bool {
        // A buffer of the pool's has no other owner, so that nothing is copied here.
        let out = Rc::make_mut(&mut self.buffer);
        let start = out.len();
        out.extend_from_slice(text);
        let Some(span) = span else { return true };
        let body = out.len();
        out.resize(body + span.len as usize, 0);
        if !span.file.read_at(&mut out[body..], span.offset).is_ok_and(|read| read as u64 == span.len) {
            out.truncate(start);
            return false;
        }
        self.spans += 1;
        if !self.file.as_ref().is_some_and(|file| Rc::ptr_eq(file, &span.file)) {
            self.check_file();
            self.file = Some(Rc::clone(&span.file));
        }
        true
    }
}
