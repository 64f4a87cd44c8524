//! Each crate has what a registry asks for, and names the version of each crate that it depends on.

use crate::repository::REPOSITORY;
use crate::{Fault, assert_none};

/// Keys that a registry requires or shows, of each package.
const KEYS: [&str; 7] = ["description", "version", "license", "readme", "keywords", "categories", "rust-version"];

fn check_package(file: &str, manifest: &toml::Table) -> Vec<Fault> {
    let package = manifest["package"].as_table().expect("a table");
    let missing = KEYS.iter().filter(|key| !package.contains_key(**key));
    let mut faults: Vec<_> = missing
        .map(|key| Fault::new(file, 1, format!("[package] has no {key}: add it, or {key}.workspace = true")))
        .collect();
    if package.contains_key("publish") {
        faults.push(Fault::new(file, 1, "publish would keep the crate from a registry: remove it"));
    }
    faults
}

/// A dependency with a path alone cannot be published.
fn check_workspace(workspace: &toml::Table) -> Vec<Fault> {
    let version = &workspace["workspace"]["package"]["version"];
    let all = workspace["workspace"]["dependencies"].as_table().expect("a table");
    let own = all.iter().filter(|(_, value)| value.get("path").is_some());
    let wrong = own.filter(|(_, value)| value.get("version") != Some(version));
    wrong.map(|(name, _)| Fault::new("Cargo.toml", 1, format!("{name} has to have version = {version}"))).collect()
}

#[test]
fn crates_are_ready_to_be_published() {
    let mut faults = check_workspace(&REPOSITORY.text("Cargo.toml").parse().unwrap());
    let manifests = REPOSITORY.files.iter().filter(|file| file.starts_with("crates/") && file.ends_with("/Cargo.toml"));
    for file in manifests {
        faults.extend(check_package(file, &REPOSITORY.text(file).parse().unwrap()));
    }
    assert_none(faults);
}

#[test]
fn a_crate_that_cannot_be_published_is_found() {
    let manifest = "[package]\nname = 'one'\nversion = '0.1.0'\nlicense = 'MIT'\npublish = false".parse().unwrap();
    assert_eq!(check_package("Cargo.toml", &manifest).len(), 6);
    let workspace = "[workspace.package]\nversion = '0.2.0'\n[workspace.dependencies]\nnone = { path = 'a' }\n\
                     old = { path = 'b', version = '0.1.0' }\nright = { path = 'c', version = '0.2.0' }\nother = '1'";
    assert_eq!(check_workspace(&workspace.parse().unwrap()).len(), 2);
}
