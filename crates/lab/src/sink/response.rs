//! The sink's response, in the forms in which it is sent.

use thalweg_wire::Version;
use thalweg_wire::encode::HeadWriter;
use thalweg_wire::hpack::encode_stateless;

/// As many fields, and about as many bytes of them, as common servers send.
const FIELDS: [(&str, &[u8]); 6] = [
    ("Server", b"thalweg-sink"),
    ("Date", b"Thu, 01 Jan 1970 00:00:00 GMT"),
    ("Content-Type", b"application/octet-stream"),
    ("Last-Modified", b"Thu, 01 Jan 1970 00:00:00 GMT"),
    ("ETag", b"\"0000000000-000\""),
    ("Accept-Ranges", b"bytes"),
];

/// The head of the response in HTTP/1.
pub(super) fn head(content_bytes: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut head = HeadWriter::response(&mut bytes, Version::Http11, 200).expect("200 is a status");
    for (name, value) in FIELDS {
        head.field(name, value).expect("a valid field");
    }
    head.field_number("Content-Length", content_bytes as u64).expect("a valid field");
    head.end();
    bytes
}

/// The header block of the response in HTTP/2, in a form that no table changes.
pub(super) fn block(content_bytes: usize) -> Vec<u8> {
    let mut block = Vec::new();
    encode_stateless(b":status", b"200", &mut block);
    for (name, value) in FIELDS {
        encode_stateless(name.to_ascii_lowercase().as_bytes(), value, &mut block);
    }
    encode_stateless(b"content-length", content_bytes.to_string().as_bytes(), &mut block);
    block
}
