//! Document trees of published tests: which files they have, which content, and how often each file
//! is requested.
//!
//! A [`Tree`] is a pure function of its name and its [`TreeSettings`]. It can be written to a
//! directory, and a directory can be compared with it. The content of a file depends on the seed,
//! on the tree's name and on its path only, so that no copy is needed for that. The sources of
//! figures, and choices where a source leaves something out, are in docs/suites.md.
//!
//! Requests are not drawn here: [`TreeFile::weight`] is the share that a load gives to each file.
#![forbid(unsafe_code)]

mod content;
mod draw;
mod error;
mod file;
mod layout;
mod name;
mod tree;
mod verify;
mod write;

pub use error::{SettingError, TreeError};
pub use file::{FileClass, TreeFile};
pub use name::{NameError, TreeName};
pub use tree::{Tree, TreeSettings};
pub use verify::{Difference, Mismatch, Verified};
pub use write::{Progress, Written};
