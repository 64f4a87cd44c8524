//! The basis of the readers of input files: errors that name their place, lines with their numbers,
//! and bounds.
//!
//! Opening and reading files is the caller's; a file's name is only passed through into messages.

use std::fmt::Write as _;
use std::io::{self, BufRead, Read as _};

/// Longest line of any input file, in bytes without its end; as long as what httperf reads at once,
/// twice over.
pub const LINE_BYTES_MAX: usize = 1 << 20;

/// Most entries of a list or check file, and most calls of a session file.
pub const ENTRIES_MAX: usize = 1 << 24;

/// Most bytes of an input that a message repeats.
const EXCERPT_CHARS_MAX: usize = 60;

/// An error in an input file, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {what}")]
pub struct InputError {
    /// The file's name, as it was given.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1, at which the offending word begins.
    pub column: usize,
    /// The mistake, and what would be right.
    pub what: String,
}

impl InputError {
    /// An error at a place, for what only the caller can find wrong with an entry.
    pub fn new(file: &str, line: usize, column: usize, what: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, column, what: what.into() }
    }

    /// An error at a byte of a whole text.
    pub(crate) fn at_offset(file: &str, text: &[u8], offset: usize, what: impl Into<String>) -> Self {
        let before = &text[..offset.min(text.len())];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count();
        Self::new(file, line, column(&before[line_start..]), what)
    }
}

/// Why an input file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Something that stands in it is wrong.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The file itself cannot be read, or what it is packed with is damaged.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A line of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) file: &'a str,
    pub(crate) number: usize,
    /// Without the line feed.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Line<'a> {
    /// An error at the byte `at` of the line.
    pub(crate) fn error(&self, at: usize, what: impl Into<String>) -> InputError {
        InputError::new(self.file, self.number, self.column(at), what)
    }

    /// The column of the byte `at`.
    pub(crate) fn column(&self, at: usize) -> usize {
        column(&self.bytes[..at.min(self.bytes.len())])
    }

    /// The line as text, without a carriage return before its end.
    pub(crate) fn text(&self) -> Result<&'a str, InputError> {
        let bytes = self.bytes.strip_suffix(b"\r").unwrap_or(self.bytes);
        std::str::from_utf8(bytes).map_err(|error| self.error(error.valid_up_to(), "the text is not valid UTF-8"))
    }
}

/// Reads a file line by line, with the memory of the longest line.
pub(crate) struct Lines<'a, R> {
    file: &'a str,
    source: R,
    line: Vec<u8>,
    /// Lines read so far.
    pub(crate) number: usize,
}

impl<'a, R: BufRead> Lines<'a, R> {
    pub(crate) fn new(file: &'a str, source: R) -> Self {
        Self { file, source, line: Vec::new(), number: 0 }
    }

    /// The next line, without its line feed. Bytes behind the last line feed are a line; no bytes
    /// are none.
    pub(crate) fn next(&mut self) -> Result<Option<Line<'_>>, ReadError> {
        self.line.clear();
        let mut bounded = (&mut self.source).take(LINE_BYTES_MAX as u64 + 1);
        if bounded.read_until(b'\n', &mut self.line)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let bytes = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
        let line = Line { file: self.file, number: self.number, bytes };
        if bytes.len() > LINE_BYTES_MAX { Err(too_long(line).into()) } else { Ok(Some(line)) }
    }
}

fn too_long(line: Line<'_>) -> InputError {
    line.error(0, format!("the line has more than {LINE_BYTES_MAX} bytes"))
}

/// The lines of a text. One that is too long ends them with an error.
pub(crate) fn lines<'a>(file: &'a str, text: &'a [u8]) -> impl Iterator<Item = Result<Line<'a>, InputError>> {
    // Bytes behind the last line feed are a line; no bytes are none.
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    let all = (!text.is_empty()).then(|| text.split(|&byte| byte == b'\n'));
    all.into_iter().flatten().enumerate().map(move |(index, bytes)| {
        let line = Line { file, number: index + 1, bytes };
        if bytes.len() > LINE_BYTES_MAX {
            return Err(too_long(line));
        }
        Ok(line)
    })
}

