//! The command line: from arguments to options, with a line of curl in it taken apart, and errors
//! that know the habits of people who come from other tools.
//!
//! What an option means is declared in `options`; this module owns what happens around clap: the
//! help of the top level, the place of `--curl`, and the advice in errors.

mod arranged;
mod errors;
mod habits;
mod overview;

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use crate::curl::{self, CurlLine};
use thalweg_measure::limit::LIST;

use crate::exit::{Exit, Failure};
use crate::options::{ColorOption, Command, Options};
use crate::output;

/// Commands that take a line of curl.
const COMMANDS_WITH_CURL: [&str; 4] = ["run", "find", "sweep", "compare"];

const RUN_CONNECTIONS: &str = "\
Maximum open connections

Without a rate and --workers: a closed loop with a worker on each of them, as in wrk, ab, oha and hey. [default: one per \
worker; in an open loop one per 20/s, 16 to 256]";

/// The argument of a second client process, which has the arguments as they are here.
const CLIENT_SHARE: &str = "--client-share";

/// The arguments, with the URL of a line of curl behind it.
static ARGUMENTS: OnceLock<Vec<OsString>> = OnceLock::new();

/// Reads the arguments of this process.
///
/// # Errors
/// They are wrong, or ask for help; the text is printed, and this is the exit code.
pub(crate) fn read() -> Result<Options, ExitCode> {
    let given: Vec<OsString> = std::env::args_os().collect();
    // Errors, help among them, have colours, too.
    let color = ColorOption::of_arguments(&given);
    color.apply();
    if wants_limits(&given) {
        return Err(output::print(LIST).map_or_else(Failure::report, |()| Exit::Met.into()));
    }
    let line = curl_line(&given).map_err(Failure::report)?;
    let arguments = line.as_ref().map_or_else(|| given.clone(), |(at, line)| with_url(&given, *at, line.url()));
    let mut command = command().color(color.into());
    let read = command.try_get_matches_from_mut(&arguments).and_then(|matches| {
        let options = Options::from_arg_matches(&matches)?;
        Ok((options, matches))
    });
    let (mut options, matches) = read.map_err(|error| {
        // The usage in an error would show an option whose value comes from the environment.
        let without = || without_environment(command.clone()).try_get_matches_from(&arguments).err();
        let error = Some(&error).filter(|error| error.use_stderr()).and_then(|_| without()).unwrap_or(error);
        errors::report(error, &command, &arguments)
    })?;
    if let Some((_, line)) = line {
        apply(&line, &mut options, &matches).map_err(Failure::report)?;
    }
    ARGUMENTS.get_or_init(|| arguments);
    Ok(options)
}

/// Whether the list of limits is asked for, in the place of a limit.
fn wants_limits(arguments: &[OsString]) -> bool {
    let is_asked = |pair: &[OsString]| pair[0] == "--limit" && pair[1] == "list";
    arguments.windows(2).any(is_asked) || arguments.iter().any(|argument| argument == "--limit=list")
}

/// All commands with their options, and the help of the top level.
pub(crate) fn command() -> clap::Command {
    // A comparison has so many options of its own that a screen has no room for these.
    let hidden = ["body", "urls", "limits", "check", "plain"];
    let hide = |command: clap::Command, name: &str| command.mut_arg(name, |argument| argument.hide_short_help(true));
    let command = Options::command().mut_subcommand("compare", |compare| hidden.into_iter().fold(compare, hide));
    // The other commands offer rates.
    let command = command.mut_subcommand("run", |run| {
        run.mut_arg("connections", |argument| {
            argument.help("Connections; without a rate a closed loop of so many").long_help(RUN_CONNECTIONS)
        })
    });
    overview::with_overview(arranged::arranged(command))
}

/// `command` with nothing but what stands in its arguments.
fn without_environment(command: clap::Command) -> clap::Command {
    let no_variable = || Resettable::<clap::builder::OsStr>::Reset;
    command.mut_args(|argument| argument.env(no_variable())).mut_subcommands(without_environment)
}

/// The arguments for another process of this program, without the program itself.
pub(crate) fn arguments() -> Vec<OsString> {
    ARGUMENTS.get().map_or_else(Vec::new, |arguments| arguments.iter().skip(1).cloned().collect())
}

/// The arguments as results show them: without the credentials of URLs and the secrets of fields.
pub(crate) fn shown() -> Vec<String> {
    shown_arguments(std::env::args())
}

fn shown_arguments(arguments: impl Iterator<Item = String>) -> Vec<String> {
    let mut shown: Vec<String> = Vec::new();
    for argument in arguments {
        let text = match argument.strip_prefix("--curl=") {
            Some(line) => format!("--curl={}", curl::shown(line)),
            None if shown.last().is_some_and(|before| before == "--curl") => curl::shown(&argument),
            None => curl::shown_field(&thalweg_lab::credentials::shown(&argument)),
        };
        shown.push(text);
    }
    shown
}

