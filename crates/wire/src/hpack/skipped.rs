//! Header blocks that are too large to be kept.
//!
//! The entries that such a block adds to the table have to be there for the blocks behind it, or
//! the connection would be lost with it. It is read as it comes in, and of it no more is held than
//! a field that can enter the table.

use super::decoder::{DecodeError, Decoder};
use super::integer;
use super::list::{FieldList, ListBounds};

/// A block that is skipped.
#[derive(Debug, Default)]
pub(crate) struct SkippedBlock {
    place: Place,
    /// The beginning of a field whose end has not come.
    tail: Vec<u8>,
}

/// The place in a block.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    /// Before the changes of the table's size.
    #[default]
    Start,
    /// Before a field.
    Field,
    /// In a name that is too long for the table.
    Name { left: usize, is_indexed: bool },
    /// Before the value behind such a name.
    BeforeValue { is_indexed: bool },
    /// In a value of a field that is too long for the table.
    Value { left: usize, is_indexed: bool },
}

/// A string that has so many times the bytes of the table cannot enter it, even if it is encoded:
/// the longest Huffman codes have 30 bits.
const TABLES_MAX: usize = 4;

impl Decoder {
    /// Skips the next bytes of a block.
    ///
    /// # Errors
    /// The block is invalid, and the decoder is of no more use.
    pub(crate) fn skip(&mut self, block: &mut SkippedBlock, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut all = std::mem::take(&mut block.tail);
        all.extend_from_slice(bytes);
        let mut rest = &all[..];
        while !rest.is_empty() {
            match self.step(block.place, rest) {
                Ok((place, behind)) => (block.place, rest) = (place, behind),
                Err(DecodeError::Truncated) => break,
                Err(error) => return Err(error),
            }
        }
        let read = all.len() - rest.len();
        all.drain(..read);
        block.tail = all;
        Ok(())
    }

    /// Ends a block that was skipped.
    ///
    /// # Errors
    /// It ends inside of a field.
    pub(crate) fn end_skipped(block: &SkippedBlock) -> Result<(), DecodeError> {
        let is_whole = matches!(block.place, Place::Field) && block.tail.is_empty();
        if is_whole { Ok(()) } else { Err(DecodeError::Truncated) }
    }

    /// Goes on by one field, or a part of a long one.
    fn step<'b>(&mut self, place: Place, rest: &'b [u8]) -> Result<(Place, &'b [u8]), DecodeError> {
        match place {
            Place::Start => Ok((Place::Field, self.read_sizes(rest)?)),
            Place::Field => self.skip_field(rest),
            Place::Name { left, is_indexed } => {
                let (left, rest) = pass(left, rest);
                let in_name = Place::Name { left, is_indexed };
                Ok((if left > 0 { in_name } else { Place::BeforeValue { is_indexed } }, rest))
            }
            Place::BeforeValue { is_indexed } => {
                let (left, rest) = integer::read(rest, 7)?;
                Ok((self.in_value(left as usize, is_indexed), rest))
            }
            Place::Value { left, is_indexed } => {
                let (left, rest) = pass(left, rest);
                Ok((self.in_value(left, is_indexed), rest))
            }
        }
    }

    fn in_value(&mut self, left: usize, is_indexed: bool) -> Place {
        if left > 0 {
            return Place::Value { left, is_indexed };
        }
        if is_indexed {
            self.table.insert_too_large();
        }
        Place::Field
    }

    fn skip_field<'b>(&mut self, block: &'b [u8]) -> Result<(Place, &'b [u8]), DecodeError> {
        let mut nothing = FieldList::new(ListBounds { charge_max: 0, fields_max: 0 });
        let (prefix, is_indexed) = match block.first() {
            Some(0x80..) => return Ok((Place::Field, self.indexed(block, &mut nothing)?)),
            Some(0x40..0x80) => (6, true),
            Some(0x20..0x40) => return Err(DecodeError::TableSize),
            _ => (4, false),
        };
        match self.literal(block, prefix, is_indexed, &mut nothing) {
            Ok(rest) => Ok((Place::Field, rest)),
            Err(DecodeError::Truncated) => self.begin_long(block, prefix, is_indexed),
            Err(error) => Err(error),
        }
    }

    /// Begins with a field whose end has not come, if one of its strings is too long for the table.
    fn begin_long<'b>(&self, block: &'b [u8], prefix: u32, is_indexed: bool) -> Result<(Place, &'b [u8]), DecodeError> {
        let is_long = |len: usize| len > TABLES_MAX * self.table.size_max();
        let (index, mut rest) = integer::read(block, prefix)?;
        if index == 0 {
            let (len, name) = integer::read(rest, 7)?;
            let left = len as usize;
            match name.get(left..) {
                None if is_long(left) => return Ok((Place::Name { left, is_indexed }, name)),
                None => return Err(DecodeError::Truncated),
                Some(behind) => rest = behind,
            }
        }
        let (len, value) = integer::read(rest, 7)?;
        let left = len as usize;
        if is_long(left) { Ok((Place::Value { left, is_indexed }, value)) } else { Err(DecodeError::Truncated) }
    }
}

