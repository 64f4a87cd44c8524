//! The document trees of the suites, beneath one folder that all servers have as their root.

use std::ops::ControlFlow;
use std::path::Path;

use thalweg_report::document::SuiteName;
use thalweg_trees::{Progress, Tree, TreeError, TreeName, TreeSettings};
use thalweg_units::display;

use crate::byte_progress::ByteProgress;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::options::SuiteTableOptions;

/// Most differing files that an error names.
const DIFFERENCES_SHOWN_MAX: usize = 3;

/// The tree of a suite, and its folder.
#[derive(Debug)]
pub(super) struct SuiteTree {
    suite: SuiteName,
    tree: Tree,
    /// The name of its folder.
    pub(super) folder: String,
}

impl SuiteTree {
    /// The tree of a suite with these options.
    ///
    /// # Errors
    /// There is no such tree.
    pub(super) fn of(suite: SuiteName, options: &SuiteTableOptions) -> Result<Self, Failure> {
        let load = match suite {
            SuiteName::Specweb96 => Some(options.specweb96_load),
            SuiteName::Specweb99 => Some(options.specweb99_load),
            _ => None,
        };
        let name: TreeName = suite.name().parse().expect("each suite has a tree of its name");
        let settings = TreeSettings { seed: options.seed, load, ..TreeSettings::default() };
        let tree = Tree::new(name, &settings).map_err(Failure::usage)?;
        // One folder holds the trees of several loads and seeds.
        let mut folder = suite.name().to_owned();
        folder.extend(load.map(|load| format!("-{load}")));
        if options.seed != 1 {
            folder.push_str(&format!("-seed-{}", options.seed));
        }
        Ok(Self { suite, tree, folder })
    }

    /// How many files it has.
    pub(super) fn files(&self) -> u64 {
        self.tree.files().len() as u64
    }
}

/// Writes the tree of a suite unless it is there, and compares it if it is. Returns whether it is
/// there now; it is not if the user ended it.
///
/// # Errors
/// It cannot be written, or another tree is there.
pub(super) fn ensure(suite_tree: &SuiteTree, root: &Path, interrupt: &Interrupt) -> Result<bool, Failure> {
    let SuiteTree { suite, tree, folder } = suite_tree;
    let path = root.join(folder);
    let is_there = path.exists();
    let what = format!("{} the tree of {suite}:", if is_there { "comparing" } else { "writing" });
    let shown = ByteProgress::begin(what, tree.bytes());
    let mut progress = |done: Progress| {
        shown.show(done.bytes);
        if interrupt.is_wanted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let ended = if is_there {
        tree.verify(&path, &mut progress).map(|verified| verified.differences)
    } else {
        tree.write(&path, &mut progress).map(|_| Vec::new())
    };
    drop(shown);
    match ended {
        Ok(differences) if differences.is_empty() => Ok(true),
        Ok(differences) => {
            let shown: Vec<String> = differences.iter().take(DIFFERENCES_SHOWN_MAX).map(ToString::to_string).collect();
            Err(Failure::usage(format!(
                "{} is not the tree of {suite}; {} files differ: {}; remove it, or choose another folder by --trees",
                path.display(),
                display::count(differences.len() as u64),
                shown.join(", ")
            )))
        }
        Err(TreeError::Interrupted) => Ok(false),
        Err(error) => Err(Failure::unreachable(error)),
    }
}
