//! How much of a message a reader accepts before it refuses. It owns numbers only; the readers
//! enforce them.

/// Upper bounds on what a peer can make a reader hold or look at. All are inclusive: a message that
/// reaches a bound exactly is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of a head, from its first byte to the end of the empty line that closes it.
    pub head_bytes_max: u32,
    /// Bytes of the request line or status line, with its CRLF.
    pub start_line_bytes_max: u32,
    /// Field lines in a head, and again in a trailer section; more than
    /// [`FIELDS_MAX`](crate::FIELDS_MAX) has no effect.
    pub fields_max: u32,
    /// Bytes of one chunk line: size, extensions and CRLF. A size needs at most 16 digits, so this
    /// bounds extensions.
    pub chunk_line_bytes_max: u32,
    /// Bytes of all chunk extensions of one message together: they are discarded, so a sender who
    /// pads every small chunk with a long extension would otherwise have far more read than any
    /// bound on bodies counts.
    pub chunk_extension_bytes_max: u32,
    /// Bytes of a trailer section with the empty line that closes it.
    pub trailer_bytes_max: u32,
    /// Empty lines tolerated before a request line (RFC 9112, 2.2 requires at least one).
    pub empty_lines_max: u16,
    /// Informational (1xx) responses before the final one.
    pub informational_max: u16,
    /// Whether a reply is read as curl reads it where this crate would refuse it: lines that end in
    /// LF, padded chunk sizes, several lengths, odd fields.
    pub is_lenient: bool,
}

impl Bounds {
    /// The bounds for reading requests: browsers send less than 4 KiB, long cookies and tokens come
    /// to some 8 KiB.
    #[must_use]
    pub const fn requests() -> Self {
        Self {
            head_bytes_max: 16 << 10,
            start_line_bytes_max: 8 << 10,
            fields_max: 100,
            chunk_line_bytes_max: 1 << 10,
            chunk_extension_bytes_max: 8 << 10,
            trailer_bytes_max: 8 << 10,
            empty_lines_max: 4,
            informational_max: 8,
            is_lenient: false,
        }
    }

    /// The bounds for reading replies, whose heads may carry many cookies and long policies.
    #[must_use]
    pub const fn responses() -> Self {
        Self { head_bytes_max: 64 << 10, ..Self::requests() }
    }

    /// The bounds for reading replies as curl does, whose bound on heads is the same. What is
    /// dropped while it is read may be longer still.
    #[must_use]
    pub const fn lenient_responses() -> Self {
        Self {
            head_bytes_max: 300 << 10,
            start_line_bytes_max: 100 << 10,
            chunk_line_bytes_max: 64 << 10,
            chunk_extension_bytes_max: 1 << 20,
            trailer_bytes_max: 300 << 10,
            is_lenient: true,
            ..Self::requests()
        }
    }
}
