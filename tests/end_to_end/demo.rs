//! `thalweg demo`, whole.

use std::fs;
use std::time::Duration;

use tempfile::TempDir;

use crate::process::{Process, thalweg};
use crate::repetition::valid;

/// Makes the demonstration. Returns its report.
fn whole(command: &[&str]) -> String {
    let folder = TempDir::new().unwrap();
    let ended = valid(|| Process::start(thalweg(command).current_dir(folder.path())).wait(Duration::from_secs(180)));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let path =
        ended.stdout.lines().find_map(|line| line.strip_prefix("report: ")).expect("it says where the report is");
    let html = fs::read_to_string(path).expect("the report is there");
    assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"));
    assert!(ended.stdout.contains("bottleneck: "), "{ended:?}");
    assert!(ended.stdout.contains("pairs of rounds that count"), "a comparison: {ended:?}");
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
        whole(&["demo"]);
        let document = whole(&["demo", "--tls"]);
        assert!(document.contains("https://"), "the target is over TLS");
    }
}