/// Passes bytes of a string. How many are left, and the rest of the input.
fn pass(left: usize, rest: &[u8]) -> (usize, &[u8]) {
    let passed = left.min(rest.len());
    (left - passed, &rest[passed..])
}

#[cfg(test)]
mod tests {
    use super::super::{Encoder, Indexing, SIZE_INITIAL, integer};
    use super::*;

    /// A block with names and values of all lengths, of which some enter the table.
    fn large_block(encoder: &mut Encoder) -> Vec<u8> {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        for round in 0..40_usize {
            let (name, value) = (format!("x-{}", round % 7), "v".repeat(round * round * 3 % 3000));
            let indexing = if round % 3 == 0 { Indexing::No } else { Indexing::Yes };
            encoder.encode(name.as_bytes(), value.as_bytes(), indexing, &mut block);
        }
        block
    }

    #[test]
    fn a_block_that_is_skipped_leaves_the_table_as_one_that_is_kept() {
        for piece in [1, 2, 7, 100, usize::MAX] {
            let mut encoder = Encoder::new(SIZE_INITIAL);
            let (mut kept, mut skipping) = (Decoder::new(SIZE_INITIAL), Decoder::new(SIZE_INITIAL));
            for _ in 0..3 {
                let block = large_block(&mut encoder);
                kept.decode(&block, &mut FieldList::default()).unwrap();
                let mut skipped = SkippedBlock::default();
                for part in block.chunks(piece) {
                    skipping.skip(&mut skipped, part).unwrap();
                }
                Decoder::end_skipped(&skipped).unwrap();
                assert!(kept.table.entries().eq(skipping.table.entries()), "pieces of {piece}");
            }
        }
    }

    #[test]
    fn a_long_string_is_not_held_and_empties_the_table() {
        let string = |len: u32| {
            let mut string = Vec::new();
            integer::write(0, 7, len, &mut string);
            [string, vec![b'x'; len as usize]].concat()
        };
        let long = 1 << 20;
        let cases = [
            ("a value", [&[0x40][..], &string(1), &string(long)].concat(), true),
            ("a name", [&[0x40][..], &string(long), &string(1)].concat(), true),
            ("a name, no value", [&[0x40][..], &string(long), &string(0)].concat(), true),
            ("both", [&[0x40][..], &string(long), &string(long)].concat(), true),
            ("a value that is not indexed", [&[0x00][..], &string(1), &string(long)].concat(), false),
        ];
        for (name, field, empties) in cases {
            let mut decoder = Decoder::new(SIZE_INITIAL);
            decoder.table.insert(b"a", b"b");
            let mut skipped = SkippedBlock::default();
            for part in [&field[..], &[0x82]].concat().chunks(1000) {
                decoder.skip(&mut skipped, part).unwrap();
                assert!(skipped.tail.len() <= 8 * SIZE_INITIAL + 1000, "{name}");
            }
            Decoder::end_skipped(&skipped).unwrap();
            assert_eq!(decoder.table.len(), usize::from(!empties), "{name}");
        }
    }

    #[test]
    fn a_skipped_block_is_checked() {
        let skip = |block: &[u8]| {
            let mut skipped = SkippedBlock::default();
            let outcome = Decoder::new(SIZE_INITIAL).skip(&mut skipped, block);
            outcome.and_then(|()| Decoder::end_skipped(&skipped))
        };
        assert_eq!(skip(&[0x82, 0x84]), Ok(()));
        assert_eq!(skip(&[0x20, 0x82]), Ok(()));
        assert_eq!(skip(&[0x82, 0x20]), Err(DecodeError::TableSize));
        assert_eq!(skip(&[0xbe]), Err(DecodeError::NoSuchEntry(62)));
        assert_eq!(skip(&[0x40, 0x03, b'a']), Err(DecodeError::Truncated));
        assert_eq!(skip(&[0x40, 0x81, 0x00, 0x01, b'a']), Err(DecodeError::Huffman));
    }
}
