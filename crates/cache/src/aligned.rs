//! A buffer in memory that direct writes accept.

use std::ops::{Deref, DerefMut};

use crate::bytes::BLOCK_BYTES;

/// Bytes that begin at a multiple of [`BLOCK_BYTES`] in memory.
#[derive(Default)]
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    /// Makes it so long. The bytes are whatever they are.
    pub(crate) fn resize(&mut self, length: usize) {
        self.bytes.resize(self.bytes.len().max(length + BLOCK_BYTES as usize), 0);
        let address = self.bytes.as_ptr().addr();
        self.start = address.next_multiple_of(BLOCK_BYTES as usize) - address;
        self.length = length;
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}
