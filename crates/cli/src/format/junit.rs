//! Results as JUnit's XML, which CI systems read: a suite for each result, and a test case for each
//! condition that it was held against.
//!
//! JUnit has no schema of its own. Elements and attributes here are those that Jenkins, GitLab,
//! Azure Pipelines and the viewers for GitHub read in common.

use std::io;

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};
use thalweg_report::document::Document;
use thalweg_report::{self as report, Labelled};

use super::cases::{CaseEnd, TestCase, test_cases};

type Xml = Writer<Vec<u8>>;

/// A result and its cases.
struct Suite<'a> {
    label: Option<&'a str>,
    document: &'a Document,
    cases: Vec<TestCase>,
    /// Whether names of cases begin with the label: some viewers put the cases of all suites into
    /// one list.
    is_labelled: bool,
}

/// The XML document about one result or several.
pub(crate) fn junit(results: &[Labelled<'_>]) -> String {
    let suites: Vec<Suite<'_>> = results
        .iter()
        .map(|(label, document)| Suite {
            label: *label,
            document,
            cases: test_cases(document),
            is_labelled: results.len() > 1,
        })
        .collect();
    let bytes = write(&suites).expect("memory takes everything");
    legal(&String::from_utf8(bytes).expect("only text was written"))
}

/// The XML document about a command that ended without a result.
pub(crate) fn junit_of_failure(command: &str, message: &str) -> String {
    let bytes = write_failure(command, message).expect("memory takes everything");
    legal(&String::from_utf8(bytes).expect("only text was written"))
}

fn write_failure(command: &str, message: &str) -> io::Result<Vec<u8>> {
    let case = TestCase {
        name: "measurement".to_owned(),
        end: CaseEnd::Invalid,
        sentence: message.to_owned(),
        details: Vec::new(),
        seconds: 0.0,
    };
    let totals = totals(&[&case], 0.0);
    let with_name = |name: String| [vec![("name", name)], totals.clone()].concat();
    document(&with_name("thalweg".to_owned()), |writer| {
        let attributes = with_name(format!("thalweg {command}"));
        let suite = writer.create_element("testsuite").with_attributes(pairs(&attributes));
        suite.write_inner_content(|writer| write_case(writer, command, &case.name, &case))?;
        Ok(())
    })
}

/// A text without the characters that no XML document may have, not even escaped (XML 1.0, 2.2).
fn legal(text: &str) -> String {
    let is_legal = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    text.chars().map(|c| if is_legal(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

fn write(suites: &[Suite<'_>]) -> io::Result<Vec<u8>> {
    let all: Vec<&TestCase> = suites.iter().flat_map(|suite| &suite.cases).collect();
    let mut attributes = vec![("name", "thalweg".to_owned())];
    attributes.extend(totals(&all, suites.iter().map(|suite| seconds(suite.document)).sum()));
    document(&attributes, |writer| suites.iter().try_for_each(|suite| write_suite(writer, suite)))
}

fn document(
    attributes: &[(&'static str, String)],
    write_suites: impl FnOnce(&mut Xml) -> io::Result<()>,
) -> io::Result<Vec<u8>> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    writer.create_element("testsuites").with_attributes(pairs(attributes)).write_inner_content(write_suites)?;
    let mut bytes = writer.into_inner();
    bytes.push(b'\n');
    Ok(bytes)
}

fn write_suite(writer: &mut Xml, suite: &Suite<'_>) -> io::Result<()> {
    let document = suite.document;
    let name = suite.label.map_or_else(|| document.plan.target.clone(), str::to_owned);
    let cases: Vec<&TestCase> = suite.cases.iter().collect();
    let mut attributes = vec![("name", name)];
    attributes.extend(totals(&cases, seconds(document)));
    // The format has no zone and no fraction.
    attributes.push(("timestamp", document.started.get(..19).unwrap_or(&document.started).to_owned()));
    attributes.push(("hostname", document.host.name.clone()));
    writer.create_element("testsuite").with_attributes(pairs(&attributes)).write_inner_content(|writer| {
        write_properties(writer, document)?;
        let label = suite.label.filter(|_| suite.is_labelled);
        suite.cases.iter().try_for_each(|case| {
            let name = label.map_or_else(|| case.name.clone(), |label| format!("{label}: {}", case.name));
            write_case(writer, document.kind.name(), &name, case)
        })
    })?;
    Ok(())
}

fn write_properties(writer: &mut Xml, document: &Document) -> io::Result<()> {
    let properties = [
        ("id", document.id.clone()),
        ("version", document.version.clone()),
        ("command", document.plan.command.join(" ")),
        ("target", document.plan.target.clone()),
        ("load", document.plan.load.clone()),
        ("verdict", document.verdict.name().to_owned()),
        ("answer", report::sentence(document)),
    ];
    writer.create_element("properties").write_inner_content(|writer| {
        for (name, value) in &properties {
            let attributes = [("name", *name), ("value", value.as_str())];
            writer.create_element("property").with_attributes(attributes).write_empty()?;
        }
        Ok(())
    })?;
    Ok(())
}

fn write_case(writer: &mut Xml, command: &str, name: &str, case: &TestCase) -> io::Result<()> {
    let attributes = [
        ("classname", format!("thalweg.{command}")),
        ("name", name.to_owned()),
        ("time", format!("{:.3}", case.seconds)),
    ];
    let (element, kind) = match case.end {
        CaseEnd::Passed => ("", ""),
        CaseEnd::Failed => ("failure", "limit missed"),
        CaseEnd::Invalid => ("error", "invalid measurement"),
        CaseEnd::Skipped => ("skipped", "not judged"),
    };
    writer.create_element("testcase").with_attributes(pairs(&attributes)).write_inner_content(|writer| {
        if !element.is_empty() {
            let attributes = [("message", case.sentence.as_str()), ("type", kind)];
            let element = writer.create_element(element).with_attributes(attributes);
            element.write_text_content(BytesText::new(&case.sentence))?;
        }
        if !case.details.is_empty() {
            let text = case.details.join("\n");
            writer.create_element("system-out").write_text_content(BytesText::new(&text))?;
        }
        Ok(())
    })?;
    Ok(())
}

/// The numbers of cases by their end, and the time of their trials.
fn totals(cases: &[&TestCase], seconds: f64) -> Vec<(&'static str, String)> {
    let count = |end: CaseEnd| cases.iter().filter(|case| case.end == end).count().to_string();
    vec![
        ("tests", cases.len().to_string()),
        ("failures", count(CaseEnd::Failed)),
        ("errors", count(CaseEnd::Invalid)),
        ("skipped", count(CaseEnd::Skipped)),
        ("time", format!("{seconds:.3}")),
    ]
}

/// Measured time of all trials.
fn seconds(document: &Document) -> f64 {
    document.trials.iter().map(|trial| trial.seconds).sum()
}

fn pairs<'a>(attributes: &'a [(&'static str, String)]) -> impl Iterator<Item = (&'a str, &'a str)> {
    attributes.iter().map(|(name, value)| (*name, value.as_str()))
}

#[cfg(test)]
mod tests {
    use thalweg_measure::Verdict;
    use thalweg_report::document::Trial;

    use super::super::fixture;
    use super::*;

    #[test]
    fn a_run_is_a_suite_with_a_case_for_each_limit() {
        let mut document = fixture::document(vec![fixture::trial()]);
        document.plan.limits = vec!["p99<5s".to_owned()];
        let expected = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="thalweg" tests="4" failures="1" errors="0" skipped="0" time="10.000">
  <testsuite name="http://127.0.0.1:8080/a.txt?b=1" tests="4" failures="1" errors="0" skipped="0" time="10.000" timestamp="2026-03-14T15:09:26" hostname="measurer">
    <properties>
      <property name="id" value="20260314T150926535Z-7c1e"/>
      <property name="version" value="0.1.0"/>
      <property name="command" value="thalweg run"/>
      <property name="target" value="http://127.0.0.1:8080/a.txt?b=1"/>
      <property name="load" value="open loop"/>
      <property name="verdict" value="fail"/>
"#;
        let xml = junit(&[(None, &document)]);
        assert!(xml.starts_with(expected), "{xml}");
        let expected = r#"
    <testcase classname="thalweg.run" name="errors&lt;=0%" time="10.000">
      <failure message="errors 0.750 % (15 of 2,000) miss the limit errors&lt;=0%" type="limit missed">errors 0.750 % (15 of 2,000) miss the limit errors&lt;=0%</failure>
      <system-out>errors: 20 of 2,000</system-out>
    </testcase>
"#;
        assert!(xml.contains(expected), "{xml}");
        assert!(xml.ends_with("</testsuites>\n"), "{xml}");
    }

    #[test]
    fn an_invalid_measurement_is_an_error_and_several_results_have_their_names() {
        let trial =
            Trial { verdict: Verdict::Invalid, reasons: vec!["the client sent late".into()], ..fixture::trial() };
        let document = Document { verdict: Verdict::Invalid, ..fixture::document(vec![trial]) };
        let xml = junit(&[(Some("a"), &document), (Some("b"), &document)]);
        for expected in [
            r#"<testsuites name="thalweg" tests="4" failures="0" errors="2" skipped="2" time="20.000">"#,
            r#"<testcase classname="thalweg.run" name="b: measurement" time="10.000">"#,
            r#"<error message="the client sent late" type="invalid measurement">the client sent late</error>"#,
            r#"type="not judged">"#,
        ] {
            assert!(xml.contains(expected), "{expected} in {xml}");
        }
    }

    #[test]
    fn a_command_without_a_result_is_an_error() {
        let xml = junit_of_failure("run", "cannot reach http://a/: connection refused");
        let expected = r#"
  <testsuite name="thalweg run" tests="1" failures="0" errors="1" skipped="0" time="0.000">
    <testcase classname="thalweg.run" name="measurement" time="0.000">
      <error message="cannot reach http://a/: connection refused" type="invalid measurement">"#;
        assert!(xml.contains(expected), "{xml}");
    }

    #[test]
    fn characters_that_xml_forbids_are_replaced() {
        let mut document = fixture::document(vec![fixture::trial()]);
        document.plan.target = "http://a/\u{1}\u{1b}[31m\"<&'\u{ffff}".to_owned();
        let xml = junit(&[(None, &document)]);
        assert!(xml.contains("http://a/\u{fffd}\u{fffd}[31m&quot;&lt;&amp;&apos;\u{fffd}"), "{xml}");
    }
}
