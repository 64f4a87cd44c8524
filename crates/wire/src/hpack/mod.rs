//! Compression of header fields for HTTP/2 (HPACK, RFC 7541).
//!
//! Owned here: both tables, the Huffman code, decoding into a bounded [`FieldList`], skipping
//! blocks that are too large, and encoding with a dynamic table ([`Encoder`]) or without one
//! ([`encode_stateless`]). Lacking on purpose: which fields a message may have, which is HTTP/2's
//! business.

mod decoder;
mod encoder;
mod huffman;
mod integer;
mod list;
mod skipped;
mod table;
#[cfg(test)]
mod tests;

pub use decoder::{DecodeError, Decoder};
pub use encoder::{Encoder, SIZE_INITIAL, encode_path, encode_replaceable, encode_stateless};
pub use list::{FieldList, ListBounds};
pub(crate) use skipped::SkippedBlock;
pub use table::ENTRY_CHARGE;

/// Whether a field enters the dynamic table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// It does, because it is likely to come again.
    Yes,
    /// It does not.
    No,
    /// It must not on any hop: a secret that an attacker might guess bit by bit from sizes (RFC
    /// 7541, 7.1.3).
    Never,
}
