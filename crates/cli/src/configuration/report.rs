//! The report of mistakes in a file: each with its line and a mark beneath the fault.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::fault::Fault;
use crate::terminal;

/// Most mistakes that are reported; more of them usually have one cause.
const SHOWN_MAX: usize = 20;

/// The mistakes of a file, in the order of their lines.
pub(super) fn report(path: &str, text: &str, mut faults: Vec<Fault>) -> String {
    faults.sort_by_key(|fault| fault.span.start);
    let count = faults.len();
    let renderer = if terminal::stderr_has_colours() { Renderer::styled() } else { Renderer::plain() };
    let mut shown = match count {
        1 => format!("error in {path}"),
        _ => format!("{count} errors in {path}"),
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

/// The same in one line, for a log.
pub(super) fn report_in_one_line(path: &str, text: &str, faults: &[Fault]) -> String {
    let mut sorted: Vec<&Fault> = faults.iter().collect();
    sorted.sort_by_key(|fault| fault.span.start);
    let place = |fault: &&Fault| {
        let before = &text[..within(fault, text).start];
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        format!("{path}:{}:{column}: {}", before.matches('\n').count() + 1, fault.what)
    };
    let mut shown = sorted.iter().take(SHOWN_MAX).map(place).collect::<Vec<_>>().join("; ");
    if sorted.len() > SHOWN_MAX {
        shown.push_str(&format!("; and {} more", sorted.len() - SHOWN_MAX));
    }
    shown
}

/// The place as far as it lies on one line: of a table its heading, of a text over several lines
/// the first.
fn within(fault: &Fault, text: &str) -> std::ops::Range<usize> {
    let start = text.floor_char_boundary(fault.span.start);
    let end = text.ceil_char_boundary(fault.span.end.max(start));
    let line_end = text[start..end].find('\n').map_or(end, |length| start + length);
    start..line_end
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::read::read;
    use super::*;

    const TEXT: &str = "listen = \"here\"\n# \u{fc}ber\ndrian = \"1s\"\n[limits]\nhead_time = \"\u{fc}\"\n\
        [[site]]\nnames = [\"a\"]\nerror_pages = { 404 = \"/404.html\" }\n[[site.mount]]\npath = 7\n";

    #[test]
    fn each_mistake_is_shown_in_its_line() {
        let shown = report("a.toml", TEXT, read(TEXT, Path::new("/")).unwrap_err());
        for part in [
            "4 errors in a.toml",
            " --> a.toml:1:10\n  |\n1 | listen = \"here\"\n  |          ^^^^^^\n",
            " --> a.toml:3:1\n  |\n3 | drian = \"1s\"\n  | ^^^^^\n",
            " --> a.toml:5:13\n",
            " --> a.toml:10:8\n   |\n10 | path = 7\n   |        ^",
        ] {
            assert!(shown.contains(part), "{part:?} in {shown}");
        }
    }

    #[test]
    fn more_mistakes_than_can_be_shown_are_counted() {
        let text = (0..51).map(|index| format!("x{index} = 1\n")).collect::<String>();
        let shown = report("a.toml", &text, read(&text, Path::new("/")).unwrap_err());
        assert!(shown.contains("51 errors") && shown.ends_with("and 31 more"), "{shown}");
        let line = report_in_one_line("a.toml", &text, &read(&text, Path::new("/")).unwrap_err());
        assert!(line.ends_with("; and 31 more") && !line.contains('\n'), "{line}");
    }

    #[test]
    fn a_log_has_all_mistakes_in_one_line() {
        let line = report_in_one_line("a.toml", TEXT, &read(TEXT, Path::new("/")).unwrap_err());
        let parts: Vec<_> = line.split("; a.toml:").collect();
        assert_eq!(parts.len(), 4, "{line}");
        for (part, place) in parts.iter().zip(["a.toml:1:10: ", "3:1: unknown key", "5:13: ", "10:8: "]) {
            assert!(part.starts_with(place), "{place}: {line}");
        }
    }

    /// The mistakes of any damaged file can be reported.
    #[test]
    fn no_text_breaks_the_reader() {
        for seed in 0..3000_u64 {
            // The numbers of Knuth's MMIX, which are good enough to choose bytes with.
            let mut state = seed;
            let mut next = |below: usize| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 33) as usize % below
            };
            let mut bytes = TEXT.as_bytes().to_vec();
            for _ in 0..=next(4) {
                let at = next(bytes.len());
                match next(3) {
                    0 => bytes[at] = b"[]{}\"'=.,#\n\\ \xc3\xbc\0\x1b1a"[next(19)],
                    1 => drop(bytes.drain(at..(at + next(20)).min(bytes.len()))),
                    _ => bytes.extend_from_within(at..(at + next(20)).min(bytes.len())),
                }
            }
            let text = String::from_utf8_lossy(&bytes).into_owned();
            match read(&text, Path::new("/")) {
                Err(faults) => assert!(report("a.toml", &text, faults).contains("error"), "seed {seed}: {text:?}"),
                Ok((configuration, places)) => {
                    let faults = configuration.server.check().into_iter();
                    let faults = faults.map(|fault| Fault::new(places.find(&fault.at), fault.what)).collect::<Vec<_>>();
                    assert!(!report_in_one_line("a.toml", &text, &faults).contains('\n'), "seed {seed}: {text:?}");
                    report("a.toml", &text, faults);
                }
            }
        }
    }
}