/// A word of the input in quotes, for messages: shortened, and without anything that could steer a
/// terminal.
pub(crate) fn excerpt(word: &[u8]) -> String {
    let text = String::from_utf8_lossy(word);
    let mut shown = String::from("\"");
    for (index, char) in text.chars().enumerate() {
        if index == EXCERPT_CHARS_MAX {
            shown.push_str("...");
            break;
        }
        let _ = match char {
            '"' | '\\' => write!(shown, "\\{char}"),
            _ if char.is_control() => write!(shown, "{}", char.escape_default()),
            _ => write!(shown, "{char}"),
        };
    }
    shown.push('"');
    shown
}

/// The first reason for which a word cannot be sent as a request target, with the byte that it is
/// about.
pub(crate) fn target_fault(word: &[u8]) -> Option<(usize, &'static str)> {
    if let Some(at) = word.iter().position(|byte| !byte.is_ascii_graphic()) {
        return Some((at, "this character is not allowed in a URI; percent-encode it, such as %20"));
    }
    let has_scheme = word.windows(3).any(|window| window == b"://");
    if word.starts_with(b"/") || word == b"*" || has_scheme {
        None
    } else {
        Some((0, "a URI has to begin with a slash"))
    }
}

/// The column behind a piece of a line: characters, counted by the bytes that begin one, so that it
/// is defined for any bytes.
pub(crate) fn column(before: &[u8]) -> usize {
    1 + before.iter().filter(|&&byte| byte & 0xc0 != 0x80).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_characters_from_one() {
        let text = "a\nbäc\n".as_bytes();
        let place = |offset| {
            let error = InputError::at_offset("f", text, offset, "x");
            (error.line, error.column)
        };
        assert_eq!(
            [0, 1, 2, 3, 5, 6, 7, 99].map(place),
            [(1, 1), (1, 2), (2, 1), (2, 2), (2, 3), (2, 4), (3, 1), (3, 1)]
        );
        assert_eq!(InputError::new("f", 2, 3, "x").to_string(), "f:2:3: x");
    }

    #[test]
    fn lines_are_numbered_and_bounded() {
        let read =
            |text: &[u8]| lines("f", text).map(|line| line.map(|line| line.bytes.len())).collect::<Result<Vec<_>, _>>();
        assert_eq!(read(b""), Ok(vec![]));
        assert_eq!(read(b"\n"), Ok(vec![]));
        assert_eq!(read(b"ab\n\nc"), Ok(vec![2, 0, 1]));
        assert_eq!(read(&vec![b'x'; LINE_BYTES_MAX]), Ok(vec![LINE_BYTES_MAX]));
        let error = read(&[b"a\n".as_slice(), &vec![b'x'; LINE_BYTES_MAX + 1]].concat()).unwrap_err();
        assert_eq!((error.line, error.column), (2, 1));
    }

    #[test]
    fn a_file_has_the_lines_of_its_text() {
        for text in [&b""[..], b"\n", b"a", b"a\n", b"a\n\nb\r\n", &vec![b'x'; LINE_BYTES_MAX + 1]] {
            let whole: Result<Vec<_>, _> = lines("f", text).map(|line| line.map(|line| line.bytes.to_vec())).collect();
            let mut reader = Lines::new("f", text);
            let mut read = Ok(Vec::new());
            loop {
                match (reader.next(), &mut read) {
                    (Ok(Some(line)), Ok(read)) => read.push(line.bytes.to_vec()),
                    (Ok(_), _) => break,
                    (Err(ReadError::Input(error)), _) => {
                        read = Err(error);
                        break;
                    }
                    (Err(ReadError::Io(error)), _) => panic!("{error}"),
                }
            }
            // An empty line alone is none of a text.
            if text != b"\n" {
                assert_eq!(read, whole);
            }
        }
    }

    #[test]
    fn excerpts_are_short_and_harmless() {
        assert_eq!(excerpt(b"a\x1b[2J\"\xff"), "\"a\\u{1b}[2J\\\"\u{fffd}\"");
        assert_eq!(excerpt(&[b'x'; 100]).len(), EXCERPT_CHARS_MAX + 5);
    }
}
