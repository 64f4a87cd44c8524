//! The memory that all transports of a loop share.

use std::rc::Rc;

use thalweg_reactor::BufferPool;

/// The plain bytes of a whole record (RFC 8446, 5.1).
pub(super) const RECORD_BYTES: usize = 16 << 10;

/// The most that is encrypted at once for a client that is not known to be fast.
pub(super) const PART_BYTES: usize = 2 * RECORD_BYTES;

/// Bytes of TLS's own that leave with a part, and what protection adds to it.
const EXTRA_BYTES: usize = 8 << 10;

/// Buffers for parts that are kept.
const PARTS: usize = 64;

/// Working memory for TLS, whose content is lost from one call to the next.
pub(crate) struct TlsMemory {
    /// Buffers for parts: a slow client ties up no larger one.
    pub(super) parts: BufferPool,
    /// Records that are decrypted.
    pub(crate) records: Vec<u8>,
    /// A part of a file that is encrypted.
    pub(crate) file: Vec<u8>,
    /// The plain bytes of one call.
    pub(crate) plain: Vec<u8>,
}

impl Default for TlsMemory {
    fn default() -> Self {
        Self {
            parts: BufferPool::new(PARTS, PART_BYTES + EXTRA_BYTES),
            records: Vec::new(),
            file: Vec::new(),
            plain: Vec::new(),
        }
    }
}

/// The memory of a loop, borrowed for one call.
pub(crate) struct Memory<'m> {
    /// Buffers that are sent.
    pub(crate) buffers: &'m mut BufferPool,
    pub(crate) tls: &'m mut TlsMemory,
}

impl Memory<'_> {
    /// The same memory, for a call within the call.
    pub(crate) fn again(&mut self) -> Memory<'_> {
        Memory { buffers: self.buffers, tls: self.tls }
    }

    /// An empty buffer, for so many plain bytes.
    pub(super) fn take(&mut self, bytes: usize) -> Rc<Vec<u8>> {
        if bytes > PART_BYTES { self.buffers.take() } else { self.tls.parts.take() }
    }

    /// Takes a buffer back.
    pub(super) fn put(&mut self, buffer: Rc<Vec<u8>>) {
        if buffer.capacity() > PART_BYTES + EXTRA_BYTES { self.buffers.put(buffer) } else { self.tls.parts.put(buffer) }
    }
}