/// The name of the command. An option may stand before it: that of colours, with its value.
fn command_name(arguments: &[OsString]) -> Option<&OsStr> {
    let mut arguments = arguments.iter().skip(1).map(OsString::as_os_str);
    let first = arguments.next()?;
    match first.to_str() {
        Some("--color") => arguments.nth(1),
        Some(option) if option.starts_with("--color=") => arguments.next(),
        _ => Some(first),
    }
}

/// The line of curl among the arguments, and the place behind it.
fn curl_line(arguments: &[OsString]) -> Result<Option<(usize, CurlLine)>, Failure> {
    let is_for_us =
        command_name(arguments).and_then(OsStr::to_str).is_some_and(|name| COMMANDS_WITH_CURL.contains(&name));
    if !is_for_us || arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        return Ok(None);
    }
    let found = arguments.iter().enumerate().find_map(|(at, argument)| {
        let argument = argument.to_str()?;
        match argument.strip_prefix("--curl=") {
            Some(line) => Some((at + 1, line)),
            None if argument == "--curl" => Some((at + 2, arguments.get(at + 1)?.to_str()?)),
            None => None,
        }
    });
    found.map(|(behind, line)| Ok((behind, CurlLine::parse(line)?))).transpose()
}

/// The arguments with the URL of the line at its place; a second client process has it already.
fn with_url(given: &[OsString], at: usize, url: &str) -> Vec<OsString> {
    let mut arguments = given.to_vec();
    if !given.iter().any(|argument| argument == CLIENT_SHARE) {
        arguments.insert(at, url.into());
    }
    arguments
}

/// Sets what a line of curl says in the options of the command that it is for.
fn apply(line: &CurlLine, options: &mut Options, matches: &ArgMatches) -> Result<(), Failure> {
    let (load, request) = match &mut options.command {
        Command::Run(options) => (&mut options.load, &mut options.request),
        Command::Find(options) => (&mut options.load, &mut options.request),
        Command::Sweep(options) => (&mut options.load, &mut options.request),
        Command::Compare(options) => (&mut options.load, &mut options.request),
        _ => return Ok(()),
    };
    let matches = matches.subcommand().map(|(_, matches)| matches);
    let is_written =
        |name: &str| matches.is_some_and(|matches| matches.value_source(name) == Some(ValueSource::CommandLine));
    // Both spellings of the timeout are one option.
    let given = |name: &str| is_written(name) || (name == "timeout" && is_written("timeout_with_unit"));
    line.apply_to(load, request, &given)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(arguments: &[&str]) -> Vec<OsString> {
        arguments.iter().map(OsString::from).collect()
    }

    #[test]
    fn the_url_of_a_line_of_curl_takes_its_place() {
        let check = |arguments: &[&str], expected: &[&str]| {
            let given = os(arguments);
            let line = curl_line(&given).unwrap();
            let expanded = line.map_or_else(|| given.clone(), |(at, line)| with_url(&given, at, line.url()));
            assert_eq!(expanded, os(expected));
        };
        check(&["thalweg", "run", "--curl", "curl h"], &["thalweg", "run", "--curl", "curl h", "http://h"]);
        check(
            &["t", "--color", "never", "run", "--curl=curl h"],
            &["t", "--color", "never", "run", "--curl=curl h", "http://h"],
        );
        check(
            &["t", "compare", "--curl=curl h", "http://b/"],
            &["t", "compare", "--curl=curl h", "http://h", "http://b/"],
        );
        for unchanged in [
            &["t", "run", "http://h/"][..],
            &["t", "serve", "--curl", "curl h"],
            &["t", "run", "--curl"],
            &["t", "run", "--curl", "x", "--help"],
            &["t", "find", "--curl", "curl h", "http://h", "--client-share", "1,2,3"],
        ] {
            check(unchanged, unchanged);
        }
        assert!(curl_line(&os(&["t", "run", "--curl", "wget h"])).is_err());
    }

    #[test]
    fn a_line_of_curl_fills_the_options_that_are_not_given() {
        let given = os(&["t", "run", "--curl", "curl -X PUT -m 3 -H 'A: b' -d x h", "--method", "PATCH", "-t", "4s"]);
        let (at, line) = curl_line(&given).unwrap().unwrap();
        let matches =
            command().try_get_matches_from(with_url(&given, at, line.url())).unwrap_or_else(|e| panic!("{e}"));
        let mut options = Options::from_arg_matches(&matches).unwrap_or_else(|e| panic!("{e}"));
        apply(&line, &mut options, &matches).unwrap();
        let Command::Run(run) = options.command else { panic!("another command") };
        assert_eq!((&*run.url, run.request.method(), run.load.timeout().as_secs()), ("http://h", "PATCH", 4));
        assert_eq!(run.load.headers[0], ("A".to_owned(), "b".to_owned()));
    }

    #[test]
    fn secrets_are_not_shown() {
        let arguments =
            ["t", "run", "http://u:p@h/", "-H", "Cookie: p", "--curl", "curl -u u:p h", "--curl=curl -u u:p h"];
        let shown = shown_arguments(arguments.iter().map(ToString::to_string));
        let expected =
            ["t", "run", "http://h/", "-H", "Cookie: ...", "--curl", "curl -u ... h", "--curl=curl -u ... h"];
        assert_eq!(shown, expected);
    }
}
