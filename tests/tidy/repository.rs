//! The files of the repository: those that git tracks or would track.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::source::Source;

/// The folder of the checkout that this test was compiled in.
pub(crate) const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The files of that checkout.
pub(crate) static REPOSITORY: LazyLock<Repository> = LazyLock::new(Repository::read);

pub(crate) struct Repository {
    root: PathBuf,
    /// Paths from the root, sorted.
    pub(crate) files: Vec<String>,
    /// The Rust files, parsed.
    pub(crate) sources: Vec<Source>,
}

impl Repository {
    fn read() -> Self {
        let root = PathBuf::from(ROOT);
        let files = tracked(&root).unwrap_or_else(|| walked(&root));
        assert!(files.len() > 300, "the repository has {} files only", files.len());
        let rust: Vec<_> = files.iter().filter(|file| file.ends_with(".rs")).collect();
        let half = rust.len() / 2;
        let parse = |files: &[&String]| -> Vec<Source> {
            files.iter().map(|file| Source::parse(file, fs::read_to_string(root.join(file)).unwrap())).collect()
        };
        let sources = std::thread::scope(|scope| {
            let first = scope.spawn(|| parse(&rust[..half]));
            let second = parse(&rust[half..]);
            first.join().unwrap().into_iter().chain(second).collect()
        });
        Self { root, files, sources }
    }

    pub(crate) fn text(&self, file: &str) -> String {
        fs::read_to_string(self.root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
    }

    /// The text of a file, unless it is none or not UTF-8.
    pub(crate) fn text_if_any(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.root.join(file)).ok()
    }

    pub(crate) fn bytes(&self, file: &str) -> u64 {
        fs::symlink_metadata(self.root.join(file)).map_or(0, |metadata| metadata.len())
    }

    /// A file or a folder that holds one.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let at = self.files.partition_point(|file| file.as_str() < path);
        // Between a folder and its files, names such as `folder-2` may stand.
        self.files[at..].iter().take_while(|file| file.starts_with(path)).any(|file| {
            let rest = &file[path.len()..];
            rest.is_empty() || rest.starts_with('/')
        })
    }

    /// The manifests of the workspace's packages, each with its folder.
    pub(crate) fn packages(&self) -> Vec<Package> {
        let manifests = self.files.iter().filter(|file| file.ends_with("/Cargo.toml"));
        manifests.map(|file| Package::read(file.trim_end_matches("/Cargo.toml"), &self.text(file))).collect()
    }
}

/// A package, as its Cargo.toml describes it.
pub(crate) struct Package {
    /// The folder, from the repository's root.
    pub(crate) folder: String,
    pub(crate) manifest: toml::Table,
}

impl Package {
    pub(crate) fn read(folder: &str, manifest: &str) -> Self {
        let manifest = manifest.parse().unwrap_or_else(|error| panic!("{folder}/Cargo.toml: {error}"));
        Self { folder: folder.to_owned(), manifest }
    }

    /// The last part of the folder, such as `serve`.
    pub(crate) fn short_name(&self) -> &str {
        self.folder.rsplit('/').next().unwrap_or_default()
    }

    /// Names of the packages in one of its tables of dependencies.
    pub(crate) fn dependencies(&self, table: &str) -> Vec<String> {
        self.manifest
            .get(table)
            .and_then(toml::Value::as_table)
            .map_or_else(Vec::new, |table| table.keys().cloned().collect())
    }

    /// Root files of tests, examples and programs that the manifest names, from the repository's
    /// root.
    pub(crate) fn named_targets(&self) -> Vec<String> {
        let tables = ["bin", "test", "example", "bench"].iter().filter_map(|kind| self.manifest.get(*kind)?.as_array());
        let paths = tables.flatten().filter_map(|target| target.get("path")?.as_str());
        paths.map(|path| joined(&self.folder, path)).collect()
    }
}

/// A relative path from a folder, without `.` and `..`.
pub(crate) fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<_> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Files that git tracks, or would with `git add`; none outside of a git checkout.
fn tracked(root: &Path) -> Option<Vec<String>> {
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = git.output().ok().filter(|output| output.status.success())?;
    let names = String::from_utf8(output.stdout).expect("paths are UTF-8");
    let exists = |file: &str| root.join(file).symlink_metadata().is_ok();
    let mut files: Vec<_> =
        names.split('\0').filter(|file| !file.is_empty() && exists(file)).map(str::to_owned).collect();
    files.sort();
    files.dedup();
    (!files.is_empty()).then_some(files)
}

/// All files but those that builds make, for a source archive.
fn walked(root: &Path) -> Vec<String> {
    let (mut files, mut folders) = (Vec::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder)).unwrap().map(Result::unwrap) {
            let path = joined(&folder, &entry.file_name().to_string_lossy());
            match entry.file_type().unwrap().is_dir() {
                true if ["target", ".git"].contains(&entry.file_name().to_str().unwrap_or_default()) => {}
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    files
}

#[test]
fn paths_are_joined_without_dots() {
    assert_eq!(joined("crates/cli", "../../tests/tidy/main.rs"), "tests/tidy/main.rs");
    assert_eq!(joined("", "./docs//http.md"), "docs/http.md");
}

#[test]
fn a_folder_is_found_by_its_files() {
    let files = ["a-b/x", "a/x", "ab"].map(str::to_owned).to_vec();
    let repository = Repository { root: PathBuf::new(), files, sources: Vec::new() };
    for (path, there) in [("a", true), ("a/", true), ("a/x", true), ("a-", false), ("b", false), ("ab", true)] {
        assert_eq!(repository.has(path), there, "{path}");
    }
}
