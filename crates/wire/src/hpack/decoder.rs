//! Decoding header blocks (RFC 7541, 6).

use super::huffman;
use super::integer::{self, IntegerFault};
use super::list::FieldList;
use super::table::{DynamicTable, STATIC};

/// Decodes the header blocks of one direction of a connection, in the order in which they came.
#[derive(Debug)]
pub struct Decoder {
    pub(super) table: DynamicTable,
    /// The size that the encoder may choose at most: our setting, once it is acknowledged.
    size_max: usize,
    /// The encoder has to begin its next block with a size, because ours was lowered below its own
    /// (RFC 7541, 4.2).
    owes_size: bool,
    /// Strings of the field that is being decoded.
    scratch: Vec<u8>,
}

/// Why a header block cannot be decoded. The tables of both sides then differ, and the connection
/// is lost (COMPRESSION_ERROR).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It ends in the middle of a field.
    #[error("header block ends inside a field")]
    Truncated,
    /// A number or a length is larger than any bound.
    #[error("header block with a number beyond all bounds")]
    NumberTooLarge,
    /// A field refers to an entry that is in neither table.
    #[error("header block refers to entry {0}, which does not exist")]
    NoSuchEntry(u32),
    /// A string is no Huffman code.
    #[error("header block with an invalid Huffman code")]
    Huffman,
    /// A change of the table's size is larger than the setting, missing, or not at the beginning.
    #[error("header block with an invalid change of the table's size")]
    TableSize,
}

impl From<IntegerFault> for DecodeError {
    fn from(fault: IntegerFault) -> Self {
        match fault {
            IntegerFault::Truncated => Self::Truncated,
            IntegerFault::TooLarge => Self::NumberTooLarge,
        }
    }
}

/// Changes of the table's size at the beginning of a block; more than two tell nothing.
const SIZE_CHANGES_MAX: u32 = 2;

impl Decoder {
    /// A decoder whose dynamic table has at most so many bytes.
    #[must_use]
    pub fn new(size_max: usize) -> Self {
        Self { table: DynamicTable::new(size_max), size_max, owes_size: false, scratch: Vec::new() }
    }

    /// Sets the most bytes of the dynamic table, once the peer has acknowledged the setting.
    pub fn set_size_max(&mut self, size_max: usize) {
        self.owes_size = size_max < self.table.size_max();
        self.size_max = size_max;
    }

    /// Decodes a whole block into the list, which is cleared first.
    ///
    /// # Errors
    /// The block is invalid, and the decoder is of no more use.
    pub fn decode(&mut self, mut block: &[u8], list: &mut FieldList) -> Result<(), DecodeError> {
        list.clear();
        block = self.read_sizes(block)?;
        while let [first, ..] = block {
            block = match first {
                0x80.. => self.indexed(block, list)?,
                0x40..0x80 => self.literal(block, 6, true, list)?,
                0x20..0x40 => return Err(DecodeError::TableSize),
                // Without indexing, and never indexed: the same to a recipient.
                _ => self.literal(block, 4, false, list)?,
            };
        }
        Ok(())
    }

    /// Changes of the table's size at the beginning of a block.
    pub(super) fn read_sizes<'b>(&mut self, mut block: &'b [u8]) -> Result<&'b [u8], DecodeError> {
        let mut changes = 0;
        while let [0x20..0x40, ..] = block {
            let (size, rest) = integer::read(block, 5)?;
            changes += 1;
            if size as usize > self.size_max || changes > SIZE_CHANGES_MAX {
                return Err(DecodeError::TableSize);
            }
            self.table.resize(size as usize);
            self.owes_size = false;
            block = rest;
        }
        if self.owes_size { Err(DecodeError::TableSize) } else { Ok(block) }
    }

    #[inline]
    pub(super) fn indexed<'b>(&mut self, block: &'b [u8], list: &mut FieldList) -> Result<&'b [u8], DecodeError> {
        let (index, rest) = integer::read(block, 7)?;
        let (name, value) = entry(&self.table, index)?;
        list.push(name, value);
        Ok(rest)
    }

    #[inline]
    pub(super) fn literal<'b>(
        &mut self,
        block: &'b [u8],
        prefix: u32,
        is_indexed: bool,
        list: &mut FieldList,
    ) -> Result<&'b [u8], DecodeError> {
        let (index, mut rest) = integer::read(block, prefix)?;
        self.scratch.clear();
        if index == 0 {
            rest = read_string(rest, &mut self.scratch)?;
        } else {
            let (name, _) = entry(&self.table, index)?;
            self.scratch.extend_from_slice(name);
        }
        let name_len = self.scratch.len();
        rest = read_string(rest, &mut self.scratch)?;
        let (name, value) = self.scratch.split_at(name_len);
        list.push(name, value);
        if is_indexed {
            self.table.insert(name, value);
        }
        Ok(rest)
    }
}

/// The entry of that number, in the static table or behind it in the dynamic one.
#[inline]
fn entry(table: &DynamicTable, index: u32) -> Result<(&[u8], &[u8]), DecodeError> {
    let missing = DecodeError::NoSuchEntry(index);
    let place = (index as usize).checked_sub(1).ok_or(missing)?;
    match STATIC.get(place) {
        Some((name, value)) => Ok((name.as_bytes(), value.as_bytes())),
        None => table.entry(place - STATIC.len()).ok_or(missing),
    }
}

/// Reads a string, encoded or not, and appends it (RFC 7541, 5.2).
#[inline]
fn read_string<'b>(input: &'b [u8], out: &mut Vec<u8>) -> Result<&'b [u8], DecodeError> {
    let is_huffman = input.first().is_some_and(|first| first & 0x80 != 0);
    let (len, rest) = integer::read(input, 7)?;
    let (text, rest) = rest.split_at_checked(len as usize).ok_or(DecodeError::Truncated)?;
    if is_huffman {
        huffman::decode(text, out).map_err(|_| DecodeError::Huffman)?;
    } else {
        out.extend_from_slice(text);
    }
    Ok(rest)
}
