//! The rules of the house as tests: CONTRIBUTING.md lists them.
//!
//! They read the repository's files, compile nothing and measure nothing. Each rule is a function
//! from what it reads to a list of [`Fault`]s, one test that the repository has none, and tests
//! with an input that breaks the rule. Data that rules compare with stands in `layers.toml` (which
//! crate and which module may use which other one) and `exceptions.toml` (long functions and files,
//! with their reasons).
//!
//! | module | owns |
//! | --- | --- |
//! | [`repository`] | the list of files, and what they contain |
//! | [`source`], [`paths`] | facts of a Rust file: modules, names they define and use, functions, comments |
//! | [`graph`] | which module of a crate uses which other one |
//! | [`cycles`], [`layers`], [`roots`], [`sizes`], [`comments`], [`dependencies`], [`references`], [`defaults`], [`publishing`] | the rules |
#![forbid(unsafe_code)]

mod comments;
mod cycles;
mod defaults;
mod dependencies;
mod graph;
mod layers;
mod paths;
mod publishing;
mod references;
mod repository;
mod roots;
mod sizes;
mod source;

/// A place that breaks a rule, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fault {
    file: String,
    line: usize,
    advice: String,
}

impl Fault {
    fn new(file: &str, line: usize, advice: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, advice: advice.into() }
    }
}

/// Fails with all faults, one per line, as compilers show places.
#[track_caller]
fn assert_none(mut faults: Vec<Fault>) {
    faults.sort();
    let lines: Vec<_> = faults.iter().map(|Fault { file, line, advice }| format!("{file}:{line}: {advice}")).collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), lines.join("\n"));
}
