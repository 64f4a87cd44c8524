//! Text for people, made to fit the width of a terminal.
//!
//! The texts themselves are written without a width, a line for each statement. Long lines are
//! broken here, at the edge, so that a file or a pipe gets whole ones.

use anstream::adapter::strip_str;
use textwrap::{Options, WordSeparator, WordSplitter, wrap};

/// A label at the beginning of a line: what is behind it is continued behind it, too, if the label
/// is no longer than this.
const LABEL_MAX: usize = 16;

/// Breaks lines that are longer than a terminal is wide; `None` breaks none.
pub(crate) fn fitted(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    text.split_inclusive('\n').map(|line| fitted_line(line, columns)).collect()
}

fn fitted_line(line: &str, columns: usize) -> String {
    let (content, end) = line.strip_suffix('\n').map_or((line, ""), |content| (content, "\n"));
    if textwrap::core::display_width(content) <= columns {
        return line.to_owned();
    }
    let indent = " ".repeat(continuation(&strip_str(content).to_string()).min(columns / 2));
    let options = Options::new(columns)
        .subsequent_indent(&indent)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        // An address stays in one piece.
        .break_words(false);
    let lines: Vec<String> = wrap(content, options).iter().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + end
}

/// The column at which a line is continued: behind its label, or a little to the right of its
/// beginning.
fn continuation(line: &str) -> usize {
    let indent = line.len() - line.trim_start().len();
    let content = &line[indent..];
    if content.starts_with("* ") {
        return indent + 2;
    }
    let label = content.find("  ").filter(|length| *length <= LABEL_MAX);
    label.map_or(indent + 2, |length| {
        let gap = content[length..].len() - content[length..].trim_start().len();
        if gap <= LABEL_MAX { indent + length + gap } else { indent + 2 }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, columns: usize, expected: &str) {
        assert_eq!(fitted(text, Some(columns)), expected);
    }

    #[test]
    fn a_text_that_fits_stays_as_it_is() {
        for text in ["", "\n", "a  b\n\n  c\n", "no end"] {
            check(text, 10, text);
            assert_eq!(fitted(text, None), text);
        }
        assert_eq!(fitted("a long line stays whole for a pipe\n", None), "a long line stays whole for a pipe\n");
    }

    #[test]
    fn a_long_line_goes_on_behind_its_label() {
        check("one two three four\n", 9, "one two\n  three\n  four\n");
        check("  one two three\n", 9, "  one two\n    three\n");
        check("ok  one two three\n", 11, "ok  one two\n    three\n");
        check("  * one two three\n", 12, "  * one two\n    three\n");
    }

    #[test]
    fn an_address_is_not_broken() {
        check("at http://127.0.0.1:8080/ now\n", 12, "at\n  http://127.0.0.1:8080/\n  now\n");
    }

    #[test]
    fn styles_take_no_room() {
        check("\x1b[32mPASS\x1b[0m  http://a/\n", 15, "\x1b[32mPASS\x1b[0m  http://a/\n");
        check("\x1b[32mok  \x1b[0m  one two\n", 12, "\x1b[32mok  \x1b[0m  one\n      two\n");
    }
}
