//! The programs that people download with: each is killed in the middle of a download, goes on with
//! it, and has the whole.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::content::numbered;
use crate::curl;
use crate::process::{PATIENCE, Process, program, until};
use crate::server::{Server, Tree};

/// Enough to be interrupted.
const BYTES: usize = 24_000_000;

/// When a download is interrupted: it has begun, and is far from its end.
const PART_BYTES: u64 = 1_000_000;

/// How fast it comes the first time, as all of them write it.
const RATE: &str = "6000000";

fn content() -> Vec<u8> {
    numbered(BYTES)
}

/// Starts a download to `out` with the first command, kills it with a signal when it has put down
/// how far it is in the file `record`, and lets the second one end it.
fn check(name: &str, signal: &str, record: &str, command: impl Fn(&str, &Path, bool) -> Command) {
    let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
    let content = content();
    fs::write(tree.root().join("long.bin"), &content).unwrap();
    let server = Server::of(&tree, &[]);
    let (url, out) = (format!("{}/long.bin", server.url), folder.path().join("out"));
    let first = Process::start(command(&url, &out, true).current_dir(folder.path()));
    let has = |file: &Path, bytes: u64| fs::metadata(file).is_ok_and(|file| file.len() >= bytes);
    let has_part = || (has(&out, PART_BYTES) && has(&folder.path().join(record), 1)).then_some(());
    until(&format!("{name} to download a part"), PATIENCE, has_part);
    first.signal(signal);
    let ended = first.wait(PATIENCE);
    assert_ne!(ended.code, Some(0), "{name} was not interrupted: {ended:?}");

    let again = Process::start(command(&url, &out, false).current_dir(folder.path())).wait(PATIENCE);
    assert_eq!(again.code, Some(0), "{name}: {again:?}");
    assert!(fs::read(&out).unwrap() == content, "{name} has put together something else");
}

#[test]
fn curl_goes_on_with_a_download() {
    check("curl", "KILL", "out", |url, out, slowly| {
        let mut command = curl::command();
        command.args(if slowly { &["--limit-rate", RATE][..] } else { &["--continue-at", "-"] });
        command.arg("--output").arg(out).arg(url);
        command
    });
}

#[test]
fn wget_goes_on_with_a_download() {
    check("wget", "KILL", "out", |url, out, slowly| {
        let mut command = Command::new(program(&["wget"], "wget"));
        command.args(["--no-config", "--no-proxy", "--continue", "--tries=1", "-O"]).arg(out).arg(url);
        if slowly {
            command.arg(format!("--limit-rate={RATE}"));
        }
        command
    });
}

#[test]
fn aria2_goes_on_with_a_download_in_16_parts() {
    // It saves the list of its parts when it receives the signal to end.
    check("aria2c", "INT", "out", |url, out, slowly| {
        let mut command = Command::new(program(&["aria2c"], "aria2"));
        command.args([
            "--no-conf",
            "--continue",
            "--split=16",
            "--max-connection-per-server=16",
            "--min-split-size=1M",
        ]);
        command.args(["--file-allocation=none", "--allow-overwrite=true", "--auto-file-renaming=false", "--out=out"]);
        if slowly {
            command.arg(format!("--max-overall-download-limit={RATE}"));
        }
        command.arg(format!("--dir={}", out.parent().unwrap().display())).arg(url);
        command
    });
}

#[test]
fn lftp_goes_on_with_a_download() {
    check("lftp", "KILL", "out", |url, _, slowly| lftp(slowly, &format!("get -c {url} -o out")));
}

#[test]
fn lftp_goes_on_with_a_download_in_8_parts() {
    check("lftp", "KILL", "out.lftp-pget-status", |url, _, slowly| {
        lftp(slowly, &format!("set pget:save-status 1s; pget -c -n 8 {url} -o out"))
    });
}

fn lftp(slowly: bool, what: &str) -> Command {
    let mut command = Command::new(program(&["lftp"], "lftp"));
    let rate = if slowly { format!("set net:limit-total-rate {RATE};") } else { String::new() };
    command.args(["--norc", "-c", &format!("set http:proxy ''; set cmd:fail-exit true; {rate} {what}")]);
    command
}

/// Chromium without a window and without background activity.
fn chromium(profile: &Path, url: &str) -> Command {
    let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    let mut command = Command::new(program(&names, "chromium"));
    command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    command.args([
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-proxy-server",
    ]);
    command.arg(format!("--user-data-dir={}", profile.display())).arg(url);
    command
}

#[test]
fn chromium_downloads_a_file() {
    let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
    let (profile, downloads) = (folder.path().join("profile"), folder.path().join("downloads"));
    fs::create_dir_all(profile.join("Default")).unwrap();
    let preferences = format!(r#"{{"download": {{"default_directory": "{}"}}}}"#, downloads.display());
    fs::write(profile.join("Default/Preferences"), preferences).unwrap();
    fs::write(tree.root().join("long.bin"), content()).unwrap();
    let server = Server::of(&tree, &[]);
    let browser = Process::start(&mut chromium(&profile, &format!("{}/long.bin", server.url)));
    // It has another name until it is whole.
    let file = downloads.join("long.bin");
    until("the download", PATIENCE, || fs::metadata(&file).is_ok_and(|has| has.len() == BYTES as u64).then_some(()));
    assert!(fs::read(&file).unwrap() == content());
    drop(browser);
}

/// A page that downloads a file in two halves, the second on the condition that the file is still
/// the same, and checks each byte. Its requests are synchronous, so that the page is not complete
/// before.
const PAGE: &str = r#"<!doctype html><title>halves</title><p id="has">waits</p><script>
const part = (fields) => {
    const request = new XMLHttpRequest();
    request.open("GET", "long.bin", false);
    request.overrideMimeType("text/plain; charset=x-user-defined");
    for (const [name, value] of Object.entries(fields)) request.setRequestHeader(name, value);
    request.send();
    return request;
};
const first = part({"Range": "bytes=0-11999999"});
const second = part({"Range": "bytes=12000000-", "If-Range": first.getResponseHeader("ETag")});
const bytes = first.responseText + second.responseText;
const byte = (at) => bytes.charCodeAt(at) & 255;
// As `content::numbered` has written it.
const word = (at) => (at & 4095) < 4 ? at >>> 12 : Math.imul((at & 4095) >>> 2, 0x9e3779b9);
let good = 0;
while (good < bytes.length && byte(good) === (word(good) >>> (24 - 8 * (good & 3)) & 255)) good += 1;
document.getElementById("has").textContent = `${first.status} ${second.status} ${good} good of ${bytes.length} bytes`;
</script>"#;

#[test]
fn chromium_puts_a_file_together_from_ranges() {
    let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
    fs::write(tree.root().join("long.bin"), content()).unwrap();
    fs::write(tree.root().join("halves.html"), PAGE).unwrap();
    let server = Server::of(&tree, &[]);
    let mut command = chromium(folder.path(), &format!("{}/halves.html", server.url));
    let ended = Process::start(command.args(["--dump-dom"])).wait(PATIENCE);
    assert!(ended.stdout.contains("206 206 24000000 good of 24000000 bytes"), "{ended:?}");
}
