//! The memory that all transports of a loop share.

use thalweg_reactor::BufferPool;

/// Working memory for TLS, whose content is lost from one call to the next.
#[derive(Default)]
pub(crate) struct TlsMemory {
    /// Records that are decrypted.
    pub(crate) records: Vec<u8>,
    /// A part of a file that is encrypted.
    pub(crate) file: Vec<u8>,
    /// The plain bytes of one call.
    pub(crate) plain: Vec<u8>,
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
}
