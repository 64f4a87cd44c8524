//! Errors in arguments, with advice for those that a habit or a slip explains.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

use super::habits;

/// The exit code of a text that could not be printed.
const UNPRINTED: u8 = 4;

/// Prints an error, or the help that was asked for, and returns the exit code.
pub(super) fn report(error: Error, command: &Command, arguments: &[OsString]) -> ExitCode {
    let texts: Vec<String> = arguments.iter().skip(1).map(|text| text.to_string_lossy().into_owned()).collect();
    let error = explained(error, command, &texts);
    match error.print() {
        Ok(()) => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(UNPRINTED)),
        Err(_) => ExitCode::from(UNPRINTED),
    }
}

/// The error with advice, where there is some.
fn explained(mut error: Error, command: &Command, arguments: &[String]) -> Error {
    let name = arguments.iter().find(|word| command.find_subcommand(word).is_some()).map_or("", String::as_str);
    let said = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        _ => String::new(),
    };
    let advice = match error.kind() {
        ErrorKind::UnknownArgument => {
            let argument = said(ContextKind::InvalidArg);
            if let Some(negative) = negative(&argument, arguments) {
                let mut command = command.find_subcommand(name).cloned().unwrap_or_default();
                return command.error(ErrorKind::ValueValidation, negative);
            }
            unknown(name, &argument, arguments)
        }
        ErrorKind::InvalidSubcommand => {
            habits::command_advice(&said(ContextKind::InvalidSubcommand)).map(str::to_owned)
        }
        ErrorKind::InvalidValue if said(ContextKind::InvalidValue).is_empty() => {
            let is_rate = said(ContextKind::InvalidArg).starts_with("--rate");
            is_rate.then(|| {
                "-r is --rate here; ab's -r needs no option: a load goes on after errors, and counts them".to_owned()
            })
        }
        _ => None,
    };
    if advice.is_none() && error.kind() == ErrorKind::UnknownArgument && is_far(&error) {
        error.remove(ContextKind::SuggestedArg);
    }
    if let Some(advice) = advice {
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::SuggestedSubcommand);
        // It has the option that clap would suggest.
        error.remove(ContextKind::Usage);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    }
    error
}

/// Whether the option that clap suggests is another word rather than a slip of the one given.
fn is_far(error: &Error) -> bool {
    let said = |kind: ContextKind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.trim_start_matches('-').to_owned(),
        _ => String::new(),
    };
    let (given, suggested) = (said(ContextKind::InvalidArg), said(ContextKind::SuggestedArg));
    let given = given.split('=').next().unwrap_or_default();
    let slips_max = (given.len() / 4).max(1);
    // The beginning of a longer name is no slip.
    !suggested.starts_with(given) && strsim::damerau_levenshtein(given, &suggested) > slips_max
}

/// Advice for an argument that the command does not have.
fn unknown(command: &str, argument: &str, arguments: &[String]) -> Option<String> {
    if command.is_empty() && argument.starts_with('-') {
        return Some("the command comes first, such as thalweg run URL -c 64 -d 10".to_owned());
    }
    let has_curl = arguments.iter().any(|word| word == "--curl" || word.starts_with("--curl="));
    if has_curl && argument.contains("://") {
        return Some("the line of --curl has the URL already; remove one of them".to_owned());
    }
    habits::advice(command, argument).map(str::to_owned)
}

/// The message for a negative number in the place of a value, which reads like an option.
fn negative(argument: &str, arguments: &[String]) -> Option<String> {
    let is_number = argument.strip_prefix('-')?.starts_with(|first: char| first.is_ascii_digit());
    let at = arguments.iter().position(|word| is_number && word.starts_with(argument))?;
    let option = arguments.get(at.checked_sub(1)?).filter(|option| option.starts_with('-'))?;
    Some(format!("invalid value '{}' for '{option}': it is negative", arguments[at]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line::command;

    #[track_caller]
    fn check(arguments: &[&str], parts: &[&str]) {
        let mut command = command();
        let words: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let error = command.try_get_matches_from_mut([&["thalweg"], arguments].concat()).unwrap_err();
        let text = explained(error, &command, &words).render().to_string();
        for part in parts {
            assert!(text.contains(part), "{arguments:?} lacks {part:?}: {text}");
        }
        assert_eq!(text.matches("error: ").count(), 1, "{text}");
    }

    #[test]
    fn errors_say_what_to_write() {
        check(
            &["run", "http://h/", "--threads", "4"],
            &["--threads", "tip: a load thread runs on each CPU of --cores"],
        );
        check(&["run", "http://h/", "--conections", "4"], &["a similar argument exists: '--connections'"]);
        check(&["run", "http://h/", "--grpc"], &["tip: gRPC is not spoken"]);
        check(&["run", "http://h/", "--websocket"], &["tip: WebSockets are not spoken"]);
        check(&["run", "http://h/", "--request", "POST"], &["tip: use --method NAME"]);
        check(&["run", "http://h/", "-k"], &["'-k'", "curl's -k is --insecure"]);
        check(&["run", "http://h/", "-t", "4"], &["'-t <TIME>'", "wrk", "--cores", "--duration 4", "-t 4s"]);
        check(&["run", "http://h/", "-d", "a=b"], &["--body"]);
        check(&["run", "http://h/", "-r", "-n", "9"], &["--rate <RATE>", "ab's -r needs no option"]);
        check(&["run", "http://h/", "-m", "10"], &["--streams 10"]);
        check(&["run", "--curl", "curl h", "http://h", "http://i/"], &["already"]);
        check(&["replay", "log", "http://h/", "--urls", "x"], &["'--urls'", "the log determines"]);
        check(&["find", "http://h/", "--rate", "5"], &["thalweg run"]);
        check(&["serve", "--bind", "0.0.0.0"], &["--listen ADDRESS:PORT"]);
        check(&["bench", "http://h/"], &["run makes one load"]);
        check(&["http://h/"], &["the command comes first"]);
        check(&["-c", "5", "http://h/"], &["the command comes first"]);
        check(&["srve"], &["'serve'"]);
    }

    /// `--grpc` once had `--groups` suggested to it.
    #[test]
    fn another_word_is_no_near_miss() {
        let suggests = |option: &str| {
            let mut command = command();
            let words: Vec<String> = ["run", "http://h/", option].iter().map(ToString::to_string).collect();
            let error = command.try_get_matches_from_mut(["thalweg", "run", "http://h/", option]).unwrap_err();
            explained(error, &command, &words).render().to_string().contains("similar")
        };
        assert!(suggests("--timout") && suggests("--durations"));
        assert!(!suggests("--grps") && !suggests("--think-more"));
    }

    #[test]
    fn a_negative_value_is_one_of_its_option() {
        for (arguments, message) in [
            (["run", "http://h/", "--duration", "-5"], "invalid value '-5' for '--duration': it is negative"),
            (["run", "http://h/", "-d", "-5s"], "invalid value '-5s' for '-d': it is negative"),
            (["run", "http://h/", "--rate", "-5/s"], "invalid value '-5/s' for '--rate': it is negative"),
            (["run", "http://h/", "-n", "-1"], "invalid value '-1' for '-n': it is negative"),
            (["serve", "/", "-p", "-80"], "invalid value '-80' for '-p': it is negative"),
        ] {
            check(&arguments, &[message, "Usage: thalweg "]);
        }
        check(&["run", "http://h/", "--timeout=-5"], &["'--timeout <TIME>'", "negative"]);
    }
}
