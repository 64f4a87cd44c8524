//! Results as workflow commands of GitHub Actions, which a job shows as annotations, and as a
//! summary of its step in Markdown.
//!
//! A missed limit is an error, a measurement that is INVALID a warning, and PASS a notice: the
//! first says something about the target, the second about the machine that measured.

use anstream::adapter::strip_str;
use thalweg_measure::Verdict;
use thalweg_report::document::Document;
use thalweg_report::{self as report, Labelled};

use super::cases::{CaseEnd, test_cases};
use crate::text;

/// GitHub shows ten annotations of a kind for each step, and drops the others.
const ANNOTATIONS_MAX: usize = 10;

/// The commands for one result or several: a line for each case that failed, or the answer.
pub(crate) fn github(results: &[Labelled<'_>]) -> String {
    let lines: Vec<String> = results.iter().flat_map(|result| annotations(*result)).collect();
    if lines.len() <= ANNOTATIONS_MAX {
        return lines.concat();
    }
    let (shown, rest) = lines.split_at(ANNOTATIONS_MAX - 1);
    let more = format!("{} more conditions are not met; the report has all of them", rest.len());
    shown.concat() + &line("error", "thalweg", &more)
}

fn annotations((label, document): Labelled<'_>) -> Vec<String> {
    let of = label.map_or_else(String::new, |label| format!("{label}: "));
    let subject = format!("{of}thalweg {}", document.kind.name());
    let (command, wanted, word) = match document.verdict {
        Verdict::Pass => return vec![line("notice", &format!("{subject}: PASS"), &report::sentence(document))],
        Verdict::Fail => ("error", CaseEnd::Failed, "FAIL"),
        Verdict::Invalid => ("warning", CaseEnd::Invalid, "INVALID"),
    };
    let cases = test_cases(document).into_iter().filter(|case| case.end == wanted);
    cases.map(|case| line(command, &format!("{subject}: {word}: {}", case.name), &case.sentence)).collect()
}

/// The command for a command of Thalweg that ended without a result.
pub(crate) fn github_failure(command: &str, message: &str) -> String {
    line("error", &format!("thalweg {command}"), message)
}

fn line(command: &str, title: &str, message: &str) -> String {
    format!("::{command} title={}::{}\n", property(title), data(message))
}

/// The escapes of a command's text, as the runner undoes them.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Those of a property, which ends at a colon or a comma.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// The summary of a step: the verdict as a heading, and the text of the result.
pub(crate) fn github_summary(results: &[Labelled<'_>]) -> String {
    results.iter().map(|(label, document)| summary(*label, document)).collect()
}

fn summary(label: Option<&str>, document: &Document) -> String {
    let of = label.map_or_else(String::new, |label| format!(" of {label}"));
    let text = strip_str(&text::of(document, None)).to_string();
    let fence = "`".repeat(longest_run(&text, '`').max(2) + 1);
    let text = text.trim_end();
    format!(
        "### thalweg {}{of}: {verdict}\n\n{fence}text\n{text}\n{fence}\n\n",
        document.kind.name(),
        verdict = document.verdict.title()
    )
}

fn longest_run(text: &str, wanted: char) -> usize {
    text.split(|c: char| c != wanted).map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use thalweg_report::document::Trial;

    use super::super::fixture;
    use super::*;

    fn document(verdict: Verdict, reasons: &[&str]) -> Document {
        let reasons: Vec<String> = reasons.iter().map(|reason| (*reason).to_owned()).collect();
        let trial = Trial { verdict, reasons: reasons.clone(), ..fixture::trial() };
        Document { verdict, reasons, ..fixture::document(vec![trial]) }
    }

    #[test]
    fn each_missed_limit_is_an_error_with_its_sentence() {
        let failed =
            document(Verdict::Fail, &["errors 0.750 % (15 of 2,000) miss the limit errors<=0%", "odd\nreason"]);
        let expected = "\
::error title=thalweg run%3A FAIL%3A errors<=0%25::errors 0.750 %25 (15 of 2,000) miss the limit errors<=0%25
::error title=thalweg run%3A FAIL%3A offered load::odd%0Areason
";
        assert_eq!(github(&[(None, &failed)]), expected);
    }

    #[test]
    fn an_invalid_run_warns_and_a_pass_is_noticed() {
        let late = document(Verdict::Invalid, &["the client sent late"]);
        let expected = "::warning title=a, b%3A thalweg run%3A INVALID%3A measurement::the client sent late\n";
        assert_eq!(github(&[(Some("a, b"), &late)]), expected.replace("a, b", "a%2C b"));
        let passed = github(&[(None, &document(Verdict::Pass, &[]))]);
        assert!(passed.starts_with("::notice title=thalweg run%3A PASS::200/s offered for "), "{passed}");
        assert_eq!(passed.lines().count(), 1);
    }

    #[test]
    fn no_more_lines_are_printed_than_are_shown() {
        let failed = document(Verdict::Fail, &["errors 1 % (2 of 200) miss the limit errors<=0%"]);
        let text = github(&[(None, &failed); 12]);
        assert_eq!(text.lines().count(), ANNOTATIONS_MAX);
        assert!(text.ends_with("::error title=thalweg::3 more conditions are not met; the report has all of them\n"));
    }

    #[test]
    fn a_summary_has_the_text_in_a_fence_that_it_cannot_leave() {
        let mut document = document(Verdict::Pass, &[]);
        document.plan.target = "http://a/```x".to_owned();
        let summary = github_summary(&[(Some("a"), &document)]);
        assert!(summary.starts_with("### thalweg run of a: PASS\n\n````text\nPASS  GET http://a/```x\n"), "{summary}");
        assert!(summary.ends_with("\n````\n\n"), "{summary}");
    }
}
