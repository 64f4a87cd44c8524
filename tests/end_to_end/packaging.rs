//! The Debian package and the tarball, built from the program under test; the crates, packaged as
//! for a registry.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::machine;
use crate::process::{ExitedProcess, PATIENCE, Process, program};

const REPOSITORY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Runs a program to its end, which has to be a good one.
#[track_caller]
fn succeed(command: &mut Command) -> ExitedProcess {
    let ended = Process::start(command).wait(PATIENCE);
    assert_eq!(ended.code, Some(0), "{command:?}: {ended:?}");
    ended
}

/// Builds both archives in a folder; the output of the script.
fn build(folder: &Path) -> String {
    let mut package = Command::new(format!("{REPOSITORY}/packaging/package"));
    package.arg(env!("CARGO_BIN_EXE_thalweg")).arg(folder).arg("--quick");
    // Any time does, as long as it is the same.
    succeed(package.env("SOURCE_DATE_EPOCH", "1700000000")).stdout
}

/// The file in a folder whose name ends so.
fn file(folder: &Path, end: &str) -> PathBuf {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found = entries.filter(|path| path.to_str().unwrap().ends_with(end));
    found.next().unwrap_or_else(|| panic!("no *{end} in {}", folder.display()))
}

#[test]
fn the_package_is_installed_removed_and_purged_in_a_clean_root() {
    let _machine = machine::shared();
    let folder = TempDir::new().unwrap();
    let said = build(folder.path());
    let package = file(folder.path(), ".deb");
    let glibc = said.split("runs with glibc ").nth(1).and_then(|rest| rest.split(' ').next()).expect(&said);
    let depends = succeed(Command::new("dpkg-deb").arg("--field").arg(&package).arg("Depends")).stdout;
    assert!(depends.contains(&format!("libc6 (>= {glibc})")), "{depends} beside {said}");

    let mut inside = Command::new("unshare");
    inside.args(["--user", "--map-root-user", "--mount", "sh"]);
    inside.arg(format!("{REPOSITORY}/tests/end_to_end/packaging.sh")).arg(&package).arg(folder.path().join("root"));
    let ended = Process::start(&mut inside).wait(PATIENCE);
    if ended.code == Some(99) || ended.stderr.contains("unshare") {
        let why = ended.stderr.trim();
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: packaging: this host allows no mounts ({why}); run as root");
        return;
    }
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn archives_of_the_same_program_are_equal() {
    let _machine = machine::shared();
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    build(one.path());
    build(other.path());
    for end in [".deb", ".tar.xz"] {
        let equal = fs::read(file(one.path(), end)).unwrap() == fs::read(file(other.path(), end)).unwrap();
        assert!(equal, "two builds of *{end} differ");
    }
}

#[test]
fn the_tarball_has_a_program_that_runs_pages_that_format_and_completions_that_load() {
    let _machine = machine::shared();
    let folder = TempDir::new().unwrap();
    build(folder.path());
    let tarball = file(folder.path(), ".tar.xz");
    succeed(Command::new("tar").arg("--extract").arg("--directory").arg(folder.path()).arg("--file").arg(&tarball));
    let root = PathBuf::from(tarball.to_str().unwrap().strip_suffix(".tar.xz").unwrap());
    let version = succeed(Command::new(root.join("thalweg")).arg("--version")).stdout;
    assert!(version.starts_with("thalweg "), "{version}");

    let groff = program(&["groff"], "groff-base");
    let pages: Vec<_> = fs::read_dir(root.join("man")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(pages.len() > 15, "{pages:?}");
    for page in &pages {
        let ended = succeed(Command::new(&groff).args(["-man", "-Tutf8", "-ww", "-z"]).arg(page));
        assert_eq!(ended.stderr, "", "{}", page.display());
    }
    for shell in ["bash", "zsh", "fish"] {
        let shell_path = program(&[shell], shell);
        succeed(Command::new(shell_path).arg("-n").arg(root.join("completions").join(shell)));
    }
    // Bash is asked for completions, as it asks after `thalweg doc` and Tab.
    let asked =
        "source \"$1\"; COMP_WORDS=(thalweg doc); COMP_CWORD=1; _thalweg thalweg doc thalweg; echo \"${COMPREPLY[*]}\"";
    let mut bash = Command::new("bash");
    let ended = succeed(bash.args(["-c", asked, "bash"]).arg(root.join("completions/bash")));
    assert_eq!(ended.stdout.trim(), "doctor");
}

/// Packages are written to a folder of the test's own, and no registry is asked.
#[test]
fn every_crate_can_be_packaged_for_a_registry() {
    let _machine = machine::shared();
    let folder = TempDir::new().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(REPOSITORY).env("CARGO_TARGET_DIR", folder.path());
    cargo.args(["package", "--workspace", "--no-verify", "--allow-dirty", "--offline", "--locked"]);
    let ended = succeed(&mut cargo);
    let crates = fs::read_dir(format!("{REPOSITORY}/crates")).unwrap().count();
    let packaged = fs::read_dir(folder.path().join("package")).unwrap();
    let packaged =
        packaged.filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "crate"));
    assert_eq!(packaged.count(), crates, "{ended:?}");
    // An address of the sources is not settled; cargo warns about anything else that is missing, too.
    assert!(!ended.stderr.contains("manifest has no description"), "{}", ended.stderr);
    assert!(!ended.stderr.contains("manifest has no license"), "{}", ended.stderr);
}
