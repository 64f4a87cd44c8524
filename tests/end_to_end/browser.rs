//! Chromium opens a report, without a network.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::process::{PATIENCE, Process, program};

/// Opens a report.
pub(crate) fn draws_without_a_network_and_without_an_error(report: &Path) {
    let profile = TempDir::new().unwrap();
    let chromium = program(&["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"], "chromium");
    let mut command = Command::new(chromium);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    // Any request of the page would find no address.
    command.args(["--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--virtual-time-budget=10000"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    // It leaves a folder for temporary files behind.
    command.env("TMPDIR", profile.path());
    let ended = Process::start(command.arg("--dump-dom").arg(format!("file://{}", report.display()))).wait(PATIENCE);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);

    let page = &ended.stdout;
    let figures = page.matches("class=\"chart\"").count();
    assert!(figures >= 4, "the page has {figures} charts");
    // The page's script has run to its end: it makes a label for each chart, and the last thing
    // that it does is to show a button.
    assert_eq!(page.matches("class=\"values\"").count(), figures, "charts with values under the pointer");
    assert!(page.contains("<p class=\"download\">"), "the document can be downloaded");
    // Errors of scripts, and what the content security policy has kept from the network, both come
    // here.
    let console: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert_eq!(console, Vec::<&str>::new());
}
