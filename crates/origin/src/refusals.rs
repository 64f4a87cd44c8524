//! Answers that origins for reading give themselves, without asking anybody.

use bytes::Bytes;

use crate::body::Body;
use crate::response::{Answer, Note};

fn answer(status: u16, fields: &[(&str, &[u8])], note: Option<Note>) -> Answer {
    let fields = fields.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec())).collect();
    Answer { status, fields, length: Some(0), body: Body::of_bytes(Bytes::new()), version: None, address: None, note }
}

/// Only GET and HEAD are there.
pub(crate) fn read_only() -> Answer {
    answer(405, &[("allow", b"GET, HEAD"), ("content-length", b"0")], None)
}

/// A folder is no object.
pub(crate) fn folder() -> Answer {
    answer(404, &[("content-length", b"0")], Some(Note::Folder))
}

/// A folder, whose path lacks the slash at its end.
pub(crate) fn folder_at(location: &[u8]) -> Answer {
    answer(301, &[("location", location), ("content-length", b"0")], Some(Note::Folder))
}

/// There is nothing, or nothing that may be read.
pub(crate) fn status(status: u16) -> Answer {
    answer(status, &[("content-length", b"0")], None)
}
