//! Dependencies point one way: between crates, and between the top-level modules of a crate, as
//! `layers.toml` has them.

use std::collections::{BTreeMap, BTreeSet};

use crate::Fault;
use crate::graph::{self, Graph};
use crate::repository::{Package, REPOSITORY};

const FILE: &str = "tests/tidy/layers.toml";

/// The modules that each module may use.
type Table = BTreeMap<String, BTreeSet<String>>;

fn read(table: &toml::Table) -> Table {
    let names = |value: &toml::Value| -> BTreeSet<String> {
        let list = value.as_array().expect("a list of names");
        list.iter().map(|name| name.as_str().expect("a name").to_owned()).collect()
    };
    table.iter().map(|(name, value)| (name.clone(), names(value))).collect()
}

fn table(name: &str) -> toml::Table {
    let all: toml::Table = REPOSITORY.text(FILE).parse().expect("TOML");
    all.get(name).and_then(toml::Value::as_table).cloned().unwrap_or_default()
}

fn check_crates(packages: &[Package], allowed: &Table) -> Vec<Fault> {
    let mut faults = Vec::new();
    for package in packages {
        let manifest = format!("{}/Cargo.toml", package.folder);
        let Some(allowed) = allowed.get(&package.folder) else {
            faults.push(Fault::new(FILE, 1, format!("[crates] has no line for {}", package.folder)));
            continue;
        };
        let tables = ["dependencies", "dev-dependencies", "build-dependencies"];
        let ours = tables.iter().flat_map(|table| package.dependencies(table));
        let ours = ours.filter_map(|name| name.strip_prefix("thalweg-").map(str::to_owned));
        for name in ours.collect::<BTreeSet<_>>().difference(allowed) {
            faults.push(Fault::new(
                &manifest,
                1,
                format!("{} may not depend on {name}: see [crates] of {FILE}", package.short_name()),
            ));
        }
    }
    for folder in allowed.keys().filter(|folder| !packages.iter().any(|package| package.folder == **folder)) {
        faults.push(Fault::new(FILE, 1, format!("there is no package {folder}: remove its line of [crates]")));
    }
    faults
}

/// The table may be a circle by itself.
fn check_order(allowed: &Table) -> Vec<Fault> {
    let short = |folder: &str| folder.rsplit('/').next().unwrap_or_default().to_owned();
    let mut left: Table = allowed.iter().map(|(folder, names)| (short(folder), names.clone())).collect();
    while let Some(lowest) =
        left.iter().find(|(_, names)| !names.iter().any(|name| left.contains_key(name))).map(|(name, _)| name.clone())
    {
        left.remove(&lowest);
    }
    left.keys().map(|name| Fault::new(FILE, 1, format!("{name} may use itself by way of others"))).collect()
}

fn check_rooms(graph: &Graph, allowed: &Table) -> Vec<Fault> {
    let room = |module: usize| graph.modules[module].path.first().map_or("root", String::as_str);
    let rooms: BTreeSet<_> = (0..graph.modules.len()).map(room).collect();
    let mut faults = Vec::new();
    for room in rooms.iter().filter(|room| **room != "root" && !allowed.contains_key(**room)) {
        faults.push(Fault::new(FILE, 1, format!("[rooms.\"{}\"] has no line for {room}", graph.folder())));
    }
    for room in
        allowed.iter().flat_map(|(room, names)| names.iter().chain([room])).filter(|room| !rooms.contains(&***room))
    {
        faults.push(Fault::new(FILE, 1, format!("{} has no module {room}", graph.folder())));
    }
    for a_use in graph.uses() {
        let (from, to) = (room(a_use.from), room(a_use.to));
        if from != to && allowed.get(from).is_some_and(|names| !names.contains(to)) {
            faults.push(Fault::new(
                &a_use.file,
                a_use.line,
                format!("{from} may not use {to}, and names {}: see {FILE}", a_use.name),
            ));
        }
    }
    faults
}

pub(crate) fn crates_depend_on_those_below() -> Vec<Fault> {
    let allowed = read(&table("crates"));
    [check_crates(&REPOSITORY.packages(), &allowed), check_order(&allowed)].concat()
}

pub(crate) fn rooms_use_those_they_may() -> Vec<Fault> {
    let rooms = table("rooms");
    let graphs = graph::all();
    let mut faults = Vec::new();
    for (folder, allowed) in &rooms {
        let allowed = read(allowed.as_table().expect("a table of rooms"));
        match graphs.iter().find(|graph| graph.folder() == folder) {
            Some(graph) => faults.extend([check_rooms(graph, &allowed), check_order(&allowed)].concat()),
            None => faults.push(Fault::new(FILE, 1, format!("there is no crate {folder}"))),
        }
    }
    faults
}

#[test]
fn a_dependency_upwards_is_found() {
    let packages = [
        Package::read("crates/load", "[dependencies]\nthalweg-wire = {}\nurl = {}"),
        Package::read("crates/wire", "[dev-dependencies]\nthalweg-load = {}"),
        Package::read("crates/new", ""),
    ];
    let allowed = read(&"\"crates/load\" = [\"wire\"]\n\"crates/wire\" = []\n\"crates/old\" = []".parse().unwrap());
    let advice: Vec<_> = check_crates(&packages, &allowed).into_iter().map(|fault| fault.advice).collect();
    assert_eq!(advice.len(), 3);
    assert!(advice[0].starts_with("wire may not depend on load"), "{advice:?}");
    assert!(advice[1].contains("no line for crates/new") && advice[2].contains("no package crates/old"), "{advice:?}");
}

#[test]
fn a_table_with_a_circle_is_found() {
    let allowed = read(
        &"\"crates/a\" = [\"b\"]\n\"crates/b\" = [\"c\"]\n\"crates/c\" = [\"a\"]\n\"crates/d\" = []".parse().unwrap(),
    );
    assert_eq!(check_order(&allowed).len(), 3);
}

#[test]
fn a_room_that_uses_another_one_uninvited_is_found() {
    let sources = graph::of_texts(&[
        ("c/src/lib.rs", "mod a; mod b; mod d; pub struct Own;"),
        ("c/src/a.rs", "mod e { fn f() { crate::b::g() } }"),
        ("c/src/b.rs", "pub fn g() -> crate::Own { crate::Own }"),
        ("c/src/d.rs", ""),
    ]);
    let graph = Graph::new("c/src/lib.rs", &sources);
    let check = |text: &str| check_rooms(&graph, &read(&text.parse().unwrap()));
    assert_eq!(check("a = [\"b\"]\nb = [\"root\"]\nd = []"), []);
    let advice = |text: &str| check(text).into_iter().map(|fault| fault.advice).collect::<Vec<_>>().join("\n");
    assert!(advice("a = []\nb = [\"root\"]\nd = []").contains("a may not use b, and names g"));
    assert!(advice("a = [\"b\"]\nb = []\nd = []").contains("b may not use root"));
    assert!(advice("a = [\"b\"]\nb = [\"root\"]").contains("no line for d"));
    assert!(advice("a = [\"b\"]\nb = [\"root\"]\nd = []\nx = []").contains("no module x"));
}
