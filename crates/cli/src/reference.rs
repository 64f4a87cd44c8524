//! `thalweg man` and `thalweg completions`: the options of all commands as manual pages and as
//! completions of a shell.
//!
//! Both are written from the definitions that clap parses with, so they cannot name an option that
//! the program does not have. Where the files belong is decided by `packaging/package`.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::exit::{Exit, Failure};
use crate::options::{CompletionsOptions, ManOptions, Options};
use crate::output;

/// The program's name in completions and in the title of its manual.
const PROGRAM: &str = "thalweg";

/// The exit codes, with their meanings for all commands.
const EXIT_CODES: [(Exit, &str); 5] = [
    (Exit::Met, "The command worked, and every limit was met."),
    (Exit::NotMet, "The command worked, and a limit was not met."),
    (Exit::Usage, "Wrong usage, configuration or input file."),
    (Exit::Invalid, "The measurement is INVALID: the client, not the target, fell short."),
    (Exit::Unreachable, "The target could not be reached, or this host lacks something that the run needs."),
];

/// Writes the manual pages to a folder.
///
/// # Errors
/// The folder cannot be created or written.
pub fn man(options: &ManOptions) -> Result<ExitCode, Failure> {
    write_pages(Options::command(), &options.folder).map_err(|error| {
        Failure::usage(format!(
            "cannot write manual pages to {}: {error}; name a folder that you can write to",
            options.folder.display()
        ))
    })?;
    Ok(Exit::Met.into())
}

/// Prints the completions for a shell.
///
/// # Errors
/// Standard output cannot be written.
pub fn completions(options: &CompletionsOptions) -> Result<ExitCode, Failure> {
    output::print(&completions_text(options.shell))?;
    Ok(Exit::Met.into())
}

fn completions_text(shell: clap_complete::Shell) -> String {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Options::command(), PROGRAM, &mut text);
    String::from_utf8(text).expect("completions are UTF-8, as the options are")
}

/// Writes the page of a command and those of its subcommands.
fn write_pages(command: Command, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // It would get pages for all commands once more.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_page(command, folder)
}

fn write_page(command: Command, folder: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        write_page(subcommand.clone(), folder)?;
    }
    let page = Man::new(command).source(concat!("thalweg ", env!("CARGO_PKG_VERSION"))).manual("Thalweg");
    let mut text = Vec::new();
    page.render(&mut text)?;
    text.extend(exit_status().into_bytes());
    fs::write(folder.join(page.get_filename()), text)
}

/// The section on exit codes.
fn exit_status() -> String {
    let mut section = Roff::default();
    section.control("SH", ["EXIT STATUS"]);
    for (exit, meaning) in EXIT_CODES {
        section.control("TP", []);
        section.text([roman((exit as u8).to_string())]);
        section.text([roman(meaning)]);
    }
    section.to_roff()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::ValueEnum;
    use clap_complete::Shell;

    use super::*;

    #[test]
    fn each_command_has_a_page_with_its_options_and_the_exit_codes() {
        let folder = tempfile::tempdir().unwrap();
        write_pages(Options::command(), &folder.path().join("man1")).unwrap();
        let pages: BTreeSet<_> = fs::read_dir(folder.path().join("man1"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        let command = Options::command();
        for subcommand in command.get_subcommands() {
            assert!(pages.contains(&format!("thalweg-{}.1", subcommand.get_name())), "{pages:?}");
        }
        assert!(pages.contains("thalweg.1"), "{pages:?}");
        let run = fs::read_to_string(folder.path().join("man1/thalweg-run.1")).unwrap();
        for part in ["thalweg\\-run", ".SH SYNOPSIS", "\\-\\-rate", ".SH \"EXIT STATUS\"", "INVALID"] {
            assert!(run.contains(part), "no {part} in {run}");
        }
    }

    #[test]
    fn completions_of_all_shells_know_commands_and_options() {
        for &shell in Shell::value_variants() {
            let text = completions_text(shell);
            for word in ["doctor", "print-config"] {
                assert!(text.contains(word), "{shell} has no {word}");
            }
        }
    }
}
