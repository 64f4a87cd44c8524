//! Results as pipelines read them: JUnit's XML by a parser of its own, annotations and the summary
//! of a step of GitHub Actions, Prometheus' metrics, and the exit codes beside them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{ExitedProcess, PATIENCE, Process, program, run_thalweg, thalweg};
use crate::repetition::valid;
use crate::server::{Server, Tree};

/// Turns JUnit's XML into JSON: each suite with its attributes, and each case with its end.
const READ: &str = r#"
import json, sys, xml.etree.ElementTree as tree
def case(element):
    ends = [child for child in element if child.tag in ("failure", "error", "skipped")]
    assert len(ends) <= 1
    end = {"end": ends[0].tag, "message": ends[0].get("message"), "text": ends[0].text} if ends else {"end": "passed"}
    return dict(element.attrib, **end)
def suite(element):
    properties = {item.get("name"): item.get("value") for item in element.iter("property")}
    return dict(element.attrib, properties=properties, cases=[case(item) for item in element.iter("testcase")])
root = tree.parse(sys.argv[1]).getroot()
assert root.tag == "testsuites"
print(json.dumps([suite(item) for item in root.iter("testsuite")]))
"#;

fn junit(path: &Path) -> Value {
    let mut python = Command::new(program(&["python3"], "python3"));
    let ended = Process::start(python.args(["-c", READ]).arg(path)).wait(PATIENCE);
    assert_eq!(ended.code, Some(0), "{ended:?}\n{}", fs::read_to_string(path).unwrap_or_default());
    serde_json::from_str(&ended.stdout).expect("the script prints JSON")
}

/// Name and end of each case of a suite.
fn cases(suite: &Value) -> Vec<(&str, &str)> {
    let cases = suite["cases"].as_array().expect("a suite has cases");
    cases.iter().map(|case| (case["name"].as_str().unwrap(), case["end"].as_str().unwrap())).collect()
}

const LOAD: [&str; 4] = ["--rate", "100/s", "--duration", "1s"];

/// Runs a load with these options, again while this machine is too busy.
fn run(url: &str, options: &[&str], summary: &Path) -> ExitedProcess {
    valid(|| {
        let mut command = thalweg(&[&["run", url], &LOAD[..], options].concat());
        // Lines that other attempts have left there do not count.
        let _ = fs::remove_file(summary);
        Process::start(command.env("GITHUB_STEP_SUMMARY", summary)).wait(PATIENCE)
    })
}

