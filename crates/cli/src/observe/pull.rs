//! The observer that a measuring command pulls from.

use thalweg_lab::observe::HostObserver;

use super::token::token;
use crate::exit::Failure;
use crate::options::ObserverOptions;

/// Connects to the observer that the options name, if they name one.
///
/// # Errors
/// The token is none, or the observer cannot be reached or refuses it.
pub fn observer(options: &ObserverOptions, load_cpus: &[usize]) -> Result<Option<HostObserver>, Failure> {
    let Some(address) = &options.observe else { return Ok(None) };
    let token = token(options.observe_token_file.as_deref())?;
    HostObserver::there(address, token, load_cpus)
        .map(Some)
        .map_err(|error| Failure::unreachable(format!("--observe: {error}")))
}
