//! Inputs as lines of text.

/// The first line of an input, without its LF, and what is behind it.
pub(crate) fn split_line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &[]),
    }
}
