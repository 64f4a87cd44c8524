//! Runs a program that may not set up an io_uring: `without_ring PROGRAM ARGUMENT...`
//!
//! The kernel answers `io_uring_setup` with EPERM, as it does under the default profile of
//! container engines and where `kernel.io_uring_disabled` is set. Tests use it to hold the way
//! around the ring.
#![forbid(unsafe_code)]

use std::env;
use std::error::Error;
use std::os::unix::process::CommandExt;
use std::process::Command;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

/// Number of the system call, the same on all architectures: it is younger than their common table.
const IO_URING_SETUP: i64 = 425;

const EPERM: u32 = 1;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args_os().skip(1);
    let program = arguments.next().ok_or("usage: without_ring PROGRAM ARGUMENT...")?;
    let rules = [(IO_URING_SETUP, Vec::new())].into();
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(EPERM), env::consts::ARCH.try_into()?)?;
    apply_filter(&BpfProgram::try_from(filter)?)?;
    // It comes back only with an error.
    Err(Command::new(program).args(arguments).exec().into())
}
