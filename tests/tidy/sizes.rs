//! Functions, files and the repository stay small; `exceptions.toml` has what is longer, and why.

use crate::Fault;
use crate::exceptions::{Exceptions, FILE as EXCEPTIONS, without};
use crate::repository::REPOSITORY;
use crate::source::Source;

const FUNCTION_LINES_MAX: usize = 70;
const FILE_LINES_MAX: usize = 600;
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// Of all tracked files together. There were 10.4 MiB at version 0.2.0.
const REPOSITORY_BYTES_MAX: u64 = 16 * 1024 * 1024;
const REPORTS_MAX: usize = 2;

fn check_functions(sources: &[Source], exceptions: &Exceptions) -> Vec<Fault> {
    let functions = sources.iter().flat_map(|source| source.functions.iter().map(move |function| (source, function)));
    let long = functions.filter(|(_, function)| function.lines > FUNCTION_LINES_MAX).map(|(source, function)| {
        let advice =
            format!("{} has {} lines: split it, or give its reason in {EXCEPTIONS}", function.name, function.lines);
        ((source.file.clone(), function.name.clone()), Fault::new(&source.file, function.line, advice))
    });
    without(long.collect(), &exceptions.functions)
}

fn check_files(sources: &[Source], exceptions: &Exceptions) -> Vec<Fault> {
    let lengths = sources.iter().map(|source| (&source.file, source.text.lines().count()));
    let long = lengths.filter(|(_, lines)| *lines > FILE_LINES_MAX).map(|(file, lines)| {
        let advice = format!("the file has {lines} lines: split it, or give its reason in {EXCEPTIONS}");
        (file.clone(), Fault::new(file, FILE_LINES_MAX, advice))
    });
    without(long.collect(), &exceptions.files)
}

fn check_bytes(files: &[(&str, u64)], exceptions: &Exceptions) -> Vec<Fault> {
    let large = files.iter().filter(|(_, bytes)| *bytes > FILE_BYTES_MAX).map(|(file, bytes)| {
        let advice = format!(
            "{bytes} bytes, more than {FILE_BYTES_MAX}: pack it, leave it out, or give its reason in {EXCEPTIONS}"
        );
        ((*file).to_owned(), Fault::new(file, 1, advice))
    });
    let mut faults = without(large.collect(), &exceptions.large);
    let all: u64 = files.iter().map(|(_, bytes)| bytes).sum();
    if all > REPOSITORY_BYTES_MAX {
        let advice = format!(
            "all files have {all} bytes together, more than {REPOSITORY_BYTES_MAX}: take results out of bench/results whose \
             README.md suffices"
        );
        faults.push(Fault::new(".", 1, advice));
    }
    let reports: Vec<_> = files.iter().map(|(file, _)| *file).filter(|file| file.ends_with(".html")).collect();
    if reports.len() > REPORTS_MAX {
        faults.push(Fault::new(reports[0], 1, format!("more than {REPORTS_MAX} HTML reports: {}", reports.join(", "))));
    }
    faults
}

pub(crate) fn functions_are_short() -> Vec<Fault> {
    let exceptions = Exceptions::current();
    let faults = check_functions(&REPOSITORY.sources, &exceptions);
    [faults, exceptions.faults].concat()
}

pub(crate) fn source_files_are_short() -> Vec<Fault> {
    check_files(&REPOSITORY.sources, &Exceptions::current())
}

pub(crate) fn the_repository_is_small() -> Vec<Fault> {
    let files: Vec<_> = REPOSITORY.files.iter().map(|file| (&**file, REPOSITORY.bytes(file))).collect();
    check_bytes(&files, &Exceptions::current())
}

#[test]
fn too_long_lines_and_too_many_entries_are_found() {
    let function = |lines: usize| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines - 2));
    let sources = [
        Source::parse("good.rs", function(FUNCTION_LINES_MAX)),
        Source::parse("long.rs", function(FUNCTION_LINES_MAX + 1)),
        Source::parse("file.rs", "// A line.\n".repeat(FILE_LINES_MAX + 1)),
    ];
    let none = Exceptions::read("");
    assert_eq!(check_functions(&sources, &none)[0].file, "long.rs");
    assert_eq!(check_files(&sources, &none)[0].file, "file.rs");
    let text = "[[function]]\nfile = \"long.rs\"\nname = \"f\"\nreason = \"It is long.\"\n[[file]]\nfile = \"file.rs\"\nreason = \"A long table.\"\n";
    let all = Exceptions::read(text);
    assert_eq!([check_functions(&sources, &all), check_files(&sources, &all), all.faults].concat(), []);
    let unneeded = Exceptions::read(&text.replace("long.rs", "good.rs").replace("It is long.", ""));
    assert_eq!(check_functions(&sources, &unneeded).len(), 2);
    assert_eq!(unneeded.faults[0].line, 1);
}

#[test]
fn a_large_file_a_large_repository_and_many_reports_are_found() {
    let none = Exceptions::read("");
    assert_eq!(check_bytes(&[("a", FILE_BYTES_MAX), ("b.html", 1), ("c.html", 1)], &none), []);
    assert_eq!(check_bytes(&[("a", FILE_BYTES_MAX + 1)], &none).len(), 1);
    assert_eq!(check_bytes(&vec![("a", FILE_BYTES_MAX); 64], &none), []);
    assert_eq!(check_bytes(&vec![("a", FILE_BYTES_MAX); 65], &none).len(), 1);
    assert_eq!(check_bytes(&[("a.html", 1), ("b.html", 1), ("c.html", 1)], &none).len(), 1);
}
