//! `thalweg completions` and `thalweg man`: completions of shells and manual pages, made from the
//! same description of the options that arguments are read by.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::exit::{Exit, Failure};
use crate::options::{CompletionsOptions, ManOptions, Options};

/// Prints the completions of a shell.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn completions(options: &CompletionsOptions) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Options::command(), PROGRAM, &mut script);
    print(&script)
}

/// Prints a manual page, or writes all of them.
///
/// # Errors
/// There is no such command, or the output cannot be written.
pub(crate) fn man(options: &ManOptions) -> Result<ExitCode, Failure> {
    let pages = pages();
    if let Some(folder) = &options.dir {
        return write_all(&pages, folder).map(|()| Exit::Met.into()).map_err(|error| {
            Failure::unreachable(format!("cannot write the manual pages to {}: {error}", folder.display()))
        });
    }
    let name = options.command.as_ref().map_or_else(|| PROGRAM.to_owned(), |command| format!("{PROGRAM}-{command}"));
    let page = pages.iter().find(|(page, _)| *page == name).ok_or_else(|| {
        let commands: Vec<&str> = pages.iter().filter_map(|(page, _)| page.strip_prefix("thalweg-")).collect();
        Failure::usage(format!("{name} has no manual page; there are pages of {}", commands.join(", ")))
    })?;
    print(&page.1)
}

const PROGRAM: &str = "thalweg";

/// Name and text of each page: that of the program, and one for each command and its own commands.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut program = Options::command().disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    collect(&program, PROGRAM, &mut pages);
    pages
}

fn collect(command: &clap::Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) {
    let mut page = Vec::new();
    // The name is the page's title; the name by which it is called stands in the synopsis.
    let titled = command.clone().name(name.to_owned()).display_name(name.to_owned());
    Man::new(titled).manual("Thalweg").render(&mut page).expect("memory can be written");
    pages.push((name.to_owned(), page));
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        collect(inner, &format!("{name}-{}", inner.get_name()), pages);
    }
}

fn write_all(pages: &[(String, Vec<u8>)], folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    pages.iter().try_for_each(|(name, page)| fs::write(folder.join(format!("{name}.1")), page))
}

fn print(text: &[u8]) -> Result<ExitCode, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Ok(()) => Ok(Exit::Met.into()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Exit::Met.into()),
        Err(error) => Err(Failure::unreachable(format!("cannot write to standard output: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page_with_its_options() {
        let pages = pages();
        let text = |name: &str| {
            let page = pages.iter().find(|(page, _)| page == name).unwrap_or_else(|| panic!("no page {name}"));
            String::from_utf8(page.1.clone()).expect("pages are text")
        };
        for (name, option) in [
            ("thalweg", "serve"),
            ("thalweg-run", "rate"),
            ("thalweg-serve", "listen"),
            ("thalweg-suite-all", "servers"),
        ] {
            let page = text(name);
            assert!(page.contains(&format!(".TH {name} 1")) && page.contains(option), "{name}: {page}");
        }
        let named: std::collections::BTreeSet<&String> = pages.iter().map(|(name, _)| name).collect();
        assert_eq!(named.len(), pages.len(), "each page has a name of its own");
    }
}
