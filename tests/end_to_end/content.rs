//! The content of large files.

/// Bytes per block, which is far smaller than any buffer on the way.
const BLOCK_BYTES: usize = 4096;

/// Content in which bytes at a wrong place show: the words of a block differ, and each block begins
/// with its number. The tests are not optimised; word by word, 40 MB would take seconds.
pub(crate) fn numbered(bytes: usize) -> Vec<u8> {
    let words = (0..BLOCK_BYTES as u32 / 4).map(|number| number.wrapping_mul(0x9e37_79b9));
    let block: Vec<u8> = words.flat_map(u32::to_be_bytes).collect();
    let mut content = Vec::with_capacity(bytes.next_multiple_of(BLOCK_BYTES));
    for number in 0..bytes.div_ceil(BLOCK_BYTES) as u32 {
        content.extend_from_slice(&number.to_be_bytes());
        content.extend_from_slice(&block[4..]);
    }
    content.truncate(bytes);
    content
}
