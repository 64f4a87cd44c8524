//! Document trees of published tests, as figures and as files.

#![forbid(unsafe_code)]

mod figures;
mod writing;
