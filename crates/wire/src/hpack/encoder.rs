//! Encoding header blocks (RFC 7541, 6).

use super::integer;
use super::table::{DynamicTable, STATIC};
use super::{Indexing, huffman};

/// Encodes the header blocks of one direction of a connection.
///
/// A field is looked for in both tables from the newest entry on: for a load generator, whose
/// requests repeat the same few fields, that is the first or second comparison.
#[derive(Debug)]
pub struct Encoder {
    table: DynamicTable,
    /// The size that was chosen last and is not yet announced.
    announce: Option<usize>,
}

impl Encoder {
    /// An encoder whose dynamic table has this size: at most the 4,096 bytes that every decoder
    /// has at first (RFC 9113, 6.5.2).
    #[must_use]
    pub fn new(size: usize) -> Self {
        let size = size.min(SIZE_INITIAL);
        Self { table: DynamicTable::new(size), announce: (size != SIZE_INITIAL).then_some(size) }
    }

    /// Obeys the peer's setting: the table becomes no larger than this, nor than it was at first.
    pub fn limit(&mut self, size_max: usize) {
        if size_max < self.table.size_max() {
            self.table.resize(size_max);
            self.announce = Some(size_max);
        }
    }

    /// A number that changes when blocks that were made before no longer hold.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.table.inserted() << 1 | u64::from(self.announce.is_some())
    }

    /// Appends what has to stand at the beginning of a block: a change of the table's size.
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(size) = self.announce.take() {
            integer::write(0x20, 5, size as u32, out);
        }
    }

    /// Appends a field. Its name is in lower case.
    pub fn encode(&mut self, name: &[u8], value: &[u8], indexing: Indexing, out: &mut Vec<u8>) {
        debug_assert!(!name.iter().any(u8::is_ascii_uppercase), "names are in lower case (RFC 9113, 8.2)");
        let (index, is_whole) = self.find(name, value);
        if is_whole && indexing != Indexing::Never {
            integer::write(0x80, 7, index, out);
            return;
        }
        match indexing {
            Indexing::Yes => {
                literal(0x40, 6, index, name, value, out);
                self.table.insert(name, value);
            }
            Indexing::No => literal(0x00, 4, index, name, value, out),
            Indexing::Never => literal(0x10, 4, index, name, value, out),
        }
    }

    /// The number of an entry with this name, or 0, and whether it has this value.
    fn find(&self, name: &[u8], value: &[u8]) -> (u32, bool) {
        let mut by_name = 0;
        for (place, entry) in self.table.entries().enumerate() {
            if entry.0 == name {
                let index = (STATIC.len() + place + 1) as u32;
                if entry.1 == value {
                    return (index, true);
                }
                if by_name == 0 {
                    by_name = index;
                }
            }
        }
        let (index, is_whole) = find_static(name, value);
        if is_whole || by_name == 0 { (index, is_whole) } else { (by_name, false) }
    }
}

/// The size of every dynamic table at first.
pub const SIZE_INITIAL: usize = 4096;

/// The number of an entry of the static table with this name, or 0, and whether it has this value.
fn find_static(name: &[u8], value: &[u8]) -> (u32, bool) {
    let mut by_name = 0;
    for (number, entry) in (1..).zip(&STATIC) {
        if entry.0.as_bytes() == name {
            if entry.1.as_bytes() == value {
                return (number, true);
            }
            if by_name == 0 {
                by_name = number;
            }
        }
    }
    (by_name, false)
}

/// Appends a field that refers to the static table alone, and changes no table: the bytes are the
/// same on every connection, so that they can be made once.
pub fn encode_stateless(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match find_static(name, value) {
        (index, true) => integer::write(0x80, 7, index, out),
        (index, false) => literal(0x00, 4, index, name, value, out),
    }
}

/// Appends `:path` as [`encode_stateless`] does.
pub fn encode_path(path: &[u8], out: &mut Vec<u8>) {
    /// Its places in the static table: with `/`, and with `/index.html`.
    const ROOT: u32 = 4;
    const INDEX: u32 = 5;
    match path {
        b"/" => integer::write(0x80, 7, ROOT, out),
        b"/index.html" => integer::write(0x80, 7, INDEX, out),
        _ => literal(0x00, 4, ROOT, b":path", path, out),
    }
}

/// Appends a field as [`encode_stateless`] does, with its value as it is, so that another of the
/// same length can replace it. Returns where the value begins.
///
/// # Panics
/// The static table has no field of this name.
pub fn encode_replaceable(name: &[u8], value: &[u8], out: &mut Vec<u8>) -> usize {
    let (index, _) = find_static(name, &[]);
    assert!(index > 0, "the name is in the static table");
    integer::write(0x00, 4, index, out);
    integer::write(0, 7, value.len() as u32, out);
    out.extend_from_slice(value);
    out.len() - value.len()
}

/// Appends a literal field: a reference to the name or the name itself, and the value.
fn literal(pattern: u8, prefix: u32, index: u32, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    integer::write(pattern, prefix, index, out);
    if index == 0 {
        write_string(name, out);
    }
    write_string(value, out);
}

/// Appends a string, as a Huffman code if that is shorter.
fn write_string(text: &[u8], out: &mut Vec<u8>) {
    let encoded = huffman::encoded_len(text);
    if encoded < text.len() {
        integer::write(0x80, 7, encoded as u32, out);
        huffman::encode(text, out);
    } else {
        integer::write(0, 7, text.len() as u32, out);
        out.extend_from_slice(text);
    }
}
