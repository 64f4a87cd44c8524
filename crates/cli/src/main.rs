//! The thalweg command.
#![forbid(unsafe_code)]
fn main() {}
