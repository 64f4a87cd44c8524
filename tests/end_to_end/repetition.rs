//! The repetition of measurements.
//!
//! A measurement is repeated while this machine has spoiled it: the program says INVALID (exit code
//! 3), or a figure that depends on when processes got CPU time is out of its bounds. It has at most
//! [`ATTEMPTS_MAX`] attempts, none of which begins later than [`time_max`] after the first
//! measurement of its test. Wrong behaviour of the program is wrong at each attempt: the last
//! failure is reported, with the number of those before it.
//!
//! Each repetition is written to standard error with its reason, so that the log of a test run
//! shows how often it happens. No other module repeats a measurement.

use std::cell::Cell;
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::process::{ExitedProcess, test_name};

const ATTEMPTS_MAX: usize = 12;

/// The exit code of a measurement that says nothing about its target.
const INVALID: Option<i32> = Some(3);

thread_local! {
    /// The beginning of the first measurement of the test that this thread runs.
    static FIRST: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Measures until this machine has not spoiled the measurement: `attempt` returns why it has, and
/// panics if the program is wrong.
#[track_caller]
pub(crate) fn repeated<T>(attempt: impl FnMut() -> Result<T, String>) -> T {
    let begun = FIRST.get().unwrap_or_else(Instant::now);
    FIRST.set(Some(begun));
    let time_max = time_max(&test_name());
    let may_go_on = |number: usize, wrong: &str| {
        let may_go_on = begun.elapsed() < time_max;
        if may_go_on {
            // Not by a macro, whose output of tests that pass is lost.
            let _ = writeln!(std::io::stderr(), "repeated after attempt {number}: {wrong}");
        }
        may_go_on
    };
    bounded(attempt, may_go_on).unwrap_or_else(|wrong| panic!("{wrong}"))
}

/// Measures until the result is valid.
#[track_caller]
pub(crate) fn valid(mut measure: impl FnMut() -> ExitedProcess) -> ExitedProcess {
    repeated(|| judged(measure()))
}

/// A measurement that may be INVALID, for [`repeated`].
pub(crate) fn judged(ended: ExitedProcess) -> Result<ExitedProcess, String> {
    if ended.code == INVALID { Err(format!("INVALID: {}", reasons(&ended))) } else { Ok(ended) }
}

/// A figure that depends on when processes got CPU time, for [`repeated`]: what is wrong, unless it
/// `holds`.
pub(crate) fn ensure(holds: bool, wrong: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong()) }
}

/// The time for the measurements of a test, well within the time limits of `.config/nextest.toml`:
/// the last attempt may take three minutes.
fn time_max(test: &str) -> Duration {
    let is_long = ["alone::", "small_load::"].iter().any(|module| test.contains(module));
    Duration::from_secs(if is_long { 360 } else { 120 })
}

/// Makes attempts while `may_go_on` after the one of this number, which was wrong, or says what was
/// wrong with the last one.
fn bounded<T>(
    mut attempt: impl FnMut() -> Result<T, String>,
    may_go_on: impl Fn(usize, &str) -> bool,
) -> Result<T, String> {
    for number in 1.. {
        let wrong = match attempt() {
            Ok(result) => return Ok(result),
            Err(wrong) => wrong,
        };
        if number == ATTEMPTS_MAX || !may_go_on(number, &wrong) {
            return Err(format!("wrong at each of {number} attempts, at the last one: {wrong}"));
        }
    }
    unreachable!("the attempts are bounded")
}

/// The reasons of a verdict: those of the document or of a list of them, or else lines of the text.
fn reasons(ended: &ExitedProcess) -> String {
    let output: Value = serde_json::from_str(&ended.stdout).unwrap_or_default();
    let documents = output.as_array().map_or(std::slice::from_ref(&output), Vec::as_slice);
    let of_documents = documents.iter().filter_map(|document| document["reasons"].as_array()).flatten();
    let of_documents: Vec<&str> = of_documents.filter_map(Value::as_str).collect();
    if !of_documents.is_empty() {
        return of_documents.join("; ");
    }
    let lines = ended.stdout.lines().chain(ended.stderr.lines());
    lines.filter(|line| line.to_ascii_lowercase().contains("invalid")).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result of attempts of which the first few are spoiled, and how many were made.
    fn attempts(spoiled: usize, may_go_on: bool) -> (Result<usize, String>, usize) {
        let mut made = 0;
        let attempt = || {
            made += 1;
            if made > spoiled { Ok(made) } else { Err(format!("spoiled {made}")) }
        };
        (bounded(attempt, |_, _| may_go_on), made)
    }

    #[test]
    fn attempts_are_bounded_and_the_last_failure_is_said() {
        assert_eq!(attempts(0, false), (Ok(1), 1));
        assert_eq!(attempts(2, true), (Ok(3), 3));
        let last = "wrong at each of 12 attempts, at the last one: spoiled 12";
        assert_eq!(attempts(99, true), (Err(last.to_owned()), ATTEMPTS_MAX));
        let first = "wrong at each of 1 attempts, at the last one: spoiled 1";
        assert_eq!(attempts(99, false), (Err(first.to_owned()), 1));
    }

    #[test]
    fn an_invalid_result_is_spoiled_with_its_reasons() {
        let ended = |code, stdout: &str| ExitedProcess { code, stdout: stdout.to_owned(), stderr: String::new() };
        let wrong = judged(ended(Some(3), r#"{"reasons": ["late", "busy"]}"#)).map(|_| ());
        assert_eq!(wrong, Err("INVALID: late; busy".to_owned()));
        let wrong = judged(ended(Some(3), "capacity: none\nINVALID  busy\n")).map(|_| ());
        assert_eq!(wrong, Err("INVALID: INVALID  busy".to_owned()));
        for code in [Some(0), Some(1), Some(4), None] {
            assert_eq!(judged(ended(code, "")).map(|ended| ended.code), Ok(code));
        }
    }
}
