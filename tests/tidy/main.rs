//! The rules of the house as tests: CONTRIBUTING.md lists them.
//!
//! They read the repository's files, compile nothing and measure nothing. Each rule is a function
//! from what it reads to a list of [`Fault`]s, a line of [`RULES`], and tests with an input that
//! breaks the rule. Data that rules compare with stands in `layers.toml` (which
//! crate and which module may use which other one) and `exceptions.toml` (long functions and files,
//! with their reasons).
//!
//! | module | owns |
//! | --- | --- |
//! | [`repository`] | the list of files, and what they contain |
//! | [`source`], [`paths`] | facts of a Rust file: modules, names they define and use, functions, comments |
//! | [`graph`] | which module of a crate uses which other one |
//! | [`cycles`], [`layers`], [`roots`], [`sizes`], [`comments`], [`commits`], [`dependencies`], [`references`], [`defaults`], [`publishing`], [`unused`] | the rules |
//! | [`exceptions`] | what may break a rule, with its reason |
#![forbid(unsafe_code)]

mod comments;
mod commits;
mod cycles;
mod defaults;
mod dependencies;
mod exceptions;
mod graph;
mod layers;
mod paths;
mod publishing;
mod references;
mod repository;
mod roots;
mod sizes;
mod source;
mod unused;

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

/// Finds all places of the repository that break one rule.
type Rule = fn() -> Vec<Fault>;

const RULES: [(&str, Rule); 20] = [
    ("commits say where and why", commits::commits_say_where_and_why),
    ("comments are wrapped", comments::comments_are_wrapped),
    ("comments begin with their subject", comments::comments_begin_with_their_subject),
    ("modules do not use each other", cycles::modules_do_not_use_each_other),
    ("documents have the defaults of the program", defaults::documents_have_the_defaults_of_the_program),
    (
        "options and units have the defaults of the configuration",
        defaults::options_and_units_have_the_defaults_of_the_configuration,
    ),
    ("dependencies are used", dependencies::dependencies_are_used),
    ("crates depend on those below", layers::crates_depend_on_those_below),
    ("rooms use those they may", layers::rooms_use_those_they_may),
    ("crates can be published", publishing::crates_can_be_published),
    ("paths in comments exist", references::paths_in_comments_exist),
    ("paths in documents and scripts exist", references::paths_in_documents_and_scripts_exist),
    ("links lead to headings that exist", references::links_lead_to_headings_that_exist),
    ("paths in help texts exist", references::paths_in_help_texts_exist),
    ("entries of what was tried exist", references::entries_of_what_was_tried_exist),
    ("crates forbid unsafe code", roots::crates_forbid_unsafe_code),
    ("functions are short", sizes::functions_are_short),
    ("source files are short", sizes::source_files_are_short),
    ("the repository is small", sizes::the_repository_is_small),
    ("exported items are used", unused::exported_items_are_used),
];

/// One test for all rules: it parses the repository once, and a run that fails names every fault,
/// one per line, as compilers show places.
#[test]
fn the_repository_keeps_its_rules() {
    let faults = RULES.iter().flat_map(|(rule, faults)| {
        let mut faults = faults();
        faults.sort();
        faults.into_iter().map(move |Fault { file, line, advice }| format!("{file}:{line}: {advice} [{rule}]"))
    });
    let faults: Vec<_> = faults.collect();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}
