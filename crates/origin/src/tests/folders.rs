//! A tree of local files as an origin.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::{Duration, SystemTime};

use hyper::Method;
use tempfile::TempDir;

use super::server::{ask, get, post};
use crate::config::{GroupConfig, OriginConfig, OriginKind};
use crate::failure::FailureKind;
use crate::group::OriginGroup;
use crate::message::Request;
use crate::response::Note;

fn group(root: &Path) -> OriginGroup {
    let mut config = OriginConfig::new("a", OriginKind::Tree { root: root.into() });
    config.limits.entries_max = 10;
    OriginGroup::new(vec![config], GroupConfig::default()).unwrap()
}

/// Makes a file whose last change is long ago.
fn settled(path: &Path, content: &[u8]) {
    fs::write(path, content).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)).unwrap();
}

#[tokio::test]
async fn files_are_read_beneath_the_root_alone() {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("sub dir")).unwrap();
    settled(&dir.path().join("secret"), b"secret");
    settled(&root.join("file"), b"0123456789");
    settled(&root.join("sub dir/b"), b"b");
    symlink("sub dir/b", root.join("link")).unwrap();
    symlink("../secret", root.join("out")).unwrap();
    let group = group(&root);
    for (path, expected) in [
        ("/file", "200 0123456789"),
        ("/file?query", "200 0123456789"),
        ("/sub%20dir/b", "200 b"),
        ("/link", "200 b"),
        ("/out", "404 "),
        ("/../secret", "404 "),
        ("/%2e%2e/secret", "404 "),
        ("/missing", "404 "),
        ("/file/", "404 "),
        ("/file/x", "404 "),
        ("/sub%20dir/", "404 "),
        ("/sub%20dir?q", "301 "),
        ("/", "404 "),
        ("/%zz", "404 "),
    ] {
        assert_eq!(get(&group, path).await, expected, "{path}");
    }
    assert_eq!(post(&group, "/file", "x").await, "405 ");
    let folder = group.fetch(&Request::get("/sub%20dir?q")).await.unwrap();
    assert_eq!((folder.field("Location"), &folder.note), (Some(&b"./sub%20dir/?q"[..]), &Some(Note::Folder)));
    assert_eq!(group.statistics()[0].failures, []);
}

#[tokio::test]
async fn ranges_and_conditions_are_answered() {
    let dir = TempDir::new().unwrap();
    settled(&dir.path().join("file"), b"0123456789");
    let group = group(dir.path());
    let head = group.fetch(&Request::new(Method::HEAD, "/file")).await.unwrap();
    assert_eq!((head.status, head.length), (200, Some(10)));
    assert_eq!(head.field("last-modified"), Some(&b"Sun, 06 Nov 1994 08:49:37 GMT"[..]));
    // The change time cannot be set: the tag is weak for the first seconds.
    let tag = head.field("etag").unwrap().to_owned();
    assert!(tag.starts_with(b"W/\""), "{}", tag.escape_ascii());
    assert_eq!(head.body.collect(99).await.unwrap().unwrap(), "");
    let part = group.fetch(&Request::get("/file").with("Range", "bytes=2-4")).await.unwrap();
    assert_eq!((part.status, part.length), (206, Some(3)));
    assert_eq!(part.field("Content-Range"), Some(&b"bytes 2-4/10"[..]));
    assert_eq!(part.body.collect(99).await.unwrap().unwrap(), "234");
    let beyond = group.fetch(&Request::get("/file").with("Range", "bytes=10-")).await.unwrap();
    assert_eq!((beyond.status, beyond.field("Content-Range")), (416, Some(&b"bytes */10"[..])));
    assert_eq!(ask(&group, Request::get("/file").with("If-None-Match", &tag)).await, "304 ");
    assert_eq!(
        ask(&group, Request::get("/file").with("If-Range", &tag).with("Range", "bytes=0-0")).await,
        "200 0123456789"
    );
}

#[tokio::test]
async fn a_large_file_comes_in_pieces_and_one_that_changes_is_cut_off() {
    let dir = TempDir::new().unwrap();
    let content: Vec<u8> = (0..1_000_000_u32).map(|byte| (byte % 251) as u8).collect();
    settled(&dir.path().join("file"), &content);
    let group = group(dir.path());
    let answer = group.fetch(&Request::get("/file")).await.unwrap();
    assert_eq!(answer.body.collect(1 << 20).await.unwrap().unwrap(), content);
    let mut answer = group.fetch(&Request::get("/file")).await.unwrap();
    let first = answer.body.next().await.unwrap().unwrap();
    fs::write(dir.path().join("file"), vec![1; content.len()]).unwrap();
    let error = loop {
        match answer.body.next().await.expect("it must not end well") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!((error.failure.kind, error.expected), (FailureKind::Read, Some(1_000_000)));
    assert!(error.received >= first.len() as u64 && error.received < 1_000_000, "{error}");
    assert_eq!(group.statistics()[0].requests, 0);
}

#[tokio::test]
async fn folders_are_listed_up_to_a_bound() {
    let dir = TempDir::new().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("b")).unwrap();
    settled(&root.join("a"), b"12345");
    settled(&dir.path().join("secret"), b"");
    symlink("a", root.join("link")).unwrap();
    symlink("../secret", root.join("out")).unwrap();
    let group = group(&root);
    let listing = group.list("/").await.unwrap().unwrap();
    let shown: Vec<_> = listing
        .entries
        .iter()
        .map(|entry| (str::from_utf8(&entry.name).unwrap(), entry.is_folder, entry.size))
        .collect();
    assert_eq!(shown, [("a", false, Some(5)), ("b", true, None), ("link", false, Some(5))]);
    assert!(listing.is_complete);
    assert_eq!(listing.entries[0].modified, Some(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777)));
    for path in ["/missing", "/a", "/out/"] {
        assert_eq!(group.list(path).await, Ok(None), "{path}");
    }
    for number in 0..20 {
        settled(&root.join(format!("b/{number}")), b"");
    }
    let listing = group.list("/b").await.unwrap().unwrap();
    assert_eq!((listing.entries.len(), listing.is_complete), (10, false));
}
