//! `thalweg demo`, whole.

use std::fs;
use std::time::Duration;

use tempfile::TempDir;

use crate::process::{ExitedProcess, Process, thalweg};
use crate::repetition::valid;

/// Makes a demonstration in a folder.
fn demo(options: &[&str], folder: &TempDir) -> ExitedProcess {
    Process::start(thalweg(&[&["demo"], options].concat()).current_dir(folder.path())).wait(Duration::from_secs(180))
}

/// Checks that a demonstration has come to its end. Returns its report. A host that other programs
/// keep busy has no answer, and its report all the same.
fn report(ended: &ExitedProcess, folder: &TempDir) -> String {
    let busy = ["too busy with other programs", "so something else uses its CPUs"];
    let is_busy = ended.code == Some(3) && busy.iter().any(|words| ended.stdout.contains(words));
    assert!(ended.code == Some(0) || is_busy, "{ended:?}");
    let path =
        ended.stdout.lines().find_map(|line| line.strip_prefix("report: ")).expect("it says where the report is");
    let html = fs::read_to_string(path).expect("the report is there");
    assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"));
    for part in ["bottleneck: ", " pairs of rounds "] {
        assert!(ended.stdout.contains(part), "no {part}: {ended:?}");
    }
    for part in ["capacity search", "Results by offered rate", "<h2>The comparison</h2>", "cpu_per_request"] {
        assert!(html.contains(part), "the report has no {part}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing lies beside the report");
    html
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    #[test]
    fn the_demo_ends_and_leaves_a_report() {
        let folder = TempDir::new().unwrap();
        report(&demo(&[], &folder), &folder);
    }

    #[test]
    #[ignore = "a minute more: make test-full"]
    fn the_demo_ends_and_leaves_a_report_over_tls() {
        let folder = TempDir::new().unwrap();
        let html = report(&demo(&["--tls"], &folder), &folder);
        assert!(html.contains("https://"), "the target is over TLS");
    }

    #[test]
    #[ignore = "make test-full"]
    fn the_demo_finds_a_capacity_and_compares() {
        let folder = TempDir::new().unwrap();
        let ended = valid(|| demo(&[], &folder));
        report(&ended, &folder);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stdout.contains("pairs of rounds that count"), "{ended:?}");
    }
}
