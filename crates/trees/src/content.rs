//! The content of a file: a stream of random bytes of its own.
//!
//! Nothing compresses it, and no two files share a block of it.

use crate::draw::Draw;
use crate::file::TreeFile;
use crate::name::TreeName;

/// The bytes of one read or write.
pub(crate) const BLOCK: usize = 64 * 1024;

/// The seed and the name on which contents depend.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Contents {
    /// The tree.
    pub name: TreeName,
    /// The seed.
    pub seed: u64,
}

impl Contents {
    /// The content of a file, as far as it is no hole.
    pub(crate) fn of(self, file: &TreeFile) -> Blocks {
        Blocks { random: Draw::new(self.name, self.seed, &file.path), left: file.random, block: vec![0; BLOCK] }
    }
}

/// The content of a file in blocks.
#[derive(Debug)]
pub(crate) struct Blocks {
    random: Draw,
    left: u64,
    block: Vec<u8>,
}

impl Blocks {
    /// The next block; empty after the last one. Only the last one has less than [`BLOCK`] bytes.
    pub(crate) fn next(&mut self) -> &[u8] {
        let length = self.left.min(BLOCK as u64);
        self.left -= length;
        let block = &mut self.block[..length as usize];
        self.random.fill(block);
        block
    }

    /// Whether all blocks were given out.
    pub(crate) fn is_at_end(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(contents: Contents, file: &TreeFile) -> Vec<u8> {
        let mut blocks = contents.of(file);
        let mut bytes = Vec::new();
        while !blocks.is_at_end() {
            bytes.extend_from_slice(blocks.next());
        }
        bytes
    }

    #[test]
    fn content_depends_on_seed_tree_and_path_and_on_nothing_else() {
        let contents = Contents { name: TreeName::AcmeBig, seed: 1 };
        let file = TreeFile::new("a", 200_001, 1.0, 0);
        let bytes = whole(contents, &file);
        assert_eq!(bytes.len(), 200_001);
        assert_eq!(bytes, whole(contents, &TreeFile { weight: 0.5, class: 3, ..file.clone() }));
        assert_ne!(bytes, whole(Contents { seed: 2, ..contents }, &file));
        assert_ne!(bytes, whole(Contents { name: TreeName::Mirror, ..contents }, &file));
        assert_ne!(bytes, whole(contents, &TreeFile { path: "b".to_owned(), ..file.clone() }));
        // A shorter file begins in the same way.
        assert_eq!(bytes[..100], whole(contents, &TreeFile::new("a", 100, 1.0, 0)));
    }
}
