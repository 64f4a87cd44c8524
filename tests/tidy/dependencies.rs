//! Every dependency is used: named in the code of its package, and every one of the workspace in a
//! package.

use std::collections::BTreeSet;

use crate::Fault;
use crate::repository::{Package, REPOSITORY};

/// Faults of a package, whose code is given as pairs of path and text.
fn check(package: &Package, code: &[(&str, &str)]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let sources = format!("{}/src/", package.folder);
    for table in ["dependencies", "dev-dependencies", "build-dependencies"] {
        for name in package.dependencies(table) {
            let word = name.replace('-', "_");
            // Tests may use what the library depends on; the library has to use it itself.
            let mut files = code
                .iter()
                .filter(|(file, _)| table != "dependencies" || file.starts_with(&sources) || package.folder == "fuzz");
            if !files.any(|(_, text)| has_word(text, &word)) {
                let manifest = format!("{}/Cargo.toml", package.folder);
                faults.push(Fault::new(&manifest, 1, format!("[{table}] has {name}, and no code names it: remove it")));
            }
        }
    }
    faults
}

fn has_word(text: &str, word: &str) -> bool {
    let part = |character: char| character.is_alphanumeric() || character == '_';
    text.match_indices(word).any(|(at, _)| {
        !text[..at].ends_with(part) && !text[at + word.len()..].starts_with(part) && !in_comment(text, at)
    })
}

fn in_comment(text: &str, at: usize) -> bool {
    text[text[..at].rfind('\n').map_or(0, |newline| newline + 1)..at].trim_start().starts_with("//")
}

fn check_workspace(workspace: &toml::Table, packages: &[Package]) -> Vec<Fault> {
    let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
    let used: BTreeSet<_> =
        packages.iter().flat_map(|package| tables.iter().flat_map(|table| package.dependencies(table))).collect();
    let all = workspace["workspace"]["dependencies"].as_table().expect("a table");
    let unused = all.keys().filter(|name| !used.contains(*name));
    unused.map(|name| Fault::new("Cargo.toml", 1, format!("no package depends on {name}: remove it"))).collect()
}

/// Files of a package: those in its folder, and those beside the root files that its manifest
/// names.
fn code<'r>(package: &Package) -> Vec<(&'r str, &'r str)> {
    let elsewhere = package.named_targets().into_iter().map(|target| match target.strip_suffix("/main.rs") {
        Some(folder) => format!("{folder}/"),
        None => target,
    });
    let places: Vec<_> = elsewhere.chain([format!("{}/", package.folder)]).collect();
    let sources = REPOSITORY.sources.iter().filter(|source| places.iter().any(|place| source.file.starts_with(place)));
    sources.map(|source| (&*source.file, &*source.text)).collect()
}

pub(crate) fn dependencies_are_used() -> Vec<Fault> {
    let packages = REPOSITORY.packages();
    let workspace: toml::Table = REPOSITORY.text("Cargo.toml").parse().unwrap();
    let faults = packages.iter().flat_map(|package| check(package, &code(package)));
    faults.chain(check_workspace(&workspace, &packages)).collect()
}

#[test]
fn a_dependency_that_no_code_names_is_found() {
    let package =
        Package::read("crates/a", "[dependencies]\none-x = {}\ntwo = {}\n[dev-dependencies]\nthree = {}\nfour = {}");
    let code = [
        ("crates/a/src/lib.rs", "use one_x::Y;\n// two\nuse two_other::Z;"),
        ("crates/a/tests/t.rs", "three!();\ntwo::f();"),
    ];
    let advice: Vec<_> = check(&package, &code).into_iter().map(|fault| fault.advice).collect();
    assert_eq!(advice.len(), 2, "{advice:?}");
    assert!(advice[0].contains("has two,") && advice[1].contains("has four,"), "{advice:?}");
    let workspace = "[workspace.dependencies]\none-x = \"1\"\nfive = \"1\"".parse().unwrap();
    assert_eq!(check_workspace(&workspace, &[package])[0].advice, "no package depends on five: remove it");
}
