//! Bodies in memory, in pieces as they came: nothing is copied to join them.

use bytes::Bytes;
use std::sync::Arc;

/// Bytes in memory, in one piece or several, none of which is empty.
#[derive(Debug, Clone, Default)]
pub struct Pieces {
    pieces: Arc<[Bytes]>,
    length: usize,
}

impl Pieces {
    /// The number of bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The pieces, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Bytes> {
        self.pieces.iter()
    }

    /// The bytes from this position to the end of the piece that has it; none behind the end.
    pub fn at(&self, position: usize) -> Bytes {
        let mut start = 0;
        for piece in self.iter() {
            if position < start + piece.len() {
                return piece.slice(position - start..);
            }
            start += piece.len();
        }
        Bytes::new()
    }

    /// All bytes in one piece, copied if they are in several.
    pub fn joined(&self) -> Bytes {
        match &*self.pieces {
            [] => Bytes::new(),
            [piece] => piece.clone(),
            pieces => pieces.concat().into(),
        }
    }
}

impl From<Vec<Bytes>> for Pieces {
    fn from(mut pieces: Vec<Bytes>) -> Self {
        pieces.retain(|piece| !piece.is_empty());
        let length = pieces.iter().map(Bytes::len).sum();
        Self { pieces: pieces.into(), length }
    }
}

impl From<Bytes> for Pieces {
    fn from(bytes: Bytes) -> Self {
        vec![bytes].into()
    }
}

impl From<&[u8]> for Pieces {
    fn from(bytes: &[u8]) -> Self {
        Bytes::copy_from_slice(bytes).into()
    }
}

impl From<&Vec<u8>> for Pieces {
    fn from(bytes: &Vec<u8>) -> Self {
        bytes.as_slice().into()
    }
}

impl<const N: usize> From<&[u8; N]> for Pieces {
    fn from(bytes: &[u8; N]) -> Self {
        bytes.as_slice().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_one_body() {
        let pieces = Pieces::from(vec![Bytes::from("ab"), Bytes::new(), Bytes::from("cde")]);
        assert_eq!((pieces.len(), pieces.iter().count(), pieces.joined()), (5, 2, Bytes::from("abcde")));
        let rests: Vec<_> = (0..6).map(|position| pieces.at(position)).collect();
        assert_eq!(rests, ["ab", "b", "cde", "de", "e", ""]);
        assert!(Pieces::from(b"").is_empty() && Pieces::default().joined().is_empty());
    }
}
