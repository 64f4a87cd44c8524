//! Every crate of the workspace can be published: its manifest says what a registry asks for, and
//! each dependency by path has a version too.

use crate::Fault;
use crate::repository::{Package, REPOSITORY};

/// Fields that a manifest has, itself or through the workspace.
const FIELDS: [&str; 7] = ["description", "version", "edition", "license", "readme", "keywords", "categories"];

fn check(package: &Package) -> Vec<Fault> {
    let file = format!("{}/Cargo.toml", package.folder);
    let table = &package.manifest["package"];
    let missing = FIELDS.iter().filter(|field| table.get(field).is_none());
    let mut faults: Vec<Fault> =
        missing.map(|field| Fault::new(&file, 1, format!("[package] has no {field}: add it"))).collect();
    if table.get("publish").is_some() {
        faults.push(Fault::new(&file, 1, "publish is restricted: remove the key"));
    }
    faults
}

fn check_workspace(workspace: &toml::Table) -> Vec<Fault> {
    let all = workspace["workspace"]["dependencies"].as_table().expect("a table");
    let no_version = |value: &toml::Value| value.get("path").is_some() && value.get("version").is_none();
    let named = all.iter().filter(|(_, value)| no_version(value));
    named.map(|(name, _)| Fault::new("Cargo.toml", 1, format!("{name} has a path and no version: add it"))).collect()
}

pub(crate) fn crates_can_be_published() -> Vec<Fault> {
    let packages = REPOSITORY.packages();
    let crates = packages.iter().filter(|package| package.folder.starts_with("crates/"));
    let workspace = REPOSITORY.text("Cargo.toml").parse().expect("TOML");
    crates.flat_map(check).chain(check_workspace(&workspace)).collect()
}

#[test]
fn a_crate_that_cannot_be_published_is_found() {
    let package = Package::read("crates/x", "[package]\nname = \"x\"\npublish = false\nversion = \"1.0.0\"\n");
    let advice: Vec<String> = check(&package).into_iter().map(|fault| fault.advice).collect();
    assert_eq!(advice.len(), FIELDS.len() - 1 + 1, "{advice:?}");
    let workspace = "[workspace.dependencies]\nx = { path = \"crates/x\" }\ny = { path = \"y\", version = \"1\" }\n";
    let faults = check_workspace(&workspace.parse().expect("TOML"));
    assert_eq!(faults.len(), 1, "{faults:?}");
}