#[test]
fn a_target_that_is_not_there_leaves_an_error() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("junit.xml");
    let path = file.to_str().unwrap();
    // Nothing listens at the lowest port.
    let ended = run_thalweg(&["find", "http://127.0.0.1:1/", "--format", "github", "--report-junit", path]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    let said = ended.stderr.trim().strip_prefix("thalweg: ").expect("stderr has the message");
    assert_eq!(ended.stdout, format!("::error title=thalweg find::{said}\n"), "{ended:?}");
    let suites = junit(&file);
    assert_eq!(cases(&suites[0]), [("measurement", "error")], "{suites}");
    assert_eq!(suites[0]["cases"][0]["message"], said, "{suites}");
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn a_missed_limit_fails_a_pipeline_with_a_sentence() {
        let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
        let server = Server::of(&tree, &[]);
        let (file, summary) = (folder.path().join("junit.xml"), folder.path().join("summary.md"));
        let url = format!("{}/none.txt", server.url);
        let options = ["--limit", "p99<5s", "--format", "github", "--report-junit", file.to_str().unwrap()];
        let ended = run(&url, &options, &summary);
        assert_eq!(ended.code, Some(1), "{ended:?}");

        let suites = junit(&file);
        let suite = &suites[0];
        assert_eq!(suites.as_array().map(Vec::len), Some(1), "{suites}");
        let expected =
            [("measurement", "passed"), ("p99<5s", "failure"), ("errors<=0%", "failure"), ("offered load", "passed")];
        assert_eq!(cases(suite), expected, "{suite}");
        assert_eq!([&suite["tests"], &suite["failures"], &suite["errors"]], ["4", "2", "0"], "{suite}");
        assert_eq!([&suite["name"], &suite["properties"]["verdict"]], [url.as_str(), "fail"], "{suite}");
        let sentence = "errors 100 % (100 of 100) miss the limit errors<=0%";
        assert_eq!([&suite["cases"][2]["message"], &suite["cases"][2]["text"]], [sentence, sentence], "{suite}");

        let annotation = "::error title=thalweg run%3A FAIL%3A p99<5s::no response was measured, so p99<5s cannot be confirmed\n\
             ::error title=thalweg run%3A FAIL%3A errors<=0%25::errors 100 %25 (100 of 100) miss the limit errors<=0%25";
        assert_eq!(ended.stdout.trim_end(), annotation, "{ended:?}");
        let summary = fs::read_to_string(summary).expect("the step has a summary");
        assert!(summary.starts_with("### thalweg run: FAIL\n\n```text\nFAIL  GET http://"), "{summary}");
        assert!(summary.contains(sentence) && summary.trim_end().ends_with("```"), "{summary}");
    }

    #[test]
    fn a_met_limit_passes_in_all_forms_and_a_stored_run_is_printed_again() {
        let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
        let server = Server::of(&tree, &[]);
        let [file, again, store, summary] =
            ["junit.xml", "again.xml", "runs.sqlite", "none.md"].map(|name| folder.path().join(name));
        let url = format!("{}/text.txt", server.url);
        let stored = ["--store", store.to_str().unwrap(), "--label", "nightly"];
        let options = ["--limit", "p99<5s", "--format", "prometheus", "--report-junit", file.to_str().unwrap()];
        let ended = run(&url, &[&options[..], &stored].concat(), &summary);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(!summary.exists(), "only the annotations come with a summary");
        let labels = format!("kind=\"run\",target=\"{url}\",label=\"nightly\"");
        for (series, value) in [
            (format!("verdict{{{labels},verdict=\"pass\"}}"), "1.0"),
            (format!("verdict{{{labels},verdict=\"fail\"}}"), "0.0"),
            (format!("limit_met{{{labels},limit=\"p99<5s\"}}"), "1.0"),
            (format!("requests{{{labels},stage=\"good\"}}"), "100.0"),
            (format!("response_time_seconds_count{{{labels}}}"), "100"),
        ] {
            let line = format!("thalweg_result_{series} {value}");
            assert!(ended.stdout.lines().any(|found| found == line), "{line} in\n{}", ended.stdout);
        }
        let typed = "# TYPE thalweg_result_response_time_seconds summary";
        assert!(ended.stdout.lines().any(|line| line == typed), "{}", ended.stdout);

        let suites = junit(&file);
        assert!(cases(&suites[0]).iter().all(|(_, end)| *end == "passed"), "{suites}");
        assert_eq!(suites[0]["name"], "nightly", "{suites}");
        let report = |form: &str, to: &Path| {
            let to = to.to_str().unwrap();
            run_thalweg(&["report", "last", "--store", store.to_str().unwrap(), "--format", form, "--out", to])
        };
        let reported = report("junit", &again);
        assert_eq!(reported.code, Some(0), "{reported:?}");
        assert_eq!(fs::read(&again).unwrap(), fs::read(&file).unwrap(), "a stored run gives the same file");
        let prometheus = folder.path().join("again.prom");
        assert_eq!(report("prometheus", &prometheus).code, Some(0));
        assert_eq!(fs::read_to_string(&prometheus).unwrap(), ended.stdout);
        let github = folder.path().join("again.txt");
        assert_eq!(report("github", &github).code, Some(0));
        let notice = fs::read_to_string(&github).unwrap();
        let expected = "::notice title=nightly%3A thalweg run%3A PASS::100/s offered for 1 s: all 100 requests good";
        assert!(notice.starts_with(expected), "{notice}");
    }

    #[test]
    fn each_rate_of_a_sweep_is_a_case() {
        let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
        let server = Server::of(&tree, &[]);
        let (file, url) = (folder.path().join("junit.xml"), format!("{}/text.txt", server.url));
        let rates =
            ["--low-rate", "50/s", "--high-rate", "150/s", "--step", "50/s", "--duration", "500ms", "--warmup", "0s"];
        let path = file.to_str().unwrap();
        let ended = valid(|| run_thalweg(&[&["sweep", &url, "--report-junit", path], &rates[..]].concat()));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let suites = junit(&file);
        let names: Vec<&str> = cases(&suites[0]).iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["at 50.0/s", "at 100/s", "at 150/s"], "{suites}");
        assert!(cases(&suites[0]).iter().all(|(_, end)| ["passed", "skipped"].contains(end)), "{suites}");
    }
}
