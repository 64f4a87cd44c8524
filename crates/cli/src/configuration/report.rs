//! How mistakes in a file are shown: each with its line, and a mark beneath what is wrong.

use std::io::IsTerminal;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::read::Fault;

/// Most mistakes that are shown; more of them have one cause.
const SHOWN_MAX: usize = 20;

/// The mistakes of a file, in the order of their lines.
pub(super) fn report(path: &str, text: &str, mut faults: Vec<Fault>) -> String {
    faults.sort_by_key(|fault| fault.span.start);
    let count = faults.len();
    let renderer = if std::io::stderr().is_terminal() { Renderer::styled() } else { Renderer::plain() };
    let mut shown = match count {
        1 => format!("there is a mistake in {path}"),
        _ => format!("there are {count} mistakes in {path}"),
    };
    for fault in faults.iter().take(SHOWN_MAX) {
        let snippet = Snippet::source(text).path(path).annotation(AnnotationKind::Primary.span(within(fault, text)));
        shown.push_str("\n\n");
        shown.push_str(&renderer.render(&[Level::ERROR.primary_title(&fault.what).element(snippet)]));
    }
    if count > SHOWN_MAX {
        shown.push_str(&format!("\n\nand {} more", count - SHOWN_MAX));
    }
    shown
}

/// The place as far as it lies on one line: of a table its heading, of a text over several lines the first.
fn within(fault: &Fault, text: &str) -> std::ops::Range<usize> {
    let start = text.floor_char_boundary(fault.span.start);
    let end = text.ceil_char_boundary(fault.span.end.max(start));
    let line_end = text[start..end].find('\n').map_or(end, |length| start + length);
    start..line_end
}
