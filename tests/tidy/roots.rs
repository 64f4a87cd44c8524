//! Every crate but those with system calls of their own says that it has no unsafe code.

use crate::Fault;
use crate::repository::{Package, REPOSITORY};
use crate::source::Source;

/// Packages whose purpose is unsafe code.
const PACKAGES_EXEMPT: [&str; 2] = ["crates/sys", "bench/floor"];

/// The fuzzer's macro exports a symbol, which counts as unsafe code.
const FOLDERS_EXEMPT: [&str; 1] = ["fuzz/fuzz_targets/"];

fn check(packages: &[Package], sources: &[Source]) -> Vec<Fault> {
    let lacking = sources.iter().filter(|source| !source.forbids_unsafe);
    let roots = lacking.filter(|source| packages.iter().any(|package| is_root(package, &source.file)));
    let faults = roots.filter(|source| !FOLDERS_EXEMPT.iter().any(|folder| source.file.starts_with(folder)));
    faults
        .map(|source| {
            Fault::new(
                &source.file,
                1,
                "begin with #![forbid(unsafe_code)]; code that needs it belongs into crates/sys",
            )
        })
        .collect()
}

/// Whether a crate of a package begins with this file.
fn is_root(package: &Package, file: &str) -> bool {
    if PACKAGES_EXEMPT.contains(&&*package.folder) {
        return false;
    }
    let Some(within) = file.strip_prefix(&package.folder).and_then(|file| file.strip_prefix('/')) else {
        return package.named_targets().iter().any(|target| target == file);
    };
    match within.split('/').collect::<Vec<_>>()[..] {
        ["build.rs"] | ["src", "lib.rs" | "main.rs"] => true,
        ["src", "bin", _] | ["tests" | "examples" | "benches", _] => true,
        ["src", "bin", _, "main.rs"] | ["tests" | "examples" | "benches", _, "main.rs"] => true,
        _ => package.named_targets().iter().any(|target| target == file),
    }
}

pub(crate) fn crates_forbid_unsafe_code() -> Vec<Fault> {
    check(&REPOSITORY.packages(), &REPOSITORY.sources)
}

#[test]
fn a_root_that_allows_unsafe_code_is_found() {
    let packages = [
        Package::read("crates/cli", "[[test]]\nname = \"t\"\npath = \"../../tests/t/main.rs\""),
        Package::read("crates/sys", ""),
    ];
    let files = [
        "crates/cli/src/main.rs",
        "crates/cli/src/other.rs",
        "crates/cli/tests/a.rs",
        "crates/cli/tests/b/main.rs",
        "crates/cli/tests/b/c.rs",
        "crates/sys/src/lib.rs",
        "tests/t/main.rs",
        "tests/t/other.rs",
    ];
    let sources = files.map(|file| Source::parse(file, "//! Says.\n#![allow(unsafe_code)]\n".to_owned()));
    let found: Vec<_> = check(&packages, &sources).into_iter().map(|fault| fault.file).collect();
    assert_eq!(
        found,
        ["crates/cli/src/main.rs", "crates/cli/tests/a.rs", "crates/cli/tests/b/main.rs", "tests/t/main.rs"]
    );
    let good = [Source::parse("crates/cli/src/main.rs", "//! Says.\n#![forbid(unsafe_code)]\n".to_owned())];
    assert_eq!(check(&packages, &good), []);
}
