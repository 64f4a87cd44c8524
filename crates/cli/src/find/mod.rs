//! `thalweg find`: the capacity search of one target, or of several one after the other.

mod one;
mod several;

use std::process::ExitCode;

use self::one::{Prepared, prepare, search};
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::options::FindOptions;
use crate::{output, second_client};

/// Runs the command.
///
/// # Errors
/// There is no result: the options are wrong, or the target or a resource of this host is not
/// available.
pub(crate) fn find(options: &FindOptions) -> Result<ExitCode, Failure> {
    output::check(&options.output)?;
    if options.targets.len() > 1 {
        several::form(options)?;
    }
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let prepared: Vec<Prepared> =
        options.targets.iter().map(|target| prepare(options, target)).collect::<Result<_, _>>()?;
    if let (Some(share), [one]) = (&options.client_share, &prepared[..]) {
        return second_client::offer(share, one.base.clone(), one.target.clone(), one.limits.clone());
    }
    match <[Prepared; 1]>::try_from(prepared) {
        Ok([one]) => output::give_out(&search(options, one, &interrupt, &options.output.store)?, &options.output),
        Err(prepared) => several::find(options, prepared, &interrupt),
    }
}
