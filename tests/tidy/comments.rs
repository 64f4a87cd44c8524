//! Comments are at most 100 columns wide, and begin with their subject.

use crate::Fault;
use crate::repository::REPOSITORY;
use crate::source::{Comment, Source};

const WIDTH_MAX: usize = 100;

/// A first sentence that begins so leaves its subject to the reader.
const BEGINNINGS: [&str; 5] = ["What", "Who", "Where", "Whoever", "Somebody"];

fn check_width(source: &Source) -> Vec<Fault> {
    let mut faults = Vec::new();
    for Comment { line, text, widths } in &source.comments {
        let mut within_code = false;
        for (index, (text, width)) in text.iter().zip(widths).enumerate() {
            within_code ^= text.starts_with("```");
            // Lines that cannot be broken are exempt: addresses, rows of tables, code.
            let whole = within_code
                || text.starts_with("    ")
                || text.starts_with('|')
                || text.contains("://")
                || !text.trim().contains(' ');
            if *width > WIDTH_MAX && !whole {
                faults.push(Fault::new(
                    &source.file,
                    line + index,
                    format!("{width} columns: wrap comments at {WIDTH_MAX}"),
                ));
            }
        }
    }
    faults
}

fn check_beginnings(source: &Source) -> Vec<Fault> {
    let faults = source.comments.iter().filter_map(|comment| {
        let text = comment.joined();
        let sentence = first_sentence(&text);
        let word =
            BEGINNINGS.iter().find(|word| sentence.strip_prefix(**word).is_some_and(|rest| rest.starts_with(' ')))?;
        let advice = format!("begin with a thing of the domain, not with \"{word}\": {sentence}");
        (!sentence.ends_with('?')).then(|| Fault::new(&source.file, comment.line, advice))
    });
    faults.collect()
}

/// Up to the first full stop, question mark, colon or semicolon that ends a word.
fn first_sentence(text: &str) -> &str {
    let end = text.match_indices(['.', '?', '!']).find(|(at, mark)| {
        let rest = &text[at + mark.len()..];
        rest.is_empty() || rest.starts_with([' ', '"', ')'])
    });
    end.map_or(text, |(at, mark)| &text[..at + mark.len()])
}

pub(crate) fn comments_are_wrapped() -> Vec<Fault> {
    REPOSITORY.sources.iter().flat_map(check_width).collect()
}

pub(crate) fn comments_begin_with_their_subject() -> Vec<Fault> {
    REPOSITORY.sources.iter().flat_map(check_beginnings).collect()
}

#[cfg(test)]
fn source(text: &str) -> Source {
    Source::parse("a.rs", text.to_owned())
}

#[test]
fn a_wide_comment_is_found() {
    let wide = "word ".repeat(20);
    let lines = |text: &str| check_width(&source(text)).into_iter().map(|fault| fault.line).collect::<Vec<_>>();
    assert_eq!(lines(&format!("/// Short.\n/// {wide}\nfn f() {{\n    // {wide}\n}}\n")), [2, 4]);
    let narrow = &wide[..96];
    for text in [
        format!("/// {narrow}"),
        format!("/// | {wide} |"),
        format!("///     {wide}"),
        format!("/// https://example.org/ {wide}"),
        format!("/// ```\n/// {wide}\n/// ```"),
        format!("const A: &str = \"\n// {wide}\n\";"),
        format!("const A: &str = \"// {wide}\";"),
    ] {
        let text = if text.starts_with("///") { text + "\nfn f() {}\n" } else { text };
        assert_eq!(lines(&text), [0; 0], "{text}");
    }
}

#[test]
fn a_comment_without_a_subject_is_found() {
    for (comment, found) in [
        ("What a client sends.", true),
        ("Who asks, and when? Nobody.", false),
        ("Where a file lies\n/// is said here.", true),
        ("Whoever asks.", true),
        ("Somebody asks", true),
        ("Whatever a client sends.", false),
        ("The client: what it sends.", false),
        ("A request. What it is.", false),
    ] {
        let text = format!("/// {comment}\nfn f() {{}}\n");
        assert_eq!(!check_beginnings(&source(&text)).is_empty(), found, "{comment}");
    }
}
