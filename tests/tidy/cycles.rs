//! No two modules of a crate use each other, not even through a third.
//!
//! In each module, its own file and each of its child modules (with all that is below) are *units*;
//! a unit uses another one if its code names something that is defined there, through whatever
//! re-export. No unit uses itself by way of others.

use std::collections::{BTreeMap, BTreeSet};

use crate::Fault;
use crate::graph::{self, Graph, Use};

/// The child module that a unit is; none for the parent's own file.
type Unit = Option<usize>;

fn check(graph: &Graph) -> Vec<Fault> {
    let mut levels: BTreeMap<usize, BTreeMap<(Unit, Unit), Vec<Use>>> = BTreeMap::new();
    for a_use in graph.uses() {
        let (level, from, to) = units(graph, &a_use);
        levels.entry(level).or_default().entry((from, to)).or_default().push(a_use);
    }
    let cycles = levels
        .into_iter()
        .flat_map(|(level, edges)| cycles(&edges).into_iter().map(move |cycle| (level, edges.clone(), cycle)));
    cycles.map(|(level, edges, cycle)| fault(graph, level, &edges, &cycle)).collect()
}

/// The lowest module that has both ends of a use below it, and its units that these are in.
fn units(graph: &Graph, a_use: &Use) -> (usize, Unit, Unit) {
    let (from, to) = (ancestry(graph, a_use.from), ancestry(graph, a_use.to));
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    (from[common - 1], from.get(common).copied(), to.get(common).copied())
}

/// A module behind all those that it is in, the crate's root first.
fn ancestry(graph: &Graph, module: usize) -> Vec<usize> {
    let mut path: Vec<_> = std::iter::successors(Some(module), |module| graph.modules[*module].parent).collect();
    path.reverse();
    path
}

/// Units that use each other, each group once.
fn cycles(edges: &BTreeMap<(Unit, Unit), Vec<Use>>) -> BTreeSet<Vec<Unit>> {
    let units: BTreeSet<Unit> = edges.keys().flat_map(|(from, to)| [*from, *to]).collect();
    let reached: BTreeMap<Unit, BTreeSet<Unit>> = units.iter().map(|unit| (*unit, reachable(edges, *unit))).collect();
    let group = |unit: &Unit| -> Vec<Unit> {
        reached[unit].iter().copied().filter(|other| reached[other].contains(unit)).collect()
    };
    units.iter().filter(|unit| reached[*unit].contains(*unit)).map(group).collect()
}

fn reachable(edges: &BTreeMap<(Unit, Unit), Vec<Use>>, unit: Unit) -> BTreeSet<Unit> {
    let (mut found, mut ahead) = (BTreeSet::new(), vec![unit]);
    while let Some(unit) = ahead.pop() {
        for (_, to) in edges.keys().filter(|(from, _)| *from == unit) {
            if found.insert(*to) {
                ahead.push(*to);
            }
        }
    }
    found
}

fn fault(graph: &Graph, level: usize, edges: &BTreeMap<(Unit, Unit), Vec<Use>>, cycle: &[Unit]) -> Fault {
    let name = |unit: Unit| {
        unit.map_or("its own file", |module| graph.modules[module].path.last().expect("a child has a name"))
    };
    let within = edges.iter().filter(|((from, to), _)| cycle.contains(from) && cycle.contains(to));
    let lines = within.map(|((from, to), uses)| {
        let Use { file, line, name: item, .. } = &uses[0];
        let more = if uses.len() > 1 { format!(", and {} more", uses.len() - 1) } else { String::new() };
        format!("\n    {} uses {}: {item} ({file}:{line}{more})", name(*from), name(*to))
    });
    let place = [&["crate".to_owned()], &graph.modules[level].path[..]].concat().join("::");
    let names: Vec<_> = cycle.iter().map(|unit| name(*unit)).collect();
    let advice = format!(
        "in {place} these use each other: {}; move what several of them need into a module below them{}",
        names.join(", "),
        lines.collect::<String>()
    );
    Fault::new(&graph.modules[level].file, 1, advice)
}

pub(crate) fn modules_do_not_use_each_other() -> Vec<Fault> {
    graph::all().iter().flat_map(check).collect()
}

#[cfg(test)]
fn faults(texts: &[(&str, &str)]) -> Vec<Fault> {
    let sources = graph::of_texts(texts);
    check(&Graph::new(texts[0].0, &sources))
}

#[test]
fn siblings_that_use_each_other_are_found() {
    let found = faults(&[
        ("c/src/lib.rs", "mod a; mod b; mod c;"),
        ("c/src/a.rs", "use crate::b::B; pub struct A;"),
        ("c/src/b.rs", "pub struct B(super::c::C);"),
        ("c/src/c.rs", "pub struct C; fn f() { crate::a::A; }"),
    ]);
    assert_eq!(found.len(), 1);
    assert!(found[0].advice.starts_with("in crate these use each other: a, b, c;"), "{}", found[0].advice);
    assert!(found[0].advice.contains("c uses a: A (c/src/c.rs:1)"), "{}", found[0].advice);
}

#[test]
fn a_child_that_uses_what_its_parent_defines_is_found_if_the_parent_uses_the_child() {
    let found = faults(&[
        ("c/src/lib.rs", "mod a;"),
        ("c/src/a.rs", "mod b; pub struct A; fn f() { b::g(); }"),
        ("c/src/a/b.rs", "pub fn g() -> super::A { super::A }"),
    ]);
    assert_eq!(found.len(), 1);
    assert!(found[0].advice.starts_with("in crate::a these use each other: its own file, b;"), "{}", found[0].advice);
}

#[test]
fn re_exports_and_tests_make_no_cycle() {
    let found = faults(&[
        ("c/src/lib.rs", "mod a; mod b; pub use b::g; #[cfg(test)] mod tests { use super::b::h; }"),
        ("c/src/a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::b::g; }"),
        ("c/src/b.rs", "use crate::a::A; pub fn g(a: A) {} pub fn h() { crate::g(A) }"),
    ]);
    assert_eq!(found, []);
}
