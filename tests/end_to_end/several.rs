//! `thalweg find` of several targets.

use std::fs;
use std::time::Duration;

use tempfile::TempDir;

use crate::document;
use crate::process::{ExitedProcess, Process, free_port, run_thalweg, thalweg};
use crate::repetition::valid;
use crate::yardstick_server::Yardstick;

const SEARCHES_PATIENCE: Duration = Duration::from_secs(120);
/// Short searches, of which none has an overload.
const SHORT: [&str; 8] = ["--duration", "500ms", "--width", "20%", "--budget", "5s", "--overload", "no"];

fn find(arguments: &[&str]) -> ExitedProcess {
    Process::start(&mut thalweg(&[&["find"], arguments, &SHORT].concat())).wait(SEARCHES_PATIENCE)
}

#[test]
fn what_takes_one_target_is_refused() {
    let one = Yardstick::start("1ms");
    for further in [&["--format", "ab"][..], &["--hdr", "x.hdr"], &["--restarts", "2", "--restart-cmd", "true"]] {
        let ended = find(&[&[one.url().as_str(), &one.url()], further].concat());
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains("takes one URL; 2 are given"), "{}", ended.stderr);
    }
    let nobody = format!("http://127.0.0.1:{}/", free_port());
    let ended = find(&[&one.url(), &nobody]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(4), ""),
        "no target is searched where one is missing: {ended:?}"
    );
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    #[test]
    fn documents_are_a_list() {
        let (slow, quick) = (Yardstick::start("4ms"), Yardstick::start("2ms"));
        let ended = valid(|| find(&[&slow.url(), &quick.url(), "--json"]));
        let documents: Vec<serde_json::Value> = serde_json::from_str(&ended.stdout).expect("a list");
        assert_eq!(documents.len(), 2);
        documents.iter().for_each(document::keeps_the_contract);
    }

    #[test]
    fn targets_share_one_report_and_are_stored_on_their_own() {
        let (slow, quick) = (Yardstick::start("4ms"), Yardstick::start("2ms"));
        let folder = TempDir::new().expect("a temporary folder can be made");
        let (report, store) = (folder.path().join("both.html"), folder.path().join("runs.sqlite"));
        let (slow, quick) = (format!("slow={}", slow.url()), format!("quick one={}", quick.url()));
        let [report_path, store_path] = [&report, &store].map(|path| path.to_str().expect("plain names"));
        let ended = valid(|| find(&[&slow, &quick, "--out", report_path, "--store", store_path]));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stderr.contains("2 of 2: quick one (http://127.0.0.1:"), "{}", ended.stderr);
        let summary = ended.stdout.split_once("95 % interval  ").expect("a summary").1;
        assert!(summary.contains("\nslow ") && summary.contains("\nquick one "), "{}", ended.stdout);
        let page = fs::read_to_string(&report).expect("it was written");
        assert!(page.contains(">slow<") && page.contains(">quick one<"), "both are in the figure");
        let runs = run_thalweg(&["runs", "--store", store_path]);
        assert!(runs.stdout.contains("slow") && runs.stdout.contains("quick one"), "{runs:?}");
    }
}
