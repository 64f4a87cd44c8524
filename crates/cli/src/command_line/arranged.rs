//! The texts of the help, arranged for a terminal.
//!
//! The texts themselves stand in `options`, wrapped for the source. clap keeps each of their line
//! breaks and wraps once more at the terminal's width, so paragraphs are joined here, and examples
//! are broken where a shell reads on.

use clap::Command;
use clap::builder::StyledStr;

/// Width of a terminal that examples fit.
const WIDTH: usize = 80;
/// Begins the lines on which an example goes on.
const GOES_ON: &str = "      ";
/// clap prints a line break in place of this.
const PLACEHOLDER: &str = "{n}";
/// The same to a reader: a reset of the colour divides it, which is dropped where no colours are
/// shown.
const KEPT_PLACEHOLDER: &str = "{\u{1b}[0mn}";

/// `command` and its own commands with arranged texts.
pub(super) fn arranged(command: Command) -> Command {
    let short = command.get_after_help().map(|text| arrange(&text.to_string()));
    let long = command.get_after_long_help().map(|text| arrange(&text.to_string()));
    let command = command.mut_args(|argument| {
        let help = argument.get_help().map(ToString::to_string).filter(|help| help.contains(PLACEHOLDER));
        match help {
            Some(help) => argument.help(StyledStr::from(help.replace(PLACEHOLDER, KEPT_PLACEHOLDER))),
            None => argument,
        }
    });
    let command = short.into_iter().fold(command, |command, text| command.after_help(StyledStr::from(text)));
    let command = long.into_iter().fold(command, |command, text| command.after_long_help(StyledStr::from(text)));
    command.mut_subcommands(arranged)
}

fn arrange(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut is_paragraph = false;
    for line in text.lines() {
        let goes_on = is_paragraph && is_prose(line);
        is_paragraph = is_prose(line);
        match lines.last_mut() {
            Some(last) if goes_on => *last = format!("{last} {line}"),
            _ if line.starts_with("  ") => lines.extend(broken(line)),
            _ => lines.push(line.to_owned()),
        }
    }
    lines.join("\n").replace(PLACEHOLDER, KEPT_PLACEHOLDER)
}

fn is_prose(line: &str) -> bool {
    !line.is_empty() && !line.starts_with(' ')
}

/// An example in lines of the width, each but the last with a backslash at its end.
fn broken(example: &str) -> Vec<String> {
    const CONTINUED: &str = " \\";
    let mut lines = Vec::new();
    let mut rest = example.to_owned();
    while rest.chars().count() > WIDTH {
        let Some(at) = last_space(&rest, WIDTH - CONTINUED.len()) else { break };
        let next = format!("{GOES_ON}{}", &rest[at + 1..]);
        rest.truncate(at);
        lines.push(rest + CONTINUED);
        rest = next;
    }
    lines.push(rest);
    lines
}

/// The last space before `end` that stands outside of quotes and in front of an option, or of any
/// word if there is no option.
fn last_space(line: &str, end: usize) -> Option<usize> {
    let indent = line.len() - line.trim_start().len();
    let mut quote = None;
    let mut spaces = Vec::new();
    for (at, character) in line.char_indices().take_while(|(at, _)| *at <= end) {
        match (quote, character) {
            (None, '\'' | '"') => quote = Some(character),
            (Some(opened), _) if opened == character => quote = None,
            (None, ' ') if at > indent => spaces.push(at),
            _ => {}
        }
    }
    let is_before_option = |at: &&usize| line[**at + 1..].starts_with('-');
    spaces.iter().rev().find(is_before_option).or(spaces.last()).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(StyledStr::from(arrange(text)).to_string(), expected);
    }

    #[test]
    fn paragraphs_are_joined_and_examples_are_not() {
        check("A sentence\nthat goes on.\n\nAnother.", "A sentence that goes on.\n\nAnother.");
        check("Examples:\n  thalweg a\n  thalweg b", "Examples:\n  thalweg a\n  thalweg b");
        check("Codes:\n  0  good\nAnd\nmore.", "Codes:\n  0  good\nAnd more.");
        check("Two things:\none and two.", "Two things: one and two.");
        check("  thalweg x {n}", "  thalweg x {n}");
    }

    #[test]
    fn a_long_example_can_still_be_pasted() {
        let words = "  thalweg run http://127.0.0.1:8080/ --restart-cmd 'taskset -c 0-1 ./server' --connections 100";
        check(
            words,
            "  thalweg run http://127.0.0.1:8080/ --restart-cmd 'taskset -c 0-1 ./server' \\\n      --connections 100",
        );
        let quoted = format!("  thalweg run --curl 'curl {}'", "x ".repeat(30));
        check(&quoted, &format!("  thalweg run \\\n      --curl 'curl {}'", "x ".repeat(30)));
    }

    #[test]
    fn all_examples_fit_a_terminal() {
        fn check_all(command: &Command) {
            let texts = [command.get_after_help(), command.get_after_long_help()];
            for text in texts.into_iter().flatten().map(ToString::to_string) {
                let wide = text.lines().find(|line| line.starts_with(' ') && line.chars().count() > WIDTH);
                assert_eq!(wide, None, "{}", command.get_name());
            }
            command.get_subcommands().for_each(check_all);
        }
        check_all(&super::super::command());
    }
}
