//! Folders as curl gets them listed and as Chromium shows them.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::curl;
use crate::process::{PATIENCE, Process, program};
use crate::server::{Server, Tree};

#[test]
fn a_folder_is_listed_when_that_is_asked_for() {
    let tree = Tree::new();
    let server = Server::of(&tree, &["--listing"]);
    let list = curl::fetch(&[], &format!("{}/bare/?format=json", server.url));
    assert_eq!((list.status, list.field("Content-Type")), (200, "application/json"));
    let text = String::from_utf8(list.body.clone()).expect("JSON is UTF-8");
    assert!(text.contains("\"href\":\"file.txt\""), "{text}");
    let tag = format!("If-None-Match: {}", list.field("ETag"));
    assert_eq!(curl::fetch(&["--header", &tag], &format!("{}/bare/?format=json", server.url)).status, 304);
    // A folder with an index is what it was.
    assert_eq!(curl::fetch(&[], &format!("{}/folder/", server.url)).body, b"<h1>folder</h1>");
}

#[test]
fn no_name_and_no_header_runs_in_a_browser() {
    let tree = Tree::new();
    let folder = tree.root().join("odd");
    fs::create_dir(&folder).expect("a folder can be made");
    let names = ["<img src=x onerror=\"document.title='ran'\">", "javascript:document.title='ran'", "\" onclick=\"x"];
    for name in names {
        fs::write(folder.join(name), "").expect("a file can be written");
    }
    let header =
        "<p id=welcome>Welcome</p><script>document.title='ran'</script><img src=x onerror=\"document.title='ran'\">";
    fs::write(folder.join("HEADER.html"), header).expect("a file can be written");
    let server = Server::of(&tree, &["--listing"]);

    let profile = TempDir::new().expect("a temporary folder can be made");
    let chromium = program(&["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"], "chromium");
    let mut command = Command::new(chromium);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
    command.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
    command.args(["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--virtual-time-budget=5000"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    let ended = Process::start(command.arg("--dump-dom").arg(format!("{}/odd/", server.url))).wait(PATIENCE);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let page = &ended.stdout;
    assert!(page.contains("<title>Index of /odd/</title>"), "a script has run: {page}");
    assert!(page.contains("<p id=\"welcome\">Welcome</p>"), "{page}");
    assert!(page.contains("&lt;img src=x onerror="), "a name is shown as it is: {page}");
    assert!(!page.contains("onclick=\"x\""), "{page}");
    assert!(!page.contains("href=\"javascript:"), "{page}");
}
