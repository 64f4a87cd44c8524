//! A file system, measured: throughput and CPU use of large files and small ones, the throughput of
//! reads by their size, and of several sequential streams at once.
//!
//! [`measure`] follows a [`Plan`] in a folder of its own and gives a [`document::Document`]; fio
//! moves the data where it is installed, threads of this process otherwise.
//!
//! Deliberately not here: reading options, printing, drawing.
//!
//! | module | owns |
//! | --- | --- |
//! | `document` | the result |
//! | `plan` | sizes, and the room that they need |
//! | `scratch` | the folder of a run, and those of runs that were killed |
//! | `supervision` | interruption, progress, and what a pass has used |
//! | `blocks`, `small_files`, `fio` | passes over one large file, over many small ones, and the former by fio |
//! | `read_sizes`, `curve` | reads of one size after the other; height and jitter of their curve |
//! | `streams`, `scaling` | several sequential streams; whether their throughput collapses |
#![forbid(unsafe_code)]

mod blocks;
mod curve;
pub mod document;
mod fio;
mod mount;
mod plan;
mod read_sizes;
mod run;
mod scaling;
mod scratch;
mod small_files;
mod streams;
mod supervision;

pub use plan::{Cache, EngineChoice, Part, Plan, PlanError, Settings};
pub use run::{Origin, measure};
pub use supervision::Watcher;
