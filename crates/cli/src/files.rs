//! `thalweg files`: the document trees of published tests, written or compared.

use std::fmt::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::ExitCode;

use serde_json::{Value, json};
use thalweg_report::file::write_whole;
use thalweg_trees::{Difference, Progress, Tree, TreeError, TreeSettings, Verified};
use thalweg_units::display;

use crate::byte_progress::ByteProgress;
use crate::exit::{Exit, Failure};
use crate::interrupt::Interrupt;
use crate::options::FilesOptions;
use crate::output::{check_path, print};

/// Differences that the text shows; `--json` has all of them.
const DIFFERENCES_SHOWN: usize = 20;

/// Runs the command.
///
/// # Errors
/// An option is wrong, the directory cannot be written or read, or the user interrupts.
pub(crate) fn files(options: &FilesOptions) -> Result<ExitCode, Failure> {
    let FilesOptions { seed, load, size, sparse, .. } = *options;
    let settings = TreeSettings { seed, load, size, sparse };
    let tree = Tree::new(options.name, &settings).map_err(Failure::usage)?;
    options.urls.as_deref().map_or(Ok(()), |file| check_path("URL list", file))?;
    let verified = carry_out(&tree, options)?;
    if let Some(file) = &options.urls {
        write_whole(file, url_list(&tree).as_bytes()).map_err(|error| {
            Failure::unreachable(format!("cannot write the URL list {}: {error}; the tree is complete", file.display()))
        })?;
    }
    print(&if options.json {
        as_json(&tree, options, verified.as_ref())?
    } else {
        as_text(&tree, options, &verified)
    })?;
    let is_as_it_should_be = verified.is_none_or(|verified| verified.differences.is_empty());
    Ok(if is_as_it_should_be { Exit::Met } else { Exit::NotMet }.into())
}

/// Writes the tree, or compares the directory with it.
fn carry_out(tree: &Tree, options: &FilesOptions) -> Result<Option<Verified>, Failure> {
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let shown = ByteProgress::begin(if options.verify { "comparing" } else { "writing" }, tree.bytes());
    let mut on_progress = |progress: Progress| {
        shown.show(progress.bytes);
        if interrupt.is_wanted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let directory = &options.directory;
    let result = if options.verify {
        tree.verify(directory, &mut on_progress).map(Some)
    } else {
        tree.write(directory, &mut on_progress).map(|_| None)
    };
    drop(shown);
    result.map_err(|error| explain(error, directory, options.verify))
}

fn explain(error: TreeError, directory: &Path, verify: bool) -> Failure {
    match error {
        TreeError::Setting(_) | TreeError::NotEmpty(_) | TreeError::NotDirectory(_) | TreeError::NoParent(_) => {
            Failure::usage(error)
        }
        TreeError::Interrupted if verify => Failure::unreachable("interrupted before all files were compared"),
        TreeError::Interrupted => {
            Failure::unreachable(format!("interrupted; nothing of the tree was kept in {}", directory.display()))
        }
        TreeError::Full { .. } | TreeError::Io { .. } => Failure::unreachable(error),
    }
}

/// The tree's URL list, with a comment that says how to write the tree again.
fn url_list(tree: &Tree) -> String {
    let mut list = format!("# thalweg files {} {}\n", tree.name(), shown_settings(tree).join(" "));
    for file in tree.files() {
        let _ = writeln!(list, "/{} {}", file.path, file.weight);
    }
    list
}

/// The settings as options.
fn shown_settings(tree: &Tree) -> Vec<String> {
    let TreeSettings { seed, load, size, sparse } = *tree.settings();
    let mut shown = vec![format!("--seed {seed}")];
    shown.extend(load.map(|load| format!("--load {load}")));
    shown.extend(size.map(|size| format!("--size {size}")));
    shown.extend(sparse.map(|sparse| format!("--sparse {sparse}")));
    shown
}

fn as_json(tree: &Tree, options: &FilesOptions, verified: Option<&Verified>) -> Result<String, Failure> {
    let TreeSettings { seed, load, size, sparse } = *tree.settings();
    let classes = tree
        .classes()
        .iter()
        .map(|class| json!({ "name": class.name, "files": class.files, "bytes": class.bytes, "share": class.share }));
    let mut document = json!({
        "tree": tree.name().as_str(),
        "directory": options.directory,
        "settings": { "seed": seed, "load": load, "size": size, "sparse": sparse },
        "files": tree.files().len(),
        "bytes": tree.bytes(),
        "requested_bytes_mean": tree.requested_bytes_mean(),
        "classes": classes.collect::<Vec<_>>(),
    });
    if let Some(verified) = verified {
        let differences = verified.differences.iter().map(Difference::to_string).map(Value::from).collect::<Vec<_>>();
        document["verified"] = json!({ "files": verified.files, "bytes": verified.bytes, "differences": differences });
    }
    serde_json::to_string_pretty(&document).map(|json| json + "\n").map_err(Failure::unreachable)
}

fn as_text(tree: &Tree, options: &FilesOptions, verified: &Option<Verified>) -> String {
    let (files, bytes) = (display::count(tree.files().len() as u64), display::bytes(tree.bytes()));
    let directory = options.directory.display();
    let mut text = format!("{} {}: {files} files, {bytes}", tree.name(), shown_settings(tree).join(" "));
    let _ = match verified {
        None => writeln!(text, ", written to {directory}"),
        Some(verified) => writeln!(
            text,
            "; {} of them in {directory} are as they should be",
            if verified.files == tree.files().len() as u64 { "all".to_owned() } else { display::count(verified.files) }
        ),
    };
    let mean = tree.requested_bytes_mean().round() as u64;
    let _ = writeln!(text, "average size, each file counted as often as it is requested: {}", display::bytes(mean));
    let _ = writeln!(text, "{:<14} {:>9} {:>10} {:>9}", "class", "files", "bytes", "requests");
    for class in tree.classes() {
        let (files, bytes) = (display::count(class.files), display::bytes(class.bytes));
        let _ = writeln!(text, "{:<14} {files:>9} {bytes:>10} {:>9}", class.name, display::percent(class.share));
    }
    let differences = verified.as_ref().map_or(&[][..], |verified| &verified.differences);
    if !differences.is_empty() {
        let s = if differences.len() == 1 { "" } else { "s" };
        let _ = writeln!(text, "{} difference{s}:", display::count(differences.len() as u64));
    }
    for difference in differences.iter().take(DIFFERENCES_SHOWN) {
        let _ = writeln!(text, "  {difference}");
    }
    if differences.len() > DIFFERENCES_SHOWN {
        let more = display::count((differences.len() - DIFFERENCES_SHOWN) as u64);
        let _ = writeln!(text, "  and {more} more; --json has all of them");
    }
    text
}
